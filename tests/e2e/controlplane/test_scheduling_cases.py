"""Pods whose place is decided by more than their GPUs: what the real scheduler heeds, the plan must foresee."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, container, pool, running, runs, until

LARGE = pool(instance_types=["2A100.44V"])  # room for two of the pods below, were it for GPUs alone
BOTH = pool(instance_types=["1A100.22V"], locations=["FIN-01", "FIN-03"])
APP = {"labels": {"app": "x"}}
SELECTOR = {"matchLabels": {"app": "x"}}


def one_each(scene: Scene) -> None:
    """Two pods that may not share a machine get two."""
    until("a machine for each is ordered", lambda: scene.state()["creates"] == 2)
    until("both run", lambda: runs(scene, "a", "b"))
    assert scene.state()["creates"] == 2


def test_pods_that_repel_each_other_get_a_machine_each(scene: Scene, kubelets: Kubelets) -> None:
    term = {"labelSelector": SELECTOR, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    with running(scene.controller(LARGE)):
        for name in ("a", "b"):
            scene.pod(name, 1, meta=APP, affinity=apart)
        one_each(scene)


def test_pods_that_want_the_same_port_of_their_host_get_a_machine_each(
    scene: Scene, kubelets: Kubelets
) -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}]
    with running(scene.controller(LARGE)):
        for name in ("a", "b"):
            scene.pod(name, 1, containers=[container(1, ports=ports)])
        one_each(scene)


def test_pods_that_are_spread_over_zones_get_a_machine_in_each(scene: Scene, kubelets: Kubelets) -> None:
    spread = {"maxSkew": 1, "minDomains": 2, "topologyKey": "topology.kubernetes.io/zone"}
    spread |= {"whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
    with running(scene.controller(BOTH)):
        for name in ("a", "b"):
            scene.pod(name, 1, meta=APP, topologySpreadConstraints=[spread])
        until("a machine for each is ordered", lambda: scene.state()["creates"] == 2)
        assert {location for _, location in scene.bought()} == {"FIN-01", "FIN-03"}
        until("both run", lambda: runs(scene, "a", "b"))


def test_a_pod_with_a_volume_in_one_location_gets_its_machine_there(scene: Scene, kubelets: Kubelets) -> None:
    scene.volume("data", zone="FIN-03")
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    with running(scene.controller(BOTH)):
        scene.pod("train", 1, volumes=[data])
        until("a machine is ordered", lambda: scene.state()["creates"] == 1)
        assert scene.bought() == [("1A100.22V", "FIN-03")]
        until("it runs", lambda: runs(scene, "train"))


def test_an_emptydir_is_no_hindrance_to_buying_nor_to_removing(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        scene.pod("train", 1, volumes=[{"name": "scratch", "emptyDir": {}}])
        until("it runs", lambda: runs(scene, "train"))
        scene.delete_pod("train")
        until("its machine goes", scene.empty)


def test_gpus_of_init_containers_and_sidecars_are_counted_as_the_scheduler_counts_them(
    scene: Scene, kubelets: Kubelets
) -> None:
    """An ordinary one needs its GPUs before the others need theirs, a sidecar beside them."""
    prepare = container(2) | {"name": "prepare"}
    sidecar = container(1) | {"name": "beside", "restartPolicy": "Always"}
    with running(scene.controller()):
        scene.pod("prepared", 1, initContainers=[prepare])
        scene.pod("accompanied", 1, initContainers=[sidecar])
        until("both run", lambda: runs(scene, "prepared", "accompanied"))
        assert scene.bought() == [("2A100.44V", "FIN-01")] * 2
        scene.pod("huge", 1, initContainers=[prepare, sidecar, container(2) | {"name": "then"}])
        until("the third is told", lambda: "NotTriggerScaleUp" in scene.events("huge"))
        assert "needs 3 nvidia.com/gpu" in scene.said("huge")


def test_what_daemonsets_take_of_each_machine_is_counted(scene: Scene, kubelets: Kubelets) -> None:
    """Without the daemon the pod would fit the smaller machine."""
    work: dict[str, Any] = {"containers": [container(1, cpu="20")]}
    agent = {"nodeSelector": {"gpu-autoscaler/pool": "a100"}, "containers": [container(0, cpu="4")]}
    with running(scene.controller()):
        scene.daemons("agent", **agent)
        scene.pod("train", 1, **work)
        until("it runs", lambda: runs(scene, "train"))
        assert scene.bought() == [("2A100.44V", "FIN-01")]
        until(
            "so does the daemon", lambda: [p.status.phase for p in scene.pods_made_by("agent")] == ["Running"]
        )
        scene.delete_pod("train")
        until("a daemon keeps no machine", lambda: scene.empty() and not scene.nodes())


def test_a_daemonset_that_does_not_run_there_takes_nothing(scene: Scene, kubelets: Kubelets) -> None:
    with running(scene.controller()):
        scene.daemons("agent", nodeSelector={"disk": "fast"}, containers=[container(0, cpu="4")])
        scene.pod("train", 1, containers=[container(1, cpu="20")])
        until("it runs", lambda: runs(scene, "train"))
        assert scene.bought() == [("1A100.22V", "FIN-01")]


def test_a_tainted_pool_is_bought_from_only_for_pods_that_tolerate_it(
    scene: Scene, kubelets: Kubelets
) -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    with running(scene.controller(pool(taints=[taint], labels={"team": "ml"}))):
        scene.pod("stranger", 1)
        scene.pod("member", 1, tolerations=[{"key": "team", "value": "ml"}], nodeSelector={"team": "ml"})
        until("the member runs", lambda: runs(scene, "member"))
        until("the other is told", lambda: "NotTriggerScaleUp" in scene.events("stranger"))
        assert "does not tolerate team=ml:NoSchedule" in scene.said("stranger")
        assert scene.state()["creates"] == 1


def test_a_job_is_planned_whole(scene: Scene, kubelets: Kubelets) -> None:
    """Its four pods share two machines, however slowly they are made."""
    with running(scene.controller(LARGE)):
        scene.job("train", container(1), parallelism=4, completions=4)
        until("it is done", lambda: scene.batch.read_namespaced_job("train", "default").status.succeeded == 4)
        assert scene.state()["creates"] == 2
