"""Machines that go when nothing needs them, and never under running work."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
from kubernetes import client

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, running, runs, until
from tests.e2e.controlplane.work import PROMPT, machine_for, node_of, pause_all, taints, told, why

LARGE, SMALL = ({"node.kubernetes.io/instance-type": kind} for kind in ("2A100.44V", "1A100.22V"))


def test_a_node_that_must_not_be_disrupted_stays(scene: Scene, prompt_kubelets: Kubelets) -> None:
    controller = scene.controller(PROMPT)
    with running(controller):
        name = machine_for(scene, "train")
        scene.core.patch_node(name, {"metadata": {"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}}})
        scene.delete_pod("train")
        until("it is told why it stays", lambda: why(controller, name)[0] == "do_not_disrupt")
        time.sleep(2)
        assert scene.nodes() == [name]
        assert not taints(scene, name)
        scene.core.patch_node(name, {"metadata": {"annotations": {"gpu-autoscaler/do-not-disrupt": None}}})
        until("then it goes", scene.empty)


@pytest.mark.long
def test_several_go_one_by_one_the_largest_first_and_none_that_a_pod_needs(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    controller = scene.controller(
        {**PROMPT, "scale_down": {"cooldown": "2s"}, "disruption": {"budget": "20%"}}
    )
    with running(controller):
        scene.pod("small", 1, nodeSelector=SMALL)
        scene.pod("stays", 1, nodeSelector=SMALL)
        scene.pod("large", 2, nodeSelector=LARGE)
        until("all run", lambda: runs(scene, "small", "stays", "large"))
        kept = node_of(scene, "stays")
        expected = [node_of(scene, "large"), node_of(scene, "small")]
        pause_all(scene, "scale-down")
        until("the pause is heard", lambda: told(controller)["paused"] == "scale-down")
        scene.delete_pod("small")
        until("the small one is idle first", lambda: _note(scene, expected[1], "idle-since"))
        scene.delete_pod("large")
        for name in expected:
            until(f"only the pause keeps {name}", lambda name=name: why(controller, name)[0] == "paused")
        assert scene.nodes() == sorted([kept, *expected])
        assert not _gone(scene)
        pause_all(scene, None)  # from now on both may go, decided in one pass
        at_once: set[int] = set()

        def two_are_gone() -> bool:
            phases = [each["phase"] for each in told(controller)["machines"]]
            at_once.add(sum(phase in ("draining", "deleting") for phase in phases))
            return len(_gone(scene)) == 2

        until("they are gone", two_are_gone)
        assert _gone(scene) == expected
        assert max(at_once) == 1
        until("no other Node is left", lambda: scene.nodes() == [kept])
        assert runs(scene, "stays")
        assert not taints(scene, kept)


def test_a_pool_keeps_its_minimum(scene: Scene, prompt_kubelets: Kubelets) -> None:
    pools = [{"name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "min": 1, "max": 4}]
    controller = scene.controller({**PROMPT, "pools": pools})
    with running(controller):
        until("the minimum is bought without any pod", lambda: scene.state()["creates"] == 1)
        scene.pod("a", 1)
        scene.pod("b", 1)
        until("both run", lambda: runs(scene, "a", "b"))
        assert scene.state()["creates"] == 2
        scene.delete_pod("a")
        scene.delete_pod("b")
        until("one is gone", lambda: len(scene.state()["instances"]) == 1)
        left = scene.state()["instances"][0]["hostname"]
        until("the other one is kept", lambda: why(controller, left)[0] == "min_size")
        time.sleep(2)
        assert not taints(scene, left)


def test_the_cooldown_begins_when_the_last_use_ends_and_demand_in_it_buys_nothing(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    settings = {
        **PROMPT, "scale_down": {"cooldown": "4s"}, "deadlines": {**PROMPT["deadlines"], "drain_pause": "2s"}
    }  # fmt: skip
    with running(scene.controller(settings)):
        machine = machine_for(scene, "first")
        until("it is marked as in use", lambda: not _note(scene, machine, "idle-since"))
        scene.delete_pod("first")
        until("it is marked as idle", lambda: _note(scene, machine, "idle-since"))
        idle_first = _note(scene, machine, "idle-since")
        assert machine_for(scene, "second") == machine
        assert scene.state()["creates"] == 1
        until("the mark is off again", lambda: not _note(scene, machine, "idle-since"))
        scene.delete_pod("second")
        until("it is marked anew", lambda: _note(scene, machine, "idle-since"))
        idle = datetime.fromisoformat(_note(scene, machine, "idle-since"))
        assert idle > datetime.fromisoformat(idle_first)
        until("the drain begins", lambda: _note(scene, machine, "drain-since"))
        drained = datetime.fromisoformat(_note(scene, machine, "drain-since"))
        assert (drained - idle).total_seconds() > 4 - 1  # it is told in whole seconds


LOW = "below-the-cut-off"


@pytest.fixture
def low(scene: Scene) -> Any:
    """A class of pods that may be sacrificed: below `planning.priority_cutoff`."""
    scheduling = client.SchedulingV1Api(scene.core.api_client)
    scheduling.create_priority_class(
        {"metadata": {"name": LOW}, "value": -20, "preemptionPolicy": "Never", "globalDefault": False}
    )
    yield
    scheduling.delete_priority_class(LOW)


@pytest.mark.usefixtures("low")
def test_an_expendable_pod_buys_nothing_and_is_left_alone_where_it_runs(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    controller = scene.controller(PROMPT)
    with running(controller):
        scene.pod("filler", 1, priorityClassName=LOW)
        until("it is known", lambda: told(controller)["pods"].get("default/filler"))
        time.sleep(2)
        assert told(controller)["pods"]["default/filler"]["code"] == "not_demand"
        assert "planning.priority_cutoff" in told(controller)["pods"]["default/filler"]["message"]
        assert scene.state()["creates"] == 0
        scene.delete_pod("filler")  # or it would be on the machine first, and be preempted
        machine_for(scene, "train", 2)
        scene.pod("filler", 1, priorityClassName=LOW)
        scene.delete_pod("train")
        until("it runs on the machine that became free", lambda: runs(scene, "filler"))
        time.sleep(3)  # work is not hurt, however unimportant it is
        assert runs(scene, "filler")
        assert len(scene.state()["instances"]) == 1
        assert scene.state()["creates"] == 1


def _gone(scene: Scene) -> list[str]:
    found = scene.state()["deleted_instances"]
    return [each["hostname"] for each in sorted(found, key=lambda each: each["discontinued_at"])]


def _note(scene: Scene, node: str, name: str) -> str:
    notes = scene.core.read_node(node).metadata.annotations or {}
    return str(notes.get(f"gpu-autoscaler/{name}", ""))
