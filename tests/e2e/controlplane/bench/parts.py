"""The parts of a run in their order, each with its title and the conditions under which it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property

from tests.e2e.controlplane.bench import beside, burst, footprint, latency, requests
from tests.e2e.controlplane.bench.large import World, large
from tests.e2e.controlplane.bench.rows import Part, Row
from tests.e2e.controlplane.bench.stage import Controller, Stage


@dataclass
class Run:
    stage: Stage
    small: bool  # a tenth of the sizes
    until_the_end: ExitStack

    @cached_property
    def beside_a_large_cluster(self) -> tuple[World, Controller]:
        """The large cluster with the controller beside it, made once for all that look at it, and last:
        it is not taken down but ends with the control plane."""
        world = self.until_the_end.enter_context(large(self.stage, self.of(1000)))
        running = self.stage.controller(world.scene, footprint.SETTINGS, within=120)
        return world, self.until_the_end.enter_context(running)

    def of(self, size: int) -> int:
        return size // 10 if self.small else size


Measure = Callable[[Run], Iterable[Row]]
PARTS: dict[str, tuple[str, str, Measure]] = {
    "baseline": (
        "The control plane alone",
        "No controller runs.",
        lambda run: latency.baseline(run.stage, run.of(20)),
    ),
    "latency": (
        "One pod at a time",
        latency.ABOUT,
        lambda run: latency.measure(run.stage, run.of(100)),
    ),
    "requests": (
        "What one machine costs the API server",
        requests.ABOUT,
        lambda run: requests.measure(run.stage),
    ),
    "burst": (
        "A thousand pods at once",
        burst.ABOUT,
        lambda run: burst.measure(run.stage, run.of(1000)),
    ),
    "footprint": (
        "Beside a large cluster",
        footprint.ABOUT,
        lambda run: footprint.measure(*run.beside_a_large_cluster),
    ),
    "beside": (
        "Side by side with a controller that lists",
        beside.ABOUT,
        lambda run: beside.measure(*run.beside_a_large_cluster),
    ),
}


def carry_out(name: str, run: Run, found: list[Part]) -> None:
    """Measure one part; its rows are in `found` as they come, also when it fails in between."""
    title, about, measure = PARTS[name]
    part = Part(name, title, about)
    found.append(part)
    for row in measure(run):
        part.rows.append(row)
