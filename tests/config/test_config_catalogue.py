"""The settings against a catalogue: each kind of mistake, and what is said about it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from controller.config.catalogue_check import check_against
from controller.config.load import load, load_dict
from controller.config.policy import to_policy
from controller.domain.cloudthings import Catalogue, InstanceType, Offer

IMAGES = ("ubuntu-24.04-cuda-12.8-open", "ubuntu-22.04-cuda-12.4", "ubuntu-24.04")


def kind(
    name: str, model: str, gpus: int, price: str, images: tuple[str, ...] = IMAGES, arch: str = "amd64"
) -> InstanceType:
    return InstanceType(
        name=name,
        model=model,
        gpus=gpus,
        vcpus=22,
        memory_gib=120,
        gpu_memory_gib=80 * gpus,
        price=Decimal(price),
        spot_price=Decimal(price) / 2,
        images=images,
        arch=arch,
    )


A1 = kind("1A100.22V", "A100 80GB", 1, "1.80")
A2 = kind("2A100.44V", "A100 80GB", 2, "3.60")
H1 = kind("1H100.80S.30V", "H100", 1, "2.60", images=("ubuntu-24.04",))
GB = kind("1GB300.36V", "GB300", 1, "6.00", arch="arm64")
BARE = kind("1L40S.20V", "L40S", 1, "0.90", images=())
CPU = kind("CPU.4V.16G", "CPU", 0, "0.03")
CATALOGUE = Catalogue(
    at=0,
    offers=(
        *(Offer(type=t, location="FIN-01", market="on-demand") for t in (A1, A2, H1, GB, BARE, CPU)),
        *(Offer(type=t, location="FIN-01", market="spot", available=False) for t in (A1, A2)),
        Offer(type=H1, location="ICE-01", market="on-demand"),
    ),
)


def found(**pool: Any) -> list[str]:
    settings = load_dict({"pools": [{"name": "p", "max": 1, **pool}]}).settings
    return [str(problem) for problem in check_against(to_policy(settings, cluster_id="c"), CATALOGUE)]


@pytest.mark.parametrize(
    "pool",
    [
        {"instance_types": ["1A100.22V", "2a100.44v"]},
        {"gpu_models": ["a100 80gb"]},
        {"min_gpu_memory_gb": 80},
        {"gpu_models": ["GB300"], "arm64": True},
        {"instance_types": ["1A100.22V"], "market": "spot_only", "max_price_per_hour": 0.9},
        {"gpu_models": ["A100 80GB", "H100"], "image": ["ubuntu-22.04-cuda-12.4", "ubuntu-24.04"]},
    ],
)
def test_a_pool_that_the_cloud_can_serve_has_no_problem(pool: dict[str, Any]) -> None:
    assert found(**pool) == []


@pytest.mark.parametrize(
    ("pool", "problem"),
    [
        (
            {"instance_types": ["1A100.22V", "1A100.22"]},
            "pools[0].instance_types[1] = 1A100.22: expected an instance type of the cloud; "
            "did you mean 1A100.22V?",
        ),
        (
            {"instance_types": ["CPU.4V.16G"]},
            "pools[0].instance_types[0] = CPU.4V.16G: expected an instance type with GPUs",
        ),
        (
            {"instance_types": ["1GB300.36V"]},
            "pools[0].instance_types[0] = 1GB300.36V: expected an amd64 type, or arm64: true in this pool",
        ),
        (
            {"gpu_models": ["A100"]},
            "pools[0].gpu_models[0] = A100: expected a GPU model of the cloud; did you mean A100 80GB?",
        ),
        (
            {"min_gpu_memory_gb": 40, "locations": ["FIN-1"]},
            "pools[0].locations[0] = FIN-1: expected a location of the cloud; did you mean FIN-01",
        ),
        (
            {"min_gpu_memory_gb": 100, "max_gpus": 4},
            "pools[0]: expected something that the cloud sells, but nothing there is all of: "
            "100 GB per GPU at least; 4 GPUs at most",
        ),
        (
            {"gpu_models": ["A100 80GB"], "locations": ["ICE-01"]},
            "pools[0].locations = ICE-01: expected a location where its types are sold (FIN-01)",
        ),
        (
            {"gpu_models": ["H100"], "market": "spot_only"},
            "pools[0].market = spot_only: expected a market in which its types are sold",
        ),
        (
            {"instance_types": ["1H100.80S.30V"], "image": "ubuntu-24.04-cuda-12.8-open"},
            "pools[0].image = ubuntu-24.04-cuda-12.8-open: expected an image that 1H100.80S.30V supports, "
            "such as ubuntu-24.04",
        ),
        (
            {"gpu_models": ["L40S"]},
            "pools[0]: expected a type with a supported image, and 1L40S.20V has none",
        ),
        (
            {"gpu_models": ["A100 80GB"], "max_price_per_hour": 1.5},
            "pools[0].max_price_per_hour = 1.5: expected at least 1.80 USD, the price of the cheapest, "
            "1A100.22V (on-demand, FIN-01)",
        ),
    ],
)
def test_a_pool_that_the_cloud_cannot_serve_says_why(pool: dict[str, Any], problem: str) -> None:
    problems = found(**pool)
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_an_empty_catalogue_says_nothing_about_anybody() -> None:
    settings = load_dict({"pools": [{"name": "p", "max": 1, "gpu_models": ["nonsense"]}]}).settings
    assert check_against(to_policy(settings, cluster_id="c"), Catalogue(at=0)) == []


def test_a_problem_says_where_the_setting_stands() -> None:
    text = "pools:\n  - name: p\n    max: 1\n    gpu_models:\n      - A1000\njoin: {mine: {startup_script_id: s}}\n"
    loaded = load("config.yaml", {}, text=text, service_account="/nonexistent")
    problems = check_against(to_policy(loaded.settings, cluster_id="c"), CATALOGUE, loaded.origins)
    assert [problem.where for problem in problems] == ["config.yaml:5"]


def told(**settings: Any) -> list[str]:
    policy = to_policy(load_dict(settings).settings, cluster_id="c")
    return [str(problem) for problem in check_against(policy, CATALOGUE)]


def test_prices_and_labels_are_for_types_and_models_that_exist() -> None:
    assert (
        told(
            prices={
                "*": {"discount": "5%"},
                "1a100.22v": {"price_per_hour": 1},
                "A100 80GB": {"discount": "1%"},
            },
            gpu_labels={"H100": {"memory": 1}},
        )
        == []
    )
    assert told(prices={"1A100.22": {"price_per_hour": 1}}, gpu_labels={"L400": {"memory": 1}}) == [
        "prices.1a100-22: expected an instance type or a GPU model of the cloud; did you mean 1A100.22V?",
        "gpu_labels.l400: expected an instance type or a GPU model of the cloud; did you mean L40S or 1L40S.20V?",
    ]


def test_a_misspelt_price_is_shown_as_it_was_written() -> None:
    text = 'prices:\n  "A100 80 GB": {discount: "5%"}\n  "1A100.22": {discount: "5%"}\n'
    loaded = load("config.yaml", {}, text=text, service_account="/nonexistent")
    problems = check_against(to_policy(loaded.settings, cluster_id="c"), CATALOGUE, loaded.origins)
    assert str(problems[0]).startswith('config.yaml:2: prices["A100 80 GB"]: expected an instance type')
    assert str(problems[1]).startswith('config.yaml:3: prices["1A100.22"]: expected an instance type')


def test_the_price_of_a_pool_is_compared_with_what_is_paid() -> None:
    pools = [{"name": "p", "max": 1, "gpu_models": ["A100 80GB"], "max_price_per_hour": 1.5}]
    assert told(pools=pools, prices={"*": {"discount": "20%"}}) == []
    (problem,) = told(pools=pools, prices={"*": {"discount": "10%"}})
    assert "expected at least 1.62 USD" in problem


def test_auto_that_finds_no_image_says_so() -> None:
    odd = Catalogue(
        at=0, offers=(Offer(type=kind("1L40S.20V", "L40S", 1, "0.90", ("jupyter",)), location="FIN-01", market="on-demand"),)
    )  # fmt: skip
    settings = load_dict({"pools": [{"name": "p", "max": 1, "gpu_models": ["L40S"]}]}).settings
    assert [str(p) for p in check_against(to_policy(settings, cluster_id="c"), odd)] == [
        "pools[0].image = auto: expected an image by its name: 1L40S.20V accepts none of the images that "
        "`auto` takes, only jupyter: name one under image"
    ]
    named = load_dict(
        {"pools": [{"name": "p", "max": 1, "gpu_models": ["L40S"], "image": ["auto", "jupyter"]}]}
    )
    assert check_against(to_policy(named.settings, cluster_id="c"), odd) == []
