"""Killed at any call, restarted: exactly one machine for the one pod, nothing left over, nobody else hurt."""

from __future__ import annotations

import asyncio
import random

import pytest

from controller.cloud.protocol import CloudError
from controller.domain.cloudthings import Instance, Script, Volume
from controller.domain.machine import Phase
from tests.fleet.fakes import A1, READS, make_node
from tests.fleet.scene import Controller, World

LIFE = 220.0  # one pod: bought, booted, worked, idle, removed
STEP = 10.0


def with_strangers(world: World) -> None:
    """Neighbours that look as much like ours as they can without being ours."""
    account, town = world.account, world.town
    look_alike = "home-a100-abcdefghij"
    account.instances["s-1"] = Instance(
        id="s-1", hostname=look_alike, description="somebody's", status="running", instance_type=A1.name,
        location="FIN-01", market="on-demand", price=A1.price, created_at=world.time.now - 9000,
        os_volume_id="sd-1", volume_ids=("sd-1",),
    )  # fmt: skip
    account.instances["s-2"] = Instance(
        id="s-2", hostname="home-two-a100-abcdefghij", description="gpuas home-two abcdefghij",
        status="running", instance_type=A1.name, location="FIN-01", market="on-demand", price=A1.price,
        created_at=world.time.now - 9000,
    )  # fmt: skip
    account.volumes["sd-1"] = Volume(id="sd-1", name=look_alike, status="attached", instance_id="s-1")
    account.volumes["sd-2"] = Volume(id="sd-2", name=look_alike, status="detached")
    account.scripts["ss-1"] = Script(id="ss-1", name="gpuas-home-abcdefghij", text="#!/bin/sh\necho mine\n")
    town.nodes[look_alike] = make_node(look_alike, world.time.now - 9000, gpus=0, provider_id="aws:///i-1")


def strangers(world: World) -> tuple[object, ...]:
    account, town = world.account, world.town
    return (
        account.instances["s-1"],
        account.instances["s-2"],
        account.volumes["sd-1"],
        account.volumes["sd-2"],
        account.scripts["ss-1"],
        town.nodes["home-a100-abcdefghij"],
    )


def assert_nothing_left(world: World, controller: Controller) -> None:
    assert [i.id for i in world.account.alive()] == ["s-1", "s-2"]
    assert sorted(world.account.volumes) == ["sd-1", "sd-2"]
    assert sorted(world.account.scripts) == ["ss-1"]
    assert sorted(world.town.nodes) == ["home-a100-abcdefghij"]
    left = [m for m in controller.ledger.machines.values() if m.phase is not Phase.TOMBSTONE]
    assert left == []


async def one_life(
    kill: tuple[int, str] | None, *, down: float = 7.0
) -> tuple[World, Controller, Controller]:
    world = World()
    with_strangers(world)
    before = strangers(world)
    world.town.add_pod()
    first = world.start()
    first.hands.kill = kill
    await world.run(first, LIFE, STEP)
    last = first
    if first.hands.dead:
        await first.die()
        await world.time.advance(down)
        last = world.start()
        await world.run(last, LIFE + 150, STEP)
    first.life = len(first.hands.calls)
    await last.sweep()
    assert strangers(world) == before
    return world, first, last


async def test_one_pod_gets_one_machine_which_goes_when_the_pod_is_done() -> None:
    world, first, last = await one_life(None)
    assert first is last
    assert len(world.account.orders) == 1
    assert_nothing_left(world, last)


async def calls_of_a_life() -> list[str]:
    _, first, _ = await one_life(None)
    return [verb for verb, _ in first.hands.calls][: first.life]


@pytest.mark.parametrize("part", range(4))
async def test_killed_at_any_call_it_never_buys_twice_and_never_leaks(part: int) -> None:
    verbs = await calls_of_a_life()
    assert {"create", "delete", "delete_node", "delete_script", "taint", "write_config_map"} <= set(verbs)
    tried = 0
    for number, verb in enumerate(verbs, start=1):
        if number % 4 != part:
            continue
        for moment in ("before",) if verb in READS else ("before", "after"):
            world, first, last = await one_life((number, moment))
            where = f"killed {moment} call {number} ({verb})"
            assert first.hands.dead, where
            assert len(world.account.orders) == 1, where
            assert world.most_alive == 1, where
            assert_nothing_left(world, last)
            assert not world.town.pods, where
            tried += 1
    assert tried > 10


@pytest.mark.parametrize(("lag", "down", "step"), [(8.0, 0.0, 10.0), (0.0, 400.0, 10.0), (15.0, 3.0, 5.0)])
async def test_killed_around_every_change_with_lagging_lists_and_long_absences(
    lag: float, down: float, step: float
) -> None:
    verbs = await calls_of_a_life()
    for number, verb in enumerate(verbs, start=1):
        for moment in () if verb in READS else ("before", "after"):
            world = World()
            world.account.list_lag = lag
            world.town.add_pod()
            first = world.start()
            first.hands.kill = (number, moment)
            await world.run(first, LIFE, step)
            await first.die()
            await world.time.advance(down)
            last = world.start()
            await world.run(last, LIFE + 150, step)
            await last.sweep()
            assert len(world.account.orders) == 1, f"killed {moment} call {number} ({verb})"
            assert not world.account.alive()
            assert not world.account.volumes
            assert not world.account.scripts
            assert not world.town.nodes


@pytest.mark.parametrize("seed", range(40))
async def test_killed_again_and_again_at_random_calls_it_still_buys_once(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    with_strangers(world)
    before = strangers(world)
    world.town.add_pod()
    for _ in range(4):
        controller = world.start()
        controller.hands.kill = (rng.randint(1, 40), rng.choice(["before", "after"]))
        await world.run(controller, rng.uniform(5, 80), STEP)
        await controller.die()
        await world.time.advance(rng.choice([0.0, 5.0, 90.0]))
    last = world.start()
    await world.run(last, LIFE + 200, STEP)
    await last.sweep()
    assert len(world.account.orders) == 1
    assert world.most_alive == 1
    assert strangers(world) == before
    assert_nothing_left(world, last)


@pytest.mark.parametrize("answer", ["lost", "never"])
async def test_a_lost_answer_to_the_order_ends_in_exactly_one_machine(answer: str) -> None:
    world = World()
    world.town.add_pod()
    controller = world.start()
    controller.hands.faults["create"] = [answer]
    await world.run(controller, LIFE + 100)
    orders = controller.hands.did("create")
    assert len(world.account.orders) == 1
    assert len(orders) == (1 if answer == "lost" else 2)
    assert not world.town.pods


async def test_a_machine_that_boots_while_nobody_runs_is_found_where_it_is() -> None:
    world = World()
    world.town.add_pod()
    first = world.start()
    booting = await world.until(first, Phase.BOOTING)
    await first.die()
    await world.time.advance(5)
    second = world.start()
    await second.look()
    kept = second.only
    assert (kept.intent, kept.pods, kept.ordered_at) == (booting.intent, booting.pods, booting.ordered_at)
    assert kept.running_at == booting.running_at
    assert not second.hands.did("create", "delete")


async def test_the_cooldown_goes_on_over_a_restart() -> None:
    world = World(cooldown=60.0)
    world.town.add_pod()
    first = world.start()
    await world.until(first, Phase.READY)
    while world.town.pods:
        await world.run(first, 5)
    await world.run(first, 10)
    (node,) = world.town.nodes.values()
    idle_since = node.annotations["gpu-autoscaler/idle-since"]
    await first.die()
    await world.time.advance(55)
    second = world.start()
    await second.look()
    assert world.town.nodes[node.name].annotations["gpu-autoscaler/idle-since"] == idle_since
    await world.time.settle()
    assert any(verb == "taint" for verb, _ in second.hands.calls)


async def test_without_its_ledger_it_adopts_its_machines_by_their_marks_and_buys_nothing() -> None:
    world = World()
    world.town.add_pod()
    first = world.start()
    await world.until(first, Phase.BOOTING)
    await first.die()
    world.town.maps.clear()
    second = world.start()
    await world.run(second, LIFE)
    assert len(world.account.orders) == 1
    assert not world.account.alive()


async def test_an_adopted_machine_does_not_take_the_users_own_script_with_it() -> None:
    world = World()
    world.town.add_pod()
    first = world.start()
    await world.until(first, Phase.ORDERED)
    world.account.scripts["mine"] = Script(id="mine", name="my join script", text="#!/bin/sh\n")
    world.account.set("i-1", script_id="mine")
    await first.die()
    world.town.maps.clear()
    second = world.start()
    await world.run(second, LIFE)
    await second.sweep()
    assert list(world.account.scripts) == ["mine"]


async def test_nothing_is_decided_on_a_partial_list_at_the_start() -> None:
    world = World()
    world.town.add_pod()
    world.account.complete = False
    controller = world.start()
    with pytest.raises(CloudError):
        await controller.look()
    assert not controller.fleet.rebuilt
    assert not controller.hands.did("create")


async def test_empty_and_partial_lists_delete_nothing_and_buy_nothing() -> None:
    world = World(cooldown=1e6)
    world.town.add_pod()
    world.town.work = 1e6
    controller = world.start()
    await world.until(controller, Phase.READY)
    world.account.empty = True
    await world.run(controller, 10, 5.0)
    world.account.complete = False
    await world.run(controller, 300, 10.0)
    world.account.complete, world.account.empty = True, False
    await world.run(controller, 10, 5.0)
    assert controller.only.phase is Phase.READY
    assert len(world.account.orders) == 1
    assert not controller.hands.did("delete", "delete_volume", "delete_node")


async def test_a_list_that_stays_empty_is_not_believed_against_the_clouds_word_about_the_id() -> None:
    world = World(cooldown=1e6)
    world.town.add_pod()
    world.town.work = 1e6
    controller = world.start()
    ready = await world.until(controller, Phase.READY)
    world.account.empty = True
    await world.run(controller, 150)
    world.account.empty = False
    await world.run(controller, 60)
    assert controller.only.phase is Phase.READY
    assert controller.only.instance_id == ready.instance_id
    assert len(world.account.orders) == 1
    assert not controller.hands.did("delete", "delete_node")


async def test_stopping_waits_for_the_order_on_the_wire_and_records_its_answer() -> None:
    world = World()
    world.town.add_pod()
    controller = world.start()
    gate = controller.hands.gates["create"] = asyncio.Event()
    await controller.look()
    await world.time.settle()
    asyncio.get_running_loop().call_later(0.01, gate.set)
    await controller.fleet.stop(5.0)
    assert controller.only.phase is Phase.ORDERED
    assert '"ordered"' in world.stored()


async def test_stopping_with_an_order_that_does_not_end_leaves_the_intent_in_the_ledger() -> None:
    world = World()
    world.town.add_pod()
    first = world.start()
    first.hands.gates["create"] = asyncio.Event()
    await first.look()
    await world.time.settle()
    await first.fleet.stop(0.01)
    assert '"intended"' in world.stored()
    second = world.start()
    await world.run(second, LIFE + 100)
    assert len(world.account.orders) == 1
