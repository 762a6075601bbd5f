"""What happens to instances over time: ordered, provisioning, running, deleting, discontinued, or failure.

A create is a promise, not a machine: it may still end in `no_capacity` minutes after its 202. Stock is
taken at acceptance and comes back when the instance is gone; the meter runs from acceptance until the
delete is accepted. Every step is a timer of a phase; a change of plan starts a new phase, which makes
the timers of the old one void.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.sandbox.cloud import disks
from controller.sandbox.cloud.model import DESTROY, KEEP, TRASH, Instance
from controller.sandbox.cloud.state import State

FAILED = ("no_capacity", "installation_failed", "error")


def begin(state: State, instance: Instance) -> None:
    """The create was accepted."""
    state.note(instance, "create", by_user=True)
    state.start(instance.meter)
    if state.settings.stock_taken == "acceptance":
        _take_stock(state, instance)
    outcome, wait = instance.outcome, state.draw(state.settings.ordered_s)
    if outcome is not None and outcome.kind in FAILED and outcome.after_s is not None:
        _later(state, instance, outcome.after_s, lambda: fail(state, instance, outcome.kind))
    elif outcome is not None and outcome.kind == "no_capacity":
        _later(state, instance, wait, lambda: fail(state, instance, "no_capacity"))
        return
    _later(state, instance, wait, lambda: _provision(state, instance))


def begin_running(state: State, instance: Instance) -> None:
    """An instance that was there before anyone looked."""
    state.note(instance, "create", by_user=True)
    state.start(instance.meter)
    _take_stock(state, instance)
    instance.outcome = None
    disks.make_os_disk(state, instance)
    _run(state, instance)


def _later(state: State, instance: Instance, machine_seconds: float, action: Callable[[], None]) -> None:
    phase = instance.phase

    def act() -> None:
        if instance.phase == phase:
            action()

    state.later(machine_seconds, act)


def _take_stock(state: State, instance: Instance) -> None:
    place = (instance.kind.instance_type, instance.location, instance.market)
    instance.stock_counted = state.stock.take(place)


def give_stock_back(state: State, instance: Instance) -> None:
    if instance.stock_counted:
        instance.stock_counted = False
        state.stock.give_back((instance.kind.instance_type, instance.location, instance.market))


def _provision(state: State, instance: Instance) -> None:
    settings = state.settings
    if settings.stock_taken == "provisioning":
        if not state.stock.has((instance.kind.instance_type, instance.location, instance.market)):
            fail(state, instance, "no_capacity")
            return
        _take_stock(state, instance)
    instance.status = "provisioning"
    state.note(instance, "provisioning")
    disks.make_os_disk(state, instance)
    outcome, wait = instance.outcome, state.draw(settings.provisioning_s)
    if outcome is None:
        _later(state, instance, wait, lambda: _validate(state, instance))
    elif outcome.kind == "stuck":
        if outcome.after_s is not None:
            _later(state, instance, outcome.after_s, lambda: _validate(state, instance))
    elif outcome.after_s is None:
        _later(state, instance, wait, lambda: fail(state, instance, outcome.kind))


def _validate(state: State, instance: Instance) -> None:
    wait = state.draw(state.settings.validating_s)
    if wait <= 0:
        _run(state, instance)
        return
    instance.status = "validating"
    state.note(instance, "validating")
    _later(state, instance, wait, lambda: _run(state, instance))


def _run(state: State, instance: Instance) -> None:
    settings = state.settings
    instance.status = "running"
    instance.running_at = state.now
    instance.boot_at = state.now + state.draw(settings.boot_s) / settings.speed
    if settings.public_ip and instance.ip is None:
        instance.ip = state.new_ip()
    state.note(instance, "running")


def fail(state: State, instance: Instance, kind: str) -> None:
    """The create fails after all. The instance stays listed, and has to be deleted."""
    instance.phase += 1
    instance.status = kind
    reasons = {
        "no_capacity": "Not enough resources",
        "installation_failed": "Installation failed",
        "error": "Internal error",
    }
    action = {"installation_failed": "installation:failed"}.get(kind, kind)
    state.note(instance, action, error=reasons[kind])
    if kind == "no_capacity":
        give_stock_back(state, instance)
        if not state.settings.bill_no_capacity:
            state.stop(instance.meter)


def shut_down(state: State, instance: Instance) -> None:
    """Full price continues."""

    def down() -> None:
        instance.status = "offline"
        instance.boot_at = None

    instance.phase += 1
    state.note(instance, "shutdown", by_user=True)
    _later(state, instance, state.draw(state.settings.shutdown_s), down)


def start(state: State, instance: Instance) -> None:
    instance.phase += 1
    state.note(instance, "start", by_user=True)
    _later(state, instance, state.draw(state.settings.start_s), lambda: _run(state, instance))


def delete(state: State, instance: Instance, fates: Mapping[str, str]) -> None:
    """Accepted: the meter stops, the machine goes, then its disks follow their fates."""
    instance.phase += 1
    instance.status = "deleting"
    instance.boot_at = None
    state.note(instance, "delete", by_user=True)
    if not state.settings.bill_while_deleting:
        state.stop(instance.meter)
    for volume in disks.attached(state, instance):
        volume.status = "detaching"
        volume.fate = fates.get(volume.id, KEEP)
    _later(state, instance, state.draw(state.settings.delete_s), lambda: _gone(state, instance))


def _gone(state: State, instance: Instance) -> None:
    _discontinue(state, instance)
    give_stock_back(state, instance)
    state.note(instance, "delete:complete")


def _discontinue(state: State, instance: Instance) -> None:
    instance.phase += 1
    instance.status = "discontinued"
    instance.discontinued_at = state.now
    instance.boot_at = None
    state.stop(instance.meter)
    for volume in disks.attached(state, instance):
        disks.leave(state, volume, volume.fate or KEEP)


def evict(state: State, instance: Instance, *, journal: bool = True, return_stock: bool = False) -> None:
    """A spot machine is taken away without notice; whoever bought it on demand has the stock now."""
    for volume in disks.attached(state, instance):
        volume.fate = volume.on_spot_discontinue
    _discontinue(state, instance)
    if return_stock:
        give_stock_back(state, instance)
    instance.stock_counted = False
    if journal:
        state.note(instance, "delete", delete_reason="evicted_by_on_demand")


def run_out(state: State) -> None:
    """No money left: every instance is discontinued, every disk goes to the trash."""
    for instance in [one for one in state.instances.values() if one.live]:
        for volume in disks.attached(state, instance):
            volume.fate = TRASH
        _discontinue(state, instance)
        give_stock_back(state, instance)
        state.note(instance, "delete", delete_reason="insufficient_funds")
    for volume in [one for one in state.volumes.values() if one.live]:
        disks.finish(state, volume, volume.fate if volume.fate == DESTROY else TRASH)


def fates_of(
    state: State, instance: Instance, volume_ids: list[str] | None, *, permanently: bool
) -> dict[str, str]:
    """Which disks die with an instance, by the rules of the delete action.

    Without a list the OS disk goes to the trash (or survives, says one report: a knob) and the others
    are detached; with a list exactly the listed ones die. `permanently` counts only with a list.
    """
    if volume_ids is None:
        dies = instance.os_volume_id if state.settings.omitted_volume_ids == "delete_os" else None
        return {dies: TRASH} if dies else {}
    return dict.fromkeys(volume_ids, DESTROY if permanently else TRASH)
