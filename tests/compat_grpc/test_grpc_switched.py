"""Machines that are switched, served as node groups of one: on, off, by hand, refused, failed, and killed in between."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.switching import Power
from controller.fleet.dressing import GPUS_COME
from tests.compat_grpc.generations import GENERATIONS, Client
from tests.compat_grpc.scene import G, Served, code_of, served
from tests.fleet.power import FAULTS, Cabinet, Operator, switch

CREATING, RUNNING, DELETING = 2, 1, 3
CALLS = 12  # more than there are: the last kills find nothing to do


def cabinet(*switches: Any, power: str = "off", **of_policy: Any) -> Cabinet:
    made = Cabinet(*(switches or (own(),)), **of_policy)
    for each in made.policy.switches:
        made.room.add(each.name, each.gpus, node=power == "on", power=power)
    return made


def own(name: str = "w1", gpus: int = 4, **more: Any) -> Any:
    return switch(name, gpus, **{"delete_node": True, "model": "A100 80GB"} | more)


def operator(one: Served) -> Operator:
    assert isinstance(one.controller, Operator)
    return one.controller


def room(one: Served) -> Any:
    assert isinstance(one.world, Cabinet)
    return one.world.room


async def becomes(one: Served, power: Power, name: str = "w1", within: float = 3000) -> None:
    end = one.world.time.now + within
    while one.world.time.now < end:
        if operator(one).ledger.switched[name].power is power:
            return
        await one.run(5)
    raise AssertionError(f"{name} did not become {power}: {operator(one).record(name)}")


async def listed(client: Client, group: str = "w1") -> list[tuple[str, int, str]]:
    found = (await client.NodeGroupNodes(id=group)).instances
    return [(i.id, i.status.instanceState, i.status.errorInfo.errorCode) for i in found]


async def target(client: Client, group: str = "w1") -> int:
    """Always what is listed for it and is not on its way out."""
    size = int((await client.NodeGroupTargetSize(id=group)).targetSize)
    assert size == sum(1 for _, state, _ in await listed(client, group) if state != DELETING)
    return size


async def switched_on(one: Served, client: Client, name: str = "w1") -> None:
    await client.NodeGroupIncreaseSize(id=name, delta=1)
    await becomes(one, Power.ON, name)


# -- the plain story ------------------------------------------------------------------------------


async def test_each_machine_whose_node_goes_is_a_group_of_one_and_the_others_are_said_not_to_be_served() -> (
    None
):
    place = cabinet(own("w1"), own("w2", keep_on=True), own("w3", delete_node=False), pools=(G,))
    async with served(place) as one:
        groups = (await one.client().NodeGroups()).nodeGroups
        assert [(g.id, g.minSize, g.maxSize) for g in groups] == [("g", 0, 3), ("w1", 0, 1), ("w2", 1, 1)]
        await one.run(60)
        told = [words for words in one.warnings if words.startswith("SwitchedMachinesNotServed")]
        assert len(told) == 1
        assert (
            "machines w3 are not served to cluster-autoscaler without delete_node_when_off: true" in told[0]
        )
        node = one.client().node("verda://w3", "w3")
        assert not (await one.client().NodeGroupForNode(node=node)).nodeGroup.id
        for call in (
            one.client().NodeGroupIncreaseSize(id="w3", delta=1),
            one.client().NodeGroupNodes(id="w3"),
        ):
            assert (await code_of(call))[0] == "NOT_FOUND"
        assert (await code_of(one.client().NodeGroupDeleteNodes(id="w1", nodes=[node])))[0] == "NOT_FOUND"


async def test_where_every_machine_is_served_nothing_is_said() -> None:
    async with served(cabinet()) as one:
        await one.run(60)
        assert not [words for words in one.warnings if words.startswith("SwitchedMachines")]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_it_goes_on_for_an_increase_and_off_for_a_delete_and_its_node_goes_with_it(
    generation: str,
) -> None:
    async with served(cabinet()) as one:
        client = one.client(generation)
        assert (await target(client), await listed(client)) == (0, [])
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        assert (await target(client), await listed(client)) == (1, [("verda://w1", CREATING, "")])
        await becomes(one, Power.ON)
        assert (await target(client), await listed(client)) == (1, [("verda://w1", RUNNING, "")])
        assert one.world.town.nodes["w1"].provider_id == "verda://w1"
        node = client.node("verda://w1", "w1")
        assert (await client.NodeGroupForNode(node=node)).nodeGroup.id == "w1"
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        assert (await target(client), await listed(client)) == (0, [("verda://w1", DELETING, "")])
        assert (await client.NodeGroupForNode(node=node)).nodeGroup.id == "w1"
        await becomes(one, Power.OFF)
        await one.run(30)
        assert not one.world.town.nodes
        assert (await target(client), await listed(client)) == (0, [])
        assert [(call.name, call.on) for call in room(one).calls] == [("w1", True), ("w1", False)]
        assert not room(one).broken
        assert not one.world.account.orders


async def test_nothing_is_switched_that_nobody_asked_for() -> None:
    """Pods wait, one that is on is idle for hours: who decides is somebody else."""
    async with served(cabinet()) as one:
        one.world.town.add_pod()
        await one.run(600)
        await switched_on(one, one.client())
        await one.run(7200, step=30)
        assert [call.on for call in room(one).calls] == [True]


async def test_more_than_one_is_too_many_and_so_is_less_than_one() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        for delta, code in ((2, "OUT_OF_RANGE"), (0, "INVALID_ARGUMENT"), (-1, "INVALID_ARGUMENT")):
            assert (await code_of(client.NodeGroupIncreaseSize(id="w1", delta=delta)))[0] == code
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        assert (await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1)))[0] == "OUT_OF_RANGE"
        await one.run(60)
        assert len(room(one).wishes(True)) == 1


async def test_two_increases_at_once_are_one_wish() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        answers = await asyncio.gather(
            *(code_of(client.NodeGroupIncreaseSize(id="w1", delta=1)) for _ in "ab")
        )
        assert sorted(code for code, _ in answers) == ["OK", "OUT_OF_RANGE"]
        await one.run(60)
        assert len(room(one).wishes(True)) == 1


# -- who is who -----------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["k3s://w1", "verda://w1", "aws:///eu-1a/i-1", "verda://fin-01/w1"])
async def test_what_is_listed_has_the_nodes_own_id_as_soon_as_there_is_one_and_afterwards(given: str) -> None:
    async with served(cabinet()) as one:
        client = one.client()
        room(one).boxes["w1"].provider_id = given
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        assert [each[0] for each in await listed(client)] == ["verda://w1"]
        await one.run(65)
        assert operator(one).power("w1") is Power.RISING
        assert [each[0] for each in await listed(client)] == [given]
        await becomes(one, Power.ON)
        assert [each[0] for each in await listed(client)] == [given]
        for node in (client.node(given, "w1"), client.node(given, given)):  # registered, and as a fake one
            assert (await client.NodeGroupForNode(node=node)).nodeGroup.id == "w1"
        assert not one.hands.did("identify")
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node(given, given)])
        await becomes(one, Power.OFF)
        await one.run(90)
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        assert [each[0] for each in await listed(client)] == [given]


async def test_a_node_without_an_id_gets_the_one_that_was_listed_and_is_known_by_its_name_until_then() -> (
    None
):
    async with served(cabinet()) as one:
        client = one.client()
        room(one).boxes["w1"].provider_id = ""
        assert (await client.NodeGroupForNode(node=client.node("", "w1"))).nodeGroup.id == "w1"
        await switched_on(one, client)
        assert one.world.town.nodes["w1"].provider_id == "verda://w1"
        assert [each[0] for each in await listed(client)] == ["verda://w1"]
        assert one.hands.did("identify") == [("identify", "w1 verda://w1")]


async def test_an_id_that_the_clouds_own_controller_will_set_is_left_to_it() -> None:
    async with served(cabinet()) as one:
        room(one).boxes["w1"].provider_id = ""
        await one.client().NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(5)
        room(one).boxes["w1"].power = "on"
        node = room(one)._registered(room(one).boxes["w1"], one.world.time.now)
        waits = Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule")
        one.world.town.nodes["w1"] = replace(node, taints=(waits,))
        await one.run(60)
        assert not one.hands.did("identify")


async def test_its_node_carries_the_gpu_label_before_its_gpus_are_there() -> None:
    async with served(cabinet(own("w1"), own("w2", model=""))) as one:
        client = one.client()
        label = (await client.GPULabel()).label
        for name, value in (("w1", "a100-80gb"), ("w2", "gpu")):
            await client.NodeGroupIncreaseSize(id=name, delta=1)
            made = client.template_node(await client.NodeGroupTemplateNodeInfo(id=name))
            assert made.metadata.labels[label] == value
        room(one).boxes["w2"].labels = {label: "by-its-kubelet"}
        await one.run(75)  # they are Ready, and no GPU shows
        offered = [node.allocatable.get("nvidia.com/gpu", 0) for node in one.world.town.nodes.values()]
        assert offered == [0, 0]
        assert one.world.town.nodes["w1"].labels[label] == "a100-80gb"
        assert one.world.town.nodes["w2"].labels[label] == "by-its-kubelet"
        assert sorted((await client.GetAvailableGPUTypes()).gpuTypes) == ["a100-80gb", "gpu"]


async def test_a_node_of_slices_alone_has_no_gpu_label_or_it_would_count_as_unready_for_ever() -> None:
    sliced = own("w1", resources={"nvidia.com/mig-1g.10gb": 7})
    async with served(cabinet(sliced)) as one:
        client = one.client()
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="w1"))
        assert names.LABEL_GPU not in made.metadata.labels
        assert made.status.allocatable["nvidia.com/mig-1g.10gb"].string == "7"
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(90)
        assert names.LABEL_GPU not in one.world.town.nodes["w1"].labels


async def test_until_its_slices_are_there_it_still_starts_or_another_would_be_taken_beside_it() -> None:
    async with served(cabinet(own("w1", resources={"nvidia.com/mig-1g.10gb": 7}))) as one:
        town, usual = one.world.town, one.world.room.step  # type: ignore[attr-defined]

        def step() -> None:
            usual()
            if (node := town.nodes.get("w1")) is not None and node.allocatable.get("nvidia.com/gpu"):
                offered = {**node.allocatable, "nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 7}
                town.nodes["w1"] = replace(node, allocatable=offered)

        one.world.room.step = step  # type: ignore[attr-defined]
        await one.client().NodeGroupIncreaseSize(id="w1", delta=1)
        while "w1" not in town.nodes or not town.nodes["w1"].ready:
            await one.run(1, step=1)
        await one.run(2, step=1)
        looks = 0
        while operator(one).ledger.switched["w1"].power is Power.RISING:
            assert GPUS_COME in town.nodes["w1"].taints
            looks += 1
            await one.run(1, step=1)
        assert looks > 3
        await one.run(20)
        assert operator(one).ledger.switched["w1"].power is Power.ON
        assert not town.nodes["w1"].taints
        one.controller.fleet.policy = replace(one.world.policy, switches=())
        town.nodes["w1"] = replace(town.nodes["w1"], taints=(GPUS_COME,))
        await one.run(20)
        assert not town.nodes["w1"].taints


async def test_no_taint_of_ours_gets_into_what_is_learned_from_its_node() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        await switched_on(one, client)
        room(one).boxes["w1"].stops = False
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        await one.run(30)
        taints = one.world.town.nodes["w1"].taints
        assert [taint.key for taint in taints] == [names.TAINT_LEAVING]
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="w1"))
        assert not made.spec.taints


# -- what it will be ------------------------------------------------------------------------------


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_the_template_is_what_is_declared_and_then_what_was_seen(generation: str) -> None:
    declared = own(
        "w1",
        labels={"zone": "rack-7"},
        taints=(Taint("nvidia.com/gpu", "present", "NoSchedule"),),
        resources={"cpu": 96_000, "memory": 768 << 30, "ephemeral-storage": 1 << 40},
        location="cellar",
    )
    async with served(cabinet(declared)) as one:
        client = one.client(generation)
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="w1"))
        there = {name: each.string for name, each in made.status.allocatable.items()}
        assert there == {
            "cpu": "96", "memory": str(768 << 30), "ephemeral-storage": str(1 << 40), "pods": "110", "nvidia.com/gpu": "4",
        }  # fmt: skip
        assert made.status.capacity.keys() == made.status.allocatable.keys()
        assert made.metadata.labels["zone"] == "rack-7"
        assert made.metadata.labels["topology.kubernetes.io/zone"] == "cellar"
        assert [(t.key, t.effect) for t in made.spec.taints] == [("nvidia.com/gpu", "NoSchedule")]
        assert [c.status for c in made.status.conditions if c.type == "Ready"] == ["True"]
        assert (await client.NodeGroupForNode(node=client.node(made.spec.providerID))).nodeGroup.id == "w1"
        room(one).boxes["w1"].labels = {"seen": "yes"}
        await switched_on(one, client)
        await one.run(5)
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="w1"))
        assert made.status.allocatable["cpu"].string == "22"
        assert made.status.allocatable["nvidia.com/gpu"].string == "4"
        assert made.metadata.labels["seen"] == "yes"


async def test_of_one_that_was_never_seen_enough_is_assumed_and_nothing_that_overflows() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="w1"))
        there = {name: each.string for name, each in made.status.allocatable.items()}
        assert there == {
            "cpu": "1000", "memory": str(1 << 44), "ephemeral-storage": str(1 << 46), "pods": "110", "nvidia.com/gpu": "4",
        }  # fmt: skip


async def test_an_hour_of_it_costs_what_is_said_and_never_nothing() -> None:
    async with served(cabinet(own("w1"), own("w2", price=Decimal("0.5")))) as one:
        client = one.client()
        found = []
        for name in ("w1", "w2"):
            node = client.template_node(await client.NodeGroupTemplateNodeInfo(id=name))
            shown = client.node(node.spec.providerID, f"template-node-for-{name}-1")
            answer = await client.PricingNodePrice(node=shown, **client.times(0, 7200))
            found.append(answer.price)
        assert found == [pytest.approx(0.0002), pytest.approx(1.0)]


# -- what is refused ------------------------------------------------------------------------------


async def test_an_increase_is_refused_with_the_reason_of_the_machine() -> None:
    async with served(cabinet(own(min_off=600.0, per_day=2, left_alone=0.0))) as one:
        client = one.client()

        async def refusal() -> tuple[str, str]:
            code, words = await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1))
            assert await target(client) == 0
            return code, words.rpartition("(")[2].rstrip(")")

        await switched_on(one, client)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        assert await refusal() == ("FAILED_PRECONDITION", "switching_off")
        await becomes(one, Power.OFF)
        assert await refusal() == ("FAILED_PRECONDITION", "min_off")
        await one.run(610)
        await switched_on(one, client)
        room(one).press("w1", False)
        await becomes(one, Power.OFF)
        await one.run(610)
        assert await refusal() == ("RESOURCE_EXHAUSTED", "switch_limit")
        assert len(room(one).wishes(True)) == 2


@pytest.mark.parametrize("pause", ["scale-up", "all"])
async def test_a_paused_machine_is_not_switched_on(pause: str) -> None:
    for place in (cabinet(own(pause=pause)), cabinet(pause=pause)):
        async with served(place) as one:
            code, words = await code_of(one.client().NodeGroupIncreaseSize(id="w1", delta=1))
            assert (code, "paused" in words) == ("FAILED_PRECONDITION", True)
            await one.run(60)
            assert not room(one).calls


async def test_a_delete_is_refused_with_the_reason_of_the_machine_and_changes_nothing() -> None:
    async with served(cabinet(own(min_on=900.0, per_day=1))) as one:
        client = one.client()
        node = client.node("verda://w1")
        await switched_on(one, client)
        for code, reason in (("FAILED_PRECONDITION", "min_on"), ("RESOURCE_EXHAUSTED", "switch_limit")):
            answer = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[node]))
            assert (answer[0], f"({reason})" in answer[1]) == (code, True)
            assert (await target(client), await listed(client)) == (1, [("verda://w1", RUNNING, "")])
            await one.run(900)
        assert [call.on for call in room(one).calls] == [True]
        await one.run(86_400, step=600)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        assert await target(client) == 0


@pytest.mark.parametrize("pause", ["scale-down", "all"])
async def test_a_paused_machine_is_not_switched_off(pause: str) -> None:
    for place in (cabinet(own(pause=pause), power="on"), cabinet(pause=pause, power="on")):
        async with served(place) as one:
            client = one.client()
            await becomes(one, Power.ON)
            code, words = await code_of(
                client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
            )
            assert (code, "paused" in words) == ("FAILED_PRECONDITION", True)
            assert await target(client) == 1


async def test_never_from_under_work() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        await switched_on(one, client)
        one.world.town.add_pod(node="w1", gpus=2)
        code, words = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")]))
        assert code == "FAILED_PRECONDITION"
        assert "uses its GPUs" in words
        assert (await target(client), await listed(client)) == (1, [("verda://w1", RUNNING, "")])
        await one.run(20)
        assert [call.on for call in room(one).calls] == [True]
        assert not one.world.town.nodes["w1"].taints


async def test_a_pod_that_comes_between_the_wish_and_the_call_keeps_it_on() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        await switched_on(one, client)
        one.hands.on_call["write_config_map"] = lambda _: one.world.town.add_pod(node="w1", gpus=2) and None
        code, words = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")]))
        one.hands.on_call.clear()
        assert (code, "(in_use)" in words) == ("FAILED_PRECONDITION", True)
        await one.run(20)
        assert await target(client) == 1
        assert [call.on for call in room(one).calls] == [True]


async def test_an_endpoint_that_refuses_leaves_it_on_and_counted() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        await switched_on(one, client)
        room(one).faults["w1"] = ["refused"]
        node = client.node("verda://w1")
        code, words = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[node]))
        assert code == "UNAVAILABLE"
        assert "cannot be switched off" in words
        assert (await target(client), await listed(client)) == (1, [("verda://w1", RUNNING, "")])
        await one.run(30)
        assert not one.world.town.nodes["w1"].taints
        code, words = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[node]))
        assert (code, "(switch_failed)" in words) == ("UNAVAILABLE", True)  # not before its pause is over
        await one.run(300)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        await becomes(one, Power.OFF)


@pytest.mark.parametrize("fault", ["lost", "busy", "unheard"])
async def test_a_call_whose_outcome_nobody_knows_is_accepted_and_repeated_with_its_key(fault: str) -> None:
    async with served(cabinet()) as one:
        client = one.client(timeout=0.9)
        await switched_on(one, client)
        room(one).faults["w1"] = [fault]
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        assert (await target(client), await listed(client)) == (0, [("verda://w1", DELETING, "")])
        await becomes(one, Power.OFF)
        assert len(room(one).wishes(False)) == 1
        await one.run(30)
        assert not one.world.town.nodes


async def test_the_same_delete_twice_and_at_once_is_one_wish_and_one_of_what_is_off_does_nothing() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        node = client.node("verda://w1")
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        assert not room(one).calls
        await switched_on(one, client)
        await asyncio.gather(*(client.NodeGroupDeleteNodes(id="w1", nodes=[node]) for _ in range(3)))
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        await becomes(one, Power.OFF)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        assert len([call for call in room(one).calls if not call.on]) == 1
        assert await target(client) == 0


async def test_a_machine_of_another_group_is_not_touched() -> None:
    async with served(cabinet(own("w1"), own("w2"))) as one:
        client = one.client()
        await switched_on(one, client)
        code, _ = await code_of(client.NodeGroupDeleteNodes(id="w2", nodes=[client.node("verda://w1")]))
        assert code == "INVALID_ARGUMENT"
        assert await target(client) == 1


# -- what fails -----------------------------------------------------------------------------------


async def test_one_that_cannot_be_switched_on_is_a_failed_creation_until_it_is_collected() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        room(one).faults["w1"] = ["refused"]
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(5)
        assert (await target(client), await listed(client)) == (
            1,
            [("verda://w1", CREATING, "switch_failed")],
        )
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        assert (await target(client), await listed(client)) == (0, [])
        assert [call.on for call in room(one).calls] == [True]  # nothing to switch off
        assert (await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1)))[0] == "UNAVAILABLE"
        await one.run(300)
        await switched_on(one, client)
        assert await listed(client) == [("verda://w1", RUNNING, "")]


async def test_one_that_does_not_come_within_its_deadline_is_a_failed_creation_and_is_switched_off() -> None:
    async with served(cabinet(own(on_within=300.0))) as one:
        client = one.client()
        room(one).boxes["w1"].boots = False
        for turn in (1, 2):
            await client.NodeGroupIncreaseSize(id="w1", delta=1)
            await one.run(295)
            assert await listed(client) == [("verda://w1", CREATING, "")]
            await one.run(20)
            assert (await target(client), await listed(client)) == (
                1,
                [("verda://w1", CREATING, "on_deadline")],
            )
            await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
            assert (await target(client), [each[1] for each in await listed(client)]) == (0, [DELETING])
            await becomes(one, Power.OFF)
            assert (await target(client), await listed(client)) == (0, [])
            assert (len(room(one).wishes(True)), len(room(one).wishes(False))) == (turn, turn)
            await one.run(2000, step=30)


async def test_a_failed_creation_that_nobody_collects_goes_by_itself() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        room(one).faults["w1"] = ["refused"]
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(910)
        assert (await target(client), await listed(client)) == (0, [])


async def test_a_registered_machine_without_gpus_goes_with_its_node_and_the_target_drops_at_once() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        room(one).boxes["w1"].gpus_come = False
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await becomes(one, Power.FALLING)
        assert (await target(client), await listed(client)) == (0, [("verda://w1", DELETING, "")])
        await becomes(one, Power.OFF)
        await one.run(60)
        assert not one.world.town.nodes
        assert len(room(one).wishes(True)) == 1


# -- decrease -------------------------------------------------------------------------------------


async def test_a_decrease_takes_back_what_has_not_registered_and_nothing_else() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        room(one).boxes["w1"].boots = False
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(10)
        await client.NodeGroupDecreaseTargetSize(id="w1", delta=-1)
        assert await target(client) == 0
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])  # in the same loop
        await becomes(one, Power.OFF)
        assert [call.on for call in room(one).calls] == [True, False]
        room(one).boxes["w1"].boots = True
        await one.run(90)
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(70)  # its Node is there
        await client.NodeGroupDecreaseTargetSize(id="w1", delta=-5)
        assert await target(client) == 1
        await becomes(one, Power.ON)
        assert (await code_of(client.NodeGroupDecreaseTargetSize(id="w1", delta=1)))[0] == "INVALID_ARGUMENT"


async def test_what_nobody_was_called_for_is_taken_back_without_a_call() -> None:
    async with served(cabinet(own(asked=True))) as one:
        client = one.client()
        gate = asyncio.Event()

        async def ask(_name: str) -> str:
            await gate.wait()
            return ""

        operator(one).means.endpoints.ask = ask  # type: ignore[method-assign]
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await client.NodeGroupDecreaseTargetSize(id="w1", delta=-1)
        assert await target(client) == 0
        gate.set()
        await one.settle()
        assert not room(one).calls
        assert operator(one).record("w1").ons == ()


async def test_a_decrease_is_never_an_error() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        room(one).boxes["w1"].boots = False
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(10)
        operator(one).leads = False
        one.driver.desk._leads = lambda: True  # type: ignore[union-attr]  # it was lost this moment
        await client.NodeGroupDecreaseTargetSize(id="w1", delta=-1)
        assert await target(client) == 1


# -- by hand --------------------------------------------------------------------------------------


async def test_one_that_somebody_switches_on_counts_like_a_registered_node_and_is_left_alone() -> None:
    async with served(cabinet(own(left_alone=1800.0))) as one:
        client = one.client()
        room(one).press("w1", True)
        await one.run(75)
        assert (await target(client), await listed(client)) == (1, [("verda://w1", RUNNING, "")])
        await becomes(one, Power.ON)
        assert (await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1)))[0] == "OUT_OF_RANGE"
        node = client.node("verda://w1")
        code, words = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[node]))
        assert (code, "(switched_by_hand)" in words) == ("FAILED_PRECONDITION", True)
        await one.run(1800)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        await becomes(one, Power.OFF)


async def test_one_that_somebody_switches_off_counts_no_more_and_its_node_goes() -> None:
    async with served(cabinet(own(left_alone=1800.0))) as one:
        client = one.client()
        await switched_on(one, client)
        room(one).press("w1", False)
        await becomes(one, Power.OFF)
        assert await target(client) == 0
        code, words = await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1))
        assert (code, "(switched_by_hand)" in words) == ("FAILED_PRECONDITION", True)
        await one.run(400)
        assert not one.world.town.nodes
        assert await listed(client) == []
        await one.run(1500)
        await switched_on(one, client)


async def test_a_node_that_was_left_behind_by_a_machine_that_is_off_goes_and_is_remembered() -> None:
    place = cabinet()
    place.room.boxes.clear()
    place.room.add("w1", 4)  # its Node is there, and not Ready
    place.town.nodes["w1"] = replace(place.town.nodes["w1"], labels={"rack": "7"})
    async with served(place) as one:
        client = one.client()
        assert (await target(client), [each[1] for each in await listed(client)]) == (0, [DELETING])
        await one.run(400)
        assert not one.world.town.nodes
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="w1"))
        assert made.metadata.labels["rack"] == "7"
        assert made.status.allocatable["nvidia.com/gpu"].string == "4"
        await switched_on(one, client)


# -- settings and replicas ------------------------------------------------------------------------


async def test_one_that_is_not_served_any_more_keeps_its_group_while_its_node_is_there() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        await switched_on(one, client)
        one.controller.fleet.policy = replace(one.world.policy, switches=())
        await one.run(5)
        node = client.node("verda://w1", "w1")
        assert (await client.NodeGroupForNode(node=node)).nodeGroup.id == "w1"
        assert [g.id for g in (await client.NodeGroups()).nodeGroups] == ["w1"]
        assert await target(client) == 1
        assert (await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[node])))[0] == "UNAVAILABLE"
        del one.world.town.nodes["w1"]
        await one.run(5)
        assert not (await client.NodeGroups()).nodeGroups
        assert [call.on for call in room(one).calls] == [True]


async def test_a_name_that_a_pools_group_has_is_refused_at_the_start() -> None:
    place = cabinet(own("g.1a100.22v.fin-03"), pools=(replace(G, locations=("FIN-01", "FIN-03")),))
    one = Served(place, place.policy)
    (words,) = one.driver.objections(place.policy)
    assert words.startswith(
        "machines: g.1a100.22v.fin-03: expected another name than a pool's node group has"
    )


async def test_a_replica_without_the_lease_switches_nothing() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        operator(one).leads = False
        for call in (
            client.NodeGroupTargetSize(id="w1"),
            client.NodeGroupIncreaseSize(id="w1", delta=1),
            client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")]),
        ):
            assert (await code_of(call))[0] == "UNAVAILABLE"
        await one.run(30)
        assert not room(one).calls


# -- killed and restarted -------------------------------------------------------------------------


async def test_before_the_first_look_it_is_told_whether_it_runs() -> None:
    place = cabinet(own("w1"), own("w2"), power="on")
    place.room.press("w2", False)
    place.room.boxes["w2"].power = "off"
    del place.town.nodes["w2"]
    one = Served(place, place.policy)
    await one.driver.start()
    try:
        await one.controller.fleet.rebuild()
        client = one.client()
        assert (await target(client, "w1"), await target(client, "w2")) == (1, 0)
        assert (await code_of(client.NodeGroupIncreaseSize(id="w2", delta=1)))[0] == "UNAVAILABLE"
    finally:
        await one.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, CALLS))
async def test_killed_in_an_increase_it_is_one_wish(number: int, when: str) -> None:
    place = cabinet()
    async with served(place) as one:
        one.hands.kill = (one.hands.count + number, when)
        answered = (await code_of(one.client(timeout=1.0).NodeGroupIncreaseSize(id="w1", delta=1)))[0]
        for _ in range(20):
            if not one.hands.dead:
                await one.run(5)
    async with served(place) as one:
        client = one.client()
        wanted = await target(client)
        assert wanted == 1 if answered == "OK" else wanted in (0, 1)
        assert wanted or not place.room.calls  # what was called for counts
        await one.run(300)
        assert await target(client) == wanted
        assert len(place.room.wishes(True)) == wanted
        assert operator(one).power("w1") is (Power.ON if wanted else Power.OFF)
        if not wanted:
            await switched_on(one, client)
        assert len(place.room.wishes(True)) == 1
        assert await listed(client) == [("verda://w1", RUNNING, "")]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, CALLS))
async def test_killed_in_a_delete_it_is_either_on_or_goes(number: int, when: str) -> None:
    place = cabinet()
    async with served(place) as one:
        await switched_on(one, one.client())
        one.hands.kill = (one.hands.count + number, when)
        node = one.client().node("verda://w1")
        answered = (await code_of(one.client(timeout=1.0).NodeGroupDeleteNodes(id="w1", nodes=[node])))[0]
        for _ in range(20):
            if not one.hands.dead:
                await one.run(5)
    async with served(place) as one:
        client = one.client()
        left = await target(client)
        assert left == 0 if answered == "OK" else left in (0, 1)
        if left:
            assert not place.room.wishes(False)
            await client.NodeGroupDeleteNodes(id="w1", nodes=[node])
        await becomes(one, Power.OFF)
        await one.run(60)
        assert (await target(client), await listed(client)) == (0, [])
        assert not place.town.nodes
        assert len(place.room.wishes(False)) == 1
        assert not place.room.broken


@pytest.mark.parametrize("collected", [False, True])
async def test_killed_after_a_failed_start_its_placeholder_and_its_machine_agree(collected: bool) -> None:
    place = cabinet(own(on_within=300.0))
    place.room.boxes["w1"].boots = False
    async with served(place) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="w1", delta=1)
        await one.run(310)
        assert (await listed(client))[0][2] == "on_deadline"
        if collected:
            await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
    async with served(place) as one:
        client = one.client()
        assert await target(client) == 1  # it is told once more, and collected once more
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        assert await target(client) == 0
        await becomes(one, Power.OFF)
        assert (await target(client), await listed(client)) == (0, [])
        assert len(place.room.wishes(True)) == 1


async def test_a_caller_that_hangs_up_before_it_is_stored_has_asked_for_nothing() -> None:
    async with served(cabinet()) as one:
        one.hands.gates["write_config_map"] = asyncio.Event()
        client = one.client(timeout=0.5)
        assert (await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1)))[0] in (
            "DEADLINE_EXCEEDED",
            "UNAVAILABLE",
        )
        one.hands.gates.pop("write_config_map").set()
        await one.run(60)
        assert await target(one.client()) == 0
        assert not room(one).calls
        assert operator(one).record("w1").ons == ()


async def test_a_caller_that_hangs_up_in_a_delete_finds_it_done() -> None:
    async with served(cabinet()) as one:
        client = one.client(timeout=0.6)
        await switched_on(one, client)
        one.hands.gates["list_pods_on"] = asyncio.Event()
        code, _ = await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")]))
        assert code in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
        assert await target(client) == 1
        one.hands.gates.pop("list_pods_on").set()
        await one.run(5)
        assert await target(client) == 0
        assert len(room(one).wishes(False)) == 1


@pytest.mark.parametrize("seed", range(int(os.environ.get("LIVES", "8"))))
async def test_whatever_happens_target_list_and_machine_agree(seed: int) -> None:
    """Calls in any order, hands on the button, endpoints that fail, work that comes and goes, and deaths in between."""
    rng = random.Random(seed)
    place = cabinet(own("w1", on_within=300.0, left_alone=60.0, per_day=1000, asked=rng.random() < 0.3))
    granted = 0
    for _ in range(rng.randint(2, 4)):
        async with served(place) as one:
            client = one.client(rng.choice(GENERATIONS), timeout=0.8)
            node = client.node("verda://w1", rng.choice(("w1", "verda://w1")))
            if rng.random() < 0.6:
                one.hands.kill = (one.hands.count + rng.randint(20, 400), rng.choice(("before", "after")))
            for _ in range(rng.randint(4, 10)):
                box, what = place.room.boxes["w1"], rng.random()
                if what < 0.35:
                    answer, _ = await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1))
                    granted += answer == "OK" or one.hands.dead
                elif what < 0.6:
                    await code_of(client.NodeGroupDeleteNodes(id="w1", nodes=[node]))
                elif what < 0.7:
                    answer, _ = await code_of(client.NodeGroupDecreaseTargetSize(id="w1", delta=-1))
                    assert answer in ("OK", "UNAVAILABLE") if one.hands.dead else answer == "OK"
                elif what < 0.8:
                    place.room.press("w1", rng.random() < 0.5)
                elif what < 0.9:
                    place.room.faults["w1"] = [rng.choice(FAULTS) for _ in range(rng.randint(1, 3))]
                elif place.town.nodes.get("w1") and place.town.nodes["w1"].ready and box.power == "on":
                    place.town.work = rng.choice((30.0, 300.0))
                    place.town.add_pod(f"pod-{place.time.now:.0f}", gpus=rng.randint(1, 4))
                if one.hands.dead:
                    break
                with contextlib.suppress(asyncio.CancelledError):
                    await one.run(rng.choice((5, 15, 60, 200)), step=rng.choice((1.0, 5.0)))
                if one.hands.dead:
                    break
                await target(client)
                assert len(place.room.wishes(True)) <= granted
    place.room.faults.clear()
    place.room.boxes["w1"].boots = True
    async with served(place) as one:
        client = one.client()
        await one.run(5000, step=20)
        on = place.room.boxes["w1"].power == "on"
        failed = [i for i in (await client.NodeGroupNodes(id="w1")).instances if i.status.errorInfo.errorCode]
        assert not failed
        assert (await target(client), operator(one).power("w1")) == ((1, Power.ON) if on else (0, Power.OFF))
        assert ("w1" in place.town.nodes) is on
        assert not place.room.broken
        assert len(place.room.wishes(True)) <= granted
