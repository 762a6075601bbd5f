"""Machines that a pool's minimum asks for, and why one of them is not ordered now.

A minimum has no pod that could be given up on, so a pool whose machines never become usable would be
bought for as long as it is configured. After two tries in vain it is tried with one machine at a time,
each after a pause that doubles up to a day. The first machine of the pool that becomes usable ends that,
for whatever it was bought, and so does another join token or a start with other settings. The same holds of those
that become usable and break soon, only that one ends it which is of use for long.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.domain.machine import ONCE_READY, Machine, Phase
from controller.domain.plan import Explanation, InVain, Snapshot
from controller.domain.policy import Pool
from controller.domain.reason import SENTENCES, Reason
from controller.planning.another_try import moment, pause_after, until
from controller.planning.choice import Candidate
from controller.planning.in_vain import IN_VAIN, is_stuck
from controller.planning.limits import Tally
from controller.planning.lost import counted_on
from controller.planning.packing import Packer
from controller.planning.room import Room
from controller.planning.shop import NEVER, in_order_of, larger


class TopUp(msgspec.Struct):
    rooms: list[Room] = []
    told: dict[str, Explanation] = {}  # by pool: why its minimum is not filled up now
    wakes: list[float] = []


def top_up(snapshot: Snapshot, packer: Packer, options: list[Candidate], tally: Tally) -> TopUp:
    """One room for each machine to order; those that still boot count as there."""
    found = TopUp()
    if not any(pool.min for pool in snapshot.policy.pools):
        return found
    counted = counted_on(snapshot)
    for pool in snapshot.policy.pools:
        machines = [m for m in snapshot.machines if m.pool == pool.name and m.phase is not Phase.TOMBSTONE]
        staying = counted[pool.name]
        wanted = pool.min - staying
        if wanted <= 0:
            continue
        hopeless = doubt(snapshot, pool, machines, found.wakes, f"pool {pool.name} keeps min: {pool.min}")
        every = [c for c in options if c.pool is pool]
        mine, too_large = right_sized(snapshot, every)
        if hopeless is not None and not (mine := not_in_doubt(snapshot, pool, machines, mine)):
            found.told[pool.name] = hopeless
            continue
        if one_at_a_time(snapshot, pool):
            wanted = 1
        for number in range(staying, staying + wanted):
            chosen, objection = packer.allowed(mine, tally)
            if chosen is None:
                why = objection or too_large or nothing_sold(snapshot, every)
                words = f"pool {pool.name} keeps min: {pool.min}, and less is there"
                found.told[pool.name] = Explanation(why.code, f"{words}: {why.message}")
                break
            tally.add(chosen)
            room = packer.template(chosen).copy()
            room.name = f"{room.name} of {pool.name} {number}"
            found.rooms.append(room)
    return found


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


def _known(snapshot: Snapshot, pool: Pool) -> tuple[InVain | None, bool]:
    """What was tried in vain often enough, for the longest pause, and whether those had become usable first."""
    never, broke = (snapshot.in_vain.get(f"{pool.name}{end}") for end in ("", ONCE_READY))
    found = [(one, one is broke) for one in (never, broke) if one is not None and one.tries >= IN_VAIN]
    return max(
        found, key=lambda one: one[0].last + pause_after(one[0].tries, snapshot), default=(None, False)
    )


def not_in_doubt(
    snapshot: Snapshot, pool: Pool, machines: Sequence[Machine], options: Sequence[Candidate]
) -> list[Candidate]:
    """What needs no pause: other types, or other locations, than what failed. One at a time of these, too."""
    known, broke = _known(snapshot, pool)
    if known is None or broke or any(m.phase.on_the_way or is_stuck(m) for m in machines):
        return []
    return [c for c in options if not known.speaks_against(c.offer.type.name, c.offer.location)]


def one_at_a_time(snapshot: Snapshot, pool: Pool) -> bool:
    """Whether one machine at a time is tried, where it is time for one at all."""
    return _known(snapshot, pool)[0] is not None


def doubt(
    snapshot: Snapshot, pool: Pool, machines: Sequence[Machine], wakes: list[float], what: str
) -> Explanation | None:
    """Why no machine that no pod asks for is ordered now; `what` asks for it."""
    stuck = sorted(m.name for m in machines if is_stuck(m))
    if len(stuck) >= IN_VAIN:
        return Explanation(
            Reason.LAUNCH_DEADLINE,
            f"{what}, and {' and '.join(stuck)} did not start in time and are still "
            "there; no other is ordered before one of them is gone",
        )
    known, broke = _known(snapshot, pool)
    if known is None:
        return None
    words = (
        f"{what}, and its machines became usable and broke soon, {known.tries} times in a row "
        "(look at the network, the kubelet, the GPU driver)"
        if broke
        else f"{what}, and its machines did not become usable, {known.tries} times in a row "
        "(look at the join script and its token, the image, the device plug-in)"
    )
    if any(m.phase.on_the_way for m in machines):
        return Explanation(known.reason, f"{words}: one at a time is tried")
    # Pods come first: where their pause ends with this one, each try for nobody in particular would renew it.
    more = snapshot.policy.deadlines.backoff_unusable if known.later else 0.0
    begins = until(known.tries, known.last, snapshot, more=more)
    if begins is None:
        return None
    wakes.append(begins)
    return Explanation(
        known.reason,
        f"{words}: the next is ordered at {moment(begins)}, or once there is another token, or the controller starts with other "
        "settings of how machines start",
    )
