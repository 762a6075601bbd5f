"""The labels that a machine of ours writes onto its Node."""

from __future__ import annotations

from controller.domain import names
from controller.domain.cloudthings import Offer
from controller.planning.predict import own_labels
from tests.planning.worlds import A1, kind, pool

NAME = "home-a100-abcdefghij"


def test_a_gpu_machine_carries_every_label() -> None:
    offer = Offer(type=A1, location="FIN-01", market="spot")
    assert own_labels(pool(labels={"team": "ml"}), offer, NAME) == {
        "gpu-autoscaler/gpu": "a100-80gb",
        "gpu-autoscaler/location": "FIN-01",
        "gpu-autoscaler/machine": NAME,
        "gpu-autoscaler/market": "spot",
        "gpu-autoscaler/pool": "a100",
        "node.kubernetes.io/instance-type": "1A100.22V",
        "team": "ml",
        "topology.kubernetes.io/region": "FIN-01",
        "topology.kubernetes.io/zone": "FIN-01",
    }


def test_a_machine_without_gpus_never_carries_the_gpu_label() -> None:
    offer = Offer(
        type=kind("CPU.4V.16G", 0, 4, 16, "0.03", "CPU Node"), location="FIN-01", market="on-demand"
    )
    assert names.LABEL_GPU not in own_labels(pool(), offer, NAME)


def test_a_pools_own_labels_never_replace_ours() -> None:
    offer = Offer(type=A1, location="FIN-01", market="on-demand")
    assert own_labels(pool(labels={names.LABEL_POOL: "other"}), offer, NAME)[names.LABEL_POOL] == "a100"
