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
