"""What would be done for the pods that wait, and whether they come before a pool's minimum.

The machines that a minimum lacks are room for pods; where they would stand in the way of pods, or cost more, they come after
the machines for these.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from controller.domain.plan import Launch, Snapshot
from controller.planning.default_spreads import with_default_spreads
from controller.planning.demand import Demand, gather
from controller.planning.device_claims import Claims, with_devices
from controller.planning.drafts import Draft
from controller.planning.evidence import Doubts
from controller.planning.limit_ranges import with_limit_ranges
from controller.planning.minimum import kept
from controller.planning.nominated import with_nominated
from controller.planning.own import any_own, as_if_on_the_way, only_own
from controller.planning.picture import at_paid_prices, in_order
from controller.planning.room import launch
from controller.planning.rounds import Rounds


def draft(snapshot: Snapshot) -> Draft:
    """The picture must have a pool for each machine of the user's own."""
    snapshot = in_order(at_paid_prices(snapshot))
    snapshot = with_limit_ranges(with_default_spreads(snapshot))
    claims = Claims(snapshot)
    found = gather(snapshot, claims)
    snapshot, placed = with_nominated(snapshot)
    snapshot = with_devices(snapshot, claims)
    first: list[Launch] = []
    if snapshot.policy.own_first and found.pods and any_own(snapshot.offers):
        own = only_own(snapshot)
        without = Rounds(own, found, Doubts(own)).last()
        first = [launch(room, "") for room in without.packing.rooms]
        snapshot = as_if_on_the_way(snapshot, first)
    made = beside_minimum(snapshot, found, Doubts(snapshot))
    made.first, made.placed = first, placed
    return made


def beside_minimum(snapshot: Snapshot, found: Demand, doubts: Doubts) -> Draft:
    """Pods have the machines that a minimum lacks. Where these are not enough, the pods may also come first: what is bought
    for them counts towards the minimum, and only what it lacks even then is ordered anyhow."""
    made = Rounds(snapshot, found, doubts).last()
    lacked = Counter(c.pool.name for c in made.minimum.chosen)
    if not lacked or len(made.placing.order) == len(found.pods):
        return made
    after = Rounds(snapshot, found, doubts, {}).last()
    anyhow = Counter(c.pool.name for c in after.minimum.chosen)
    between = [Rounds(snapshot, found, doubts, anyhow).last()] if anyhow and anyhow != lacked else []
    _, idle = kept(snapshot, made.ordered)
    return min((made, *between, after), key=lambda way: _worth(way, idle))


def _worth(made: Draft, idle: Decimal) -> tuple[list[int], int, Decimal, Decimal]:
    """The least is the best: whom it leaves without a place, the most urgent first; what the minimums lack; what it orders,
    and by how much dearer than `idle` is what stays when nothing runs, which is paid for ever; then what it orders."""
    placed = made.served
    left = sorted((p.shape.priority for p in made.found.pods if p.key not in placed), reverse=True)
    lacking, stays = kept(made.snapshot, made.ordered)
    price = sum((c.price for c in made.ordered), Decimal(0))
    return left, lacking, price + max(Decimal(0), stays - idle), price
