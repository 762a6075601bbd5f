"""Offers as the plan sees them: what is paid, what is booted, what nodes will be labelled, what changes at run time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import DeviceClaim, DeviceRequest, PodDeviceClaim
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.policy import Limits
from controller.domain.prices import PriceRule
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, NOW, machine, node, offers, pod, policy, pool, world

CHEAPER = {"2a100-44v": PriceRule(on_demand=Decimal("1.00"))}
PRODUCT = "nvidia.com/gpu.product"


def bought(snapshot: Snapshot) -> list[Launch]:
    return [action for action in plan(snapshot).actions if isinstance(action, Launch)]


# -- prices


def test_the_price_that_is_paid_chooses_and_is_recorded() -> None:
    snapshot = world(policy=policy(prices=CHEAPER, strategy="cheapest"), pods=(pod(),))
    (launch,) = bought(snapshot)
    assert (launch.offer.type.name, launch.offer.price) == ("2A100.44V", Decimal("1.00"))
    assert "1.00 an hour" in plan(snapshot).pods["default/train"].message


def test_limits_are_about_what_is_paid() -> None:
    tenth_off = {"*": PriceRule(discount=Decimal("0.10"))}
    tight = Limits(price_per_hour=Decimal("1.20"))  # below the list price of 1.29, above what is paid
    assert not bought(world(policy=policy(limits=tight), pods=(pod(),)))
    assert bought(world(policy=policy(limits=tight, prices=tenth_off), pods=(pod(),)))
    own = pool(max_price_per_hour=Decimal("1.20"))
    assert not bought(world(policy=policy(own), pods=(pod(),)))
    assert bought(world(policy=policy(own, prices=tenth_off), pods=(pod(),)))


def test_a_dearer_agreed_price_is_no_way_around_a_limit() -> None:
    dearer = {"a100-80gb": PriceRule(on_demand=Decimal("9.00"))}
    snapshot = world(
        policy=policy(limits=Limits(price_per_hour=Decimal("5")), prices=dearer),
        offers=offers(A1),
        pods=(pod(),),
    )
    assert plan(snapshot).pods["default/train"].code is Reason.LIMIT_PRICE


def test_the_same_snapshot_is_priced_once_however_often_it_is_planned() -> None:
    snapshot = world(policy=policy(prices={"*": PriceRule(discount=Decimal("0.5"))}), pods=(pod(),))
    assert [launch.offer.price for launch in bought(snapshot)] == [Decimal("0.645")]
    assert plan(snapshot) == plan(snapshot)
    assert snapshot.offers[0].price == Decimal("1.29")


# -- images


def test_a_type_without_an_image_is_no_offer_and_the_reason_is_told() -> None:
    sold = offers(replace(A1, images=()), replace(A2, images=("jupyter",)))
    told = plan(world(offers=sold, pods=(pod(),))).pods["default/train"]
    assert told.code is Reason.IMAGE_NOT_SUPPORTED
    assert "1A100.22V has no image at the cloud" in told.message


# -- labels


def test_a_pod_finds_its_gpu_by_product_memory_family_and_count() -> None:
    wanted = {
        PRODUCT: "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/gpu.count": "2",
    }
    (launch,) = bought(world(pods=(pod(node_selector=wanted),)))
    assert launch.offer.type.name == "2A100.44V"


def test_where_nothing_discovers_gpus_their_labels_are_not_expected() -> None:
    wanted = pod(node_selector={PRODUCT: "NVIDIA-A100-SXM4-80GB"})
    bare = world(policy=policy(pool(feature_discovery=False)), pods=(wanted,))
    assert plan(bare).pods["default/train"].code is Reason.SELECTOR
    assert bought(world(policy=policy(pool(feature_discovery=False)), pods=(pod(),)))


def test_where_claims_are_served_only_labels_that_somebody_wrote_are_expected() -> None:
    """Feature discovery does not run there, whatever it would write beside the device plug-in."""
    product, claims = {PRODUCT: "NVIDIA-A100-SXM4-80GB"}, {"resource_claims": "always"}
    wanted = pod(gpus=0, node_selector=product, device_claims=(PodDeviceClaim(name="gpu", claim="gpu"),))
    asked = DeviceClaim(
        namespace="default", name="gpu", requests=(DeviceRequest(device_class="gpu.nvidia.com"),)
    )
    more: dict[str, Any] = {"pods": (wanted,), "device_claims": (asked,)}
    bare = world(policy=policy(pool(**claims)), **more)
    assert plan(bare).pods["default/train"].code is Reason.SELECTOR
    assert not bought(bare)
    assert bought(world(policy=policy(pool(labels=product, **claims)), **more))
    mine = machine(of=A1, ready_at=NOW - 600)
    living = node(mine.name, 0, cpu=0, labels={"gpu-autoscaler/pool": "a100", **product})
    assert bought(world(policy=policy(pool(**claims)), machines=(mine,), nodes=(living,), **more))


def test_the_settings_say_what_the_table_does_not_know() -> None:
    wanted = pod(node_selector={PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED"})
    assert not bought(world(pods=(wanted,)))
    shared = {"a100-80gb": {PRODUCT: "NVIDIA-A100-SXM4-80GB-SHARED"}}
    assert bought(world(policy=policy(gpu_labels=shared), pods=(wanted,)))


def ready(name: str, product: str, **more: Any) -> dict[str, Any]:
    mine = machine(name, phase=Phase.READY, ready_at=1.0)
    shown = node(
        name, labels={"kubernetes.io/hostname": name, PRODUCT: product, "nvidia.com/gpu.memory": "1"}
    )
    busy = pod("other", node=name)
    return {"machines": (mine,), "nodes": (shown,), "pods": (busy, *more.pop("pods", ()))}


def test_what_a_living_node_shows_wins_for_the_next_of_its_kind() -> None:
    wanted = pod(node_selector={PRODUCT: "NVIDIA-A100-SXM4-80GB-NEW"})
    taught = ready("home-a100-aaaaaaaaaa", "NVIDIA-A100-SXM4-80GB-NEW", pods=(wanted,))
    assert [launch.offer.type.name for launch in bought(world(**taught))] == ["1A100.22V"]
    old = pod(node_selector={PRODUCT: "NVIDIA-A100-SXM4-80GB"})
    assert not bought(world(offers=offers(A1), **ready("home-a100-aaaaaaaaaa", "OTHER", pods=(old,))))


def test_a_node_whose_mig_layout_is_broken_teaches_nothing() -> None:
    old = pod(node_selector={PRODUCT: "NVIDIA-A100-SXM4-80GB"})
    broken = ready("home-a100-aaaaaaaaaa", "NVIDIA-A100-SXM4-80GB-MIG-INVALID", pods=(old,))
    assert bought(world(**broken))


# -- a catalogue that changes


def test_a_machine_on_its_way_whose_type_left_the_catalogue_still_holds_its_pod() -> None:
    coming = machine(phase=Phase.BOOTING, pods=("default/train",))
    told = plan(world(offers=offers(A2), machines=(coming,), pods=(pod(),)))
    assert told.pods["default/train"].code is Reason.ON_THE_WAY
    assert not [action for action in told.actions if isinstance(action, Launch)]


def test_a_ready_machine_of_a_renamed_type_counts_against_the_limits() -> None:
    renamed = replace(A1, name="1A100.24V")
    there = ready("home-a100-aaaaaaaaaa", "x", pods=(pod(),))
    limited = policy(pool(instance_types=("1A100.24V",)), limits=Limits(gpus=1))
    told = plan(world(policy=limited, offers=offers(renamed), **there))
    assert told.pods["default/train"].code is Reason.LIMIT_GPUS
    assert bought(world(policy=policy(pool(instance_types=("1A100.24V",))), offers=offers(renamed), **there))


def test_a_pool_whose_only_type_vanished_says_so() -> None:
    told = plan(world(policy=policy(pool(instance_types=("1GONE.1V",))), pods=(pod(),)))
    assert told.pods["default/train"].code is Reason.NO_CAPACITY
    assert "check their types" in told.pods["default/train"].message


@pytest.mark.parametrize("model", ["GB300", "H100"])
def test_a_vanished_type_keeps_its_architecture(model: str) -> None:
    arch = "arm64" if model == "GB300" else "amd64"
    coming = machine(of=replace(A1, name="1OLD.1V", model=model), phase=Phase.BOOTING)
    wanted = pod(node_selector={"kubernetes.io/arch": arch})
    assert plan(world(offers=(), machines=(coming,), pods=(wanted,))).pods["default/train"].code is (
        Reason.ON_THE_WAY
    )
