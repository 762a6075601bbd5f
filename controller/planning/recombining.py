"""Sets of pods that a search came across, put together anew: the best machines were rarely all there at once.

A linear programme chooses among the sets, shares of them too; what a pod is worth in its solution tells which
other sets would pay, and these are generated until none does, or enough is done. Then the set with the largest
share is taken, the rest is solved again for the pods that are left, and so on. From there the search goes on, and finds
more sets. Work is counted, not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.domain.resources import Resources
from controller.planning.choosing import chosen
from controller.planning.covering import Pods, Programme
from controller.planning.patterns import Amounts, Box
from controller.planning.puzzle import TINY, Kind, Machine, Puzzle

MOST = 60  # pods: beyond, the programmes take too long
_RESOURCES = 3  # that sets are generated for
_STEPS = 2000  # of one programme, at most
_FIRST_WORK = 3_000_000  # of the programme for all pods while sets are generated: a fifth of a second
_MORE_WORK = 3_000_000  # of all programmes after that
_LOOKS = 40  # thousands, at sets that might pay
_BY_MACHINE = 0.3  # of a thousand looks: what it takes to begin looking for one kind of machine
_BEST = 5  # sets of one kind at a time
_CHOICES = 20_000  # looked at among whole sets, three times at most
_WHOLE = 0.7  # of a set, taken at once beside the largest share

Fine = Callable[[Sequence[int], int], bool]


class Enough(Exception):
    """Sets have been looked for long enough."""


class Recombining:
    def __init__(
        self, puzzle: Puzzle, pods: Sequence[Resources], kinds: Sequence[Kind], fine: Fine | None
    ) -> None:
        self._puzzle, self._fine = puzzle, fine
        self._sets: dict[Pods, int] = {}
        self._seen: set[Pods] = set()
        self._whole = self._programme(
            range(len(pods)), {}
        )  # for all pods; solved again, it begins where it ended
        self._looked = 0.0
        self._work = 0
        self._boxes: list[tuple[int, Box]] = []
        if len(puzzle.names) > _RESOURCES:
            return
        needs = [_amounts(puzzle.names, of, 0.0) for of in pods]
        for number, kind in enumerate(kinds):
            box = Box(kind.price, _amounts(puzzle.names, kind.free, 1.0), needs, self._look)
            inside = set(puzzle.fitting[number])
            box.shares = {pod: shares for pod, shares in box.shares.items() if pod in inside}
            if len(box.shares) > 1 and kind.price > 0:
                self._boxes.append((number, box))

    def _look(self, thousands: float = 1) -> None:
        self._looked += thousands
        if self._looked > _LOOKS:
            raise Enough

    def grow(self, sets: dict[Pods, int]) -> float:
        """From these and whatever pays beside them. Nothing costs less than what is returned."""
        self._take(sets)
        programme, lowest = self._whole, 0.0
        if not self._boxes:
            return lowest
        try:
            gained = True
            while gained:
                programme.solve(_STEPS, _FIRST_WORK - programme.work)
                gained = False
                worth = [max(0.0, value) for value in programme.worth]
                dearest = 1.0
                for kind, box in self._boxes:
                    self._look(_BY_MACHINE)
                    for value, pods in box.better(worth, box.price * (1 + TINY))[-_BEST:]:
                        dearest = max(dearest, value / box.price)
                        price = self._price(pods, kind)
                        if price is not None and pods not in self._sets:
                            self._sets[pods] = price
                            programme.add(pods, price)
                            gained = True
                # Worth so much less, no set is worth more than its machine.
                lowest = max(lowest, sum(worth) / (dearest * (1 + TINY)))
        except Enough:
            pass
        return lowest

    def _take(self, sets: dict[Pods, int]) -> None:
        for pods in sets:
            if pods not in self._seen:
                self._seen.add(pods)
                used = sum([self._puzzle.needs[pod] for pod in pods])
                price, kind, _ = self._puzzle.cheapest(used)
                if self._fine is None or self._fine(pods, kind):
                    self._sets[pods] = price
                    self._whole.add(pods, price)

    def _price(self, pods: Pods, kind: int) -> int | None:
        used = sum(self._puzzle.needs[pod] for pod in pods)
        if not self._puzzle.fits(used, self._puzzle.kinds[kind]):
            return None  # by less than such numbers can tell
        price, number, _ = self._puzzle.cheapest(used)
        return price if self._fine is None or self._fine(pods, number) else None

    def _programme(self, pods: Sequence[int], sets: dict[Pods, int]) -> Programme:
        puzzle = self._puzzle
        at = {pod: number for number, pod in enumerate(pods)}
        programme = Programme([puzzle.cheapest(puzzle.needs[pod])[0] for pod in pods])
        for one, price in sets.items():
            if len(one) > 1:
                programme.add(tuple([at[pod] for pod in one]), price)
        return programme

    @property
    def done(self) -> bool:
        """Enough programmes have been solved."""
        return self._work >= _MORE_WORK

    def _solve(self, programme: Programme) -> None:
        """Without work that is left, each pod is worth a machine of its own."""
        before = programme.work
        programme.solve(_STEPS, _MORE_WORK - self._work)
        self._work += programme.work - before

    def whole(self, more: dict[Pods, int], turn: int) -> list[Machine]:
        """Machines for all pods, of sets that are known, and these, or of what is left of a set.

        Each turn begins with another set, since the programme may find the same again.
        """
        puzzle = self._puzzle
        self._take(more)
        sets = self._sets
        left = list(range(len(puzzle.needs)))
        found: list[Machine] = []
        programme = self._whole
        while left:
            self._solve(programme)
            gone: set[int] = set()
            shares = programme.chosen() or [(1.0, (number,)) for number in range(len(left))]
            if not found:
                shares.insert(0, shares.pop(turn % len(shares)))
            for share, inside in shares:
                pods = [left[number] for number in inside]
                if (not gone or share > _WHOLE) and gone.isdisjoint(pods):
                    found.append(puzzle.machine(pods))
                    gone.update(pods)
            left = [pod for pod in left if pod not in gone]
            sets = self._without(sets, gone)
            programme = self._programme(left, sets)
        return found

    def chosen(self, below: int) -> list[Machine]:
        """Machines for all pods that cost less than this, of whole sets that are known; none if none are found."""
        programme, puzzle = self._whole, self._puzzle
        self._solve(programme)
        lost = below * (1 - TINY) - sum(max(0.0, value) for value in programme.worth)
        alone = {(pod,): puzzle.cheapest(needs)[0] for pod, needs in enumerate(puzzle.needs)}
        left = set(range(len(puzzle.needs)))
        found: list[Machine] = []
        for pods in chosen(alone | self._sets, programme.worth, lost, _CHOICES) if lost > 0 else ():
            inside = [pod for pod in pods if pod in left]
            left.difference_update(inside)
            if inside:
                found.append(puzzle.machine(inside))
        return found

    def _without(self, sets: dict[Pods, int], gone: set[int]) -> dict[Pods, int]:
        puzzle = self._puzzle
        found: dict[Pods, int] = {}
        for pods, price in sets.items():
            if gone.isdisjoint(pods):
                found[pods] = price
                continue
            rest = tuple([pod for pod in pods if pod not in gone])
            if rest and rest not in found:
                found[rest] = puzzle.cheapest(sum([puzzle.needs[pod] for pod in rest]))[0]
        return found


def _amounts(names: Sequence[str], of: Resources, missing: float) -> Amounts:
    """Three numbers; a machine has next to nothing of what it lacks, and enough of what nobody asks for."""
    some = [max(float(of.get(name, 0)), 1e-9 if missing else 0.0) for name in names]
    return tuple(some + [missing] * (_RESOURCES - len(some)))
