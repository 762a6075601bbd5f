"""The unmodified SDK of the cloud against the sandbox cloud: its own idea of every answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from verda import VerdaClient
from verda.exceptions import APIException

from tests.e2e.programs import PROGRAM, SOON, started
from tests.sandbox_cloud.sdk_surface import Walk, surface

SCENARIO = """
- {event: plant, things: [{instance: {hostname: stranger, is_spot: true}}, {disk: {name: lost}}]}
- {fault: answer, status: 503, path: /locations, body: {code: service_unavailable, message: not today}}
- {event: evict, hostname: stranger, at_s: 1600}
"""


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[Any]:
    command = [PROGRAM, "sandbox", "cloud", "--port", "0", "--speed", "400", *words]
    with started(command, folder) as running:
        url = running.line()
        assert url.startswith("http://127.0.0.1:")
        yield VerdaClient("an-id", "a-secret", base_url=url.rstrip("/").removesuffix("/v1") + "/v1")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Any]:
    with served(tmp_path) as client:
        yield client


def eventually(holds: Callable[[], bool], what: str) -> None:
    """A real program at work: looked at again and again, until it is so or too late."""
    end = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < end, f"not within {SOON:.0f} s: {what}"
        time.sleep(0.05)


def buyable(cloud: Any) -> tuple[str, str, str]:
    """A type with GPUs that is in stock, where, and an image that it supports."""
    types = {each.instance_type: each for each in cloud.instance_types.get()}
    for row in cloud.instances.get_availabilities(is_spot=False):
        for name in row["availabilities"]:
            if name in types and types[name].gpu["number_of_gpus"] == 1:
                images = cloud.images.get(instance_type=name)
                if images:
                    return name, row["location_code"], images[0].image_type
    raise AssertionError("nothing with one GPU is in stock")


def test_types_prices_and_images_are_what_the_sdk_expects(cloud: Any) -> None:
    types = cloud.instance_types.get()
    assert len({each.instance_type for each in types}) == len(types) > 10
    assert all(each.price_per_hour > 0 for each in types)
    assert any(each.gpu["number_of_gpus"] == 8 for each in types)
    assert {each.image_type for each in cloud.images.get()}
    assert {each["code"] for each in cloud.locations.get()}
    assert cloud.balance.get().currency


def test_availability_is_told_by_place_and_for_one_type(cloud: Any) -> None:
    name, place, _ = buyable(cloud)
    assert cloud.instances.is_available(name, location_code=place) is True
    only_there = cloud.instances.get_availabilities(is_spot=False, location_code=place)
    assert {row["location_code"] for row in only_there} == {place}


def test_an_instance_lives_from_its_order_to_the_removal_of_its_disk(cloud: Any) -> None:
    name, place, image = buyable(cloud)
    script = cloud.startup_scripts.create("join", "#!/usr/bin/env bash\ntrue\n")
    ordered = cloud.instances.create(
        instance_type=name,
        image=image,
        hostname="home-a100-abcdefghij",
        description="gpuas home abcdefghij",
        location=place,
        startup_script_id=script.id,
        os_volume={"name": "home-a100-abcdefghij", "size": 60},
        wait_for_status=None,
    )
    assert (ordered.hostname, ordered.description) == ("home-a100-abcdefghij", "gpuas home abcdefghij")
    assert (ordered.instance_type, ordered.location, ordered.is_spot) == (name, place, False)
    eventually(lambda: cloud.instances.get_by_id(ordered.id).status == "running", "running")
    running = cloud.instances.get_by_id(ordered.id)
    assert running.ip
    assert ordered.id in [each.id for each in cloud.instances.get()]
    disk = cloud.volumes.get_by_id(running.os_volume_id)
    assert (disk.name, disk.size) == ("home-a100-abcdefghij", 60)
    assert cloud.startup_scripts.get_by_id(script.id).script == "#!/usr/bin/env bash\ntrue\n"

    cloud.instances.action(
        ordered.id, cloud.constants.instance_actions.DELETE, volume_ids=[disk.id], delete_permanently=True
    )
    cloud.startup_scripts.delete_by_id(script.id)
    eventually(lambda: ordered.id not in [each.id for each in cloud.instances.get()], "the instance is gone")
    eventually(lambda: disk.id not in [each.id for each in cloud.volumes.get()], "the disk is gone")
    assert disk.id not in [each.id for each in cloud.volumes.get_in_trash()]
    assert script.id not in [each.id for each in cloud.startup_scripts.get()]


def test_a_wrong_order_is_an_error_of_the_sdks_own_kind(cloud: Any) -> None:
    _, place, image = buyable(cloud)
    with pytest.raises(APIException):
        cloud.instances.create(
            instance_type="99H100.1V",
            image=image,
            hostname="nothing",
            description="nothing",
            location=place,
            wait_for_status=None,
        )
    assert cloud.instances.get() == []


def test_everything_that_the_sdk_can_do_with_machines_works(tmp_path: Path) -> None:
    knobs = tmp_path / "knobs.yaml"
    knobs.write_text("rate_limits: false\n")
    with served(tmp_path, "--settings", str(knobs)) as client:
        used = Walk(client, SOON).all()
        assert surface(client) - used == set()


def test_a_scenario_begins_with_the_program(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(SCENARIO)
    with served(tmp_path, "--scenario", str(path)) as client:
        assert [one.hostname for one in client.instances.get()] == ["stranger"]
        assert "lost" in [one.name for one in client.volumes.get()]
        with pytest.raises(APIException, match="not today"):
            client.locations.get()
        assert client.locations.get()
        eventually(lambda: client.instances.get() == [], "the stranger is evicted")
