"""The same pods on machines that cost less: take a few machines apart, pack again, keep what is cheaper.

A greedy packing never buys a dear machine because its rest would hold what is dear elsewhere. Here a step
either empties up to three machines and seats their pods anew, each where the price rises least, or fills one
more machine with the pods that cost the most where they are. A step that makes things a little dearer is
accepted too, less and less, so that there is a way out of a dead end. Steps are counted, not timed, and
drawn from numbers that are the same each time: the same pods and kinds give the same machines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import sqrt

from controller.domain.resources import Resources
from controller.planning.covering import Pods
from controller.planning.puzzle import TINY, Kind, Machine, Puzzle
from controller.planning.recombining import MOST, Fine, Recombining

_SEED = 1
WORK = 150_000  # looks at a machine for a pod: a tenth of a second; as long as it pays, four times as much at most
_WORK_FOR_TWO = 300  # by the square of the pods: a few have few ways to be put together
_FILLED = 0.3  # of the steps fill a machine, the others empty some
_SINGLE = 0.5  # of the steps take a few pods more out of machines that stay
_OVERLOOKED = 0.05  # of the machines, so that the same pods are not always seated in the same way
_HEATS = 2  # times that it begins with a large freedom again; so often in vain, and it ends
_MOST_HEATS = 8
_TURNS, _MOST_TURNS = 2, 3  # in vain, and in all, that sets of pods are put together anew
_ENOUGH = 6  # times as much work as a search begins with: no turn begins after that
_FEW = 8  # pods that are put together anew however little work is asked for: that takes no time
_STEP = 20  # what a step is counted as beside these
_DEARER = 0.12  # of what a machine costs on average, by which a step may be dearer at the beginning


def _whole(share: float) -> float:
    return 1.0


def _own(share: float) -> float:
    return share


class Search:
    """`fine`: whether a machine of this kind may be bought for these pods; one that may not is part of no result."""

    def __init__(self, puzzle: Puzzle, machines: list[Machine], fine: Fine | None = None) -> None:
        self._puzzle = puzzle
        self._fine = fine
        self._chance = random.Random(_SEED).random  # noqa: S311  (nothing is secret about it)
        self._machines = machines
        self._price = sum(machine[2] for machine in machines)
        count = len(puzzle.needs)
        cheapest, halfway, by_share = (
            [self._for(pod, part) for pod in range(count)] for part in (_whole, sqrt, _own)
        )
        self._opened = [cheapest, cheapest, halfway, by_share]
        sizes = [[price for price, _ in self._opened[0]]]
        for name in range(len(puzzle.names)):
            sizes.append([max(of[name + 2][pod] for of in puzzle.shares) for pod in range(count)])
        sizes.append([sum(of[pod] for of in sizes[1:]) for pod in range(count)])
        self._sizes = [of for of in sizes if min(of) < max(of)] or sizes[:1]
        self._work = 0
        self.spent = 0  # in all runs that are over
        self.sets: dict[Pods, int] = {}  # of pods that shared a machine, and its price

    def _for(self, pod: int, part: Callable[[float], float]) -> tuple[float, int]:
        """The kind to open for the pod if it pays for its share only, or more of it; and what it then pays."""
        puzzle = self._puzzle
        return min(
            (puzzle.prices[kind] * part(puzzle.most[kind][pod]), kind)
            for kind, free in enumerate(puzzle.kinds)
            if puzzle.fits(puzzle.needs[pod], free)
        )

    def run(self, most: int) -> list[Machine]:
        """The cheapest that was found with so much work, or with more while that still finds cheaper ones."""
        best, least = self._machines, self._price
        slack, heat = _DEARER * least / len(best), most / _HEATS
        in_vain = heats = 0
        self._remember(best)
        while in_vain < _HEATS and heats < _MOST_HEATS:
            heats, before = heats + 1, least
            while self._work < heats * heat:
                self._work += _STEP
                machines, loose = self._filled() if self._chance() < _FILLED else self._emptied()
                self._seat(loose, machines)
                price = sum(machine[2] for machine in machines)
                left = 1 - self._work % heat / heat
                if price <= self._price + slack * left * left * left * self._chance():
                    known = set(map(id, self._machines))
                    self._remember([machine for machine in machines if id(machine) not in known])
                    self._machines, self._price = machines, price
                    if price < least and self.may_be(machines):
                        best, least = machines, price
            in_vain = 0 if least < before else in_vain + 1
        self.spent += self._work
        return best

    def again(self, machines: list[Machine], most: int) -> list[Machine]:
        """From these machines."""
        self._machines, self._price, self._work = machines, sum(machine[2] for machine in machines), 0
        return self.run(most)

    def _remember(self, machines: Sequence[Machine]) -> None:
        for machine in machines:
            self.sets[tuple(sorted(machine[0]))] = machine[2]

    def may_be(self, machines: list[Machine]) -> bool:
        return self._fine is None or all(self._fine(machine[0], machine[3]) for machine in machines)

    def _any(self, count: int) -> int:
        return int(self._chance() * count)

    def _emptied(self) -> tuple[list[Machine], list[int]]:
        """Without one to three of the machines, the dear ones rather."""
        machines = self._machines
        count = len(machines)
        out: set[int] = set()
        for _ in range(1 + self._any(3)):
            one, other = self._any(count), self._any(count)
            out.add(max(one, other, key=lambda n: machines[n][2]) if self._chance() < 0.5 else one)
        loose = [pod for n in sorted(out) for pod in machines[n][0]]
        rest = [machine for n, machine in enumerate(machines) if n not in out]
        return rest, loose

    def _filled(self) -> tuple[list[Machine], list[int]]:
        """With one machine more, and the pods in it that cost the most for what they take of it."""
        puzzle, chance = self._puzzle, self._chance
        if not puzzle.fillable:
            return self._emptied()
        kind = puzzle.fillable[self._any(len(puzzle.fillable))]
        free, guards, needs = puzzle.kinds[kind], puzzle.guards, puzzle.needs
        shares = puzzle.shares[kind]
        share = shares[self._any(len(shares))]
        worth, place = [0.0] * len(needs), [0] * len(needs)
        for number, (inside, _, price, its_kind, _) in enumerate(self._machines):
            parts = puzzle.most[its_kind]
            whole = 0.0
            for pod in inside:
                whole += parts[pod]
            for pod in inside:
                worth[pod], place[pod] = price * parts[pod] / whole, number
        blur = 0.8 * chance()
        used = 0
        taken: list[int] = []
        from_machine: dict[int, list[int]] = {}
        fitting = [(-worth[pod] * (1 + blur * chance()) / share[pod], pod) for pod in puzzle.fitting[kind]]
        for _, pod in sorted(fitting):
            more = used + needs[pod]
            if (free - more) & guards == guards:
                used = more
                taken.append(pod)
                from_machine.setdefault(place[pod], []).append(pod)
        loose: list[int] = []
        machines: list[Machine] = []
        given_up = 0.8 * chance()  # what is left of a machine that was worth less than that is seated anew
        for number, machine in enumerate(self._machines):
            gone = from_machine.get(number)
            if gone is None:
                machines.append(machine)
                continue
            rest = [pod for pod in machine[0] if pod not in gone]
            if not rest:
                continue
            if sum(worth[pod] for pod in rest) < given_up * machine[2]:
                loose += rest
            else:
                machines.append(puzzle.machine(rest))
        machines.append(puzzle.machine(taken))
        self._work += len(needs)
        return machines, loose

    def _seat(self, loose: list[int], machines: list[Machine]) -> None:
        """Each pod where the price rises least, some by chance overlooked."""
        puzzle, chance = self._puzzle, self._chance
        guards, dearer = puzzle.guards, puzzle.dearer
        if machines and chance() < _SINGLE:
            for _ in range(1 + self._any(3)):
                number = self._any(len(machines))
                inside = machines[number][0]
                if len(inside) > 1:
                    pod = inside[self._any(len(inside))]
                    machines[number] = puzzle.machine([other for other in inside if other != pod])
                    loose.append(pod)
        size = self._sizes[self._any(len(self._sizes))]
        blur = 0.6 * chance()
        order = sorted((-size[pod] * (1 + blur * chance()), pod) for pod in loose)
        opened = self._opened[self._any(len(self._opened))]
        wide = False
        for _, pod in order:
            self._work += 4 + len(machines)
            needs = puzzle.needs[pod]
            least, kind = opened[pod]
            seat, dearest = -1, 0
            for number, (_, used, price, its_kind, free) in enumerate(machines):
                more = used + needs
                if (free - more) & guards == guards:
                    if (least or price < dearest) and chance() >= _OVERLOOKED:
                        least, seat, dearest = 0, number, price
                elif least:
                    for rise, larger in dearer[its_kind]:
                        if rise >= least:
                            break
                        if (larger - more) & guards == guards:
                            if chance() >= _OVERLOOKED:
                                least, seat = rise, number
                            break
                    else:
                        self._work += len(dearer[its_kind]) // 4
            if seat < 0:
                wide |= opened is not self._opened[0]
                machines.append(([pod], needs, puzzle.prices[kind], kind, puzzle.kinds[kind]))
                continue
            inside, used, price, kind, free = machines[seat]
            more = used + needs
            if (free - more) & guards == guards:
                machines[seat] = ([*inside, pod], more, price, kind, free)
            else:
                machines[seat] = ([*inside, pod], more, *puzzle.cheapest(more))
        if wide:
            for number, (inside, used, price, _, _) in enumerate(machines):
                found = puzzle.cheapest(used)
                if found[0] < price:
                    machines[number] = (inside, used, *found)


def cheapened(
    pods: Sequence[Resources],
    kinds: Sequence[Kind],
    groups: Sequence[Sequence[int]],
    allowed: Sequence[int] | None = None,
    work: int = WORK,
    fine: Fine | None = None,
) -> list[list[int]] | None:
    """The pods of each machine; None if that costs no less than these groups do."""
    puzzle = Puzzle(pods, kinds, allowed)
    if not puzzle.possible(groups):
        return None
    machines = [puzzle.machine(list(group)) for group in groups]
    before = sum(machine[2] for machine in machines)
    if before <= puzzle.bound() * (1 + TINY):
        return None
    search, most = Search(puzzle, machines, fine), min(work, _WORK_FOR_TWO * len(pods) * len(pods))
    found = search.run(most)
    if len(pods) <= (MOST if work >= WORK else _FEW):
        found = _recombined(found, search, Recombining(puzzle, pods, kinds, fine), most)
    if sum(machine[2] for machine in found) >= before:
        return None
    return [sorted(machine[0]) for machine in found]


def _recombined(best: list[Machine], search: Search, sets: Recombining, most: int) -> list[Machine]:
    """By turns put together anew, and searched on from there."""
    least = sum(machine[2] for machine in best)
    lowest, in_vain = sets.grow(search.sets) * (1 + TINY), 0
    for turn in range(_MOST_TURNS):
        if in_vain == _TURNS or least <= lowest or sets.done or search.spent > _ENOUGH * most:
            break
        in_vain += 1
        anew = sets.whole(search.sets, turn)
        for found in (anew, search.again(anew, most), sets.chosen(least)):
            price = sum(machine[2] for machine in found)
            if found and price < least and search.may_be(found):
                best, least, in_vain = found, price, 0
    return best
