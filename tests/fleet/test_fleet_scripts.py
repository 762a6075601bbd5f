"""The life of startup scripts: uploaded, removed when they have served, and never more than the account takes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Script
from controller.domain.machine import Phase
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.fleet.scripts import ScriptRoom
from controller.join.protocol import Joining, Prepared
from tests.fleet.scene import POOL, Controller, World, policy

CROWD = replace(POOL, max=200)
LIMITS = Limits(launches_per_minute=1000)


def crowded(pods: int, **more: Any) -> World:
    world = World(pools=(more.pop("pool", CROWD),), limits=LIMITS, cooldown=1e9, **more)
    world.town.work = 1e9
    for number in range(pods):
        world.town.add_pod(f"p{number}")
    return world


def foreign(world: World, count: int) -> None:
    for number in range(count):
        key = f"foreign-{number}"
        world.account.scripts[key] = Script(id=key, name=key, text="#!/bin/bash\n")


def waiting(controller: Controller) -> list[Reason]:
    return [why.code for why in controller.plan.pods.values() if why.code is Reason.LIMIT_SCRIPTS]


async def most_scripts(world: World, controller: Controller, seconds: float) -> int:
    most = 0
    for _ in range(int(seconds / 5)):
        await world.run(controller, 5)
        most = max(most, len(world.account.scripts))
    return most


async def test_a_hundred_machines_boot_eighty_at_a_time_and_all_of_them_come() -> None:
    world = crowded(100)
    controller = world.start()
    await world.run(controller, 10)
    assert len(world.account.orders) == len(world.account.scripts) == 80
    assert len(waiting(controller)) == 20
    assert await most_scripts(world, controller, 200) <= 80
    await controller.fleet.refresh_catalogue()
    assert all(pod.node for pod in world.town.pods.values())
    assert len(world.account.orders) == 100
    assert not world.account.scripts


async def test_scripts_of_others_leave_less_room() -> None:
    world = crowded(60)
    foreign(world, 75)
    controller = world.start()
    await world.run(controller, 10)
    assert len(world.account.orders) == 25
    assert len(waiting(controller)) == 35
    await world.run(controller, 250)
    assert len(world.account.orders) == 60
    assert len(world.account.scripts) == 75


async def test_a_smaller_quota_is_learned_from_one_refusal_and_not_run_against() -> None:
    world = crowded(12)
    foreign(world, 5)
    world.account.script_quota = 8
    controller = world.start()
    await world.run(controller, 10)
    assert len(world.account.orders) == 3
    refused = len(controller.hands.did("create_script")) - 3
    assert refused <= 9  # those of the one burst that was under way
    assert controller.heard.of("refused") == [Reason.LIMIT_SCRIPTS.value] * refused
    assert not controller.fleet.active_refusals()  # it is not held against the offer
    await world.run(controller, 50)
    assert len(controller.hands.did("create_script")) == 3 + refused  # nothing is tried before the next list
    assert len(waiting(controller)) == 9
    for _ in range(20):
        await controller.fleet.refresh_catalogue()
        await world.run(controller, 60)
        assert len(world.account.scripts) <= 8
    assert len(world.account.orders) == 12
    assert len(controller.hands.did("create_script")) == 12 + refused


async def test_an_account_that_takes_no_script_at_all_is_asked_seldom() -> None:
    world = crowded(3)
    foreign(world, 4)
    world.account.script_quota = 4
    controller = world.start()
    for _ in range(60):
        await world.run(controller, 60)
        await controller.fleet.refresh_catalogue()
    assert not world.account.orders
    assert 1 <= len(controller.hands.did("create_script")) <= 9  # a burst of three each half hour
    world.account.scripts.clear()
    for _ in range(4):
        await controller.fleet.refresh_catalogue()
        await world.run(controller, 60)
    assert len(world.account.orders) == 3


async def test_a_shared_script_is_neither_counted_nor_deleted() -> None:
    world = crowded(90, pool=replace(CROWD, own_script=False))
    foreign(world, 100)
    controller = world.start()
    ours = "foreign-0"

    async def prepare(joining: Joining) -> Prepared:
        return Prepared(script_id=ours)

    controller.hands.prepare = prepare  # type: ignore[method-assign]
    await world.run(controller, 100)
    assert len(world.account.orders) == 90
    assert {order.script_id for order in world.account.orders} == {ours}
    assert len(world.account.scripts) == 100
    assert not controller.hands.did("create_script", "delete_script", "scripts")


@pytest.mark.parametrize("after_create", [True, False])
async def test_a_script_goes_after_the_create_or_after_the_join(after_create: bool) -> None:
    world = crowded(1, pool=replace(CROWD, script_after_create=after_create))
    controller = world.start()
    await world.run(controller, 15)
    assert controller.only.phase is Phase.ORDERED
    assert bool(world.account.scripts) is not after_create
    assert bool(controller.only.script_id) is not after_create
    await world.run(controller, 120)
    assert controller.only.phase is Phase.READY
    assert not world.account.scripts


async def test_an_order_without_an_answer_keeps_its_script_until_it_is_known_what_became_of_it() -> None:
    world = crowded(1, pool=replace(CROWD, script_after_create=True))
    world.account.list_lag = 30
    controller = world.start()
    controller.hands.faults["create"] = ["lost"]
    await world.run(controller, 25)
    assert controller.only.phase is Phase.INTENDED
    assert world.account.scripts
    await world.run(controller, 20)
    assert controller.only.instance_id
    assert not world.account.scripts


async def test_the_script_of_a_machine_that_failed_goes_although_the_machine_cannot_yet() -> None:
    world = crowded(1)
    world.account.boots = False  # for ever provisioning: its delete is refused
    controller = world.start()
    await world.run(controller, 1300, 20.0)
    failed = [m for m in controller.ledger.machines.values() if m.phase is Phase.DELETING]
    assert [m.reason for m in failed] == [Reason.LAUNCH_DEADLINE]
    assert [m.script_id for m in failed] == [""]
    assert failed[0].instance_id in world.account.instances
    assert all(failed[0].intent not in name for name in world.account.scripts)


# -- what is known of the room


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def scripts(count: int) -> list[Script]:
    return [Script(id=f"x-{n}", name=f"x-{n}", text="") for n in range(count)]


def test_nothing_is_held_against_scripts_before_they_were_listed() -> None:
    assert ScriptRoom(Clock()).free(policy(), ()) is None


def test_an_account_with_more_scripts_than_the_quota_has_another_quota() -> None:
    room = ScriptRoom(Clock())
    room.listed(policy(), scripts(150), ())
    assert room.free(policy(), ()) is None
    room.refused()
    assert room.free(policy(), ()) == 0
    room.listed(policy(), scripts(150), ())
    assert room.free(policy(), ()) == 0
    room.listed(policy(), scripts(140), ())
    assert room.free(policy(), ()) == 10


def test_what_a_refusal_taught_is_believed_for_half_an_hour() -> None:
    clock = Clock()
    room = ScriptRoom(clock)
    room.refused()
    room.listed(policy(), scripts(20), ())
    assert room.free(policy(), ()) == 0
    clock.now += 1801
    assert room.free(policy(), ()) == 80
