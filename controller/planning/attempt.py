"""One packing: each pod on a machine that is open already, if one takes it, else on the best single machine.

Gangs are seated whole or not at all, if need be in one location after the other. Who must be near a pod that is
seated later, or is spread with it, is asked again then. Where each pod goes is told by `seating`.
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
        self._missed: dict[tuple[int, str], int] = {}  # the same: how many were seated when one got no place

    def run(self, pods: Sequence[Ask]) -> None:
        """Fill, exchange, and fill again: a machine exchanged for a smaller one makes room in the limits.

        Machines are exchanged once nobody more gets a place, or what was opened for several would shrink to the first.
        """
        waiting, before = list(pods), len(pods) + 1
        while waiting and len(waiting) < before:
            before = len(waiting)
            self.unplaced, self._spent = {}, {}
            self._no_use.clear()  # what was exchanged may be of use now
            self._missed.clear()
            self.expect(waiting)
            self._fill(waiting)
            if self.unplaced:
                self._fill_beside_later_ones(waiting)
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

    def _fill(self, pods: Sequence[Ask], *, again: bool = False) -> None:
        """`again`: who is left alone where nobody was seated since one like it got no place."""
        at = 0
        while at < len(pods):
            gang = pods[at].gang
            if gang is None:
                ask = pods[at]
                if not again or self._missed.get((ask.kind, ask.pod.namespace)) != len(self.order):
                    self._seat(ask)
                at += 1
                continue
            end = at
            while end < len(pods) and pods[end].gang is gang:
                end += 1
            self._kept = True
            self._seat_gang(pods[at:end])
            self._kept = False
            at = end

    def _fill_beside_later_ones(self, pods: Sequence[Ask]) -> None:
        while True:
            waiting = [ask for ask in pods if ask.pod.key in self.unplaced]
            minding = {id(ask.gang or ask) for ask in waiting if self._minds_others(ask)}
            seated = len(self.order)
            self._fill([ask for ask in waiting if id(ask.gang or ask) in minding], again=True)
            if len(self.order) == seated:
                return

    def _minds_others(self, ask: Ask) -> bool:
        """Whether a place may be open to it because of others that got theirs."""
        profile = self.board.profiles[ask.profile]
        return bool(profile.affinity or profile.spreads)

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
        self._missed[(ask.kind, ask.pod.namespace)] = len(self.order)
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
            missed = self._missed_of(asks)
            self._zone = None
            self._missed.clear()
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

    def _missed_of(self, asks: Sequence[Ask]) -> list[Ask]:
        """Seat them; who got no place."""
        missed = [ask for ask in asks if not self._seat(ask)]
        before = len(asks)
        while missed and len(missed) < before:
            before = len(missed)
            for ask in missed:
                if self._minds_others(ask):
                    self._seat(ask)
            missed = [ask for ask in missed if ask.pod.key in self.unplaced]
        return missed

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
