"""What is refused in pods and nodes: what is missing, what contradicts itself, figures."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.manifests import a_container, a_node, a_pod
from tests.e2e.controlplane.conformance.probe import NODES, PODS, post, probe


def wanting(**spec: Any) -> Any:
    return a_pod("refused", **spec)


def asking(**resources: Any) -> Any:
    return a_pod("refused", containers=[a_container(resources=resources)])


def a_machine(**more: Any) -> Any:
    return a_node("refused", **more)


PROBES = (
    probe(
        "pods that lack something",
        post(PODS, {"metadata": {"name": "a"}}),
        post(PODS, {"metadata": {"name": "a"}, "spec": {}}),
        post(PODS, wanting(containers=[])),
        post(PODS, wanting(containers=[{"name": "main"}])),
        post(PODS, wanting(containers=[{"image": "a"}])),
        post(PODS, wanting(containers=[{"name": "A_b", "image": "a"}])),
        post(PODS, wanting(containers=[{"name": "a", "image": "a"}, {"name": "a", "image": "b"}])),
        post(PODS, wanting(restartPolicy="Sometimes")),
        post(PODS, wanting(terminationGracePeriodSeconds=-1)),
        post(PODS, wanting(nodeSelector={"a b": "c"})),
        post(PODS, wanting(tolerations=[{"key": "a", "operator": "Near"}])),
        post(PODS, wanting(tolerations=[{"operator": "Equal", "value": "a"}])),
        post(PODS, wanting(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])),
        post(PODS, wanting(tolerations=[{"key": "a", "effect": "Never"}])),
        post(PODS, wanting(dnsPolicy="None")),
        post(PODS, wanting(serviceAccountName="none")),
        post(PODS, wanting(priorityClassName="none")),
        post(PODS, wanting(priority=5)),
        post(PODS, wanting(runtimeClassName="none")),
        post(PODS, wanting(volumes=[{"name": "a"}, {"name": "a", "emptyDir": {}}])),
        post(
            PODS,
            wanting(
                containers=[
                    {"name": "a", "image": "a", "volumeMounts": [{"name": "none", "mountPath": "/a"}]}
                ]
            ),
        ),
        post(PODS, wanting(containers=[{"name": "a", "image": "a", "ports": [{"containerPort": 70000}]}])),
        post(PODS, wanting(schedulingGates=[{"name": "a"}, {"name": "a"}])),
        post(PODS, wanting(nodeName="some", schedulingGates=[{"name": "a"}])),
        post(
            PODS,
            wanting(
                hostNetwork=True,
                containers=[{"name": "a", "image": "a", "ports": [{"containerPort": 1, "hostPort": 2}]}],
            ),
        ),
        post(
            PODS,
            wanting(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                    }
                }
            ),
        ),
        post(
            PODS,
            wanting(
                topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "Never"}]
            ),
        ),
    ),
    probe(
        "figures",
        post(PODS, asking(requests={"cpu": "4x"})),
        post(PODS, asking(requests={"cpu": ""})),
        post(PODS, asking(requests={"cpu": -1})),
        post(PODS, asking(requests={"cpu": "2"}, limits={"cpu": "1"})),
        post(PODS, asking(requests={"nvidia.com/gpu": "1"})),
        post(PODS, asking(limits={"nvidia.com/gpu": "1500m"})),
        post(PODS, asking(limits={"nvidia.com/gpu": "2"}, requests={"nvidia.com/gpu": "1"})),
        post(PODS, asking(limits={"nvidia.com/gpu": "-1"})),
        post(PODS, asking(limits={"unknown": "1"})),
        post(PODS, asking(limits={"a b/c": "1"})),
        post(PODS, asking(limits={"hugepages-2Mi": "1Mi"})),
        post(NODES, a_machine(status={"capacity": {"cpu": "much"}})),
        post(NODES, a_machine(status={"capacity": {"cpu": "-1"}})),
        post(NODES, a_machine(status={"allocatable": {"nvidia.com/gpu": "1500m"}})),
        post(NODES, a_machine(spec={"taints": [{"key": "a", "effect": "Never"}]})),
        post(NODES, a_machine(spec={"taints": [{"effect": "NoSchedule"}]})),
        post(NODES, a_machine(spec={"taints": [{"key": "a b", "effect": "NoSchedule"}]})),
        post(
            NODES,
            a_machine(
                spec={
                    "taints": [
                        {"key": "a", "effect": "NoSchedule"},
                        {"key": "a", "effect": "NoSchedule", "value": "b"},
                    ]
                }
            ),
        ),
        post(NODES, a_machine(spec={"podCIDR": "nonsense"})),
    ),
)
