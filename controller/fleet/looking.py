"""What cloud and cluster show of one machine at this moment, put together for the judgement of `life`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.cluster.protocol import View
from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import Policy
from controller.domain.resources import Resources
from controller.fleet.dressing import dressed
from controller.fleet.identity import node_for
from controller.fleet.life import Seen
from controller.fleet.sightings import Sightings
from controller.planning.lost import kept_though_off
from controller.planning.predict import gpu_resources


def nodes_of(machines: Iterable[Machine], nodes: Iterable[Node]) -> dict[str, tuple[Node, ...]]:
    """By intent: the one or two Nodes, of the thousands that there may be, that could be the machine."""
    pointing: dict[str, list[Node]] = {}
    for node in nodes:
        for key in {node.name, names.resolve(node.provider_id)}:
            pointing.setdefault(key, []).append(node)
    found = {}
    for machine in machines:
        keys = (machine.name, machine.instance_id.lower() or machine.name)
        found[machine.intent] = tuple({id(n): n for key in keys for n in pointing.get(key, ())}.values())
    return found


def promised(policy: Policy, machine: Machine) -> Resources:
    """The accelerators that its Node must offer.

    A pool that is no longer configured demands nothing: what its machines offered is not known any
    more, and they run until they are idle. GPUs that are had by claims are not on the Node at all.
    """
    pool = policy.pool(machine.pool)
    if pool is None or pool.resource_claims == "always":
        return {}
    return gpu_resources(pool, machine.gpus)


def _kept(policy: Policy, machine: Machine, node: Node | None, view: View, now: float) -> str:
    picture = Snapshot(now=now, policy=policy)
    return kept_though_off(picture, machine, node, view.pods_on(machine.name))


def see(
    policy: Policy,
    machine: Machine,
    *,
    sightings: Sightings,
    nodes: Sequence[Node],
    view: View,
    fresh: bool,
    in_flight: bool,
    blind: bool,
    now: float,
) -> tuple[Seen, str]:
    """The picture, and what a person should look at ("": nothing)."""
    node, doubt = node_for(machine, nodes)
    report = doubt if machine.phase is not Phase.TOMBSTONE else ""
    if machine.phase is Phase.DELETING and machine.gone_at and node is not None and node.ready:
        report = f"instance {machine.instance_id} is gone, and Node {node.name} is Ready; the Node is kept"
    unseen = machine.phase is Phase.TOMBSTONE or (
        machine.phase is Phase.INTENDED and machine.absent_lists >= policy.deadlines.unknown_lists
    )
    if unseen and node is not None and node.ready:
        report = f"no list shows machine {machine.name}, and its Node is Ready: it costs, and can go once it is listed"
    inventory = sightings.inventory
    out_of_use = machine.stopped_at or machine.gpus_lost_at or machine.node_missing_at
    unsure = machine.instance_id in sightings.unsure  # such a list says nothing of it, nor ends any wait
    seen = Seen(
        instance=sightings.of(machine),
        listed_at=inventory.at if inventory.complete and not unsure else 0.0,
        told_at=inventory.at,
        fresh_list=fresh,
        in_flight=in_flight,
        node=node,
        doubt=bool(doubt),
        blind=blind,
        pods=view.pods_on(machine.name) if node else (),
        dressed=machine.phase is Phase.READY or dressed(policy, machine, node),
        promised=promised(policy, machine),
        declared=policy.gpu_resources,
        kept=_kept(policy, machine, node, view, now) if out_of_use else "",
    )
    return seen, report
