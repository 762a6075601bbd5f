"""Simulated hours for tests: one call, everything from a seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from controller.sandbox.simulator.result import Result
from controller.sandbox.simulator.schedule import Entry, drawn
from controller.sandbox.simulator.settings import default_settings, loaded_from
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work, standard

STOP_EARLY = False  # at the first violation, for whoever wants to know only whether there is one


class Day:
    def __init__(
        self,
        seed: int = 0,
        hours: float = 1.0,
        *,
        faults: str | Sequence[Entry] = "none",
        works: Sequence[Work] | None = None,
        settings: dict[str, Any] | None = None,
        before: Callable[[Simulation], object] | None = None,
        dies: Callable[[int], bool] | None = None,
        happened: list[str] | None = None,
        residents: bool | None = None,
    ) -> None:
        self.happened: list[str] = [] if happened is None else happened
        trouble = drawn(faults, seed, hours, "simulated") if isinstance(faults, str) else list(faults)
        self.simulation = Simulation(
            seed=seed,
            hours=hours,
            works=standard(seed, hours) if works is None else works,
            loaded=loaded_from({**default_settings(15), **(settings or {})}),
            trouble=trouble,
            dies=dies,
            stop_early=STOP_EARLY,
            residents=works is None if residents is None else residents,
            tell=lambda at, words: self.happened.append(f"{at:.6f} {words}"),
        )
        if before is not None:
            before(self.simulation)
        self.result: Result = self.simulation.run()

    @property
    def trace(self) -> str:
        return "\n".join(self.happened)

    @property
    def digest(self) -> str:
        shown = {key: value for key, value in self.result.items() if key != "wall_s"}
        return hashlib.sha256(f"{self.trace}\n{shown}".encode()).hexdigest()

    def told(self, beginning: str) -> list[str]:
        return [line for line in self.happened if line.split(" ", 1)[1].startswith(beginning)]


# The times that users have where they set none; those of the simulator are longer, so that its days are short.
PRODUCT: dict[str, Any] = {"timing": {}, "lease": {}}
ONE_POD = Work("train", 5.0, 300.0, 1, 2000, 8192)
