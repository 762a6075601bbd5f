"""An outage in which no machine becomes usable: what was given up recovers by itself, and little is paid meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.cloudthings import Offer
from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from controller.fleet.ledger import Ledger
from tests.fleet import fakes
from tests.fleet.fakes import A1
from tests.fleet.scene import POOL, Controller, World

HOUR = 3600.0
SORT = "a100/1A100.22V/FIN-01"


async def outage(pods: int = 1, hours: float = 0.7, **more: Any) -> tuple[World, Controller]:
    """No kubelet joins, until two machines were bought in vain for each of the pods."""
    world = World(**more)
    world.town.joins = False
    for number in range(pods):
        world.town.add_pod(f"train-{number}")
    controller = world.start()
    await world.run(controller, hours * HOUR, step=30)
    return world, controller


async def test_a_pod_runs_by_itself_once_the_outage_is_over() -> None:
    world, controller = await outage()
    assert len(world.account.orders) == 2
    assert "nothing more is bought before" in controller.plan.pods["default/train-0"].message
    world.town.joins = True
    await world.run(controller, 1.2 * HOUR, step=30)
    assert len(world.account.orders) == 3
    assert "default/train-0" not in world.town.pods  # it ran
    assert not controller.ledger.failures.given_up
    assert not controller.ledger.failures.tried


async def test_what_never_works_is_paid_for_ever_more_seldom_one_machine_at_a_time() -> None:
    world, controller = await outage(pods=4, hours=0.7)
    bought = len(world.account.orders)
    assert bought == 8
    world.most_alive = 0
    await world.run(controller, 24 * HOUR, step=120)
    # After one, two, four and eight hours.
    assert len(world.account.orders) - bought == 4
    assert world.most_alive == 1
    await world.run(controller, 6 * 24 * HOUR, step=600)
    assert len(world.account.orders) - bought <= 11  # in the end one a day
    assert {
        reason for known in controller.ledger.failures.given_up.values() for reason in known.values()
    } == {Reason.JOIN_DEADLINE}


async def test_a_cloud_that_starts_machines_too_late_is_not_paid_for_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is ordered is billed from then on; each of them was replaced at once, day and night."""
    monkeypatch.setattr(fakes, "BOOT", 1500.0)
    world = World()
    world.town.joins = False  # one that is given up starts after all, and is deleted before it joins
    world.town.add_pod("train")
    controller = world.start()
    await world.run(controller, 24 * HOUR, step=60)
    assert 2 < len(world.account.orders) <= 6
    assert controller.plan.pods["default/train"].code is Reason.LAUNCH_DEADLINE
    monkeypatch.setattr(fakes, "BOOT", 60.0)
    world.town.joins = True
    await world.run(controller, 24 * HOUR, step=60)
    assert "default/train" not in world.town.pods  # it ran


async def test_the_first_machine_that_becomes_usable_releases_all_pods_at_once() -> None:
    world, controller = await outage(pods=3)
    ordered = len(world.account.orders)
    world.town.joins = True
    world.town.add_pod("new")
    await world.run(controller, 600, step=10)
    assert len(world.account.orders) >= ordered + 2
    assert not world.town.pods  # all ran
    assert not controller.ledger.failures.tried


async def test_a_restart_neither_shortens_nor_forgets_the_pause() -> None:
    world, controller = await outage()
    for _ in range(4):
        await controller.die()
        controller = world.start()
        await world.run(controller, 300, step=30)
    assert len(world.account.orders) == 2
    world.town.joins = True
    await world.run(controller, HOUR, step=30)
    assert len(world.account.orders) == 3
    assert "default/train-0" not in world.town.pods  # it ran


async def test_a_death_while_the_try_is_on_its_way_makes_no_second_one() -> None:
    world, controller = await outage(pods=2)
    ordered = len(world.account.orders)
    while len(world.account.orders) == ordered:
        await world.run(controller, 60, step=30)
    for _ in range(5):
        await controller.die()
        controller = world.start()
        await world.run(controller, 60, step=10)
    assert len(world.account.orders) == ordered + 1


async def test_a_machine_that_works_elsewhere_says_nothing_of_a_location_where_none_does() -> None:
    """Else each success in one location would buy two machines in the other, for ever."""
    there = [Offer(type=A1, location=where, market="on-demand") for where in ("FIN-01", "FIN-03")]
    world = World(pools=(replace(POOL, locations=("FIN-01", "FIN-03")),))
    world.account.offers = there
    controller = world.start()
    await controller.look(decide=False)
    for name in ("home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb"):
        lost = replace(_ready(), name=name, location="FIN-03")
        controller.ledger.failures.tried_in_vain(lost, Reason.JOIN_DEADLINE, world.time.now)
        controller.ledger.failures.give_up("stuck", name, Reason.JOIN_DEADLINE)
    controller.ledger.failures.comes_up(_ready())
    assert set(controller.ledger.failures.given_up["stuck"]) == {
        "home-a100-aaaaaaaaaa",
        "home-a100-bbbbbbbbbb",
    }
    controller.ledger.failures.comes_up(replace(_ready(), location="FIN-03"))
    assert not controller.ledger.failures.given_up
    assert not controller.ledger.failures.tried


def _ready() -> Machine:
    return Machine(
        intent="cccccccccc", name="home-a100-cccccccccc", pool="a100", instance_type="1A100.22V",
        location="FIN-01", market="on-demand", phase=Phase.READY, intended_at=1.0,
    )  # fmt: skip


async def test_a_try_that_the_ledger_lost_is_dated_anew() -> None:
    """By a conflict, or by a version that did not know of it."""
    world, controller = await outage()
    controller.ledger.failures.tried.clear()
    await controller.look()
    (known,) = controller.ledger.failures.tried.values()
    assert known.last == world.time.now
    world.town.joins = True
    await world.run(controller, 1.2 * HOUR, step=30)
    assert "default/train-0" not in world.town.pods  # it ran


async def test_what_nobody_waits_for_any_more_is_forgotten() -> None:
    world, controller = await outage(pods=2)
    assert controller.ledger.failures.tried[SORT].machines
    world.town.pods.clear()
    await world.run(controller, 60, step=30)
    assert not controller.ledger.failures.tried
    assert not controller.ledger.failures.given_up


async def test_it_is_stored_and_ends_with_another_token() -> None:
    world, controller = await outage()
    await controller.die()
    hands = world.start().hands
    later = Ledger(hands, "home", "one way", ("join",))
    await later.load()
    assert later.failures.tried == controller.ledger.failures.tried
    world.town.secrets["join"] = "19"
    await later.heed_tokens()
    assert not later.failures.tried
    assert not later.failures.given_up
