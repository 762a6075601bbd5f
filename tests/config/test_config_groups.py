"""Groups in the environment: any prefix, any number, mixed kinds; half of one is an error and never left out."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from controller.config.dialects.groups import variables_of
from controller.config.pools import PoolSetting
from controller.config.switching import SwitchedMachine
from tests.config.foreign import MACHINES, problems, read

JOIN = {"GPU_AUTOSCALER_JOIN": json.dumps({"own": {"startup_script_id": "s"}})}
POOL = {"A_NAME": "a100", "A_INSTANCE_TYPES": "1A100.22V,2A100.44V", "A_MAX": "4"} | JOIN
ONE = {key: value for key, value in MACHINES.items() if key.startswith("GPU_NODE_1_")}


def renamed(environ: dict[str, str], old: str, new: str) -> dict[str, str]:
    return {key.replace(old, new, 1): value for key, value in environ.items()}


def test_the_documented_variables_make_switched_machines() -> None:
    machines = read(None, MACHINES).settings.machines
    assert [(m.name, m.gpu_count, m.scale_up_endpoint) for m in machines] == [
        ("gpu-worker-1", 4, "http://power-api/gpu-worker-1/start"),
        ("gpu-worker-2", 8, "http://power-api/gpu-worker-2/start"),
    ]


@pytest.mark.parametrize("prefix", ["X", "RACK_7", "GPU-WORKER-1", "my_box", "P_GPU_COUNT"])
def test_any_prefix_does(prefix: str) -> None:
    assert [m.name for m in read(None, renamed(ONE, "GPU_NODE_1", prefix)).settings.machines] == [
        "gpu-worker-1"
    ]


def test_a_pool_has_a_variable_for_each_of_its_settings() -> None:
    more = {
        "A_LOCATIONS": "FIN-01,FIN-03", "A_MARKET": "prefer_spot", "A_MIN": "1", "A_LABELS": "team=ml,tier=gpu",
        "A_TAINTS": "nvidia.com/gpu=present:NoSchedule", "A_IMAGE": "ubuntu-24.04-cuda-12.8-open", "A_SSH_KEY_IDS": "k1,k2",
        "A_MAX_PRICE_PER_HOUR": "3.00", "A_DISK_GB": "200", "A_RESOURCES": '{"nvidia.com/gpu": 7}', "A_ARM64": "true",
    }  # fmt: skip
    (pool,) = read(None, POOL | more).settings.pools
    assert (pool.locations, pool.market, pool.min, pool.max) == (("FIN-01", "FIN-03"), "prefer_spot", 1, 4)
    assert pool.labels == {"team": "ml", "tier": "gpu"}
    assert pool.taints[0].key == "nvidia.com/gpu"
    assert (pool.image, pool.ssh_key_ids, pool.disk_gb) == (
        ("ubuntu-24.04-cuda-12.8-open",),
        ("k1", "k2"),
        200,
    )
    assert (pool.max_price_per_hour, pool.resources, pool.arm64) == (
        Decimal("3.00"),
        {"nvidia.com/gpu": "7"},
        True,
    )


@pytest.mark.parametrize("model", [PoolSetting, SwitchedMachine])
def test_every_setting_of_either_kind_has_its_variable(model: Any) -> None:
    known = variables_of(model)
    assert {name.upper() for name in model.model_fields} <= set(known)


def test_kinds_are_mixed_and_added_to_the_file() -> None:
    text = (
        "pools: [{name: file, instance_types: [1H100.80S.30V], max: 1}]\njoin: {own: {startup_script_id: s}}"
    )
    environ = {key: value for key, value in POOL.items() if not key.startswith("GPU_AUTOSCALER")} | MACHINES
    settings = read(text, environ).settings
    assert [pool.name for pool in settings.pools] == ["file", "a100"]
    assert len(settings.machines) == 2


WRONG: list[tuple[dict[str, str], list[str]]] = [
    (ONE | {"GPU_NODE_1_INSTANCE_TYPES": "1A100.22V"}, ["GPU_NODE_1_GPU_COUNT and GPU_NODE_1_INSTANCE_TYPES", "one of"]),
    ({k: v for k, v in ONE.items() if not k.endswith("_NAME")}, ["GPU_NODE_1_NAME", "half a group"]),
    ({k: v for k, v in ONE.items() if not k.endswith("_DOWN_ENDPOINT")}, ["GPU_NODE_1_SCALE_DOWN_ENDPOINT", "half a group"]),
    ({k: v for k, v in ONE.items() if not k.endswith("_COUNT")}, ["GPU_NODE_1_GPU_COUNT", "GPU_NODE_1_NAME", "half a group"]),
    (
        {k: v for k, v in ONE.items() if not k.endswith("_ENDPOINT")},
        ["GPU_NODE_1_SCALE_UP_ENDPOINT and GPU_NODE_1_SCALE_DOWN_ENDPOINT", "half a group"],
    ),
    (ONE | {"GPU_NODE_1_GPU_COUNT": ""}, ["GPU_NODE_1_GPU_COUNT", "half a group"]),
    (ONE | {"GPU_NODE_1_GPU_COUNT": "four"}, ["GPU_NODE_1_GPU_COUNT", "gpu_count = four", "whole number"]),
    (ONE | {"GPU_NODE_1_SCALE_UP_ENDPOINT": "power/on"}, ["GPU_NODE_1_SCALE_UP_ENDPOINT", "power/***", "URL"]),
    (ONE | renamed(ONE, "GPU_NODE_1", "OTHER"), ["gpu-worker-1", "a name of its own"]),
    ({k: v for k, v in POOL.items() if k != "A_MAX"}, ["A_MAX", "A_NAME, A_INSTANCE_TYPES are there", "half a group"]),
    (POOL | {"A_MAX": "some"}, ["A_MAX", "max = some", "whole number"]),
    (POOL | {"A_MIN": "9"}, ["A_MIN", "min = 9", "at most max (4)"]),
    (POOL | {"A_LABELS": "team"}, ["A_LABELS", "pairs k=v"]),
    (POOL | {"A_TAINTS": "x:Sometimes"}, ["A_TAINTS", "Sometimes", "NoSchedule"]),
    (POOL | {"A_RESOURCES": "{"}, ["A_RESOURCES", "valid JSON"]),
    (POOL | {"A_INSTANCE_TYPES": "[1A100"}, ["A_INSTANCE_TYPES", "valid JSON"]),
    (POOL | {"A_INSTANCE_TYPES": ",,"}, ["A_INSTANCE_TYPES", "what it may buy"]),
    (ONE | {"GPU_NODE_1_GPU_COUNT": '"4"'}, ["GPU_NODE_1_GPU_COUNT", "whole number"]),
    (ONE | {"GPU_NODE_1_SCALE_UP_ENDPOINT": "http://power..local/on"}, ["GPU_NODE_1_SCALE_UP_ENDPOINT", "between its dots"]),
    (ONE | {"GPU_NODE_1_SCALE_UP_ENDPOINT": f"http://{'a' * 64}/on"}, ["GPU_NODE_1_SCALE_UP_ENDPOINT", "1 to 63"]),
]  # fmt: skip


@pytest.mark.parametrize(("environ", "words"), WRONG)
def test_half_a_group_and_bad_values_are_errors_that_name_the_variables(
    environ: dict[str, str], words: list[str]
) -> None:
    (found,) = problems(None, environ)
    assert all(word in found for word in words), found
    assert found.startswith(("GPU_NODE_1_", "OTHER_", "A_")), found


@pytest.mark.parametrize("name", ["NVIDIA_GPU_COUNT", "CUDA_INSTANCE_TYPES", "RACK_SCALE_UP_ENDPOINT"])
def test_a_stray_variable_is_a_warning_and_no_group(name: str) -> None:
    loaded = read(None, {name: "3"} | MACHINES)
    assert len(loaded.settings.machines) == 2
    assert [line for line in loaded.warnings if name in line and "has no effect" in line]


def test_what_a_pool_may_buy_without_types_is_told_to_be_no_group() -> None:
    environ = {"A_GPU_MODELS": "A100 80GB", "A_NAME": "a", "A_MAX": "1", "OTHER_GPU_MODELS": "x"}
    warnings = read(None, environ | MACHINES).warnings
    assert [
        line for line in warnings if line.startswith("A_GPU_MODELS: is no group without A_INSTANCE_TYPES")
    ]
    assert not [line for line in warnings if "OTHER" in line]


def test_a_pool_whose_types_are_empty_is_half_a_group() -> None:
    (found,) = problems(None, {"A_NAME": "a", "A_INSTANCE_TYPES": " ", "A_LOCATIONS": "FIN-01"} | MACHINES)
    assert found.startswith(
        "A_INSTANCE_TYPES: expected instance types, because A_NAME, A_LOCATIONS are there"
    )


def test_what_looks_like_a_pool_and_does_not_say_what_it_may_buy_is_told_to_be_no_group() -> None:
    environ = {"A_NAME": "a", "A_INSTANCE_TYPE": "1A100.22V", "A_MAX": "1", "HEAP_MAX": "9", "B_NAME": "b"}
    warnings = read(None, environ | MACHINES).warnings
    assert [
        line for line in warnings if line.startswith("A_NAME, A_MAX: are no group without A_INSTANCE_TYPES")
    ]
    assert not [line for line in warnings if "HEAP" in line or "B_NAME" in line]


def test_empty_types_beside_a_machine_or_a_name_alone_are_not_there() -> None:
    assert (
        read(None, ONE | {"GPU_NODE_1_INSTANCE_TYPES": "", "A_INSTANCE_TYPES": "", "A_NAME": "a"}).warnings
        == []
    )


def test_a_variable_that_only_looks_like_one_of_a_group_is_told() -> None:
    warnings = read(None, ONE | {"GPU_NODE_1_PRICE_PER_HUOR": "1"}).warnings
    assert [line for line in warnings if "did you mean GPU_NODE_1_PRICE_PER_HOUR?" in line]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LOCATION", "LOCATIONS"), ("LOCATOINS", "LOCATIONS"), ("REGION", "LOCATIONS"), ("ZONES", "LOCATIONS"),
        ("SPOT", "MARKET"), ("MARKETS", "MARKET"), ("CONTRACT", "MARKET"),
        ("MAX_SIZE", "MAX"), ("MAXX", "MAX"), ("MIN_SIZE", "MIN"),
        ("PRICE", "MAX_PRICE_PER_HOUR"), ("MAX_PRICE", "MAX_PRICE_PER_HOUR"), ("PRICE_PER_HOUR", "MAX_PRICE_PER_HOUR"),
        ("MAX_GPU", "MAX_GPUS"), ("PAUSED", "PAUSE"),
    ],
)  # fmt: skip
def test_a_variable_that_was_meant_to_limit_a_pool_is_never_left_out(name: str, meant: str) -> None:
    """Without its limit more is bought, anywhere and at any price."""
    (found,) = problems(None, POOL | {f"A_{name}": "x"} | MACHINES)
    assert found.startswith(f"A_{name}: expected A_{meant} in its place")


@pytest.mark.parametrize(
    "name",
    [
        "OPTIONS", "ACTION", "APPLICATION", "ALLOCATIONS", "DURATIONS", "VOCATIONS", "LOCATIONS_FILE", "MARKED", "MARKER",
        "MARKET_API", "USE", "CAUSE", "PARSE", "MAP", "MAC", "TAX", "MAXFD", "MAX_PODS", "MAX_USERS", "MAX_CPUS", "MAX_AGE",
        "PRICE_API_URL", "MAX_PRICE_PER_REQUEST",
    ],
)  # fmt: skip
def test_what_is_merely_like_a_limit_is_told_and_is_no_error(name: str) -> None:
    told = read(None, POOL | {f"A_{name}": "x"} | MACHINES).warnings
    assert [line.startswith(f"A_{name}: is no variable of a group") for line in told] == [True]


@pytest.mark.parametrize(
    "name", ["MAXPRICE", "MAXPRICE_PER_HOUR", "MAX_PRICE_PER_HUOR", "LOCATOIN", "MARKTE", "MAX_GPUS_TOTL"]
)
def test_a_limit_with_a_slip_in_it_is_an_error(name: str) -> None:
    (found,) = problems(None, POOL | {f"A_{name}": "x"} | MACHINES)
    assert found.startswith(f"A_{name}: expected A_")


@pytest.mark.parametrize(
    "name", ["", "ALLOCATIONS_", "MARKET_", "MAX_", "MAPS_", "PRICE_", "PAUSE_", "SPOT_", "MAX_GPUS_"]
)
def test_the_variables_of_a_service_are_never_meant_to_limit_a_pool(name: str) -> None:
    link = {
        f"A_{name}{end}": "x"
        for end in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP")
    }
    assert read(None, POOL | link | MACHINES).warnings == read(None, POOL | MACHINES).warnings


def test_a_region_of_another_program_is_no_error_where_the_pool_has_its_locations() -> None:
    environ = POOL | {"A_LOCATIONS": "FIN-01", "A_REGION": "eu-west-1"} | MACHINES
    assert [line for line in read(None, environ).warnings if "A_REGION: is no variable" in line]
    assert problems(None, environ | {"A_REGION": "FIN-02,fin-03"})
    assert problems(None, environ | {"A_LOCATIONS": ""})


def test_the_account_beside_a_pool_of_the_same_prefix_is_nothing_without_effect() -> None:
    environ = renamed(POOL, "A_NAME", "VERDA_NAME") | {"VERDA_INSTANCE_TYPES": "1A100.22V", "VERDA_MAX": "1"}
    environ = {name: value for name, value in environ.items() if not name.startswith("A_")}
    told = read(None, environ | {"VERDA_CLIENT_ID": "i", "VERDA_CLIENT_SECRET": "s"}).warnings
    assert not [line for line in told if "no effect" in line]


def test_any_other_variable_with_the_prefix_of_a_pool_is_told() -> None:
    strangers = {"A_OWNER": "me", "A_IMAGES": "x", "A_KEEP_ON": "true", "A_SVC_SERVICE_HOST": "10.0.0.1"}
    loaded = read(None, POOL | strangers | {"AB_OWNER": "x", "A_B_NAME": "b", "A_B_GPU_COUNT": "1"} | {
        "A_B_SCALE_UP_ENDPOINT": "http://p/1", "A_B_SCALE_DOWN_ENDPOINT": "http://p/2", "A_B_OWNER": "me",
    })  # fmt: skip
    assert loaded.warnings == [
        "A_IMAGES: is no variable of a group and has no effect; did you mean A_IMAGE?",
        "A_KEEP_ON: has no effect beside A_INSTANCE_TYPES: it is a variable of machines that are switched only",
        "A_OWNER: is no variable of a group and has no effect",
    ]


def test_variables_of_a_longer_prefix_are_not_taken_for_those_of_a_shorter_one() -> None:
    environ = renamed(ONE, "GPU_NODE_1", "GPU") | renamed(MACHINES, "GPU_NODE_1", "GPU_NODE_2")
    environ = renamed(ONE, "GPU_NODE_1", "GPU") | {
        k: v for k, v in MACHINES.items() if k.startswith("GPU_NODE_2")
    }
    loaded = read(None, environ)
    assert [m.name for m in loaded.settings.machines] == ["gpu-worker-1", "gpu-worker-2"]
    assert loaded.warnings == []
