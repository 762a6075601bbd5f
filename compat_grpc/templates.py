"""What a node of a group will look like, as bytes of a Kubernetes Node: the planner's own prediction.

Both fields of the answer carry it, since each release reads another one; an answer without it would end the
process that asked. Allocatable errs low, because a template that promises too much buys machine after
machine. Neither market nor machine is among the labels: every machine of the group has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compat_grpc.groups import Group
from compat_grpc.roster import TEMPLATE
from compat_grpc.wire import kube_pb2 as kube
from controller.domain import names
from controller.domain.cloudthings import InstanceType, Offer
from controller.domain.kube import Taint
from controller.domain.policy import Policy, Pool
from controller.domain.quantity import to_kubernetes
from controller.domain.resources import PODS, Resources
from controller.domain.switching import Face, Switch
from controller.fleet.switching.driven import gpu_label
from controller.planning import own
from controller.planning.predict import GIB, MAX_PODS, allocatable_of, gpu_resources, labels_of, taints_of

# Of a machine that was never seen enough is assumed; cluster-autoscaler adds such figures up.
_MOST = {"cpu": 10**6, "memory": 1 << 44, "ephemeral-storage": 1 << 46}


def node_name(group_id: str) -> str:
    return f"template-{group_id}"


def labels_for(
    policy: Policy,
    pool: Pool,
    group: Group,
    kind: InstanceType,
    shown: Mapping[str, str] | None = None,
) -> dict[str, str]:
    offer = Offer(type=kind, location=group.location, market="")
    labels = labels_of(pool, offer, node_name(group.id), policy.gpu_labels, shown)
    for each in (names.LABEL_MARKET, names.LABEL_MACHINE):
        labels.pop(each, None)
    return labels


def capacity_of(pool: Pool, kind: InstanceType, allocatable: Resources) -> dict[str, int]:
    whole = {
        "cpu": kind.vcpus * 1000,
        "memory": kind.memory_gib * GIB,
        "ephemeral-storage": pool.disk_gb * 10**9,
    } | gpu_resources(pool, kind.gpus)
    return {name: max(units, whole.get(name, 0)) for name, units in allocatable.items()}


def template(
    policy: Policy,
    pool: Pool,
    group: Group,
    kind: InstanceType,
    observed: Mapping[str, Resources],
    shown: Mapping[str, str] | None = None,
    offered: Resources | None = None,
) -> bytes:
    """`offered`: where nodes of the group were seen to have less than was predicted."""
    least = offered or {}
    allocatable = {
        name: min(units, least.get(name, units))
        for name, units in allocatable_of(policy, pool, kind, observed).items()
    }
    return _node(
        group.id,
        labels_for(policy, pool, group, kind, shown),
        taints_of(pool),
        capacity=capacity_of(pool, kind, allocatable),
        allocatable=allocatable,
        arch=kind.arch,
    )


def _node(
    group_id: str,
    labels: Mapping[str, str],
    taints: Iterable[Taint],
    *,
    capacity: Resources,
    allocatable: Resources,
    arch: str,
) -> bytes:
    node = kube.Node(
        metadata=kube.Meta(name=node_name(group_id), labels=labels),
        spec=kube.NodeSpec(
            providerID=TEMPLATE + group_id,
            taints=[kube.Taint(key=t.key, value=t.value, effect=t.effect) for t in taints],
        ),
        status=kube.NodeStatus(
            capacity=_quantities(capacity),
            allocatable=_quantities(allocatable),
            conditions=[
                kube.NodeCondition(type="Ready", status="True", reason="KubeletReady"),
                *(
                    kube.NodeCondition(type=name, status="False")
                    for name in ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
                ),
            ],
            nodeInfo=kube.NodeSystemInfo(operatingSystem="linux", architecture=arch),
        ),
    )
    # Maps have no order of their own on the wire: the same template is to be the same bytes.
    return bytes(node.SerializeToString(deterministic=True))


def of_switch(policy: Policy, switch: Switch, face: Face | None) -> bytes:
    """What its Node looked like when it was of use last, else what the settings declare."""
    pool = Pool(
        name=switch.name,
        max=1,
        labels=switch.labels,
        taints=switch.taints,
        resources=switch.resources,
    )
    labels = own.labels_of(policy, pool, switch.offer, face, None)
    if value := gpu_label(switch, labels):
        labels |= {names.LABEL_GPU: value}
    there = own.offered(policy, pool, switch.gpus, face, None)
    offered = {PODS: MAX_PODS} | {name: min(units, _MOST.get(name, units)) for name, units in there.items()}
    return _node(
        switch.name,
        labels | {names.LABEL_HOSTNAME: node_name(switch.name)},
        own.taints_of(pool, face, None),
        capacity=offered,
        allocatable=offered,
        arch=labels.get(names.LABEL_ARCH, "amd64"),
    )


def _quantities(amounts: Resources) -> dict[str, kube.Quantity]:
    return {name: kube.Quantity(string=to_kubernetes(name, units)) for name, units in sorted(amounts.items())}
