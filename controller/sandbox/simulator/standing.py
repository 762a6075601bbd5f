"""Machines that stay although nothing runs on them, because the settings say so: a course ends with them, and they are no leak.

A pool's minimum and what headroom keeps free stay: as few as will do, and not what the controller says of them; one more
than the settings ask for is left over, whoever explains it. All stay while taking away is paused, while no window for it
is open, or where the budget allows none at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy, Pool, halts
from controller.domain.windows import open_at
from controller.planning.disruption import allowed_at_once
from controller.sandbox.simulator.worlds import BEGAN

LONG_ENOUGH = 7200.0  # seconds of open windows in which an idle machine surely can be removed
_SLACK = 1800.0  # from the end of a cooldown to the end of a removal that nothing hinders
_STEP = 300.0
_AHEAD_STEP = 1800.0


def standing(policy: Policy, machines: Iterable[Machine]) -> dict[str, str]:
    """By name: what wants it. `machines` as the ledger has them; of a pool that has too many, the largest are over."""
    known = sorted(machines, key=lambda one: (one.gpus, one.name))
    found: dict[str, str] = {}
    for pool in policy.pools:
        free = max((entry.gpus for entry in policy.headroom if entry.pool == pool.name), default=0)
        count = gpus = 0
        for machine in known:
            if machine.pool != pool.name or machine.phase is not Phase.READY or machine.surplus:
                continue
            if count < pool.min or gpus < free:
                what = "min" if count < pool.min else "headroom"
                found[machine.name] = f"{what} of pool {pool.name}"
                count, gpus = count + 1, gpus + machine.gpus
    return found


class Kept:
    """What stays at this moment, and why."""

    def __init__(self, policy: Policy, now: Callable[[], float], used: Mapping[str, float]) -> None:
        """`used`: by Node, when a pod was there last."""
        self._policy = policy
        self._now = now
        self._used = used
        self._ahead: tuple[float, float, bool] = (-1.0, -1.0, False)

    def of(self, machines: Iterable[Machine], ahead: float = 0.0) -> dict[str, str]:
        """`ahead`: for so many seconds to come, too, as far as windows are concerned."""
        known = list(machines)
        found = standing(self._policy, known)
        for machine in known:
            pool = self._policy.pool(machine.pool)
            if pool is None or machine.phase is not Phase.READY or machine.surplus or machine.failed:
                continue
            if machine.name not in found and (why := self._why(machine, pool, ahead)):
                found[machine.name] = why
        return found

    def _why(self, machine: Machine, pool: Pool, ahead: float) -> str:
        policy = self._policy
        if halts("scale-down", pool.pause, policy.pause):
            return f"scale-down of pool {pool.name} is paused"
        for budget in (policy.disruption_budget, policy.disruption_budgets.get("idle", "100%")):
            if not allowed_at_once(budget, 100):
                return f"a disruption budget of {budget}"
        if (policy.windows or policy.not_during) and self._closed(machine, ahead):
            return "no window for it was open"
        return ""

    def _closed(self, machine: Machine, ahead: float) -> bool:
        """Whether nothing may be removed now, nor could be for long enough since nothing has run there."""
        now = self._now()
        if not self._shut(now) or (ahead and not self._shut_for(ahead)):
            return False
        idle = max(self._used.get(machine.name, 0.0), machine.ready_at - BEGAN, 0.0)
        at, opened = idle + self._policy.cooldown + _SLACK, 0.0
        while at < now and opened < LONG_ENOUGH:
            opened += 0.0 if self._shut(at) else _STEP
            at += _STEP
        return opened < LONG_ENOUGH

    def _shut_for(self, seconds: float) -> bool:
        begin = self._now() // _AHEAD_STEP * _AHEAD_STEP
        if self._ahead[:2] != (begin, seconds):
            steps = range(1, int(seconds // _AHEAD_STEP) + 1)
            self._ahead = (begin, seconds, all(self._shut(begin + n * _AHEAD_STEP) for n in steps))
        return self._ahead[2]

    def _shut(self, at: float) -> bool:
        policy = self._policy
        if policy.windows and not open_at(policy.windows, BEGAN + at):
            return True
        return open_at(policy.not_during, BEGAN + at)
