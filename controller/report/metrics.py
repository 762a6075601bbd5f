"""Prometheus metrics. Labels are bounded sets (pool, reason, phase): never a pod or machine name."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from controller.domain.cloudhealth import BREAKER_STATES, CloudHealth
from controller.domain.cloudthings import SWITCHED
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Plan
from controller.domain.reason import Reason
from controller.domain.switching import Own

PREFIX = "gpu_autoscaler_"


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._shown: object = None  # what the gauges stand for
        self.leader = self._gauge("leader", "1 while this replica holds the lease.")
        self.synced = self._gauge("synced", "1 while every watch is in step.")
        self.machines = self._gauge("machines", "Machines by pool and phase.", "pool", "phase")
        self.gpus = self._gauge("gpus", "GPUs of machines that cost money, by pool.", "pool")
        self.price = self._gauge(
            "price_per_hour", "What all machines cost an hour, in the account's currency."
        )
        self.lost = self._gauge(
            "lost_price_per_hour",
            "What machines cost an hour that are shut down, silent, or failed and kept by the pods on them, by reason.",
            "reason",
        )
        self.waiting = self._gauge("waiting_pods", "Waiting GPU pods by reason.", "reason")
        self.launches = self._counter("launches", "Machines ordered, by pool.", "pool")
        self.refused = self._counter(
            "launches_refused", "Orders that the cloud refused, by reason.", "reason"
        )
        self.unknown = self._counter("launches_unknown", "Orders whose answer was lost.")
        self.failures = self._counter("machine_failures", "Machines that failed, by reason.", "reason")
        self.removed = self._counter("removals", "Machines proven gone, by pool.", "pool")
        self.called_off = self._counter(
            "removals_called_off", "Removals that were called off, by reason.", "reason"
        )
        self.switches = self._counter(
            "switches",
            "Calls that switch machines, by action (on, off) and outcome (acknowledged, refused, unknown).",
            "action",
            "outcome",
        )
        self.power = self._gauge("switched_machines", "Switched machines by power state.", "power")
        self.cloud_errors = self._counter(
            "cloud_errors", "Reads of the cloud that failed, by reason.", "reason"
        )
        self.settings_valid = self._gauge(
            "settings_valid",
            "1 while the settings in force are those of the files; 0 while those are refused.",
        )
        self.settings_changes = self._counter(
            "settings_changes", "Changed settings that were read while running, by result.", "result"
        )
        self.plan_seconds = Histogram(
            PREFIX + "plan_seconds",
            "Duration of one planning run.",
            registry=self.registry,
            buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5),
        )
        self.ready_seconds = Histogram(
            PREFIX + "ready_seconds",
            "From the decision to usable GPUs.",
            registry=self.registry,
            buckets=(30, 60, 120, 180, 300, 600, 1200),
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, labels, registry=self.registry)

    def follow_cloud(self, health: Callable[[], CloudHealth]) -> None:
        """Read at each scrape: it changes between two plans, and matters most when no plan is made."""
        breaker = self._gauge(
            "cloud_breaker", "1 for the state that the cloud's circuit breaker is in.", "state"
        )
        for state in BREAKER_STATES:
            breaker.labels(state).set_function(partial(_is, health, state))
        waiting = self._gauge("cloud_calls_waiting", "Calls of the cloud that wait for their turn.")
        waiting.set_function(lambda: health().waiting)
        left = self._gauge(
            "cloud_calls_left", "Calls that the project's limit leaves now; NaN where there is none."
        )
        left.set_function(partial(_left, health))

    def show(self, plan: Plan, machines: Sequence[Machine], own: Mapping[str, Own] | None = None) -> None:
        """Set every gauge from the picture; what is no longer there falls to nothing."""
        gpus: dict[str, int] = {}
        phases: dict[tuple[str, Phase], int] = {}
        losses: dict[Reason, Decimal] = {}
        price = Decimal(0)
        for m in machines:
            place = (_pool(m), m.phase)
            phases[place] = phases.get(place, 0) + 1
            if m.phase is Phase.TOMBSTONE or m.gone_at:
                continue
            gpus[place[0]] = gpus.get(place[0], 0) + m.gpus
            price += m.price
            if (reason := _lost(m, plan)) is not None:
                losses[reason] = losses.get(reason, Decimal(0)) + m.price
        powers = Count(one.power for one in own.values()) if own else {}
        codes = Count(e.code for e in plan.pods.values()) if plan.pods else {}
        picture = (powers, phases, gpus, codes, price, losses)
        if picture == self._shown:  # as mostly: the same gauges are not taken down and put up again
            return
        self._shown = picture
        for gauge in (self.power, self.machines, self.gpus, self.waiting, self.lost):
            gauge.clear()
        for power, count in powers.items():
            self.power.labels(power).set(count)
        for (pool, phase), count in phases.items():
            self.machines.labels(pool, phase.value).set(count)
        for pool, count in gpus.items():
            self.gpus.labels(pool).set(count)
        for code, count in codes.items():
            self.waiting.labels(code.value).set(count)
        self.price.set(float(price))
        for code, lost in losses.items():
            self.lost.labels(code.value).set(float(lost))

    def text(self) -> bytes:
        return generate_latest(self.registry)


def _lost(machine: Machine, plan: Plan) -> Reason | None:
    """Why it is paid for and of no use; None: it is of use, or on its way in or out."""
    if machine.failed and machine.phase is Phase.DRAINING:
        return machine.reason
    why = plan.machines.get(machine.name)
    return why.code if why is not None and why.code in (Reason.STOPPED, Reason.SILENT) else None


def _pool(machine: Machine) -> str:
    """Each switched machine is a pool of its own; its name is no label."""
    return SWITCHED if machine.market == SWITCHED else machine.pool


def _is(health: Callable[[], CloudHealth], state: str) -> float:
    return float(health().breaker == state)


def _left(health: Callable[[], CloudHealth]) -> float:
    left = health().calls_left
    return float("nan") if left is None else left
