"""Which machines to buy for the pods that fit nowhere: a few greedy packings, the best one wins.

One packing seats each pod on a machine that it opened already, if one takes it, and opens the best single
machine otherwise. That is right as long as machines may be small; where a limit on machines binds, fewer
larger ones place more pods. So packings that open nothing below 2, 4, 8… GPUs are tried as well; each
machine is then exchanged for the best one that holds the same pods. They are judged by: pods placed (the
most urgent first), then what the strategy asks for, and then rather more, smaller machines.

A machine without GPUs is not settled until the end: it may grow as long as that costs no more than another
machine would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from controller.domain import names
from controller.domain.machine import Phase
from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.domain.resources import total
from controller.planning.board import Board, Profile
from controller.planning.census import COMING, POSSIBLE
from controller.planning.choice import SAME_PRICE, Candidate
from controller.planning.fit import Ask, enough
from controller.planning.gangs import Gang
from controller.planning.limits import Tally
from controller.planning.room import Room
from controller.planning.shop import Shop

_SAMPLE = 4  # machines that are priced exactly before one of them grows
_PARTS = 4  # of what a pod needs, by which machines are told apart that nearly hold it
_MANY = 2000  # pods, beyond which one packing must do unless limits bind


@dataclass(slots=True, eq=False)
class New:
    """A machine of a packing."""

    number: int  # its place on the board
    offers: int  # what it can still be
    offer: int  # what it is now
    grows: bool
    used: dict[str, int] = field(default_factory=dict)
    inside: list[Ask] = field(default_factory=list)


@dataclass(slots=True)
class Packing:
    tally: Tally
    rooms: list[Room] = field(default_factory=list)
    chosen: list[Candidate] = field(default_factory=list)  # of each room
    inside: list[list[Ask]] = field(default_factory=list)  # of each room
    order: list[tuple[Ask, int]] = field(default_factory=list)  # who was seated when, and in which room
    unplaced: dict[str, Explanation | None] = field(default_factory=dict)  # None: no candidate fits
    together: dict[str, int] = field(default_factory=dict)  # by gang that failed: how many got a place

    @property
    def gpus(self) -> int:
        return sum(candidate.gpus for candidate in self.chosen)

    @property
    def price(self) -> Decimal:
        return sum((candidate.price for candidate in self.chosen), Decimal(0))


class Packer:
    """Packs pods onto new machines."""

    def __init__(self, snapshot: Snapshot, options: Sequence[Candidate]) -> None:
        self._snapshot = snapshot
        self.shop = Shop(snapshot, options)
        self._cheapest_first = snapshot.policy.strategy == "cheapest"

    def template(self, candidate: Candidate) -> Room:
        return self.shop.template(candidate)

    def allowed(
        self, options: Sequence[Candidate], tally: Tally
    ) -> tuple[Candidate | None, Explanation | None]:
        """The best of those that the limits allow; else why the best of all is not allowed."""
        ranked = sorted(options, key=lambda candidate: self.shop.number[id(candidate)])
        for candidate in ranked:
            if tally.objection(candidate) is None:
                return candidate, None
        return None, tally.objection(ranked[0]) if ranked else None

    def best(
        self, pods: Sequence[Ask], tally: Tally, board: Board, seated: Mapping[str, int] | None = None
    ) -> Packing:
        """The board must hold what is there already; it is left as it was."""
        pods = in_packing_order(pods, board)
        self._seated = seated or {}
        best = self._try(pods, tally, board, 0)
        bound = any(why is not None for why in best.unplaced.values())
        if len(pods) > _MANY and not bound:
            return best
        every = 0
        for profile in board.profiles.values():
            every |= profile.offers
        sizes = sorted({self.shop.gpus[n] for n in _bits(every & self.shop.buyable)})
        for least in sizes[1:]:
            other = self._try(pods, tally, board, least)
            if self._beats(other, best, pods):
                best = other
        return best

    def _try(self, pods: Sequence[Ask], tally: Tally, board: Board, least: int) -> Packing:
        attempt = Attempt(self.shop, board, tally.copy(), least, self._cheapest_first)
        attempt.seated = self._seated
        attempt.overshoot = self._snapshot.policy.max_overshoot
        if self._snapshot.policy.spread_locations:
            attempt.elsewhere = Counter(
                (machine.pool, machine.location)
                for machine in self._snapshot.machines
                if not machine.phase.leaving and machine.phase is not Phase.TOMBSTONE
            )
        attempt.run(pods)
        packing = attempt.result()
        attempt.undo()
        return packing

    def _beats(self, other: Packing, best: Packing, pods: Sequence[Ask]) -> bool:
        ours, theirs = self._left(best, pods), self._left(other, pods)
        if ours != theirs:
            return theirs < ours
        first: list[Callable[[Packing], Decimal]] = [lambda p: Decimal(p.gpus), lambda p: p.price]
        for measure in reversed(first) if self._cheapest_first else first:
            a, b = measure(best), measure(other)
            if max(a, b) > min(a, b) * SAME_PRICE:
                return b < a
        return len(other.rooms) > len(best.rooms)

    @staticmethod
    def _left(packing: Packing, pods: Sequence[Ask]) -> tuple[tuple[int, int], ...]:
        """How many pods stay unplaced, by falling priority."""
        left: Counter[int] = Counter()
        for ask in pods:
            left[ask.pod.shape.priority] += ask.pod.key in packing.unplaced
        return tuple((-priority, left[priority]) for priority in sorted(left, reverse=True))


def in_packing_order(pods: Sequence[Ask], board: Board) -> list[Ask]:
    """Within priority, gang and GPUs: whoever has the strictest rules about other pods first, then by size."""
    if not any(profile.ruled for profile in board.profiles.values()):
        return list(pods)
    strictness = {number: _strictness(profile) for number, profile in board.profiles.items()}
    found: list[Ask] = []
    at = 0
    while at < len(pods):
        head = pods[at]
        end = at
        if head.gang is not None:
            while end < len(pods) and pods[end].gang is head.gang:
                end += 1
        else:
            key = (head.pod.shape.priority, head.scarce)
            while (
                end < len(pods)
                and pods[end].gang is None
                and (pods[end].pod.shape.priority, pods[end].scarce) == key
            ):
                end += 1
        found += sorted(pods[at:end], key=lambda ask: strictness[ask.profile])
        at = end
    return found


def _size(ask: Ask) -> tuple[int, int, str]:
    return (ask.needs.get("cpu", 0), ask.needs.get("memory", 0), ask.pod.key)


def _strictness(profile: Profile) -> int:
    if profile.owns and any(census.by_host for census in profile.owns):
        return 0
    if profile.affinity:
        return 1
    if any(spreading.census.by_host for spreading in profile.spreads):
        return 2
    return 3 if profile.spreads or profile.anti else 4


class Attempt:
    """One packing in the making."""

    def __init__(self, shop: Shop, board: Board, tally: Tally, least: int, cheapest: bool) -> None:
        self.shop, self.board, self.tally = shop, board, tally
        self._least = shop.of_gpus(least) if least else -1
        self._least_gpus = least
        self.overshoot = 0
        self._cheapest = cheapest
        self.machines: dict[int, New] = {}
        self.unplaced: dict[str, Explanation | None] = {}
        self.seated: Mapping[str, int] = {}  # by gang: who has a place that exists
        self.together: dict[str, int] = {}
        self.elsewhere: Counter[tuple[str, str]] | None = (
            None  # machines by pool and location, to spread over
        )
        self._zone: str | None = None  # where a gang has to be
        self._order: list[tuple[Ask, int]] = []
        self._growing = 0
        self._no_use: dict[int, int] = {}  # by offers of a profile: machines that are none of these
        self._fitting: dict[int, int] = {}  # by kind
        self._spent: dict[tuple[int, str], Explanation] = {}  # by kind and namespace

    # -- seating

    def run(self, pods: Sequence[Ask]) -> None:
        """Fill, exchange, and fill again: a machine exchanged for a smaller one makes room in the limits."""
        waiting, before = list(pods), len(pods) + 1
        while waiting and len(waiting) < before:
            before = len(waiting)
            self.unplaced, self._spent = {}, {}
            self._fill(waiting)
            self._exchange()
            waiting = [ask for ask in waiting if ask.pod.key in self.unplaced]
        self._dissolve()
        if self._growing:
            self._round_off()
        if self.elsewhere is not None:
            self._spread(self.elsewhere.copy())

    def _fill(self, pods: Sequence[Ask]) -> None:
        at = 0
        while at < len(pods):
            gang = pods[at].gang
            if gang is None:
                self._seat(pods[at])
                at += 1
                continue
            end = at
            while end < len(pods) and pods[end].gang is gang:
                end += 1
            self._seat_gang(pods[at:end])
            at = end

    def _seat(self, ask: Ask) -> bool:
        alike = (ask.kind, ask.pod.namespace)
        if alike in self._spent:  # its namespace may have no more of them; not looked for thousands of times
            self.unplaced[ask.pod.key] = self._spent[alike]
            return False
        why = self._place(ask, POSSIBLE)
        if why is not None and self.board.profiles[ask.profile].spreads:
            # Locations that nothing can be bought in after all are no reason to wait.
            why = self._place(ask, COMING)
        if why is None:
            self.unplaced.pop(ask.pod.key, None)
            return True
        self.unplaced[ask.pod.key] = why[0]
        if why[0] is not None and why[0].code is Reason.LIMIT_NAMESPACE:
            self._spent[alike] = why[0]
        return False

    def _seat_gang(self, asks: Sequence[Ask]) -> None:
        """At least as many as the gang needs, or none."""
        gang = asks[0].gang
        already = self.seated.get(gang.key, 0) if gang is not None else 0
        needed = (gang.needed if gang is not None else len(asks)) - already
        mark = len(self._order)
        missed: list[Ask] = []
        most = 0
        for zone in self._zones(gang):
            self._zone = zone
            missed = [ask for ask in asks if not self._seat(ask)]
            self._zone = None
            if len(asks) - len(missed) >= needed or not missed:
                return
            most = max(most, len(asks) - len(missed))
            self._back(mark)
        if gang is not None:
            self.together[gang.key] = max(most + already, self.together.get(gang.key, 0))
        objection = next((self.unplaced[a.pod.key] for a in missed if self.unplaced[a.pod.key]), None)
        for ask in asks:
            self.unplaced[ask.pod.key] = objection

    def _zones(self, gang: Gang | None) -> Sequence[str | None]:
        """Where a gang may be tried: the locations of the best offers first."""
        if gang is None or not gang.one_location:
            return (None,)
        if gang.location:
            return (gang.location,)
        offered = self.board.offers.by(names.LABEL_ZONE)
        sold = self.shop.buyable
        found = sorted((self.shop.best(bits & sold), zone) for zone, bits in offered.items() if bits & sold)
        return [zone for _, zone in found] or (None,)

    def _place(self, ask: Ask, scope: int) -> tuple[Explanation | None] | None:
        """None: seated."""
        board, shop = self.board, self.shop
        profile = board.profiles[ask.profile]
        if not profile.offers:
            return (None,)
        nodes, offers, fresh = board.allowed(profile, scope) if profile.ruled else (board.new, -1, -1)
        if self._zone is not None:
            here = board.offers.by(names.LABEL_ZONE).get(self._zone, 0)
            offers &= here
            fresh &= here
        among = board.new & nodes & ~self._no_use.get(profile.offers, 0)
        if among and profile.shape.host_ports:
            among &= ~board.free_ports(profile)
        if among:
            now = board.sizes.holding(ask.needs, among)
            while now:
                bit = now & -now
                now ^= bit
                machine = self.machines[bit.bit_length() - 1]
                if self._sit(ask, profile, machine, offers):
                    return None
        fitting = self._fits(ask, profile) & fresh & shop.buyable
        objection: Explanation | None = None
        if fitting and not self._least_gpus:
            within = fitting & self._not_too_large(profile.offers, ask.needs)
            if not within:
                objection = self._overshoots(fitting, profile.offers, ask.needs)
            fitting = within
        if fitting and profile.offer_wishes:
            fitting = self._preferred(profile, fitting)
        chosen = None
        if fitting:
            chosen, objection = self._choose(ask, fitting)
        growing = among & self._growing
        if growing and self._grow(ask, profile, growing, offers, chosen):
            return None
        if chosen is None:
            return (objection,)
        self._open(ask, profile, chosen, fitting)
        return None

    def _not_too_large(self, offers: int, needs: Mapping[str, int]) -> int:
        """Offers with hardly more GPUs than what would be bought for this if nothing was sold out."""
        shop = self.shop
        possible = offers & shop.possible & ~shop.own & shop.holding(needs)
        if not possible:
            return -1
        # A machine that is there already is not bought: it is never too large.
        return shop.of_gpus(0, shop.gpus[shop.best(possible)] + self.overshoot) | shop.own

    def _overshoots(self, fitting: int, offers: int, needs: Mapping[str, int]) -> Explanation:
        shop = self.shop
        possible = offers & shop.possible & ~shop.own & shop.holding(needs)
        smallest = shop.offers[shop.best(possible)]
        fewest, best = smallest.gpus, shop.fewest_gpus(fitting)
        hindered = smallest.hindrance
        return Explanation(
            hindered.code if hindered is not None else Reason.NO_CAPACITY,
            (hindered.message if hindered is not None else f"{smallest.offer.type.name} cannot be bought")
            + f"; the next larger machine has {best - fewest} GPUs more: set planning.max_overshoot to at least "
            f"{best - fewest} to allow that",
        )

    def _preferred(self, profile: Profile, fitting: int) -> int:
        """Preferences decide among what the strategy holds equal; they never buy a larger or dearer machine."""
        shop = self.shop
        best = shop.best(fitting)
        for wish in profile.offer_wishes:
            wanted = fitting & wish
            if not wanted:
                continue
            offer = shop.best(wanted)
            dearer = self._cheapest and shop.price[offer] > shop.price[best]
            if shop.gpus[offer] == shop.gpus[best] and not dearer:
                return wanted
        return fitting

    def _fits(self, ask: Ask, profile: Profile) -> int:
        """The offers on which the pod would run alone."""
        known = self._fitting.get(ask.kind)
        if known is None:
            known = self._fitting[ask.kind] = profile.offers & self.shop.holding(ask.needs)
        return known

    def _sit(self, ask: Ask, profile: Profile, machine: New, offers: int) -> bool:
        """Join a machine as it is now."""
        if not enough(ask.needs, self.board.free[machine.number]):
            return False
        left = machine.offers & profile.offers
        if not left:
            key = profile.offers
            self._no_use[key] = self._no_use.get(key, 0) | 1 << machine.number
            return False
        left &= offers
        if not left >> machine.offer & 1:
            if not left:
                return False
            other = self._instead(machine, left)
            if other is None:
                return False
            self._become(machine, other)
        if profile.special:
            now = self.shop.offers[machine.offer]
            kind = (now.pool.name, now.offer.type.name)
            if not self.board.fits_specially(profile, machine.number, kind):
                return False
        if self.tally.objection_to_join(self.shop.offers[machine.offer], machine.inside, ask) is not None:
            return False
        self._add(ask, profile, machine, left)
        return True

    def _instead(self, machine: New, left: int) -> int | None:
        """Another place or market for a machine, at the price that it has now."""
        same = left & self.shop.alike(machine.offer)
        return self.shop.best(same) if same else None

    def _become(self, machine: New, offer: int) -> None:
        shop = self.shop
        old, new = shop.offers[machine.offer], shop.offers[offer]
        if old is not new:
            self.tally.remove(old, machine.inside)
            self.tally.add(new, machine.inside)
        machine.offer = offer

    def _add(self, ask: Ask, profile: Profile, machine: New, left: int) -> None:
        board = self.board
        for key in profile.pins:
            left &= board.pin(machine.number, key, machine.offer)
        if machine.inside:
            self.tally.join(self.shop.offers[machine.offer], machine.inside, ask)
        machine.offers = left
        used = machine.used
        for name, units in ask.needs.items():
            used[name] = used.get(name, 0) + units
        machine.inside.append(ask)
        self._order.append((ask, machine.number))
        board.put(ask, machine.number)

    def _open(self, ask: Ask, profile: Profile, offer: int, fitting: int) -> None:
        shop = self.shop
        candidate = shop.offers[offer]
        grows = candidate.gpus == 0
        offers = fitting if grows else fitting & shop.alike(offer)
        number = self.board.open(dict(shop.free[offer]), offer)
        machine = self.machines[number] = New(number, offers, offer, grows)
        if grows:
            self._growing |= 1 << number
        self.tally.add(candidate, [ask])
        self._add(ask, profile, machine, offers)

    def _choose(self, ask: Ask, fitting: int) -> tuple[int | None, Explanation | None]:
        """The best machine for the pod: of at least this size if limits allow one, else of any."""
        shop, tally = self.shop, self.tally
        larger = fitting & self._least
        objection: Explanation | None = None
        for options in (larger, fitting) if larger and larger != fitting else (fitting,):
            first = True
            while options:
                offer = shop.best(options)
                why = tally.objection(shop.offers[offer], [ask])
                if why is None:
                    return offer, None
                if first:
                    objection = why
                if tally.exhausted:
                    return None, objection
                first = False
                options &= ~shop.alike(offer) if why.code is not Reason.PAUSED else ~(1 << offer)
        return None, objection

    def _grow(self, ask: Ask, profile: Profile, growing: int, offers: int, chosen: int | None) -> bool:
        """Let the machine grow whose price rises least, if that is no more than another machine costs."""
        shop = self.shop
        most = shop.price[chosen] * 1001 // 1000 if chosen is not None else None
        best: tuple[int, New, int, int] | None = None
        looked, share, near = 0, _PARTS, 0
        while looked < _SAMPLE:
            while not near and share:
                # Those that lack the least first.
                share -= 1
                part = {name: units * share // _PARTS for name, units in ask.needs.items()}
                near = self.board.sizes.holding(part, growing)
                growing &= ~near
            if not near:
                break
            bit = near & -near
            near ^= bit
            machine = self.machines[bit.bit_length() - 1]
            left = machine.offers & profile.offers
            if not left:
                key = profile.offers
                self._no_use[key] = self._no_use.get(key, 0) | bit
                continue
            left &= offers & shop.buyable
            if not left:
                continue
            left &= shop.holding(total((machine.used, ask.needs)))
            if not left:
                continue
            looked += 1
            offer = shop.best(left)
            rise = shop.price[offer] - shop.price[machine.offer]
            if (most is None or rise <= most) and (best is None or rise < best[0]):
                best = (rise, machine, offer, left)
        if best is None:
            return False
        _, machine, offer, left = best
        old, new = shop.offers[machine.offer], shop.offers[offer]
        self.tally.remove(old, machine.inside)
        if self.tally.objection(new, [*machine.inside, ask]) is not None:
            self.tally.add(old, machine.inside)
            return False
        self.tally.add(new, machine.inside)
        self._turn(machine, offer)
        self._add(ask, profile, machine, left)
        return True

    def _turn(self, machine: New, offer: int) -> None:
        """The machine becomes another one."""
        machine.offer = offer
        free = dict(self.shop.free[offer])
        for name, units in machine.used.items():
            free[name] -= units
        self.board.resize(machine.number, free)

    # -- improving

    def _exchange(self) -> None:
        """Each machine for the best one that would hold the same pods; often it is that."""
        shop = self.shop
        for machine in self.machines.values():
            if not machine.inside:
                continue
            offers = self._possible(machine, shop.possible)
            options = offers & shop.buyable & shop.holding(machine.used)
            options &= self._not_too_large(offers, machine.used)
            while options:
                offer = shop.best(options)
                if offer >= machine.offer:
                    break
                old, new = shop.offers[machine.offer], shop.offers[offer]
                self.tally.remove(old, machine.inside)
                if self.tally.objection(new, machine.inside) is None:
                    self.tally.add(new, machine.inside)
                    machine.offers = options & shop.alike(offer)
                    self._turn(machine, offer)
                    break
                self.tally.add(old, machine.inside)
                options &= ~shop.alike(offer)

    def _dissolve(self) -> None:
        """Machines that stayed much too large for their pods are not bought after all."""
        shop = self.shop
        for machine in self.machines.values():
            offers = self._possible(machine, shop.possible)
            if not machine.inside or self._not_too_large(offers, machine.used) >> machine.offer & 1:
                continue
            why = self._overshoots(1 << machine.offer, offers, machine.used)
            self.tally.remove(shop.offers[machine.offer], machine.inside)
            for ask in reversed(machine.inside):
                self.board.take(ask, machine.number)
                self.unplaced[ask.pod.key] = why
            gone = set(map(id, machine.inside))
            self._order = [(ask, number) for ask, number in self._order if id(ask) not in gone]
            machine.inside, machine.used = [], {}

    def _spread(self, there: Counter[tuple[str, str]]) -> None:
        """The same type at the same price where the pool has the fewest machines; else where it is."""
        shop = self.shop
        for machine in self.machines.values():
            if not machine.inside:
                continue
            here = shop.offers[machine.offer]
            options = self._possible(machine, shop.alike(machine.offer) & shop.buyable)
            options &= shop.holding(machine.used)
            if any(ask.gang is not None and ask.gang.one_location for ask in machine.inside):
                options = 0
            places = [machine.offer, *_bits(options)]
            best = min(places, key=lambda n: there[(here.pool.name, shop.offers[n].offer.location)])
            if best != machine.offer:
                self._become(machine, best)
                self._turn(machine, best)
            there[(here.pool.name, shop.offers[best].offer.location)] += 1

    def _possible(self, machine: New, among: int) -> int:
        """What the machine could be, for the pods that it holds, whatever its size."""
        board = self.board
        options = among
        for number in {ask.profile for ask in machine.inside}:
            profile = board.profiles[number]
            options &= profile.offers
            for wish in profile.offer_wishes:
                if wish >> machine.offer & 1:
                    options &= wish
                    break
        for key, value in board.pinned[machine.number].items():
            by = board.offers.by(key)
            if value is None:
                options &= ~board.offers.having(key)
            elif value in by:
                options &= by[value]
        return options

    def _round_off(self) -> None:
        """Move a pod where room for it is left over, if the machine that it leaves may then be a cheaper one.

        Who was seated before whom stays as it is, and so does every pod's location; rules about hosts are
        checked as they will be with all pods there.
        """
        shop, board = self.shop, self.board
        at = {id(ask): number for number, (ask, _) in enumerate(self._order)}
        for machine in self.machines.values():
            if not machine.grows:
                continue
            possible = self._possible(machine, shop.buyable)
            for ask in sorted(machine.inside, key=_size):
                if len(machine.inside) == 1:
                    break
                rest = {name: units - ask.needs.get(name, 0) for name, units in machine.used.items()}
                smaller = shop.best(possible & shop.holding(rest))
                if shop.price[smaller] >= shop.price[machine.offer]:
                    continue
                target = self._another(ask, machine)
                if target is None:
                    continue
                board.take(ask, machine.number)
                machine.inside.remove(ask)
                machine.used = rest
                self.tally.remove(shop.offers[machine.offer], [*machine.inside, ask])
                self.tally.add(shop.offers[smaller], machine.inside)
                self._turn(machine, smaller)
                self.tally.join(shop.offers[target.offer], target.inside, ask)
                target.inside.append(ask)
                for name, units in ask.needs.items():
                    target.used[name] = target.used.get(name, 0) + units
                target.offers &= board.profiles[ask.profile].offers
                board.put(ask, target.number)
                self._order[at[id(ask)]] = (ask, target.number)

    def _another(self, ask: Ask, machine: New) -> New | None:
        """A machine that takes the pod as it is, in the same location if that matters to anyone."""
        board = self.board
        profile = board.profiles[ask.profile]
        if profile.special or profile.shape.host_ports or ask.gang is not None:
            return None
        among = self._growing & ~(1 << machine.number)
        for key in profile.pins:
            value = board.domain(machine.number, key)
            among &= board.looks.by(key).get(value, 0) if value is not None else 0
        for census in (*profile.anti, *(spreading.census for spreading in profile.spreads)):
            if not census.by_host:
                continue
            most = next((s.spread.max_skew - s.itself for s in profile.spreads if s.census is census), 0)
            among &= ~census.holds_more_than(most)
        for census in profile.affinity:
            if census.by_host:
                return None
            value = board.domain(machine.number, census.key)
            among &= board.looks.by(census.key).get(value, 0) if value is not None else 0
        for spreading in profile.spreads:
            if not spreading.census.by_host:
                value = board.domain(machine.number, spreading.census.key)
                among &= board.looks.by(spreading.census.key).get(value, 0) if value is not None else 0
        among &= ~board.filled(profile)
        among = board.sizes.holding(ask.needs, among)
        while among:
            bit = among & -among
            among ^= bit
            other = self.machines[bit.bit_length() - 1]
            if (
                other.offers & profile.offers & 1 << other.offer
                and enough(ask.needs, board.free[other.number])
                and self.tally.objection_to_join(self.shop.offers[other.offer], other.inside, ask) is None
            ):
                return other
        return None

    # -- undoing

    def _back(self, mark: int) -> None:
        """Undo everything since then, the newest first."""
        while len(self._order) > mark:
            ask, number = self._order.pop()
            machine = self.machines[number]
            self.board.take(ask, number)
            machine.inside.remove(ask)
            for name, units in ask.needs.items():
                machine.used[name] -= units
            if not machine.inside:
                self.tally.remove(self.shop.offers[machine.offer], [ask])
            while self.machines and not self.machines[newest := next(reversed(self.machines))].inside:
                self._growing &= ~(1 << newest)
                del self.machines[newest]
                self.board.close()
        while self.machines and not self.machines[newest := next(reversed(self.machines))].inside:
            self._growing &= ~(1 << newest)
            del self.machines[newest]
            self.board.close()
        self._no_use.clear()

    def undo(self) -> None:
        self._back(0)

    def result(self) -> Packing:
        packing = Packing(self.tally, unplaced=dict(self.unplaced), together=dict(self.together))
        at: dict[int, int] = {}
        for machine in self.machines.values():
            if not machine.inside:
                continue
            at[machine.number] = len(packing.rooms)
            candidate = self.shop.offers[machine.offer]
            room = self.shop.template(candidate).copy()
            for ask in machine.inside:
                room.pods.append(ask.pod)
            packing.rooms.append(room)
            packing.chosen.append(candidate)
            packing.inside.append(machine.inside[:])
        packing.order = [(ask, at[number]) for ask, number in self._order]
        return packing


def _bits(places: int) -> list[int]:
    found = []
    while places:
        bit = places & -places
        found.append(bit.bit_length() - 1)
        places ^= bit
    return found
