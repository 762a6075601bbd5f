"""Which image a machine boots, over the whole catalogue and over lists that nobody has seen yet."""

from __future__ import annotations

from decimal import Decimal

import pytest

from controller.domain.cloudthings import InstanceType
from controller.domain.images import automatic, image_for, why_none
from controller.sandbox.cloud.catalogue import load


def kind(*images: str, model: str = "A100 80GB") -> InstanceType:
    return InstanceType(
        name="1X.1V", model=model, gpus=1, vcpus=1, memory_gib=1, price=Decimal(1), spot_price=Decimal(1), images=images
    )  # fmt: skip


CUDA_13 = "ubuntu-24.04-cuda-13.0-open"
CUDA_12_8 = "ubuntu-24.04-cuda-12.8-open"
CUDA_12_6 = "ubuntu-24.04-cuda-12.6"
AUTOMATIC = {
    "Tesla V100": CUDA_12_6,
    "RTX A6000": CUDA_12_6,
    "A100 40GB": CUDA_12_8,
    "A100 80GB": CUDA_12_8,
    "H100": CUDA_12_8,
    "L40S": CUDA_12_8,
    "RTX 6000 Ada": CUDA_12_8,
    "H200": CUDA_13,
    "RTX PRO 6000": CUDA_13,
    "B200": CUDA_13,
    "B300": CUDA_13,
    "GB300": "",  # supports no image at all
    "CPU Node": CUDA_12_8,
}


@pytest.mark.parametrize("name", sorted(load().types))
def test_auto_over_the_catalogue(name: str) -> None:
    sold = load().types[name]
    assert automatic(kind(*sold.supported_os, model=sold.model)) == AUTOMATIC[sold.model]


@pytest.mark.parametrize(
    ("model", "listed", "taken"),
    [
        ("A100 80GB", ("ubuntu-22.04-cuda-12.4", CUDA_12_8), CUDA_12_8),
        ("A100 80GB", ("ubuntu-24.04", "ubuntu-22.04-cuda-12.4"), "ubuntu-22.04-cuda-12.4"),
        ("A100 80GB", (CUDA_12_8 + "-docker", CUDA_12_8), CUDA_12_8),
        ("A100 80GB", (CUDA_13 + "-docker", "ubuntu-22.04-cuda-12.0"), "ubuntu-22.04-cuda-12.0"),
        ("A100 80GB", (CUDA_12_8 + "-docker", "ubuntu-24.04"), CUDA_12_8 + "-docker"),
        # an Ubuntu that the join scripts were never tried on gives way, also with a newer CUDA
        ("A100 80GB", ("ubuntu-26.04-cuda-14.1-open", "ubuntu-22.04-cuda-12.4"), "ubuntu-22.04-cuda-12.4"),
        ("A100 80GB", ("ubuntu-20.04-cuda-12.4", "ubuntu-22.04-cuda-12.0"), "ubuntu-22.04-cuda-12.0"),
        ("A100 80GB", ("ubuntu-24.04-cuda-12.8", "ubuntu-24.04-cuda-12.10"), "ubuntu-24.04-cuda-12.10"),
        ("B200", ("ubuntu-24.04-cuda-13.0", CUDA_12_8, "ubuntu-24.04-cuda-12.6-open"), CUDA_12_8),
        ("B200", ("ubuntu-24.04-cuda-12.6-open", "ubuntu-24.04"), "ubuntu-24.04"),
        ("Tesla V100", (CUDA_13, "ubuntu-24.04-cuda-13.0", "ubuntu-22.04-cuda-12.0"), "ubuntu-22.04-cuda-12.0"),
        ("Tesla V100", (CUDA_12_8,), CUDA_12_8),  # not believed to work, but the only one, and the cloud's word
        ("never heard of", (CUDA_12_6, CUDA_13), CUDA_13),
        ("A100 80GB", ("24.04.cuda12.9", "ubuntu-22.04-cuda-12.4"), "24.04.cuda12.9"),
        ("A100 80GB", ("24.04.kubernetes1.31.1.cuda12.9.qcow2", "jupyter", "jupyter.cuda.12.8"), ""),
        ("A100 80GB", ("ubuntu-22.04-cuda-12.4-cluster", "pytorch-2", "24.04.base", "windows"), ""),
        ("A100 80GB", (), ""),
        ("A100 80GB", ("*",), "*"),
    ],
)  # fmt: skip
def test_auto_over_lists_of_other_days(model: str, listed: tuple[str, ...], taken: str) -> None:
    assert automatic(kind(*listed, model=model)) == taken
    assert automatic(kind(*reversed(listed), model=model)) == taken


@pytest.mark.parametrize(
    ("wanted", "accepted", "image"),
    [
        (("mine", "ubuntu-24.04"), ("ubuntu-24.04",), "ubuntu-24.04"),
        (("ubuntu-24.04", "mine"), ("mine", "ubuntu-24.04"), "ubuntu-24.04"),  # the pool's order decides
        (("mine",), ("ubuntu-24.04",), ""),
        (("mine",), ("*",), "mine"),
        (("jupyter",), ("jupyter", CUDA_12_8), "jupyter"),  # by name anything goes
        (("mine", "auto"), ("jupyter", CUDA_12_8), CUDA_12_8),
        (("auto",), ("jupyter", CUDA_12_8), CUDA_12_8),
        (("auto", "jupyter"), ("jupyter",), "jupyter"),
    ],
)
def test_a_list_is_tried_in_its_order(wanted: tuple[str, ...], accepted: tuple[str, ...], image: str) -> None:
    assert image_for(wanted, kind(*accepted)) == image


@pytest.mark.parametrize(
    ("wanted", "listed", "words"),
    [
        ((), (), "has no image at the cloud"),
        ((), ("jupyter",), "`auto` takes, only jupyter: name one under image"),
        (("mine", "other"), ("jupyter",), r"\(mine, other\)"),
    ],
)
def test_a_type_without_an_image_says_why(
    wanted: tuple[str, ...], listed: tuple[str, ...], words: str
) -> None:
    import re

    assert re.search(words, why_none(wanted, kind(*listed)))
