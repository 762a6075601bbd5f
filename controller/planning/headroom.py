"""GPUs that a pool keeps free, by the clock and up to a price, so that the next pod need not wait for a boot.

What is free on machines that are there or on their way counts, whoever they were bought for. Room is
bought last and given up first: where pods wait for a limit that would allow them a machine if nothing were kept free, nothing
is. A namespace's own limit is no such reason for the others; but what its pods would be bound to at once is not ordered,
for they would buy by that, one after the other, what the limit forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from controller.domain.kube import Pod
from controller.domain.machine import Phase
from controller.domain.money import in_words
from controller.domain.plan import Explanation, Launch, Snapshot
from controller.domain.policy import Headroom, Pool
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.domain.windows import change_after, open_at
from controller.planning.ageing import outdated
from controller.planning.choice import Candidate
from controller.planning.drafts import Draft
from controller.planning.giving_way import gives_way
from controller.planning.limits import Tally
from controller.planning.minimum import nothing_sold, right_sized, to_order
from controller.planning.namespaces import share_of
from controller.planning.predict import gpu_resources
from controller.planning.protection import paused
from controller.planning.room import Room
from controller.planning.shop import in_order_of
from controller.planning.sites import Sites
from controller.planning.workshop import bits


@dataclass(slots=True)
class KeptFree:
    launches: list[Launch] = field(default_factory=list)
    machines: dict[str, Explanation] = field(default_factory=dict)  # those that must not go now
    replaced: set[str] = field(default_factory=set)  # of these, outdated ones that may go for another to come
    lacks: set[Reason] = field(default_factory=set)  # what is in the way of that
    told: dict[str, Explanation] = field(default_factory=dict)  # by pool: why there is less
    wakes: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Free:
    """What is free on one machine."""

    name: str  # "": it is about to be ordered
    gpus: int  # of all that it has
    price: Decimal
    share: Fraction
    ready: bool

    @property
    def free(self) -> int:
        return int(self.share * self.gpus)

    @property
    def idle(self) -> bool:
        return self.share == 1

    @property
    def cost(self) -> Fraction:
        return Fraction(self.price) * self.share


def keep_free(
    made: Draft,
    launches: Sequence[Launch],
    barred: Mapping[int, str] = {},
) -> KeptFree:
    """What to order so that enough is free, and which machines hold what must stay free.

    `launches`: what is ordered for pods; `barred`: candidates, by id, of which nothing would stay free, and the pod that would
    take it.
    """
    snapshot, found = made.snapshot, KeptFree()
    wanted = _wanted_now(snapshot, found.wakes)
    if not wanted:
        return found
    asked = {pod.key: pod for pod in made.found.pods}  # with the GPUs that they get by shares and claims
    pools = [(entry, pool) for entry in wanted if (pool := snapshot.policy.pool(entry.pool)) is not None]
    there = {p.name: [*_there(made.placing.sites, p), *_ordered(launches, p, asked)] for _, p in pools}
    for entry, pool in pools:
        _keep(found, entry, there[pool.name])
        _let_be_replaced(made, found, entry, pool, there[pool.name], barred)
    if (given := gives_way(made, found.machines)) is not None:
        for name in given:
            del found.machines[name]
            found.replaced.discard(name)
        return found
    for entry, pool in pools:
        _order(made, found, entry, pool, there[pool.name], barred)
    return found


def takers(made: Draft) -> dict[int, str]:
    """By the id of a candidate: a pod that its namespace's limit keeps waiting, and that the machine would hold."""
    shop, found = made.packer.shop, dict[int, str]()
    seen: set[int] = set()
    for ask in made.left:
        if ask.kind in seen or made.told[ask.pod.key].code is not Reason.LIMIT_NAMESPACE:
            continue
        seen.add(ask.kind)
        for number in bits(made.board.profiles[ask.profile].offers & shop.holding(ask.needs)):
            found.setdefault(id(shop.offers[number]), ask.pod.key)
    return found


def _wanted_now(snapshot: Snapshot, wakes: list[float]) -> list[Headroom]:
    """What is to be kept free at this hour; of several for one pool, the most."""
    most: dict[str, Headroom] = {}
    for entry in snapshot.policy.headroom:
        if entry.schedule is not None:
            if (moment := change_after(entry.schedule, snapshot.now)) is not None:
                wakes.append(moment)
            if not open_at(entry.schedule, snapshot.now):
                continue
        known = most.get(entry.pool)
        if entry.gpus and (known is None or entry.gpus > known.gpus):
            most[entry.pool] = entry
    return [most[name] for name in sorted(most)]


def _there(sites: Sites, pool: Pool) -> Iterable[_Free]:
    for rooms, ready in ((sites.ready, True), (sites.coming, False)):
        for room in rooms:
            machine, offer = room.machine, room.offer
            if machine is not None and machine.pool == pool.name and not machine.surplus:
                share = _share_free(room, gpu_resources(pool, machine.gpus))
                stays = ready and machine.phase is Phase.READY
                yield _Free(machine.name, machine.gpus, machine.price, share, stays)
            elif machine is None and offer is not None and room.pool is pool:
                share = _share_free(room, gpu_resources(pool, offer.type.gpus))
                yield _Free("", offer.type.gpus, offer.price, share, False)


def _share_free(room: Room, totals: Resources) -> Fraction:
    free = room.free
    if room.soon is not None:
        free = {name: max(free.get(name, 0), room.soon.get(name, 0)) for name in totals}
    parts = (Fraction(free.get(name, 0), units) for name, units in totals.items() if units)
    return min(Fraction(1), min(parts, default=Fraction(0)))


def _ordered(launches: Iterable[Launch], pool: Pool, asked: Mapping[str, Pod]) -> Iterable[_Free]:
    """Machines that this plan buys for pods; what they leave free counts."""
    for launch in launches:
        if launch.pool != pool.name or not launch.pods:
            continue
        gpus = launch.offer.type.gpus
        totals = gpu_resources(pool, gpus)
        used = sum((share_of(asked[key], totals) for key in launch.pods if key in asked), Fraction(0))
        yield _Free("", gpus, launch.offer.price, max(Fraction(0), 1 - used), False)


def _keep(found: KeptFree, entry: Headroom, there: Sequence[_Free]) -> None:
    """The idle machines without which too little would be free; the largest may go first, and what is dearer than it may be."""
    free, cost = sum(one.free for one in there), sum((one.cost for one in there), Fraction(0))
    most = entry.max_price_per_hour
    for one in sorted(there, key=lambda one: (-one.gpus, -one.price, one.name)):
        if not (one.ready and one.idle):
            continue
        if free - one.free >= entry.gpus or (most is not None and cost > Fraction(most)):
            free, cost = free - one.free, cost - one.cost
        else:
            found.machines[one.name] = Explanation(
                Reason.HEADROOM, f"headroom of pool {entry.pool} keeps {entry.gpus} GPU(s) free"
            )


def _let_be_replaced(
    made: Draft,
    found: KeptFree,
    entry: Headroom,
    pool: Pool,
    there: Sequence[_Free],
    barred: Mapping[int, str],
) -> None:
    """Outdated ones go where another would be bought if they were gone, and the others are told why not."""
    machines = {m.name: m for m in made.snapshot.machines if m.name in found.machines}
    free, cost = sum(one.free for one in there), sum((one.cost for one in there), Fraction(0))
    on_offer: dict[int, _Choice] = {}
    for one in there:
        if one.name not in machines or (old := outdated(made.snapshot, machines[one.name])) is None:
            continue
        tally = made.tally.without(machines[one.name])
        least = _least(pool, entry.gpus - (free - one.free), tally)
        if least not in on_offer:
            on_offer[least] = _on_offer(made, found, pool, least, barred)
        another = _next(made, on_offer[least], least, tally, cost - one.cost, entry.max_price_per_hour)
        if paused(made.snapshot, None, "scale-up", pool.name):
            another = Explanation(Reason.PAUSED, "scale-up is paused")
        elif isinstance(another, Candidate) and another.gpus < min(one.free, least):
            words = f"those that could be bought have fewer GPUs ({another.gpus}), and limits allow too few of them"
            another = Explanation(Reason.LIMIT_MACHINES, words)
        if isinstance(another, Candidate):
            found.replaced.add(one.name)
        else:
            words = (
                f"{found.machines[one.name].message}; {old.message}, and without it no other would be bought"
            )
            found.machines[one.name] = Explanation(Reason.HEADROOM, f"{words}: {another.message}")
            found.lacks.add(another.code)


def _order(
    made: Draft,
    found: KeptFree,
    entry: Headroom,
    pool: Pool,
    there: Sequence[_Free],
    barred: Mapping[int, str],
) -> None:
    tally, lacking = made.tally, entry.gpus - sum(one.free for one in there)
    if lacking <= 0:
        return
    words = f"headroom of pool {pool.name} is {entry.gpus} GPU(s)"
    choice = _on_offer(made, found, pool, _least(pool, lacking, tally), barred)
    if choice.singly and any(one.name == "" for one in there):
        return  # this plan orders one of it already
    cost = sum((one.cost for one in there), Fraction(0))
    while lacking > 0:
        least = _least(pool, lacking, tally)
        chosen = _next(made, choice, least, tally, cost, entry.max_price_per_hour)
        if isinstance(chosen, Explanation):
            found.told[pool.name] = Explanation(chosen.code, f"{words}, and less is free: {chosen.message}")
            return
        tally.add(chosen)
        cost += Fraction(chosen.price)
        lacking -= chosen.gpus
        found.launches.append(
            Launch(pool=pool.name, offer=chosen.offer, pods=(), reason=f"{words}: they are to be free")
        )
        if choice.singly:
            return


@dataclass(frozen=True, slots=True)
class _Choice:
    """What may be ordered of a pool that no pod asks for."""

    mine: list[Candidate]
    why: Explanation | None  # where there is nothing
    singly: bool


def _on_offer(made: Draft, found: KeptFree, pool: Pool, least: int, barred: Mapping[int, str]) -> _Choice:
    snapshot = made.snapshot
    machines = [m for m in snapshot.machines if m.pool == pool.name and m.phase is not Phase.TOMBSTONE]
    every = [c for c in made.options if c.pool is pool and c.gpus]
    mine, too_large = right_sized(snapshot, every, least)
    doubts = made.doubts.of_pool(pool.name)
    mine, why, singly = to_order(snapshot, doubts, machines, mine, found.wakes)
    takes = sorted({barred[id(c)] for c in mine if id(c) in barred})
    mine = [c for c in mine if id(c) not in barred]
    if takes and not mine:
        words = f"pod {takes[0]}, for which its namespace may buy nothing, would take it"
        why = Explanation(Reason.LIMIT_NAMESPACE, words)
    if why is None and not mine:
        why = too_large or nothing_sold(snapshot, every)
    return _Choice(mine, why, singly)


def _next(
    made: Draft,
    choice: _Choice,
    least: int,
    tally: Tally,
    cost: Fraction,
    most: Decimal | None,
) -> Candidate | Explanation:
    """One with `least` GPUs, or the nearest. `cost`: of what is free already, which is to be `most` at most."""

    def best(some: Sequence[Candidate]) -> Candidate:
        return in_order_of(made.snapshot, some)[0]

    if choice.why is not None:
        return choice.why
    large = [c for c in choice.mine if c.gpus >= least] or choice.mine
    allowed = [c for c in large if tally.objection(c) is None]
    allowed = allowed or [c for c in choice.mine if tally.objection(c) is None]
    if not allowed and (why := tally.objection(best(choice.mine))) is not None:
        return why
    affordable = [c for c in allowed if most is None or cost + Fraction(c.price) <= Fraction(most)]
    if not affordable:
        words = f"max_price_per_hour of the headroom is {in_words(most or Decimal(0))}, and more free room costs more"
        return Explanation(Reason.LIMIT_PRICE, words)
    # Where none is large enough, the nearest: a small one would take the place of more.
    least = min(least, max(c.gpus for c in affordable))
    return best([c for c in affordable if c.gpus >= least])


def _least(pool: Pool, lacking: int, tally: Tally) -> int:
    """GPUs that the next machine has to have for the others that the pool may have to be enough."""
    return -(-lacking // max(1, tally.places(pool)))
