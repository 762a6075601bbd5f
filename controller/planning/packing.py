"""Which machines to buy for the pods that fit nowhere: a few greedy packings, the best one wins.

One packing seats each pod on a machine that it opened already, if one takes it, and opens the best single
machine otherwise. That is right as long as machines may be small; where a limit on machines binds, fewer
larger ones place more pods. So packings that open nothing below 2, 4, 8… GPUs are tried as well, and for not too many
pods one whose machines grow where that costs less than another one: pods with rules about others are in no bargain. Each
machine is then exchanged for the best one that holds the same pods. Which of them is the best is told
by `judging`; what wins is packed anew by `bargains` where that is better still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from controller.domain.machine import Phase
from controller.domain.plan import Explanation, Snapshot
from controller.planning.attempt import Attempt
from controller.planning.board import Board, Profile
from controller.planning.choice import Candidate
from controller.planning.emerging import APART, Late, late
from controller.planning.fit import Ask
from controller.planning.goals import goals_of
from controller.planning.judging import Judge
from controller.planning.limits import Tally
from controller.planning.room import Room
from controller.planning.shop import shop_of
from controller.planning.turns import Turns, limited
from controller.planning.workshop import Packing, bits

_SMALL = 0.7  # of the mean, and less: pods that fill what others leave
_LAST = 9
_AGAIN = 8  # more attempts at one packing, at most
_FEW = 500  # pods, up to which one packing lets machines with GPUs grow
_MANY = 2000  # pods, beyond which one packing must do unless limits bind


class Packer:
    """Packs pods onto new machines."""

    def __init__(self, snapshot: Snapshot, options: Sequence[Candidate]) -> None:
        self._snapshot = snapshot
        self.shop = shop_of(snapshot, options)
        self.judge = Judge(snapshot.policy)
        self.overshoot = snapshot.policy.max_overshoot
        self._cheapest_first = snapshot.policy.common_strategy == "cheapest"
        self.goals = goals_of(snapshot.policy, self.shop)

    @cached_property
    def costs(self) -> list[int] | None:
        """Of each offer, where all pools go by one strategy that sets of machines gain from."""
        goal = self.goals[0] if len(self.goals) == 1 and self.goals[0].offers == -1 else None
        return [goal.cost(n) for n in range(len(self.shop.offers))] if goal is not None else None

    @cached_property
    def elsewhere(self) -> Counter[tuple[str, str]] | None:
        """Machines by pool and location, where those that are bought are to be spread over locations with them."""
        if not self._snapshot.policy.spread_locations:
            return None
        return Counter(
            (machine.pool, machine.location)
            for machine in self._snapshot.machines
            if not machine.phase.leaving and machine.phase is not Phase.TOMBSTONE
        )

    def template(self, candidate: Candidate) -> Room:
        return self.shop.template(candidate)

    def allowed(
        self, options: Sequence[Candidate], tally: Tally
    ) -> tuple[Candidate | None, Explanation | None]:
        """The best of those that the limits allow; else why the best of all is not allowed."""
        ranked = sorted(options, key=lambda candidate: self.shop.number[id(candidate)])
        for candidate in ranked:
            if tally.objection(candidate) is None:
                return candidate, None
        return None, tally.objection(ranked[0]) if ranked else None

    def best(
        self, pods: Sequence[Ask], tally: Tally, board: Board, seated: Mapping[str, int] | None = None
    ) -> Packing:
        """The board must hold what is there already; it is left as it was."""
        given, pods = pods, in_packing_order(pods, board)
        self._seated = seated or {}
        best = self._try(pods, tally, board, 0)
        bound = any(why is not None for why in best.unplaced.values())
        if len(pods) > _MANY and not bound:
            return best
        every = 0
        for profile in board.profiles.values():
            every |= profile.offers
        sizes = sorted({self.shop.gpus[n] for n in bits(every & self.shop.buyable)})
        # The first packing opens the smallest there is, unless that is sold out and the next one too large for one pod.
        smallest = self.shop.fewest_gpus(every & self.shop.possible & ~self.shop.own)
        ways = [(least, False) for least in sizes if least != smallest]
        if self.costs is not None and len(pods) <= _FEW and sizes[-1:] > [0]:
            ways.append((0, True))
        way = (0, False)
        for least, grow in ways:
            other = self._try(pods, tally, board, least, grow=grow)
            if self.judge.beats(other, best, pods):
                best, way = other, (least, grow)
        return self._in_turn(best, given, pods, tally, board, *way) if limited(best) else best

    def _in_turn(
        self,
        best: Packing,
        given: Sequence[Ask],
        pods: Sequence[Ask],
        tally: Tally,
        board: Board,
        least: int,
        grow: bool,
    ) -> Packing:
        """As many pods, where some have a place whose turn it was not. Who is served then is packed in packing order again.

        Very many pods are tried in packing order at once, those first whose turn it is, as that is much faster.
        """
        turns = Turns(given, self._snapshot.policy.wanted_resources)
        if not turns.passed(best):
            return best
        lines = [turns.line, turns.behind(pods, turns.beyond(best))]
        many = len(pods) > _MANY
        for line in reversed(lines) if many else lines:
            fair = self._try(line, tally, board, least, grow=grow)
            if turns.fairer(fair, best):
                break
        else:
            return best
        if many:
            return fair
        tidy = self._try(turns.behind(pods, fair.unplaced), tally, board, least, grow=grow)
        better = tidy.unplaced.keys() <= fair.unplaced.keys() and self.judge.beats(tidy, fair, pods)
        return tidy if better else fair

    def _try(
        self, pods: Sequence[Ask], tally: Tally, board: Board, least: int, *, grow: bool = False
    ) -> Packing:
        """Tried again without the machines that would keep others of the packing from being bound."""
        shut, out = 0, dict[str, Explanation]()
        packing, wrong = self._attempt(pods, tally, board, least, shut, out, grow=grow)
        hopeless = packing.unplaced.keys()
        for _ in range(_AGAIN):
            if not wrong.pods and not wrong.offers & ~shut:
                break
            shut |= wrong.offers
            if not wrong.offers:
                out |= wrong.pods
            packing, wrong = self._attempt(pods, tally, board, least, shut, out, grow=grow)
        if shut:
            packing.bound = True
            for key, why in packing.unplaced.items():
                if why is None and key not in hopeless:
                    packing.unplaced[key] = APART
        packing.unplaced |= out
        return packing

    def _attempt(
        self,
        pods: Sequence[Ask],
        tally: Tally,
        board: Board,
        least: int,
        shut: int,
        out: Mapping[str, Explanation],
        *,
        grow: bool,
    ) -> tuple[Packing, Late]:
        attempt = Attempt(
            self.shop,
            board,
            tally.copy(),
            least=least,
            overshoot=self.overshoot,
            cheapest=self._cheapest_first,
            seated=self._seated,
            elsewhere=self.elsewhere,
            shut=shut,
            costs=self.costs if grow else None,
        )
        attempt.run([ask for ask in pods if ask.pod.key not in out] if out else pods)
        packing = attempt.result()
        wrong = late(attempt, bound=packing.bound)
        attempt.undo()
        return packing, wrong


def in_packing_order(pods: Sequence[Ask], board: Board) -> list[Ask]:
    """Within priority, gang and GPUs: whoever has the strictest rules about other pods first, then by size.

    Pods that want much of one resource take turns with those that want much of another, so that machines are
    filled in all of them. Small pods come last, whatever their rules: they fill what is left over. Pods that want
    a host each begin with the smallest, as each of them opens a machine that others may join.
    """
    if not pods or not any(profile.ruled for profile in board.profiles.values()):
        return list(pods)
    strictness = {number: _strictness(profile) for number, profile in board.profiles.items()}
    sizes = _sizes(pods)
    small = _SMALL * sum(sizes[ask.size][0] for ask in pods) / len(pods)
    found: list[Ask] = []
    at = 0
    while at < len(pods):
        head = pods[at]
        end = at
        if head.gang is not None:
            while end < len(pods) and pods[end].gang is head.gang:
                end += 1
        else:
            key = (head.pod.shape.priority, head.scarce)
            while (
                end < len(pods)
                and pods[end].gang is None
                and (pods[end].pod.shape.priority, pods[end].scarce) == key
            ):
                end += 1
        turns: dict[int, list[tuple[float, str, Ask]]] = {}
        for ask in pods[at:end]:
            (size, most), strict = sizes[ask.size], strictness[ask.profile]
            turn = strict if strict == 0 or size > small else _LAST
            turns.setdefault(turn, []).append((size, most, ask))
        for turn in sorted(turns):
            found += _taking_turns(turns[turn]) if turn else _smallest_first(turns[turn])
        at = end
    return found


def _smallest_first(some: Sequence[tuple[float, str, Ask]]) -> list[Ask]:
    return [ask for _, _, ask in sorted(some, key=lambda one: one[0])]


def _taking_turns(some: Sequence[tuple[float, str, Ask]]) -> list[Ask]:
    """Largest first among those that want the most of the same resource."""
    by: dict[str, list[tuple[float, str, Ask]]] = {}
    for one in sorted(some, key=lambda one: -one[0]):
        by.setdefault(one[1], []).append(one)
    line = [
        ((number + 0.5) / len(same), name, ask)
        for name, same in by.items()
        for number, (_, _, ask) in enumerate(same)
    ]
    return [ask for _, _, ask in sorted(line, key=lambda one: one[:2])]


def _sizes(pods: Sequence[Ask]) -> dict[int, tuple[float, str]]:
    """By size: its part of what all ask for, of resources that they do not all ask alike; and of what the most."""
    every = {ask.size: ask.needs for ask in pods}
    count = Counter(ask.size for ask in pods)
    total: dict[str, int] = {}
    for size, needs in every.items():
        for name, units in needs.items():
            total[name] = total.get(name, 0) + units * count[size]
    first = next(iter(every.values()), {})
    differ = [n for n in sorted(total) if any(needs.get(n, 0) != first.get(n, 0) for needs in every.values())]
    found = {}
    for size, needs in every.items():
        parts = {name: needs.get(name, 0) / total[name] for name in differ}
        found[size] = (sum(parts.values()), max(parts, key=parts.__getitem__, default=""))
    return found


def _strictness(profile: Profile) -> int:
    if profile.owns and any(census.by_host for census in profile.owns):
        return 0
    if profile.affinity:
        return 1
    if any(spreading.census.by_host for spreading in profile.spreads):
        return 2
    return 3 if profile.spreads or profile.anti else 4


__all__ = ["Packer", "Packing", "in_packing_order"]
