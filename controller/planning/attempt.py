"""One packing: each pod on a machine that is open already, if one takes it, else on the best single machine.

Gangs are seated whole or not at all, if need be in one location after the other. Where each pod goes is told by
`seating`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from controller.domain import names
from controller.domain.plan import Explanation
from controller.domain.reason import Reason
from controller.planning import improving
from controller.planning.board import Board
from controller.planning.census import COMING, POSSIBLE
from controller.planning.fit import Ask
from controller.planning.gangs import Gang
from controller.planning.limits import Tally
from controller.planning.seating import Seating
from controller.planning.shedding import Shedding
from controller.planning.shop import Shop
from controller.planning.workshop import Packing


class Attempt(Seating):
    def __init__(
        self,
        shop: Shop,
        board: Board,
        tally: Tally,
        *,
        least: int = 0,
        overshoot: int = 0,
        cheapest: bool = False,
        seated: Mapping[str, int] | None = None,
        elsewhere: Counter[tuple[str, str]] | None = None,
        shut: int = 0,
        costs: Sequence[int] | None = None,
    ) -> None:
        """`seated`: by gang, who has a place that exists; `elsewhere`: machines to spread over locations with;
        `shut`: offers that are left alone; `costs`: of each offer, for which machines with GPUs may grow too."""
        super().__init__(shop, board, tally, least=least, overshoot=overshoot, cheapest=cheapest, costs=costs)
        self.buyable &= ~shut
        self._seated = seated or {}
        self._elsewhere = elsewhere
        self.unplaced: dict[str, Explanation | None] = {}
        self.together: dict[str, int] = {}
        self._bound = False
        self._spent: dict[tuple[int, str], Explanation] = {}  # by kind and namespace

    def run(self, pods: Sequence[Ask]) -> None:
        """Fill, exchange, and fill again: a machine exchanged for a smaller one makes room in the limits."""
        waiting, before = list(pods), len(pods) + 1
        while waiting and len(waiting) < before:
            before = len(waiting)
            self.unplaced, self._spent = {}, {}
            self._no_use.clear()  # what was exchanged may be of use now
            self.expect(waiting)
            self._fill(waiting)
            improving.exchange(self)
            waiting = [ask for ask in waiting if ask.pod.key in self.unplaced] if self.unplaced else []
        gone = improving.dissolve(self, large=not self._any_size)
        if gone and self.unplaced:
            self._in_place_of_gone(pods)
        self.unplaced |= gone
        if self.growing:
            Shedding(self).run()
        if self._elsewhere is not None:
            improving.spread(self, self._elsewhere.copy())

    def _in_place_of_gone(self, pods: Sequence[Ask]) -> None:
        """What limits kept from these may be allowed now; no machine is opened for them that may turn out too large."""
        self._any_size = True
        self._no_use.clear()
        self._spent.clear()
        waiting = [ask for ask in pods if ask.pod.key in self.unplaced and ask.gang is None]
        self.expect(waiting)
        self._fill(waiting)
        improving.exchange(self)

    def result(self) -> Packing:
        made = self.packing(self.unplaced, self.together)
        made.bound = self._bound
        return made

    # -- who is next

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
            self._kept = True
            self._seat_gang(pods[at:end])
            self._kept = False
            at = end

    def _seat(self, ask: Ask) -> bool:
        if self._spent:  # its namespace may have no more of them; not looked for thousands of times
            alike = (ask.kind, ask.pod.namespace)
            if alike in self._spent:
                self.unplaced[ask.pod.key] = self._spent[alike]
                return False
        why = self._place(ask, POSSIBLE)
        if why is not None and self.board.profiles[ask.profile].spreads:
            # Locations that nothing can be bought in after all are no reason to wait.
            why = self._place(ask, COMING)
            self._bound |= why is None
        if why is None:
            if self.unplaced:
                self.unplaced.pop(ask.pod.key, None)
            return True
        self.unplaced[ask.pod.key] = why[0]
        if why[0] is not None and why[0].code is Reason.LIMIT_NAMESPACE:
            self._spent[(ask.kind, ask.pod.namespace)] = why[0]
        return False

    def _seat_gang(self, asks: Sequence[Ask]) -> None:
        """At least as many as the gang needs, or none."""
        gang = asks[0].gang
        already = self._seated.get(gang.key, 0) if gang is not None else 0
        needed = (gang.needed if gang is not None else len(asks)) - already
        mark = len(self.order)
        objection: Explanation | None = None  # where the most of them would get a place
        most = -1
        for zone in self._zones(gang):
            self._zone = zone
            missed = [ask for ask in asks if not self._seat(ask)]
            self._zone = None
            if len(asks) - len(missed) >= needed or not missed:
                return
            if len(asks) - len(missed) > most:
                most = len(asks) - len(missed)
                whys = (self.unplaced[ask.pod.key] for ask in missed)
                objection = next((why for why in whys if why), None)
            self.back(mark)
            self._no_use.clear()
            self._spent.clear()
        if gang is not None:
            self.together[gang.key] = max(most + already, self.together.get(gang.key, 0))
        for ask in asks:
            self.unplaced[ask.pod.key] = objection

    def _zones(self, gang: Gang | None) -> Sequence[str | None]:
        """Where a gang may be tried: the locations of the best offers first."""
        if gang is None or not gang.one_location:
            return (None,)
        if gang.location is not None:
            return (gang.location or None,)  # its pods are bound to it as they are
        offered = self.board.offers.by(names.LABEL_ZONE)
        sold = self.buyable
        if sold & ~self.board.offers.having(names.LABEL_ZONE):
            return (None,)  # some tell none, as at home: its pods are bound to a location as it is
        found = sorted((self.shop.best(bits & sold), zone) for zone, bits in offered.items() if bits & sold)
        return [zone for _, zone in found] or (None,)


__all__ = ["Attempt"]
