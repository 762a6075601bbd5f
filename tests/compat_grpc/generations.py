"""Clients of three message generations, each made from a description of its own and not from the server's.

A generation is told by its fields. Their descriptions are written here, built when the tests run, and kept in
pools of their own: the process may know each message by one description only.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import grpc
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
)

PACKAGE = "clusterautoscaler.cloudprovider.v1.externalgrpc"
OLD, BOTH, NEW = "1.25-1.33", "1.34", "1.35+"
GENERATIONS = (OLD, BOTH, NEW)

_TYPES = {
    "string": 9, "int32": 5, "int64": 3, "double": 1, "bool": 8, "bytes": 12,
}  # fmt: skip

# name: [(field, number, type, in which generations)]; a type with a point is a message, `*` is repeated,
# `map:` a map of strings to that type.
_EVERY, _UNTIL_134, _FROM_134 = GENERATIONS, (OLD, BOTH), (BOTH, NEW)
_K = ".k8s."
_G = ".google.protobuf."
_E = f".{PACKAGE}."
Field = tuple[str, int, str, tuple[str, ...]]
MESSAGES: dict[str, list[Field]] = {
    "NodeGroup": [
        ("id", 1, "string", _EVERY), ("minSize", 2, "int32", _EVERY), ("maxSize", 3, "int32", _EVERY),
        ("debug", 4, "string", _EVERY),
    ],
    "ExternalGrpcNode": [
        ("providerID", 1, "string", _EVERY), ("name", 2, "string", _EVERY),
        ("labels", 3, "map:string", _EVERY), ("annotations", 4, "map:string", _EVERY),
    ],
    "NodeGroupsRequest": [],
    "NodeGroupsResponse": [("nodeGroups", 1, f"*{_E}NodeGroup", _EVERY)],
    "NodeGroupForNodeRequest": [("node", 1, f"{_E}ExternalGrpcNode", _EVERY)],
    "NodeGroupForNodeResponse": [("nodeGroup", 1, f"{_E}NodeGroup", _EVERY)],
    "PricingNodePriceRequest": [
        ("node", 1, f"{_E}ExternalGrpcNode", _EVERY),
        ("startTime", 2, f"{_K}Time", _UNTIL_134), ("endTime", 3, f"{_K}Time", _UNTIL_134),
        ("startTimestamp", 4, f"{_G}Timestamp", _FROM_134), ("endTimestamp", 5, f"{_G}Timestamp", _FROM_134),
    ],
    "PricingNodePriceResponse": [("price", 1, "double", _EVERY)],
    "PricingPodPriceRequest": [
        ("pod", 1, f"{_K}Pod", _UNTIL_134),
        ("startTime", 2, f"{_K}Time", _UNTIL_134), ("endTime", 3, f"{_K}Time", _UNTIL_134),
        ("pod_bytes", 4, "bytes", _FROM_134),
        ("startTimestamp", 5, f"{_G}Timestamp", _FROM_134), ("endTimestamp", 6, f"{_G}Timestamp", _FROM_134),
    ],
    "PricingPodPriceResponse": [("price", 1, "double", _EVERY)],
    "GPULabelRequest": [],
    "GPULabelResponse": [("label", 1, "string", _EVERY)],
    "GetAvailableGPUTypesRequest": [],
    "GetAvailableGPUTypesResponse": [("gpuTypes", 1, f"map:{_G}Any", _EVERY)],
    "CleanupRequest": [],
    "CleanupResponse": [],
    "RefreshRequest": [],
    "RefreshResponse": [],
    "NodeGroupTargetSizeRequest": [("id", 1, "string", _EVERY)],
    "NodeGroupTargetSizeResponse": [("targetSize", 1, "int32", _EVERY)],
    "NodeGroupIncreaseSizeRequest": [("delta", 1, "int32", _EVERY), ("id", 2, "string", _EVERY)],
    "NodeGroupIncreaseSizeResponse": [],
    "NodeGroupDeleteNodesRequest": [
        ("nodes", 1, f"*{_E}ExternalGrpcNode", _EVERY), ("id", 2, "string", _EVERY),
    ],
    "NodeGroupDeleteNodesResponse": [],
    "NodeGroupDecreaseTargetSizeRequest": [("delta", 1, "int32", _EVERY), ("id", 2, "string", _EVERY)],
    "NodeGroupDecreaseTargetSizeResponse": [],
    "NodeGroupNodesRequest": [("id", 1, "string", _EVERY)],
    "NodeGroupNodesResponse": [("instances", 1, f"*{_E}Instance", _EVERY)],
    "Instance": [("id", 1, "string", _EVERY), ("status", 2, f"{_E}InstanceStatus", _EVERY)],
    "InstanceStatus": [
        ("instanceState", 1, "int32", _EVERY), ("errorInfo", 2, f"{_E}InstanceErrorInfo", _EVERY),
    ],
    "InstanceErrorInfo": [
        ("errorCode", 1, "string", _EVERY), ("errorMessage", 2, "string", _EVERY),
        ("instanceErrorClass", 3, "int32", _EVERY),
    ],
    "NodeGroupTemplateNodeInfoRequest": [("id", 1, "string", _EVERY)],
    "NodeGroupTemplateNodeInfoResponse": [
        ("nodeInfo", 1, f"{_K}Node", _UNTIL_134), ("nodeBytes", 2, "bytes", _FROM_134),
    ],
    "NodeGroupAutoscalingOptions": [
        ("scaleDownUtilizationThreshold", 1, "double", _EVERY),
        ("scaleDownGpuUtilizationThreshold", 2, "double", _EVERY),
        ("scaleDownUnneededTime", 3, f"{_K}Duration", _UNTIL_134),
        ("scaleDownUnreadyTime", 4, f"{_K}Duration", _UNTIL_134),
        ("MaxNodeProvisionTime", 5, f"{_K}Duration", _UNTIL_134),
        ("zeroOrMaxNodeScaling", 6, "bool", _EVERY),
        ("ignoreDaemonSetsUtilization", 7, "bool", _EVERY),
        ("scaleDownUnneededDuration", 8, f"{_G}Duration", _FROM_134),
        ("scaleDownUnreadyDuration", 9, f"{_G}Duration", _FROM_134),
        ("MaxNodeProvisionDuration", 10, f"{_G}Duration", _FROM_134),
    ],
    "NodeGroupAutoscalingOptionsRequest": [
        ("id", 1, "string", _EVERY), ("defaults", 2, f"{_E}NodeGroupAutoscalingOptions", _EVERY),
    ],
    "NodeGroupAutoscalingOptionsResponse": [
        ("nodeGroupAutoscalingOptions", 1, f"{_E}NodeGroupAutoscalingOptions", _EVERY),
    ],
}  # fmt: skip

# What Kubernetes' own messages have on the wire, as far as the tests look at them.
KUBERNETES: dict[str, list[Field]] = {
    "Time": [("seconds", 1, "int64", _EVERY), ("nanos", 2, "int32", _EVERY)],
    "Duration": [("duration", 1, "int64", _EVERY)],
    "Quantity": [("string", 1, "string", _EVERY)],
    "Meta": [("name", 1, "string", _EVERY), ("labels", 11, "map:string", _EVERY)],
    "Taint": [("key", 1, "string", _EVERY), ("value", 2, "string", _EVERY), ("effect", 3, "string", _EVERY)],
    "NodeSpec": [("providerID", 3, "string", _EVERY), ("taints", 5, f"*{_K}Taint", _EVERY)],
    "Condition": [("type", 1, "string", _EVERY), ("status", 2, "string", _EVERY)],
    "NodeStatus": [
        ("capacity", 1, f"map:{_K}Quantity", _EVERY), ("allocatable", 2, f"map:{_K}Quantity", _EVERY),
        ("conditions", 4, f"*{_K}Condition", _EVERY),
    ],
    "Node": [
        ("metadata", 1, f"{_K}Meta", _EVERY), ("spec", 2, f"{_K}NodeSpec", _EVERY),
        ("status", 3, f"{_K}NodeStatus", _EVERY),
    ],
    "Resources": [
        ("limits", 1, f"map:{_K}Quantity", _EVERY), ("requests", 2, f"map:{_K}Quantity", _EVERY),
    ],
    "Container": [("name", 1, "string", _EVERY), ("resources", 8, f"{_K}Resources", _EVERY)],
    "PodSpec": [("containers", 2, f"*{_K}Container", _EVERY)],
    "Pod": [("metadata", 1, f"{_K}Meta", _EVERY), ("spec", 2, f"{_K}PodSpec", _EVERY)],
}  # fmt: skip

METHODS = {
    name: (request, response)
    for name, request, response in [
        *(
            (name, f"{name}Request", f"{name}Response")
            for name in (
                "NodeGroups", "NodeGroupForNode", "PricingNodePrice", "PricingPodPrice", "GPULabel",
                "GetAvailableGPUTypes", "Cleanup", "Refresh", "NodeGroupTargetSize", "NodeGroupIncreaseSize",
                "NodeGroupDeleteNodes", "NodeGroupDecreaseTargetSize", "NodeGroupNodes",
                "NodeGroupTemplateNodeInfo",
            )
        ),
        ("NodeGroupGetOptions", "NodeGroupAutoscalingOptionsRequest", "NodeGroupAutoscalingOptionsResponse"),
    ]
}  # fmt: skip


def _fill(message: Any, path: str, fields: list[Field], generation: str) -> None:
    for name, number, kind, generations in fields:
        if generation not in generations:
            continue
        field = message.field.add(name=name, number=number, label=1)
        if kind.startswith("map:"):
            entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
            entry_name = name[0].upper() + name[1:] + "Entry"
            entry = message.nested_type.add(name=entry_name)
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=1, type=9)
            _type(entry.field.add(name="value", number=2, label=1), kind[4:])
            field.label, field.type, field.type_name = 3, 11, f"{path}.{entry_name}"
            continue
        if kind.startswith("*"):
            field.label, kind = 3, kind[1:]
        _type(field, kind)


def _type(field: Any, kind: str) -> None:
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = 11, kind


@cache
def messages(generation: str) -> dict[str, Any]:
    """By name: the classes of that generation's messages, and Kubernetes' own as `k8s.Node`."""
    pool = descriptor_pool.DescriptorPool()
    for known in (any_pb2, timestamp_pb2, duration_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    kubernetes = descriptor_pb2.FileDescriptorProto(name="k8s.proto", package="k8s", syntax="proto3")
    for name, fields in KUBERNETES.items():
        _fill(kubernetes.message_type.add(name=name), f"{_K}{name}", fields, generation)
    pool.AddSerializedFile(kubernetes.SerializeToString())
    ours = descriptor_pb2.FileDescriptorProto(name="client.proto", package=PACKAGE, syntax="proto3")
    ours.dependency.extend(
        [
            "k8s.proto",
            "google/protobuf/any.proto",
            "google/protobuf/timestamp.proto",
            "google/protobuf/duration.proto",
        ]
    )
    for name, fields in MESSAGES.items():
        _fill(ours.message_type.add(name=name), f"{_E}{name}", fields, generation)
    pool.AddSerializedFile(ours.SerializeToString())
    found = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in MESSAGES
    }
    return found | {
        f"k8s.{name}": message_factory.GetMessageClass(pool.FindMessageTypeByName(f"k8s.{name}"))
        for name in KUBERNETES
    }


class Client:
    """One client, over one channel: `await client.NodeGroupNodes(id="g")`."""

    def __init__(self, channel: Any, generation: str = NEW, timeout: float = 5.0) -> None:
        self.generation = generation
        self.messages = messages(generation)
        self._timeout = timeout
        self._calls = {
            name: channel.unary_unary(
                f"/{PACKAGE}.CloudProvider/{name}",
                request_serializer=self.messages[request].SerializeToString,
                response_deserializer=self.messages[response].FromString,
            )
            for name, (request, response) in METHODS.items()
        }

    def __getattr__(self, name: str) -> Any:
        call, request = self._calls[name], self.messages[METHODS[name][0]]

        async def send(**fields: Any) -> Any:
            return await call(request(**fields), timeout=self._timeout)

        return send

    def node(self, provider_id: str = "", name: str = "", **labels: str) -> Any:
        return self.messages["ExternalGrpcNode"](
            providerID=provider_id, name=name or provider_id, labels=labels
        )

    def template_node(self, answer: Any) -> Any:
        """As this generation reads it: the newer field first, then the older one."""
        if self.generation != OLD and answer.nodeBytes:
            return self.messages["k8s.Node"].FromString(answer.nodeBytes)
        return answer.nodeInfo if self.generation != NEW and answer.HasField("nodeInfo") else None

    def times(self, begin: int, end: int) -> dict[str, Any]:
        """The time fields as this generation sends them."""
        found: dict[str, Any] = {}
        if self.generation != NEW:
            time = self.messages["k8s.Time"]
            found |= {"startTime": time(seconds=begin), "endTime": time(seconds=end)}
        if self.generation != OLD:
            found |= {"startTimestamp": {"seconds": begin}, "endTimestamp": {"seconds": end}}
        return found

    def pod(self, **requests: str) -> dict[str, Any]:
        names = {"gpu": "nvidia.com/gpu"}
        amounts = {names.get(k, k): {"string": v} for k, v in requests.items()}
        made = self.messages["k8s.Pod"](
            spec={"containers": [{"name": "main", "resources": {"requests": amounts}}]}
        )
        found: dict[str, Any] = {}
        if self.generation != NEW:
            found["pod"] = made
        if self.generation != OLD:
            found["pod_bytes"] = made.SerializeToString()
        return found


__all__ = ["BOTH", "GENERATIONS", "NEW", "OLD", "PACKAGE", "Client", "grpc", "messages"]
