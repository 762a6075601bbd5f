"""Changed settings that the program as it was started could not live up to."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from controller.app.exits import Ends
from controller.app.reload import Reload
from controller.cloud.none import NoCloud
from controller.config.load import load_dict
from tests.fleet.fakes import A1


async def test_pools_that_come_where_no_account_was_are_refused_and_told() -> None:
    """Nothing would ever be bought for them."""
    loaded = load_dict(
        {"pools": [{"name": "a100", "instance_types": [A1.name], "max": 4}], "namespace": "gpu"}
    )
    program: Any = SimpleNamespace(
        cloud=NoCloud(lambda: 0.0), loaded=loaded, policy=SimpleNamespace(cluster_id="home"),
        metrics=SimpleNamespace(settings_valid=SimpleNamespace(set=lambda _: None)),
    )  # fmt: skip
    reload = Reload(program, lambda: loaded, sleep=asyncio.sleep)
    with pytest.raises(Ends, match="without an account"):
        await reload._take(loaded)


def started(told: dict[str, Any], driver: Any) -> Any:
    return SimpleNamespace(
        cloud=None, loaded=load_dict(told), policy=SimpleNamespace(cluster_id="home"), driver=driver,
        metrics=SimpleNamespace(settings_valid=SimpleNamespace(set=lambda _: None)),
    )  # fmt: skip


POOL: dict[str, Any] = {
    "name": "a100",
    "instance_types": [A1.name],
    "locations": ["FIN-01", "FIN-03"],
    "max": 4,
}


async def test_what_the_driver_cannot_drive_is_refused_while_it_runs_too() -> None:
    """A minimum that cluster-autoscaler is never told of would be filled by nobody."""
    wrong = ["pools: min = 1 of pool a100: expected something else"]
    driver = SimpleNamespace(objections=lambda policy: wrong if policy.pools[0].min else [])
    told: dict[str, Any] = {"pools": [POOL], "namespace": "gpu"}
    reload = Reload(started(told, driver), lambda: load_dict(told), sleep=asyncio.sleep)
    with pytest.raises(Ends, match="min = 1 of pool a100"):
        await reload._take(load_dict(told | {"pools": [POOL | {"min": 1}]}))


async def test_other_settings_of_the_port_are_not_said_to_be_in_force() -> None:
    """Whoever takes a name from the list must not believe that it is kept out."""
    told: dict[str, Any] = {
        "pools": [POOL], "namespace": "gpu",
        "externalgrpc": {"tls": {"cert": "/c", "key": "/k", "client_ca": "/a"}, "allowed_names": ["one", "two"]},
    }  # fmt: skip
    less = told | {"externalgrpc": told["externalgrpc"] | {"allowed_names": ["one"]}}
    driver = SimpleNamespace(objections=lambda _policy: [])
    reload = Reload(started(told, driver), lambda: load_dict(told), sleep=asyncio.sleep)
    with pytest.raises(Ends, match="externalgrpc: expected what it was at the start"):
        await reload._take(load_dict(less))
