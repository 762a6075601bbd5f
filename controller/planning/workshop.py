"""The machines of a packing in the making: opened, filled, exchanged, taken back; on the board and in the tally.

A machine that takes none of the waiting pods any more is off the board, where no rule counts who is on which:
its place is for the next one, so that sets of places stay small however many machines there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from controller.domain.plan import Explanation
from controller.domain.reason import Reason
from controller.domain.resources import Resources
from controller.planning.board import Board, Profile
from controller.planning.choice import Candidate
from controller.planning.fit import Ask
from controller.planning.limits import Tally
from controller.planning.room import Room
from controller.planning.shop import Shop, larger
from controller.planning.storage import Attached, Held

_NOWHERE = -1


@dataclass(slots=True, eq=False)
class New:
    """A machine of a packing."""

    number: int  # its place on the board; below zero: it has none
    offers: int  # what it can still be
    offer: int  # what it is now
    grows: bool
    used: dict[str, int] = field(default_factory=dict)
    inside: list[Ask] = field(default_factory=list)
    taken: list[int] | None = None  # of what machines differ in, side by side; None: to be summed up anew


@dataclass(slots=True)
class Packing:
    tally: Tally
    rooms: list[Room] = field(default_factory=list)
    chosen: list[Candidate] = field(default_factory=list)  # of each room
    inside: list[list[Ask]] = field(default_factory=list)  # of each room
    order: list[tuple[Ask, int]] = field(default_factory=list)  # who was seated when, and in which room
    unplaced: dict[str, Explanation | None] = field(default_factory=dict)  # None: no candidate fits
    together: dict[str, int] = field(default_factory=dict)  # by gang that failed: how many got a place
    bound: bool = False  # to its machines: with others, some pods would not be spread evenly
    _users: tuple[int, dict[str, list[tuple[Held, Mapping[str, str]]]]] = (0, {})  # of so many in `order`

    @property
    def gpus(self) -> int:
        return sum(candidate.gpus for candidate in self.chosen)

    @property
    def price(self) -> Decimal:
        return sum((candidate.price for candidate in self.chosen), Decimal(0))

    def users_of(self, claims: Iterable[str], board: Board) -> list[tuple[Held, Mapping[str, str]]]:
        """The pods that take part in what becomes of these claims, and the labels of their machines."""
        size, users = self._users
        if size != len(self.order):
            users = {}
            for ask, at in self.order:
                if ask.pod.shape.volumes:
                    held = board.profiles[ask.profile].held
                    for claim in held.contested:
                        users.setdefault(claim, []).append((held, self.rooms[at].labels))
            self._users = (len(self.order), users)
        return [user for claim in sorted(claims) for user in users.get(claim, ())]


class Workshop:
    def __init__(self, shop: Shop, board: Board, tally: Tally, *, overshoot: int, cheapest: bool) -> None:
        self.shop, self.board, self.tally = shop, board, tally
        self.buyable = shop.buyable  # and not kept from this packing
        self.overshoot, self.cheapest = overshoot, cheapest
        self.machines: list[New] = []  # in the order in which they were opened
        self.at: dict[int, New] = {}  # by place on the board
        self.order: list[tuple[Ask, New]] = []
        self.growing = 0
        self.all_grow = False  # also those with GPUs
        self._leaves = board.plain
        self._kept = False  # on the board, as what happens now may be taken back
        self._least: dict[str, int] = {}  # of what every waiting pod needs
        self._begin = board.mark()

    def expect(self, pods: Sequence[Ask]) -> None:
        """These pods wait: machines that could take one of them are on the board."""
        if not self._leaves or not pods:
            return
        some = {ask.kind: ask.needs for ask in pods}.values()
        names = set.intersection(*(set(needs) for needs in some))
        self._least = {name: min(needs[name] for needs in some) for name in sorted(names)}
        for machine in self.machines:
            if machine.number == _NOWHERE and machine.inside:
                free = self._left(machine)
                if not self._full(free):
                    machine.number = self.board.open(free, machine.offer)
                    self.at[machine.number] = machine

    def _left(self, machine: New) -> dict[str, int]:
        used = machine.used
        free = self.shop.free[machine.offer]
        return {name: units - used[name] if name in used else units for name, units in free.items()}

    def _full(self, free: Resources) -> bool:
        for name, units in self._least.items():  # noqa: SIM110  (a generator takes three times as long)
            if free.get(name, 0) < units:
                return True
        return False

    # -- filling

    def open(self, ask: Ask, profile: Profile, offer: int, offers: int) -> None:
        """A new machine for the pod; it may become any of these offers."""
        shop = self.shop
        candidate = shop.offers[offer]
        grows = candidate.gpus == 0 or self.all_grow
        left = offers if grows else offers & shop.alike(offer)
        machine = New(_NOWHERE, left, offer, grows, dict(ask.needs), [ask])
        self.machines.append(machine)
        self.order.append((ask, machine))
        self.tally.add(candidate, [ask])
        free = self._left(machine)
        if self._leaves and not grows and self._full(free):
            return
        number = machine.number = self.board.open(free, offer)
        self.at[number] = machine
        if grows:
            self.growing |= 1 << number
        for key in profile.pins:
            machine.offers &= self.board.pin(number, key, offer)
        self.board.seat(profile, number)

    def add(self, ask: Ask, profile: Profile, machine: New, left: int) -> None:
        board = self.board
        for key in profile.pins:
            left &= board.pin(machine.number, key, machine.offer)
        if machine.inside:
            self.tally.join(self.shop.offers[machine.offer], machine.inside, ask)
        self._enter(ask, machine, left)
        board.put(ask, machine.number)
        if self._leaves and not machine.grows and not self._kept and self._full(board.free[machine.number]):
            self._off(machine)

    def grow(self, ask: Ask, profile: Profile, machine: New, offer: int, left: int) -> None:
        """The pod joins, and the machine becomes this offer. The tally knows of it."""
        board, number = self.board, machine.number
        self._is_now(machine, offer)
        for key in profile.pins:
            left &= board.pin(number, key, offer)
        self.tally.join(self.shop.offers[offer], machine.inside, ask)
        self._enter(ask, machine, left)
        board.resize(number, self._left(machine))
        board.seat(profile, number)

    def _enter(self, ask: Ask, machine: New, left: int) -> None:
        machine.offers, machine.taken = left, None
        used = machine.used
        for name, units in ask.needs.items():
            used[name] = used.get(name, 0) + units
        machine.inside.append(ask)
        self.order.append((ask, machine))

    def _off(self, machine: New) -> None:
        del self.at[machine.number]
        self.board.leave(machine.number)
        machine.number = _NOWHERE

    # -- changing

    def become(self, machine: New, offer: int) -> None:
        """Another place or market for the same machine."""
        shop = self.shop
        old, new = shop.offers[machine.offer], shop.offers[offer]
        if old is not new:
            self.tally.remove(old, machine.inside)
            self.tally.add(new, machine.inside)
        self._is_now(machine, offer)

    def _is_now(self, machine: New, offer: int) -> None:
        """Whom other pods' rules count there may hang on what the machine is."""
        machine.offer = offer
        board, number = self.board, machine.number
        censuses = board.counted_otherwise(number, offer) if number != _NOWHERE else ()
        if not censuses:
            return
        profiles = [board.profiles[ask.profile] for ask in machine.inside]
        for profile in profiles:
            board.unseat(profile, number)
        for census in censuses:
            if census.eligible is not None:
                census.eligible ^= 1 << number
        for profile in profiles:
            board.seat(profile, number)

    def turn(self, machine: New, offer: int) -> None:
        """Another machine. The tally is told by whoever asked it whether it may be."""
        self._is_now(machine, offer)
        if machine.number != _NOWHERE:
            self.board.resize(machine.number, self._left(machine))

    def not_too_large(self, offers: int, needs: Mapping[str, int]) -> int:
        return self.shop.not_too_large(offers, needs, self.overshoot)

    def overshoots(self, fitting: int, offers: int, needs: Mapping[str, int]) -> Explanation:
        shop = self.shop
        possible = offers & shop.possible & ~shop.own & shop.holding(needs)
        smallest = shop.offers[shop.best(possible)]
        fewest, best = smallest.gpus, shop.fewest_gpus(fitting)
        hindered = smallest.hindrance
        return Explanation(
            hindered.code if hindered is not None else Reason.NO_CAPACITY,
            larger(
                hindered.message if hindered is not None else f"{smallest.offer.type.name} cannot be bought",
                best - fewest,
            ),
        )

    def could_be(self, machine: New, among: int) -> int:
        """What the machine could be, for the pods that it holds, whatever its size."""
        board = self.board
        options = among
        attached: set[Attached] = set()
        for number in {ask.profile for ask in machine.inside}:
            profile = board.profiles[number]
            options &= profile.offers
            attached.update(profile.held.attached)
            for wish in profile.offer_wishes:
                if wish >> machine.offer & 1:
                    options &= wish
                    break
        if attached:
            options &= board.offers_taking(attached)
        for key, value in board.pinned.get(machine.number, {}).items():
            by = board.offers.by(key)
            if value is None:
                options &= ~board.offers.having(key)
            elif value in by:
                options &= by[value]
        return options

    # -- undoing

    def back(self, mark: int) -> None:
        """Undo everything since then, the newest first."""
        while len(self.order) > mark:
            ask, machine = self.order.pop()
            if machine.number != _NOWHERE:
                self.board.take(ask, machine.number)
            machine.inside.remove(ask)
            machine.taken = None
            for name, units in ask.needs.items():
                machine.used[name] -= units
            if not machine.inside:
                self.tally.remove(self.shop.offers[machine.offer], [ask])
            self._close()
        self._close()

    def _close(self) -> None:
        while self.machines and not self.machines[-1].inside:
            machine = self.machines.pop()
            if machine.number != _NOWHERE:
                self.growing &= ~(1 << machine.number)
                if self._leaves:
                    self._off(machine)
                else:
                    del self.at[machine.number]
                    self.board.close()

    def undo(self) -> None:
        """The board as it was before this packing began."""
        self.board.back_to(self._begin)

    def packing(self, unplaced: Mapping[str, Explanation | None], together: Mapping[str, int]) -> Packing:
        made = Packing(self.tally, unplaced=dict(unplaced), together=dict(together))
        at: dict[int, int] = {}
        for machine in self.machines:
            if not machine.inside:
                continue
            at[id(machine)] = len(made.rooms)
            candidate = self.shop.offers[machine.offer]
            room = self.shop.template(candidate).copy()
            room.pods = [ask.pod for ask in machine.inside]
            made.rooms.append(room)
            made.chosen.append(candidate)
            made.inside.append(machine.inside)
        made.order = [(ask, at[id(machine)]) for ask, machine in self.order]
        return made


def bits(places: int) -> Iterable[int]:
    while places:
        bit = places & -places
        yield bit.bit_length() - 1
        places ^= bit
