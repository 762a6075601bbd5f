"""Courses of pods and machines over days: a plan, what becomes of the machines it orders, and the next plan. All virtual.

The planner and what the fleet remembers of failures are the real ones; machines either never become usable or run their
pods, as the story says. Pods go where their machine is, and nothing else is there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec.structs import replace

from controller.domain import names
from controller.domain.cloudthings import Offer
from controller.domain.kube import Node, Pod
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Launch, Plan, Snapshot
from controller.domain.policy import Policy
from controller.domain.reason import Reason
from controller.fleet.failures import Failures
from controller.fleet.marks import offer_of
from controller.fleet.refusals import Refusals
from controller.planning.planner import plan
from tests.planning.worlds import NOW, node, pod

HOUR = 3600.0
COMES_UP, GIVEN_UP, RUNS = 240.0, 1100.0, 600.0
Works = Callable[[Machine, float], bool]


class Course:
    """`works`: whether a machine becomes usable that is ordered at this hour."""

    def __init__(self, rules: Policy, offers: tuple[Offer, ...], works: Works) -> None:
        self.rules, self.offers, self._works = rules, offers, works
        self.now = NOW
        self.failures = Failures(lambda: None)
        self._refusals = Refusals(rules.deadlines)
        self.pods: dict[str, Pod] = {}
        self.nodes: list[Node] = []
        self._machines: dict[str, tuple[Machine, bool]] = {}
        self._numbers = count()
        self.orders: list[tuple[float, str, int]] = []  # at which hour, from which pool, how many
        self.ran: dict[str, float] = {}  # by the pod's name, the hour at which its machine was there
        self.found = Plan()

    @property
    def hour(self) -> float:
        return (self.now - NOW) / HOUR

    def add(self, name: str, gpus: int = 1, **more: Any) -> None:
        made = replace(pod(name, gpus, created=self.now - 3, **more), unschedulable_since=self.now - 2)
        self.pods[made.key] = made

    def gang(self, name: str, size: int) -> None:
        marks = {names.POD_GANG: name, names.POD_GANG_SIZE: str(size)}
        for number in range(size):
            self.add(f"{name}-{number}", annotations=marks)

    def until(self, hours: float) -> None:
        end = NOW + hours * HOUR
        while self.now < end:
            self._happen()
            bought = self._look()
            moments = [self._due(machine) for machine, _ in self._machines.values()]
            moments += [self.found.wake_at or end, self.now + (5 if bought else 1800)]
            self.now = min(end, max(self.now + 1, min(moments)))

    def _due(self, machine: Machine) -> float:
        works = self._machines[machine.name][1]
        return machine.intended_at + (COMES_UP if works else GIVEN_UP)

    def _happen(self) -> None:
        for machine, works in list(self._machines.values()):
            if self._due(machine) > self.now:
                continue
            del self._machines[machine.name]
            waiting = [self.pods[key] for key in machine.pods if key in self.pods]
            if works:
                self._refusals.succeeded(offer_of(machine))
                self.failures.works(machine, self.now)
                self.failures.comes_up(machine)
                for one in waiting:
                    self.ran[one.name] = self.hour
                    del self.pods[one.key]
                continue
            known = all(one.identity in self.failures.given_up for one in waiting)
            reason = Reason.JOIN_DEADLINE
            self._refusals.add(offer_of(machine), reason, "", self.now)
            self.failures.tried_in_vain(machine, reason, self.now, first=bool(waiting) and not known)
            for one in waiting:
                self.failures.give_up(one.identity, machine.name, reason)
        self.failures.forget_disappointments({one.identity for one in self.pods.values() if not one.node})
        self.failures.date_tries(self.now)

    def snapshot(self) -> Snapshot:
        known = self.failures
        return Snapshot(
            now=self.now,
            policy=self.rules,
            pods=tuple(self.pods.values()),
            nodes=tuple(self.nodes),
            machines=tuple(machine for machine, _ in self._machines.values()),
            offers=self.offers,
            refusals=self._refusals.active(self.offers, self.now),
            given_up={name: dict(found) for name, found in known.given_up.items()},
            tried=dict(known.tried),
            in_vain=dict(known.in_vain),
        )

    def _look(self) -> bool:
        self.found = plan(self.snapshot())
        orders = [action for action in self.found.actions if isinstance(action, Launch)]
        for order in orders:
            kind, number = order.offer.type, next(self._numbers)
            machine = Machine(
                intent=f"i{number}", name=f"home-{order.pool}-{number}", pool=order.pool, instance_type=kind.name,
                location=order.offer.location, market=order.offer.market, phase=Phase.BOOTING, price=order.offer.price,
                gpus=kind.gpus, vcpus=kind.vcpus, memory_gib=kind.memory_gib, model=kind.model, pods=order.pods,
                intended_at=self.now, ordered_at=self.now, running_at=self.now + 20, instance_id=f"id-{number}",
            )  # fmt: skip
            self._machines[machine.name] = (machine, self._works(machine, self.hour))
            self.orders.append((self.hour, order.pool, 1))
        return bool(orders)

    def ordered(self, first: float, last: float, pool: str = "") -> int:
        """How many machines between these hours."""
        return sum(n for at, of, n in self.orders if first <= at < last and pool in ("", of))

    def at_once(self, first: float) -> int:
        """The most that were ordered at one moment, from this hour on."""
        moments = [round(at, 3) for at, _, _ in self.orders if at >= first]
        return max((moments.count(at) for at in moments), default=0)


def plain(name: str, zone: str) -> Node:
    """A node without GPUs."""
    return node(name, 0, labels={"kubernetes.io/hostname": name, names.LABEL_ZONE: zone})
