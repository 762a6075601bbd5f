"""`simulate`: seeds over local processes, a line for each, files for those who want to see what happened."""

from __future__ import annotations

import gc
import json
import multiprocessing
from collections.abc import Callable, Iterator, Sequence

import msgspec

from controller.config.load import Loaded
from controller.config.policy import to_policy
from controller.sandbox.simulator import baselines, schedule, workload
from controller.sandbox.simulator.page import page
from controller.sandbox.simulator.result import Result, words
from controller.sandbox.simulator.settings import (
    apart_from_standard,
    default_settings,
    loaded_from,
    loaded_of,
)
from controller.sandbox.simulator.shrink import as_test, shrink
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.slices import not_simulated
from controller.sandbox.simulator.timeline import Timeline


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for; every process makes its own worlds of it."""

    hours: float
    faults: str
    workload: str
    compress: float = 1.0
    config: str | None = None
    timeline: str | None = None
    html: str | None = None
    baselines: bool = False


Watch = Callable[[float], None]  # hears how much of the time of pods and faults is over


def simulate(asked: Asked, seed: int, watch: Watch | None = None) -> Result:
    """One seed, in this process."""
    if not gc.get_freeze_count():  # else every look of the collector goes through all that was ever imported
        gc.collect()
        gc.freeze()
    works, loaded = works_of(asked, seed), settings_of(asked)
    hours = max(asked.hours, 0.0)
    trouble = trouble_of(asked, seed, loaded)
    timeline = Timeline() if asked.timeline or asked.html else None
    end = max([hours * 3600, *(work.arrives for work in works)])

    def look(simulation: Simulation) -> None:
        if timeline is not None:
            timeline.look(simulation)
        if watch is not None:
            watch(simulation.loop.time() / end)

    simulation = Simulation(
        seed=seed,
        hours=hours,
        works=works,
        loaded=loaded,
        trouble=trouble,
        residents=with_residents(asked),
        tell=timeline.note if timeline else None,
        look=look if timeline or watch else None,
    )
    result = simulation.run()
    if asked.baselines:
        result["baselines"] = baselines.baselines(works, simulation.judge.policy, seed=seed, hours=hours)
    if timeline is not None and asked.timeline:
        timeline.write(asked.timeline)
    if timeline is not None and asked.html:
        with open(asked.html, "w", encoding="utf-8") as file:
            file.write(page(result, timeline))
    return result


def shrunk(asked: Asked, seed: int) -> tuple[str, str]:
    """A test of what is left of a failing seed, and what is violated then; empty where nothing is."""
    loaded = settings_of(asked)
    works, trouble = works_of(asked, seed), trouble_of(asked, seed, loaded)

    def violates(pods: Sequence[workload.Work], events: Sequence[schedule.Entry]) -> list[str]:
        simulation = Simulation(
            seed=seed,
            hours=asked.hours,
            works=pods,
            loaded=loaded,
            trouble=events,
            stop_early=True,
            residents=with_residents(asked),
        )
        found: list[str] = simulation.run()["violations"]
        return found

    if not violates(works, trouble):
        return "", ""
    pods, events, told = shrink(works, trouble, violates)
    text = as_test(
        seed, asked.hours, pods, events, told[0], apart_from_standard(loaded), residents=with_residents(asked)
    )
    return text, told[0]


def with_residents(asked: Asked) -> bool:
    """Beside drawn pods; who writes a file says who is there."""
    return asked.workload in workload.DRAWN


def trouble_of(asked: Asked, seed: int, loaded: Loaded) -> list[schedule.Entry]:
    if asked.faults in schedule.LEVELS:
        return schedule.drawn(asked.faults, seed, asked.hours, loaded.settings.cluster_id or "*")
    return schedule.read(asked.faults)


def works_of(asked: Asked, seed: int) -> list[workload.Work]:
    if asked.workload == "standard":
        return workload.standard(seed, asked.hours)
    if asked.workload == "big":
        return workload.standard(seed, asked.hours, pods_a_day=workload.BIG_PODS)
    return workload.read(asked.workload, compress=asked.compress)


def settings_of(asked: Asked) -> Loaded:
    if asked.config is not None:
        return loaded_of(asked.config)
    machines = {"standard": workload.STANDARD_MACHINES, "big": workload.BIG_MACHINES}
    return loaded_from(default_settings(machines.get(asked.workload, workload.MOST_MACHINES)))


def other_devices(asked: Asked) -> list[str]:
    """Pools of the settings with what no sandbox stands for."""
    return not_simulated(to_policy(settings_of(asked).settings, cluster_id="simulated"))


def _one(pair: tuple[Asked, int]) -> Result:
    return simulate(*pair)


def results(asked: Asked, seeds: Sequence[int], jobs: int, watch: Watch | None = None) -> Iterator[Result]:
    """In the order of the seeds, whichever ends first; who watches does so in this process."""
    pairs = [(asked, seed) for seed in seeds]
    if jobs < 2 or len(pairs) < 2:
        yield from (simulate(asked, seed, watch) for seed in seeds)
        return
    # Each seed begins in a process of its own kind of freshness: nothing of one run is left to the next.
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(pairs))) as pool:
        yield from pool.imap(_one, pairs)


def told(result: Result, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(result)
    return "\n".join([*words(result), *baselines.words(result.get("baselines", {}))])
