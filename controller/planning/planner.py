"""`plan(snapshot) -> Plan`: pure. The same snapshot gives the same plan, byte for byte.

Waiting pods are placed on what exists, or is on its way; what is left is packed onto new machines.
Every waiting pod and every machine gets one explanation, made here and printed everywhere. The order in
which a snapshot lists its things decides nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal

import msgspec

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Action, Explanation, KeepAfterAll, Launch, Plan, Retire, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import SENTENCES, Reason
from controller.planning import budget, ending, rest, scale_down, together
from controller.planning.default_spreads import with_default_spreads
from controller.planning.device_claims import Claims, with_devices
from controller.planning.drafting import draft
from controller.planning.drafts import Draft
from controller.planning.fractions import come_along
from controller.planning.headroom import keep_free, takers
from controller.planning.nominated import with_nominated
from controller.planning.own import is_own, told_of_off, with_own
from controller.planning.picture import by_intent, by_name, in_order, listed
from controller.planning.price_floor import price_floor
from controller.planning.protection import paused
from controller.planning.purchases import buy, switch_on, told_of_switched
from controller.planning.room import Room, launch
from controller.planning.sites import existing

_FOR_WANT_OF_SIBLINGS = (Reason.GANG_INCOMPLETE, Reason.WAITS_FOR_SIBLINGS)


@dataclass(frozen=True, slots=True)
class Placement:
    pod: str  # namespace/name
    place: str  # name of the node or machine; of a new one, a number
    room: Room


def plan(snapshot: Snapshot) -> Plan:
    snapshot = with_own(snapshot)
    if snapshot.policy.retire:
        return _ending(snapshot)
    if rest.nobody_waits(snapshot):
        return _at_rest(snapshot)
    with _no_collection():
        return _finished(draft(snapshot))


@contextmanager
def _no_collection() -> Iterator[None]:
    """A plan makes many things and no garbage to speak of: looking for it took two fifths of the time of a large one."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def the_long_way(snapshot: Snapshot) -> Plan:
    """Where somebody waits, or nobody knows; where nobody does, the same plan comes of it."""
    return _finished(draft(with_own(snapshot)))


def _ending(snapshot: Snapshot) -> Plan:
    """Nothing is bought, and everything that was goes."""
    snapshot = in_order(snapshot)
    actions, told, wake = ending.decide(snapshot, lambda: _ready_rooms(snapshot))
    for machine in snapshot.machines:
        if machine.name not in told:
            told[machine.name] = _about(snapshot.policy, machine, called_off=False)
    return Plan(
        actions=tuple(actions),
        pods=dict(sorted(ending.told_to_pods(snapshot).items())),
        machines=dict(sorted((told | told_of_off(snapshot)).items())),
        wake_at=wake,
    )


def _at_rest(snapshot: Snapshot) -> Plan:
    snapshot, _ = with_nominated(with_default_spreads(snapshot))
    snapshot = msgspec.structs.replace(
        snapshot,
        nodes=tuple(sorted(snapshot.nodes, key=by_name)),
        budgets=tuple(sorted(snapshot.budgets, key=rest.by_name)),
        machines=tuple(sorted(snapshot.machines, key=by_intent)),
        offers=listed(snapshot.offers),
    )

    actions, told, wakes = rest.at_rest(snapshot, lambda: _ready_rooms(snapshot))
    for machine in snapshot.machines:
        if machine.name not in told:
            told[machine.name] = _about(snapshot.policy, machine, called_off=False)
    told |= told_of_off(snapshot)
    wakes += _refusals_end(snapshot)
    return Plan(
        actions=tuple(actions),
        machines=dict(sorted(told.items())),
        wake_at=min((moment for moment in wakes if moment is not None), default=None),
    )


def _ready_rooms(snapshot: Snapshot) -> list[Room]:
    picture = in_order(snapshot)
    return existing(with_devices(picture, Claims(picture))).ready


def _finished(made: Draft) -> Plan:
    snapshot, told, placing, minimum = made.snapshot, made.told, made.placing, made.minimum
    actions: list[Action] = [
        KeepAfterAll(machine=room.name, message=f"pod {room.pods[0].key} needs it: its removal is called off")
        for room in placing.sites.draining
        if room.pods
    ]
    for room in placing.sites.coming:
        if room.pool is not None:
            kept = f"{room.pool.name} is kept on" if is_own(room.offer) else ""
            actions.append(launch(room, kept or f"pool {room.pool.name} keeps min: {room.pool.min}"))
    bought = come_along(switch_on(made) + buy(made), made.found.along, told)
    actions += bought
    tally = made.tally
    offered = {(c.pool.name, c.offer.key): c for c in made.options}
    for one in bought:
        if (one.pool, one.offer.key) in offered:  # what is switched on first is among the machines
            tally.add(offered[(one.pool, one.offer.key)])
    barred = takers(made) if snapshot.policy.headroom and snapshot.policy.namespaces else {}
    free = keep_free(made, bought, barred)
    launches = [action for action in actions if isinstance(action, Launch)]
    together.tell(made.found.pods, made.found.gangs, launches, told)
    if not paused(snapshot, None, "scale-up"):
        actions += free.launches
    downs, machines_told, down_wake = scale_down.decide(
        snapshot,
        placing.needed,
        made.found.pods,
        lambda: placing.sites.ready,
        free.machines,
        replaced=free.replaced,
        buying={action.pool for action in actions if isinstance(action, Launch)},
        placed=made.placed,
        early=made.found.early,
    )
    downs = [_excused(made, action, told) if isinstance(action, Retire) else action for action in downs]
    machines_told |= told_of_off(snapshot)
    machines_told |= told_of_switched(made, launches)
    called_off = {action.machine for action in actions if isinstance(action, KeepAfterAll)}
    for machine in snapshot.machines:
        if machine.name not in machines_told:
            machines_told[machine.name] = _about(snapshot.policy, machine, machine.name in called_off)
    wakes = [
        made.found.wake,
        down_wake,
        *placing.wakes,
        *made.wakes,
        *minimum.wakes,
        *free.wakes,
        *_refusals_end(snapshot),
    ]
    codes = {why.code for why in (*told.values(), *minimum.told.values(), *free.told.values())}
    codes |= made.short | free.lacks
    if Reason.LIMIT_RATE in codes or (made.packing.unplaced and tally.rate_is_used_up):
        wakes.append(tally.rate_eases_at)
    if Reason.LIMIT_BUDGET in codes:
        wakes.append(budget.month_ends(snapshot.now))
    return Plan(
        actions=tuple(actions + downs),
        pods=dict(sorted(told.items())),
        machines=dict(sorted(machines_told.items())),
        pools=dict(sorted((free.told | minimum.told).items())),
        awaited={
            room.name: tuple(sorted(pod.key for pod in room.pods))
            for room in placing.sites.coming
            if room.pods and is_own(room.machine)
        },
        price_floor=_price_floor(made),
        wake_at=min((moment for moment in wakes if moment is not None), default=None),
    )


def _excused(made: Draft, action: Retire, told: Mapping[str, Explanation]) -> Retire:
    """Pods of a gang did not run there for want of the others, so the machine says nothing about the next one."""
    pods = next((m.pods for m in made.snapshot.machines if m.name == action.machine), ())
    excused = tuple(
        key
        for key in pods
        if key in told
        and told[key].code in _FOR_WANT_OF_SIBLINGS
        and action.machine not in made.blamed.get(key, ())
    )
    return msgspec.structs.replace(action, excused=excused) if excused else action


def _price_floor(made: Draft) -> Decimal | None:
    if made.snapshot.policy.common_strategy != "cheapest" or not made.packing.rooms:
        return None
    return price_floor(made.packing, made.packer.shop, made.board)


def placements(snapshot: Snapshot) -> tuple[Placement, ...]:
    """Which pod the plan sends where, in the order in which places were taken; for whoever checks plans."""
    made = draft(with_own(snapshot))
    found = [
        Placement(ask.pod.key, made.board.rooms[number].name, made.board.rooms[number])
        for ask, number in made.placing.order
    ]
    found += [
        Placement(ask.pod.key, f"new machine {number}", made.packing.rooms[number])
        for ask, number in made.packing.order
    ]
    return tuple(found)


def _refusals_end(snapshot: Snapshot) -> list[float]:
    return [refusal.until for refusal in snapshot.refusals if refusal.until > snapshot.now]


def _about(policy: Policy, machine: Machine, called_off: bool) -> Explanation:
    """A machine about which scale-down has nothing to say."""
    if called_off:
        return Explanation(Reason.NEEDED, "its removal is called off: a waiting pod fits it")
    if machine.phase is Phase.TOMBSTONE:
        return Explanation(Reason.UNKNOWN_OUTCOME, "proven never to have been launched; remembered for a day")
    if machine.reason is not None and (machine.failed or machine.phase.leaving):
        return Explanation(machine.reason, machine.note or SENTENCES[machine.reason])
    if machine.phase.leaving:
        code = Reason.DRAINING if machine.phase is Phase.DRAINING else Reason.DELETING
        return Explanation(code, SENTENCES[code])
    if machine.phase.on_the_way and machine.reason is Reason.LATE_CALL:
        return Explanation(Reason.LATE_CALL, machine.note)
    if machine.phase.on_the_way:
        if is_own(machine) and not machine.pods:
            return Explanation(Reason.STARTING, machine.note or "its Node is Ready, and its GPUs are awaited")
        return Explanation(
            Reason.STARTING,
            f"{machine.phase.value}, for {', '.join(machine.pods) or _wish(policy, machine.pool)}",
        )
    return Explanation(Reason.IN_USE, "its Node is not there or not Ready; nothing is decided about it")


def _wish(policy: Policy, name: str) -> str:
    """What of a pool asks for machines that are for no pod; nobody remembers for which of two one was ordered. Neither does
    where the settings have changed since, or cluster-autoscaler asked for it."""
    pool = policy.pool(name)
    wishes = ["minimum"] * (pool is not None and pool.min > 0)
    wishes += ["headroom"] * any(entry.pool == name and entry.gpus for entry in policy.headroom)
    return f"its pool's {' or '.join(wishes)}" if wishes else "no pod in particular"
