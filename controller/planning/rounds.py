"""Draft after draft of the same, each knowing what those before it came to, until every gang comes together or is left out.

A gang that cannot be completed is left out, and the places of its pods are for others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from controller.domain.plan import Explanation, Snapshot
from controller.domain.reason import Reason
from controller.planning import drafts
from controller.planning.at_once import at_once
from controller.planning.bargains import bargain
from controller.planning.choice import candidates
from controller.planning.demand import Demand
from controller.planning.drafts import Before, Draft, Matter
from controller.planning.evidence import Doubts
from controller.planning.in_vain import without_doubted
from controller.planning.incomplete import incomplete, of_no_influence
from controller.planning.minimum import top_up
from controller.planning.packing import Packing

# Gangs that fail are left out one after the other, since one may stand in the other's way, and each time all is drafted
# anew; after so many (fewer where many pods wait, whose drafts take long) all that fail at once.
_AT_LEAST, _ONE_BY_ONE, _PODS_OF_THEM = 4, 100, 8000
# How often gangs that must be in one location are tried in the next one, by a draft of everything.
# Gangs that nothing helps take as many in each round in which one of them is left out.
_OTHER_LOCATIONS, _AT_MOST, _PODS_OF_ALL = 8, 64, 4000
_PASSED_ON = 8  # pods: so often a turn is passed on where nothing is ordered in it, by a draft of everything
_TURNS_ANEW = 4  # times that this begins anew: a gang that is left out may have been in the way


class Rounds:
    def __init__(
        self, snapshot: Snapshot, found: Demand, doubts: Doubts, first: Mapping[str, int] | None = None
    ) -> None:
        """`first`: how many machines of a pool's minimum come before those for pods; None: all that it lacks."""
        self._before = Before()
        options = without_doubted(snapshot, doubts, candidates(snapshot), self._before.wakes)
        self._matter = Matter(snapshot, found, doubts, options, first)
        self._short: set[Reason] = set()
        # What was in the way in the first location of a gang.
        self._nearest: dict[str, Explanation] = {}
        # Gangs whose turn it is not, left out as long as it may be that of others.
        self._parked: set[str] = set()
        self._turns = _TURNS_ANEW
        pods = max(1, len(found.pods))
        self._moves = max(_OTHER_LOCATIONS, min(_AT_MOST, _PODS_OF_ALL // pods))
        self._alone = max(_AT_LEAST, min(_ONE_BY_ONE, _PODS_OF_THEM // pods))

    def last(self) -> Draft:
        """No gang of which too few would get a place."""
        while True:
            made = drafts.make(self._matter, self._before)
            made.short = set(self._short)
            broken = incomplete(made, self._before.failed)
            if self._takes_all(made, broken) or self._passes_on(made) or self._moves_on(made, broken):
                continue
            if not broken:
                return self._finished(made)
            self._leave_out(made, broken)

    def _takes_all(self, made: Draft, broken: Mapping[str, Explanation]) -> bool:
        """Gangs that do not come together with what is in no doubt have the rest as well."""
        again = broken.keys() & made.narrowed.gangs
        self._before.whole |= again
        return bool(again)

    def _passes_on(self, made: Draft) -> bool:
        """Where nothing is ordered in a turn, it is that of others."""
        passed = self._before.passed
        in_vain = made.narrowed.tries & made.packing.unplaced.keys()
        if in_vain <= passed or len(passed) >= _PASSED_ON:
            return False
        passed |= in_vain
        return True

    def _moves_on(self, made: Draft, broken: dict[str, Explanation]) -> bool:
        """To other locations; what is told of a gang is what was in the way in its first one."""
        for key in made.places.keys() & broken.keys() - made.waiting:
            broken[key] = self._nearest.setdefault(key, broken[key])
        better = self._before.tried.heed(
            made.places, broken, made.seated, made.hopeless, more=self._moves > 0
        )
        if not (better and self._moves):
            return False
        self._moves -= 1
        return True

    def _leave_out(self, made: Draft, broken: dict[str, Explanation]) -> None:
        failed, tried = self._before.failed, self._before.tried
        self._short, waiting = made.short, made.waiting
        self._alone -= 1
        ready = {key: why for key, why in broken.items() if key not in waiting} or broken
        in_the_way = {key: why for key, why in broken.items() if key not in ready and made.seated[key]}
        if in_the_way:
            # It has no turn, and so not its places either, unless those that have one fail without it.
            failed |= in_the_way
            self._parked |= in_the_way.keys()
        else:
            for key in self._parked:
                del failed[key]
            self._parked.clear()
            bought_for = {ask.gang.key for ask, _ in made.packing.order if ask.gang is not None}
            out = of_no_influence(ready, tried.held | bought_for) if self._alone >= 0 else broken
            failed |= out
            if self._turns and not bought_for.isdisjoint(out) and self._before.had_turns:
                self._turns -= 1
                self._before.forget_turns()
        tried.clear()  # what is left out now may have been in the way

    def _finished(self, made: Draft) -> Draft:
        if made.packer.goals:
            self._better(made, bargain(made.packing, made.packer, made.tally, made.board, made.left))
        self._better(made, at_once(made.packing, made.packer, made.tally, made.board, made.left))
        if self._matter.first is not None:
            _fill_up(made)
        return made

    def _better(self, made: Draft, packing: Packing | None) -> None:
        """Take this packing, unless members of gangs that ask for no GPU would have a place with the first one only."""
        if packing is None:
            return
        if not incomplete(replace(made, packing=packing, short=set()), self._before.failed):
            made.packing = packing


def _fill_up(made: Draft) -> None:
    """What the minimum lacks beside the machines for pods."""
    tally = made.tally.copy()
    for candidate, inside in zip(made.packing.chosen, made.packing.inside, strict=True):
        tally.add(candidate, inside)
    bought = Counter(c.pool.name for c in made.ordered)
    rest = top_up(made.snapshot, made.packer, made.options, tally, made.doubts, bought=bought)
    for candidate in rest.chosen:
        made.tally.add(candidate)
    made.sites.coming += rest.rooms
    made.minimum.extend(rest)
