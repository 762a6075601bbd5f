"""A base URL, or a gateway, at which nothing is found: not a word of it is about machines of ours.

The real adapter on the sandbox cloud, in memory. Whatever stands there answers every call, or only those by
id, with a 404 that looks like the API's own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from controller.app import picture
from controller.cloud.protocol import CloudError
from controller.domain.machine import Phase
from controller.planning.planner import plan as make_plan
from tests.fleet.fakes import Town
from tests.fleet.scene import Controller, World
from tests.fleet.skies import CloudHands, Mirror, Skies, Sky

EVERYTHING = [("*", "*")]
BY_ID = [("GET", "/instances/*"), ("PUT", "/instances"), ("DELETE", "/volumes/*"), ("DELETE", "/scripts/*")]


def nothing_found(words: str, paths: list[tuple[str, str]]) -> list[dict[str, Any]]:
    body = {"code": "not_found", "message": words}
    return [
        {"method": method, "path": path, "fault": "answer", "status": 404, "body": body, "times": 0}
        for method, path in paths
    ]


class Scene(World):
    def __init__(self) -> None:
        logging.getLogger("gpu_autoscaler").setLevel(logging.ERROR)
        super().__init__(cooldown=100.0)
        self.sky = Sky(self.time, random.Random(5))
        self.skies = Skies(self.sky)
        self.home = self.skies.login
        mirror = Mirror(self.time)
        mirror.sky = self.sky
        self.account = mirror
        self.town = Town(self.time, mirror)
        self.town.work = 600.0
        self.calls = random.Random(6)

    def born(self) -> Controller:
        hands = CloudHands(self.skies, self.account, self.town, self.time, self.calls)
        return Controller(self, self.policy, hands=hands)

    async def go(self, controller: Controller, seconds: float) -> None:
        end = self.time.now + seconds
        while self.time.now < end:
            self.happen()
            looking = asyncio.ensure_future(self._look(controller))
            await self.time.advance(10.0)
            while not looking.done():
                await self.time.advance(1.0)
            looking.result()

    async def _look(self, controller: Controller) -> None:
        """As the main loop does: what is decided goes on by the last list."""
        try:
            await controller.look()
            await controller.sweep()
        except CloudError:
            if not controller.fleet.rebuilt:
                return
            await controller.fleet.advance()
            snapshot = picture.take(
                controller.fleet.policy, controller.hands, controller.fleet, self.time.now
            )
            await controller.fleet.apply(controller.fleet.possible(make_plan(snapshot)).actions)

    async def comes_to(self, controller: Controller, what: Callable[[], bool], within: float = 1200) -> None:
        end = self.time.now + within
        while not what():
            assert self.time.now < end, controller.ledger.machines
            await self.go(controller, 10.0)

    def alive(self) -> list[Any]:
        return [one for one in self.sky.state.instances.values() if one.live]

    def disks(self) -> list[Any]:
        return [one for one in self.sky.state.volumes.values() if not one.destroyed]


def is_in(controller: Controller, *phases: Phase) -> Callable[[], bool]:
    return lambda: [m.phase for m in controller.ledger.machines.values()] == list(phases)


async def in_use(scene: Scene, controller: Controller) -> None:
    await scene.comes_to(controller, is_in(controller, Phase.READY))


async def booting(scene: Scene, controller: Controller) -> None:
    scene.town.joins = False
    await scene.comes_to(controller, is_in(controller, Phase.BOOTING))
    scene.town.joins = True


async def not_known(scene: Scene, controller: Controller) -> None:
    """The answer to the order was lost."""
    scene.sky.set(list_lag_s=200)
    scene.sky.faults.replace([{"method": "POST", "path": "/instances", "fault": "lose_after"}])
    await scene.comes_to(controller, lambda: bool(scene.alive()))
    scene.sky.faults.replace([])


async def leaving(scene: Scene, controller: Controller) -> None:
    """The cloud has accepted its delete, and takes its time."""
    await in_use(scene, controller)
    scene.sky.set(delete_s=900)
    scene.town.pods.clear()
    await scene.comes_to(controller, lambda: any(m.delete_at for m in controller.ledger.machines.values()))


async def refused_to_leave(scene: Scene, controller: Controller) -> None:
    await in_use(scene, controller)
    scene.sky.set(undeletable_statuses=["running"])
    scene.town.pods.clear()
    await scene.comes_to(controller, is_in(controller, Phase.DELETING))
    await scene.go(controller, 20)


async def with_a_disk_left(scene: Scene, controller: Controller) -> None:
    await in_use(scene, controller)
    scene.sky.set(volume_gone_s=700, volume_delete_s=20)
    scene.town.pods.clear()
    await scene.comes_to(controller, lambda: not scene.alive())
    await scene.go(controller, 20)


STAGES = (in_use, booting, not_known, leaving, refused_to_leave, with_a_disk_left)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__)
@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("another address", "Resource not found"),
        ("everything here", "Cannot GET /v2/instances"),
        ("what is asked by id", "Path not found"),
        ("what is asked by id", "Resource not found"),
    ],
)
async def test_one_wrong_address_closes_no_record_and_buys_nothing(
    stage: Callable[[Scene, Controller], Awaitable[None]], where: str, words: str
) -> None:
    scene = Scene()
    controller = scene.born()
    await scene.go(controller, 5)
    scene.town.add_pod("train")
    await stage(scene, controller)
    scene.town.bound_at.clear()  # what runs there goes on
    records = set(controller.ledger.machines)
    nodes = set(scene.town.nodes) if scene.alive() else set()  # of one that is gone by now the Node may go
    assert len(records) == 1

    nowhere = Sky(scene.time, random.Random(8))
    nowhere.faults.replace(nothing_found(words, EVERYTHING))
    if where == "another address":
        scene.skies.login = scene.skies.add(nowhere, client="me", base_url="https://api.verda.com")
    else:
        scene.sky.faults.replace(nothing_found(words, EVERYTHING if "everything" in where else BY_ID))
    scene.town.add_pod("next")
    orders = scene.sky.state.creates
    await scene.go(controller, 400)
    assert set(controller.ledger.machines) >= records
    assert set(scene.town.nodes) >= nodes
    assert nowhere.state.creates == 0
    if where != "what is asked by id":  # else its lists are good, and a second pod is served
        assert scene.sky.state.creates == orders

    scene.sky.calm()
    scene.skies.login = scene.home
    scene.town.pods.clear()
    await scene.comes_to(controller, lambda: not controller.ledger.machines, within=7200)
    assert not scene.alive()
    assert not scene.disks()
    assert not scene.town.nodes
