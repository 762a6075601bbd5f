"""`plan(snapshot) -> Plan`: pure. The same snapshot gives the same plan, byte for byte.

Waiting pods are placed in turn on: the machine that was bought for them, Ready nodes, GPUs that are
freed soon, machines on their way, machines whose removal can still be called off; what is left is
packed onto new machines. Every waiting pod and every machine gets one explanation, made here and
printed everywhere.
"""

from __future__ import annotations

import msgspec

from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Action, Explanation, KeepAfterAll, Launch, Plan, Snapshot
from controller.domain.reason import SENTENCES, Reason
from controller.planning import scale_down
from controller.planning.choice import Candidate, candidates
from controller.planning.demand import gather
from controller.planning.explain import why_not
from controller.planning.limits import Tally
from controller.planning.packing import Packer
from controller.planning.room import Room, empty_node_holds, existing, node_of

# A pod that did not fit the machine bought for it causes one more purchase, not a third.
MISPREDICTIONS = 2


def plan(snapshot: Snapshot) -> Plan:
    demand, pods_told, wake = gather(snapshot)
    ready, coming, draining = existing(snapshot)
    actions: list[Action] = []
    options = candidates(snapshot)
    packer = Packer(snapshot, options)
    tally = Tally(snapshot)
    minimum = _top_up(snapshot, packer, options, tally)
    left, needed = _place_on_existing(demand, ready, coming + minimum, draining, pods_told)
    for room in draining:
        if room.pods and room.machine:
            actions.append(
                KeepAfterAll(
                    machine=room.name, message=f"pod {room.pods[0].key} needs it: its removal is called off"
                )
            )
    actions += [
        _launch(room, f"pool {room.pool.name} keeps min: {room.pool.min}") for room in minimum if room.pool
    ]
    if left and scale_down.paused(snapshot, None, "scale-up"):
        pods_told |= {pod.key: Explanation(Reason.PAUSED, "scale-up is paused") for pod in left}
        left = []
    left = _without_mispredicted(snapshot, left, pods_told)
    actions += _buy(snapshot, packer, options, tally, left, pods_told)
    downs, machines_told, down_wake = scale_down.decide(snapshot, needed)
    called_off = {action.machine for action in actions if isinstance(action, KeepAfterAll)}
    for machine in snapshot.machines:
        if machine.name not in machines_told:
            machines_told[machine.name] = _about(machine, machine.name in called_off)
    wakes = [moment for moment in (wake, down_wake, *_refusals_end(snapshot)) if moment is not None]
    return Plan(
        actions=tuple(actions + downs),
        pods=dict(sorted(pods_told.items())),
        machines=dict(sorted(machines_told.items())),
        wake_at=min(wakes, default=None),
    )


def _place_on_existing(
    demand: list[Pod],
    ready: list[Room],
    coming: list[Room],
    draining: list[Room],
    told: dict[str, Explanation],
) -> tuple[list[Pod], dict[str, str]]:
    """What no existing room takes; and the rooms that are needed, with one pod that needs them."""
    left: list[Pod] = []
    needed: dict[str, str] = {}
    promised = {key: room for room in coming for key in (room.machine.pods if room.machine else ())}
    # Rooms that the pods were promised first, so that a packing done once is not undone by another order.
    for pod in demand:
        own = promised.get(pod.key)
        tries: list[tuple[list[Room], bool, Reason]] = [
            (ready, False, Reason.FITS_NOW),
            ([own] if own else [], False, Reason.ON_THE_WAY),
            (ready, True, Reason.GPUS_FREED_SOON),
            (coming, False, Reason.ON_THE_WAY),
            (draining, False, Reason.FITS_NOW),
        ]
        for rooms, later, reason in tries:
            room = next((room for room in rooms if room.holds(pod, later=later)), None)
            if room is not None:
                room.put(pod)
                needed.setdefault(room.name, pod.key)
                what = f"machine {room.name}" if room.machine else f"node {room.name}"
                if room.pool is not None:
                    what = f"a machine for the minimum of pool {room.pool.name}"
                told[pod.key] = Explanation(reason, _placed(reason, what))
                break
        else:
            left.append(pod)
    return left, needed


def _placed(reason: Reason, where: str) -> str:
    match reason:
        case Reason.ON_THE_WAY:
            return f"{where} is on its way and has room for it"
        case Reason.GPUS_FREED_SOON:
            return f"pods that are terminating on {where} free its GPUs soon"
        case _:
            return f"{where} has room for it; the scheduler will place it there"


def _top_up(snapshot: Snapshot, packer: Packer, options: list[Candidate], tally: Tally) -> list[Room]:
    """Machines that a pool's minimum asks for; those that still boot count."""
    rooms: list[Room] = []
    for pool in snapshot.policy.pools:
        staying = sum(
            1
            for m in snapshot.machines
            if m.pool == pool.name and m.phase is not Phase.TOMBSTONE and not m.phase.leaving and not m.failed
        )
        mine = [c for c in options if c.pool is pool and c.hindrance is None]
        for number in range(staying, pool.min):
            room, _objection = packer.open_one(mine, tally)
            if room is None:
                break
            room.name = f"new-machine-of-{pool.name}-{number}"
            rooms.append(room)
    return rooms


def _launch(room: Room, reason: str) -> Launch:
    if room.offer is None or room.pool is None:
        raise ValueError(f"room {room.name} is not a new machine")
    return Launch(
        pool=room.pool.name, offer=room.offer, pods=tuple(pod.key for pod in room.pods), reason=reason
    )


def _without_mispredicted(snapshot: Snapshot, left: list[Pod], told: dict[str, Explanation]) -> list[Pod]:
    """Drop pods whose machines came and, even empty, did not hold them."""
    nodes = {node.name: node for node in snapshot.nodes}
    kept = []
    for pod in left:
        wrong = []
        for machine in snapshot.machines:
            node = node_of(machine, nodes)
            bought_for_it = pod.key in machine.pods and machine.phase is Phase.READY
            if bought_for_it and node is not None and not empty_node_holds(pod, node, {}):
                wrong.append(machine.name)
        if len(wrong) >= MISPREDICTIONS:
            told[pod.key] = Explanation(
                Reason.PREDICTION_WRONG,
                f"{' and '.join(sorted(wrong))} were bought for it and do not hold it even when empty; nothing more "
                "is bought: lower its requests, or name a larger type",
            )
        else:
            kept.append(pod)
    return kept


def _buy(
    snapshot: Snapshot,
    packer: Packer,
    options: list[Candidate],
    tally: Tally,
    left: list[Pod],
    told: dict[str, Explanation],
) -> list[Action]:
    packing = packer.best(left, tally)
    actions: list[Action] = []
    for room in packing.rooms:
        launch = _launch(room, "")
        offer, count, gpus = launch.offer, len(room.pods), launch.offer.type.gpus
        sentence = (
            f"{count} pod{'s' * (count != 1)} on {offer.type.name} ({gpus} GPU{'s' * (gpus != 1)}) in "
            f"{offer.location}, {offer.market}, {offer.price} an hour"
        )
        actions.append(msgspec.structs.replace(launch, reason=sentence))
        for pod in room.pods:
            told[pod.key] = Explanation(
                Reason.LAUNCHING,
                f"pool {launch.pool} launches {offer.type.name} in {offer.location} ({offer.market}, "
                f"{offer.price} an hour) for it",
            )
    slow: dict[int, Explanation] = {}
    for pod in left:
        if pod.key in packing.unplaced:
            objection = packing.unplaced[pod.key]
            if objection is None:
                objection = slow.get(id(pod.shape)) or why_not(snapshot, pod, options)
                slow[id(pod.shape)] = objection
            told[pod.key] = objection
    return actions


def _refusals_end(snapshot: Snapshot) -> list[float]:
    return [refusal.until for refusal in snapshot.refusals if refusal.until > snapshot.now]


def _about(machine: Machine, called_off: bool) -> Explanation:
    """A machine about which scale-down has nothing to say."""
    if called_off:
        return Explanation(Reason.NEEDED, "its removal is called off: a waiting pod fits it")
    if machine.phase is Phase.TOMBSTONE:
        return Explanation(Reason.UNKNOWN_OUTCOME, "proven never to have been launched; remembered for a day")
    if machine.reason is not None and (machine.failed or machine.phase.leaving):
        return Explanation(machine.reason, machine.note or SENTENCES[machine.reason])
    if machine.phase.leaving:
        return Explanation(Reason.DELETING, SENTENCES[Reason.DELETING])
    if machine.phase.on_the_way:
        for_whom = f"for {', '.join(machine.pods)}" if machine.pods else "for its pool's minimum"
        return Explanation(Reason.STARTING, f"{machine.phase.value}, {for_whom}")
    return Explanation(Reason.IN_USE, "its Node is not there or not Ready; nothing is decided about it")
