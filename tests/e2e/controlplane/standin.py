"""A stand-in for cluster-autoscaler: it makes the calls of its loop in their order, and decides in the simplest way.

Not a model of it: it knows GPUs and memory and nothing else. What it shares is what a server sees: Refresh and the
groups, every node asked for, sizes and instances, options for each group, failed and unregistered ones deleted as
fake nodes, a timed-out increase taken back, back-off by group, the taint before a removal, one leader of several,
and nothing kept over a restart. As releases from 1.35 on it takes options of a group to mean that its nodes have
no time to start.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.utils.quantity import parse_quantity

from compat_grpc.wire import externalgrpc_pb2 as wire
from compat_grpc.wire import kube_pb2 as kube

GPU = "nvidia.com/gpu"
Room = tuple[int, int]  # GPUs, bytes of memory
TAINT = "ToBeDeletedByClusterAutoscaler"
GPU_PODS_WAIT = 3.0  # seconds; thirty with the real one
SERVICE = wire.DESCRIPTOR.services_by_name["CloudProvider"]


def seconds(text: str) -> float:
    return sum(
        float(part) * unit
        for part, unit in ((text[:-1], 60.0) if text.endswith("m") else (text.rstrip("s"), 1.0),)
    )


class Server:
    """The calls, plain, each with the same deadline."""

    def __init__(self, told: dict[str, Any]) -> None:
        if told.get("cert"):
            read = [Path(told[key]).read_bytes() for key in ("cacert", "key", "cert")]
            credentials = grpc.ssl_channel_credentials(*read)
            self._channel = grpc.secure_channel(told["address"], credentials)
        else:
            self._channel = grpc.insecure_channel(told["address"])
        self._timeout = seconds(told.get("grpc_timeout", "5s"))

    def __call__(self, method: str, **fields: Any) -> Any:
        found = SERVICE.methods_by_name[method]
        request = getattr(wire, found.input_type.name)
        response = getattr(wire, found.output_type.name)
        call = self._channel.unary_unary(
            f"/{SERVICE.full_name}/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return call(request(**fields), timeout=self._timeout)


@dataclass
class Group:
    id: str
    min: int
    max: int
    target: int = 0
    instances: list[Any] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    options: Any = None  # where the server gives any


class StandIn:
    def __init__(self, core: client.CoreV1Api, server: Server, flags: argparse.Namespace) -> None:
        self._core, self._call, self._flags = core, server, flags
        self._asked: dict[str, tuple[int, float]] = {}  # by group: how many were asked for last, and when
        self._unregistered: dict[str, float] = {}
        self._unneeded: dict[str, float] = {}
        self._away_until: dict[str, float] = {}
        self._away: dict[str, float] = {}
        self._label = ""
        self._filled = False

    def start(self) -> None:
        for group in self._call("NodeGroups").nodeGroups:
            self._call("NodeGroupNodes", id=group.id)
        for node in self._core.list_node().items:
            self._group_of(node)
        self._label = self._call("GPULabel").label

    def loop(self) -> None:
        if not self._label:
            self.start()
        self._call("Refresh")
        groups = {g.id: Group(g.id, g.minSize, g.maxSize) for g in self._call("NodeGroups").nodeGroups}
        foreign = []
        for node in self._core.list_node().items:
            group_id = self._group_of(node)
            (groups[group_id].nodes if group_id in groups else foreign).append(node)
        for group in groups.values():
            group.target = self._call("NodeGroupTargetSize", id=group.id).targetSize
            group.instances = list(self._call("NodeGroupNodes", id=group.id).instances)
            options = self._call("NodeGroupGetOptions", id=group.id, defaults=self._defaults())
            if options.HasField("nodeGroupAutoscalingOptions"):
                group.options = options.nodeGroupAutoscalingOptions
        if any(self._mend(group) for group in groups.values()):
            return
        if not self._grow(groups):
            self._shrink(groups)

    def _defaults(self) -> Any:
        unneeded = round(seconds(self._flags.scale_down_unneeded_time))
        return wire.NodeGroupAutoscalingOptions(scaleDownUnneededDuration={"seconds": unneeded})

    def _group_of(self, node: Any) -> str:
        shown = wire.ExternalGrpcNode(providerID=node.spec.provider_id or "", name=node.metadata.name)
        return str(self._call("NodeGroupForNode", node=shown).nodeGroup.id)

    # -- repair -------------------------------------------------------------------------------------

    def _mend(self, group: Group) -> bool:
        now, limit = time.monotonic(), seconds(self._flags.max_node_provision_time)
        known = {node.spec.provider_id for node in group.nodes}
        failed = [i for i in group.instances if i.status.instanceState == 2 and i.status.errorInfo.errorCode]
        if failed:
            self._back_off(group.id)
            self._delete(group, [i.id for i in failed])
            return True
        waiting = [i.id for i in group.instances if i.status.instanceState in (1, 2) and i.id not in known]
        late = [i for i in waiting if now - self._unregistered.setdefault(i, now) > limit]
        asked = self._asked.get(group.id)
        if asked is not None and now - asked[1] > limit:
            del self._asked[group.id]
            if waiting:
                self._back_off(group.id)
                self._call("NodeGroupDecreaseTargetSize", id=group.id, delta=-asked[0])
        if late:
            self._delete(group, late)
        return bool(late)

    def _back_off(self, group_id: str) -> None:
        first = seconds(self._flags.initial_node_group_backoff_duration)
        most = seconds(self._flags.max_node_group_backoff_duration)
        self._away[group_id] = min(most, self._away.get(group_id, first / 2) * 2)
        self._away_until[group_id] = time.monotonic() + self._away[group_id]

    def _delete(self, group: Group, ids: list[str]) -> None:
        fake = [wire.ExternalGrpcNode(providerID=each, name=each) for each in ids]
        self._call("NodeGroupDeleteNodes", id=group.id, nodes=fake)

    # -- up -----------------------------------------------------------------------------------------

    def _pending(self, groups: dict[str, Group]) -> list[Room]:
        """What each waiting pod asks for which no node has free: the scheduler may just not have come to it."""
        found: list[Room] = []
        pods = self._core.list_pod_for_all_namespaces().items
        free = {
            node.metadata.name: _room(node.status.allocatable or {})
            for group in groups.values()
            for node in group.nodes
            if _usable(node, self._label)
        }
        for pod in pods:
            if pod.spec.node_name in free and pod.status.phase not in ("Succeeded", "Failed"):
                free[pod.spec.node_name] = _less(free[pod.spec.node_name], _needs(pod))
        for pod in pods:
            if pod.spec.node_name:
                continue
            refused = any(c.reason == "Unschedulable" for c in pod.status.conditions or ())
            age = time.time() - pod.metadata.creation_timestamp.timestamp()
            if refused and pod.metadata.deletion_timestamp is None and age > GPU_PODS_WAIT and _needs(pod)[0]:
                found.append(_needs(pod))
        for room in free.values():
            found = _placed(found, room)
        return found

    def _grow(self, groups: dict[str, Group]) -> bool:
        pending = self._pending(groups)
        sizes: dict[str, Room] = {}
        for group in groups.values():
            with contextlib.suppress(grpc.RpcError):
                answer = self._call("NodeGroupTemplateNodeInfo", id=group.id)
                node = kube.Node.FromString(answer.nodeBytes)
                sizes[group.id] = _room({name: each.string for name, each in node.status.allocatable.items()})
                late = [n for n in group.nodes if not _usable(n, self._label)] if group.options else []
                coming = group.target - len(late) - sum(1 for n in group.nodes if _usable(n, self._label))
                for _ in range(max(0, coming)):
                    pending = _placed(pending, sizes[group.id])
        if self._flags.enforce_node_group_min_size == "true" and not self._filled:
            self._filled = True
            for group in groups.values():
                if group.target < group.min:
                    self._increase(group, group.min - group.target)
        for group in self._in_order(groups, sizes):
            free = group.max - group.target
            fits = [needs for needs in pending if _fits(needs, sizes[group.id])]
            if not fits or free <= 0 or time.monotonic() < self._away_until.get(group.id, 0.0):
                continue
            wanted, left = 0, fits
            while left and wanted < free:
                left = _placed(left, sizes[group.id])
                wanted += 1
            self._increase(group, wanted)
            return True
        return False

    def _in_order(self, groups: dict[str, Group], sizes: dict[str, Room]) -> Iterator[Group]:
        prices = dict.fromkeys(sizes, 0.0)
        if "priority" in self._flags.expander:
            told = self._core.read_namespaced_config_map(
                "cluster-autoscaler-priority-expander", "kube-system"
            )
            for rank, patterns in yaml.safe_load(told.data["priorities"]).items():
                for group_id in sizes:
                    if any(re.search(pattern, group_id) for pattern in patterns):
                        prices[group_id] = -float(rank)
        if "price" in self._flags.expander:
            for group_id in sizes:
                node = kube.Node.FromString(self._call("NodeGroupTemplateNodeInfo", id=group_id).nodeBytes)
                shown = wire.ExternalGrpcNode(
                    providerID=node.spec.providerID,
                    name=f"template-node-for-{group_id}-1",
                    labels=node.metadata.labels,
                )
                prices[group_id] = self._call(
                    "PricingNodePrice",
                    node=shown,
                    startTimestamp={"seconds": 0},
                    endTimestamp={"seconds": 3600},
                ).price
        for group_id in sorted(sizes, key=lambda each: (prices[each], sizes[each], each)):
            if sizes[group_id][0]:
                yield groups[group_id]

    def _increase(self, group: Group, delta: int) -> None:
        try:
            self._call("NodeGroupIncreaseSize", id=group.id, delta=delta)
            self._asked[group.id] = (delta, time.monotonic())
        except grpc.RpcError as error:
            print(f"increase of {group.id} refused: {error}", file=sys.stderr, flush=True)
            self._back_off(group.id)

    # -- down ---------------------------------------------------------------------------------------

    def _shrink(self, groups: dict[str, Group]) -> None:
        busy = {
            pod.spec.node_name
            for pod in self._core.list_pod_for_all_namespaces().items
            if pod.status.phase not in ("Succeeded", "Failed") and _needs(pod)[0]
        }
        now = time.monotonic()
        for group in groups.values():
            unneeded = seconds(self._flags.scale_down_unneeded_time)
            if group.options is not None:
                unneeded = float(group.options.scaleDownUnneededDuration.seconds)
            for node in group.nodes:
                name = node.metadata.name
                deleted = any(t.key == TAINT for t in node.spec.taints or ())
                if name in busy or not _usable(node, self._label) or deleted:
                    self._unneeded.pop(name, None)
                elif now - self._unneeded.setdefault(name, now) > unneeded:
                    if group.target > group.min:
                        self._remove(group, node)
                    return

    def _remove(self, group: Group, node: Any) -> None:
        name = node.metadata.name
        before = [self._core.api_client.sanitize_for_serialization(t) for t in node.spec.taints or ()]
        taint = {"key": TAINT, "value": str(int(time.time())), "effect": "NoSchedule"}
        self._core.patch_node(name, {"spec": {"taints": [*before, taint]}})
        for pod in self._core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={name}").items:
            owners = pod.metadata.owner_references or ()
            if not any(ref.kind == "DaemonSet" for ref in owners):
                with contextlib.suppress(ApiException):
                    self._core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace)
        shown = wire.ExternalGrpcNode(providerID=node.spec.provider_id, name=name)
        try:
            self._call("NodeGroupDeleteNodes", id=group.id, nodes=[shown])
        except grpc.RpcError as error:
            print(f"delete of {name} refused: {error}", file=sys.stderr, flush=True)
            self._core.patch_node(name, {"spec": {"taints": before}})
        self._unneeded.pop(name, None)


def _needs(pod: Any) -> Room:
    return _room(
        {
            name: str(
                sum(
                    parse_quantity((c.resources.requests or {}).get(name, 0))
                    for c in pod.spec.containers
                    if c.resources
                )
            )
            for name in (GPU, "memory")
        }
    )


def _room(amounts: Mapping[str, str]) -> Room:
    return int(parse_quantity(amounts.get(GPU, 0))), int(parse_quantity(amounts.get("memory", 0)))


def _fits(needs: Room, room: Room) -> bool:
    return all(wanted <= there for wanted, there in zip(needs, room, strict=True))


def _less(room: Room, needs: Room) -> Room:
    return room[0] - needs[0], room[1] - needs[1]


def _usable(node: Any, label: str) -> bool:
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())
    gpus = _room(node.status.allocatable or {})[0]
    return ready and (gpus > 0 or label not in node.metadata.labels)


def _placed(pods: list[Room], room: Room) -> list[Room]:
    """What is left when one more machine takes what it can."""
    left = []
    for needs in sorted(pods, reverse=True):
        if _fits(needs, room):
            room = _less(room, needs)
        else:
            left.append(needs)
    return left


class Leader:
    """One of several: a Lease, as the real one takes it."""

    _NAME, _NAMESPACE, _LASTS = "cluster-autoscaler", "kube-system", 6

    def __init__(self, api: client.ApiClient) -> None:
        self._api = client.CoordinationV1Api(api)
        self._me = f"stand-in-{os.getpid()}"

    def holds(self) -> bool:
        now = datetime.now(UTC)
        try:
            lease = self._api.read_namespaced_lease(self._NAME, self._NAMESPACE)
        except ApiException:
            lease = self._api.create_namespaced_lease(
                self._NAMESPACE, {"metadata": {"name": self._NAME}, "spec": {}}
            )
        seen = lease.spec.renew_time
        fresh = seen is not None and (now - seen).total_seconds() < self._LASTS
        if fresh and lease.spec.holder_identity != self._me:
            return False
        lease.spec.holder_identity, lease.spec.renew_time = self._me, now
        try:
            self._api.replace_namespaced_lease(self._NAME, self._NAMESPACE, lease)
        except ApiException:
            return False
        return True


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (
        ("kubeconfig", ""), ("cloud-config", ""), ("scan-interval", "1s"), ("scale-down-unneeded-time", "5s"),
        ("max-node-provision-time", "45s"), ("initial-node-group-backoff-duration", "10s"), ("expander", "least-waste"),
        ("max-node-group-backoff-duration", "20s"), ("enforce-node-group-min-size", "false"),
        ("leader-elect", "false"),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", default=value)
    flags, _ = parser.parse_known_args()
    core = client.CoreV1Api(config.new_client_from_config(flags.kubeconfig))
    server = Server(yaml.safe_load(Path(flags.cloud_config).read_text()))
    driver = StandIn(core, server, flags)
    leader = Leader(core.api_client) if flags.leader_elect == "true" else None

    def end(*_: object) -> None:
        with contextlib.suppress(grpc.RpcError):
            server("Cleanup")
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        try:
            if leader is None or leader.holds():
                driver.loop()
        except (grpc.RpcError, ApiException) as error:
            print(f"loop given up: {type(error).__name__} {str(error)[:300]}", file=sys.stderr, flush=True)
        time.sleep(seconds(flags.scan_interval))


if __name__ == "__main__":
    main()
