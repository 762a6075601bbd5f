"""Which machines to buy for the pods that fit nowhere: a few greedy packings, the best one wins.

One packing opens, for each pod in order, the best single machine and lets later pods share it. That
is right as long as machines may be small; where a limit on machines binds, fewer larger ones place
more pods. So packings that open nothing below 2, 4, 8… GPUs are tried as well, and judged by: pods
placed (the most urgent first), GPUs in all, price, and then rather more, smaller machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from controller.domain.kube import Pod, PodShape
from controller.domain.plan import Explanation, Snapshot
from controller.planning.choice import SAME_PRICE, Candidate, better
from controller.planning.limits import Tally
from controller.planning.room import Room, new_room


@dataclass(slots=True)
class Packing:
    rooms: list[Room] = field(default_factory=list)
    unplaced: dict[str, Explanation | None] = field(default_factory=dict)  # None: no candidate fits
    tally: Tally | None = None

    @property
    def gpus(self) -> int:
        return sum(room.offer.type.gpus for room in self.rooms if room.offer)

    @property
    def price(self) -> Decimal:
        return sum((room.offer.price for room in self.rooms if room.offer), Decimal(0))


class Packer:
    """Packs pods onto new machines; what a shape of pod may run on is worked out once."""

    def __init__(self, snapshot: Snapshot, options: Sequence[Candidate]) -> None:
        self._snapshot = snapshot
        self._buyable = [c for c in options if c.hindrance is None]
        self._templates = {id(c): new_room(snapshot, c.pool, c.offer) for c in self._buyable}
        self._choose = better(snapshot.policy.strategy)
        self._cheapest_first = snapshot.policy.strategy == "cheapest"
        self._fitting: dict[int, tuple[PodShape, list[Candidate]]] = {}

    def fitting(self, pod: Pod) -> list[Candidate]:
        """The candidates on which the pod would run alone."""
        known = self._fitting.get(id(pod.shape))
        if known is None:
            fits = [c for c in self._buyable if self._templates[id(c)].holds(pod)]
            known = self._fitting[id(pod.shape)] = (pod.shape, fits)
        return known[1]

    def best(self, pods: Sequence[Pod], tally: Tally) -> Packing:
        sizes = sorted({c.gpus for pod in pods for c in self.fitting(pod)})
        tries = [self._pack(pods, tally.copy(), least) for least in ([0, *sizes[1:]] if sizes else [0])]
        best = tries[0]
        for other in tries[1:]:
            if self._beats(other, best, pods):
                best = other
        return best

    def _pack(self, pods: Sequence[Pod], tally: Tally, least: int) -> Packing:
        packing = Packing(tally=tally)
        for pod in pods:
            room = next((room for room in packing.rooms if room.holds(pod)), None)
            if room is None:
                options = self.fitting(pod)
                large = [c for c in options if c.gpus >= least] or options
                room, objection = self._open(large, tally)
                if room is None and large is not options:
                    room, objection = self._open(options, tally)
                if room is None:
                    packing.unplaced[pod.key] = objection
                    continue
                room.name = f"new-machine-{len(packing.rooms)}"
                packing.rooms.append(room)
            room.put(pod)
        return packing

    def _open(self, options: Sequence[Candidate], tally: Tally) -> tuple[Room | None, Explanation | None]:
        allowed = [(c, tally.objection(c)) for c in options]
        free = [c for c, objection in allowed if objection is None]
        if not free:
            refused = [objection for c, objection in allowed if objection is not None]
            if not refused:
                return None, None
            first = self._choose(options)
            return None, next((o for c, o in allowed if c is first and o is not None), refused[0])
        chosen = self._choose(free)
        tally.add(chosen)
        return self._fresh(chosen), None

    def open_one(self, options: Sequence[Candidate], tally: Tally) -> tuple[Room | None, Explanation | None]:
        return self._open(options, tally)

    def _fresh(self, candidate: Candidate) -> Room:
        t = self._templates[id(candidate)]
        return Room(t.name, t.labels, t.taints, dict(t.free), dict(t.soon), offer=t.offer, pool=t.pool)

    def _beats(self, other: Packing, best: Packing, pods: Sequence[Pod]) -> bool:
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
    def _left(packing: Packing, pods: Sequence[Pod]) -> tuple[tuple[int, int], ...]:
        """How many pods stay unplaced, by falling priority."""
        by_priority: dict[int, int] = {}
        for pod in pods:
            by_priority.setdefault(pod.shape.priority, 0)
            if pod.key in packing.unplaced:
                by_priority[pod.shape.priority] += 1
        return tuple((-priority, by_priority[priority]) for priority in sorted(by_priority, reverse=True))
