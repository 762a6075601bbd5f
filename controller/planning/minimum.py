"""Machines that a pool's minimum asks for, and why one of them is not ordered now.

A minimum has no pod that could be given up on, so a pool whose machines never become usable would be
bought for as long as it is configured. After two tries in vain it is tried with one machine at a time,
each after a pause that doubles up to a day. The first machine of the pool that becomes usable ends that,
for whatever it was bought, and so does another join token or a start with other settings.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.domain.machine import Machine, Phase
from controller.domain.plan import Explanation, Snapshot
from controller.domain.policy import Pool
from controller.domain.reason import Reason
from controller.planning.another_try import moment, until
from controller.planning.choice import Candidate
from controller.planning.in_vain import IN_VAIN, is_stuck
from controller.planning.limits import Tally
from controller.planning.packing import Packer
from controller.planning.room import Room


class TopUp(msgspec.Struct):
    rooms: list[Room] = []
    told: dict[str, Explanation] = {}  # by pool: why its minimum is not filled up now
    wakes: list[float] = []


def top_up(snapshot: Snapshot, packer: Packer, options: list[Candidate], tally: Tally) -> TopUp:
    """One room for each machine to order; those that still boot count as there."""
    found = TopUp()
    for pool in snapshot.policy.pools:
        machines = [m for m in snapshot.machines if m.pool == pool.name and m.phase is not Phase.TOMBSTONE]
        staying = [m for m in machines if not m.phase.leaving and not m.failed]
        wanted = pool.min - len(staying)
        if wanted <= 0:
            continue
        hopeless = doubt(snapshot, pool, machines, found.wakes, f"pool {pool.name} keeps min: {pool.min}")
        if hopeless is not None:
            found.told[pool.name] = hopeless
            continue
        if _tries(snapshot, pool) >= IN_VAIN:
            wanted = 1
        mine = [c for c in options if c.pool is pool and c.hindrance is None]
        for number in range(len(staying), len(staying) + wanted):
            chosen, _objection = packer.allowed(mine, tally)
            if chosen is None:
                break
            tally.add(chosen)
            room = packer.template(chosen).copy()
            room.name = f"{room.name} of {pool.name} {number}"
            found.rooms.append(room)
    return found


def _tries(snapshot: Snapshot, pool: Pool) -> int:
    known = snapshot.in_vain.get(pool.name)
    return known.tries if known is not None else 0


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
    known = snapshot.in_vain.get(pool.name)
    if known is None or known.tries < IN_VAIN:
        return None
    words = (
        f"{what}, and its machines did not become usable, {known.tries} times in a row "
        "(look at the join script and its token, the image, the device plug-in)"
    )
    if any(m.phase.on_the_way for m in machines):
        return Explanation(known.reason, f"{words}: one at a time is tried")
    begins = until(known.tries, known.last, snapshot)
    if begins is None:
        return None
    wakes.append(begins)
    return Explanation(
        known.reason,
        f"{words}: the next is ordered at {moment(begins)}, or once there is another token, or the controller starts with other "
        "settings of how machines start",
    )
