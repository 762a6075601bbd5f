"""cluster-autoscaler at the wheel where something is late, wrong or chosen otherwise, on the real control plane."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from kubernetes.client import CoordinationV1Api
from kubernetes.client.exceptions import ApiException

from tests.compat_grpc.authority import Authority
from tests.e2e.controlplane.driving import PATIENCE, Stage, group, settled
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, container, running, runs, until
from tests.e2e.programs import Started

pytestmark = pytest.mark.full(limit=400)

CLIENT = "cluster-autoscaler-grpc-client"


@pytest.mark.parametrize("late", ["request", "answer"])
def test_an_increase_that_is_answered_too_late_is_counted_and_its_machine_is_used(
    stage: Stage, kubelets: Kubelets, late: str
) -> None:
    """It counts the increase as failed and backs off; the machine comes all the same."""
    scene = stage.scene
    relay = stage.late("NodeGroupIncreaseSize", late, 6)
    driver = stage.autoscaler(port=int(relay.line()))
    with running(stage.server(), relay, driver):
        scene.pod("train", 1)
        until("it was late", lambda: not relay.lines.empty(), PATIENCE)
        until("it runs", lambda: runs(scene, "train"), PATIENCE)
        assert any("deadlineexceeded" in line.replace("_", "").lower() for line in driver.complaints)
        time.sleep(15)  # its back-off is over
        assert (stage.creates, len(scene.live())) == (1, 1)
        scene.delete_pod("train")
        until("all is gone", lambda: settled(stage), PATIENCE)


def test_options_of_ours_hold_instead_of_its_flags(stage: Stage, kubelets: Kubelets) -> None:
    """Our cooldown is three seconds here, and its flag says ten minutes."""
    with running(stage.server(externalgrpc=stage.told(options=True))):
        driver = stage.autoscaler(scale_down_unneeded_time="10m")
        with running(driver):
            stage.scene.pod("train", 1)
            until("it runs", lambda: runs(stage.scene, "train"), PATIENCE)
            stage.scene.delete_pod("train")
            until("all is gone", lambda: settled(stage), PATIENCE)


def test_without_options_its_flags_hold(stage: Stage, kubelets: Kubelets) -> None:
    with running(stage.server()), running(stage.autoscaler(scale_down_unneeded_time="10m")):
        stage.scene.pod("train", 1)
        until("it runs", lambda: runs(stage.scene, "train"), PATIENCE)
        stage.scene.delete_pod("train")
        time.sleep(30)
        assert len(stage.scene.live()) == 1


def test_with_options_releases_from_1_35_on_give_nodes_no_time_to_start(stage: Stage, scene: Scene) -> None:
    """Why they are off by default: a GPU node whose GPUs come late is bought twice."""
    with (
        Kubelets(scene.core, scene.cloud, boot=0.3, gpu_delay=40) as _,
        running(stage.server(externalgrpc=stage.told(options=True))),
        running(stage.autoscaler()),
    ):
        scene.pod("train", 1)
        if stage.release >= (1, 35):  # what seems broken goes before its GPUs come, so it might never run
            until("it is bought twice", lambda: stage.creates > 1, PATIENCE)
            assert len(scene.live()) <= 3  # the maximum holds whatever it wants
        else:
            until("it runs", lambda: runs(scene, "train"), PATIENCE + 40)
            assert stage.creates == 1
        scene.delete_pod("train")
        until("all is gone", lambda: settled(stage), 2 * PATIENCE)


def test_without_its_label_a_node_whose_gpus_come_late_is_bought_twice(stage: Stage, scene: Scene) -> None:
    """So that the scenario where they are waited for proves something."""
    relay = stage.mislabelled()
    driver = stage.autoscaler(port=int(relay.line()))
    with (
        Kubelets(scene.core, scene.cloud, boot=0.3, gpu_delay=40) as _,
        running(stage.server(), relay, driver),
    ):
        scene.pod("train", 1)
        until("it is bought twice", lambda: stage.creates > 1, PATIENCE)
        assert len(scene.live()) <= 3
        scene.delete_pod("train")  # what seems idle goes before its GPUs come, so it might never run
        until("all is gone", lambda: settled(stage), 2 * PATIENCE)


def test_nodes_that_offer_less_than_was_promised_are_not_bought_again_and_again(
    stage: Stage, scene: Scene
) -> None:
    limits = {"cpu": "1", "nvidia.com/gpu": "1", "memory": "90Gi"}
    with Kubelets(scene.core, scene.cloud, boot=0.3, gpu_delay=0.3) as made:
        made.memory = 0.5
        server = stage.server()
        with running(server, stage.autoscaler()):
            scene.pod("train", 1, containers=[container(1, resources={"limits": limits})])
            until("one is there", lambda: len(scene.nodes()) == 1, PATIENCE)
            told = "offers less memory than predicted"
            until("it is told", lambda: any(told in line for line in server.complaints), PATIENCE)
            assert 'gpu_autoscaler_grpc_shortfall{group="a100",resource="memory"} 0.' in metrics(server)
            until("it goes again", lambda: not scene.nodes(), PATIENCE)
            bought = stage.creates
            time.sleep(45)
            assert bought <= 2
            assert stage.creates == bought
            assert "train" in scene.waiting()


def metrics(server: Started) -> str:
    found = re.search(r"listening .*127\.0\.0\.1:(\d+)", "\n".join(server.complaints))
    assert found is not None
    with urlopen(f"http://127.0.0.1:{found[1]}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@contextlib.contextmanager
def priorities(scene: Scene, told: dict[int, list[str]]) -> Iterator[None]:
    name = "cluster-autoscaler-priority-expander"
    body = {"metadata": {"name": name}, "data": {"priorities": yaml.safe_dump(told)}}
    scene.core.create_namespaced_config_map("kube-system", body)
    try:
        yield
    finally:
        scene.core.delete_namespaced_config_map(name, "kube-system")


def test_the_priority_expander_takes_the_preferred_group(stage: Stage, kubelets: Kubelets) -> None:
    scene = stage.scene
    server = stage.server(group("double", "2A100.44V"), group("single"))
    with priorities(scene, {10: [".*"], 50: ["^double$"]}), running(server):
        with running(stage.autoscaler(expander="priority")):
            scene.pod("train", 1)
            until("it runs", lambda: runs(scene, "train"), PATIENCE)
        assert scene.bought() == [("2A100.44V", "FIN-01")]


def test_pods_that_ask_for_nothing_but_gpus_have_a_price_too(stage: Stage, kubelets: Kubelets) -> None:
    scene = stage.scene
    server = stage.server(group("double", "2A100.44V"), group("single"))
    with running(server, stage.autoscaler(expander="price,least-waste")):
        scene.pod("train", 1, containers=[container(1, resources={"limits": {"nvidia.com/gpu": "1"}})])
        until("it runs", lambda: runs(scene, "train"), PATIENCE)
        assert scene.bought() == [("1A100.22V", "FIN-01")]


def test_what_else_runs_on_an_idle_machine_is_moved_before_it_goes(stage: Stage, kubelets: Kubelets) -> None:
    scene = stage.scene
    with stage.driven():
        with_a_companion(scene)
        scene.delete_pod("train")
        until("the machine is gone", lambda: scene.nodes() == ["server"] and not scene.live(), PATIENCE)
        until("its companion has moved", lambda: places(scene, "web") == {"server"})
        assert stage.creates == 1


def test_no_pod_is_evicted_from_a_group_where_removing_is_paused(stage: Stage, kubelets: Kubelets) -> None:
    """It would be drained before it is refused, and so again and again."""
    scene = stage.scene
    with stage.driven(group(pause="scale-down")):
        machine = with_a_companion(scene)
        before = {pod.metadata.uid for pod in scene.pods_made_by("web")}
        scene.delete_pod("train")
        time.sleep(25)
        assert {pod.metadata.uid for pod in scene.pods_made_by("web")} == before
        assert places(scene, "web") == {machine}
        assert (stage.creates, len(scene.live())) == (1, 1)


def with_a_companion(scene: Scene) -> str:
    """A machine that works and has a pod beside that, for which there is room elsewhere by now."""
    scene.pod("train", 1)
    until("it runs", lambda: runs(scene, "train"), PATIENCE)
    scene.replicas("web", {"name": "work", "image": "work", "resources": {"requests": {"cpu": "500m"}}})
    until("it has a companion", lambda: places(scene, "web"))
    (machine,) = scene.nodes()
    room = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    node: dict[str, Any] = {
        "metadata": {"name": "server", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"providerID": "k3s://server"},
        "status": {"capacity": room, "allocatable": room},
    }
    scene.core.create_node(node)
    assert places(scene, "web") == {machine}
    return str(machine)


def places(scene: Scene, owner: str) -> set[str]:
    return {pod.spec.node_name for pod in scene.pods_made_by(owner) if pod.spec.node_name}


def test_of_two_drivers_the_second_goes_on_when_the_leader_is_killed(stage: Stage, scene: Scene) -> None:
    """The first one has to keep its lease until then, also where everything is slow."""
    leases = CoordinationV1Api(scene.core.api_client)
    elected = {
        "leader_elect": "true", "leader_elect_lease_duration": "20s", "leader_elect_renew_deadline": "16s",
        "leader_elect_retry_period": "2s",
    }  # fmt: skip
    try:
        with (
            Kubelets(scene.core, scene.cloud, boot=12, gpu_delay=1) as _,
            running(stage.server()),
            running(first := stage.autoscaler(None, **elected)),
        ):
            until("the first one leads", lambda: holder(leases))
            before = holder(leases)
            with running(stage.autoscaler(None, **elected)):
                scene.pod("train", 1)
                until("one is ordered", lambda: stage.creates == 1, PATIENCE)
                assert holder(leases) == before
                first.process.kill()
                until("the second one leads", lambda: holder(leases) not in ("", before), PATIENCE)
                until("it runs", lambda: runs(scene, "train"), PATIENCE)
                time.sleep(10)
                assert stage.creates == 1
                scene.delete_pod("train")
                until("all is gone", lambda: settled(stage), PATIENCE)
    finally:
        with contextlib.suppress(ApiException):
            leases.delete_namespaced_lease("cluster-autoscaler", "kube-system")


def holder(leases: CoordinationV1Api) -> str:
    try:
        found = leases.read_namespaced_lease("cluster-autoscaler", "kube-system")
    except ApiException:
        return ""
    return str(found.spec.holder_identity or "")


def test_after_a_rotation_it_goes_on_with_its_new_certificate(
    stage: Stage, kubelets: Kubelets, tmp_path: Path
) -> None:
    """The server reads its files again by itself; cluster-autoscaler reads its own when it starts."""
    scene = stage.scene
    old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
    files = {name: tmp_path / name for name in ("tls.crt", "tls.key", "ca.crt")}

    def serve(authority: Authority) -> None:
        pair = authority.sign("server", san="IP:127.0.0.1", usage="serverAuth")
        for name, path in zip(files, (*pair, authority.cert), strict=True):
            shutil.copy(path, files[name])

    def client(authority: Authority, name: str, *, expired: bool = False) -> dict[str, str]:
        cert, key = authority.sign(name, san=f"DNS:{CLIENT}", expired=expired)
        return {"cert": str(cert), "key": str(key), "cacert": str(authority.cert)}

    serve(old)
    tls = {"cert": str(files["tls.crt"]), "key": str(files["tls.key"]), "client_ca": str(files["ca.crt"])}
    told = {"listen": f"127.0.0.1:{stage.port}", "tls": tls, "allowed_names": [CLIENT]}
    with running(stage.server(externalgrpc=told)):
        scene.pod("train", 1)
        with running(stage.autoscaler(client(old, "late", expired=True))):
            time.sleep(8)
        assert stage.creates == 0
        with running(stage.autoscaler(client(old, "good"))):
            until("it runs", lambda: runs(scene, "train"), PATIENCE)
        serve(new)
        scene.delete_pod("train")
        with running(stage.autoscaler(client(old, "again"))):
            time.sleep(12)
        assert len(scene.live()) == 1
        with running(stage.autoscaler(client(new, "renewed"))):
            until("all is gone", lambda: settled(stage), PATIENCE)
        assert stage.creates == 1
