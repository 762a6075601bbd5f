"""Answers that are not about our machines: of another project, or of our own that knows them no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.app import picture
from controller.cloud.protocol import CloudError
from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.cloudthings import Instance
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from controller.fleet.account import BELIEVED_AFTER
from controller.fleet.removal import SOFT
from controller.planning.planner import plan as make_plan
from tests.fleet.fakes import Account, make_pod
from tests.fleet.scene import POOL, Controller, World
from tests.fleet.test_fleet_removal import ready

TOLD = "project"


async def at_work(world: World, machines: int = 1) -> Controller:
    """Machines with running pods that go on for as long as anybody looks."""
    world.town.work = 1e9
    for number in range(machines):
        world.town.add_pod(f"train-{number}")
    controller = world.start()
    await world.run(controller, 120)
    assert [m.phase for m in controller.ledger.machines.values()] == [Phase.READY] * machines
    return controller


def moved(account: Account) -> dict[str, Instance]:
    """The account does not know any more what is there."""
    hidden = dict(account.instances)
    account.instances.clear()
    return hidden


def elsewhere(world: World, controller: Controller) -> Account:
    """The credentials are replaced by those of another project."""
    controller.hands.account = Account(world.time, name="another")
    controller.hands.logins += 1
    return controller.hands.account


async def goes_on(world: World, controller: Controller, far_enough: Callable[[], bool]) -> None:
    for _ in range(300):
        if far_enough():
            return
        await world.run(controller, 1)
    pytest.fail("it never got that far")


def silent(world: World) -> None:
    """Their kubelets report no more."""
    world.town.cut_off |= world.account.instances.keys()
    for node in list(world.town.nodes):
        world.town.lose(node)


def back(world: World, controller: Controller) -> None:
    controller.hands.account = world.account
    controller.hands.logins += 1


async def test_in_another_project_nothing_is_bought_and_nothing_forgotten() -> None:
    for machines in (1, 3):
        world = World()
        controller = await at_work(world, machines)
        other = elsewhere(world, controller)
        world.town.add_pod("next")
        await world.run(controller, 1800)
        assert other.orders == []
        why = controller.plan.pods["default/next"]
        assert why.code is Reason.VANISHED
        assert "credentials" in why.message
        assert "credentials" in controller.fleet.reports[TOLD]
        back(world, controller)
        await world.run(controller, 120)
        assert TOLD not in controller.fleet.reports
        assert len(world.account.orders) == len(controller.ledger.machines) == machines + 1
        assert all(pod.node for pod in world.town.pods.values())


async def test_in_another_project_nodes_that_are_not_ready_for_minutes_are_kept_with_their_records() -> None:
    world = World()
    controller = await at_work(world, 2)
    other = elsewhere(world, controller)
    world.town.add_pod("next")
    silent(world)
    await world.run(controller, 1500)
    assert not any(node.ready for node in world.town.nodes.values())
    assert other.orders == []
    assert len(world.town.nodes) == len(controller.ledger.machines) == 2
    world.town.cut_off.clear()
    back(world, controller)
    await world.run(controller, 120)
    assert len(world.account.orders) == 3
    assert {m.phase for m in controller.ledger.machines.values()} == {Phase.READY}
    assert len(world.account.alive()) == 3


async def test_no_order_goes_out_between_new_credentials_and_the_next_list() -> None:
    world = World()
    controller = await at_work(world, 2)
    other = elsewhere(world, controller)
    assert controller.fleet.wants_a_list
    world.town.add_pod("next")
    await controller.fleet.advance()
    plan = make_plan(
        picture.take(controller.fleet.policy, controller.hands, controller.fleet, world.time.now)
    )
    assert plan.actions
    await controller.fleet.apply(plan.actions)
    await world.time.settle()
    assert other.orders == world.account.orders[2:] == []
    assert other.scripts == {}
    await world.run(controller, 600)
    assert other.orders == []


async def test_the_same_project_with_other_credentials_goes_on() -> None:
    world = World()
    controller = await at_work(world, 2)
    world.account.name = "the same, told apart by its new client id"
    controller.hands.logins += 1
    world.town.add_pod("next")
    await world.run(controller, 10)
    assert len(world.account.orders) == 3
    assert TOLD not in controller.fleet.reports


async def test_machines_that_boot_or_whose_orders_are_open_are_not_forgotten_in_another_project() -> None:
    world = World()
    world.town.work = 1e9
    controller = world.start()
    await controller.look()
    world.town.add_pod("next")
    controller.hands.faults["create"] = ["lost"]
    await controller.look()
    await world.time.settle()
    assert [m.phase for m in controller.ledger.machines.values()] == [Phase.INTENDED]
    other = elsewhere(world, controller)
    await world.run(controller, 1200)
    assert [m.phase for m in controller.ledger.machines.values()] == [Phase.INTENDED]
    assert other.orders == []
    back(world, controller)
    await world.run(controller, 60)
    assert world.town.pods["default/next"].node
    assert len(world.account.orders) == 1


async def test_a_delete_in_another_project_is_no_proof_that_the_machine_is_gone() -> None:
    world, controller, machine = await ready()
    controller.hands.on_call["delete"] = lambda _: _switch(world, controller)
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await world.run(controller, 600)
    assert controller.only.name == machine.name
    assert not controller.only.delete_at
    controller.hands.on_call.clear()
    back(world, controller)
    await world.run(controller, 120)
    assert controller.ledger.machines == {}
    assert world.account.alive() == []


def _switch(world: World, controller: Controller) -> None:
    controller.hands.account = Account(world.time, name="another")


async def test_who_moves_to_another_project_for_good_is_believed_when_no_node_was_ready_for_half_an_hour() -> (
    None
):
    world = World()
    controller = await at_work(world, 2)
    other = elsewhere(world, controller)
    await world.run(controller, 3600, step=30)
    assert len(controller.ledger.machines) == 2
    silent(world)
    world.town.add_pod("next")
    await world.run(controller, BELIEVED_AFTER - 60)
    assert other.orders == []
    await world.run(controller, 300)
    assert len(other.orders) == 1
    assert TOLD not in controller.fleet.reports


async def test_a_ledger_that_tells_no_account_is_of_the_one_that_knows_its_machines() -> None:
    """Of an earlier version."""
    world = World()
    controller = await at_work(world, 2)
    controller.ledger.found_in("")
    await controller.ledger.flush()
    await controller.die()
    again = world.start()
    await world.run(again, 5)
    assert again.ledger.account == "home"
    again.ledger.found_in("")
    await again.ledger.flush()
    await again.die()
    third = world.start()
    other = elsewhere(world, third)
    world.town.add_pod("next")
    await world.run(third, 1200)
    assert other.orders == []
    assert len(third.ledger.machines) == 2


async def test_a_pass_between_a_list_and_the_questions_about_what_it_lacks_raises_no_alarm() -> None:
    world = World()
    controller = await at_work(world)
    world.account.empty = True
    gate = controller.hands.gates["instance"] = asyncio.Event()
    listing = asyncio.create_task(controller.fleet.refresh_inventory())
    await world.time.settle()
    await controller.fleet.advance()
    assert TOLD not in controller.fleet.reports
    assert controller.only.absent_lists == 0
    gate.set()
    await listing
    await controller.fleet.advance()
    assert TOLD not in controller.fleet.reports
    assert controller.only.absent_lists == 0


async def test_nothing_is_bought_where_none_of_our_working_machines_is_known() -> None:
    for machines in (1, 3):
        world = World()
        controller = await at_work(world, machines)
        hidden = moved(world.account)
        world.town.add_pod("next")
        await world.run(controller, 1800)
        assert len(world.account.orders) == machines
        why = controller.plan.pods["default/next"]
        assert why.code is Reason.VANISHED
        assert "Ready" in why.message
        assert controller.fleet.reports[TOLD] in why.message
        world.account.instances.update(hidden)
        await world.run(controller, 120)
        assert TOLD not in controller.fleet.reports
        assert len(world.account.orders) == machines + 1
        assert len(controller.ledger.machines) == machines + 1
        assert len(world.town.pods) == machines + 1
        assert all(pod.node for pod in world.town.pods.values())


async def test_also_a_controller_that_starts_there_buys_nothing() -> None:
    world = World()
    controller = await at_work(world, 2)
    await controller.die()
    moved(world.account)
    world.town.add_pod("next")
    again = world.start()
    await world.run(again, 600)
    assert len(world.account.orders) == 2
    assert again.plan.pods["default/next"].code is Reason.VANISHED


async def test_one_machine_that_is_known_is_enough_to_go_on() -> None:
    world = World()
    controller = await at_work(world, 2)
    del world.account.instances["i-1"]
    world.town.add_pod("next")
    await world.run(controller, 5)
    assert len(world.account.orders) == 3
    assert TOLD not in controller.fleet.reports


async def test_an_evicted_machine_is_replaced_at_once_while_its_node_still_looks_ready() -> None:
    world = World()
    controller = await at_work(world)
    world.account.end("i-1")
    world.town.add_pod("next")
    await world.run(controller, 10)
    assert len(world.account.orders) == 2


async def test_an_only_machine_that_is_forgotten_at_once_holds_orders_up_until_its_node_is_not_ready() -> (
    None
):
    world = World()
    controller = await at_work(world)
    moved(world.account)
    world.town.add_pod("next")
    await world.run(controller, 30)
    assert len(world.account.orders) == 1
    (node,) = world.town.nodes
    world.town.lose(node)
    await world.run(controller, 5)
    assert len(world.account.orders) == 2


async def test_machines_that_we_removed_ourselves_hold_nothing_up() -> None:
    world = World()
    world.town.not_ready = 1e9
    controller = await at_work(world)
    world.town.pods.clear()
    await world.until(controller, Phase.DELETING)
    world.town.add_pod("next")
    await world.run(controller, 30)
    assert len(world.account.orders) == 2


async def draining() -> tuple[World, Controller, Machine]:
    """A machine in its drain, which a budget holds up; pods that come to it would stay."""
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    world.town.bound_at[pod.key] = world.time.now
    world.town.work = 1e9
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "budget")] * 60
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await world.run(controller, 20)
    assert names.TAINT_DRAINING in {taint.key for taint in world.town.nodes[machine.name].taints}
    return world, controller, machine


async def test_a_machine_that_was_out_of_sight_in_its_drain_takes_pods_again() -> None:
    world, controller, machine = await draining()
    hidden = moved(world.account)
    await world.until(controller, Phase.DELETING)
    world.account.instances.update(hidden)
    await world.run(controller, 120)
    assert controller.only.phase is Phase.READY
    assert names.TAINT_DRAINING not in {taint.key for taint in world.town.nodes[machine.name].taints}


async def test_a_minimum_is_not_bought_again_in_the_moment_when_the_doubt_ends() -> None:
    for hidden_for in (90, 300, 1800):
        world = World(pools=(replace(POOL, min=1),))
        controller = world.start()
        await world.until(controller, Phase.READY)
        hidden = moved(world.account)
        await world.run(controller, hidden_for)
        world.account.instances.update(hidden)
        await world.run(controller, 300, step=1)
        assert len(world.account.orders) == 1
        assert controller.only.phase is Phase.READY


async def test_nor_is_a_machine_for_a_pod_that_waits_for_one_seen_again_that_was_tainted() -> None:
    world, controller, machine = await draining()
    hidden = moved(world.account)
    await world.until(controller, Phase.DELETING)
    world.town.add_pod("next")
    await world.run(controller, 60)
    assert not world.town.pods["default/next"].node
    world.account.instances.update(hidden)
    await world.run(controller, 60, step=1)
    assert world.town.pods["default/next"].node == machine.name
    assert len(world.account.orders) == 1
    assert not controller.only.drain_at


async def test_a_restart_takes_the_marks_of_a_removal_off_a_machine_that_was_seen_again() -> None:
    world, controller, machine = await draining()
    hidden = moved(world.account)
    await world.until(controller, Phase.DELETING)
    world.account.instances.update(hidden)
    controller.hands.faults["taint"] = [ClusterError("unreachable", "away")] * 100
    await goes_on(world, controller, lambda: controller.only.phase is Phase.READY)
    assert names.TAINT_DRAINING in {taint.key for taint in world.town.nodes[machine.name].taints}
    await controller.die()
    again = world.start()
    await world.run(again, 10)
    assert again.only.phase is Phase.READY
    assert world.town.nodes[machine.name].taints == (SOFT,)  # idle, and no more than that
    assert not again.only.drain_at


async def test_a_record_whose_machine_is_seen_while_it_is_closed_is_kept() -> None:
    world = World()
    controller = await at_work(world)
    hidden = moved(world.account)
    await world.until(controller, Phase.DELETING)
    gate = controller.hands.gates["volumes"] = asyncio.Event()
    await goes_on(world, controller, lambda: bool(controller.only.gone_at))
    (node,) = world.town.nodes
    world.town.lose(node)
    world.account.instances.update(hidden)
    await world.run(controller, 10)
    gate.set()
    await world.run(controller, 120)
    assert controller.only.phase is Phase.READY
    assert list(world.town.nodes) == [node]
    assert "d-i-1" in world.account.volumes
    assert len(world.account.orders) == 1


async def test_lists_that_lack_a_machine_about_which_nobody_can_say_end_no_wait() -> None:
    """Three lists lacked it within seconds; those of the next minutes are followed by no answer about its id."""
    world = World()
    controller = await at_work(world)
    hidden = moved(world.account)
    await goes_on(world, controller, lambda: controller.only.absent_lists >= 3)
    controller.hands.faults["instance"] = [CloudError(Reason.UNAVAILABLE, "away")] * 1000
    await world.run(controller, 300)
    assert controller.only.phase is Phase.READY
    world.account.instances.update(hidden)
    await world.run(controller, 10)
    assert controller.only.absent_lists == 0


async def test_a_list_that_is_cut_short_asks_for_no_machine_that_is_known() -> None:
    world = World()
    controller = await at_work(world, 2)
    world.account.complete, world.account.empty = False, True
    asked = len(controller.hands.did("instance"))
    await world.run(controller, 60)
    assert len(controller.hands.did("instance")) == asked
    assert {machine.phase for machine in controller.ledger.machines.values()} == {Phase.READY}


async def test_a_machine_that_is_adopted_is_followed_as_far_as_it_is_in_the_same_pass() -> None:
    world = World()
    controller = await at_work(world)
    await controller.die()
    world.town.maps.clear()  # deleted by hand
    again = world.start()
    await again.look()
    assert again.only.phase is Phase.STARTED
