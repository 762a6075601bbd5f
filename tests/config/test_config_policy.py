"""Defaults, what planning gets to see, and what is told because the machine's own facts count instead."""

from __future__ import annotations

from decimal import Decimal

import pytest

from controller.config.load import load, load_dict
from controller.config.policy import to_policy
from controller.config.settings import Settings
from controller.domain.kube import Taint
from controller.domain.names import hostname
from controller.domain.policy import Billing, Deadlines, Headroom, Limits, NamespaceLimit, Policy, Pool
from controller.domain.prices import PriceRule
from controller.domain.windows import Window

POOL = {"name": "a100", "instance_types": ["1A100.22V"], "max": 4}


def test_the_defaults_are_those_that_the_domain_states_too() -> None:
    assert to_policy(Settings(), cluster_id="home") == Policy(cluster_id="home")
    assert to_policy(load_dict({"pools": [POOL]}).settings, cluster_id="home").pools == (
        Pool(name="a100", instance_types=("1A100.22V",), max=4),
    )


def test_a_pool_is_translated_field_by_field() -> None:
    pool = {
        **POOL,
        "gpu_models": ["A100 80GB"],
        "min_gpu_memory_gb": 40,
        "max_gpus": 2,
        "locations": ["FIN-03", "FIN-01"],
        "market": "prefer_spot",
        "min": 1,
        "max_gpus_total": 8,
        "max_price_per_hour": 3.1,
        "image": ["one", "two"],
        "disk_gb": 200,
        "ssh_key_ids": ["k"],
        "labels": {"team": "ml"},
        "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}, "a:NoExecute"],
        "resources": {"nvidia.com/mig-1g.10gb": 7, "cpu": "1500m", "memory": "1.5Gi"},
        "arm64": True,
        "startup_taint": True,
        "feature_discovery": False,
        "expire_after": "7d",
        "resource_claims": "always",
        "pause": "scale-up",
    }
    settings = load_dict(
        {"cluster_id": "home", "pools": [pool], "join": {"k": {"startup_script_id": "s"}}}
    ).settings
    assert to_policy(settings).pools == (
        Pool(
            name="a100",
            instance_types=("1A100.22V",),
            gpu_models=("A100 80GB",),
            min_gpu_memory_gb=40,
            max_gpus=2,
            locations=("FIN-03", "FIN-01"),
            market="prefer_spot",
            min=1,
            max=4,
            max_gpus_total=8,
            max_price_per_hour=Decimal("3.1"),
            images=("one", "two"),
            disk_gb=200,
            ssh_key_ids=("k",),
            labels={"team": "ml"},
            taints=(Taint("nvidia.com/gpu", "present"), Taint("a", "", "NoExecute")),
            resources={"nvidia.com/mig-1g.10gb": 7, "cpu": 1500, "memory": 3 * 2**29},
            join="k",
            arm64=True,
            startup_taint=True,
            feature_discovery=False,
            expire_after=7 * 86400.0,
            resource_claims="always",
            pause="scale-up",
        ),
    )


def test_the_rest_is_translated_in_seconds() -> None:
    settings = load_dict(
        {
            "cluster_id": "home",
            "namespace": "ops",
            "limits": {
                "machines": 1,
                "gpus": 2,
                "price_per_hour": 3,
                "price_per_month": 4,
                "launches_per_minute": 5,
                "cores": 6,
                "memory_gb": 7,
                "cluster_wide": True,
            },
            "pools": [{"name": "a", "gpu_models": ["X"], "max": 1}],
            "namespaces": {"team-a": {"gpus": 2}, "team-b": {"price_per_hour": "1.5"}},
            "headroom": [
                {"pool": "a", "gpus": 1},
                {"pool": "a", "gpus": 2, "schedule": "Mon-Fri 08:00-18:00 UTC", "max_price_per_hour": 3},
                {"pool": "a", "gpus": 3, "schedule": ["Sat 08:00-18:00 UTC", "Sun 08:00-09:00 UTC"]},
            ],
            "billing": {
                "increment_s": 60,
                "refund_unused": False,
                "reserve_hours": 2,
                "on_exhausted": "drain_idle",
            },
            "scale_up": {"strategy": "cheapest"},
            "scale_down": {
                "cooldown": "1m",
                "order": "dearest",
                "min_age": "2h",
                "removed_pools": "keep",
                "consolidate": False,
                "consolidate_saving": 2.5,
            },
            "disruption": {
                "budget": 3,
                "budgets": {"drifted": "10%", "consolidation": 0},
                "windows": ["daily 20:00-06:00 Europe/Helsinki"],
                "not_during": ["Sun 00:00-24:00 UTC"],
            },
            "planning": {
                "scheduler_names": ["mine"],
                "priority_cutoff": 0,
                "ignore_namespaces": ["x"],
                "quota_messages": ["over quota"],
                "gangs_in_one_location": True,
                "fractions": "kai",
            },
            "deadlines": {
                "launch": "1m",
                "unknown_create": {"lists": 4, "over": 90},
                "backoff": {"first": "1s"},
            },
        }
    ).settings
    assert to_policy(settings, cluster_id="derived") == Policy(
        cluster_id="home",
        namespace="ops",
        limits=Limits(
            machines=1,
            gpus=2,
            cores=6,
            memory_gb=7,
            cluster_wide=True,
            price_per_hour=Decimal(3),
            price_per_month=Decimal(4),
            launches_per_minute=5,
        ),
        pools=(Pool(name="a", gpu_models=("X",), max=1),),
        namespaces={
            "team-a": NamespaceLimit(gpus=2),
            "team-b": NamespaceLimit(price_per_hour=Decimal("1.5")),
        },
        headroom=(
            Headroom(pool="a", gpus=1),
            Headroom(
                pool="a",
                gpus=2,
                schedule=(Window((0, 1, 2, 3, 4), 480, 1080, "UTC"),),
                max_price_per_hour=Decimal(3),
            ),
            Headroom(
                pool="a",
                gpus=3,
                schedule=(Window((5,), 480, 1080, "UTC"), Window((6,), 480, 540, "UTC")),
            ),
        ),
        billing=Billing(increment=60, refund_unused=False, reserve_hours=2, drain_idle=True),
        deadlines=Deadlines(launch=60, unknown_lists=4, unknown_over=90, backoff_first=1),
        strategy="cheapest",
        cooldown=60,
        order="dearest",
        min_age=7200,
        removed_pools="keep",
        consolidate="off",
        consolidate_saving=Decimal("2.5"),
        disruption_budget="3",
        disruption_budgets={"drifted": "10%", "consolidation": "0"},
        windows=(Window((0, 1, 2, 3, 4, 5, 6), 1200, 360, "Europe/Helsinki"),),
        not_during=(Window((6,), 0, 1440, "UTC"),),
        scheduler_names=("mine",),
        priority_cutoff=0,
        ignore_namespaces=("x",),
        quota_messages=("over quota",),
        gangs_in_one_location=True,
        fractions="kai",
    )


@pytest.mark.parametrize(
    ("entry", "own", "after_create"),
    [
        ({"template": "k3s"}, True, False),
        ({"template": "k3s", "delete_script": "after_create"}, True, True),
        ({"startup_script_id": "s"}, False, False),
    ],
)
def test_pools_know_whether_their_machines_have_a_script_of_their_own(
    entry: dict[str, str], own: bool, after_create: bool
) -> None:
    more = {"server": "https://x", "token_from": {"secret": {"name": "a", "key": "b"}}}
    join = {"here": entry if "startup_script_id" in entry else entry | more}
    settings = load_dict(
        {"pools": [POOL], "join": join, "verda": {"script_quota": 200}, "limits": {"scripts": 9}}
    )
    policy = to_policy(settings.settings, cluster_id="c")
    assert (policy.pools[0].own_script, policy.pools[0].script_after_create) == (own, after_create)
    assert (policy.script_quota, policy.limits.scripts) == (200, 9)


def test_agreed_prices_and_labels_are_found_however_a_type_or_model_is_spelt() -> None:
    settings = load_dict(
        {
            "prices": {
                "*": {"discount": "12.5%"},
                "1A100.22V": {"price_per_hour": "1.10", "spot_price_per_hour": 0.4},
            },
            "gpu_labels": {
                "A100 80GB": {"product": "NVIDIA-A100-SXM4-80GB-SHARED", "memory": 81251},
                "2A100.44V": {"family": "ampere", "count": 14},
            },
        }
    ).settings
    policy = to_policy(settings, cluster_id="c")
    assert policy.prices == {
        "*": PriceRule(discount=Decimal("0.125")),
        "1a100-22v": PriceRule(on_demand=Decimal("1.10"), spot=Decimal("0.4")),
    }
    assert policy.gpu_labels == {
        "a100-80gb": {
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED",
            "nvidia.com/gpu.memory": "81251",
        },
        "2a100-44v": {"nvidia.com/gpu.family": "ampere", "nvidia.com/gpu.count": "14"},
    }


def test_without_any_cluster_id_there_is_no_policy() -> None:
    with pytest.raises(ValueError, match="cluster id"):
        to_policy(Settings())


@pytest.mark.parametrize(("template", "reserves"), [("k3s", False), ("kubeadm", True)])
def test_memory_is_kept_back_where_the_kubelet_does_so(template: str, reserves: bool) -> None:
    entry = {"template": template, "server": "https://x", "token_from": {"secret": {"name": "a", "key": "b"}}}
    settings = load_dict({"pools": [POOL], "join": {"here": entry}}).settings
    assert to_policy(settings, cluster_id="c").kubelet_reserves_memory is reserves


def test_the_longest_names_make_a_hostname_of_at_most_60() -> None:
    pool = {**POOL, "name": "p" * 20}
    settings = load_dict({"cluster_id": "c" * 20, "pools": [pool]}).settings
    policy = to_policy(settings)
    assert len(hostname(policy.cluster_id, policy.pools[0].name, "a" * 10)) <= 60


def test_every_part_has_an_effect_and_a_label_that_has_none_is_told_with_its_value() -> None:
    text = """\
machines:
  - {name: w1, gpu_count: 4, scale_up_endpoint: "http://power/on", scale_down_endpoint: "http://power/off"}
limits: {price_per_month: 3000}
billing: {increment_s: 600, reserve_hours: 2}
namespaces: {team-a: {gpus: 2}}
headroom: [{pool: a, gpus: 1}]
pools: [{name: a, gpu_models: [X], max: 1, labels: {topology.kubernetes.io/zone: z}}]
join: {mine: {startup_script_id: s}}
"""
    loaded = load("config.yaml", {}, text=text, service_account="/nonexistent")
    assert loaded.warnings == [
        'config.yaml:7: pools[0].labels["topology.kubernetes.io/zone"] = z: '
        "is set from the machine's own facts instead",
    ]
    assert to_policy(loaded.settings, cluster_id="c").pools[0].labels == {}


@pytest.mark.parametrize(
    "label",
    ["team", "example.com/team", "node.kubernetes.io/x", "a.node.kubernetes.io/x", "kubelet.kubernetes.io/x"],
)
def test_a_label_that_a_kubelet_may_set_is_taken(label: str) -> None:
    settings = load_dict({"pools": [{**POOL, "labels": {label: "x"}}]}).settings
    assert to_policy(settings, cluster_id="c").pools[0].labels == {label: "x"}
