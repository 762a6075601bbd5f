"""The course of a simulation: a sample every minute, and each thing that happened, as lines of JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.sandbox.simulator.simulation import Simulation


class Timeline:
    def __init__(self) -> None:
        self.samples: list[dict[str, Any]] = []
        self.happened: list[tuple[float, str]] = []
        self._lines: list[dict[str, Any]] = []

    def note(self, at: float, words: str) -> None:
        self.happened.append((at, words))
        self._lines.append({"t": round(at, 3), "event": words})

    def look(self, simulation: Simulation) -> None:
        machines, gpus = simulation.judge.holdings.counted()
        owner = simulation.owner
        sample = {
            "t": round(simulation.loop.time(), 3),
            "machines": machines,
            "gpus": gpus,
            "gpus_used": sum(w.work.gpus for w in owner.wants if w.began >= 0 and not w.done),
            "pods_waiting": owner.waiting,
            "pods_running": owner.running,
            "cost": round(float(simulation.judge.cost()), 4),
        }
        self.samples.append(sample)
        self._lines.append(sample)

    def write(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            for line in self._lines:
                file.write(json.dumps(line) + "\n")
