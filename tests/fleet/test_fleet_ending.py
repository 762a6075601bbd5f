"""Everything that was bought is to go: work is asked to leave, the last look holds, and it can be ended at any time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from tests.fleet.fakes import make_pod
from tests.fleet.scene import Controller, World

NEVER = 1e9


async def used(**of_policy: Any) -> tuple[World, Controller, str]:
    """A machine whose GPU a pod of a ReplicaSet uses."""
    world = World(**({"cooldown": NEVER} | of_policy))
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    pod = make_pod("train", world.time.now, node=machine.name, owner_kind="ReplicaSet")
    world.town.pods[pod.key] = pod
    await world.run(controller, 60)
    controller.hands.calls.clear()
    return world, controller, machine.name


def wish(controller: Controller, how: str) -> None:
    controller.fleet.policy = replace(controller.fleet.policy, retire=how)


def forbidden() -> list[Any]:
    return [Refused(Reason.PDB, "the budget b forbids it")] * 1000


def verbs(controller: Controller) -> list[str]:
    return [verb for verb, _ in controller.hands.calls]


async def test_work_is_evicted_and_then_the_machine_goes_with_all_that_belongs_to_it() -> None:
    world, controller, _ = await used()
    wish(controller, "all")
    await world.run(controller, 120)
    found = [verb for verb in verbs(controller) if verb in ("evict", "list_pods_on", "delete", "delete_node")]
    assert found == ["evict", "list_pods_on", "delete", "delete_node"]
    for left in (world.account.alive(), world.account.volumes, world.town.nodes, controller.ledger.machines):
        assert not left
    await world.run(controller, 600)
    assert "create" not in verbs(controller)


async def test_a_pod_that_only_the_last_list_shows_stops_the_delete() -> None:
    world, controller, name = await used()
    wish(controller, "all")
    late = make_pod("late", world.time.now, node=name, owner_kind="ReplicaSet")
    controller.hands.on_call["list_pods_on"] = lambda target: world.town.pods.update({late.key: late})
    await world.run(controller, 20)
    assert "list_pods_on" in verbs(controller)
    assert "delete" not in verbs(controller)
    assert world.account.alive()


async def test_without_the_wish_a_used_machine_is_left_alone_and_after_work_waits_for_it() -> None:
    world, controller, _ = await used()
    await world.run(controller, 300)
    wish(controller, "after-work")
    await world.run(controller, 300)
    assert "evict" not in verbs(controller)
    world.town.pods.clear()
    await world.run(controller, 120)
    assert not world.account.alive()


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_wish_that_is_taken_back_in_the_drain_keeps_the_machine(restarted: bool) -> None:
    world, controller, name = await used()
    controller.hands.faults["evict"] = forbidden()
    wish(controller, "all")
    await world.run(controller, 30)
    assert controller.only.phase is Phase.DRAINING
    if restarted:
        await controller.die()
        controller = world.start()
    wish(controller, "")
    await world.run(controller, 60)
    assert controller.only.phase is Phase.READY
    assert not [t for t in world.town.nodes[name].taints if t.key.startswith("gpu-autoscaler/")]
    assert "delete" not in verbs(controller)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_budget_that_forbids_it_for_hours_delays_the_end_and_no_more(restarted: bool) -> None:
    world, controller, _ = await used()
    controller.hands.faults["evict"] = forbidden()
    wish(controller, "all")
    await world.run(controller, 1500)
    assert world.account.alive()
    assert "delete" not in verbs(controller)
    if restarted:
        await controller.die()
        controller = world.start()
        wish(controller, "all")
    controller.hands.faults["evict"] = []
    await world.run(controller, 300)
    assert not world.account.alive()


async def held_up(how: str, *, failed: bool = False) -> tuple[World, Controller]:
    """The work on it was asked to leave by this wish, and a budget of disruption forbids it still."""
    world, controller, _ = await used()
    if failed:
        controller.ledger.change(controller.only.intent, phase=Phase.DRAINING, reason=Reason.GPU_LOST)
        await world.run(controller, 60)
        assert "evict" not in verbs(controller)
    controller.hands.faults["evict"] = forbidden()
    wish(controller, how)
    await world.run(controller, 90)
    assert "evict" in verbs(controller)
    controller.hands.faults["evict"] = []
    controller.hands.calls.clear()
    return world, controller


@pytest.mark.parametrize("weaker", ["", "after-work"])
@pytest.mark.parametrize("failed", [False, True])
async def test_no_work_is_evicted_any_more_once_the_wish_is_weaker(weaker: str, failed: bool) -> None:
    world, controller = await held_up("all", failed=failed)
    wish(controller, weaker)
    await world.run(controller, 900)
    assert "evict" not in verbs(controller)
    assert world.account.alive()
    assert controller.only.phase is (Phase.DRAINING if failed else Phase.READY)
    world.town.pods.clear()
    await world.run(controller, 300)
    assert bool(world.account.alive()) is (not weaker and not failed)


async def test_a_pod_without_a_controller_stays_once_it_is_not_forced_any_more() -> None:
    world, controller, name = await used()
    lone = make_pod("lone", world.time.now, node=name, owner_kind="")
    world.town.pods = {lone.key: lone}
    controller.hands.faults["evict"] = forbidden()
    wish(controller, "force")
    await world.run(controller, 30)
    controller.hands.faults["evict"] = []
    controller.hands.calls.clear()
    wish(controller, "all")
    await world.run(controller, 300)
    assert "evict" not in verbs(controller)
    assert world.town.pods


async def test_one_that_is_silent_is_not_tried_again_and_again_while_its_work_cannot_be_seen_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, controller, name = await used()
    (train,) = world.town.pods.values()
    world.town.pods[train.key] = replace(train, deleting_at=world.time.now - 60)
    step, since = world.town.step, world.time.now

    def silent() -> None:
        step()
        if name in world.town.nodes:
            world.town.nodes[name] = replace(world.town.nodes[name], ready=False, ready_since=since)

    monkeypatch.setattr(world.town, "step", silent)
    wish(controller, "all")
    await world.run(controller, 300)
    assert controller.plan.machines[name].code is Reason.IN_USE
    assert not controller.heard.of("called_off")
    assert "taint" not in verbs(controller)
    assert world.account.alive()
    world.town.pods.clear()
    await world.run(controller, 120)
    assert not world.account.alive()


@pytest.mark.parametrize(
    ("how", "pause", "works", "left"),
    [
        ("all", "", False, 0),
        ("after-work", "", False, 0),
        ("all", "", True, 1),
        ("all", "scale-down", False, 4),
        ("", "", False, 4),
    ],
)
async def test_machines_whose_nodes_are_all_gone_go_and_the_last_list_holds(
    how: str, pause: str, works: bool, left: int
) -> None:
    world = World(cooldown=NEVER)
    controller = world.start()
    await controller.look(decide=False)
    for _ in range(4):
        controller.buy()
    await world.run(controller, 400)
    world.town.joins = False
    name, *_others = world.town.nodes
    world.town.nodes.clear()
    late = make_pod("late", world.time.now, node=name, owner_kind="ReplicaSet")
    if works:
        controller.hands.on_call["list_pods_on"] = lambda _target: world.town.pods.update({late.key: late})
    controller.fleet.policy = replace(controller.fleet.policy, retire=how, pause=pause)
    await world.run(controller, 1200)
    assert len(world.account.alive()) == left
