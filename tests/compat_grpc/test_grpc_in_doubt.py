"""Deletes whose outcome nobody knows: whoever asked lets pods in again, and the machine may go all the same."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from tests.compat_grpc.scene import G, Served, code_of, served, world


async def ready(one: Served) -> Machine:
    await one.client().NodeGroupIncreaseSize(id="g", delta=1)
    (machine,) = await one.until(Phase.READY)
    return machine


def closed(one: Served, machine: Machine) -> bool:
    return names.TAINT_LEAVING in [taint.key for taint in one.world.town.nodes[machine.name].taints]


async def delete(one: Served, machine: Machine, timeout: float = 5.0) -> str:
    client = one.client(timeout=timeout)
    node = client.node(f"verda://{machine.name}")
    return (await code_of(client.NodeGroupDeleteNodes(id="g", nodes=[node])))[0]


async def test_a_machine_whose_delete_may_have_arrived_takes_no_pod_until_that_is_known() -> None:
    async with served(world(G)) as one:
        machine = await ready(one)
        one.hands.faults["delete"] = ["never"]
        assert await delete(one, machine) == "UNAVAILABLE"
        assert closed(one, machine)
        await one.run(45)
        assert closed(one, machine)
        await one.run(60)
        assert not closed(one, machine)
        assert (await one.client().NodeGroupTargetSize(id="g")).targetSize == 1


async def test_so_does_one_whose_delete_nobody_waits_for_any_more() -> None:
    async with served(world(G)) as one:
        machine = await ready(one)
        one.hands.gates["delete"] = asyncio.Event()
        assert await delete(one, machine, timeout=0.8) in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        await one.settle()
        assert closed(one, machine)
        await one.run(120)
        assert closed(one, machine)
        one.hands.faults["delete"] = [Refused(Reason.UNAUTHORISED, "answered 403")]
        one.hands.gates.pop("delete").set()
        await one.run(30)
        assert not closed(one, machine)


async def test_and_one_whose_caller_is_gone_in_the_middle_of_it() -> None:
    """The next process of cluster-autoscaler takes off the taints of the last one before anything else."""
    async with served(world(G)) as one:
        machine = await ready(one)
        one.hands.gates["delete"] = asyncio.Event()
        asked = asyncio.Event()
        one.hands.on_call["delete"] = lambda _: asked.set()
        calling = asyncio.create_task(delete(one, machine))
        async with asyncio.timeout(10):
            await asked.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        for _ in range(500):
            if closed(one, machine):
                break
            await asyncio.sleep(0.01)
        assert closed(one, machine)
        one.hands.gates.pop("delete").set()
        await one.run(10)
        assert not [i for i in one.world.account.alive() if i.state != "leaving"]


async def test_a_delete_that_is_certainly_refused_closes_nothing() -> None:
    async with served(world(G)) as one:
        machine = await ready(one)
        before = one.hands.did("taint")
        one.hands.faults["delete"] = [Refused(Reason.UNAUTHORISED, "answered 403")]
        assert await delete(one, machine) != "OK"
        await one.run(10)
        assert not closed(one, machine)
        assert one.hands.did("taint") == before


async def test_a_machine_that_went_although_the_answer_was_lost_speaks_not_against_its_offer() -> None:
    async with served(world(G)) as one:
        machine = await ready(one)
        one.hands.faults["delete"] = ["lost"]
        assert await delete(one, machine) == "UNAVAILABLE"
        await one.run(15)
        assert (await one.client().NodeGroupTargetSize(id="g")).targetSize == 0
        assert (await code_of(one.client().NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"


@pytest.mark.parametrize("tainted", [True, False])
async def test_nor_does_one_that_went_while_the_server_died_where_its_node_shows_who_wanted_it_gone(
    tainted: bool,
) -> None:
    """cluster-autoscaler marks the Node before it asks; else the market may have taken the machine."""
    place = world(G)
    async with served(place) as one:
        machine = await ready(one)
        if tainted:
            node = place.town.nodes[machine.name]
            mark = Taint(key="ToBeDeletedByClusterAutoscaler", effect="NoSchedule")
            place.town.nodes[machine.name] = replace(node, taints=(*node.taints, mark))
        one.hands.on_call["delete"] = lambda _: setattr(one.hands, "kill", (one.hands.count, "after"))
        assert await delete(one, machine, timeout=1.0) != "OK"
        assert one.hands.dead
        assert not [i for i in place.account.alive() if i.state != "leaving"]
    async with served(place) as one:
        await one.run(15)
        assert (await one.client().NodeGroupTargetSize(id="g")).targetSize == 0
        code, words = await code_of(one.client().NodeGroupIncreaseSize(id="g", delta=1))
        assert (code, "(vanished)" in words) == (("OK", False) if tainted else ("FAILED_PRECONDITION", True))
