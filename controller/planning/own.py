"""Machines that are switched and not bought, as planning sees them: each is a pool with one offer and room for one.

Nothing is predicted about such a machine that was seen before: it will look as it did then. Of one that was never
seen only the GPUs are known, and what the settings say; the rest is assumed to be enough. What is on its way up is
capacity as any machine on its way; a Node that is not Ready offers nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from controller.domain import gpu_labels, names
from controller.domain.cloudthings import SWITCHED, Offer
from controller.domain.kube import Node, Pod, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.passing import lasting
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.policy import OWN, Policy, Pool
from controller.domain.reason import SENTENCES, Reason
from controller.domain.remembering import remembered
from controller.domain.resources import PODS, Resources, add, is_accelerator, maximum, subtract, total
from controller.domain.switching import Face, Power, Switch
from controller.planning import operators, predict
from controller.planning.fit import with_place

# What a machine that was never seen is assumed to have beside its GPUs: more than any pod asks for.
_ENOUGH: Resources = {
    "cpu": 10**9,
    "memory": 1 << 60,
    "ephemeral-storage": 1 << 60,
    PODS: predict.MAX_PODS,
}
# A person puts it on a Node, and takes it off again.
_OUT = "node.kubernetes.io/out-of-service"


def with_own(snapshot: Snapshot) -> Snapshot:
    """The same picture with a pool for each switched machine, so that limits and explanations know it."""
    policy = snapshot.policy
    if not policy.switches or any(pool.market == OWN for pool in policy.pools):
        return snapshot
    return replace(snapshot, policy=_with_pools(policy))


@remembered
def _with_pools(policy: Policy) -> Policy:
    return replace(policy, pools=policy.pools + tuple(_pool(switch) for switch in policy.switches))


def _pool(switch: Switch) -> Pool:
    return Pool(
        name=switch.name,
        instance_types=(switch.name,),
        market=OWN,
        min=1 if switch.keep_on else 0,
        max=1,
        labels=switch.labels,
        taints=switch.taints,
        resources=switch.resources,
        pause=switch.pause,
    )


def is_own(offer: Offer | Machine | None) -> bool:
    return offer is not None and offer.market == SWITCHED


@remembered
def any_own(offers: tuple[Offer, ...]) -> bool:
    return any(is_own(offer) for offer in offers)


def labels_of(
    policy: Policy, pool: Pool, offer: Offer, face: Face | None, node: Node | None, power: str = Power.OFF
) -> dict[str, str]:
    """As it was, else as the settings tell; what its Node says comes before both.

    A young Node has not got yet what others find out about it: a pod that selects the model of its GPUs fits all the same.
    """
    labels = {names.LABEL_HOSTNAME: pool.name, names.LABEL_OS: "linux", names.LABEL_ARCH: "amd64"}
    there = dict(node.labels) if node is not None else {}
    if power == Power.ON and node is not None:
        return labels | there
    if face is not None:
        return labels | dict(face.labels) | there
    if offer.type.model:
        kind, shared = offer.type, predict.are_shared(pool, offer.type.gpus)
        labels |= gpu_labels.labels_for(kind.model, kind.name, kind.gpus, policy.gpu_labels, shared=shared)
    if offer.location:
        labels |= {names.LABEL_REGION: offer.location, names.LABEL_ZONE: offer.location}
    return labels | dict(pool.labels) | there


def taints_of(pool: Pool, face: Face | None, node: Node | None, power: str = Power.OFF) -> tuple[Taint, ...]:
    """Those that will be there when it is of use: neither ours, nor any that goes by itself.

    One that a person puts on the Node of a machine that is off keeps pods off it. Whoever puts one on while it boots may
    take it off when it is up, so one that was not there when it was of use last counts only once it is on.
    """
    if node is None:
        return lasting(face.taints if face is not None else pool.taints)
    found = lasting(node.taints)
    if power == Power.RISING:
        before = lasting(face.taints if face is not None else pool.taints)
        return tuple(t for t in found if t in before)
    return found + tuple(t for t in node.taints if t.key == _OUT)


def offered(policy: Policy, pool: Pool, gpus: int, face: Face | None, node: Node | None) -> dict[str, int]:
    """What it will offer. The GPUs are those that it really had; a Node that is off may have lost sight of them.

    Where the settings have changed since, GPUs were put in or taken out, and nobody has seen yet what it has now.
    """
    known = dict(face.allocatable) if face is not None else {}
    if not known and node is not None:
        known = {n: u for n, u in node.allocatable.items() if not is_accelerator(n, policy.gpu_resources)}
    known = known or dict(_ENOUGH)
    promised = predict.gpu_resources(pool, gpus)
    if face is None:
        return known | dict(pool.resources) | promised
    then = face.promised
    changed = {name for name, units in promised.items() if then and then.get(name) != units}
    return known | {name: units for name, units in promised.items() if name in changed or name not in known}


def figures(
    snapshot: Snapshot, pool: Pool, offer: Offer, node: Node | None, pods: Sequence[Pod]
) -> tuple[dict[str, str], tuple[Taint, ...], dict[str, int]]:
    """Labels, taints and what is free of a switched machine that is off, or on its way."""
    own = snapshot.own.get(pool.name)
    face = own.face if own is not None else None
    power = own.power if own is not None else Power.OFF
    policy = snapshot.policy
    labels = labels_of(policy, pool, offer, face, node, power)
    taints = taints_of(pool, face, node, power)
    there = offered(policy, pool, offer.type.gpus, face, node)
    daemons = total(with_place(pod.shape.requests) for pod in pods if pod.shape.is_daemon)
    # What is being deleted there is over as soon as its kubelet is back to say so. Of one that is on this only tells how
    # large it is.
    used = total(
        with_place(pod.shape.requests)
        for pod in pods
        if not (power == Power.ON or pod.shape.is_daemon or pod.deleting_at is not None or pod.finished)
    )
    perhaps = operators.perhaps(labels, None) if face is None and node is None else None
    overhead = predict.daemon_overhead(snapshot.daemonsets, pool.name, labels, taints, perhaps)
    return labels, taints, subtract({PODS: predict.MAX_PODS, **there}, add(used, maximum(overhead, daemons)))


def told_of_off(snapshot: Snapshot) -> dict[str, Explanation]:
    """One sentence for each machine that is off; the others are told about as machines."""
    there = {machine.name for machine in snapshot.machines}
    refused = {r.offer: r for r in snapshot.refusals if r.until > snapshot.now}
    found = {}
    for switch in snapshot.policy.switches:
        own = snapshot.own.get(switch.name)
        if own is None or switch.name in there:
            continue
        refusal = refused.get(switch.offer.key)
        found[switch.name] = (
            Explanation(refusal.reason, f"off; {refusal.message}")
            if refusal is not None
            else Explanation(Reason.OFF, own.message or SENTENCES[Reason.OFF])
        )
    return found


# -- own machines first ------------------------------------------------------------------------


def only_own(snapshot: Snapshot) -> Snapshot:
    """The picture in which nothing can be bought: the smallest own machine that is enough, whatever its size."""
    policy = replace(snapshot.policy, strategy="smallest", max_overshoot=1 << 20)
    return replace(snapshot, policy=policy, offers=tuple(o for o in snapshot.offers if is_own(o)))


def as_if_on_the_way(snapshot: Snapshot, launches: Sequence[Launch]) -> Snapshot:
    """The picture in which these machines were switched on already."""
    chosen = {launch.pool: launch for launch in launches}
    coming = tuple(
        Machine(
            intent=launch.pool,
            name=launch.pool,
            pool=launch.pool,
            instance_type=launch.offer.type.name,
            location=launch.offer.location,
            market=SWITCHED,
            phase=Phase.INTENDED,
            price=launch.offer.price,
            gpus=launch.offer.type.gpus,
            model=launch.offer.type.model,
            intended_at=snapshot.now,
        )
        for launch in launches
    )
    return replace(
        snapshot,
        machines=tuple(sorted((*snapshot.machines, *coming), key=lambda m: (m.name, m.intent))),
        offers=tuple(o for o in snapshot.offers if not (is_own(o) and o.type.name in chosen)),
    )


def words(offer: Offer) -> str:
    gpus = offer.type.gpus
    return f"{offer.type.name} ({gpus} GPU{'s' * (gpus != 1)})"
