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
from controller.sandbox.cloud.spread import Spread
from controller.sandbox.cloud.state import State

FAILED = ("no_capacity", "installation_failed", "error")
REASONS: Mapping[str, str] = {
    "no_capacity": "Not enough resources",
    "installation_failed": "Installation failed",
    "error": "Internal error",
}
API, CONSOLE = "api", "console"


def begin(state: State, instance: Instance, *, by: str = API) -> None:
    """The create was accepted."""
    state.note(instance, "create", by=by)
    state.start(instance.meter)
    if state.settings.stock_taken == "acceptance":
        _take_stock(state, instance)
    outcome = instance.outcome
    if outcome is not None and outcome.kind in FAILED and outcome.after_s is not None:
        _later(state, instance, outcome.after_s, lambda: fail(state, instance, outcome.kind, outcome.error))
    _advance(state, instance, list(state.settings.status_order))


def begin_running(state: State, instance: Instance, *, by: str = CONSOLE) -> None:
    """An instance that was there before anyone looked."""
    state.note(instance, "create", by=by)
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
    instance.stock_counted = state.stock.take(_place(state, instance))


def _place(state: State, instance: Instance) -> tuple[str, str, str]:
    return state.ground.place(instance.kind, instance.location, instance.market)


def give_stock_back(state: State, instance: Instance) -> None:
    if instance.stock_counted:
        instance.stock_counted = False
        state.stock.give_back(_place(state, instance))


# -- on the way to running


def _advance(state: State, instance: Instance, stages: list[str]) -> None:
    """Enter the next stage that takes any time; after the last one it runs."""
    while stages:
        stage = stages.pop(0)
        if stage == "provisioning" and not _may_provision(state, instance):
            return
        wait = state.draw(_time_of(state, stage))
        if wait <= 0 and stage not in ("ordered", "provisioning"):
            continue
        instance.status = stage
        if stage != "ordered":
            state.note(instance, stage)
        if stage == "provisioning":
            disks.make_os_disk(state, instance)
        _leave_after(state, instance, stage, wait, stages)
        return
    _run(state, instance)


def _time_of(state: State, stage: str) -> Spread:
    spread: Spread = getattr(state.settings, f"{stage}_s")
    return spread


def _leave_after(state: State, instance: Instance, stage: str, wait: float, stages: list[str]) -> None:
    outcome = instance.outcome
    if outcome is not None and outcome.kind == "stuck" and outcome.stuck_in == stage:
        if outcome.after_s is not None:
            _later(state, instance, outcome.after_s, lambda: _advance(state, instance, stages))
        return
    late = ("installation_failed", "error")
    if outcome is not None and stage == "provisioning" and outcome.kind in late and outcome.after_s is None:
        _later(state, instance, wait, lambda: fail(state, instance, outcome.kind, outcome.error))
        return
    _later(state, instance, wait, lambda: _advance(state, instance, stages))


def _may_provision(state: State, instance: Instance) -> bool:
    """The moment at which a promise turns out to have no machine behind it."""
    outcome = instance.outcome
    if outcome is not None and outcome.kind == "no_capacity" and outcome.after_s is None:
        fail(state, instance, "no_capacity", outcome.error)
        return False
    if state.settings.stock_taken == "provisioning":
        if not state.stock.has(_place(state, instance)):
            fail(state, instance, "no_capacity")
            return False
        _take_stock(state, instance)
    return True


def _run(state: State, instance: Instance) -> None:
    settings = state.settings
    instance.status = "running"
    instance.running_at = state.now
    instance.boot_at = state.now + state.draw(settings.boot_s) / settings.speed
    if settings.public_ip and instance.ip is None:
        wait = state.draw(settings.ip_s)
        if wait > 0:
            _later(state, instance, wait, lambda: _reach(state, instance))
        else:
            _reach(state, instance)
    state.note(instance, "running")


def _reach(state: State, instance: Instance) -> None:
    instance.ip = state.ground.new_ip()


def fail(state: State, instance: Instance, kind: str, error: str | None = None) -> None:
    """The create fails after all. The instance stays listed, and has to be deleted."""
    instance.phase += 1
    instance.status = kind
    instance.boot_at = None
    action = {"installation_failed": "installation:failed"}.get(kind, kind)
    state.note(instance, action, error=error or REASONS.get(kind))
    if kind == "no_capacity":
        give_stock_back(state, instance)
        if not state.settings.bill_no_capacity:
            state.stop(instance.meter)


# -- afterwards


def shut_down(state: State, instance: Instance, *, by: str = API) -> None:
    """Full price continues."""

    def down() -> None:
        instance.status = "offline"
        instance.boot_at = None

    instance.phase += 1
    state.note(instance, "shutdown", by=by)
    _later(state, instance, state.draw(state.settings.shutdown_s), down)


def start(state: State, instance: Instance) -> None:
    instance.phase += 1
    state.note(instance, "start", by=API)
    _later(state, instance, state.draw(state.settings.start_s), lambda: _run(state, instance))


def delete(state: State, instance: Instance, fates: Mapping[str, str], *, by: str = API) -> None:
    """Accepted: the meter stops, the machine goes, then its disks follow their fates."""
    instance.phase += 1
    instance.status = "deleting"
    instance.boot_at = None
    state.note(instance, "delete", by=by)
    if not state.settings.bill_while_deleting:
        state.stop(instance.meter)
    for volume in disks.attached(state, instance):
        volume.change += 1
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


def evict(
    state: State, instance: Instance, *, journal: bool | None = None, return_stock: bool = False
) -> None:
    """A spot machine is taken away without notice; whoever bought it on demand has the stock now."""
    for volume in disks.attached(state, instance):
        volume.fate = volume.on_spot_discontinue
    _discontinue(state, instance)
    if return_stock:
        give_stock_back(state, instance)
    instance.stock_counted = False
    if state.settings.evictions_in_journal if journal is None else journal:
        state.note(instance, "delete", delete_reason="evicted_by_on_demand")


def run_out(state: State) -> None:
    """No money left: every instance is discontinued, every disk goes to the trash (or for good)."""
    end = DESTROY if state.settings.run_out_disks == "destroy" else TRASH
    for instance in [one for one in state.instances.values() if one.live]:
        for volume in disks.attached(state, instance):
            volume.fate = volume.fate if volume.fate == DESTROY else end
        _discontinue(state, instance)
        give_stock_back(state, instance)
        state.note(instance, "delete", delete_reason="insufficient_funds")
    for volume in [one for one in state.volumes.values() if one.live]:
        disks.finish(state, volume, volume.fate if volume.fate == DESTROY else end, broke=True)


def fates_of(
    state: State, instance: Instance, volume_ids: list[str] | None, *, permanently: bool
) -> dict[str, str]:
    """Which disks die with an instance, by the rules of the delete action.

    Without a list the OS disk goes to the trash (or survives, says one report: a knob) and the others
    are detached; with a list exactly the listed ones die. `permanently` counts only with a list, says
    the document; without one its effect is unknown, so that is a knob too.
    """
    end = DESTROY if permanently else TRASH
    if volume_ids is None:
        dies = instance.os_volume_id if state.settings.omitted_volume_ids == "delete_os" else None
        return {dies: end if state.settings.permanent_without_ids else TRASH} if dies else {}
    return dict.fromkeys(volume_ids, end)
