"""The main story with cluster-autoscaler at the wheel, short enough for every run."""

from __future__ import annotations

from tests.e2e.controlplane.driving import Stage, settled
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import running, runs, until

SOON = 75.0


def test_it_buys_a_machine_and_lets_it_go(stage: Stage, kubelets: Kubelets) -> None:
    with stage.driven() as (server, _):
        stage.scene.pod("train", 1)
        until("it runs", lambda: runs(stage.scene, "train"), SOON)
        stage.scene.delete_pod("train")
        until("machine, disk and Node are gone", lambda: settled(stage), SOON)
        assert stage.creates == 1
        assert any("without client certificates" in line for line in server.complaints)


def test_what_is_refused_buys_nothing_and_is_told(stage: Stage, kubelets: Kubelets) -> None:
    with stage.driven(limits={"gpus": 0}) as (server, _):
        stage.scene.pod("train", 1)
        refused = "limits.gpus is 0"
        until("it is refused", lambda: any(refused in line for line in server.complaints), SOON)
        assert stage.creates == 0


def test_it_is_served_under_the_python_providers_name(stage: Stage, kubelets: Kubelets) -> None:
    """Without certificates, as its manifests say today, and warned of."""
    server = stage.python_provider()
    with running(server, stage.autoscaler()):
        stage.scene.pod("train", 1)
        until("it runs", lambda: runs(stage.scene, "train"), SOON)
        assert any("without client certificates" in line for line in server.complaints)
