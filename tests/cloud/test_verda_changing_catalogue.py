"""A catalogue that changes while we look: the adapter against the sandbox cloud over real HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from msgspec.structs import replace

from controller.cloud.protocol import CloudError
from controller.domain.cloudthings import Offer
from controller.domain.images import image_for
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from tests.cloud.test_verda_on_sandbox import ORDER, Scene

KEY = "1A100.22V/FIN-03/on-demand"


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    opened = await Scene().open(types_ttl=0, locations_ttl=0)
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


async def offers(scene: Scene) -> dict[str, Offer]:
    scene.now += 1
    return {offer.key: offer for offer in (await scene.cloud.catalogue()).offers}


async def test_prices_are_those_of_now_in_both_markets(scene: Scene) -> None:
    assert (await offers(scene))[KEY].price == Decimal("1.290")
    scene.set(prices={"1A100.22V": {"price_per_hour": "1.79", "spot_price": "0.895"}})
    found = await offers(scene)
    assert found[KEY].price == Decimal("1.790")
    assert found["1A100.22V/FIN-03/spot"].price == Decimal("0.8950")


async def test_a_market_whose_price_becomes_nothing_is_not_offered(scene: Scene) -> None:
    scene.set(prices={"1A100.22V": {"spot_price": "0"}})
    found = await offers(scene)
    assert KEY in found
    assert "1A100.22V/FIN-03/spot" not in found


async def test_types_vanish_appear_and_are_renamed(scene: Scene) -> None:
    scene.set(removed_types=["1A100.22V"], renamed_types={"1GB300.32V": "1GB300.36V"})
    found = await offers(scene)
    assert KEY not in found
    assert "1GB300.32V/FIN-03/on-demand" not in found
    assert found["1GB300.36V/FIN-03/on-demand"].type.arch == "arm64"
    scene.set(removed_types=[])
    assert KEY in await offers(scene)


async def test_a_machine_whose_type_vanished_is_still_understood(scene: Scene) -> None:
    await scene.order_running()
    scene.set(removed_types=["1A100.22V"])
    (one,) = (await scene.cloud.inventory()).instances
    assert (one.instance_type, one.gpus, one.vcpus, one.memory_gib) == ("1A100.22V", 1, 22, 120)
    assert one.price == Decimal("1.29")


async def test_an_order_for_a_type_that_just_vanished_is_refused_and_buys_nothing(scene: Scene) -> None:
    scene.set(removed_types=["1A100.22V"])
    outcome = await scene.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.BAD_REQUEST


async def test_a_location_that_is_missing_in_an_availability_list_has_no_stock_there(scene: Scene) -> None:
    row = {"location_code": "FIN-01", "availabilities": ["1A100.22V"]}
    path = "/instance-availability"
    scene.faults.replace([{"method": "GET", "path": path, "fault": "answer", "status": 200, "body": [row]}])
    found = [offer for offer in (await offers(scene)).values() if offer.type.name == "1A100.22V"]
    one_market = [o for o in found if not all(p.available for p in found if p.market == o.market)]
    assert [(o.location, o.available) for o in one_market] == [
        ("FIN-01", True), ("FIN-02", False), ("FIN-03", False), ("ICE-01", False),
    ]  # fmt: skip


async def test_a_location_that_only_an_availability_list_names_is_offered(scene: Scene) -> None:
    row = {"location_code": "NOR-01", "availabilities": ["1A100.22V"]}
    scene.faults.replace(
        [
            {
                "method": "GET",
                "path": "/instance-availability",
                "fault": "answer",
                "status": 200,
                "body": [row],
            },
            {
                "method": "GET",
                "path": "/instance-availability",
                "fault": "answer",
                "status": 200,
                "body": [row],
            },
        ]
    )
    found = await offers(scene)
    assert found["1A100.22V/NOR-01/on-demand"].available
    assert found["1A100.22V/NOR-01/spot"].available
    assert not found["2A100.44V/NOR-01/spot"].available


async def test_spot_and_on_demand_stock_are_two_questions(scene: Scene) -> None:
    scene.world.state.stock.replace(
        [
            {"instance_type": "1A100.22V", "market": "on-demand", "count": 0},
            {"instance_type": "2A100.44V", "market": "spot", "count": 0},
        ]
    )
    found = await offers(scene)
    assert not found[KEY].available
    assert found["1A100.22V/FIN-03/spot"].available
    assert found["2A100.44V/FIN-03/on-demand"].available
    assert not found["2A100.44V/FIN-03/spot"].available


async def test_the_automatic_image_of_every_type_is_one_that_the_cloud_accepts(scene: Scene) -> None:
    kinds = {offer.type.name: offer for offer in (await offers(scene)).values() if offer.available}
    ordered = 0
    for name, offer in kinds.items():
        image = image_for((), offer.type)
        assert bool(image) is bool(offer.type.images), name
        if image:
            await scene.order(replace(ORDER, instance_type=name, image=image, location=offer.location))
            ordered += 1
    assert ordered == 52  # all but the three GB300


async def test_prices_come_in_the_currency_that_was_asked_for() -> None:
    scene = await Scene().open(currency="eur", types_ttl=0)
    try:
        catalogue = await scene.cloud.catalogue()
        assert catalogue.currency == "eur"
        assert {o.key: o.price for o in catalogue.offers}[KEY] == Decimal("1.109")
        body = [{"instance_type": "1A100.22V", "price_per_hour": "1.29", "currency": "USD"}]
        scene.now += 1
        scene.fault("GET", "/instance-types", "answer", status=200, body=body, times=0)
        with pytest.raises(CloudError, match="prices are in usd, asked for were eur"):
            await scene.cloud.catalogue()
    finally:
        await scene.close()


async def test_rows_that_cannot_be_read_are_left_out_and_named(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    row = {"instance_type": "1NEW.1V", "price_per_hour": None}
    scene.fault("GET", "/instance-types", "answer", status=200, body=[row])
    with caplog.at_level(logging.WARNING):
        assert await offers(scene) == {}
    assert "row 1NEW.1V skipped" in caplog.text
