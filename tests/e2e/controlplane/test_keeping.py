"""What keeps a machine that no pod needs for its GPUs, and what does not."""

from __future__ import annotations

import time
from typing import Any

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, container, running, runs, until
from tests.e2e.controlplane.work import (
    BY_HAND,
    PROMPT,
    deployment,
    foreign_node,
    machine_for,
    node_of,
    pods_of,
    says,
    taints,
    why,
)


def test_pods_that_would_be_lost_or_say_so_keep_a_machine_and_are_named(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    kept = {
        "bare": ({}, "in_use", "default/bare-work has no controller and would be lost"),
        "mine": (
            {"gpu-autoscaler/do-not-disrupt": "true"},
            "do_not_disrupt",
            "gpu-autoscaler/do-not-disrupt",
        ),
        "local": (
            {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            "do_not_disrupt",
            "cluster-autoscaler.kubernetes.io/safe-to-evict=false",
        ),
    }
    controller = scene.controller(PROMPT)
    with running(controller):
        for name in kept:
            scene.pod(name, 1)
        until("each runs", lambda: runs(scene, *kept))
        machines = {name: node_of(scene, name) for name in kept}
        for name, (notes, _, _) in kept.items():
            _small_pod(scene, f"{name}-work", machines[name], notes)
            scene.delete_pod(name)
        for name, (_, code, words) in kept.items():
            until(f"{name} is kept: {words}", lambda n=name, w=words: w in why(controller, machines[n])[1])
            assert why(controller, machines[name])[0] == code
        time.sleep(2)
        assert runs(scene, *(f"{name}-work" for name in kept))
        assert not any(taints(scene, machine) for machine in machines.values())
        for name in kept:
            scene.delete_pod(f"{name}-work")
        until("then all go", scene.empty)


def test_a_running_job_is_never_touched_be_it_for_its_gpus_or_because_it_would_begin_again(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    controller = scene.controller(PROMPT)
    with running(controller):
        _job(scene, "train", {"nvidia.com/gpu": "1"})
        until("it is bound", lambda: _pod_of(scene, "train").spec.node_name)
        machine = _pod_of(scene, "train").spec.node_name
        says(scene, _pod_of(scene, "train").metadata.name, "Running")
        _job(scene, "sort", {"cpu": "1"})
        until("the other one as well", lambda: _pod_of(scene, "sort").spec.node_name == machine)
        says(scene, _pod_of(scene, "sort").metadata.name, "Running")
        until("its GPUs are used", lambda: "uses its GPUs" in why(controller, machine)[1])
        time.sleep(2)
        assert not taints(scene, machine)
        says(scene, _pod_of(scene, "train").metadata.name, "Succeeded")
        until("the other Job keeps it", lambda: "belongs to a Job" in why(controller, machine)[1])
        time.sleep(2)
        assert not taints(scene, machine)
        says(scene, _pod_of(scene, "sort").metadata.name, "Succeeded")
        until("then it goes", scene.empty)


def test_daemons_mirror_pods_finished_ones_and_those_that_may_be_evicted_keep_nothing(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    with running(scene.controller(PROMPT)):
        machine = machine_for(scene, "train")
        labels = {"app": "exporter"}
        scene.apps.create_namespaced_daemon_set(
            "default",
            {
                "metadata": {"name": "exporter"},
                "spec": {
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [container(0)]}},
                },
            },
        )
        _small_pod(scene, "static", machine, {"kubernetes.io/config.mirror": "x"})
        _small_pod(scene, "scratch", machine, {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"})
        _small_pod(scene, "done", machine, BY_HAND)
        says(scene, "done", "Succeeded")
        until(
            "all are there", lambda: [pod.status.phase for pod in pods_of(scene, "exporter")] == ["Running"]
        )
        until("these too", lambda: runs(scene, "static", "scratch"))
        scene.delete_pod("train")
        until("the machine goes all the same", scene.empty)


def test_a_machine_whose_pods_would_have_no_other_place_stays_and_says_so(
    scene: Scene, prompt_kubelets: Kubelets
) -> None:
    controller = scene.controller(PROMPT)
    with running(controller):
        machine = machine_for(scene, "train")
        deployment(scene, "web")
        until("it runs there", lambda: [pod.status.phase for pod in pods_of(scene, "web")] == ["Running"])
        scene.delete_pod("train")
        until("it is told", lambda: "no place on another node" in why(controller, machine)[1])
        foreign_node(scene, "cpu")
        until("then it goes", scene.empty)


def _small_pod(scene: Scene, name: str, node: str, notes: dict[str, str]) -> None:
    scene.core.create_namespaced_pod(
        "default",
        {
            "metadata": {"name": name, "annotations": notes},
            "spec": {"nodeName": node, "containers": [container(0)]},
        },
    )


def _job(scene: Scene, name: str, limits: dict[str, str]) -> None:
    container = {"name": "work", "image": "work", "resources": {"limits": limits}}
    template = {
        "metadata": {"annotations": BY_HAND},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    scene.batch.create_namespaced_job("default", {"metadata": {"name": name}, "spec": {"template": template}})
    until("it has a pod", lambda: _pods_of_job(scene, name))


def _pods_of_job(scene: Scene, job: str) -> list[Any]:
    found: list[Any] = scene.core.list_namespaced_pod("default", label_selector=f"job-name={job}").items
    return found


def _pod_of(scene: Scene, job: str) -> Any:
    return _pods_of_job(scene, job)[0]
