"""Killed and restarted at any point of an increase or a delete: one truth, and nothing is bought twice."""

from __future__ import annotations

import asyncio

import pytest

from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.reason import Reason
from tests.compat_grpc.generations import Client
from tests.compat_grpc.scene import H1, G, Served, code_of, pool, served, world

CALLS_OF_AN_INCREASE = 16  # more than there are: the last kills find nothing to do
CALLS_OF_A_DELETE = 14


async def agrees(one: Served, client: Client) -> tuple[int, list[str]]:
    """Target and list are one, and every machine in the cloud is in it or is leaving."""
    target = (await client.NodeGroupTargetSize(id="g")).targetSize
    listed = (await client.NodeGroupNodes(id="g")).instances
    counting = [i.id for i in listed if i.status.instanceState != 3]
    assert target == len(counting)
    assert len({i.id for i in listed}) == len(listed)
    here = {f"verda://{i.hostname}" for i in one.world.account.alive() if i.state != "leaving"}
    assert here <= {i.id for i in listed}
    return int(target), counting


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, CALLS_OF_AN_INCREASE))
async def test_killed_in_an_increase_nothing_is_bought_twice(number: int, when: str) -> None:
    place = world(G)
    async with served(place) as one:
        one.hands.kill = (one.hands.count + number, when)
        answered = (await code_of(one.client(timeout=1.0).NodeGroupIncreaseSize(id="g", delta=2)))[0]
        await one.settle()
        for _ in range(4):
            if not one.hands.dead:
                await one.run(5)
    sent = len(place.account.orders)
    assert sent <= 2
    async with served(place) as one:
        client = one.client()
        target, _ = await agrees(one, client)
        assert sent <= target <= 2
        if answered == "OK":
            assert target == 2
        await one.run(300)
        target, _ = await agrees(one, client)
        assert len(place.account.orders) == sent
        failed = [i for i in (await client.NodeGroupNodes(id="g")).instances if i.status.errorInfo.errorCode]
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(i.id) for i in failed])
        target, _ = await agrees(one, client)
        assert target == sent
        assert len(await one.until(Phase.READY, sent)) == sent if sent else True


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, CALLS_OF_A_DELETE))
async def test_killed_in_a_delete_the_machine_is_either_there_or_goes(number: int, when: str) -> None:
    place = world(G)
    async with served(place) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=2)
        first, second = await one.until(Phase.READY, 2)
        one.hands.kill = (one.hands.count + number, when)
        node = one.client().node(f"verda://{first.name}")
        await code_of(one.client(timeout=1.0).NodeGroupDeleteNodes(id="g", nodes=[node]))
        for _ in range(4):
            if not one.hands.dead:
                await one.run(5)
    async with served(place) as one:
        client = one.client()
        target, counting = await agrees(one, client)
        assert f"verda://{second.name}" in counting
        assert target in (1, 2)
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(f"verda://{first.name}")])
        assert (await agrees(one, client)) == (1, [f"verda://{second.name}"])
        await one.run(300)
        assert (await agrees(one, client)) == (1, [f"verda://{second.name}"])
        assert len(place.account.orders) == 2
        assert [i.hostname for i in place.account.alive()] == [second.name]
        assert list(place.town.nodes) == [second.name]


async def test_a_caller_that_hangs_up_before_it_is_stored_has_asked_for_nothing() -> None:
    async with served() as one:
        one.hands.gates["write_config_map"] = asyncio.Event()
        client = one.client(timeout=0.5)
        assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=1)))[0] in (
            "DEADLINE_EXCEEDED",
            "UNAVAILABLE",
        )
        one.hands.gates.pop("write_config_map").set()
        await one.run(30)
        assert (await one.client().NodeGroupTargetSize(id="g")).targetSize == 0
        assert not one.world.account.orders


async def test_a_caller_that_hangs_up_in_a_delete_finds_it_done() -> None:
    async with served() as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        one.hands.gates["delete"] = asyncio.Event()
        client = one.client(timeout=0.6)
        node = client.node(f"verda://{machine.name}")
        assert (await code_of(client.NodeGroupDeleteNodes(id="g", nodes=[node])))[0] in (
            "DEADLINE_EXCEEDED",
            "UNAVAILABLE",
        )
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1
        one.hands.gates.pop("delete").set()
        await one.run(5)
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
        assert len(one.hands.did("delete")) == 1


async def test_a_lost_answer_to_an_order_is_one_machine_or_a_failed_creation() -> None:
    for fault, machines in (("lost", 1), ("never", 0)):
        async with served() as one:
            client = one.client()
            one.hands.faults["create"] = [fault]
            await client.NodeGroupIncreaseSize(id="g", delta=1)
            await one.run(10)
            assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1
            await one.run(200)
            (listed,) = (await client.NodeGroupNodes(id="g")).instances
            assert len(one.world.account.orders) == machines
            assert listed.status.errorInfo.errorCode == ("" if machines else "not_ordered")
            assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1


async def test_what_is_asked_for_and_dismissed_before_the_cloud_answered_is_deleted_when_it_comes() -> None:
    async with served() as one:
        client = one.client()
        one.hands.gates["create"] = asyncio.Event()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.settle()
        (listed,) = (await client.NodeGroupNodes(id="g")).instances
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(listed.id)])
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
        one.hands.gates.pop("create").set()
        await one.run(180)
        assert len(one.world.account.orders) == 1
        assert not one.world.account.alive()
        assert not one.controller.ledger.machines


async def test_an_order_that_was_not_sent_is_withdrawn_without_a_call() -> None:
    async with served() as one:
        client = one.client()
        one.hands.gates["create_script"] = asyncio.Event()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.settle()
        (listed,) = (await client.NodeGroupNodes(id="g")).instances
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(listed.id)])
        one.hands.gates.pop("create_script").set()
        await one.run(60)
        assert not one.hands.did("create", "delete")
        assert not one.controller.ledger.machines
        assert not one.world.account.scripts


async def test_a_replica_without_the_lease_answers_nothing_and_buys_nothing() -> None:
    async with served() as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.until(Phase.READY)
        await one.controller.lose_lease()
        for call in (client.Refresh(), client.NodeGroups(), client.NodeGroupIncreaseSize(id="g", delta=1)):
            assert (await code_of(call))[0] == "UNAVAILABLE"
        assert one.driver.not_ready() == "this replica does not hold the lease"
        one.controller.leads = True
        await one.look()
        assert not one.driver.not_ready()
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1


async def test_nothing_is_ever_launched_but_what_was_asked_for() -> None:
    """Pods wait, a minimum is not filled, machines fail: the fleet replaces none of its own accord."""
    async with served() as one:
        one.world.town.add_pod()
        await one.run(120)
        assert not one.world.account.orders
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        one.world.account.end(machine.instance_id)
        await one.run(300)
        assert len(one.world.account.orders) == 1
        assert not one.world.town.nodes  # the Node of a machine that is gone is ours to delete


async def test_a_registered_machine_that_fails_goes_with_its_node_and_the_target_drops_at_once() -> None:
    async with served() as one:
        client = one.client()
        one.world.town.gpus = False
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.until(Phase.STARTED)
        (machine,) = one.controller.ledger.machines.values()
        for _ in range(200):
            await one.run(5)
            if one.controller.ledger.machines and one.controller.only.phase is not Phase.STARTED:
                break
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
        node = one.world.town.nodes.get(machine.name)
        assert node is None or not [t for t in node.taints if t.key.startswith("gpu-autoscaler/")]
        await one.run(200)
        assert not one.world.town.nodes
        assert (await client.NodeGroupNodes(id="g")).instances == []
        assert len(one.world.account.orders) == 1


async def test_a_failed_creation_that_nobody_collects_goes_by_itself() -> None:
    async with served() as one:
        client = one.client()
        one.hands.faults["create"] = [Refused(Reason.NO_CAPACITY, "none")]
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(10)
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1
        await one.run(910)
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
        assert (await client.NodeGroupNodes(id="g")).instances == []


async def test_a_caller_that_restarts_does_not_get_the_same_machines_again() -> None:
    async with served() as one:
        client = one.client()
        await client.GPULabel()
        await one.run(5)
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await client.NodeGroupIncreaseSize(id="g", delta=1)  # more of the same life is no repetition
        await one.run(5)
        await client.GPULabel()  # asked once by each process
        code, words = await code_of(client.NodeGroupIncreaseSize(id="g", delta=1))
        assert code == "FAILED_PRECONDITION"
        assert "were asked for before cluster-autoscaler restarted" in words
        await one.until(Phase.READY, 2)
        await one.run(60)
        assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"


async def test_a_caller_that_restarts_does_not_get_them_from_another_group_either() -> None:
    """Refused by the group where they boot, it tries the next one that the same pods fit."""
    async with served(world(pool("g"), pool("h", H1))) as one:
        client = one.client()
        await client.GPULabel()
        await one.run(5)
        one.world.town.add_pod("first")
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(5)
        await client.GPULabel()
        code, words = await code_of(client.NodeGroupIncreaseSize(id="h", delta=1))
        assert (code, "asked for before cluster-autoscaler restarted" in words) == (
            "FAILED_PRECONDITION",
            True,
        )
        one.world.town.add_pod("second")  # the one that boots has no room for it
        assert (await code_of(client.NodeGroupIncreaseSize(id="h", delta=2)))[0] == "FAILED_PRECONDITION"
        assert (await code_of(client.NodeGroupIncreaseSize(id="h", delta=1)))[0] == "OK"
        assert (await code_of(client.NodeGroupIncreaseSize(id="h", delta=1)))[0] == "FAILED_PRECONDITION"
        await one.until(Phase.READY, 2)
        assert len(one.world.account.orders) == 2


async def test_that_a_caller_restarted_is_known_after_a_restart_of_ours_too() -> None:
    place = world(G)
    async with served(place) as one:
        client = one.client()
        await client.GPULabel()
        await one.run(5)
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(10)
        await client.GPULabel()
        await one.run(10)
    async with served(place, looked=False) as one:
        client = one.client()
        await one.look()
        assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=1)))[0] == "FAILED_PRECONDITION"
        await one.until(Phase.READY)
        await one.run(60)
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(5)
    async with served(place) as one:  # what its present life asked for is no repetition
        assert (await code_of(one.client().NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"


async def test_a_caller_that_begins_before_the_ledger_was_read_is_heard_all_the_same() -> None:
    place = world(G)
    async with served(place) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(10)
    async with served(place, looked=False) as one:
        client = one.client()
        await client.GPULabel()
        await one.look()
        assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=1)))[0] == "FAILED_PRECONDITION"


async def test_a_replica_that_does_not_lead_does_not_swallow_that_a_caller_began() -> None:
    """The label is asked for once in a life, and whoever leads has to hear of it."""
    async with served() as one:
        one.controller.leads = False
        assert (await code_of(one.client().GPULabel()))[0] == "UNAVAILABLE"
        one.controller.leads = True
        assert (await one.client().GPULabel()).label


async def test_who_does_not_want_that_says_so() -> None:
    async with served(refuse_after_restart=False) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(5)
        await client.GPULabel()
        assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"
