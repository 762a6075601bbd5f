"""A machine that is shut down in the console costs its full price, and nothing on it runs: it has to go, in time.

Nobody there can confirm the end of its pods, so the pods alone never let it go.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from tests.fleet.fakes import make_pod
from tests.fleet.scene import Controller, World
from tests.fleet.test_fleet_removal import NEVER, ready

GRACE = 600.0  # deadlines.stopped


async def busy(**of_pod: object) -> tuple[World, Controller, Machine]:
    world, controller, machine = await ready()
    world.town.work = NEVER
    work(world, machine, **of_pod)
    return world, controller, machine


def work(world: World, machine: Machine, **of_pod: object) -> None:
    pod = make_pod("train", world.time.now, node=machine.name, owner_kind="Job", **of_pod)
    world.town.pods[pod.key] = pod


def shut_down(world: World, machine: Machine, status: str = "offline") -> None:
    world.account.set("i-1", status=status)
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, ready=False, ready_since=world.time.now)


def start(world: World, machine: Machine) -> None:
    world.account.set("i-1", status="running")
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, ready=True, ready_since=world.time.now)


def given_up(world: World) -> None:
    """Kubernetes asks for the end of its pods, and nobody confirms it."""
    for key, pod in world.town.pods.items():
        world.town.pods[key] = replace(pod, deleting_at=world.time.now)


async def test_a_machine_that_is_shut_down_under_its_work_goes_with_its_node_after_the_grace() -> None:
    world, controller, machine = await busy()
    shut_down(world, machine)
    await world.run(controller, GRACE - 60)
    assert controller.only.phase is Phase.READY
    assert not controller.hands.did("taint", "evict", "delete")
    given_up(world)
    await world.run(controller, 120)
    assert not world.account.alive()
    assert not world.account.volumes
    assert not world.town.nodes  # from here on Kubernetes lets go of the pods, and their owners make others
    assert not controller.ledger.machines
    assert not controller.hands.did("evict")  # nobody is there to evict them
    verbs = [verb for verb, _ in controller.hands.calls]
    assert verbs[verbs.index("delete") - 1] == "list_pods_on"


async def test_five_minutes_in_the_console_cost_nobody_a_machine() -> None:
    world, controller, machine = await busy()
    for _ in range(4):
        shut_down(world, machine)
        await world.run(controller, 300)
        start(world, machine)
        await world.run(controller, 60)
    assert controller.only.phase is Phase.READY
    assert not controller.hands.did("evict", "delete")
    assert "ready>draining" not in controller.heard.of("phase")


async def test_an_idle_machine_that_is_shut_down_has_the_same_grace_and_then_goes() -> None:
    world, controller, machine = await ready()
    shut_down(world, machine)
    await world.run(controller, GRACE - 30)
    assert controller.only.phase is Phase.READY
    await world.run(controller, 90)
    assert not world.account.alive()


def _annotated(world: World, machine: Machine) -> None:
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, annotations={"gpu-autoscaler/do-not-disrupt": "true"})


def _not_annotated(world: World, machine: Machine) -> None:
    world.town.nodes[machine.name] = replace(world.town.nodes[machine.name], annotations={})


def _paused(world: World, machine: Machine) -> None:
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, annotations={"gpu-autoscaler/pause": "scale-down"})


def _protected(world: World, machine: Machine) -> None:
    """The pod tolerates that its node is away, so Kubernetes does not give it up."""
    for key, pod in world.town.pods.items():
        shape = replace(pod.shape, annotations={"gpu-autoscaler/do-not-disrupt": "true"})
        world.town.pods[key] = replace(pod, shape=shape)


def _given_up(world: World, machine: Machine) -> None:
    given_up(world)


@pytest.mark.parametrize(
    ("keep", "let_go"),
    [(_annotated, _not_annotated), (_paused, _not_annotated), (_protected, _given_up)],
)
async def test_whoever_wants_to_keep_it_can_say_so_and_take_that_back(
    keep: Callable[[World, Machine], None], let_go: Callable[[World, Machine], None]
) -> None:
    world, controller, machine = await busy()
    keep(world, machine)
    shut_down(world, machine)
    await world.run(controller, GRACE * 3)
    assert controller.only.phase is Phase.READY
    assert not controller.hands.did("taint", "evict", "delete")
    assert controller.plan.machines[machine.name].code is Reason.STOPPED
    let_go(world, machine)
    await world.run(controller, 120)
    assert not world.account.alive()


async def test_a_machine_whose_node_is_ready_is_never_taken_for_one_that_is_off() -> None:
    world, controller, _ = await busy()
    world.account.set("i-1", status="offline")
    await world.run(controller, GRACE * 4)
    assert controller.only.phase is Phase.READY
    assert not controller.hands.did("taint", "evict", "delete")


async def test_what_the_watch_shows_is_not_enough_the_node_itself_is_read_before_the_delete() -> None:
    world, controller, machine = await busy()
    shut_down(world, machine)
    calm = world.town.nodes[machine.name]

    def well(_: str) -> None:
        world.town.nodes[machine.name] = replace(calm, ready=True)

    controller.hands.on_call["get_node"] = well
    await world.run(controller, GRACE + 60)
    assert not controller.hands.did("delete")
    assert controller.only.phase is Phase.READY


async def test_what_lists_say_is_not_enough_it_is_asked_for_by_its_id_before_the_delete() -> None:
    world, controller, machine = await busy()
    shut_down(world, machine)
    answer = controller.hands.instance

    async def by_id(instance_id: str):  # type: ignore[no-untyped-def]
        found = await answer(instance_id)
        return replace(found, status="running") if found is not None else None

    controller.hands.instance = by_id  # type: ignore[method-assign]
    await world.run(controller, GRACE * 4)
    assert not controller.hands.did("delete", "evict")
    assert world.account.alive()


@pytest.mark.parametrize("status", ["dreaming", "error", "running", "unknown", "starting_hibernation"])
async def test_nothing_is_deleted_under_work_on_a_status_that_does_not_say_off(status: str) -> None:
    world, controller, machine = await busy()
    shut_down(world, machine, status)
    given_up(world)
    await world.run(controller, 6 * 3600, step=60)
    assert world.account.alive()
    assert not controller.hands.did("delete")


async def test_a_drain_that_finds_it_running_again_gives_it_back_to_its_work() -> None:
    world, controller, machine = await busy()
    shut_down(world, machine)

    def comes_back(_: str) -> None:
        if controller.only.phase is Phase.DRAINING:
            start(world, machine)

    controller.hands.on_call["annotate"] = comes_back
    await world.run(controller, GRACE + 120)
    assert controller.heard.of("phase").count("ready>draining") == 1
    assert controller.only.phase is Phase.READY
    assert controller.only.stopped_at == 0
    assert world.account.alive()
    assert not world.town.nodes[machine.name].taints


@pytest.mark.parametrize("at", [30.0, 300.0, 605.0])
async def test_a_successor_goes_on_counting_from_when_it_was_shut_down(at: float) -> None:
    world, controller, machine = await busy()
    shut_down(world, machine)
    await world.run(controller, at)
    await controller.die()
    successor = world.start()
    await world.run(successor, GRACE - at + 60)
    assert not world.account.alive()


async def test_a_machine_that_is_shut_down_in_the_middle_of_a_drain_does_not_wait_for_its_pods() -> None:
    world, controller, machine = await ready()
    pod = make_pod("web", world.time.now, gpus=0, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    world.town.work = NEVER
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.run(controller, 5)
    shut_down(world, machine)
    given_up(world)
    await world.run(controller, 2 * GRACE)
    assert not world.account.alive()
