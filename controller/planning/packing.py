"""Which machines to buy for the pods that fit nowhere: a few greedy packings, the best one wins.

One packing opens, for each pod in order, the best single machine and lets later pods share it. That
is right as long as machines may be small; where a limit on machines binds, fewer larger ones place
more pods. So packings that open nothing below 2, 4, 8… GPUs are tried as well; each machine is then
exchanged for the best one that holds the same pods. They are judged by: pods placed (the most urgent
first), GPUs in all, price, and then rather more, smaller machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import takewhile

from controller.domain.plan import Explanation, Snapshot
from controller.domain.resources import Resources, total
from controller.planning.choice import SAME_PRICE, Candidate, better, grouping
from controller.planning.fit import Ask, admitted, enough
from controller.planning.limits import Tally
from controller.planning.predict import labels_shown
from controller.planning.room import Line, Room, new_room


@dataclass(slots=True)
class Packing:
    tally: Tally
    rooms: list[Room] = field(default_factory=list)
    chosen: list[Candidate] = field(default_factory=list)  # of each room
    inside: list[list[Ask]] = field(default_factory=list)  # of each room
    unplaced: dict[str, Explanation | None] = field(default_factory=dict)  # None: no candidate fits

    @property
    def gpus(self) -> int:
        return sum(candidate.gpus for candidate in self.chosen)

    @property
    def price(self) -> Decimal:
        return sum((candidate.price for candidate in self.chosen), Decimal(0))


class Packer:
    """Packs pods onto new machines; what a kind of pod may run on is worked out once."""

    def __init__(self, snapshot: Snapshot, options: Sequence[Candidate]) -> None:
        self._snapshot = snapshot
        self._group = grouping(snapshot.policy.strategy)
        self._buyable = sorted((c for c in options if c.hindrance is None), key=self._group)
        self._templates: dict[int, Room] = {}
        self._shown = labels_shown(snapshot)
        self._sizes: dict[int, int] = {}  # by candidate: which size of empty machine it is
        self._known_sizes: dict[tuple[tuple[str, int], ...], int] = {}
        self._favourites: dict[tuple[int, ...], Candidate] = {}
        self._choose = better(snapshot.policy.strategy)
        self._cheapest_first = snapshot.policy.strategy == "cheapest"
        self._admitting: dict[int, list[Candidate]] = {}
        self._fitting: dict[int, list[Candidate]] = {}
        self._picks: dict[tuple[int, int], tuple[list[Candidate], Candidate]] = {}
        self._swaps: dict[tuple[object, ...], Candidate] = {}

    def template(self, candidate: Candidate) -> Room:
        """The empty machine, to look at; never to be filled."""
        found = self._templates.get(id(candidate))
        if found is None:
            shown = self._shown.get((candidate.pool.name, candidate.offer.type.name))
            found = new_room(self._snapshot, candidate.pool, candidate.offer, shown)
            self._templates[id(candidate)] = found
        return found

    def fitting(self, ask: Ask) -> list[Candidate]:
        """The candidates on which the pod would run alone."""
        known = self._fitting.get(ask.kind)
        if known is None:
            open_to = self._admitting.get(ask.profile)
            if open_to is None:
                rooms = [(c, self.template(c)) for c in self._buyable]
                open_to = [c for c, r in rooms if admitted(ask.pod.shape, r.name, r.labels, r.taints)]
                self._admitting[ask.profile] = open_to
            known = self._fitting[ask.kind] = self._large_enough(ask.needs, open_to)
        return known

    def _large_enough(self, needs: Resources, options: Sequence[Candidate]) -> list[Candidate]:
        """Offers of a type differ in place and price only, so each size is looked at once."""
        fits: dict[int, bool] = {}
        found = []
        for candidate in options:
            size = self._sizes.get(id(candidate))
            if size is None:
                free = self.template(candidate).free
                size = self._known_sizes.setdefault(tuple(sorted(free.items())), len(self._known_sizes))
                self._sizes[id(candidate)] = size
            if size not in fits:
                fits[size] = enough(needs, self.template(candidate).free)
            if fits[size]:
                found.append(candidate)
        return found

    def _favourite(self, options: Sequence[Candidate]) -> Candidate:
        """The best of these, when the options are in the order of the groups."""
        first = self._group(options[0])
        foremost = list(takewhile(lambda c: self._group(c) == first, options))
        key = tuple(map(id, foremost))
        known = self._favourites.get(key)
        if known is None:
            known = self._favourites[key] = self._choose(foremost)
        return known

    def best(self, pods: Sequence[Ask], tally: Tally) -> Packing:
        kinds = {ask.kind: ask for ask in pods}
        sizes = sorted({c.gpus for ask in kinds.values() for c in self.fitting(ask)})
        best = self._pack(pods, tally.copy(), 0)
        for least in sizes[1:]:
            other = self._pack(pods, tally.copy(), least)
            if self._beats(other, best, pods):
                best = other
        return best

    def _pack(self, pods: Sequence[Ask], tally: Tally, least: int) -> Packing:
        """Fill, exchange, and fill again: a machine exchanged for a smaller one makes room in the limits."""
        packing = Packing(tally)
        waiting, before = list(pods), len(pods) + 1
        while waiting and len(waiting) < before:
            before = len(waiting)
            self._fill(packing, waiting, least)
            self._exchange(packing)
            waiting = [ask for ask in waiting if ask.pod.key in packing.unplaced]
        return packing

    def _fill(self, packing: Packing, pods: Sequence[Ask], least: int) -> None:
        line = Line(packing.rooms)
        at = {id(room): number for number, room in enumerate(packing.rooms)}
        packing.unplaced = {}
        for ask in pods:
            room = line.first(ask)
            if room is None:
                chosen, objection = self._pick(ask, packing.tally, least)
                if chosen is None:
                    packing.unplaced[ask.pod.key] = objection
                    continue
                packing.tally.add(chosen, (ask,))
                room = self.template(chosen).copy()
                at[id(room)] = len(packing.rooms)
                packing.rooms.append(room)
                packing.chosen.append(chosen)
                packing.inside.append([])
            else:
                number = at[id(room)]
                there, inside = packing.chosen[number], packing.inside[number]
                objection = packing.tally.objection_to_join(there, inside, ask)
                if objection is not None:
                    packing.unplaced[ask.pod.key] = objection
                    continue
                packing.tally.join(there, inside, ask)
            room.put(ask)
            packing.inside[at[id(room)]].append(ask)

    def _pick(self, ask: Ask, tally: Tally, least: int) -> tuple[Candidate | None, Explanation | None]:
        """The best machine for the pod: of at least this size if limits allow one, else of any."""
        for size in (least, 0) if least else (0,):
            options, favourite = self._options(ask, size)
            if favourite is None:
                return None, None
            objection = tally.objection(favourite, (ask,))
            if objection is None:
                return favourite, None
            chosen, _ = (None, None) if tally.exhausted else self.allowed(options, tally, (ask,))
            if chosen is not None or not size:
                return chosen, objection
        return None, None

    def _options(self, ask: Ask, least: int) -> tuple[list[Candidate], Candidate | None]:
        known = self._picks.get((ask.kind, least))
        if known is None:
            every = self.fitting(ask)
            options = [c for c in every if c.gpus >= least] or every
            if not options:
                return [], None
            known = self._picks[(ask.kind, least)] = (options, self._favourite(options))
        return known

    def allowed(
        self, options: Sequence[Candidate], tally: Tally, inside: Sequence[Ask] = ()
    ) -> tuple[Candidate | None, Explanation | None]:
        """The best of those that the limits allow; else why the best of all is not allowed."""
        allowed = [c for c in options if tally.objection(c, inside) is None]
        if allowed:
            return self._choose(allowed), None
        return None, tally.objection(self._choose(options), inside) if options else None

    def _exchange(self, packing: Packing) -> None:
        for number, inside in enumerate(packing.inside):
            old = packing.chosen[number]
            new = self._instead(inside, old)
            if new is old:
                continue
            packing.tally.remove(old, inside)
            if packing.tally.objection(new, inside) is not None:
                packing.tally.add(old, inside)
                continue
            packing.tally.add(new, inside)
            room = self.template(new).copy()
            for ask in inside:
                room.put(ask)
            packing.rooms[number], packing.chosen[number] = room, new

    def _instead(self, inside: Sequence[Ask], old: Candidate) -> Candidate:
        """The best machine that would hold the same pods; often the one that was taken."""
        alike = (id(old), *sorted(Counter(ask.kind for ask in inside).items()))
        known = self._swaps.get(alike)
        if known is None:
            kinds = list({ask.kind: ask for ask in inside}.values())
            options = [c for c in self.fitting(kinds[0]) if self._group(c) <= self._group(old)]
            if len(inside) > 1:
                options = self._large_enough(total(ask.needs for ask in inside), options)
            for ask in kinds[1:]:
                also = {id(c) for c in self.fitting(ask)}
                options = [c for c in options if id(c) in also]
            known = self._swaps[alike] = self._favourite(options) if options else old
        return known

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
