"""A run over many pods: worlds in turn, a few dozen pods in each, and whatever differs shrunk and told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.e2e.controlplane.differential import draw
from tests.e2e.controlplane.differential.compared import Both, Comparison, refused
from tests.e2e.controlplane.differential.reality import Refused
from tests.e2e.controlplane.differential.shrink import smallest
from tests.e2e.controlplane.differential.worlds import Case, Json

PODS_A_WORLD = 60


@dataclass
class Tally:
    """What was seen, so that a run which shows nothing is noticed."""

    count: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    differences: list[Both] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, seen: Both | Refused, case: Case) -> None:
        if isinstance(seen, Refused):
            self.refusals[str(seen)[:200]] += 1
            self.count["refused by the API server"] += 1
            return
        self.count["pods"] += 1
        self.count["node by node"] += len(case.world.nodes)
        self.count["bound" if seen.scheduler.nodes else "unschedulable"] += 1
        self.fields.update(set(said(case.pod)))
        if not seen.agree:
            self.differences.append(seen)

    def told(self) -> str:
        seconds = time.monotonic() - self.began
        counts = ", ".join(f"{what} {count}" for what, count in self.count.items())
        return f"{counts}; differences {len(self.differences)}; {seconds:.0f} s"


def said(pod: Json) -> Iterator[str]:
    """The parts of a pod's spec that decide where it goes, by name."""
    spec = pod["spec"]
    for key in ("nodeSelector", "tolerations", "topologySpreadConstraints", "initContainers", "resources"):
        if spec.get(key):
            yield key
    for kind, rules in spec.get("affinity", {}).items():
        for rule in rules:
            yield f"{kind} {rule.removesuffix('DuringSchedulingIgnoredDuringExecution')}"
    if "runtimeClassName" in spec:
        yield "overhead"
    every = [*spec["containers"], *spec.get("initContainers", ())]
    if any(port.get("hostPort") for each in every for port in each.get("ports", ())):
        yield "host ports"
    if any("claimName" in str(volume) or "ephemeral" in volume for volume in spec.get("volumes", ())):
        yield "volumes"
    for each in every:
        if each.get("restartPolicy") == "Always":
            yield "sidecars"
        yield from each["resources"].get("requests", ())
        yield from each["resources"].get("limits", ())
    for one in spec.get("tolerations", ()):
        yield f"toleration {one.get('operator', 'Equal')}"


def pods(comparison: Comparison, seed: str, count: int, *, most: int, first: int = 0) -> Tally:
    """So many pods from the first on, or until so many of them were judged differently."""
    tally = Tally()
    for number in range(first, first + count):
        batch = number // PODS_A_WORLD
        if number % PODS_A_WORLD == 0 or number == first:
            there = draw.world(f"{seed}-{batch}")
        case = draw.case(f"{seed}-{batch}", number, there)
        tally.add(refused(comparison.both, case), case)
        if len(tally.differences) >= most:
            break
    return tally


def shrunk(comparison: Comparison, found: Both, seconds: float) -> Both:
    """The smallest case in which the two still differ, and one of them by the same kind of mistake."""

    def differs(case: Case) -> bool:
        seen = refused(comparison.hastily, case)
        return isinstance(seen, Both) and not seen.agree and _too_many(seen) == _too_many(found)

    small = smallest(found.case, differs, seconds=seconds)
    seen = refused(comparison.patiently, small)
    return seen if isinstance(seen, Both) and not seen.agree else found


def _too_many(seen: Both) -> bool:
    """Whether the planner allows a node that the scheduler does not: the mistake that buys nothing useful."""
    return bool(seen.planner - seen.scheduler.nodes)
