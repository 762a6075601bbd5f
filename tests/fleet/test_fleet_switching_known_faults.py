"""What a controller does wrong that adds up GPUs, looks at phases and calls endpoints without looking back.

Each of these is a known fault of the small webhook controller, whose users bring their endpoints with them. Here the
same endpoints and the same pods are driven right.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from controller.cloud.protocol import Send
from controller.cluster.decode import Decoder
from controller.domain.kube import DisruptionBudget, Selector, Taint
from controller.domain.outcome import Outcome
from controller.domain.reason import Reason
from controller.domain.switching import Power
from tests.fleet.fakes import make_node
from tests.fleet.power import Cabinet, Operator, switch


async def room(*gpus: int, on: bool = False, **more: Any) -> tuple[Cabinet, Operator]:
    """Machines w0, w1 … with so many GPUs each."""
    world = Cabinet(*(switch(f"w{n}", count) for n, count in enumerate(gpus)), **more)
    for number, count in enumerate(gpus):
        world.room.add(f"w{number}", count, power="on" if on else "off")
    world.town.work = 10_000.0
    operator = world.begin()
    await world.run(operator, 30)
    return world, operator


async def test_1_free_gpus_of_several_nodes_are_not_added_up() -> None:
    """Two free GPUs here and two there hold no pod of four."""
    world, operator = await room(2, 2, on=True)
    world.policy = replace(world.policy, switches=(*world.policy.switches, switch("w9", 4)))
    operator.fleet.policy = world.policy
    world.room.add("w9", 4)
    world.town.add_pod("large", gpus=4)
    await world.run(operator, 60)
    assert [c.name for c in world.room.calls if c.on] == ["w9"]


async def test_2_small_machines_are_not_switched_on_for_a_pod_that_fits_none_of_them() -> None:
    world, operator = await room(2, 2)
    world.town.add_pod("large", gpus=4)
    await world.run(operator, 60)
    assert world.room.calls == []
    assert operator.plan.pods["default/large"].code in (Reason.TOO_LARGE, Reason.RESOURCES)


async def test_3_a_pod_that_is_bound_and_pulls_its_image_is_not_waiting() -> None:
    world, operator = await room(1, 1)
    world.room.press("w0", True)
    await world.wait_for(operator, "w0", Power.ON)
    world.town.add_pod("pulling", node="w0", phase="Pending")
    await world.run(operator, 60)
    assert world.room.calls == []


async def test_4_a_pod_that_the_scheduler_has_not_refused_switches_nothing_on() -> None:
    """Created this moment, or held back by a gate: Pending, and no call for more machines."""
    world, operator = await room(1)
    world.town.add_pod("young", unschedulable_since=None)
    world.town.add_pod("gated", gated=True)
    world.town._schedule = lambda _now: None  # type: ignore[method-assign]
    await world.run(operator, 60)
    assert world.room.calls == []


async def test_5_a_machine_whose_pod_is_still_starting_is_in_use() -> None:
    world, operator = await room(1, on=True)
    world.town.add_pod("starting", node="w0", phase="Pending")
    await world.run(operator, 600)
    assert world.room.calls == []
    assert operator.plan.machines["w0"].code is Reason.IN_USE


async def test_6_a_call_that_failed_is_made_again_with_the_same_key_and_growing_pauses() -> None:
    world, operator = await room(1)
    world.room.faults["w0"] = ["busy", "busy", "busy"]
    world.town.add_pod("train")
    await world.wait_for(operator, "w0", Power.ON)
    calls = [c for c in world.room.calls if c.on]
    pauses = [b.at - a.at for a, b in pairwise(calls)]
    assert len({c.key for c in calls}) == 1
    assert pauses == sorted(pauses)
    assert pauses[-1] > pauses[0]


async def test_7_a_machine_that_boots_is_not_asked_for_again_at_every_look() -> None:
    world, operator = await room(1)
    world.room.boxes["w0"].boot = 500.0
    world.town.add_pod("train")
    await world.run(operator, 480)
    assert len(world.room.calls) == 1


async def test_8_a_machine_that_was_just_asked_for_is_not_switched_off_before_its_pod_runs() -> None:
    world, operator = await room(1, cooldown=0.0)
    world.town.add_pod("train")
    for _ in range(60):
        await world.run(operator, 5)
        assert [c for c in world.room.calls if not c.on] == []
    assert world.town.pods["default/train"].node == "w0"


async def test_9_a_pod_that_fits_an_idle_machine_switches_on_no_other_one() -> None:
    """Two machines are on and idle; the one pod takes one of them, and only the other goes off."""
    world, operator = await room(1, 1, on=True)
    await world.wait_for(operator, "w1", Power.ON)
    world.town.add_pod("train")
    await world.run(operator, 400)
    assert [c for c in world.room.calls if c.on] == []
    on = world.town.pods["default/train"].node
    assert [c.name for c in world.room.calls] == [({"w0", "w1"} - {on}).pop()]


async def test_10_a_machine_that_is_off_is_not_switched_off_over_and_over() -> None:
    world, operator = await room(1, 8)
    await world.run(operator, 600)
    assert world.room.calls == []


async def test_11_a_machine_that_its_pods_cannot_use_is_not_switched_on() -> None:
    """The wrong label, an untolerated taint, too little CPU or memory: it would only burn power."""
    world, operator = await room(1)
    for name, wish in {
        "label": {"node_selector": {"disk": "nvme"}},
        "cpu": {"requests": {"nvidia.com/gpu": 1, "cpu": 10**6}},
    }.items():
        world.town.add_pod(name, **wish)  # type: ignore[arg-type]
    world.town._schedule = lambda _now: None  # type: ignore[method-assign]
    node = world.town.nodes["w0"]
    await world.run(operator, 60)
    assert world.room.calls == []
    world.town.add_pod("plain")
    world.town.nodes["w0"] = replace(node, taints=(*node.taints, Taint("mine", "x", "NoSchedule")))
    await world.run(operator, 60)
    assert world.room.calls == []
    assert operator.plan.pods["default/plain"].code is Reason.TAINT


async def test_12_other_pods_on_the_machine_are_asked_to_leave_and_their_budget_is_kept() -> None:
    world, operator = await room(1, on=True)
    world.town.nodes["cpu-1"] = make_node("cpu-1", world.time.now - 5000, gpus=0)
    world.town.add_pod("web", gpus=0, node="w0", owner_kind="ReplicaSet", labels={"app": "web"})
    world.town.budgets.append(
        DisruptionBudget(
            namespace="default", name="web", uid="u", selector=Selector(labels={"app": "web"}), allowed=0
        )
    )
    await world.run(operator, 600)
    assert world.room.calls == []
    assert operator.plan.machines["w0"].code is Reason.PDB
    world.town.budgets.clear()
    await world.wait_for(operator, "w0", Power.OFF)
    assert ("evict", "default/web") in operator.hands.calls


async def test_13_no_pod_is_bound_between_the_call_and_the_end_of_its_node() -> None:
    world, operator = await room(1, on=True)
    world.room.boxes["w0"].stop = 200.0
    await world.wait_for(operator, "w0", Power.FALLING)
    world.town.add_pod("late")
    for _ in range(30):
        await world.run(operator, 5)
        assert world.town.pods["default/late"].node == ""
    await world.run(operator, 400)  # off, and on again for it
    assert world.town.pods["default/late"].node == "w0"
    assert world.room.broken == []


async def test_14_a_restart_in_the_middle_makes_no_second_wish_of_one() -> None:
    world, operator = await room(1, 1)
    world.room.faults["*"] = ["lost"]
    world.town.add_pod("train")
    await operator.look()
    await world.time.advance(1.0)  # the call is out, and its answer is not there
    await operator.die()
    again = world.begin()
    await world.run(again, 200)
    assert len(world.room.wishes(True)) == 1
    assert world.town.pods["default/train"].node != ""


async def test_15_whoever_does_not_lead_switches_nothing() -> None:
    world, operator = await room(1)
    operator.leads = False
    world.town.add_pod("train")
    await world.run(operator, 60)
    assert world.room.calls == []


async def test_16_a_machine_between_two_pods_is_not_switched_off_and_on() -> None:
    world, operator = await room(1, cooldown=300.0)
    world.town.work = 60.0
    for number in range(4):
        world.town.add_pod(f"p{number}")
        await world.run(operator, 240)
    assert len(world.room.calls) == 1


async def test_17_a_machine_that_a_person_took_away_is_not_switched_on_under_their_hands() -> None:
    world, operator = await room(1, 1, on=True)
    await world.wait_for(operator, "w0", Power.ON)
    world.town.add_pod("train", node="w1")
    world.room.press("w0", False)
    await world.run(operator, 340)
    world.town.add_pod("more")
    await world.run(operator, 120)
    assert world.room.calls == []
    assert operator.plan.pods["default/more"].code is Reason.SWITCHED_BY_HAND


async def test_18_gpus_of_a_node_that_is_not_ready_are_not_free() -> None:
    """Its pod's phase is still Running, so a controller of phases takes it for an active node with free GPUs."""
    world, operator = await room(4, 4, on=True)
    await world.wait_for(operator, "w1", Power.ON)
    world.town.add_pod("old", node="w0")
    world.town.add_pod("keeps", gpus=3, node="w1")
    world.town.lose("w0")
    world.policy = replace(world.policy, switches=(*world.policy.switches, switch("w9", 2)))
    operator.fleet.policy = world.policy
    world.room.add("w9", 2)
    world.town.add_pod("waits", gpus=2)
    await world.run(operator, 60)
    assert [c.name for c in world.room.calls] == ["w9"]


async def test_19_an_endpoint_that_hangs_keeps_no_other_machine_waiting() -> None:
    world, operator = await room(1, 1)
    hung = asyncio.Event()
    real = operator.means.endpoints.prepare

    async def prepare(machine: str, on: bool) -> Send:
        send = await real(machine, on)

        async def hangs(key: str) -> Outcome:
            if machine == "w0":
                await hung.wait()
            return await send(key)

        return hangs

    operator.means.endpoints.prepare = prepare  # type: ignore[method-assign]
    world.town.add_pod("a")
    world.town.add_pod("b")
    await world.run(operator, 120)
    assert operator.power("w1") is Power.ON
    hung.set()
    await world.run(operator, 120)
    assert operator.power("w0") is Power.ON


async def test_20_gpus_of_init_containers_count() -> None:
    """What a pod asks for is what the scheduler counts, not the sum of its containers alone."""
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": "2"}}}],
        },
    }
    assert Decoder().pod(json.dumps(pod).encode()).shape.requests["nvidia.com/gpu"] == 2


async def test_21_a_machine_that_is_used_by_the_slice_is_in_use() -> None:
    """Only `nvidia.com/gpu` is looked for there, so a machine with slices goes off under its work."""
    world, operator = await room(1, on=True)
    await world.wait_for(operator, "w0", Power.ON)
    world.town.add_pod("sliced", node="w0", phase="Running", requests={"nvidia.com/mig-1g.10gb": 1})
    await world.run(operator, 600)
    assert world.room.calls == []


async def test_22_a_pod_that_is_being_deleted_waits_for_no_machine() -> None:
    """Its phase is Pending until the end."""
    world, operator = await room(1)
    world.town.add_pod("going", deleting_at=world.time.now)
    await world.run(operator, 60)
    assert world.room.calls == []
