"""People who edit or delete what the controller keeps in the cluster, or ask it to pause."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.e2e.controlplane.scene import NAMESPACE, Scene, running, runs, until
from tests.e2e.controlplane.work import (
    PROMPT,
    STATUS,
    machine_for,
    node_of,
    pause_all,
    status_of,
    taints,
    told,
    why,
)
from tests.e2e.programs import Started

pytestmark = pytest.mark.usefixtures("prompt_kubelets")
LEDGER = "gpu-autoscaler-ledger"


def test_a_deleted_ledger_is_rebuilt_from_the_marks_and_nothing_is_bought_twice(scene: Scene) -> None:
    with running(scene.controller(PROMPT)):
        machine_for(scene, "train")
    scene.core.delete_namespaced_config_map(LEDGER, NAMESPACE)
    with running(scene.controller(PROMPT)):
        until("the machine is in it again", lambda: len(_ledger(scene)) == 1)
        time.sleep(2)
        assert scene.state()["creates"] == 1
        scene.delete_pod("train")
        until("it is taken away all the same", scene.empty)


def test_a_ledger_that_is_deleted_emptied_or_damaged_under_it_costs_no_second_machine(scene: Scene) -> None:
    controller = scene.controller(PROMPT)
    with running(controller):
        first = machine_for(scene, "first")
        scene.core.delete_namespaced_config_map(LEDGER, NAMESPACE)
        second = machine_for(scene, "second")
        assert sorted(_ledger(scene)) == sorted([first, second])
        _write(scene, json.dumps({"cluster_id": "real", "machines": []}))
        third = machine_for(scene, "third")
        until("all are known again", lambda: sorted(_ledger(scene)) == sorted([first, second, third]))
        _write(scene, "{ not json")
        scene.pod("fourth", 1)
        until("the damage is told", lambda: "ledger.json is damaged" in _problems(controller))
        time.sleep(2)
        assert scene.state()["creates"] == 3
        scene.core.delete_namespaced_config_map(LEDGER, NAMESPACE)
        until("it goes on", lambda: runs(scene, "fourth"))
        assert scene.state()["creates"] == 4
        assert len(_ledger(scene)) == 4


@pytest.mark.long
def test_the_status_is_written_again_when_it_was_edited_or_deleted(scene: Scene) -> None:
    with running(scene.controller(PROMPT)):
        machine = machine_for(scene, "train")
        until("it is told", lambda: machine in status_of(scene))
        scene.core.patch_namespaced_config_map(STATUS, NAMESPACE, {"data": {"status.json": "all is well"}})
        until("it is told again", lambda: machine in status_of(scene))
        scene.core.delete_namespaced_config_map(STATUS, NAMESPACE)
        until("and once more", lambda: machine in status_of(scene))


@pytest.mark.long
def test_a_pause_is_heeded_on_the_status_the_deployment_and_a_node(scene: Scene) -> None:
    scene.apps.create_namespaced_deployment(NAMESPACE, _deployment("scale-up"))
    controller = Started(["env", "DEPLOYMENT_NAME=ours", *scene.command(PROMPT)], scene.home)
    try:
        with running(controller):
            scene.pod("train", 1)
            until("nothing is bought", lambda: _told_of(controller, "default/train") == "paused")
            assert scene.state()["creates"] == 0
            scene.apps.patch_namespaced_deployment("ours", NAMESPACE, _deployment(None))
            until("then it is", lambda: runs(scene, "train"))
            machine = node_of(scene, "train")
            pause_all(scene, "scale-down")
            until("it is heard", lambda: told(controller)["paused"] == "scale-down")
            scene.delete_pod("train")
            until("nothing is removed", lambda: why(controller, machine)[0] == "paused")
            notes = {"metadata": {"annotations": {"gpu-autoscaler/pause": "scale-down"}}}
            scene.core.patch_node(machine, notes)
            pause_all(scene, None)
            until("that is over", lambda: not told(controller)["paused"])
            time.sleep(1)
            assert why(controller, machine)[0] == "paused"
            assert not taints(scene, machine)
            notes["metadata"]["annotations"]["gpu-autoscaler/pause"] = None  # type: ignore[assignment]
            scene.core.patch_node(machine, notes)
            until("then it is", scene.empty)
    finally:
        scene.apps.delete_namespaced_deployment("ours", NAMESPACE)


def _ledger(scene: Scene) -> list[str]:
    stored = [m for m in scene.core.list_namespaced_config_map(NAMESPACE).items if m.metadata.name == LEDGER]
    return [each["name"] for each in json.loads(stored[0].data["ledger.json"])["machines"]] if stored else []


def _write(scene: Scene, text: str) -> None:
    scene.core.patch_namespaced_config_map(LEDGER, NAMESPACE, {"data": {"ledger.json": text}})


def _problems(controller: Started) -> str:
    return "\n".join(told(controller)["problems"])


def _told_of(controller: Started, pod: str) -> str:
    return str(told(controller)["pods"].get(pod, {}).get("code"))


def _deployment(pause: str | None) -> dict[str, Any]:
    """Only its annotation matters: nothing runs in it."""
    labels = {"app": "ours"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    return {
        "metadata": {"name": "ours", "annotations": {"gpu-autoscaler/pause": pause}},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
