"""Machines that a pool's minimum asks for, and why one of them is not ordered now.

A minimum has no pod that could be given up on, so a pool whose machines never become usable would be
bought for as long as it is configured. After two tries in vain it is tried with one machine at a time,
each after a pause that doubles up to a day. The first machine of the pool that becomes usable ends that,
for whatever it was bought, and so does another join token or a start with other settings. The same holds of those
that become usable and break soon, only that one ends it which is of use for long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import msgspec

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, InVain, Snapshot
from controller.domain.reason import SENTENCES, Reason
from controller.planning.choice import Candidate
from controller.planning.evidence import IN_VAIN, Doubt, Doubts
from controller.planning.in_vain import is_stuck
from controller.planning.limits import Tally
from controller.planning.lost import counted_on
from controller.planning.packing import Packer
from controller.planning.pauses import moment, pause_after, until
from controller.planning.room import Room
from controller.planning.shop import NEVER, in_order_of, larger


class TopUp(msgspec.Struct):
    rooms: list[Room] = []
    chosen: list[Candidate] = []  # what each of them is
    told: dict[str, Explanation] = {}  # by pool: why its minimum is not filled up now
    wakes: list[float] = []

    def extend(self, more: TopUp) -> None:
        self.rooms += more.rooms
        self.chosen += more.chosen
        self.told |= more.told
        self.wakes += more.wakes


def top_up(
    snapshot: Snapshot,
    packer: Packer,
    options: list[Candidate],
    tally: Tally,
    doubts: Doubts,
    most: Mapping[str, int] | None = None,
    bought: Mapping[str, int] = {},
) -> TopUp:
    """One room for each machine to order; those that still boot count as there, and so do those that are `bought`, by pool,
    in this plan. `most`: of no pool more than so many; None: whatever it lacks."""
    found = TopUp()
    if not any(pool.min for pool in snapshot.policy.pools):
        return found
    counted = counted_on(snapshot)
    for pool in snapshot.policy.pools:
        machines = [m for m in snapshot.machines if m.pool == pool.name and m.phase is not Phase.TOMBSTONE]
        new = bought.get(pool.name, 0)
        staying = counted[pool.name] + new
        wanted = pool.min - staying
        if most is not None:
            wanted = min(wanted, most.get(pool.name, 0))
        if wanted <= 0:
            continue
        every = [c for c in options if c.pool is pool]
        mine, too_large = right_sized(snapshot, every)
        what = f"pool {pool.name} keeps min: {pool.min}"
        mine, hopeless, singly = to_order(snapshot, doubts.of_pool(pool.name), machines, mine, found.wakes)
        if singly and new:
            continue  # this plan orders one of it already
        if hopeless is not None:
            found.told[pool.name] = Explanation(hopeless.code, f"{what}, and {hopeless.message}")
            continue
        wanted = 1 if singly else wanted
        for number in range(staying, staying + wanted):
            chosen, objection = packer.allowed(mine, tally)
            if chosen is None:
                why = objection or too_large or nothing_sold(snapshot, every)
                found.told[pool.name] = Explanation(why.code, f"{what}, and less is there: {why.message}")
                break
            tally.add(chosen)
            room = packer.template(chosen).copy()
            room.name = f"{room.name} of {pool.name} {number}"
            found.rooms.append(room)
            found.chosen.append(chosen)
    return found


def kept(snapshot: Snapshot, ordered: Sequence[Candidate]) -> tuple[int, Decimal]:
    """With these machines: how many all minimums lack, and what those cost that stay for them when nothing runs, where the
    largest go first."""
    lacking, price = 0, Decimal(0)
    for pool in snapshot.policy.pools:
        if pool.min:
            there = [m for m in snapshot.machines if m.pool == pool.name and m.phase is not Phase.TOMBSTONE]
            prices = [m.price for m in there if not (m.phase.leaving or m.failed)]
            prices = sorted([*prices, *(c.price for c in ordered if c.pool is pool)])[: pool.min]
            lacking += pool.min - len(prices)
            price += sum(prices)
    return lacking, price


def right_sized(
    snapshot: Snapshot, options: Sequence[Candidate], least: int = 0
) -> tuple[list[Candidate], Explanation | None]:
    """Those that can be bought now and have hardly more GPUs than what would be bought if nothing were sold out, of
    machines with at least so many; else that all others are larger than that."""
    free = [c for c in options if c.hindrance is None]
    possible = [c for c in options if c.hindrance is None or c.hindrance.code not in NEVER]
    if not free:
        return free, None
    least = min(least, max(c.gpus for c in possible))  # where none has so many, the nearest
    best = in_order_of(snapshot, [c for c in possible if c.gpus >= least])[0]
    most = best.gpus + snapshot.policy.max_overshoot
    found = [c for c in free if c.gpus <= most]
    if found or best.hindrance is None:
        return found, None
    more = min(c.gpus for c in free) - best.gpus
    return found, Explanation(best.hindrance.code, larger(best.hindrance.message, more))


def nothing_sold(snapshot: Snapshot, options: Sequence[Candidate]) -> Explanation:
    """What is in the way of the best of them, of which none can be bought now."""
    if not options:
        return Explanation(
            Reason.NO_CAPACITY, "the catalogue offers nothing that it may buy: check its types"
        )
    best = in_order_of(snapshot, options)[0]
    return best.hindrance or Explanation(Reason.NO_CAPACITY, SENTENCES[Reason.NO_CAPACITY])


def to_order(
    snapshot: Snapshot,
    doubts: Sequence[Doubt],
    machines: Sequence[Machine],
    options: list[Candidate],
    wakes: list[float],
) -> tuple[list[Candidate], Explanation | None, bool]:
    """What of these may be ordered now that no pod asks for, or why nothing; and whether one at a time. `doubts` and `machines`
    of their pool."""
    stuck = sorted(m.name for m in machines if is_stuck(m))
    if len(stuck) >= IN_VAIN:
        return (
            [],
            Explanation(
                Reason.LAUNCH_DEADLINE,
                f"{' and '.join(stuck)} did not start in time and are still there; no other is ordered before one of them "
                "is gone",
            ),
            True,
        )
    if not doubts:
        return options, None, False
    worst = max(doubts, key=lambda one: one.known.last + pause_after(one.known.tries, snapshot))
    known, words = worst.known, _words(worst)
    proven = [c for c in options if all(d.was_of_use(c.offer.type.name, c.offer.location) for d in doubts)]
    if proven:
        return proven, None, False
    if stuck or any(m.phase.on_the_way for m in machines):
        return [], Explanation(known.reason, f"{words}: one at a time is tried"), True
    ends = [_until_it_holds(snapshot, doubt.known, machines) for doubt in doubts if doubt.broke]
    if ends := [end for end in ends if end is not None]:
        wakes.append(max(ends))
        return (
            [],
            Explanation(known.reason, f"{words}: one is tried, and is to hold until {moment(max(ends))}"),
            True,
        )
    begins = [(_begins(snapshot, doubts, c), _failed_at(doubts, c), c) for c in options]
    now = [(bool(against), failed, c) for (against, begin), failed, c in begins if begin is None]
    if now or not options:
        first = min((one[:2] for one in now), default=None)
        return [one[2] for one in now if one[:2] == first], None, True
    begin = min(begin for (_, begin), _, _ in begins if begin is not None)
    wakes.append(begin)
    why = Explanation(
        known.reason,
        f"{words}: the next is ordered at {moment(begin)}, or once there is another token, or the controller starts with other "
        "settings of how machines start",
    )
    return [], why, True


def _words(doubt: Doubt) -> str:
    tries = doubt.known.tries
    return (
        f"its machines became usable and broke soon, {tries} times in a row "
        "(look at the network, the kubelet, the GPU driver)"
        if doubt.broke
        else f"its machines did not become usable, {tries} times in a row "
        "(look at the join script and its token, the image, the device plug-in)"
    )


def _until_it_holds(snapshot: Snapshot, known: InVain, machines: Sequence[Machine]) -> float | None:
    """Until when the one that was ordered last, and has become usable, has to hold before another one is."""
    patience = snapshot.policy.deadlines.backoff_unusable
    ends = [m.ready_at + patience for m in machines if m.phase is Phase.READY and m.ready_at > known.last]
    return max((end for end in ends if end > snapshot.now), default=None)


def _begins(snapshot: Snapshot, doubts: Sequence[Doubt], c: Candidate) -> tuple[bool, float | None]:
    """Whether it is in doubt, and when its pause is over; None: it may be ordered now."""
    found = [d.against(c.offer.type.name, c.offer.location) for d in doubts]
    enough = [one for one in found if one is not None and one.is_enough]
    patience = snapshot.policy.deadlines.backoff_unusable
    # Pods come first: where their pause ends with this one, each try for nobody in particular would renew it.
    ends = [
        until(e.tries, e.last, snapshot, more=patience if e.later or snapshot.given_up else 0.0)
        for e in enough
    ]
    return bool(enough), max((end for end in ends if end is not None), default=None)


def _failed_at(doubts: Sequence[Doubt], c: Candidate) -> float:
    kind = f"{c.offer.type.name}/{c.offer.location}"
    return max((d.known.sorts[kind].last for d in doubts if kind in d.known.sorts), default=0.0)
