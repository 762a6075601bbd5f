"""A machine is gone where it was: what another account says about its disks, and when that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.cloud.protocol import CloudError
from controller.domain.cloudthings import Volume
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from tests.fleet.scene import Controller, World
from tests.fleet.test_fleet_account import at_work, back, goes_on, moved, silent
from tests.fleet.test_fleet_account_switches import elsewhere
from tests.fleet.test_fleet_removal import ready


async def gone_with_its_disk_left(tags: bool = False) -> tuple[World, Controller, Machine]:
    """Its end is proven at home; its disk is still there, and nobody could look for it yet."""
    world, controller, machine = await ready()
    controller.hands.faults["volumes"] = [CloudError(Reason.UNAVAILABLE, "away")] * 3
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await goes_on(world, controller, lambda: bool(controller.only.gone_at))
    left_behind(world, machine, tags=tags)
    return world, controller, controller.only


def left_behind(world: World, machine: Machine, *, tags: bool = False) -> None:
    marks = world.account.orders[0].tags if tags else ()
    world.account.volumes["d-i-1"] = Volume(
        id="d-i-1", name=machine.name, status="detached", instance_id="", is_os=True, tags=marks
    )
    world.account.ended.pop("d-i-1", None)


@pytest.mark.parametrize("tagged", [True, False])
async def test_the_disk_of_a_machine_that_is_gone_at_home_is_not_taken_for_gone_there(tagged: bool) -> None:
    world, controller, machine = await gone_with_its_disk_left(tagged)
    elsewhere(world, controller)
    await world.run(controller, 300)
    assert machine.intent in controller.ledger.machines
    back(world, controller)
    await world.run(controller, 300)
    assert "d-i-1" not in world.account.volumes
    assert controller.ledger.machines == {}


async def test_a_machine_that_is_gone_is_closed_in_time_also_if_its_account_never_comes_back() -> None:
    world, controller, machine = await gone_with_its_disk_left()
    elsewhere(world, controller)
    await world.run(controller, 1700)
    assert machine.intent in controller.ledger.machines
    await world.run(controller, 200)
    assert controller.ledger.machines == {}


async def test_a_list_of_disks_of_another_account_proves_nothing_however_late_it_comes() -> None:
    """It waited for its turn, and meanwhile the credentials became others and were believed."""
    world, controller, machine = await ready()
    gate = controller.hands.gates["volumes"] = asyncio.Event()
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await goes_on(world, controller, lambda: bool(controller.only.gone_at))
    await world.time.settle()
    left_behind(world, machine)
    elsewhere(world, controller)
    await controller.look()
    assert controller.ledger.account == "another"
    gate.set()
    await world.time.settle()
    await world.run(controller, 60)
    assert machine.intent in controller.ledger.machines
    back(world, controller)
    await world.run(controller, 300)
    assert "d-i-1" not in world.account.volumes


async def test_disks_are_looked_for_where_the_machine_was_asked_for_a_moment_before() -> None:
    """Another account does not know the machine, and says so; the disks at home are none of a machine that is gone."""
    world, controller, _ = await gone_with_its_disk_left()
    hands = controller.hands
    hands.faults.clear()
    elsewhere(world, controller)
    await controller.look()
    asked: list[str] = []
    hands.on_call["volumes"] = asked.append
    gate = hands.gates["volumes"] = asyncio.Event()
    await goes_on(world, controller, lambda: bool(asked))
    back(world, controller)
    await controller.look()
    gate.set()
    await world.time.settle()
    assert controller.ledger.account == "home"
    assert not hands.did("delete_volume")
    await world.run(controller, 300)
    assert "d-i-1" not in world.account.volumes


async def test_a_ledger_that_says_home_does_not_make_the_answers_of_another_account_those_of_home() -> None:
    """Another leader works at home and keeps writing so, while our calls go elsewhere."""
    world, controller, machine = await gone_with_its_disk_left()
    elsewhere(world, controller)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller.ledger, "found_in", lambda *_, **__: None)
        await world.run(controller, 120)
        assert controller.hands.trusted == "another"
        assert controller.ledger.account == "home"
    assert machine.intent in controller.ledger.machines
    back(world, controller)
    await world.run(controller, 300)
    assert "d-i-1" not in world.account.volumes


async def test_a_machine_is_gone_in_the_account_that_said_so_and_not_in_that_of_a_moment_later() -> None:
    """Evicted, and the credentials change in the pause before it is asked for again."""
    world = World()
    controller = await at_work(world)
    machine = controller.only
    world.town.work = 1
    world.town.pods.clear()
    world.account.end("i-1")
    left_behind(world, machine)
    await controller.look()
    await world.time.settle()
    assert controller.only.phase is Phase.DELETING
    assert not controller.only.gone_at
    elsewhere(world, controller)
    await controller.look()
    await world.run(controller, 200)
    assert controller.only.gone_in == "home"
    back(world, controller)
    await world.run(controller, 300)
    assert "d-i-1" not in world.account.volumes


async def test_nobody_can_say_where_a_machine_is_gone_whose_account_changed_during_the_question() -> None:
    world = World()
    controller = await at_work(world)
    world.town.pods.clear()
    world.account.end("i-1")

    def moves(_: str) -> None:
        if controller.only.phase is Phase.DELETING:
            controller.hands.on_call.clear()
            controller.ledger.found_in("another")

    controller.hands.on_call["instance"] = moves
    await controller.look()
    await world.time.settle()
    assert controller.ledger.account == "another"
    await world.time.advance(4.0)
    assert not controller.only.gone_at


async def test_another_client_of_the_account_where_one_goes_on_working_hides_no_end() -> None:
    """What is seen there says that it is the same account, also where the disk is gone already."""
    world = World()
    controller = await at_work(world, 2)
    machine = next(m for m in controller.ledger.machines.values() if m.instance_id == "i-1")
    controller.hands.faults["volumes"] = [CloudError(Reason.UNAVAILABLE, "away")] * 3
    world.account.end("i-1")
    del world.account.volumes["d-i-1"]
    await goes_on(world, controller, lambda: bool(controller.ledger.machines[machine.intent].gone_at))
    world.account.name = "the same, by another client"
    controller.hands.logins += 1
    world.town.lose(machine.name)
    await world.run(controller, 120)
    assert machine.intent not in controller.ledger.machines
    assert controller.fleet.reports == {}


async def test_a_rotation_in_a_third_account_says_nothing_of_what_is_gone_at_home() -> None:
    world, controller, machine = await gone_with_its_disk_left()
    other = elsewhere(world, controller)
    world.town.add_pod("next")
    await world.run(controller, 60)
    assert len(other.orders) == 1  # nothing was at stake at home
    assert machine.intent in controller.ledger.machines
    other.name = "another, by a new client"
    controller.hands.logins += 1
    await world.run(controller, 120)
    assert controller.ledger.machines[machine.intent].gone_in == "home"


async def test_machines_that_are_given_up_say_nothing_of_what_went_before_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Moved for good: that nobody knows the machines there does not make it the account of their disks."""
    world = World()
    controller = await at_work(world, 2)
    first, second = sorted(controller.ledger.machines.values(), key=lambda m: m.instance_id)
    world.account.end("i-1")
    left_behind(world, first)
    controller.hands.gates["volumes"] = asyncio.Event()
    await goes_on(world, controller, lambda: bool(controller.ledger.machines[first.intent].gone_at))
    elsewhere(world, controller)
    silent(world)
    await goes_on_for(world, controller, 2400, lambda: controller.ledger.account == "another")
    controller.hands.gates.pop("volumes").set()
    await world.run(controller, 60)
    assert controller.ledger.machines[first.intent].gone_in == "home"
    (told,) = [r for r in caplog.records if "given up" in r.getMessage()]
    assert vars(told)["machines"] == second.name
    assert vars(told)["disks"] == "d-i-2"


async def goes_on_for(
    world: World, controller: Controller, seconds: float, far_enough: Callable[[], bool]
) -> None:
    end = world.time.now + seconds
    while world.time.now < end:
        if far_enough():
            return
        await world.run(controller, 20)
    pytest.fail("it never got that far")


async def test_a_disk_that_nobody_saw_go_is_told_while_its_account_is_away_and_when_it_is_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, controller, machine = await gone_with_its_disk_left()
    elsewhere(world, controller)
    await world.run(controller, 100)
    assert "d-i-1" in controller.fleet.reports[machine.name]
    assert "forgotten" not in controller.fleet.reports[machine.name]
    await world.run(controller, 1900)
    assert controller.ledger.machines == {}
    assert "d-i-1" in controller.fleet.reports[machine.name]
    assert "forgotten" in controller.fleet.reports[machine.name]
    (told,) = [r for r in caplog.records if r.levelname == "WARNING" and "forgotten" in r.getMessage()]
    assert (vars(told)["machine"], vars(told)["disks"]) == (machine.name, "d-i-1")


async def test_time_at_home_does_not_count_for_the_half_hour_of_a_disk() -> None:
    world, controller, machine = await gone_with_its_disk_left()
    elsewhere(world, controller)
    await world.run(controller, 1700)
    controller.hands.faults["delete_volume"] = [Refused(Reason.NOT_ALLOWED_YET, "attached")] * 100
    back(world, controller)
    await world.run(controller, 60)
    assert machine.name not in controller.fleet.reports
    elsewhere(world, controller)
    await world.run(controller, 1700)
    assert machine.intent in controller.ledger.machines


@pytest.mark.parametrize("tags", [True, False])
async def test_a_disk_that_is_seen_by_a_new_client_says_that_it_is_the_same_account(tags: bool) -> None:
    world, controller, _ = await gone_with_its_disk_left(tags)
    world.account.name = "the same, by another client"
    controller.hands.logins += 1
    await world.run(controller, 120)
    assert "d-i-1" not in world.account.volumes
    assert controller.ledger.machines == {}


async def test_a_machine_that_vanished_with_its_disk_is_asked_for_twice_and_once_more_for_its_node() -> None:
    world = World()
    controller = await at_work(world)
    asked: list[str] = []
    controller.hands.on_call["instance"] = asked.append
    world.town.pods.clear()
    world.town.not_ready = 0  # or its Node is kept, and all is asked anew
    world.account.end("i-1")
    del world.account.volumes["d-i-1"]
    await world.run(controller, 120)
    assert controller.ledger.machines == {}
    assert (
        len(asked) == 4
    )  # once for the list that lacks it, once for its Node, and twice before its record goes


async def test_a_machine_that_was_evicted_and_is_still_leaving_is_not_taken_for_gone_there() -> None:
    world = World()
    world.town.not_ready = 0
    controller = await at_work(world)
    world.town.pods.clear()
    left = replace(world.account.volumes["d-i-1"], tags=())
    world.account.volumes["d-i-1"] = left
    world.account.end("i-1", "deleting")
    world.happen()
    await controller.look()
    await world.time.settle()
    assert (controller.only.phase, controller.only.gone_at) == (Phase.DELETING, 0.0)
    other = elsewhere(world, controller)
    world.town.add_pod("next")
    await world.run(controller, 120, step=1)
    assert controller.only.gone_at == 0.0
    assert controller.ledger.account == "home"
    assert other.orders == []
    world.town.pods.clear()
    back(world, controller)
    await world.run(controller, 600)
    assert world.account.volumes == {}
    assert controller.ledger.machines == {}


async def test_what_was_left_in_an_account_for_good_is_told_with_its_disks_before_it_is_forgotten() -> None:
    world = World()
    controller = await at_work(world)
    name = controller.only.name
    elsewhere(world, controller)
    silent(world)
    await goes_on_for(world, controller, 2400, lambda: controller.ledger.account == "another")
    await goes_on(world, controller, lambda: bool(controller.only.gone_at))
    assert controller.only.gone_in == "home"
    await world.run(controller, 1700)
    assert "d-i-1" in controller.fleet.reports[name]
    await world.run(controller, 200)
    assert controller.ledger.machines == {}
    assert "forgotten" in controller.fleet.reports[name]


async def test_the_half_hour_of_a_machine_long_gone_begins_with_the_other_account() -> None:
    world, controller, machine = await ready()
    controller.hands.faults["volumes"] = [CloudError(Reason.UNAVAILABLE, "away")] * 1000
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await goes_on(world, controller, lambda: bool(controller.only.gone_at))
    await world.run(controller, 2000)
    left_behind(world, machine)
    controller.hands.faults["volumes"] = []
    elsewhere(world, controller)
    await world.run(controller, 60)
    assert machine.intent in controller.ledger.machines
    back(world, controller)
    await world.run(controller, 600)
    assert "d-i-1" not in world.account.volumes


async def test_one_that_the_cloud_says_is_leaving_holds_nothing_up_at_home() -> None:
    world = World()
    controller = await at_work(world)
    world.account.end("i-1", "deleting")
    world.happen()
    await controller.look()
    controller.hands.faults["instance"] = [CloudError(Reason.UNAVAILABLE, "away")] * 50
    await world.run(controller, 20)
    assert not controller.only.gone_at
    world.town.add_pod("next")
    await world.run(controller, 5)
    assert len(world.account.orders) == 2


async def test_a_machine_that_two_answers_did_not_know_is_found_again_while_its_disk_is_there() -> None:
    world = World()
    controller = await at_work(world)
    hidden = moved(world.account)
    world.account.volumes["d-i-1"] = replace(world.account.volumes["d-i-1"], instance_id="i-1")
    controller.hands.faults["delete_volume"] = [Refused(Reason.NOT_ALLOWED_YET, "attached")] * 100
    silent(world)
    controller.hands.on_call["delete_volume"] = lambda _: world.account.instances.update(hidden)
    await goes_on_for(world, controller, 2400, lambda: bool(controller.hands.did("delete_volume")))
    await world.run(controller, 60)
    assert not controller.only.gone_at


async def test_a_disk_that_may_not_be_deleted_is_asked_for_again_and_told_until_it_is_gone() -> None:
    world, controller, machine = await ready()
    no = Refused(Reason.BAD_REQUEST, "answered 400: the storage is being moved")
    controller.hands.faults["delete_volume"] = [no] * 9
    world.town.not_ready = 0  # while it is Ready its disk is in use
    world.account.end(machine.instance_id)
    await world.run(controller, 60)
    assert "the storage is being moved" in controller.fleet.reports[machine.name]
    await world.run(controller, 600)
    assert controller.fleet.reports == {}
    assert world.account.volumes == {}
    assert controller.ledger.machines == {}
