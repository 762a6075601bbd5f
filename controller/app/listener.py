"""Who hears what happens to machines: metrics, the log, and events on the pods and nodes concerned."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from decimal import Decimal

from controller.cluster.protocol import Subject, View, Writer
from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Outcome, Refused
from controller.domain.plan import Explanation, Plan
from controller.domain.reason import Reason
from controller.domain.switching import Power, Switch, Switched
from controller.report.events import BY_HAND, FAILED, SCALE_DOWN_FAILED, SWITCHED_OFF, Events, Told
from controller.report.metrics import Metrics

log = logging.getLogger("gpu_autoscaler.fleet")

_FAILED_SWITCHES = (
    Reason.SWITCH_FAILED,
    Reason.ON_DEADLINE,
    Reason.OFF_DEADLINE,
    Reason.GPU_DEADLINE,
    Reason.GPU_LOST,
)


class Reporter:
    """Implements the fleet's `Listener`, and tells what plans decide."""

    def __init__(self, *, metrics: Metrics, events: Events, view: View, writer: Writer) -> None:
        self._metrics = metrics
        self._events = events
        self._view = view
        self._writer = writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._sorted: tuple[Pod, ...] = ()
        self._by_key: dict[str, Pod] = {}
        self.on_leftovers: Callable[[], None] = lambda: None  # something may be left that no record speaks of

    def planned(self, plan: Plan) -> None:
        for told in self._events.of_plan(plan):
            self._send(told)

    def launched(self, machine: Machine) -> None:
        self._metrics.launches.labels(machine.pool).inc()
        self._order_is_out(machine)
        log.info(
            "machine ordered",
            extra={
                "machine": machine.name,
                "instance_type": machine.instance_type,
                "location": machine.location,
                "market": machine.market,
                "pods": ",".join(machine.pods),
            },
        )

    def _order_is_out(self, machine: Machine) -> None:
        for told in self._events.of_order(machine):
            self._send(told)

    def refused(self, machine: Machine, refusal: Refused) -> None:
        self._metrics.refused.labels(refusal.reason.value).inc()
        log.warning(
            "order refused",
            extra={"machine": machine.name, "reason": refusal.reason.value, "words": refusal.message},
        )

    def unknown(self, machine: Machine, message: str) -> None:
        self._metrics.unknown.inc()
        self._order_is_out(machine)
        log.warning(
            "the outcome of an order is unknown; the inventory will tell",
            extra={"machine": machine.name, "error": message},
        )

    def phase_changed(self, before: Machine, after: Machine) -> None:
        if after.reason is not None and after.failed and after.reason is not before.reason:
            self._metrics.failures.labels(after.reason.value).inc()
            self._on_node(after, "Warning", FAILED, after.note)
            if before.phase.on_the_way:
                for told in self._events.of_failure(after):
                    self._send(told)
        if after.phase is Phase.TOMBSTONE or (before.phase is Phase.BOOTING and not after.script_id):
            self.on_leftovers()  # a crash may have left a script that no record names
        if after.phase is Phase.READY and before.phase is Phase.STARTED:
            self._metrics.ready_seconds.observe(max(0.0, after.ready_at - after.intended_at))

    def removal_called_off(self, machine: Machine, why: Explanation) -> None:
        self._metrics.called_off.labels(why.code.value).inc()
        log.info("removal called off", extra={"machine": machine.name, "why": why.message})
        self._on_node(machine, "Warning", SCALE_DOWN_FAILED, f"{why.message} ({why.code.value})")

    def removed(self, machine: Machine, cost: Decimal) -> None:
        self._metrics.removed.labels(machine.pool).inc()
        self.on_leftovers()
        log.info("machine gone", extra={"machine": machine.name, "cost": f"{cost:.4f}"})

    def switched(self, switch: Switch, before: Switched, after: Switched) -> None:
        if after.power is before.power and after.reason is before.reason:
            return
        if after.power is Power.ON and before.power is Power.RISING and before.call:
            self._metrics.ready_seconds.observe(max(0.0, after.on_since - before.wanted_at))
        if (
            after.reason is not None
            and after.reason is not before.reason
            and after.reason in _FAILED_SWITCHES
        ):
            self._metrics.failures.labels(after.reason.value).inc()
            self._tell(Told("Node", switch.name, "Warning", FAILED, f"{after.note} ({after.reason.value})"))
            if before.power is Power.RISING:
                for told in self._events.of_switch_failure(before, after):
                    self._send(told)
        if after.power is Power.OFF and before.power is Power.FALLING:
            self._tell(
                Told("Node", switch.name, "Normal", SWITCHED_OFF, "it is off: its Node is not Ready any more")
            )
        if after.reason is Reason.SWITCHED_BY_HAND and before.reason is not after.reason:
            self._tell(Told("Node", switch.name, "Normal", BY_HAND, after.note))

    def acknowledged(self, switch: Switch, record: Switched, on: bool) -> None:
        self._metrics.switches.labels("on" if on else "off", "acknowledged").inc()
        log.info("switch acknowledged", extra={"machine": switch.name, "on": on, "call": record.call_id})
        if on:
            for told in self._events.of_switch(switch, record):
                self._send(told)

    def not_acknowledged(self, switch: Switch, record: Switched, on: bool, outcome: Outcome) -> None:
        kind = "refused" if isinstance(outcome, Refused) else "unknown"
        self._metrics.switches.labels("on" if on else "off", kind).inc()
        log.warning(
            "switch not acknowledged",
            extra={
                "machine": switch.name,
                "on": on,
                "call": record.call_id,
                "try": record.tries,
                "outcome": kind,
                "words": getattr(outcome, "message", ""),
            },
        )

    def _tell(self, told: Told) -> None:
        for new in self._events.once(told):
            self._send(new)

    def about(self, subject: Subject, type_: str, reason: str, message: str) -> None:
        """An event about one of our own objects."""
        task = asyncio.get_running_loop().create_task(
            self._writer.event(subject, type=type_, reason=reason, message=message)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_node(self, machine: Machine, type_: str, reason: str, message: str) -> None:
        for told in self._events.once(Told("Node", machine.name, type_, reason, message)):
            self._send(told)

    def _send(self, told: Told) -> None:
        subject = self._subject(told)
        if subject is None:
            return
        task = asyncio.get_running_loop().create_task(
            self._writer.event(subject, type=told.type, reason=told.reason, message=told.message)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        log.info(told.reason, extra={told.kind.lower(): told.name, "words": told.message})

    def _subject(self, told: Told) -> Subject | None:
        if told.kind == "Node":
            node = self._view.node(told.name)
            # Events about nodes carry the name as UID: that is what `kubectl describe node` looks for.
            return Subject(kind="Node", name=told.name, uid=told.name) if node else None
        pod = self._waiting(told.name)
        return Subject(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid) if pod else None

    def _waiting(self, key: str) -> Pod | None:
        """A thousand pods may be told in one go, so they are sorted by name once and not for each."""
        pods = self._view.waiting_pods()
        if pods is not self._sorted:
            self._sorted, self._by_key = pods, {pod.key: pod for pod in pods}
        return self._by_key.get(key)
