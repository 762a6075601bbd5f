"""Pods for which machines were bought in vain: replaced once, and not a third time at once.

A machine is in vain for its pod when it never became usable (a deadline on its way), when even empty it is
too small, or when it is ready and its GPUs lie free, and yet it does not take the pod: whatever the rule is
(volumes, other pods, ports, daemons that grew), it holds on the next machine too, and no time mends that. What keeps
machines from becoming usable, or breaks them, may pass, so those are tried again (`another_try`). What was bought and is
gone again is remembered by the ledger; what is still there is judged here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from controller.domain import names
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import Resources, is_accelerator, total
from controller.planning.another_try import Held, Turns, another_try, closed, tried_now
from controller.planning.choice import Candidate
from controller.planning.evidence import IN_VAIN, Doubts, Evidence
from controller.planning.fit import Ask, enough, with_place
from controller.planning.locations import zone_of
from controller.planning.narrowing import Narrowing, sort_of
from controller.planning.room import Room, has_room_when_empty
from controller.planning.sites import node_of, usable

_CLOCK_SLACK = 60.0  # between the API server's clock and ours


def without_hopeless(
    snapshot: Snapshot,
    left: Sequence[Ask],
    told: dict[str, Explanation],
    free: Mapping[str, Resources],
    *,
    doubts: Doubts,
    narrowing: Narrowing,
    passed: Collection[str],
    taken: set[str],
    wakes: list[float],
    blamed: dict[str, set[str]],
) -> tuple[list[Ask], Turns]:
    """Drop pods for which machines were bought twice in vain, but for those that are tried again now, which are told beside,
    and those that may have none now for other reasons.
    So too pods that come later and could have such machines only: else each of them bought two more.

    `free`: what is left on nodes, by name; `narrowing`: what it could have; `passed`: pods for which a try
    leads to nothing; `taken`: pools that this plan orders from anyhow, to which those are added of which one is tried.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    bought: dict[str, list[Machine]] = {}
    stuck: dict[str, list[str]] = {}
    for machine in snapshot.machines:
        for key in machine.pods:
            if machine.phase is Phase.READY:
                bought.setdefault(key, []).append(machine)
            elif is_stuck(machine):
                stuck.setdefault(key, []).append(machine.name)
    if not (bought or stuck or doubts or snapshot.disappointed or snapshot.given_up):
        return list(left), Turns()
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
            against = _all_in_doubt(doubts, narrowing.sorts(ask)) if doubts else {}
            if against:
                held.append(_held_with_others(ask, frozenset(given_up), against))
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
    turns = Turns()
    if held:
        possible, would_try = narrowing.allowed, narrowing.would_try
        turns = another_try(snapshot, doubts, held, possible, would_try, passed, taken, told, wakes)
    return [ask for ask in left if ask.pod.key in kept | turns.let | turns.without], turns


def without_doubted(
    snapshot: Snapshot, doubts: Doubts, options: list[Candidate], wakes: list[float]
) -> list[Candidate]:
    """While a pause lasts, or one is being tried, pods have something else than what failed."""
    if not doubts:
        return options
    trying = tried_now(snapshot, doubts)
    told: dict[tuple[str, Evidence], Explanation | None] = {}
    found = []
    for c in options:
        against = doubts.against(*sort_of(c)) if c.hindrance is None else None
        if against is not None:
            key = (c.pool.name, against)
            if key not in told:
                told[key] = why = closed(snapshot, c.pool.name, against, wakes, trying)
            else:
                why = told[key]
            c = replace(c, hindrance=why) if why is not None else c
        found.append(c)
    return found


def _all_in_doubt(doubts: Doubts, sorts: Collection[tuple[str, str, str]]) -> dict[str, list[Evidence]]:
    """By pool, what speaks against all that the pod could have; empty: not all of it is in doubt."""
    found: dict[str, list[Evidence]] = {}
    for pool, kind, location in sorted(sorts):
        against = doubts.against(pool, kind, location)
        if against is None:
            return {}
        found.setdefault(pool, []).append(against)
    return found


def _held_with_others(ask: Ask, names: frozenset[str], against: Mapping[str, list[Evidence]]) -> Held:
    pool, worst = max(
        ((pool, one) for pool, found in against.items() for one in found),
        key=lambda one: (one[1].tries, one[0]),
    )
    words = worst.words(pool)
    return Held(ask, names, worst.reason, words, {pool: tuple(found) for pool, found in against.items()})


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
