"""The board: every place that a pod could go to, and who is where. What the scheduler would say, at speed.

A place is a node, a machine on its way, or a new machine of the plan; it is one bit, and the sets of
places that labels, taints, ports, volumes, other pods and free amounts allow are integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controller.domain.plan import Snapshot
from controller.planning.census import COMING, POSSIBLE, THERE, Census
from controller.planning.crowd import Crowd
from controller.planning.fit import Ask, enough
from controller.planning.looks import NAME, Looks
from controller.planning.profiles import HOST_KEYS, Profile, clash
from controller.planning.room import Room
from controller.planning.sizes import Sizes, levels_of
from controller.planning.volumes_taken import VolumesTaken


@dataclass(frozen=True, slots=True)
class Mark:
    """What a board knew about new machines, and about pods wherever they are, at one moment."""

    new: int
    pinned: dict[int, dict[str, str | None]]
    unpinned: dict[str, int]
    looks: dict[str, dict[str, int]]
    censuses: list[tuple[Census, dict[str, int], list[int], int, int | None]]
    ports: dict[tuple[str, int], dict[str, int]]
    volumes: VolumesTaken
    places: int
    spare: list[int]


class Board(Crowd):
    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Sequence[Room],
        asks: Sequence[Ask],
        *,
        offers: Looks | None = None,
        buyable: int = 0,
        there: int | None = None,
    ) -> None:
        super().__init__(snapshot, rooms, asks, offers=offers, buyable=buyable, there=there)
        self.offer_number: dict[int, int] = {}  # by the template of the offer
        self.free: list[dict[str, int]] = []
        self._spare: list[int] = []  # places that new machines have left
        self._choosy = [census for census in self._censuses.values() if census.eligible is not None]
        needs: dict[str, set[int]] = {}
        for amounts in {id(ask.needs): ask.needs for ask in asks}.values():
            for name, units in amounts.items():
                needs.setdefault(name, set()).add(units)
        levels = {name: levels_of(units) for name, units in needs.items()}
        self.sizes = Sizes(levels)
        self.soon = sum(1 << number for number, room in enumerate(self.rooms) if room.soon is not None)
        self.later_sizes = Sizes(levels) if self.soon else None
        for room in self.rooms:
            self.free.append(dict(room.free))
            self.sizes.add(room.free)
            if self.later_sizes is not None:
                self.later_sizes.add(room.soon or {})

    # -- asking

    def candidates(self, ask: Ask, among: int, scope: int, *, later: bool = False) -> int:
        """Existing places among these that let the pod in and are large enough, or nearly."""
        profile = self.profiles[ask.profile]
        among &= profile.later if later else profile.nodes
        if not among:
            return 0
        if later:
            among = self.later_sizes.holding(ask.needs, among & self.soon) if self.later_sizes else 0
        else:
            among = self.sizes.holding(ask.needs, among)
        if not among:
            return 0
        if profile.ruled:
            among &= self.allowed(profile, scope, later=later)[0]
        if profile.shape.host_ports:
            among &= ~self.ports_held(profile, later=later)
        return among

    def holds(self, ask: Ask, number: int, *, later: bool = False) -> bool:
        """The exact look at one of the candidates."""
        room = self.rooms[number]
        free = (room.soon or {}) if later else self.free[number]
        if not enough(ask.needs, free):
            return False
        profile = self.profiles[ask.profile]
        return not profile.special or self.fits_specially(profile, number, later=later)

    def each(self, ask: Ask, among: int, scope: int, *, later: bool = False) -> Iterator[int]:
        """The places that hold the pod: those that it would rather have first, then in their order."""
        left = self.candidates(ask, among, scope, later=later)
        profile = self.profiles[ask.profile]
        for wish in (*profile.wishes, -1) if left else ():
            wanted = left & wish
            while wanted:
                bit = wanted & -wanted
                wanted ^= bit
                left ^= bit
                number = bit.bit_length() - 1
                if self.holds(ask, number, later=later):
                    yield number

    def first(self, ask: Ask, among: int, scope: int, *, later: bool = False) -> int | None:
        return next(self.each(ask, among, scope, later=later), None)

    # -- new machines

    @property
    def plain(self) -> bool:
        """Whether a place is no more than what is free there: nobody minds who else is on it."""
        return not self._censuses and not any(
            profile.special or profile.shape.host_ports for profile in self.profiles.values()
        )

    def mark(self) -> Mark:
        """What `back_to` needs. Until then new machines are opened and filled, and nothing else happens."""
        return Mark(
            new=self.new,
            pinned={number: dict(pins) for number, pins in self.pinned.items()},
            unpinned=dict(self.unpinned),
            looks={key: dict(self.looks.by(key)) for key in (*self.unpinned, *HOST_KEYS)}
            if self.unpinned or self._censuses
            else {},
            censuses=[
                (census, dict(census.counts), list(census.levels), census.total, census.eligible)
                for census in self._censuses.values()
            ],
            ports={key: dict(by_ip) for key, by_ip in self._ports.items()},
            volumes=self._volumes.copy(),
            places=len(self.free),
            spare=list(self._spare),
        )

    def back_to(self, mark: Mark) -> None:
        """All that was opened since then is gone, and whoever was seated there."""
        self.new = mark.new
        self.pinned, self.unpinned, self._ports = mark.pinned, mark.unpinned, mark.ports
        for key, by in mark.looks.items():
            known = self.looks.by(key)
            known.clear()
            known.update(by)
        for census, counts, levels, total, eligible in mark.censuses:
            census.counts, census.levels, census.total, census.eligible = counts, levels, total, eligible
        self._volumes = mark.volumes
        del self.free[mark.places :]
        self.sizes.cut(mark.places)
        self._spare = mark.spare

    def leave(self, number: int) -> None:
        """Take a new machine off a plain board; its place is for the next one."""
        self.new &= ~(1 << number)
        self.resize(number, dict.fromkeys(self.free[number], 0))
        self._spare.append(number)

    def open(self, free: dict[str, int], offer: int) -> int:
        """A new machine, as the offer has it; which of its keys are decided is told by `pin`."""
        if self._spare:
            number = self._spare.pop()
            self.new |= 1 << number
            self.resize(number, free)
            return number
        number = len(self.free)
        bit = 1 << number
        self.new |= bit
        self.free.append(free)
        self.sizes.add(free)
        self.pinned[number] = {}
        for key in self.unpinned:
            self.unpinned[key] |= bit
        for census in self._censuses.values():
            if census.eligible is not None and census.offers >> offer & 1:
                census.eligible |= bit
        return number

    def counted_otherwise(self, number: int, offer: int) -> list[Census]:
        """Those that count the pods of a new machine only as it is, or only as this offer."""
        return [
            census
            for census in self._choosy
            if census.eligible is not None and census.eligible >> number & 1 != census.offers >> offer & 1
        ]

    def pin(self, number: int, key: str, offer: int) -> int:
        """Decide the machine's domain as the offer has it; the offers that remain are returned."""
        pins = self.pinned[number]
        if key in pins:
            return -1
        bit = 1 << number
        value = self.offers.value(offer, key)
        if key in HOST_KEYS:
            value = f"<new machine {number}>"
        pins[key] = value
        self.unpinned[key] &= ~bit
        if value is None:
            return ~self.offers.having(key)
        by = self.looks.by(key)
        by[value] = by.get(value, 0) | bit
        return -1 if key in HOST_KEYS else self.offers.by(key)[value]

    def close(self) -> None:
        """Take the newest machine, which must be empty, off the board."""
        number = len(self.free) - 1
        bit = 1 << number
        for key, value in self.pinned.pop(number).items():
            if value is not None:
                self.looks.by(key)[value] &= ~bit
                if not self.looks.by(key)[value]:
                    del self.looks.by(key)[value]
        for key in self.unpinned:
            self.unpinned[key] &= ~bit
        for census in self._censuses.values():
            if census.eligible is not None:
                census.eligible &= ~bit
        self.new &= ~bit
        self.free.pop()
        self.sizes.pop()

    def resize(self, number: int, free: dict[str, int]) -> None:
        """Another offer for a machine: what is free changes."""
        self.free[number] = free
        for name, units in free.items():
            self.sizes.change(number, name, units)

    # -- taking places

    def put(self, ask: Ask, number: int) -> None:
        """Seat the pod, amounts and all. A new machine's keys must have been decided before."""
        self._use(ask, number, 1)
        self.seat(self.profiles[ask.profile], number)

    def take(self, ask: Ask, number: int) -> None:
        """Undo `put`."""
        self._use(ask, number, -1)
        self.unseat(self.profiles[ask.profile], number)

    def _use(self, ask: Ask, number: int, sign: int) -> None:
        free = self.free[number]
        for name, units in ask.needs.items():
            if name in free:
                free[name] -= sign * units
                self.sizes.change(number, name, free[name])
        if self.later_sizes is None or number >= len(self.rooms):
            return
        soon = self.rooms[number].soon or {}
        for name, units in ask.needs.items():
            if name in soon:
                soon[name] -= sign * units
                self.later_sizes.change(number, name, soon[name])


__all__ = ["COMING", "NAME", "POSSIBLE", "THERE", "Board", "Profile", "clash"]
