"""Pods that serve the others on their machine are asked to leave last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.kube import Pod
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.reason import Reason
from controller.fleet.eviction import CRITICAL, asked_now
from tests.fleet.fakes import make_pod
from tests.fleet.scene import Controller, World
from tests.fleet.test_fleet_removal import ready

GRACE = 40.0
CRITICAL_ONES = ("a-dns", "m-csi")


def placed(world: World, machine: Machine, names: tuple[str, ...], priority: int = 0, gpus: int = 0) -> None:
    for name in names:
        pod = make_pod(
            name, world.time.now, gpus=gpus, node=machine.name, owner_kind="ReplicaSet", priority=priority
        )
        world.town.pods[pod.key] = pod


def take_their_time(world: World, controller: Controller, *, never: str = "") -> None:
    """Evicted pods end after their grace, and not at once; one keeps a finalizer that nobody takes off."""
    hands, evict = controller.hands, controller.hands.evict

    async def slowly(pod: Pod) -> Outcome:
        found = world.town.pods[pod.key]
        outcome = await evict(pod)
        if isinstance(outcome, Happened):
            world.town.pods[pod.key] = replace(found, deleting_at=world.time.now + GRACE)
        return outcome

    hands.evict = slowly  # type: ignore[method-assign]
    step = world.happen

    def happen() -> None:
        step()
        for key, pod in list(world.town.pods.items()):
            if pod.deleting_at and world.time.now > pod.deleting_at and pod.name != never:
                del world.town.pods[key]

    world.happen = happen  # type: ignore[method-assign]


def evicted(controller: Controller) -> list[str]:
    return [target.split("/")[1] for _, target in controller.hands.did("evict")]


def go(controller: Controller, machine: Machine, how: str) -> None:
    if how == "idle":
        controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    else:
        controller.fleet.policy = replace(controller.fleet.policy, retire="all")


@pytest.mark.parametrize("how", ["idle", "all is to go"])
async def test_critical_pods_are_asked_to_leave_when_no_other_is_left(how: str) -> None:
    world, controller, machine = await ready()
    placed(world, machine, CRITICAL_ONES, CRITICAL)
    placed(world, machine, ("b-web", "z-web"), gpus=0)
    take_their_time(world, controller)
    go(controller, machine, how)
    await world.run(controller, 30)
    assert sorted(evicted(controller)) == ["b-web", "z-web"]
    await world.run(controller, 200)
    assert sorted(evicted(controller)[2:]) == sorted(CRITICAL_ONES)
    assert not world.account.alive()


async def test_a_pod_that_never_ends_holds_critical_ones_back_for_its_own_grace_only() -> None:
    world, controller, machine = await ready()
    placed(world, machine, CRITICAL_ONES, CRITICAL)
    placed(world, machine, ("web",))
    take_their_time(world, controller, never="web")
    go(controller, machine, "idle")
    await world.run(controller, GRACE + 30)
    assert evicted(controller) == ["web"]
    await world.run(controller, 20)
    assert sorted(evicted(controller)[1:]) == sorted(CRITICAL_ONES)


async def test_critical_pods_stay_where_a_budget_ends_the_drain() -> None:
    world, controller, machine = await ready()
    placed(world, machine, CRITICAL_ONES, CRITICAL)
    placed(world, machine, ("web",))
    controller.hands.faults["evict"] = [Refused(Reason.PDB, "needs 1 healthy pod")] * 1000
    go(controller, machine, "idle")
    await world.run(controller, 700)
    assert set(evicted(controller)) == {"web"}
    assert (controller.only.phase, controller.heard.of("called_off")) == (Phase.READY, ["pdb"])


async def test_where_only_critical_pods_are_they_are_asked_at_once() -> None:
    world, controller, machine = await ready()
    placed(world, machine, CRITICAL_ONES, CRITICAL)
    go(controller, machine, "idle")
    await world.run(controller, 60)
    assert sorted(evicted(controller)) == sorted(CRITICAL_ONES)
    assert not world.account.alive()


@pytest.mark.parametrize(
    ("priority", "last"), [(CRITICAL - 1, False), (CRITICAL, True), (CRITICAL + 1000, True)]
)
def test_critical_is_what_the_two_classes_of_the_api_server_have(priority: int, last: bool) -> None:
    pod, other = make_pod("p", 0.0, gpus=0, priority=priority), make_pod("other", 0.0, gpus=0)
    assert asked_now([pod, other], 0.0, 30.0) == ([other] if last else [pod, other])
