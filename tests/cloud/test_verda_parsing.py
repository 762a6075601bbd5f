"""Rows of the API as nouns: what is tolerated, what is not, and the body of an order."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import pytest

from controller.cloud.protocol import Order
from controller.cloud.verda import orders, parsing
from controller.cloud.verda.offers import offers
from controller.cloud.verda.wire import exact_json
from controller.domain.cloudthings import ON_DEMAND, SPOT, InstanceType

ID = "8472bacf-875d-4e86-ad31-4a5d2dcd5f4d"
TYPE: dict[str, Any] = {
    "instance_type": "8H100.80S.176V",
    "model": "H100",
    "gpu": {"description": "8x H100 SXM5 80GB", "number_of_gpus": 8},
    "cpu": {"description": "176 CPU", "number_of_cores": 176},
    "memory": {"size_in_gigabytes": 1480},
    "gpu_memory": {"size_in_gigabytes": 640},
    "price_per_hour": "18.32",
    "spot_price": "6.412",
    "supported_os": ["ubuntu-24.04"],
    "surprise": {"new": "field"},
}


def test_an_instance_is_read_with_its_tags_disks_and_exact_price() -> None:
    row = exact_json(
        f"""{{"id": "{ID}", "ip": null, "status": "hovering", "created_at": "2023-07-15T14:10:26.654Z",
        "hostname": "home-a100-abcdefghij", "description": "gpuas home abcdefghij", "location": "FIN-03",
        "instance_type": "1A100.22V", "price_per_hour": 1.79, "is_spot": true, "startup_script_id": null,
        "os_volume_id": "disk-1", "volume_ids": ["disk-1", "disk-2"], "jupyter_token": "t",
        "tags": [{{"id": "tag_1", "key": "gpuas-cluster", "value": "home"}}, {{"key": "free", "value": null}}]}}"""
    )
    one = parsing.instance(row)
    assert (one.id, one.hostname, one.description) == (ID, "home-a100-abcdefghij", "gpuas home abcdefghij")
    assert (one.status, one.state) == ("hovering", "unknown")
    assert one.price == Decimal("1.79")
    assert one.created_at == pytest.approx(1689430226.654)
    assert (one.market, one.ip, one.script_id) == (SPOT, "", "")
    assert one.tags == (("gpuas-cluster", "home"), ("free", ""))
    assert (one.os_volume_id, one.volume_ids) == ("disk-1", ("disk-1", "disk-2"))


def test_an_id_is_the_same_in_capitals() -> None:
    """The id in the answer to an order is read in small letters: a list in capitals must not show a second machine."""
    disk, script = ID.replace("8", "a"), ID.replace("8", "b")
    one = parsing.instance(
        {"id": ID.upper(), "os_volume_id": disk.upper(), "volume_ids": [disk.upper()], "startup_script_id": script.upper()}
    )  # fmt: skip
    assert (one.id, one.os_volume_id, one.volume_ids, one.script_id) == (ID, disk, (disk,), script)
    held = parsing.volume({"id": disk.upper(), "instance_id": ID.upper(), "instances": [{"id": ID}]})
    assert (held.id, held.instance_id) == (disk, ID)
    assert parsing.volume({"id": disk, "instances": [ID.upper()]}).instance_id == ID
    assert parsing.script({"id": script.upper()}).id == script
    assert parsing.instance({"id": "Not-A-UUID"}).id == "Not-A-UUID"


@pytest.mark.parametrize(
    ("row", "holder"),
    [
        ({"instance_id": "now", "instances": [{"id": "now", "hostname": "database"}]}, "now"),
        ({"instance_id": "before", "instances": [{"id": "now", "hostname": "database"}]}, "now"),
        ({"instance_id": "before", "instances": ["now"]}, "now"),
        ({"instance_id": None, "instances": [{"id": "now"}]}, "now"),
        ({"instance_id": "second", "instances": [{"id": "first"}, {"id": "second"}]}, "second"),
        ({"instance_id": "before", "instances": []}, "before"),
        ({"instance_id": "before", "instances": [None, {"hostname": "x"}]}, "before"),
        ({}, ""),
    ],
)
def test_a_disk_is_where_its_list_of_instances_says_for_its_instance_id_may_be_stale(
    row: dict[str, Any], holder: str
) -> None:
    """A disk of ours that was attached to a machine of somebody else's must not look like a loose one."""
    assert parsing.volume({"id": "disk-1", **row}).instance_id == holder


def test_an_instance_needs_nothing_but_its_id() -> None:
    one = parsing.instance({"id": ID})
    assert (one.status, one.market, one.price, one.created_at, one.volume_ids) == (
        "unknown", ON_DEMAND, Decimal(0), 0.0, (),
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "1970-01-01T00:00:00Z",
        "9999-12-31T23:59:59-14:00",
        "soon",
    ],
)
def test_a_time_that_cannot_be_meant_is_none(text: str) -> None:
    assert parsing.instance({"id": ID, "created_at": text}).created_at == 0.0


def test_an_instance_of_wrong_types_everywhere_is_read_as_empty() -> None:
    row = {
        "id": ID, "hostname": 7, "status": None, "created_at": 12, "price_per_hour": "free", "is_spot": "x",
        "tags": "none", "volume_ids": {"a": 1}, "os_volume_id": [], "ip": {},
    }  # fmt: skip
    assert parsing.instance(row) == parsing.instance({"id": ID})


@pytest.mark.parametrize("id_", [None, "", 7, ["x"]])
def test_a_row_without_an_id_is_unreadable(id_: object) -> None:
    for parse in (parsing.instance, parsing.volume, parsing.script):
        with pytest.raises(parsing.Unreadable):
            parse({"id": id_})


def test_broken_rows_are_skipped_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found, broken = parsing.rows(
            [TYPE, {**TYPE, "price_per_hour": None}, None], parsing.instance_type, "/x"
        )
    assert [one.name for one in found] == ["8H100.80S.176V"]
    assert broken == 2
    assert "row 8H100.80S.176V skipped: price_per_hour" in caplog.text
    assert "row number 2 skipped" in caplog.text


def test_an_answer_that_is_no_list_is_unreadable() -> None:
    answers: tuple[object, ...] = (None, {}, {"data": []}, "x", 1)
    for value in answers:
        with pytest.raises(parsing.Unreadable):
            parsing.rows(value, parsing.instance, "/instances")


def test_a_type_is_read_from_its_fields_and_not_from_its_name() -> None:
    assert parsing.instance_type(TYPE) == InstanceType(
        name="8H100.80S.176V", model="H100", gpus=8, vcpus=176, memory_gib=1480, gpu_memory_gib=640,
        price=Decimal("18.32"), spot_price=Decimal("6.412"), images=("ubuntu-24.04",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("price", "expected"),
    [("0.04830", "0.04830"), (Decimal("1.290"), "1.290"), (3, "3"), ("10.32", "10.32")],
)
def test_prices_are_exact_as_text_or_as_number(price: object, expected: str) -> None:
    assert parsing.instance_type({**TYPE, "price_per_hour": price}).price == Decimal(expected)


@pytest.mark.parametrize("price", [None, "", "free", True, "NaN", "Infinity", "-1", [], "1e99"])
def test_a_type_without_a_price_is_unreadable(price: object) -> None:
    with pytest.raises(parsing.Unreadable):
        parsing.instance_type({**TYPE, "price_per_hour": price})


@pytest.mark.parametrize("key", ["cpu", "memory"])
@pytest.mark.parametrize(
    "value", [None, {}, "30 CPU", {"number_of_cores": None, "size_in_gigabytes": "much"}]
)
def test_a_type_without_its_resources_is_unreadable(key: str, value: object) -> None:
    with pytest.raises(parsing.Unreadable):
        parsing.instance_type({**TYPE, key: value})


def test_a_gpu_type_whose_gpus_cannot_be_counted_is_unreadable() -> None:
    with pytest.raises(parsing.Unreadable):
        parsing.instance_type({**TYPE, "gpu": {"description": "8x H100"}})


@pytest.mark.parametrize(
    ("model", "arch"),
    [
        ("GB300", "arm64"),
        ("gb200 NVL", "arm64"),
        ("GH200", "arm64"),
        ("B300", "amd64"),
        ("H100", "amd64"),
        ("", "amd64"),
    ],
)
def test_machines_with_a_grace_cpu_are_arm64(model: str, arch: str) -> None:
    assert parsing.instance_type({**TYPE, "model": model}).arch == arch


def test_numbers_never_pass_through_binary_floating_point() -> None:
    assert exact_json("[0.1, 1.79]") == [Decimal("0.1"), Decimal("1.79")]
    for text in ("NaN", "[Infinity]", "1e99999999999999999999", "[" * 100_000):
        with pytest.raises(ValueError):
            exact_json(text)


def test_every_type_is_offered_everywhere_and_available_where_it_is_in_stock() -> None:
    kind = parsing.instance_type(TYPE)
    found = offers(
        [kind],
        ["FIN-01", "FIN-02"],
        {"FIN-01": frozenset({"8H100.80S.176V"})},
        {"ICE-01": frozenset({"8H100.80S.176V"})},
    )
    assert {offer.key: offer.available for offer in found} == {
        "8H100.80S.176V/FIN-01/on-demand": True,
        "8H100.80S.176V/FIN-01/spot": False,
        "8H100.80S.176V/FIN-02/on-demand": False,
        "8H100.80S.176V/FIN-02/spot": False,
        "8H100.80S.176V/ICE-01/on-demand": False,
        "8H100.80S.176V/ICE-01/spot": True,
    }  # fmt: skip


def test_a_market_without_a_price_is_not_offered() -> None:
    kind = parsing.instance_type({**TYPE, "spot_price": None})
    assert [offer.market for offer in offers([kind], ["FIN-01"], {}, {})] == [ON_DEMAND]


def order(**changes: Any) -> Order:
    values: dict[str, Any] = {
        "hostname": "home-a100-abcdefghij",
        "description": "gpuas home abcdefghij",
        "tags": (("gpuas-cluster", "home"), ("free", "")),
        "instance_type": "1A100.22V",
        "location": "FIN-03",
        "market": ON_DEMAND,
        "image": "ubuntu-24.04",
        "disk_gb": 100,
        "ssh_key_ids": ("key-1",),
        "script_id": "script-1",
    }
    return Order(**{**values, **changes})


def test_an_on_demand_order_says_exactly_this() -> None:
    tags = [{"key": "gpuas-cluster", "value": "home"}, {"key": "free"}]
    assert orders.body(order()) == {
        "instance_type": "1A100.22V",
        "image": "ubuntu-24.04",
        "hostname": "home-a100-abcdefghij",
        "description": "gpuas home abcdefghij",
        "location_code": "FIN-03",
        "ssh_key_ids": ["key-1"],
        "startup_script_id": "script-1",
        "is_spot": False,
        "contract": "PAY_AS_YOU_GO",
        "os_volume": {"name": "home-a100-abcdefghij", "size": 100, "tags": tags},
        "tags": tags,
    }


def test_a_spot_order_takes_its_disk_along_when_it_is_evicted() -> None:
    body = orders.body(order(market=SPOT, script_id="", ssh_key_ids=()), with_tags=False)
    assert (body["is_spot"], body["contract"], body["startup_script_id"]) == (True, "SPOT", None)
    assert body["os_volume"] == {
        "name": "home-a100-abcdefghij", "size": 100, "on_spot_discontinue": "delete_permanently",
    }  # fmt: skip
    assert "tags" not in body


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("gpuas home abcdefghij", "gpuas home abcdefghij"),
        ("gpuas home abcdefghij " + "x" * 60, "gpuas home abcdefghij"),
        ("a" * 70, "a" * 60),
        ("two\nlines", "two lines"),
        ("a" * 30 + " " + "b" * 29, "a" * 30 + " " + "b" * 29),
    ],
)
def test_a_description_is_cut_between_words(text: str, cut: str) -> None:
    assert orders.description(text) == cut


def test_the_contract_of_a_machine_is_read() -> None:
    """One that is paid for in advance is never ours to delete."""
    assert parsing.instance({"id": "a", "contract": "LONG_TERM"}).contract == "LONG_TERM"
    assert parsing.instance({"id": "a", "contract": None}).contract == ""
