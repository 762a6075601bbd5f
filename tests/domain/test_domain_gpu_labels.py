"""NVIDIA's labels for everything that the cloud sells: known, well formed, from a source, and overridable."""

from __future__ import annotations

import re

import pytest

from controller.domain.gpu_labels import LOOKS, labels_for
from controller.domain.names import gpu_slug
from controller.sandbox.cloud.catalogue import load

MODELS = sorted({kind.model for kind in load().types.values() if kind.gpus})
EXPECTED = {
    "A100 40GB": ("NVIDIA-A100-SXM4-40GB", "40960", "ampere"),
    "A100 80GB": ("NVIDIA-A100-SXM4-80GB", "81920", "ampere"),
    "B200": ("NVIDIA-B200", "183359", "blackwell"),
    "B300": ("NVIDIA-B300-SXM6-AC", "275040", "blackwell"),
    "GB300": ("NVIDIA-GB300", "284208", "blackwell"),
    "H100": ("NVIDIA-H100-80GB-HBM3", "81559", "hopper"),
    "H200": ("NVIDIA-H200", "143771", "hopper"),
    "L40S": ("NVIDIA-L40S", "46068", "ada-lovelace"),
    "RTX 6000 Ada": ("NVIDIA-RTX-6000-Ada-Generation", "49140", "ada-lovelace"),
    "RTX A6000": ("NVIDIA-RTX-A6000", "49140", "ampere"),
    "RTX PRO 6000": ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "97887", "blackwell"),
    "Tesla V100": ("Tesla-V100-SXM2-16GB", "16384", "volta"),
}
FAMILY_OF = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}


def test_every_gpu_that_is_sold_is_expected_here() -> None:
    assert sorted(EXPECTED) == MODELS
    assert set(LOOKS) == {gpu_slug(model) for model in MODELS}


@pytest.mark.parametrize("name", sorted(name for name, kind in load().types.items() if kind.gpus))
def test_the_labels_of_every_type_that_is_sold(name: str) -> None:
    kind = load().types[name]
    found = labels_for(kind.model, name, kind.gpus)
    product, memory, family = EXPECTED[kind.model]
    assert found["nvidia.com/gpu.product"] == product
    assert found["nvidia.com/gpu.memory"] == memory
    assert found["nvidia.com/gpu.family"] == family
    assert found["nvidia.com/gpu.count"] == str(kind.gpus)
    assert found["nvidia.com/gpu.present"] == "true"
    assert all(re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", v) for v in found.values())


@pytest.mark.parametrize("slug", sorted(LOOKS))
def test_every_row_has_a_source_and_does_not_contradict_itself(slug: str) -> None:
    look = LOOKS[slug]
    assert len(look.source) > 20
    major, minor = map(int, look.compute.split("."))
    assert look.family == ("ada-lovelace" if (major, minor) == (8, 9) else FAMILY_OF[major])
    assert not look.mig or look.family not in ("volta", "ada-lovelace")


@pytest.mark.parametrize("model", MODELS)
def test_the_drivers_memory_is_near_what_the_catalogue_says_and_never_equal_by_rule(model: str) -> None:
    kind = next(kind for kind in load().types.values() if kind.model == model)
    listed = kind.hardware["gpu_memory"]["size_in_gigabytes"] / kind.gpus
    assert LOOKS[gpu_slug(model)].memory / 1024 == pytest.approx(listed, rel=0.07)


def test_machines_without_gpus_have_none_and_unheard_of_models_only_what_follows_from_the_catalogue() -> None:
    assert labels_for("CPU Node", "CPU.4V.16G", 0) == {}
    assert labels_for("X9000", "2X9000.10V", 2) == {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": "2",
    }


def test_the_settings_win_and_the_type_wins_over_the_model() -> None:
    said = {
        "a100-80gb": {"nvidia.com/gpu.product": "OF-MODEL", "nvidia.com/gpu.memory": "81251"},
        "2a100-44v": {"nvidia.com/gpu.product": "OF-TYPE", "nvidia.com/gpu.count": "14"},
    }
    two = labels_for("A100 80GB", "2A100.44V", 2, said)
    assert (two["nvidia.com/gpu.product"], two["nvidia.com/gpu.memory"]) == ("OF-TYPE", "81251")
    assert two["nvidia.com/gpu.count"] == "14"
    one = labels_for("a100-80GB", "1A100.22V", 1, said)
    assert (one["nvidia.com/gpu.product"], one["nvidia.com/gpu.count"]) == ("OF-MODEL", "1")
