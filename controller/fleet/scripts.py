"""Room for startup scripts: how many more machines with a script of their own may be ordered now.

A project holds a limited number of scripts (100, unless the cloud was asked for more), shared with
everybody who uses the account, and nothing tells the limit but the refusal of one script too many. So
the others' scripts are counted from the list, ours from the ledger, and a refusal teaches what the
limit is. Believed for a while only: somebody may tidy up, or the quota may be raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from controller.domain import names
from controller.domain.cloudthings import Script
from controller.domain.machine import Machine
from controller.domain.policy import Policy
from controller.planning.limits import holds_script

log = logging.getLogger("gpu_autoscaler.fleet")


class ScriptRoom:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._others: int | None = None  # scripts that are not of our machines, when last listed
        self._learned: tuple[int, float] | None = None  # a limit that a refusal taught, and until when
        self._mine: set[str] = set()  # uploaded here, and not known to be gone
        self._full = False  # refused since the last list
        self._there = 0  # scripts that there were, as far as known, when one was refused

    def listed(self, policy: Policy, scripts: Collection[Script], machines: Iterable[Machine]) -> None:
        """Every script of the account, whoever's."""
        known = list(machines)
        ours = {names.script_name(policy.cluster_id, machine.intent) for machine in known}
        ids = {machine.script_id for machine in known if machine.script_id}
        self._others = sum(1 for script in scripts if script.id not in ids and script.name not in ours)
        self._mine &= {script.id for script in scripts}
        if self._full:
            # Some of those that were too many may be gone again by now.
            limit = max(len(scripts), self._there)
            self._learned = (limit, self._clock() + policy.deadlines.backoff_most)
            self._full, self._there = False, 0
        elif len(scripts) > self._limit(policy):
            self._learned = None  # more than the limit are there, so it is not the limit

    def uploaded(self, script_id: str) -> None:
        self._mine.add(script_id)

    def removed(self, script_id: str) -> None:
        self._mine.discard(script_id)

    def refused(self) -> None:
        """One script was one too many. None is tried again before the list has been read."""
        if not self._full:
            log.warning("the account takes no more startup scripts; machines wait until some are gone")
        self._full = True
        self._there = max(self._there, (self._others or 0) + len(self._mine))

    def free(self, policy: Policy, machines: Iterable[Machine]) -> int | None:
        """How many more fit beside those that are there or about to be; None: nothing is known against it."""
        if self._full:
            return 0
        if self._others is None:
            return None
        held = sum(1 for machine in machines if holds_script(policy, machine))
        limit = self._limit(policy)
        if self._others > limit and self._learned is None:
            return None  # the account holds more than it should be able to: its limit is not known
        return max(0, limit - self._others - held)

    def _limit(self, policy: Policy) -> int:
        if self._learned is not None and self._clock() < self._learned[1]:
            return self._learned[0]
        self._learned = None
        return policy.script_quota
