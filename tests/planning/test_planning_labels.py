"""The labels that a machine of ours writes onto its Node."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain import names
from controller.domain.cloudthings import Offer
from controller.domain.resources import GPU
from controller.planning.predict import labels_of, own_labels
from tests.planning.worlds import A1, A2, kind, pool

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


@pytest.mark.parametrize(
    ("declares", "product"),
    [
        ({}, "NVIDIA-A100-SXM4-80GB"),
        ({"resources": {GPU: 2}}, "NVIDIA-A100-SXM4-80GB"),
        ({"resources": {GPU: 8}}, "NVIDIA-A100-SXM4-80GB-SHARED"),
        ({"resources": {"nvidia.com/gpu.shared": 8}}, "NVIDIA-A100-SXM4-80GB"),
        (
            {"resources": {GPU: 14}, "labels": {"nvidia.com/mig.config": "all-1g.10gb"}},
            "NVIDIA-A100-SXM4-80GB",
        ),
        (
            {"resources": {GPU: 8}, "labels": {"nvidia.com/mig.config": "all-disabled"}},
            "NVIDIA-A100-SXM4-80GB-SHARED",
        ),
    ],
)
def test_gpus_that_are_shared_under_their_own_name_show_it_in_the_product(
    declares: dict[str, Any], product: str
) -> None:
    offer = Offer(type=A2, location="FIN-01", market="on-demand")
    assert labels_of(pool(**declares), offer, NAME)["nvidia.com/gpu.product"] == product


def test_a_product_that_is_said_by_hand_is_taken_as_it_is() -> None:
    offer = Offer(type=A2, location="FIN-01", market="on-demand")
    said = {"2a100-44v": {"nvidia.com/gpu.product": "MINE"}}
    found = labels_of(pool(resources={GPU: 8}), offer, NAME, said)
    assert found["nvidia.com/gpu.product"] == "MINE"
