"""Pods for which machines were bought in vain: replaced once, and not a third time at once.

A machine is in vain for its pod when it never became usable (a deadline on its way), when even empty it is
too small, or when it is ready and its GPUs lie free, and yet it does not take the pod: whatever the rule is
(volumes, other pods, ports, daemons that grew), it holds on the next machine too, and no time mends that. What keeps
machines from becoming usable, or breaks them, may pass, so those are tried again (`another_try`). What was bought and is
gone again is remembered by the ledger; what is still there is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, InVain, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import Resources, is_accelerator, total
from controller.planning.another_try import Held, another_try, closed
from controller.planning.choice import Candidate
from controller.planning.fit import Ask, enough, with_place
from controller.planning.locations import zone_of
from controller.planning.room import Room, has_room_when_empty
from controller.planning.sites import node_of, usable

# A machine that came to nothing for its pod is replaced once.
IN_VAIN = 2
_CLOCK_SLACK = 60.0  # between the API server's clock and ours


def without_hopeless(
    snapshot: Snapshot,
    left: Sequence[Ask],
    told: dict[str, Explanation],
    free: Mapping[str, Resources],
    *,
    possible: Callable[[Ask], bool],
    welcome: Callable[[Ask], bool],
    sorts: Callable[[Ask], Collection[tuple[str, str, str]]],
    ordered: Collection[str],
    wakes: list[float],
    blamed: dict[str, set[str]],
) -> list[Ask]:
    """Drop pods for which machines were bought twice in vain, but for those that are tried again now. So too pods that come
    later and could have such machines only: else each of them bought two more.

    `free`: what is left on nodes, by name; `possible`: whether a machine may be ordered for it at all;
    `welcome`: whether other pods, as they are now, let it onto a new one; `sorts`: pool, type and location of what it could have; `ordered`: pools that this plan orders from anyhow.
    """
    doubted = {pool.name for pool in snapshot.policy.pools if in_doubt(snapshot.in_vain.get(pool.name))}
    nodes = {node.name: node for node in snapshot.nodes}
    bought: dict[str, list[Machine]] = {}
    stuck: dict[str, list[str]] = {}
    for machine in snapshot.machines:
        for key in machine.pods:
            if machine.phase is Phase.READY:
                bought.setdefault(key, []).append(machine)
            elif is_stuck(machine):
                stuck.setdefault(key, []).append(machine.name)
    if not (bought or stuck or doubted or snapshot.disappointed or snapshot.given_up):
        return list(left)
    kept, held = set(), []
    for ask in left:
        key = ask.pod.key
        if len(waits_for := sorted(stuck.get(key, ()))) >= IN_VAIN:
            told[key] = Explanation(
                Reason.LAUNCH_DEADLINE,
                f"{' and '.join(waits_for)} were ordered for it, did not start in time and are still there; no other is "
                "ordered before one of them is gone",
            )
            continue
        vain = [m for m in bought.get(key, ()) if _disappoints(snapshot, ask, m, nodes, free)]
        if vain:
            blamed.setdefault(key, set()).update(m.name for m in vain)
        broken = sorted(m.name for m in vain if not _works(m, nodes))
        wrong = {m.name for m in vain}
        wrong |= set(snapshot.disappointed.get(ask.pod.identity, ()))
        given_up = snapshot.given_up.get(ask.pod.identity, {})
        if len(wrong | given_up.keys()) < IN_VAIN:
            pools = _all_in_doubt(snapshot, sorts(ask)) if doubted else frozenset()
            if pools:
                held.append(_held_with_others(snapshot, ask, frozenset(given_up), pools))
            else:
                kept.add(key)
        elif broken:
            told[key] = Explanation(
                Reason.READY_DEADLINE,
                f"{_given_up(wrong - set(broken), dict.fromkeys(broken, Reason.READY_DEADLINE) | dict(given_up))}; "
                f"nothing more is bought while {' and '.join(broken)}, whose Node is not Ready any more, is still there",
            )
        elif len(wrong) < IN_VAIN:
            words = _given_up(wrong, given_up)
            held.append(Held(ask, frozenset(given_up), sorted(given_up.items())[-1][1], words))
        else:
            told[key] = Explanation(
                Reason.PREDICTION_WRONG,
                f"{' and '.join(sorted(wrong))} were bought for it and did not take it; nothing more is bought: compare "
                "what it asks for (amounts, volumes, rules about other pods, ports) with these machines",
            )
    if held:
        kept |= another_try(snapshot, held, possible, welcome, ordered, told, wakes)
    return [ask for ask in left if ask.pod.key in kept]


def without_doubted(snapshot: Snapshot, options: list[Candidate], wakes: list[float]) -> list[Candidate]:
    """While a pause lasts, or one is being tried, pods have something else than what failed."""
    shut: dict[str, tuple[InVain, Explanation]] = {}
    for pool in snapshot.policy.pools:
        known = snapshot.in_vain.get(pool.name)
        if (
            known is not None
            and in_doubt(known)
            and (found := closed(snapshot, pool.name, known)) is not None
        ):
            shut[pool.name] = (known, found[0])
            wakes += [found[1]] if found[1] is not None else []
    if not shut:
        return options
    return [_hindered(c, *shut[c.pool.name]) if c.pool.name in shut else c for c in options]


def _hindered(c: Candidate, known: InVain, why: Explanation) -> Candidate:
    against = known.speaks_against(c.offer.type.name, c.offer.location)
    return replace(c, hindrance=why) if against and c.hindrance is None else c


def in_doubt(known: InVain | None) -> bool:
    """Of what is known of a pool: whether its machines came to nothing often enough, and none became usable since."""
    return known is not None and known.tries >= IN_VAIN


def _all_in_doubt(snapshot: Snapshot, sorts: Collection[tuple[str, str, str]]) -> frozenset[str]:
    """The pools of what the pod could have, if what failed before speaks against all of it."""
    for pool, kind, location in sorts:
        known = snapshot.in_vain.get(pool)
        if known is None or not in_doubt(known) or not known.speaks_against(kind, location):
            return frozenset()
    return frozenset(pool for pool, _, _ in sorts)


def _held_with_others(snapshot: Snapshot, ask: Ask, names: frozenset[str], pools: frozenset[str]) -> Held:
    worst = max(pools, key=lambda pool: (snapshot.in_vain[pool].tries, pool))
    known = snapshot.in_vain[worst]
    words = f"machines of pool {worst} did not become usable, {known.tries} times in a row"
    return Held(ask, names, known.reason, words, pools)


def is_stuck(machine: Machine) -> bool:
    """Given up in provisioning, where the cloud may refuse to delete it: it may start, and cost money, yet."""
    return (
        machine.phase is Phase.DELETING
        and machine.reason is Reason.LAUNCH_DEADLINE
        and not (machine.delete_at or machine.gone_at)
    )


def _given_up(too_small: Collection[str], given_up: Mapping[str, Reason]) -> str:
    why = dict.fromkeys(too_small, Reason.PREDICTION_WRONG) | dict(given_up)
    listed = " and ".join(f"{name} ({code.value})" for name, code in sorted(why.items()))
    return f"{listed} were bought for it in vain"


def _works(machine: Machine, nodes: Mapping[str, Node]) -> bool:
    node = node_of(machine, nodes)
    return node is not None and node.ready


def _disappoints(
    snapshot: Snapshot, ask: Ask, machine: Machine, nodes: Mapping[str, Node], free: Mapping[str, Resources]
) -> bool:
    node = node_of(machine, nodes)
    if node is None:
        # Its Node is gone for longer than it is waited for; the fleet may hold its removal back.
        limits = snapshot.policy.deadlines
        return snapshot.now >= (machine.node_missing_at or snapshot.now) + limits.ready
    if ask.gang is not None and ask.gang.location not in (None, zone_of(node.labels)):
        return False  # its gang is planned elsewhere now, which it did not come together here for
    for_it = ask.pod.created <= machine.intended_at + _CLOCK_SLACK  # not for an earlier pod of the same name
    if not usable(node):
        # Cordoned by somebody, or no longer Ready, and nothing uses it: so may the next one be.
        return for_it and not node.deleting and not _used(snapshot, ask, node)
    if for_it and enough(_scarce(snapshot, ask), free.get(node.name, {})):
        return True
    daemons = [
        pod
        for pod in snapshot.pods
        if pod.node == node.name and not pod.finished and (pod.shape.is_daemon or pod.shape.mirror)
    ]
    room = Room(node.name, {names.LABEL_HOSTNAME: node.name, **node.labels}, node.taints, {})
    overhead = total(with_place(pod.shape.requests) for pod in daemons)
    return not has_room_when_empty(ask, room, overhead, node.allocatable)


def _scarce(snapshot: Snapshot, ask: Ask) -> Resources:
    declared = snapshot.policy.gpu_resources
    return {name: units for name, units in ask.needs.items() if is_accelerator(name, declared)}


def _used(snapshot: Snapshot, ask: Ask, node: Node) -> bool:
    scarce = _scarce(snapshot, ask)
    there = [pod for pod in snapshot.pods if pod.node == node.name and not pod.finished]
    return any(pod.shape.requests.get(name, 0) for pod in there for name in scarce)
