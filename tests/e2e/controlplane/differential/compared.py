"""The scheduler's verdict beside the planner's, or the sandbox's, and what is told of a case in which they differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from tests.e2e.controlplane.differential import oracle
from tests.e2e.controlplane.differential.reality import Reality, Refused, Verdict
from tests.e2e.controlplane.differential.worlds import Case, Json, World

Expected = Callable[[Mapping[str, Sequence[Json]], Json], frozenset[str]]
PAUSE = 0.7  # seconds for what takes its time inside the scheduler, once verdicts differ
PATIENCE = 2.5
HASTE = 0.1
CHANGING = ("PersistentVolume", "PersistentVolumeClaim")  # kinds that cases bring with them


@dataclass(frozen=True)
class Both:
    case: Case
    scheduler: Verdict
    planner: frozenset[str]
    who: str = "planner"

    @property
    def agree(self) -> bool:
        """On every node; so the pod binds where and only where the planner says."""
        there = not self.scheduler.bound or self.scheduler.bound in self.planner
        return self.scheduler.nodes == self.planner and there

    def told(self) -> str:
        world = self.case.world
        parts = [self.case.pod, *self.case.objects, *world.nodes, *world.pods, *world.objects]
        planner = ", ".join(sorted(self.planner)) or "no node"
        verdicts = f"# scheduler: {self.scheduler}\n# {self.who}: {planner}\n"
        return verdicts + yaml.safe_dump_all(parts, sort_keys=False)


class Comparison:
    def __init__(self, reality: Reality, expected: Expected = oracle.expected, who: str = "planner") -> None:
        self._reality, self._expected, self._who = reality, expected, who
        self._world: World | None = None
        self._listed: dict[str, list[Json]] = {}

    def both(self, case: Case) -> Both:
        """A first look, and a second one with patience where that is not agreement."""
        found = self._look(case, 0.0, 0.0)
        return found if found.agree else self.patiently(case)

    def patiently(self, case: Case) -> Both:
        return self._look(case, PAUSE, PATIENCE)

    def hastily(self, case: Case) -> Both:
        """For the many looks of shrinking; what it ends with is looked at again."""
        found = self._look(case, 0.0, 0.0)
        return found if found.agree else self._look(case, HASTE, HASTE)

    def _look(self, case: Case, pause: float, patience: float) -> Both:
        reality = self._reality
        if case.world != self._world or case.objects:
            self._world = None
            reality.furnish(case.world, case.objects)
            self._world = None if case.objects else case.world
            self._listed = reality.listed(oracle.KINDS)
        time.sleep(pause)
        pod = reality.submit(case)
        try:
            time.sleep(pause)
            if case.pod["spec"].get("volumes"):
                self._listed |= reality.listed(CHANGING)
            planner = self._expected(self._listed, pod)
            verdict = reality.verdict(pod)
            if verdict is not None and verdict.nodes != planner and patience:
                verdict = reality.verdict(pod, within=patience, other_than=verdict)
            if verdict is None:
                raise TimeoutError(f"the scheduler said nothing of {pod['metadata']['name']}")
            return Both(case, verdict, planner, self._who)
        finally:
            reality.withdraw(pod)


def refused(look: Callable[[Case], Both], case: Case) -> Both | Refused:
    try:
        return look(case)
    except Refused as why:
        return why
