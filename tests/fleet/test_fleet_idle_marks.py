"""Since when a machine is idle: told by what was decided last, however late the watch or the write may be."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from controller.cluster.protocol import ClusterError
from controller.domain.kube import Node
from controller.domain.machine import Machine, Phase
from controller.domain.plan import Retire
from controller.fleet.removal import SOFT
from tests.fleet.fakes import Town, make_pod
from tests.fleet.scene import Controller, World

IDLE = "gpu-autoscaler/idle-since"
NEVER = 1e9


class Watch:
    """What the controller sees of Nodes: as they were `lag` seconds ago."""

    def __init__(self, controller: Controller, town: Town, lag: float) -> None:
        self._town, self._lag = town, lag
        self._seen: list[tuple[float, dict[str, Node]]] = []
        self.hold: dict[str, Node] | None = None
        controller.hands.nodes = lambda: tuple(self._shown().values())  # type: ignore[method-assign]
        controller.hands.node = lambda name: self._shown().get(name)  # type: ignore[method-assign]

    def note(self, now: float) -> None:
        self._seen.append((now, dict(self._town.nodes)))
        while len(self._seen) > 1 and self._seen[1][0] <= now - self._lag:
            self._seen.pop(0)

    def _shown(self) -> dict[str, Node]:
        if self.hold is not None:
            return self.hold
        return self._seen[0][1] if self._seen else self._town.nodes


async def ready(number: int = 1, **of_policy: object) -> tuple[World, Controller, list[Machine]]:
    """Machines that are Ready, bought for nobody in particular; nothing was decided about them yet."""
    world = World(**({"cooldown": 20.0, "disruption_budget": "1"} | of_policy))
    controller = world.start()
    await controller.look(decide=False)
    for _ in range(number):
        controller.buy()
    for _ in range(25):
        world.happen()
        await controller.look(decide=False)
        await world.time.advance(5.0)
        found = controller.fleet.machines()
        if all(machine.phase is Phase.READY for machine in found):
            break
    assert {machine.phase for machine in found} == {Phase.READY}
    world.town.work = NEVER
    controller.hands.calls.clear()
    return world, controller, list(found)


def use(world: World, machine: Machine) -> str:
    pod = make_pod(f"job-{len(world.town.pods)}-{machine.name}", world.time.now, node=machine.name)
    world.town.pods[pod.key] = pod
    return pod.key


def end(world: World, key: str) -> None:
    pod = world.town.pods.pop(key)
    world.town.used_until[pod.node] = world.time.now


def idle_since(world: World, machine: Machine) -> float | None:
    text = world.town.nodes[machine.name].annotations.get(IDLE)
    return datetime.fromisoformat(text).timestamp() if text else None


async def test_a_mark_that_the_watch_does_not_show_yet_is_taken_off_all_the_same() -> None:
    """Or the cooldown would count from before the last use."""
    world, controller, (machine,) = await ready(cooldown=NEVER)
    watch = Watch(controller, world.town, 0)
    watch.hold = dict(world.town.nodes)
    await controller.look()
    await world.time.advance(1)
    begun = idle_since(world, machine)
    assert begun is not None
    key = use(world, machine)
    await controller.look()
    await world.time.advance(1)
    assert idle_since(world, machine) is None
    watch.hold = None
    end(world, key)
    await controller.look()
    await world.time.advance(1)
    assert idle_since(world, machine) == begun + 2


async def test_a_use_that_no_pass_saw_begins_the_cooldown_anew() -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    await controller.look()
    await world.time.advance(5)
    key = use(world, machine)
    await world.time.advance(1)
    end(world, key)
    await world.time.advance(1)
    await controller.look()
    await world.time.advance(1)
    assert idle_since(world, machine) == world.time.now - 1
    await world.time.advance(30)
    await controller.look()
    await world.time.advance(1)
    assert idle_since(world, machine) == world.time.now - 32


async def test_a_write_that_fails_for_long_does_not_put_the_cooldown_off() -> None:
    world, controller, (machine,) = await ready(cooldown=120.0)
    hands = controller.hands
    really, begun = hands.annotate, world.time.now

    async def refused(node: str, changes: object) -> None:
        raise ClusterError("unreachable", "the API server is away")

    hands.annotate = refused  # type: ignore[assignment]
    await world.run(controller, 45)
    hands.annotate = really  # type: ignore[method-assign]
    await world.run(controller, 60)
    assert idle_since(world, machine) == begun
    await world.run(controller, 25)
    assert begun + 120 <= controller.only.drain_at <= begun + 126


async def test_it_goes_although_its_mark_can_never_be_written() -> None:
    world, controller, (_machine,) = await ready(cooldown=30.0)

    async def refused(node: str, changes: object) -> None:
        if IDLE in dict(changes):  # type: ignore[call-overload]
            raise ClusterError("forbidden", "nodes is forbidden")

    controller.hands.annotate = refused  # type: ignore[assignment]
    await world.run(controller, 300)
    assert not world.account.alive()


async def test_a_mark_is_written_once_although_the_watch_lags() -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    watch = Watch(controller, world.town, 4)
    begun = world.time.now
    for _ in range(30):
        watch.note(world.time.now)
        await controller.look()
        await world.time.advance(1)
    assert len(controller.hands.did("annotate")) == 1
    assert idle_since(world, machine) == begun


async def test_a_mark_that_somebody_takes_off_is_written_anew_in_time() -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    await controller.look()
    await world.time.advance(5)
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, annotations={})
    await world.run(controller, 20, 1.0)
    since = idle_since(world, machine)
    assert since is not None
    assert world.time.now - 20 < since


async def test_a_removal_that_is_called_off_does_not_begin_again_on_the_old_mark() -> None:
    world, controller, (machine,) = await ready(cooldown=60.0)
    watch = Watch(controller, world.town, 8)
    begun = world.time.now
    while world.time.now < begun + 61:
        watch.note(world.time.now)
        await controller.look()
        await world.time.advance(1)
    assert controller.only.phase is Phase.DRAINING
    key = use(world, machine)
    await world.time.advance(6)  # it is seen, and the removal is called off
    assert controller.only.phase is Phase.READY
    end(world, key)
    world.town.used_until.clear()  # as after a start
    ended = world.time.now
    while world.time.now < ended + 50:
        watch.note(world.time.now)
        await controller.look()
        await world.time.advance(1)
        assert controller.only.phase is Phase.READY
    assert len([detail for detail in controller.heard.of("phase") if detail == "ready>draining"]) == 1


async def test_whoever_leads_next_takes_the_taint_off_a_machine_that_is_used_again() -> None:
    """The mark is what tells the next one that there is something to take off: it goes last."""
    world, controller, (machine,) = await ready(cooldown=NEVER)
    await controller.look()
    await world.time.advance(1)
    await controller.hands.taint(machine.name, add=(SOFT,))
    use(world, machine)

    async def refused(node: str, **changes: object) -> None:
        raise ClusterError("unreachable", "the API server is away")

    controller.hands.taint = refused  # type: ignore[assignment,method-assign]
    await controller.look()
    await world.time.advance(1)
    await controller.lose_lease()
    following = world.start()
    for _ in range(5):
        await following.look()
        await world.time.advance(1)
    assert SOFT not in world.town.nodes[machine.name].taints
    assert idle_since(world, machine) is None


async def test_an_idle_machine_is_avoided_at_once_and_welcome_again_as_soon_as_it_is_used() -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    await world.run(controller, 3, 1.0)
    assert SOFT in world.town.nodes[machine.name].taints
    key = use(world, machine)
    await world.run(controller, 3, 1.0)
    assert SOFT not in world.town.nodes[machine.name].taints
    end(world, key)
    await world.run(controller, 3, 1.0)
    assert SOFT in world.town.nodes[machine.name].taints


@pytest.mark.parametrize("lag", [0.0, 4.0, 9.0])
async def test_the_taint_is_written_once_although_the_watch_lags(lag: float) -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    watch = Watch(controller, world.town, lag)
    for _ in range(30):
        watch.note(world.time.now)
        await controller.look()
        await world.time.advance(1)
    assert len(controller.hands.did("taint")) == 1
    assert SOFT in world.town.nodes[machine.name].taints


async def test_a_taint_that_somebody_takes_off_is_put_back_and_the_cooldown_goes_on() -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    begun = world.time.now
    await world.run(controller, 15, 1.0)
    node = world.town.nodes[machine.name]
    world.town.nodes[machine.name] = replace(node, taints=())
    await world.run(controller, 20, 1.0)
    assert SOFT in world.town.nodes[machine.name].taints
    assert idle_since(world, machine) == begun


async def test_it_goes_in_time_although_nothing_could_be_tainted_during_its_cooldown() -> None:
    world, controller, (_machine,) = await ready(cooldown=30.0)
    really, begun = controller.hands.taint, world.time.now

    async def refused(node: str, **changes: Any) -> None:
        if world.time.now < begun + 30:
            raise ClusterError("unreachable", "the API server is away")
        await really(node, **changes)

    controller.hands.taint = refused  # type: ignore[assignment,method-assign]
    await world.run(controller, 120)
    assert not world.account.alive()


async def test_a_machine_that_is_used_while_its_taint_is_written_does_not_keep_it() -> None:
    """Tried with every length of a write, and every moment at which the pod comes."""
    for write in (0.5, 1.5, 3.0):
        for comes in range(5):
            world, controller, (machine,) = await ready(cooldown=NEVER)
            hands, really = controller.hands, controller.hands.taint

            async def slowly(
                node: str,
                *,
                _really: Any = really,
                _world: World = world,
                _takes: float = write,
                **changes: Any,
            ) -> None:
                await _world.time.sleep(_takes)
                await _really(node, **changes)

            hands.taint = slowly  # type: ignore[assignment,method-assign]
            await world.run(controller, comes, 1.0)
            use(world, machine)
            await world.run(controller, 30, 1.0)
            assert SOFT not in world.town.nodes[machine.name].taints, (write, comes)
            assert idle_since(world, machine) is None


async def test_without_the_lease_nothing_is_remembered_and_nothing_is_written() -> None:
    world, controller, (machine,) = await ready(cooldown=NEVER)
    controller.flights.idle_marks.mark(machine.name, world.time.now)
    controller.leads = False
    controller.flights.idle_marks.follow({machine.name})
    await world.time.settle()
    assert not controller.flights.idle_marks
    assert not controller.hands.did("annotate")


async def test_a_mark_that_was_never_written_is_not_written_after_somebody_else_led() -> None:
    """The machine may have been used meanwhile: what the Node says then is newer."""
    world, controller, (machine,) = await ready(cooldown=NEVER)
    really = controller.hands.annotate

    async def refused(node: str, changes: object) -> None:
        raise ClusterError("unreachable", "the API server is away")

    controller.hands.annotate = refused  # type: ignore[assignment]
    await world.run(controller, 20)
    await controller.lose_lease()
    await controller.look()
    controller.hands.annotate = really  # type: ignore[method-assign]
    await world.time.advance(3600)
    controller.leads = True
    back = world.time.now
    await world.run(controller, 60)
    since = idle_since(world, machine)
    assert since is not None
    assert since >= back


@pytest.mark.parametrize("seed", range(25))
async def test_of_machines_that_are_ripe_a_smaller_one_never_goes_before_a_larger_one(seed: int) -> None:
    """Whatever the lag of the watch, failing writes and short uses: ripe is what was unused for the cooldown."""
    rng = random.Random(seed)
    world, controller, machines = await ready(4, cooldown=30.0)
    for size, machine in enumerate(machines):
        controller.ledger.change(machine.intent, gpus=2 ** (size % 4))
    watch = Watch(controller, world.town, rng.choice((0, 1, 3, 7)))
    really, trouble = controller.hands.annotate, rng.choice((0.0, 0.2, 0.5))

    async def sometimes(node: str, changes: dict[str, str | None]) -> None:
        if rng.random() < trouble:
            raise ClusterError("unreachable", "the API server is away")
        await really(node, changes)

    controller.hands.annotate = sometimes  # type: ignore[assignment,method-assign]
    begun = world.time.now
    ended: dict[str, float] = {machine.name: begun for machine in machines}
    idle: dict[str, float] = {}  # by name: the first look since the last use
    uses: dict[str, str] = {}
    going: list[str] = []
    while controller.fleet.machines():
        now = world.time.now
        assert now < begun + 900
        for name in [name for name in uses if rng.random() < 0.4]:
            end(world, uses.pop(name))
            ended[name] = now
            idle.pop(name, None)
        for machine in controller.fleet.machines():
            free = machine.phase is Phase.READY and machine.name not in uses
            if free and now < begun + 120 and rng.random() < 0.1:
                uses[machine.name] = use(world, machine)
                idle.pop(machine.name, None)
        world.happen()
        watch.note(now)
        if rng.random() < 0.6:
            before = {m.name: m for m in controller.fleet.machines() if m.phase is Phase.READY}
            await controller.look()
            for name in before:
                if name not in uses:
                    idle.setdefault(name, now)
            ripe = {name for name in before if name not in uses and now >= idle[name] + 30}
            for action in controller.plan.actions:
                if isinstance(action, Retire):
                    assert now >= ended[action.machine] + 30
                    assert action.machine in ripe
                    assert before[action.machine].gpus == max(before[name].gpus for name in ripe)
                    going.append(action.machine)
        await world.time.advance(1)
    assert len(set(going)) == 4
