"""What two simple answers to the same pods would have cost: a plain controller, and no controller at all.

* Poll and count: every ten seconds it adds up the GPUs of pending pods, buys what is not on its way yet, and
  removes each machine that it finds idle. It buys the cheapest machine with that many GPUs which could hold the
  first pod that the count leaves over; where no machine has as many, a largest one, as often as it takes. The
  same loop that buys the fewest GPUs first, as `smallest` does, stands beside it: one rule is compared with itself.
* Always on: one machine of the most GPUs, the cheapest that holds the most of the pods, from the beginning on.

Neither runs on the sandboxes: both are worked out from event to event, with the prices, boots and billing of
the sandboxes, and nothing ever goes wrong for them. Pods find their place at once, the longest waiting first,
where kube-scheduler puts them: where most is left of CPU and memory. (Where the fewest GPUs are left over would
flatter them: no scheduler packs like that unless it is told to, and then it does it for the controller, too.)
A machine is paid from its order to its deletion, by the second.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Literal

from controller.domain.policy import Policy
from controller.sandbox.cloud.settings import Settings as CloudSettings
from controller.sandbox.cluster.settings import Settings as ClusterSettings
from controller.sandbox.simulator.bound import Sold, everything_sold, holds, sold
from controller.sandbox.simulator.result import Waits
from controller.sandbox.simulator.workload import Work

POLL = 10.0
_MIB = 1024
Prefers = Literal["price", "gpus"]


class _Machine:
    __slots__ = ("at", "cpu", "gpus", "kind", "memory", "price", "ready", "works")

    def __init__(self, bought: Sold, at: float) -> None:
        self.kind, self.price = bought
        self.at = at
        self.ready = False
        self.works = 0
        self.gpus, self.cpu, self.memory = self.kind.gpus, self.kind.vcpus * 1000, self.kind.memory_gib * _MIB

    def holds(self, work: Work) -> bool:
        return (
            self.gpus >= work.gpus
            and self.cpu >= work.cpu_milli
            and self.memory >= work.memory_mib
            and holds(self.kind, work)
        )

    def free_share(self) -> float:
        """As the sandbox's scheduler counts it."""
        kind = self.kind
        return self.cpu / (kind.vcpus * 2000) + self.memory / (kind.memory_gib * _MIB * 2)

    def take(self, work: Work, sign: int = 1) -> None:
        self.works += sign
        self.gpus -= sign * work.gpus
        self.cpu -= sign * work.cpu_milli
        self.memory -= sign * work.memory_mib


class Course:
    """Pods, machines and money from event to event; what buys and removes comes on top of it.

    `boot` and `pod_start` are asked for the seconds from an order to usable GPUs, and from a place to running.
    """

    def __init__(
        self, works: Sequence[Work], boot: Callable[[], float], pod_start: Callable[[], float]
    ) -> None:
        self.now = 0.0
        self.pending: dict[Work, None] = {}  # in the order of their coming
        self.machines: list[_Machine] = []
        self.launches = 0
        self._boot, self._pod_start = boot, pod_start
        self._works = works
        self._waits: list[float] = []
        self._cost = Decimal(0)
        self._paid_gpu_s = self._used_gpu_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        for work in sorted(works, key=lambda work: (work.arrives, work.name)):
            self.at(work.arrives, lambda work=work: self._arrives(work))  # type: ignore[misc]

    def at(self, moment: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, what))

    def run(self, look: Callable[[], None] | None = None, every: float = POLL) -> None:
        """`look`: what the controller does at its next turn after something has happened."""
        turn = math.inf
        while self._events or turn < math.inf:
            if not self._events or turn < self._events[0][0]:
                self.now, turn = turn, math.inf
                if look is not None:
                    look()
                continue
            self.now, _, what = heapq.heappop(self._events)
            what()
            if look is not None:
                turn = math.ceil(self.now / every) * every

    def buy(self, chosen: Sold) -> None:
        machine = _Machine(chosen, self.now)
        self.machines.append(machine)
        self.launches += 1
        self.at(self.now + self._boot(), lambda: self._boots(machine))

    def remove(self, machine: _Machine) -> None:
        lasted = self.now - machine.at
        self.machines.remove(machine)
        self._cost += machine.price * Decimal(str(lasted)) / 3600
        self._paid_gpu_s += lasted * machine.kind.gpus

    def result(self) -> dict[str, Any]:
        waits, paid, used = Waits(self._waits), self._paid_gpu_s / 3600, self._used_gpu_s / 3600
        return {
            "pods_run": len(self._waits),
            "launches": self.launches,
            "cost": round(float(self._cost), 4),
            "gpu_hours_paid": round(paid, 4),
            "gpu_hours_used": round(used, 4),
            "gpu_hours_unused": round(paid - used, 4),
            "wait_p50_s": waits.at(0.5),
            "wait_p99_s": waits.at(0.99),
        }

    # -- events

    def _arrives(self, work: Work) -> None:
        self.pending[work] = None
        self._place([work], self.machines)

    def _boots(self, machine: _Machine) -> None:
        machine.ready = True
        self._place(list(self.pending), [machine])

    def _ends(self, work: Work, machine: _Machine) -> None:
        machine.take(work, -1)
        self._used_gpu_s += work.lasts * work.gpus
        self._place(list(self.pending), [machine])

    def _place(self, works: Sequence[Work], machines: Sequence[_Machine]) -> None:
        ready = [one for one in machines if one.ready and one.gpus]
        for work in works:
            if not ready:
                return
            fitting = [one for one in ready if one.holds(work)]
            if not fitting:
                continue
            machine = max(fitting, key=_Machine.free_share)
            machine.take(work)
            del self.pending[work]
            began = self.now + self._pod_start()
            self._waits.append(began - work.arrives)
            self.at(began + work.lasts, lambda work=work, machine=machine: self._ends(work, machine))  # type: ignore[misc]
            ready = [one for one in ready if one.gpus]


def poll_and_count(
    course: Course, market: Sequence[Sold], most: int, prefers: Prefers = "price"
) -> dict[str, Any]:
    """`most`: machines at once, as the pools allow."""

    def look() -> None:
        for machine in [one for one in course.machines if one.ready and not one.works]:
            course.remove(machine)
        # A pod that no machine could ever hold is left out, or it would be bought for without end.
        wanted = [work for work in course.pending if any(holds(one.kind, work) for one in market)]
        coming = sum(one.kind.gpus for one in course.machines if not one.ready)
        total, counted = sum(work.gpus for work in wanted), 0
        for work in wanted:
            counted += work.gpus
            while coming < counted and len(course.machines) < most:
                chosen = _chosen(market, work, total - coming, prefers)
                course.buy(chosen)
                coming += chosen.kind.gpus

    course.run(look)
    return course.result()


def _chosen(market: Sequence[Sold], first: Work, missing: int, prefers: Prefers) -> Sold:
    fitting = [one for one in market if holds(one.kind, first)]
    enough = min(missing, max(one.kind.gpus for one in fitting))
    large = [one for one in fitting if one.kind.gpus >= enough]
    return min(large, key=_order if prefers == "price" else _fewest_first)


def _order(one: Sold) -> tuple[Decimal, int, str]:
    return (one.price, -one.kind.gpus, one.kind.name)


def _fewest_first(one: Sold) -> tuple[int, Decimal, str]:
    return (one.kind.gpus, one.price, one.kind.name)


def always_on(course: Course, works: Sequence[Work], market: Sequence[Sold], until: float) -> dict[str, Any]:
    """`until`: it is on at least so long, and else until the last pod has ended."""
    largest = max((one.kind.gpus for one in market), default=0)
    big = [one for one in market if one.kind.gpus == largest]
    if not big:
        return course.result()
    best = min(big, key=lambda one: (-sum(holds(one.kind, work) for work in works), _order(one)))
    course.buy(best)
    course.run()
    course.now = max(course.now, until)
    course.remove(course.machines[0])
    return {**course.result(), "machine": best.kind.name}


def baselines(works: Sequence[Work], policy: Policy, *, seed: int, hours: float) -> dict[str, Any]:
    """All, for these pods and settings, on the sandboxes' catalogue, boots and billing."""
    cloud, cluster = CloudSettings(), ClusterSettings()
    market = sold(policy, everything_sold(), cloud.volume_gb_month)
    spans = (cluster.boot, cluster.ready, cluster.gpu)

    def course() -> Course:
        rng = random.Random(f"{seed}-baselines")

        def boot() -> float:
            ordered = cloud.ordered_s.draw(rng) + cloud.provisioning_s.draw(rng)
            return ordered + sum(rng.uniform(*span) for span in spans)

        return Course(works, boot, lambda: rng.uniform(*cluster.pod_start))

    most = sum(pool.max for pool in policy.pools)
    if policy.limits.machines is not None:
        most = min(most, policy.limits.machines)
    return {
        "poll_and_count": poll_and_count(course(), market, most),
        "poll_and_count_fewest_gpus": poll_and_count(course(), market, most, "gpus"),
        "always_on": always_on(course(), works, market, hours * 3600),
    }


_SHOWN = {
    "poll_and_count": "poll and count",
    "poll_and_count_fewest_gpus": "poll and count, fewest GPUs first",
}


def words(found: dict[str, Any]) -> list[str]:
    """For people, below the result that they stand beside."""
    told = []
    for name, each in found.items():
        what = f"one {each['machine']} always on" if "machine" in each else _SHOWN.get(name, name)
        told.append(
            f"  beside {what}: {each['pods_run']} pods ran, {each['launches']} machines bought, paid"
            f" {each['cost']:.2f} for {each['gpu_hours_paid']:.1f} GPU hours, {each['gpu_hours_unused']:.1f} of"
            f" them unused; waits up to {each['wait_p50_s']:.0f} s for half, {each['wait_p99_s']:.0f} s for 99 of 100"
        )
    return told
