"""Machines that vanish without our doing: their Nodes, and so their pods, do not wait for what is left to clean up."""

from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.cluster.resources import NODES
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import PRODUCT, Day

GONE_AT = 700.0
# The cloud may take two minutes over what somebody deleted: until then it is there. Eight seconds for two questions more.
AFTER_ITS_END = 8.0
WITHIN = 120.0
WORK = Work("p", 60.0, 3000.0, 1, 1000, 1024)
SPOT = {"pools": [{"name": "all", "min_gpu_memory_gb": 1, "market": "spot_only", "max": 5}]}
NO_DISKS: dict[str, Any] = {
    "at_s": GONE_AT - 5,
    "cloud_fault": {
        "method": "GET", "path": "/volumes", "fault": "answer", "status": 500, "body": "", "times": 0
    },
    "for_s": 900,
}  # fmt: skip
STORIES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("deleted at the console, its disk kept", {"event": "delete", "disks": "keep"}, {}),
    ("deleted at the console with its disk", {"event": "delete", "disks": "destroy"}, {}),
    ("evicted from the spot market", {"event": "evict"}, SPOT),
]
SEEDS = [seed if seed < 2 else pytest.param(seed, marks=pytest.mark.life) for seed in range(15)]


class Watched:
    """When its Node was gone."""

    def __init__(self) -> None:
        self.node_gone = 0.0

    def follow(self, simulation: Simulation) -> None:
        loop = simulation.loop

        def heard(change: Any) -> None:
            if change.verb == "DELETED" and not self.node_gone:
                self.node_gone = loop.time()

        simulation.worlds.cluster.store.follow(NODES, heard)


@pytest.mark.parametrize("disks", ["disks are listed", "no disk is listed"])
@pytest.mark.parametrize(("how", "event", "settings"), STORIES, ids=[story[0] for story in STORIES])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_node_of_a_machine_that_vanished_is_gone_within_two_minutes(
    seed: int, how: str, event: dict[str, Any], settings: dict[str, Any], disks: str
) -> None:
    watched = Watched()
    vanishes = {"at_s": GONE_AT, "cloud_event": {**event, "hostname": "simulated-*"}}
    faults = [vanishes] if disks == "disks are listed" else [NO_DISKS, vanishes]
    day = Day(seed, 0.27, works=[WORK], faults=faults, settings=PRODUCT | settings, before=watched.follow)
    assert day.result["violations"] == []
    assert (
        GONE_AT < watched.node_gone <= GONE_AT + WITHIN + (AFTER_ITS_END if event["event"] == "delete" else 0)
    )
