"""`retire --wait`: nothing is left only where the controller buys no more, and neither record knows of a machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest

from controller.app.exits import Ends
from controller.app.parts import Now
from controller.cli.clusterside import SAME, ClusterSide
from controller.cli.retiring import _followed
from controller.cluster.protocol import Stored
from controller.domain import names
from controller.fleet.book import KEY
from controller.fleet.orphans import Living

NAME = "home-a100-abcdefghij"


class Maps:
    """What stands in the cluster, and changes with every read."""

    def __init__(self) -> None:
        self.retiring, self.told = "", list[dict[str, Any]]()
        self.problems: list[str] = []
        self.reads: list[str] = []
        self.after: Callable[[int], None] = lambda reads: None

    async def read_config_map(self, name: str) -> Stored:
        self.reads.append(name)
        status = {"retiring": self.retiring, "machines": self.told, "problems": self.problems}
        book: dict[str, Any] = {"version": 1, "cluster_id": "home", "machines": []}
        data = (
            {names.STATUS_KEY: json.dumps(status)}
            if name == names.STATUS_CONFIGMAP
            else {KEY: json.dumps(book)}
        )
        self.after(len(self.reads))
        return Stored(data=data, version="1")


async def followed(maps: Maps, patience: float) -> tuple[list[dict[str, Any]], float]:
    side = ClusterSide(SAME)
    side._writer = cast(Any, maps)
    side.living = Living(cluster_id="home")
    passed = [0.0]

    class Quick(Now):
        async def sleep(self, seconds: float) -> None:
            passed[0] += seconds

    left = await _followed(side, patience, Quick(monotonic=lambda: passed[0]), lambda line: None)
    return left, passed[0]


def row(market: str = "on-demand") -> dict[str, Any]:
    return {"name": NAME, "phase": "intended", "code": "", "message": "", "market": market}


async def test_an_order_that_only_the_status_knows_is_waited_for() -> None:
    maps = Maps()
    maps.retiring, maps.told = "all", [row()]

    def ended(reads: int) -> None:
        if reads > 10:
            maps.told = []

    maps.after = ended
    left, waited = await followed(maps, 3600)
    assert (left, waited > 5) == ([], True)


async def test_machines_that_are_only_switched_are_not_waited_for() -> None:
    maps = Maps()
    maps.retiring, maps.told = "all", [row("switched")]
    assert await followed(maps, 3600) == ([], 0)


async def test_the_ledger_is_read_after_the_status_that_heeds_the_wish() -> None:
    maps = Maps()
    maps.retiring = "all"
    await followed(maps, 3600)
    assert maps.reads == [names.STATUS_CONFIGMAP, names.LEDGER_CONFIGMAP]


@pytest.mark.parametrize("patience", [0, 10, 3600])
async def test_nothing_is_the_end_where_nobody_heeds_the_wish(patience: float) -> None:
    maps = Maps()
    maps.problems = [f"annotation {names.RETIRE}=all: ignored, because another decides"]
    with pytest.raises(Ends, match="ignored, because another decides"):
        await followed(maps, patience)
