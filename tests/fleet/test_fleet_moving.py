"""Emptying a half-empty machine: only the pods it was planned for move, and any doubt gives it up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.cluster.protocol import ClusterError
from controller.domain import names
from controller.domain.kube import DeviceClaim, DeviceRequest, DisruptionBudget, PodDeviceClaim, Selector
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused, Unknown
from controller.domain.reason import Reason
from tests.fleet.fakes import make_pod
from tests.fleet.scene import Controller, World

NEVER = 1e9
WEB = {"owner_kind": "ReplicaSet"}


async def half_empty(**of_policy: object) -> tuple[World, Controller, Machine]:
    """A Ready machine with one GPU pod that a ReplicaSet would make again elsewhere."""
    world = World(**({"cooldown": NEVER, "consolidate": "cheaper"} | of_policy))
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    machine = await world.until(controller, Phase.READY)
    await world.time.advance(30)
    world.town.work = NEVER
    add(world, machine, "mover")
    controller.hands.calls.clear()
    return world, controller, machine


def add(world: World, machine: Machine, name: str, gpus: int = 1, **more: object) -> None:
    pod = make_pod(name, world.time.now, gpus=gpus, node=machine.name, **(WEB | more))
    world.town.pods[pod.key] = pod


async def emptied(
    world: World,
    controller: Controller,
    machine: Machine,
    seconds: float = 90,
    moving: tuple[str, ...] = ("default/mover uid-mover",),
) -> None:
    controller.fleet.retire(machine.name, Reason.CONSOLIDATION, "half empty", moving)
    await world.time.settle()
    await world.run(controller, seconds)


async def test_the_pods_that_were_planned_to_move_are_evicted_and_the_machine_goes() -> None:
    world, controller, machine = await half_empty()
    await emptied(world, controller, machine)
    assert controller.hands.did("evict") == [("evict", "default/mover")]
    verbs = [verb for verb, _ in controller.hands.calls]
    assert verbs.index("evict") < verbs.index("list_pods_on") < verbs.index("delete")
    assert not world.account.alive()
    assert not controller.ledger.machines


def kept(world: World, controller: Controller, machine: Machine, *, tried: bool = True) -> None:
    assert not controller.hands.did("delete")
    assert (controller.only.phase, controller.only.moving) == (Phase.READY, ())
    assert (controller.only.kept_at > 0) is tried
    assert {taint.key for taint in world.town.nodes[machine.name].taints} <= {names.TAINT_IDLE}
    assert len(world.account.alive()) == 1


@pytest.mark.parametrize("setting", ["off", "cheaper"])
async def test_without_the_setting_or_the_plan_for_it_no_gpu_pod_is_evicted(setting: str) -> None:
    world, controller, machine = await half_empty(consolidate=setting)
    moving = ("default/mover uid-mover",) if setting == "off" else ()
    await emptied(world, controller, machine, 60, moving)
    assert not controller.hands.did("evict")
    assert controller.heard.of("called_off") == ["in_use"]
    kept(world, controller, machine, tried=bool(moving))


@pytest.mark.parametrize(
    "changes",
    [
        {"owner_kind": "Job"},
        {"owner_kind": ""},
        {"device_claims": (PodDeviceClaim(name="g", claim="c"),)},
        {"uid": "another"},  # a later pod of the same name
        {"annotations": {"gpu-autoscaler/do-not-disrupt": "true"}},
    ],
)
async def test_what_the_pod_has_become_since_the_plan_is_looked_at(changes: dict[str, object]) -> None:
    world, controller, machine = await half_empty()
    add(world, machine, "mover", **changes)
    await emptied(world, controller, machine, 60)
    assert not controller.hands.did("evict")
    assert controller.heard.of("called_off")[0] in ("in_use", "do_not_disrupt")
    kept(world, controller, machine)


@pytest.mark.parametrize("verb", ["taint", "annotate", "evict"])
async def test_other_work_that_arrives_gives_it_up(verb: str) -> None:
    world, controller, machine = await half_empty()
    controller.hands.on_call[verb] = lambda _: add(world, machine, "new")
    await emptied(world, controller, machine, 60)
    assert "default/new" not in [target for _, target in controller.hands.did("evict")]
    assert "in_use" in controller.heard.of("called_off")
    kept(world, controller, machine)


async def test_the_last_look_still_holds_for_the_very_pods_that_were_to_move() -> None:
    world, controller, machine = await half_empty()
    pod = world.town.pods["default/mover"]

    def comes_back(_: str) -> None:
        world.town.pods[pod.key] = pod

    controller.hands.on_call["list_pods_on"] = comes_back
    controller.hands.not_shown_yet.add(pod.key)
    await emptied(world, controller, machine, 60)
    assert controller.hands.did("list_pods_on")
    kept(world, controller, machine)


async def test_an_eviction_that_is_refused_gives_it_up_at_once() -> None:
    world, controller, machine = await half_empty()
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "needs 1 healthy pod")] * 100
    await emptied(world, controller, machine, 30)
    assert len(controller.hands.did("evict")) == 1
    assert controller.heard.of("called_off") == ["pdb"]
    kept(world, controller, machine)


async def test_a_budget_that_forbids_it_is_seen_before_the_hard_taint() -> None:
    world, controller, machine = await half_empty()
    world.town.budgets = [DisruptionBudget(namespace="default", name="b", uid="b", selector=Selector())]
    await emptied(world, controller, machine, 30)
    assert controller.heard.of("called_off") == ["pdb"]
    assert not [t for _, t in controller.hands.did("taint") if "+NoSchedule" in t]
    kept(world, controller, machine)


async def test_an_eviction_whose_answer_is_lost_or_that_is_throttled_is_tried_again() -> None:
    world, controller, machine = await half_empty()
    controller.hands.faults["evict"] = ["never", Refused(Reason.RATE_LIMITED, "slow down"), Unknown("?")]
    await emptied(world, controller, machine)
    assert len(controller.hands.did("evict")) > 2
    assert not world.account.alive()


async def test_it_is_carried_on_after_a_restart_only_while_it_is_still_asked_for() -> None:
    for setting, gone in (("cheaper", True), ("off", False)):
        world, controller, machine = await half_empty()
        controller.hands.faults["evict"] = [ClusterError("unreachable", "no answer")] * 50
        await emptied(world, controller, machine, 10)
        assert controller.only.phase is Phase.DRAINING
        assert '"moving":["default/mover uid-mover"]' in world.stored()
        await controller.die()
        second = world.start(replace(world.policy, consolidate=setting))
        await world.run(second, 90)
        assert (not world.account.alive()) is gone
        assert bool(second.hands.did("evict")) is gone


@pytest.mark.parametrize("admin", [True, False])
async def test_a_claim_that_only_watches_devices_keeps_no_machine_and_any_other_does(admin: bool) -> None:
    world, controller, machine = await half_empty()
    world.town.pods.clear()
    refers = (PodDeviceClaim(name="g", claim="c"),)
    add(world, machine, "watcher", 0, device_claims=refers)
    request = DeviceRequest(device_class="gpu.nvidia.com", admin=admin)
    claim = DeviceClaim(namespace="default", name="c", requests=(request,))
    controller.hands.device_claims = lambda: (claim,)  # type: ignore[attr-defined]
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await world.run(controller, 90)
    assert (not world.account.alive()) is admin
