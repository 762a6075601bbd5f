"""Of what pods could have, what they are not to have now, since machines like it came to nothing.

Who could have something else leaves what is in doubt alone; but for one pod of each pool, where its pause is over and it
would be the best: else nobody would ever find out that it works again. What is tried is what failed never yet, and
then what failed longest ago: else the same would be tried for ever. And who had a machine in vain has another sort next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from controller.domain.machine import ONCE_READY
from controller.domain.plan import Snapshot
from controller.planning.another_try import Turns, Would
from controller.planning.board import Board
from controller.planning.census import POSSIBLE
from controller.planning.choice import Candidate
from controller.planning.evidence import Doubts
from controller.planning.fit import Ask
from controller.planning.limits import Tally
from controller.planning.shop import Shop
from controller.planning.workshop import bits

_Sort = tuple[str, str, str]


def sort_of(c: Candidate) -> _Sort:
    return c.pool.name, c.offer.type.name, c.offer.location


@dataclass(slots=True)
class Narrowed:
    left: list[Ask]
    gangs: set[str] = field(default_factory=set)  # that are not to have all that they could
    waiting: set[str] = field(default_factory=set)  # pods that wait while another one is tried
    tries: set[str] = field(default_factory=set)  # pods that are to have something that is in doubt
    profiles: dict[int, int] = field(default_factory=dict)  # those made for it, and what they were before
    without: set[str] = field(default_factory=set)  # pods that may have nothing, at least alone


class Narrowing:
    def __init__(
        self,
        snapshot: Snapshot,
        doubts: Doubts,
        shop: Shop,
        board: Board,
        tally: Tally,
        overshoot: int,
        whole: Collection[str],
    ) -> None:
        """`whole`: gangs that do not come together with less than all."""
        self._snapshot = snapshot
        self._doubts = doubts
        self._shop = shop
        self._board = board
        self._tally = tally
        self._overshoot = overshoot
        self._whole = whole
        self._could: dict[tuple[int, str], int] = {}
        self._made: dict[
            tuple[int, int], int
        ] = {}  # profiles, by the one before and what is left of its offers
        self._kinds: dict[tuple[int, int], int] = {}

    @cached_property
    def _doubtful(self) -> int:
        """Offers that are in doubt."""
        against, offers = self._doubts.against, self._shop.offers if self._doubts else ()
        return sum(1 << n for n, c in enumerate(offers) if against(*sort_of(c)) is not None)

    @cached_property
    def _failed(self) -> int:
        """Offers of which one came to nothing."""
        failed_at, offers = self._doubts.failed_at, self._shop.offers if self._doubts.any_failed else ()
        return sum(1 << n for n, c in enumerate(offers) if failed_at(*sort_of(c)))

    @cached_property
    def _own(self) -> dict[str, set[str]]:
        """By pod, what machines that came to nothing for it were like."""
        sorts = {name: sort for sort, known in self._snapshot.tried.items() for name in known.machines}
        return {
            pod: {sorts[name].removesuffix(ONCE_READY) for name in found if name in sorts}
            for pod, found in self._snapshot.given_up.items()
        }

    # -- what a pod could have

    def could_have(self, ask: Ask) -> int:
        """Offers that hold it, may be bought now and are not too large, whatever limits say."""
        fitting = self._board.profiles[ask.profile].offers
        offers = self._welcome(ask)
        return offers & self._shop.not_too_large(fitting, ask.needs, self._overshoot) if offers else 0

    def _welcome(self, ask: Ask) -> int:
        """Those that hold it and may be bought now, where other pods, as they are now, let it onto a new one."""
        profile = self._board.profiles[ask.profile]
        offers = profile.offers & self._shop.buyable & self._shop.holding(ask.needs)
        if offers and profile.ruled:
            offers &= self._board.allowed(profile, POSSIBLE)[2]
        return self._board.offers_specially(profile, offers) if offers and profile.special else offers

    def would_try(self, ask: Ask) -> Would:
        offers = self.allowed(ask)
        if ask.gang is None or ask.gang.key not in self._whole:
            offers &= self._best_to_try(offers)
        sort = sort_of(self._shop.offers[self._shop.best(offers)])
        pools = {sort[0]}
        if ask.gang is not None and offers & self._doubtful:
            # Where its best pool has no room for all, the rest comes from others.
            pools |= self._pools(self.allowed(ask) & self._doubtful)
        return Would("/".join(sort), frozenset(pools), bool(offers & (self._doubtful | self._failed)))

    def _pools(self, offers: int) -> set[str]:
        return {sort_of(self._shop.offers[n])[0] for n in bits(offers)}

    def allowed(self, ask: Ask) -> int:
        """Those of them that the limits allow."""
        alike = (ask.kind, ask.pod.namespace)
        if alike not in self._could:
            offers = self.could_have(ask)
            for number in bits(offers):
                if self._tally.objection(self._shop.offers[number], (ask,)) is not None:
                    offers &= ~(1 << number)
            self._could[alike] = offers
        return self._could[alike]

    def sorts(self, ask: Ask) -> set[_Sort]:
        """Of all that it could have; where the limits allow none of it now, of what they do not."""
        return {sort_of(self._shop.offers[n]) for n in bits(self.allowed(ask) or self.could_have(ask))}

    # -- what it is not to have

    def narrow(
        self,
        left: Sequence[Ask],
        turns: Turns,
        passed: Collection[str],
        taken: Collection[str],
    ) -> Narrowed:
        """`passed`: pods of which it turned out that nothing is ordered for them of what is in doubt; `taken`: pools of which
        one is tried already."""
        found = Narrowed([], waiting=set(turns.waiting), without=set(turns.without))
        if not left or not (self._doubtful or self._failed):
            found.left = list(left)
            return found
        tried, busy = turns.let, set(taken)
        for ask in left:
            if ask.pod.key in tried:
                busy |= self._pools(self.allowed(ask) & self._doubtful)
        members: dict[str, list[Ask]] = {}
        for ask in left:
            if ask.gang is not None:
                members.setdefault(ask.gang.key, []).append(ask)
        shared: dict[tuple[str, str], int] = {}
        gangs: dict[str, int] = {}
        others: set[str] = set()  # gangs that have something else
        for key, asks in members.items():
            keys = {ask.pod.key for ask in asks}
            rest = None if key in self._whole else self._rest_of_gang(asks, not keys.isdisjoint(tried))
            if not keys.isdisjoint(found.without) or not all(self.allowed(ask) for ask in asks):
                found.without |= keys
                gangs[key] = self._gang_with_others(asks, busy, shared)
            elif rest is not None:
                gangs[key] = rest
                others.add(key)
            elif keys.isdisjoint(tried):
                gangs[key] = self._gang_with_others(asks, busy, shared)
                found.waiting |= keys if gangs[key] != -1 else set()
            else:
                gangs[key] = -1
        for ask in left:
            if ask.gang is None and not self.allowed(ask):
                found.without.add(ask.pod.key)
            if ask.gang is not None:
                keep = gangs[ask.gang.key]
            elif ask.pod.key in passed:
                keep = ~self._doubtful
            elif ask.pod.key in found.without:
                keep = self._with_others(ask, busy, shared)
            elif ask.pod.key in tried:
                keep = self._best_to_try(self.allowed(ask))
                found.tries.add(ask.pod.key)
            else:
                keep = self._else(ask, busy)
                if keep != -1 and keep & self._doubtful:
                    found.tries.add(ask.pod.key)
            narrower = self._with(ask, keep)
            if narrower is not ask:
                found.profiles[narrower.profile] = ask.profile
                if ask.gang is not None and ask.gang.key in others:
                    found.gangs.add(ask.gang.key)
            found.left.append(narrower)
        return found

    def _with_others(self, ask: Ask, busy: set[str], shared: dict[tuple[str, str], int]) -> int:
        """For a pod that may have nothing alone, and a larger one with others: as many as one machine of a pool holds, where
        none of it is tried."""
        name, units = ask.scarce
        for n in bits(self._welcome(ask) & self._doubtful):
            pool = sort_of(self._shop.offers[n])[0]
            if pool not in busy:
                busy.add(pool)
                shared[pool, name] = self._shop.free[n].get(name, 0)
            if shared.get((pool, name), 0) >= units:
                shared[pool, name] -= units
                return -1
        return ~self._doubtful

    def _gang_with_others(
        self, asks: Sequence[Ask], busy: set[str], shared: dict[tuple[str, str], int]
    ) -> int:
        """A gang is one try, of as many machines as it needs; what is left on the last of them is for others, without whom it
        may be too large."""
        needs: Counter[str] = Counter()
        offers = 0
        for ask in asks:
            offers |= self._welcome(ask) & self._doubtful
            name, units = ask.scarce
            needs[name] += units
        pools = self._pools(offers)
        if busy.isdisjoint(pools):
            busy |= pools
            for n in bits(offers):
                pool = sort_of(self._shop.offers[n])[0]
                for name, units in needs.items():
                    if most := self._shop.free[n].get(name, 0):
                        shared[pool, name] = max(shared.get((pool, name), 0), -units % most)
            return -1
        for pool in sorted(pools):
            if all(shared.get((pool, name), 0) >= units for name, units in needs.items()):
                for name, units in needs.items():
                    shared[pool, name] -= units
                return -1
        return ~self._doubtful

    def _else(self, ask: Ask, busy: set[str]) -> int:
        """For a pod that need not have what is in doubt. One of each pool finds out whether it still is."""
        allowed = self.allowed(ask)
        rest = allowed & ~self._doubtful
        if not rest:
            return -1
        if allowed & self._doubtful:
            pool = sort_of(self._shop.offers[self._shop.best(allowed)])[0]
            if self._shop.best(allowed) != self._shop.best(rest) and pool not in busy:
                busy.add(pool)
                mine = (n for n in bits(allowed & self._doubtful) if sort_of(self._shop.offers[n])[0] == pool)
                of_it = sum(1 << n for n in mine)
                return self._best_to_try(of_it)
            return ~self._doubtful
        own = self._own.get(ask.pod.identity)
        others = self._no_larger(rest) & ~self._of_sorts(rest, own) if own else 0
        return others or -1

    def _rest_of_gang(self, asks: Sequence[Ask], failed: bool) -> int | None:
        """What it may have without anything in doubt, or `failed`: without what came to nothing; None: not all of it."""
        out_of = (
            (self._failed | self._doubtful, self._doubtful, self._failed) if failed else (self._doubtful,)
        )
        return next((~out for out in out_of if out and all(self.allowed(ask) & ~out for ask in asks)), None)

    def _of_sorts(self, offers: int, sorts: Collection[str]) -> int:
        return sum(1 << n for n in bits(offers) if "/".join(sort_of(self._shop.offers[n])) in sorts)

    def _no_larger(self, offers: int) -> int:
        """Than the one that it would have: another sort is worth no more GPUs."""
        return offers & self._shop.of_gpus(0, self._shop.gpus[self._shop.best(offers)]) if offers else 0

    def _best_to_try(self, offers: int) -> int:
        if not offers:
            return -1
        offers = self._no_larger(offers & ~self._doubtful or offers)
        known = {
            n: (bool(self._doubtful >> n & 1), self._doubts.failed_at(*sort_of(self._shop.offers[n])))
            for n in bits(offers)
        }
        first = min(known.values())
        return sum(1 << n for n, found in known.items() if found == first)

    def _with(self, ask: Ask, keep: int) -> Ask:
        profiles = self._board.profiles
        before = profiles[ask.profile]
        offers = before.offers & keep
        if offers == before.offers:
            return ask
        number = self._made.get((ask.profile, offers))
        if number is None:
            number = self._made[(ask.profile, offers)] = max(profiles) + 1
            profiles[number] = replace(before, offers=offers, sold=before.offers)
        # A kind of its own, too: what is found out about others with the same amounts does not hold of it.
        kind = self._kinds.setdefault((ask.kind, number), -1 - len(self._kinds))
        return Ask(ask.pod, kind, number, ask.needs, ask.size, ask.scarce, ask.gang)
