"""The least price of machines that hold all pods, proven: branch and price.

A linear programme chooses among sets of pods that fit one machine; sets are added as long as it gains by one, so its
value is a bound from below. Where every set that a better solution could contain is found and these are few, an
integer programme over them decides. Elsewhere the case is split: by how many machines of a kind there are, by whether
two pods are on one machine, by whether a pod is on a machine of a kind. The lowest bound is looked at next, so
whenever time is up it is the bound of the whole.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeVar

from controller.planning.patterns import Amounts, Box, Pattern, Rules
from controller.sandbox.bench.planner.solver import Growing, Programme, Solution

SAME = 1e-6
_FEW = 300  # sets, that an integer programme decides about; with more, splitting is faster
_AT_ONCE = (1 / 16, 1 / 4)  # of the distance to the bound, in which better solutions are looked for first
_GLANCE, _LOOK = 0.5, 1.0  # seconds for an integer programme: for a better solution, and to decide a case
_KEPT = 3  # of ever better sets for a machine, which the programme may choose from
_MISSING = 1e4  # what a pod without a place costs; more than any machines do
_WHOLE = 1e-5
_UNBOUND = float("inf")
T = TypeVar("T", bound=Hashable)


class Late(Exception):
    """Time is up."""


@dataclass(frozen=True, slots=True)
class Best:
    price: float  # of the best solution that is known
    bound: float  # no solution costs less
    proven: bool


@dataclass(frozen=True, slots=True)
class Set:
    kind: int
    pods: Pattern


@dataclass(frozen=True, slots=True)
class Case:
    """What is asked of solutions: how many machines of each kind, and of sets."""

    least: tuple[float, ...]
    most: tuple[float, ...]
    joined: tuple[Pattern, ...] = ()
    apart: tuple[Pattern, ...] = ()
    barred: frozenset[tuple[int, int]] = frozenset()  # pods from kinds

    def allows(self, one: Set) -> bool:
        inside = set(one.pods)
        return (
            all((a in inside) == (b in inside) for a, b in self.joined)
            and not any(a in inside and b in inside for a, b in self.apart)
            and not any((pod, one.kind) in self.barred for pod in one.pods)
        )

    def rules(self, kind: int, pods: int) -> Rules:
        out = frozenset(pod for pod, of in self.barred if of == kind)
        return Rules(_groups(self.joined, pods) if self.joined else None, self.apart, out)


@dataclass(slots=True)
class _Relaxed:
    bound: float
    worth: list[float]  # of each pod
    bonus: list[float]  # of one machine of each kind
    chosen: list[tuple[Set, float]]


@dataclass(slots=True)
class Tree:
    prices: Sequence[float]  # of kinds of machines
    free: Sequence[Amounts]
    needs: Sequence[Amounts]  # of pods
    until: float
    clock: Callable[[], float]
    price: float = 0.0  # of the best solution that is known
    bound: float = 0.0
    _boxes: list[Box] = field(default_factory=list)
    _sets: dict[Set, None] = field(default_factory=dict)
    _programme: Growing = field(init=False)
    _limited: bool = False
    _root: Case | None = None

    def best(self, known: Sequence[Pattern]) -> Best:
        """`known`: the sets that a plan for all pods is made of, if there is one."""
        self._boxes = [
            Box(price, free, self.needs, self._check)
            for price, free in zip(self.prices, self.free, strict=True)
        ]
        pods, kinds = len(self.needs), len(self._boxes)
        self._root = Case((0,) * kinds, (_UNBOUND,) * kinds)
        self._programme = Growing([1.0] * pods + [-_UNBOUND] * kinds)
        for row in range(pods + kinds):
            self._programme.column(_MISSING, [row])
        alone = [(pod,) for pod in range(pods)]
        for pattern in (*known, *alone):
            self._add(self._cheapest(pattern))
        self.price = sum(self.prices[self._cheapest(pattern).kind] for pattern in known or alone)
        self.bound = self._shares()
        with suppress(Late):
            self._grow(self._root)
        self.bound = min(self.bound, self.price)
        return Best(self.price, self.bound, self._reached(self.bound))

    def _shares(self) -> float:
        """Each pod pays for its share of one resource, where that is cheapest."""
        return max(
            sum(
                min(box.price * box.shares[pod][resource] for box in self._boxes if pod in box.shares)
                for pod in range(len(self.needs))
            )
            for resource in range(3)
        )

    def _cheapest(self, pattern: Pattern) -> Set:
        holding = [kind for kind, box in enumerate(self._boxes) if box.holds(pattern)]
        return Set(min(holding, key=self.prices.__getitem__), pattern)

    def _check(self) -> None:
        if self.clock() > self.until:
            raise Late

    def _reached(self, bound: float) -> bool:
        return self.price <= bound * (1 + SAME)

    # -- the tree

    def _grow(self, root: Case) -> None:
        heap, number = [(0.0, 0, root)], 0
        while heap:
            bound, _, case = heapq.heappop(heap)
            self.bound = max(self.bound, bound)
            if self._reached(bound):
                return
            self._check()
            found = self._relax(case)
            if number == 0:
                self.bound = max(self.bound, found.bound)
                self._look_for_better(case, found)
            least = max(bound, found.bound)
            if not self._reached(least):
                least = max(least, self._decided(case, found))
            if self._reached(least):
                continue
            for one in self._halves(case, found):
                number += 1
                heapq.heappush(heap, (least, number, one))
        self.bound = self.price

    def _look_for_better(self, case: Case, found: _Relaxed) -> None:
        self._solve(list(self._sets), case, _GLANCE)
        for part in _AT_ONCE:
            near = self._near(case, found, (self.price - found.bound) * part)
            if self._reached(found.bound) or near is None:
                return
            self._solve([*dict.fromkeys((*self._sets, *near))], case, _GLANCE)

    def _decided(self, case: Case, found: _Relaxed) -> float:
        """What a solution of this case costs at least, if it is better than the best and made of a few sets."""
        sets = self._near(case, found, self.price - found.bound)
        if sets is None:
            return 0.0
        if not sets:
            return _UNBOUND
        return self._solve(sets, case, _LOOK).bound

    def _halves(self, case: Case, found: _Relaxed) -> Iterator[Case]:
        machines: dict[int, float] = defaultdict(float)
        pairs: dict[tuple[int, int], float] = defaultdict(float)
        kinds: dict[tuple[int, int], float] = defaultdict(float)
        for one, share in found.chosen:
            machines[one.kind] += share
            for both in combinations(one.pods, 2):
                pairs[both] += share
            for pod in one.pods:
                kinds[(pod, one.kind)] += share
        if (kind := _most_divided(machines)) is not None:
            below = int(machines[kind])
            yield replace(case, most=_with(case.most, kind, below))
            yield replace(case, least=_with(case.least, kind, below + 1))
        elif (pair := _most_divided(_less_than_one(pairs))) is not None:
            yield replace(case, joined=(*case.joined, pair))
            yield replace(case, apart=(*case.apart, pair))
        elif (place := _most_divided(_less_than_one(kinds))) is not None:
            pod, kind = place
            others = {(pod, other) for other in range(len(self._boxes)) if other != kind}
            yield replace(case, barred=case.barred | {place})
            yield replace(case, barred=case.barred | others)
        else:  # whole already, or nearly
            self._solve([one for one, _ in found.chosen], case, _GLANCE)
            if not self._reached(found.bound):
                raise Late

    # -- one case

    def _relax(self, case: Case) -> _Relaxed:
        programme, pods = self._programme, len(self.needs)
        for kind, (least, most) in enumerate(zip(case.least, case.most, strict=True)):
            programme.between(pods + kind, least or -_UNBOUND, most)
        limited = bool(case.joined or case.apart or case.barred)
        if limited or self._limited:
            missing = [_UNBOUND] * (pods + len(self._boxes))
            programme.at_most(missing + [_UNBOUND if case.allows(one) else 0.0 for one in self._sets])
            self._limited = limited
        rules = [case.rules(kind, pods) for kind in range(len(self._boxes))]
        while True:
            solution = programme.solve()
            worth, bonus = [max(0.0, dual) for dual in solution.duals[:pods]], solution.duals[pods:]
            gained, dearest = False, 1.0
            for kind, box in enumerate(self._boxes):
                if not case.most[kind]:
                    continue
                self._check()
                more_than = box.price * (1 + SAME / 10) - bonus[kind]
                for value, pattern in box.better(worth, more_than, rules[kind])[-_KEPT:]:
                    gained |= self._add(Set(kind, pattern))
                    dearest = max(dearest, value / box.price)
            if case == self._root:
                # Worth so much less, no set is worth more than its machine: that proves a bound at any time.
                self.bound = max(self.bound, sum(worth) / dearest)
            if not gained:
                shares = solution.columns[pods + len(self._boxes) :]
                chosen = [(one, share) for one, share in zip(self._sets, shares, strict=True) if share > SAME]
                return _Relaxed(solution.value, worth, bonus, chosen)

    def _add(self, one: Set) -> bool:
        if one in self._sets:
            return False
        self._sets[one] = None
        self._programme.column(self.prices[one.kind], [*one.pods, len(self.needs) + one.kind])
        return True

    def _near(self, case: Case, found: _Relaxed, reach: float) -> list[Set] | None:
        """Every set of solutions that cost less than so much beyond the bound; None if these are many."""
        sets: list[Set] = []
        for kind, box in enumerate(self._boxes):
            if not case.most[kind]:
                continue
            self._check()
            more_than = box.price - found.bonus[kind] - reach * (1 + SAME)
            some = box.every(found.worth, more_than, _FEW - len(sets), case.rules(kind, len(self.needs)))
            if some is None:
                return None
            sets += [Set(kind, pattern) for pattern in some]
        return sets

    def _solve(self, sets: Sequence[Set], case: Case, seconds: float) -> Solution:
        programme = Programme()
        rows = [programme.row(1) for _ in self.needs]
        rows += [programme.row(least, most) for least, most in zip(case.least, case.most, strict=True)]
        for one in sets:
            cells = [(rows[row], 1.0) for row in (*one.pods, len(self.needs) + one.kind)]
            programme.column(self.prices[one.kind], cells, upper=1.0)
        left = min(seconds, self.until - self.clock())
        solution = programme.solve(whole=True, seconds=left, below=self.price)
        self.price = min(self.price, solution.value)
        return solution


def _with(values: tuple[float, ...], at: int, value: float) -> tuple[float, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _less_than_one(shares: Mapping[T, float]) -> dict[T, float]:
    """A pod may have more places than it needs; of that nothing could be decided."""
    return {one: share for one, share in shares.items() if share < 1}


def _most_divided(shares: Mapping[T, float]) -> T | None:
    """What is farthest from a whole number; None if nothing is away from one."""
    parts = {one: share - int(share + _WHOLE) for one, share in shares.items()}
    farthest = max(parts, key=lambda one: min(parts[one], 1 - parts[one]), default=None)
    if farthest is None or min(parts[farthest], 1 - parts[farthest]) < _WHOLE:
        return None
    return farthest


def _groups(joined: Sequence[Pattern], pods: int) -> tuple[Pattern, ...]:
    group = {pod: [pod] for pod in range(pods)}
    for one, other in joined:
        if group[one] is not group[other]:
            group[one] += group[other]
            for pod in group[other]:
                group[pod] = group[one]
    return tuple({id(some): tuple(sorted(some)) for some in group.values()}.values())
