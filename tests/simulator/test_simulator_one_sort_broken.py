"""What never becomes usable is paid for ever more seldom also where something else of the same pool works all the time."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.cluster import kubelet as kubelets
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

HOURS = 12.0
TYPES = ["1V100.6V", "2V100.10V", "4V100.20V"]


@pytest.mark.parametrize("made_anew", [False, True])
@pytest.mark.parametrize("other_works", [False, True])
@pytest.mark.parametrize("broken", [(2,), pytest.param((2, 4), marks=pytest.mark.life)])
def test_machines_of_other_types_that_work_bring_no_broken_ones(
    broken: tuple[int, ...], other_works: bool, made_anew: bool, monkeypatch: Any
) -> None:
    simulations: list[Simulation] = []
    register = kubelets.Machines._register

    def refuses(self: Any, kubelet: Any) -> None:
        if kubelet.machine.gpus in broken and simulations[0].loop.time() < HOURS * 3600:
            kubelet.phase = "refused"
        else:
            register(self, kubelet)

    def before(simulation: Simulation) -> None:
        simulations.append(simulation)

        def again() -> None:
            for want in simulation.owner.wants:
                if want.waits and not want.pod.startswith("one") and simulation.loop.time() < HOURS * 3600:
                    path = f"/api/v1/namespaces/default/pods/{want.pod}?gracePeriodSeconds=0"
                    simulation.worlds.ask_cluster("DELETE", path)
            simulation.loop.call_later(600, again)

        if made_anew:
            simulation.loop.call_later(630, again)

    monkeypatch.setattr(kubelets.Machines, "_register", refuses)
    count = 1 if made_anew else 20
    works = [
        Work(f"large-{n}", 60 + n * 1800.0, 60.0, broken[n % len(broken)], 2000, 8192) for n in range(count)
    ]
    works += [Work(f"one-{n}", 900 + n * 1800.0, 60.0, 1, 2000, 8192) for n in range(22 * other_works)]
    pool = {"name": "all", "instance_types": TYPES[: 1 + len(broken)], "market": "on_demand_only", "max": 15}
    day = Day(1, HOURS, works=works, settings={"pools": [pool]}, before=before)
    assert day.result["violations"] == []
    assert day.result["pods_run"] == day.result["pods"]
    lines = [line for line in day.told("bought") if float(line.split(" ", 1)[0]) < HOURS * 3600]
    assert sum("1V100" not in line for line in lines) <= 10 * len(broken)
