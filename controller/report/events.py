"""Events on pods and nodes, in the planner's own sentence, once and not per loop.

What was told last about a subject is remembered; the same thing is not told again until it changed.
Quiet facts (a place is on its way, a node has room) are no event: only decisions and refusals are.
"""

from __future__ import annotations

import msgspec

from controller.domain.machine import Machine
from controller.domain.money import in_words
from controller.domain.plan import Explanation, Plan, Retire
from controller.domain.reason import Reason
from controller.domain.switching import Switch, Switched

TRIGGERED = "TriggeredScaleUp"
NOT_TRIGGERED = "NotTriggerScaleUp"
FAILED = "MachineFailed"
SCALE_DOWN = "ScaleDown"
SCALE_DOWN_FAILED = "ScaleDownFailed"
SWITCHED_OFF = "SwitchedOff"
BY_HAND = "SwitchedByHand"
# Machines that cost their price and are of no use.
LOST = {Reason.STOPPED: "MachineStopped", Reason.SILENT: "MachineSilent"}

_QUIET = frozenset(
    {
        Reason.LAUNCHING,  # told when the cloud has accepted the order, see `of_order`
        Reason.ON_THE_WAY,
        Reason.FITS_NOW,
        Reason.GPUS_FREED_SOON,
        Reason.WAITS_FOR_SIBLINGS,
        Reason.TOO_YOUNG,
        Reason.NOT_LEADER,
        Reason.NOT_DEMAND,
    }
)


class Told(msgspec.Struct, frozen=True):
    kind: str  # Pod | Node
    name: str  # namespace/name, or name
    type: str  # Normal | Warning
    reason: str
    message: str


class Events:
    """Turns plans into the events that are new."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, str]] = {}

    def of_plan(self, plan: Plan) -> list[Told]:
        told = [t for key, e in plan.pods.items() if (t := self._of_pod(key, e)) is not None]
        for action in plan.actions:
            if isinstance(action, Retire):
                told += self.once(Told("Node", action.machine, "Normal", SCALE_DOWN, action.message))
        for name, why in plan.machines.items():
            if (lost := LOST.get(why.code)) is not None:
                told += self.once(Told("Node", name, "Warning", lost, why.message))
        self._forget(plan)
        return told

    def of_order(self, machine: Machine) -> list[Told]:
        """The order is accepted (or may be): each pod that it was for is told so."""
        sentence = (
            f"pool {machine.pool} launches {machine.instance_type} in {machine.location} ({machine.market}, "
            f"{in_words(machine.price)} an hour) for it"
        )
        return [t for key in machine.pods for t in self.once(Told("Pod", key, "Normal", TRIGGERED, sentence))]

    def of_switch(self, switch: Switch, record: Switched) -> list[Told]:
        """The call that switches it on is acknowledged: each pod that it is for is told so."""
        gpus = switch.gpus
        sentence = f"{switch.name} ({gpus} GPU{'s' * (gpus != 1)}) is switched on for it"
        return [t for key in record.pods for t in self.once(Told("Pod", key, "Normal", TRIGGERED, sentence))]

    def of_switch_failure(self, before: Switched, after: Switched) -> list[Told]:
        reason = after.reason.value if after.reason is not None else ""
        sentence = (
            f"{after.name}, which was switched on for it, is given up: {after.note.rstrip('.')} ({reason})"
        )
        return [t for key in before.pods for t in self.once(Told("Pod", key, "Warning", FAILED, sentence))]

    def of_failure(self, machine: Machine) -> list[Told]:
        """It is given up before it was of use: each pod that it was for is told why it goes on waiting."""
        sentence = (
            f"{machine.name} ({machine.instance_type} in {machine.location}), which was bought for it, is given "
            f"up: {machine.note.rstrip('.')} ({machine.reason})"
        )
        return [t for key in machine.pods for t in self.once(Told("Pod", key, "Warning", FAILED, sentence))]

    def _of_pod(self, key: str, why: Explanation) -> Told | None:
        if why.code in _QUIET:
            return None
        new = self.once(Told("Pod", key, "Warning", NOT_TRIGGERED, f"{why.message} ({why.code.value})"))
        return new[0] if new else None

    def once(self, told: Told) -> list[Told]:
        subject, said = f"{told.kind} {told.name}", (told.reason, told.message)
        if self._last.get(subject) == said:
            return []
        self._last[subject] = said
        return [told]

    def _forget(self, plan: Plan) -> None:
        """Pods that wait no longer and machines that are gone: a later one of the same name is told anew."""
        known = {f"Pod {key}" for key in plan.pods} | {f"Node {name}" for name in plan.machines}
        for subject in self._last.keys() - known:
            del self._last[subject]
