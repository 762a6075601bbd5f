"""In which location a gang that must be in one is planned: what is there counts first, then what it would cost.

The order is worked out from a look at each place by itself, which knows nothing of rules among pods, of limits, nor of
who else wants the same. So a whole draft is made with the best place of each gang, and where that does not
come to what was expected, the next draft is told: the gang did not come together there, or its rooms went to others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache

import msgspec

from controller.domain import names
from controller.domain.kube import NodeTerm, Pod, PodShape, Requirement
from controller.domain.machine import Machine
from controller.planning.choice import Candidate
from controller.planning.fit import Ask, asks
from controller.planning.gangs import Gang
from controller.planning.limits import Tally
from controller.planning.own import is_own
from controller.planning.room import Room, how_many
from controller.planning.sites import Sites


class Place(msgspec.Struct, frozen=True):
    """Where a gang is planned that was free to go elsewhere."""

    name: str  # "": at home, where Nodes tell no location
    seats: int  # of its pods are expected to find a place there on what exists
    others: bool  # whether there is another place to try


@dataclass(slots=True)
class Tried:
    """What earlier drafts of the same plan came to, by gang, since one was left out last."""

    in_vain: dict[str, set[str]] = field(default_factory=dict)  # it did not come together there
    crowded: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # so many got a seat there; others took the rest
    held: set[str] = field(default_factory=set)  # had seats that others may have missed, and came to nothing

    def clear(self) -> None:
        self.in_vain.clear()
        self.crowded.clear()
        self.held.clear()

    def heed(
        self,
        places: Mapping[str, Place],
        broken: Collection[str],
        seated: Mapping[str, int],
        nowhere: Collection[str],
        *,
        more: bool,
    ) -> bool:
        """Learn from a draft: how many pods of each gang got a seat. Returns whether the next one may be better.

        `nowhere`: gangs that are bought for no more, whatever the location.
        """
        again = False
        self.held.update(key for key in broken if seated.get(key))
        for key, place in places.items():
            if key in nowhere:
                continue
            if key in broken:
                self.in_vain.setdefault(key, set()).add(place.name)
                again |= place.others
            elif more and place.others and seated.get(key, 0) < place.seats:
                self.crowded[(key, place.name)] = seated.get(key, 0)
                again = True
        return again


class Locations:
    """The places of one draft, as they are before anybody is seated."""

    def __init__(
        self,
        options: Sequence[Candidate],
        sites: Sites,
        template: Callable[[Candidate], Room],
        waiting: Iterable[Pod],
        tally: Tally,
    ) -> None:
        """`sites`: all that exists or is ordered anyway; `template`: what a machine will look like."""
        self._tally = tally
        self._template = template
        self._rooms: dict[str, list[Room]] = {}
        self._options: dict[str, list[Candidate]] = {}
        for room in (*sites.ready, *sites.coming, *sites.draining, *sites.shut):
            self._rooms.setdefault(zone_of(room.labels), []).append(room)
        self._ready = {id(room) for room in (*sites.ready, *sites.shut)}
        for c in options:  # as their Nodes will tell: of a machine of one's own the settings may tell nothing
            self._options.setdefault(zone_of(template(c).labels), []).append(c)
        self._waiting = {pod.key for pod in waiting}
        self._holding = cache(self._holding_of)
        self._fitting = cache(self._fitting_of)
        self._kinds: dict[int, Ask] = {}

    def best_first(
        self, gang: Gang, members: Sequence[Ask], crowded: Mapping[tuple[str, str], int]
    ) -> list[Place]:
        """Those where enough of them could have a place at all, the least price first; if there is none, the one that
        comes closest."""
        self._kinds.update((ask.kind, ask) for ask in members)
        keys = {ask.pod.key for ask in members}
        found = []
        for name in sorted(self._rooms.keys() | self._options.keys()):
            seated, bought, later = self._seats(
                name, members, keys, crowded.get((gang.key, name), len(members))
            )
            rest = Counter(ask.kind for ask in members)
            rest.subtract(seated)
            price, missing = self._price(name, +rest)
            here = self._options.get(name, ())
            rank = min((c.location_rank for c in here), default=0)
            enough = self._most(name, members) >= gang.needed
            place = Place(name, seated.total(), False)
            found.append(((not enough, missing, price, -bought, later, rank, name), place))
        found.sort(key=lambda one: one[0])
        good = [place for (bad, *_), place in found if not bad]
        return good or [place for _, place in found[:1]]

    def _seats(
        self, name: str, members: Sequence[Ask], keys: set[str], most: int
    ) -> tuple[Counter[int], int, int]:
        """How many of each kind find a room, one after the other, `most` in all; how many rooms were bought for them, and how
        many pods would have to wait for theirs.

        What is promised to others that wait is theirs. Pods with rules about each other have a room for themselves.
        """
        filled: dict[int, Room] = {}
        closed: set[int] = set()
        at: Counter[int] = Counter()
        found: Counter[int] = Counter()
        mine = later = 0
        for ask in members:
            if found.total() >= most:
                break
            rooms = self._holding(ask.kind, name)
            while at[ask.kind] < len(rooms):
                room = rooms[at[ask.kind]]
                promised = set(room.machine.pods) & self._waiting if room.machine is not None else ()
                ours = bool(promised and not keys.isdisjoint(promised))
                open_to_it = ours or not promised
                now = filled.get(id(room), room)
                if open_to_it and id(room) not in closed and _holds(now, ask):
                    break
                at[ask.kind] += 1
            else:
                continue
            mine += ours and id(room) not in filled
            later += id(room) not in self._ready
            filled.setdefault(id(room), room.copy()).put(ask)
            if _rules(ask.pod.shape):
                closed.add(id(room))
            found[ask.kind] += 1
        return found, mine, later

    def _price(self, name: str, rest: Mapping[int, int]) -> tuple[Decimal, int]:
        """Pods that are alike share machines; others are paid for by themselves. And how many nothing is sold for."""
        total, missing = Decimal(0), 0
        for kind, count in rest.items():
            fitting = [(c, many) for c, many in self._fitting(kind, name) if c.hindrance is None]
            if not fitting:
                missing += count
                fitting = list(self._fitting(kind, name))
            elif all(is_own(c.offer) for c, _ in fitting):  # which is there once
                missing += max(0, count - sum(many for _, many in fitting))
            total += min((-(-count // many) * c.price for c, many in fitting), default=Decimal(10**9))
        return total, missing

    def _most(self, name: str, members: Sequence[Ask]) -> int:
        """How many could have a place if they were alone with those of their kind, and nobody else waited; never too few."""
        found = 0
        for kind, count in Counter(ask.kind for ask in members).items():
            ask = self._kinds[kind]
            there = sum(_places(each, ask) for each in self._holding(kind, name))
            found += min(count, there + self._most_bought(name, ask))
        return found

    def _most_bought(self, name: str, ask: Ask) -> int:
        here = [(c, many) for c, many in self._fitting(ask.kind, name) if c.hindrance is None]
        own = sum(many * self._tally.slots(c) for c, many in here if is_own(c.offer))
        sold = [(c, many) for c, many in here if not is_own(c.offer)]
        if not sold:
            return own
        of_pool: dict[str, int] = {}
        for c, many in sold:
            of_pool[c.pool.name] = max(many * self._tally.slots(c), of_pool.get(c.pool.name, 0))
        limits = [sum(of_pool.values())]
        if (left := self._tally.gpus_left) is not None and all(c.gpus for c, _ in sold):
            limits.append(max(left * many // c.gpus for c, many in sold))
        of_namespace = [self._tally.charges.most(c, ask) for c, _ in sold]
        if None not in of_namespace:
            limits.append(max(most for most in of_namespace if most is not None))
        return own + min(limits)

    def _holding_of(self, kind: int, name: str) -> list[Room]:
        return [room for room in self._rooms.get(name, ()) if _holds(room, self._kinds[kind])]

    def _fitting_of(self, kind: int, name: str) -> list[tuple[Candidate, int]]:
        here = ((c, how_many(self._kinds[kind].pod, self._template(c))) for c in self._options.get(name, ()))
        return [(c, many) for c, many in here if many]


def in_one_location(
    demand: Sequence[Pod],
    gangs: Mapping[str, Gang],
    machines: Sequence[Machine],
    sites: Sites,
    options: Sequence[Candidate],
    template: Callable[[Candidate], Room],
    tally: Tally,
    tried: Tried,
) -> tuple[list[Pod], Mapping[str, Gang], dict[str, Place]]:
    """The same pods, those of gangs that must be in one location bound to it; the gangs with it; and which of
    them were free to have another.

    It is where members run or have a machine on its way, else the best one by the look of it.
    """
    members: dict[str, list[Pod]] = {}
    for pod in demand:
        gang = gangs.get(pod.key)
        if gang is not None and gang.one_location:
            members.setdefault(gang.key, []).append(pod)
    if not members:
        return list(demand), gangs, {}
    there = (*sites.ready, *sites.coming, *sites.draining)
    shown = {room.machine.name: zone_of(room.labels) for room in there if room.machine is not None}
    asking = {
        ask.pod.key: ask for ask in asks([pod for pods in members.values() for pod in pods], frozenset())
    }
    look = Locations(options, sites, template, demand, tally)
    bound: dict[str, str] = {}
    free: dict[str, Place] = {}
    for key, pods in members.items():
        gang = gangs[pods[0].key]
        known = gang.location
        if known is None:
            keys = {pod.key for pod in pods}
            promised = {
                shown.get(m.name, m.location) for m in machines if m.phase.on_the_way and keys & set(m.pods)
            }
            known = promised.pop() if len(promised) == 1 else None
        if known is None:
            places = look.best_first(gang, [asking[pod.key] for pod in pods], tried.crowded)
            if places:
                left = [place for place in places if place.name not in tried.in_vain.get(key, ())]
                free[key] = msgspec.structs.replace((left or places)[0], others=len(left) > 1)
                known = free[key].name
        if known is not None:
            bound[key] = known
    placed = {
        gang.key: msgspec.structs.replace(gang, location=bound[gang.key])
        for gang in gangs.values()
        if gang.key in bound
    }
    shapes: dict[tuple[int, str], PodShape] = {}
    found = []
    for pod in demand:
        gang = gangs.get(pod.key)
        place = bound.get(gang.key) if gang is not None else None
        if place is not None:
            mark = (id(pod.shape), place)
            if mark not in shapes:
                shapes[mark] = _only_in(pod.shape, place)
            pod = msgspec.structs.replace(pod, shape=shapes[mark])
        found.append(pod)
    return found, {pod: placed.get(gang.key, gang) for pod, gang in gangs.items()}, free


def zone_of(labels: Mapping[str, str]) -> str:
    return labels.get(names.LABEL_ZONE, "")


def _holds(room: Room, ask: Ask) -> bool:
    return room.holds(ask) or room.holds(ask, later=True)


def _places(room: Room, ask: Ask) -> int:
    """How many such pods it takes at most."""
    if _rules(ask.pod.shape):
        return 1  # or the second one clashes with the first
    sides = (room.free, room.soon) if room.soon is not None else (room.free,)
    return max(min(free.get(name, 0) // units for name, units in ask.needs.items()) for free in sides)


def _rules(shape: PodShape) -> bool:
    """Whether two such pods may be unable to share a room. How they like to spread, a draft tells."""
    return bool(shape.anti_affinity or shape.host_ports)


def _only_in(shape: PodShape, place: str) -> PodShape:
    here = Requirement(names.LABEL_ZONE, *(("In", (place,)) if place else ("DoesNotExist", ())))
    terms = shape.required_terms if shape.required_terms is not None else (NodeTerm(),)
    if shape.required_terms is not None:  # an empty term selects nothing, and must not begin to
        terms = tuple(term for term in terms if term.labels or term.fields)
    return msgspec.structs.replace(
        shape,
        required_terms=tuple(msgspec.structs.replace(term, labels=(*term.labels, here)) for term in terms),
    )
