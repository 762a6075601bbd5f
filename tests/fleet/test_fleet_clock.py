"""A wall clock that is set back, by a minute or by hours: nothing waits until it has caught up."""

from __future__ import annotations

import pytest

from controller.domain.machine import Machine, Phase
from controller.domain.policy import Deadlines, Limits
from controller.domain.reason import Reason
from controller.fleet.life import Seen, step
from controller.fleet.refusals import Refusals
from tests.fleet.fakes import A1
from tests.fleet.scene import World

JUMPS = [90.0, 3600.0, 7200.0]
NOW = 1_800_000_000.0


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_machine_bought_after_the_clock_was_set_back_is_seen_and_becomes_ready(jump: float) -> None:
    world = World()
    world.town.work = 1e9
    controller = world.start()
    await world.run(controller, 60)
    world.time.now -= jump
    world.town.add_pod("next")
    await world.run(controller, 1500)
    assert [machine.phase for machine in controller.ledger.machines.values()] == [Phase.READY]
    assert len(world.account.orders) == 1


@pytest.mark.parametrize("jump", JUMPS)
async def test_an_idle_machine_goes_in_time_although_the_clock_was_set_back(jump: float) -> None:
    world = World()
    controller = world.start()
    world.town.add_pod("first")
    await world.until(controller, Phase.READY)
    world.town.pods.clear()
    world.time.now -= jump
    await world.run(controller, 300)
    assert controller.ledger.machines == {}
    assert world.account.alive() == []


async def test_machines_that_boot_while_the_clock_is_set_back_are_not_replaced() -> None:
    world = World()
    world.town.work = 1e9
    controller = world.start()
    await world.run(controller, 60)
    for number in range(2):
        world.town.add_pod(f"before-{number}")
    await world.run(controller, 10)
    assert len(world.account.orders) == 2
    world.time.now -= 3600
    for one in list(world.account.instances.values()):  # the cloud's own clock is right
        world.account.set(one.id, created_at=one.created_at - 3600)
    await world.run(controller, 1400)
    world.town.add_pod("late")
    await world.run(controller, 300)
    assert {machine.phase for machine in controller.ledger.machines.values()} == {Phase.READY}
    assert len(world.account.orders) == 3
    assert all(pod.node for pod in world.town.pods.values())


async def test_launches_from_before_the_clock_was_set_back_hold_no_order_up_for_longer_than_a_minute() -> (
    None
):
    world = World(limits=Limits(launches_per_minute=1))
    world.town.work = 1e9
    controller = world.start()
    world.town.add_pod("first")
    await world.run(controller, 30)
    world.time.now -= 3600
    world.town.add_pod("next")
    await world.run(controller, 50)
    assert len(world.account.orders) == 1
    await world.run(controller, 20)
    assert len(world.account.orders) == 2


def test_a_phase_that_began_later_than_now_began_now() -> None:
    late = dict.fromkeys(("intended_at", "ordered_at", "running_at"), NOW + 3600)
    machine = Machine(
        intent="abcdefghij", name="home-a100-abcdefghij", pool="a100", instance_type=A1.name, location="FIN-01",
        market="on-demand", phase=Phase.BOOTING, instance_id="i-1", **late,
    )  # fmt: skip
    limits = Deadlines()
    after = step(machine, Seen(), limits, NOW)
    assert (after.intended_at, after.ordered_at, after.running_at) == (NOW, NOW, NOW)
    assert step(after, Seen(), limits, NOW + limits.join + 1).reason is Reason.JOIN_DEADLINE


def test_absence_is_not_proven_by_a_clock_that_was_set_back() -> None:
    """Three lists within seconds, the last of them from before the jump."""
    machine = Machine(
        intent="abcdefghij", name="home-a100-abcdefghij", pool="a100", instance_type=A1.name, location="FIN-01",
        market="on-demand", phase=Phase.READY, instance_id="i-1", ordered_at=NOW - 9000, ready_at=NOW - 8000,
        absent_lists=2, absent_since=NOW + 3590,
    )  # fmt: skip
    seen = Seen(listed_at=NOW + 3600, fresh_list=True)
    assert step(machine, seen, Deadlines(), NOW).phase is Phase.READY


def test_a_refusal_lasts_no_longer_because_the_clock_was_set_back() -> None:
    limits = Deadlines()
    offers = (World().account.offers[0],)
    refusals = Refusals(limits)
    refusals.add(offers[0].key, Reason.NO_CAPACITY, "sold out", NOW)
    assert refusals.active(offers, NOW - 3600)
    assert refusals.active(offers, NOW - 3600 + limits.backoff_first - 1)
    assert not refusals.active(offers, NOW - 3600 + limits.backoff_first + 1)
