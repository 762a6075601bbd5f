"""The account answers for another project: complete lists without our machines, and ids it never heard of."""

from __future__ import annotations

from controller.domain import names
from controller.domain.cloudthings import Instance
from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from tests.fleet.fakes import Account, make_pod
from tests.fleet.scene import Controller, World
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
    """What is there belongs to a project that these credentials do not reach."""
    hidden = dict(account.instances)
    account.instances.clear()
    return hidden


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
        assert "credentials" in controller.fleet.reports[TOLD]
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


async def test_a_machine_that_was_out_of_sight_in_its_drain_takes_pods_again() -> None:
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
    hidden = moved(world.account)
    while controller.only.phase is not Phase.DELETING:
        await world.run(controller, 5)
    world.account.instances.update(hidden)
    await world.run(controller, 120)
    assert controller.only.phase is Phase.READY
    assert names.TAINT_DRAINING not in {taint.key for taint in world.town.nodes[machine.name].taints}
