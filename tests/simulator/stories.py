"""Short courses of events, each around one way in which things go wrong. Right programs violate nothing in any.

They are tests of their own, and what catches most of the deliberate bugs in `mutants.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.domain import names
from controller.domain.machine import Phase
from controller.sandbox.cluster.resources import CONFIG_MAPS
from controller.sandbox.cluster.shelf import Change
from controller.sandbox.simulator.residents import APPS
from controller.sandbox.simulator.settings import NAMESPACE
from controller.sandbox.simulator.simulation import Simulation
from controller.sandbox.simulator.workload import Work
from tests.simulator.days import Day

Told = dict[str, Any]
_CREATE = {"method": "POST", "path": "/instances"}
_LISTS = {"method": "GET", "path": "/instances"}
_DELETE = {"method": "PUT", "path": "/instances"}


def pods(*spans: tuple[float, float, int]) -> list[Work]:
    """(arrives, lasts, GPUs)."""
    return [
        Work(f"pod-{n}", at, lasts, gpus, 2000 * gpus, 8192 * gpus)
        for n, (at, lasts, gpus) in enumerate(spans, 1)
    ]


def fault(at: float, rule: Told, lasts: float = 0.0, side: str = "cloud_fault") -> Told:
    return {"at_s": at, side: rule} | ({"for_s": lasts} if lasts else {})


ONE = pods((30, 400, 1))
SOME = pods((30, 300, 1), (31, 900, 2), (600, 300, 1), (700, 600, 4))
BURST = pods(*((30 + n, 500, 8) for n in range(5)))
LATER = pods((30, 300, 1), (2400, 300, 1))
THREE = pods(*((30 + n, 300, 1) for n in range(3)))


def _story(works: list[Work], *faults: Told, hours: float = 0.5, **settings: Any) -> Callable[[int], Day]:
    return lambda seed: Day(seed, hours, works=works, faults=list(faults), settings=settings)


def _death(phase: Phase) -> Callable[[int], Day]:
    """It dies in the moment in which its ledger shows a machine in this phase for the first time."""

    def before(simulation: Simulation) -> None:
        died = False

        def changed(change: Change) -> None:
            nonlocal died
            if not died and any(one.phase is phase for one in simulation.judge.books.ledger().machines):
                died = True
                simulation.loop.call_soon(simulation.processes["a"].die)

        simulation.worlds.cluster.store.follow(CONFIG_MAPS, changed)

    return lambda seed: Day(seed, 0.5, works=ONE, before=before)


def _ledger_lost(at: float) -> Callable[[int], Day]:
    """It dies, and somebody deletes its ledger before the next one reads it."""
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{names.LEDGER_CONFIGMAP}"

    def before(simulation: Simulation) -> None:
        def lost() -> None:
            simulation.processes["a"].die()
            simulation.worlds.ask_cluster("DELETE", path)

        simulation.loop.call_at(at, lost)

    return lambda seed: Day(seed, 0.5, works=ONE, before=before)


def _restarted(simulation: Simulation) -> None:
    """The pods without GPUs move to the machine while it is busy."""
    assert simulation.residents is not None
    for app in APPS:
        simulation.loop.call_at(300, simulation.residents.restart, app)


def _beside(works: list[Work], *faults: Told, hours: float) -> Callable[[int], Day]:
    return lambda seed: Day(seed, hours, works=works, faults=list(faults), residents=True, before=_restarted)


STORIES: dict[str, list[Callable[[int], Day]]] = {
    "nothing goes wrong": [_story(SOME)],
    "the answer to the order is lost": [
        _story(ONE, fault(0, {**_CREATE, "fault": "lose_after"})),
        _story(ONE, fault(0, {**_CREATE, "fault": "answer_after", "status": 502, "body": "<html>"})),
        _story(ONE, fault(0, {**_CREATE, "fault": "hang"})),
    ],
    "an order is carried out twice": [
        _story(ONE, fault(0, {**_CREATE, "fault": "twice"})),
        _story(pods((30, 400, 1), (36, 400, 1)), fault(0, {**_CREATE, "fault": "twice"})),
        _story(pods((30, 6000, 1)), fault(0, {**_CREATE, "fault": "twice"})),
    ],
    "an order arrives late": [
        _story(ONE, {"at_s": 0, "late": {"method": "POST", "path": "/instances", "seconds": seconds}}, hours=1)
        for seconds in (25, 100, 700)
    ],
    "lists lie": [
        _story(SOME, *(fault(at, {**_LISTS, "fault": "answer", "status": 200, "body": []}) for at in (50, 200, 500))),
        _story(ONE, fault(0, {**_CREATE, "fault": "lose_after"}), fault(32, {**_LISTS, "fault": "leave_out", "times": 1})),
        _story(ONE, fault(0, {**_CREATE, "fault": "lose_after"}), {"at_s": 0, "cloud_knobs": {"list_lag_s": 55}, "for_s": 1200}),
        _story(SOME, fault(300, {**_LISTS, "fault": "answer", "status": 200, "body": [], "headers": {"X-Total-Count": "5"}, "times": 8})),
        _story(SOME, fault(340, {"method": "GET", "path": "/instances/*", "fault": "answer", "status": 404, "body": "404 page not found", "times": 9}), fault(340, {**_LISTS, "fault": "leave_out", "times": 9})),
    ],
    "it dies around the order": [
        _story(ONE, {"at_s": 30, "controller": "die", "awaits": awaits}) for awaits in (12, 22, 26, 30, 36)
    ],
    "it dies around the removal": [
        _story(ONE, {"at_s": at, "controller": "die", "awaits": awaits}, hours=0.6)
        for at, awaits in ((1280, 30), (1330, 5), (1350, 10))
    ],
    "it dies when its ledger says": [_death(phase) for phase in Phase],
    # In its end (the machine is gone, its Node is not), before the order, in boot and work, and around the delete.
    "the ledger is lost": [_ledger_lost(at) for at in (1290.0, 10.0, 100.0, 400.0, 1262.0, 1268.0, 1310.0)],
    "the delete gets lost": [
        _story(ONE, fault(600, {**_DELETE, "fault": fault_, **more}), hours=0.6)
        for fault_, more in (("lose_before", {}), ("answer", {"status": 204, "body": ""}), ("answer", {"status": 202, "body": ""}))
    ] + [_story(ONE, fault(600, {"method": "DELETE", "path": "/scripts/*", "fault": "lose_before", "times": 3}))],
    "somebody deletes it by hand": [
        _story(SOME, {"at_s": 420, "cloud_event": {"event": "delete", "hostname": "simulated-*", "disks": disks}})
        for disks in ("keep", "trash")
    ],
    "somebody shuts it down in the console": [
        _story(SOME, {"at_s": 420, "cloud_event": {"event": "shut_down", "hostname": "simulated-*"}, "for_s": lasts}, hours=1)
        for lasts in (0, 300, 560, 700)
    ] + [
        _story(SOME, {"at_s": 420, "cloud_event": {"event": "fail", "hostname": "simulated-*", "into": into}}, hours=1)
        for into in ("dreaming", "error")
    ],
    "the machine never becomes usable": [
        _story(ONE, {"at_s": 0, "cluster_knobs": {"gpus_never": ["*"]}, "for_s": 400}, hours=1),
        _story(ONE, {"at_s": 0, "cluster_knobs": {"never_join": ["*"]}, "for_s": 400}, hours=1),
        _story(ONE, {"at_s": 0, "cloud_event": {"event": "outcomes", "rows": [{"outcome": "stuck", "after_s": 3000}]}}, hours=1),
        _story(ONE, {"at_s": 0, "cloud_event": {"event": "outcomes", "rows": [{"outcome": "no_capacity", "after_s": 30}]}}),
    ],
    "no machine becomes usable for longer than two are bought in vain": [
        _story(THREE, {"at_s": 0, "cluster_knobs": {knob: ["*"]}, "for_s": lasts}, hours=lasts / 3600)
        for knob, lasts in (("never_ready", 2400), ("never_join", 2400), ("gpus_never", 7200), ("never_join", 36000))
    ],
    "the pool is full": [
        _story(BURST, pools=[{"name": "all", "min_gpu_memory_gb": 1, "market": "on_demand_only", "max": 2}], hours=0.3)
    ],
    "the lease is lost to another": [
        _story(
            LATER,
            {"at_s": 300, "controller": "second", "for_s": 4000},
            fault(2340, {"method": "PUT", "path": "*/leases/*", "fault": "answer", "status": 500, "body": "", "times": 0}, lasts=260, side="cluster_fault"),
            hours=1,
        ),
        _story(LATER, {"at_s": 300, "controller": "second", "for_s": 4000}, {"at_s": 2385, "controller": "stand_still", "seconds": 200}, hours=1),
        _story(pods((200, 300, 1), (260, 400, 2)), {"at_s": 190, "controller": "second", "for_s": 1500}, hours=0.5),
    ],
    "pods without GPUs leave first": [_beside(pods((30, 600, 1)), hours=0.5)],
    "the lease is lost while pods are asked to leave": [
        _beside(
            pods((30, 600, 1)),
            {"at_s": 500, "controller": "second", "for_s": 2500},
            fault(800, {"method": "POST", "path": "*/eviction", "fault": "answer", "status": 429, "body": "", "times": 0}, lasts=1000, side="cluster_fault"),
            fault(1450, {"method": "PUT", "path": "*/leases/*", "fault": "answer", "status": 500, "body": "", "times": 0}, lasts=200, side="cluster_fault"),
            hours=1,
        )
    ],
    "writes conflict": [
        _story(SOME, fault(20, {"method": "PUT", "path": "*/configmaps/*", "fault": "lose_after", "times": 3}, side="cluster_fault"), fault(400, {"method": "PUT", "path": "*/configmaps/*", "fault": "answer", "status": 409, "body": "", "times": 2}, side="cluster_fault")),
    ],
    "a node flaps, is forgotten, comes back": [
        _story(SOME, {"at_s": 500, "cluster": deed, "seconds": 100}) for deed in ("flap", "forget_node", "reregister")
    ],
    "harsh hours": [lambda seed: Day(seed, 1.5, faults="harsh")],
}  # fmt: skip
