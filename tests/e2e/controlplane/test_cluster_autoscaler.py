"""cluster-autoscaler at the wheel, on the real control plane: it decides, the machines and their Nodes are ours."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.compat_grpc.authority import Authority
from tests.e2e.controlplane.driving import PATIENCE, Stage, group, settled
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, running, runs, until

pytestmark = pytest.mark.full(limit=300)


def test_a_pending_gpu_pod_gets_one_machine_which_goes_when_it_is_idle(
    stage: Stage, kubelets: Kubelets
) -> None:
    with stage.driven():
        stage.scene.pod("train", 1)
        until("it runs", lambda: runs(stage.scene, "train"), PATIENCE)
        time.sleep(6)  # what would be bought twice is bought within a few loops
        assert stage.creates == 1
        stage.scene.delete_pod("train")
        until("machine, disk and Node are gone", lambda: settled(stage), PATIENCE)
        assert stage.creates == 1


def test_gpus_that_come_late_are_waited_for(stage: Stage, scene: Scene) -> None:
    with Kubelets(scene.core, scene.cloud, boot=0.3, gpu_delay=20) as _, stage.driven():
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), PATIENCE + 20)
        assert stage.creates == 1


def test_a_creation_that_fails_later_is_collected_and_another_group_is_taken(
    stage: Stage, kubelets: Kubelets
) -> None:
    scene = stage.scene
    scene.tell_cloud(
        "PUT", "outcomes", [{"instance_type": "1A100.22V", "outcome": "no_capacity", "times": 1}]
    )
    with stage.driven(group(), group("double", "2A100.44V")):
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), 2 * PATIENCE)
        until("the failed one is gone", lambda: len(scene.live()) == 1)
        assert stage.creates == 2


def test_stock_that_returns_is_bought_after_the_back_off(stage: Stage, kubelets: Kubelets) -> None:
    scene = stage.scene
    scene.tell_cloud("PUT", "stock", [{"instance_type": "*", "count": 0}])
    timing = {"tick": "500ms", "poll_cloud": "1s", "poll_cloud_busy": "500ms", "catalogue": "500ms"}
    with stage.driven(timing=timing):
        scene.pod("train", 1)
        until("it waits", lambda: "train" in scene.waiting())
        time.sleep(40)
        assert stage.creates == 0
        scene.tell_cloud("PUT", "stock", [{"instance_type": "*", "count": 2}])
        until("it runs", lambda: runs(scene, "train"), 2 * PATIENCE)
        assert stage.creates == 1


def test_a_machine_that_never_joins_is_deleted_and_not_counted_twice(stage: Stage, scene: Scene) -> None:
    with stage.driven():
        scene.pod("train", 1)
        until("one is ordered", lambda: stage.creates == 1, PATIENCE)
        first = scene.live()[0]["id"]
        scene.delete_pod("train")
        until("it is given up", lambda: first not in [i["id"] for i in scene.live()], 2 * PATIENCE)
        until("nothing is left", lambda: settled(stage), PATIENCE)
        assert stage.creates == 1


def test_a_minimum_is_filled_once(stage: Stage, kubelets: Kubelets) -> None:
    server = stage.server(group(min=1))
    driver = stage.autoscaler(enforce_node_group_min_size="true")
    with running(server, driver):
        until("one is there", lambda: len(stage.scene.nodes()) == 1, PATIENCE)
        time.sleep(20)
        assert (stage.creates, len(stage.scene.nodes())) == (1, 1)


def test_a_cloud_that_is_away_changes_nothing(stage: Stage, kubelets: Kubelets) -> None:
    scene = stage.scene
    with stage.driven():
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), PATIENCE)
        away = {"method": "GET", "fault": "answer", "status": 503, "times": 0}
        read = ("/instances", "/instance-types", "/instance-availability", "/volumes", "/scripts")
        scene.tell_cloud("PUT", "faults", [away | {"path": path} for path in read])
        time.sleep(30)
        scene.tell_cloud("PUT", "faults", [])
        time.sleep(5)
        assert runs(scene, "train")
        assert (stage.creates, len(scene.live())) == (1, 1)


def test_foreign_nodes_are_left_alone(stage: Stage, kubelets: Kubelets) -> None:
    scene = stage.scene
    room = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    for name, provider_id in (("server", "k3s://server"), ("other", "aws:///a/i-1"), ("bare", "")):
        scene.core.create_node(
            {
                "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "spec": {"providerID": provider_id} if provider_id else {},
                "status": {"capacity": room, "allocatable": room},
            }
        )
    with stage.driven():
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), PATIENCE)
        scene.delete_pod("train")
        until("only strangers are left", lambda: set(scene.nodes()) == {"server", "other", "bare"}, PATIENCE)
        assert stage.creates == 1


def test_never_above_the_maximum(stage: Stage, kubelets: Kubelets) -> None:
    with stage.driven(group(max=2)):
        for number in range(8):
            stage.scene.pod(f"train-{number}", 1)
        until("two run", lambda: len(stage.scene.nodes()) == 2, PATIENCE)
        time.sleep(15)
        assert (stage.creates, len(stage.scene.live())) == (2, 2)


def test_the_price_expander_takes_the_cheapest_group(stage: Stage, kubelets: Kubelets) -> None:
    server = stage.server(group("double", "2A100.44V"), group("single"))
    driver = stage.autoscaler(expander="price")
    with running(server, driver):
        stage.scene.pod("train", 1)
        until("it runs", lambda: runs(stage.scene, "train"), PATIENCE)
        assert stage.scene.bought() == [("1A100.22V", "FIN-01")]


def test_a_server_that_is_killed_in_an_increase_goes_on_from_its_ledger(
    stage: Stage, kubelets: Kubelets
) -> None:
    scene = stage.scene
    server, driver = stage.server(), stage.autoscaler()
    with running(driver):
        with running(server):
            scene.pod("train", 1)
            until("one is ordered", lambda: stage.creates == 1, PATIENCE)
            server.process.kill()
        with running(stage.server()):
            until("it runs", lambda: runs(scene, "train"), PATIENCE)
            time.sleep(10)
            assert stage.creates == 1
            scene.delete_pod("train")
            until("all is gone", lambda: settled(stage), 2 * PATIENCE)


@pytest.mark.parametrize("kinds", [("1A100.22V",), ("1A100.22V", "2A100.44V")], ids=["alone", "beside"])
def test_a_driver_that_is_restarted_in_an_increase_buys_nothing_again(
    stage: Stage, scene: Scene, kinds: tuple[str, ...]
) -> None:
    """From 1.36 on it has forgotten what it asked for, and asks again while the first machine boots: there, and then
    in a group beside it."""
    server = stage.server(*(group(f"pool-{number}", kind) for number, kind in enumerate(kinds)))
    with Kubelets(scene.core, scene.cloud, boot=15, gpu_delay=1) as _, running(server):
        driver = stage.autoscaler()
        with running(driver):
            scene.pod("train", 1)
            until("one is ordered", lambda: stage.creates == 1, PATIENCE)
        with running(stage.autoscaler()):
            until("it runs", lambda: runs(scene, "train"), PATIENCE)
            time.sleep(10)
            assert stage.creates == 1


def test_a_node_object_that_is_deleted_by_hand_ends_with_its_machine(
    stage: Stage, kubelets: Kubelets
) -> None:
    scene = stage.scene
    with stage.driven():
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), PATIENCE)
        (node,) = scene.nodes()
        scene.delete_pod("train")
        scene.core.delete_node(node)
        until("the machine is gone", lambda: not scene.live(), 2 * PATIENCE)
        assert stage.creates == 1


def test_only_a_client_with_the_right_certificate_changes_anything(
    stage: Stage, kubelets: Kubelets, tmp_path: Path
) -> None:
    ours, others = Authority(tmp_path / "ours", "ours"), Authority(tmp_path / "others", "others")
    cert, key = ours.sign("server", san="IP:127.0.0.1", usage="serverAuth")
    tls = {"cert": str(cert), "key": str(key), "client_ca": str(ours.cert)}
    told = {
        "listen": f"127.0.0.1:{stage.port}",
        "tls": tls,
        "allowed_names": ["cluster-autoscaler-grpc-client"],
    }

    def client(authority: Authority, name: str, san: str) -> dict[str, str]:
        pair = authority.sign(name, san=f"DNS:{san}")
        return {"cert": str(pair[0]), "key": str(pair[1]), "cacert": str(ours.cert)}

    wrong = [
        client(others, "foreign", "cluster-autoscaler-grpc-client"), client(ours, "named", "somebody-else"), None,
    ]  # fmt: skip
    stage.scene.pod("train", 1)
    with running(stage.server(externalgrpc=told)):
        for certificates in wrong:
            with running(stage.autoscaler(certificates)):
                time.sleep(8)
        assert stage.creates == 0
        right = client(ours, "right", "cluster-autoscaler-grpc-client")
        with running(stage.autoscaler(right)):
            until("it runs", lambda: runs(stage.scene, "train"), PATIENCE)
        assert stage.creates == 1


def test_a_machine_that_is_taken_away_is_replaced_once_and_its_node_goes(
    stage: Stage, kubelets: Kubelets
) -> None:
    scene = stage.scene
    with stage.driven():
        scene.pod("train", 1)
        until("it runs", lambda: runs(scene, "train"), PATIENCE)
        (first,) = scene.nodes()
        scene.delete_in_console(first)
        until("its Node is gone", lambda: first not in scene.nodes(), PATIENCE)
        scene.pod("again", 1)
        until("another runs", lambda: runs(scene, "again"), PATIENCE)
        assert stage.creates == 2
        assert len(scene.live()) == 1


def test_a_driver_that_hands_over_harms_nothing(stage: Stage, kubelets: Kubelets) -> None:
    """It says `Cleanup` when it ends, and its successor goes on."""
    scene = stage.scene
    with running(stage.server()):
        with running(stage.autoscaler()):
            scene.pod("train", 1)
            until("it runs", lambda: runs(scene, "train"), PATIENCE)
        with running(stage.autoscaler()):
            time.sleep(10)
            assert runs(scene, "train")
            scene.delete_pod("train")
            until("all is gone", lambda: settled(stage), PATIENCE)
        assert stage.creates == 1
