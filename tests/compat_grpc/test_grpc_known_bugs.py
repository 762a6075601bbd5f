"""What other servers of this interface got wrong, one test for each: it fails on that behaviour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import generate_latest

from controller.cloud.protocol import CloudError
from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Refused
from controller.domain.policy import Limits
from controller.domain.reason import Reason
from controller.planning.predict import own_labels
from tests.compat_grpc.generations import GENERATIONS, Client
from tests.compat_grpc.scene import CPU, SOLD, Served, code_of, pool, replace, served, world
from tests.fleet.fakes import make_node, make_pod
from tests.fleet.test_fleet_stopped import GRACE, shut_down


@pytest.fixture
async def one() -> AsyncIterator[Served]:
    async with served() as it:
        yield it


@pytest.fixture
async def client(one: Served) -> Client:
    return one.client()


async def ready(one: Served, count: int = 1) -> list[Machine]:
    await one.client().NodeGroupIncreaseSize(id="g", delta=count)
    return await one.until(Phase.READY, count)


async def listed(client: Client, group: str = "g") -> list[Any]:
    return list((await client.NodeGroupNodes(id=group)).instances)


async def target(client: Client, group: str = "g") -> int:
    return int((await client.NodeGroupTargetSize(id=group)).targetSize)


# the first Go provider


@pytest.mark.parametrize(("status", "after"), [("offline", GRACE + 20), ("error", 10)])
async def test_a_machine_that_failed_later_counts_no_more(
    one: Served, client: Client, status: str, after: float
) -> None:
    (machine,) = await ready(one)
    shut_down(one.world, machine, status)
    await one.run(after)
    assert await target(client) == 0
    assert all(i.status.instanceState == 3 for i in await listed(client))


async def test_a_machine_that_is_shut_down_counts_until_nobody_restarts_it(
    one: Served, client: Client
) -> None:
    """It costs its full price, so that it must not count as running for ever; a restart is no reason to replace it."""
    (machine,) = await ready(one)
    shut_down(one.world, machine)
    await one.run(GRACE - 60)
    assert [i.status.instanceState for i in await listed(client)] == [1]
    assert await target(client) == 1
    await one.run(240)
    assert not one.world.account.alive()
    assert not one.world.town.nodes
    assert not await listed(client)


async def test_a_failed_boot_has_the_state_beside_its_error(one: Served, client: Client) -> None:
    one.world.account.boots = False
    await client.NodeGroupIncreaseSize(id="g", delta=1)
    await one.run(10)
    one.world.account.set("i-1", status="installation_failed")
    await one.run(10)
    (instance,) = await listed(client)
    assert (instance.status.instanceState, bool(instance.status.errorInfo.errorCode)) == (2, True)


async def test_a_decrease_is_no_number_that_the_next_refresh_overwrites(one: Served, client: Client) -> None:
    one.hands.faults["create"] = [Refused(Reason.NO_CAPACITY, "none")]
    await client.NodeGroupIncreaseSize(id="g", delta=1)
    await one.run(10)
    await client.NodeGroupDecreaseTargetSize(id="g", delta=-1)
    for _ in range(3):
        await client.Refresh()
        await one.run(30)
        assert await target(client) == 0


async def test_where_spot_is_preferred_a_refusal_leads_to_the_other_market_in_the_same_group() -> None:
    async with served(world(pool("g", market="prefer_spot"))) as one:
        client = one.client()
        one.hands.faults["create"] = [Refused(Reason.NO_CAPACITY, "no spot")]
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        before = [i.id for i in await listed(client)]
        (machine,) = await one.until(Phase.READY)
        assert machine.market == "on-demand"
        assert [i.id for i in await listed(client)] == before
        assert [o.market for o in one.world.account.orders] == ["on-demand"]
        assert not one.world.account.scripts  # neither the first nor the second is left


async def test_what_is_sold_out_on_demand_may_be_there_as_spot() -> None:
    place = world(pool("g", market="spot_only"))
    async with served(place) as one:
        one.controller.fleet.catalogue = replace(
            one.controller.fleet.catalogue,
            offers=tuple(replace(o, available=o.market == "spot") for o in SOLD),
        )
        assert (await code_of(one.client().NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"
        await one.run(10)
        assert [o.market for o in place.account.orders] == ["spot"]


async def test_a_gpu_node_carries_the_gpu_label_from_its_registration() -> None:
    labels = own_labels(pool("g"), SOLD[0], "home-g-aaaaaaaaaa")
    async with served() as one:
        assert labels[(await one.client().GPULabel()).label] == "a100-80gb"
    assert "gpu-autoscaler/gpu" not in own_labels(
        pool("c", CPU), replace(SOLD[0], type=CPU), "home-c-aaaaaaaaaa"
    )


# the second Go provider


async def test_a_machine_that_vanishes_lowers_the_target(one: Served, client: Client) -> None:
    first, second = await ready(one, 2)
    one.world.account.end(first.instance_id)  # a spot eviction
    await one.run(10)
    assert await target(client) == 1
    await one.run(300)
    assert [i.id for i in await listed(client)] == [f"verda://{second.name}"]
    assert list(one.world.town.nodes) == [second.name]


async def test_a_decrease_never_deletes_a_running_machine(one: Served, client: Client) -> None:
    await ready(one, 3)
    for delta in (-1, -3, -1000):
        assert (await code_of(client.NodeGroupDecreaseTargetSize(id="g", delta=delta)))[0] == "OK"
    await one.run(60)
    assert await target(client) == 3
    assert not one.hands.did("delete")


async def test_timeout_and_removal_of_the_same_machine_are_subtracted_once(
    one: Served, client: Client
) -> None:
    """From 1.36 on both come in one loop for a machine that never joined."""
    one.world.town.joins = False
    await client.NodeGroupIncreaseSize(id="g", delta=2)
    await one.until(Phase.BOOTING, 2)
    first, _ = await listed(client)
    await client.NodeGroupDecreaseTargetSize(id="g", delta=-2)
    await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(first.id, first.id)])
    assert await target(client) == 1


async def test_an_id_is_the_same_before_and_after_the_cloud_lists_the_machine(
    one: Served, client: Client
) -> None:
    await client.NodeGroupIncreaseSize(id="g", delta=1)
    ids = {(await listed(client))[0].id}
    for _ in range(20):
        await one.run(5)
        ids.add((await listed(client))[0].id)
    assert len(ids) == 1


async def test_a_template_promises_less_than_the_machine_has(client: Client) -> None:
    node = client.template_node(await client.NodeGroupTemplateNodeInfo(id="g"))
    for name in ("memory", "ephemeral-storage"):
        assert int(node.status.allocatable[name].string) < int(node.status.capacity[name].string)


async def test_a_second_location_is_another_group() -> None:
    async with served(world(pool("g", locations=("FIN-01", "FIN-03")))) as one:
        client = one.client()
        groups = [g.id for g in (await client.NodeGroups()).nodeGroups]
        assert groups == ["g.1a100.22v.fin-01", "g.1a100.22v.fin-03"]
        await client.NodeGroupIncreaseSize(id=groups[1], delta=2)
        await one.run(10)
        assert {o.location for o in one.world.account.orders} == {"FIN-03"}
        most = {g.id: g.maxSize for g in (await client.NodeGroups()).nodeGroups}
        assert most == {groups[0]: 1, groups[1]: 3}  # the pool's maximum holds for both together
        assert (await code_of(client.NodeGroupIncreaseSize(id=groups[0], delta=2)))[0] == "OUT_OF_RANGE"


# the Python provider


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_no_generation_ever_gets_an_empty_template(generation: str) -> None:
    async with served() as one:
        client = one.client(generation)
        node = client.template_node(await client.NodeGroupTemplateNodeInfo(id="g"))
        assert node is not None
        assert node.status.allocatable["nvidia.com/gpu"].string == "1"


async def test_instances_are_listed_by_provider_id_and_not_by_the_clouds_id(
    one: Served, client: Client
) -> None:
    (machine,) = await ready(one)
    (instance,) = await listed(client)
    assert instance.id == f"verda://{machine.name}" != machine.instance_id


async def test_a_delete_that_did_not_happen_is_an_error(one: Served, client: Client) -> None:
    (machine,) = await ready(one)
    for fault in (Refused(Reason.UNAUTHORISED, "answered 403"), "never"):
        one.hands.faults["delete"] = [fault]
        code, _ = await code_of(
            client.NodeGroupDeleteNodes(id="g", nodes=[client.node(f"verda://{machine.name}")])
        )
        assert code != "OK"
        assert await target(client) == 1
    one.hands.faults["instance"] = [CloudError(Reason.UNAVAILABLE, "away")]
    code, _ = await code_of(
        client.NodeGroupDeleteNodes(id="g", nodes=[client.node(f"verda://{machine.name}")])
    )
    assert code == "UNAVAILABLE"


async def test_work_that_was_left_on_the_machine_stops_its_delete(one: Served, client: Client) -> None:
    (machine,) = await ready(one)
    pod = make_pod("train", one.world.time.now, node=machine.name)
    one.world.town.pods[pod.key] = pod
    one.world.town.bound_at[pod.key] = one.world.time.now
    code, words = await code_of(
        client.NodeGroupDeleteNodes(id="g", nodes=[client.node(f"verda://{machine.name}")])
    )
    assert code == "FAILED_PRECONDITION"
    assert "uses its GPUs" in words
    assert await target(client) == 1
    assert not one.hands.did("delete")


async def test_a_cloud_that_answers_nothing_wipes_nothing(one: Served, client: Client) -> None:
    await ready(one, 2)
    one.world.account.empty = True
    one.hands.faults["instance"] = [CloudError(Reason.UNAVAILABLE, "away")] * 50
    await one.run(60)
    assert await target(client) == 2
    assert [i.status.instanceState for i in await listed(client)] == [1, 1]


async def test_machines_made_by_hand_are_never_adopted_for_their_name(one: Served, client: Client) -> None:
    order = replace(await _order(one), hostname="home-g-zzzzzzzzzz", description="mine", tags=())
    one.world.account.order(order, name="by-hand")
    one.world.town.nodes["home-g-zzzzzzzzzz"] = make_node("home-g-zzzzzzzzzz", one.world.time.now)
    before = len(await listed(client))
    await one.run(60)
    assert len(await listed(client)) == before
    node = client.node("verda://by-hand", "home-g-zzzzzzzzzz")
    assert not (await client.NodeGroupForNode(node=node)).nodeGroup.id
    assert (await code_of(client.NodeGroupDeleteNodes(id="g", nodes=[node])))[0] == "NOT_FOUND"


async def _order(one: Served) -> Any:
    await one.client().NodeGroupIncreaseSize(id="g", delta=1)
    await one.run(10)
    return one.world.account.orders[0]


async def test_creation_does_not_happen_inside_the_call(one: Served, client: Client) -> None:
    one.hands.gates["prepare"] = asyncio.Event()
    assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=3)))[0] == "OK"
    assert await target(client) == 3
    one.hands.gates.pop("prepare").set()


async def test_a_price_needs_no_machine(client: Client) -> None:
    node = client.node("", "template-node-for-h-7")
    node.labels.update(
        {"gpu-autoscaler/pool": "h", "node.kubernetes.io/instance-type": "1H100.80S.30V",
         "topology.kubernetes.io/zone": "FIN-01"}
    )  # fmt: skip
    answer = await client.PricingNodePrice(node=node, **client.times(0, 3600))
    assert answer.price == pytest.approx(2.29)


async def test_gpu_types_are_answered(client: Client) -> None:
    assert set((await client.GetAvailableGPUTypes()).gpuTypes) == {"a100-80gb", "h100-80gb"}


async def test_options_are_not_echoed(client: Client) -> None:
    answer = await client.NodeGroupGetOptions(id="g", defaults={"scaleDownUtilizationThreshold": 0.7})
    assert not answer.HasField("nodeGroupAutoscalingOptions")


async def test_cleanup_stops_no_background_work(one: Served, client: Client) -> None:
    (machine,) = await ready(one)
    await client.Cleanup()
    one.world.account.end(machine.instance_id)
    await one.run(300)
    assert not one.world.town.nodes


# others


async def test_a_target_is_always_backed_by_what_is_listed(one: Served, client: Client) -> None:
    one.hands.faults["create"] = [None, Refused(Reason.NO_CAPACITY, "none"), "never"]
    await client.NodeGroupIncreaseSize(id="g", delta=3)
    for _ in range(60):
        instances = await listed(client)
        assert await target(client) == len([i for i in instances if i.status.instanceState != 3])
        await one.run(5)


async def test_the_control_plane_belongs_to_no_group(one: Served, client: Client) -> None:
    one.world.town.nodes["server"] = replace(make_node("server", 0.0), provider_id="k3s://server")
    await one.run(10)
    assert not (await client.NodeGroupForNode(node=client.node("k3s://server", "server"))).nodeGroup.id


async def test_a_pool_that_is_taken_out_keeps_its_group_while_machines_are_there() -> None:
    place = world(pool("g"), pool("old"))
    async with served(place) as one:
        await one.client().NodeGroupIncreaseSize(id="old", delta=1)
        (machine,) = await one.until(Phase.READY)
    place.policy = replace(place.policy, pools=(pool("g"),))
    async with served(place) as one:
        client = one.client()
        name = f"verda://{machine.name}"
        left = (await client.NodeGroupForNode(node=client.node(name))).nodeGroup.id
        assert left == "old.1a100.22v.fin-01"
        assert left in [g.id for g in (await client.NodeGroups()).nodeGroups]
        assert (await code_of(client.NodeGroupIncreaseSize(id=left, delta=1)))[0] == "FAILED_PRECONDITION"
        await client.NodeGroupTemplateNodeInfo(id=left)
        await client.NodeGroupDeleteNodes(id=left, nodes=[client.node(name)])
        await one.run(180)
        assert [g.id for g in (await client.NodeGroups()).nodeGroups] == ["g"]


async def test_every_call_is_counted(one: Served, client: Client) -> None:
    await client.NodeGroups()
    await code_of(client.NodeGroupTargetSize(id="nobody"))
    told = generate_latest(one.registry).decode()
    assert 'gpu_autoscaler_grpc_calls_total{code="OK",method="NodeGroups"} 1.0' in told
    assert 'gpu_autoscaler_grpc_calls_total{code="NOT_FOUND",method="NodeGroupTargetSize"} 1.0' in told


async def test_a_decrease_at_the_minimum_is_no_error_that_would_be_asked_again_for_ever(
    one: Served, client: Client
) -> None:
    await client.NodeGroupIncreaseSize(id="h", delta=1)
    await one.until(Phase.READY)
    for _ in range(2):
        assert (await code_of(client.NodeGroupDecreaseTargetSize(id="h", delta=-1)))[0] == "OK"
    assert (await client.NodeGroupTargetSize(id="h")).targetSize == 1
    assert not one.hands.did("delete")


async def test_what_was_taken_back_is_not_listed_any_more() -> None:
    async with served(world(pool("g"), limits=Limits(launches_per_minute=1))) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=3)
        await client.NodeGroupDecreaseTargetSize(id="g", delta=-3)
        listed = (await client.NodeGroupNodes(id="g")).instances
        assert len(listed) == (await client.NodeGroupTargetSize(id="g")).targetSize <= 1
        assert all(each.status.instanceState for each in listed)


async def test_an_increase_that_is_given_up_leaves_no_target_behind(one: Served, client: Client) -> None:
    """The machine never joins: its own deadline ends it, whether or not anybody asks for that."""
    one.world.town.joins = False
    await client.NodeGroupIncreaseSize(id="g", delta=1)
    await one.until(Phase.BOOTING)
    await one.run(2400, step=15)
    assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
    assert not (await client.NodeGroupNodes(id="g")).instances
    assert not one.world.account.alive()


async def test_a_minimum_needs_a_pool_of_one_kind_and_place() -> None:
    one = Served(world(), world().policy)
    place = world(pool("g", locations=("FIN-01", "FIN-03"), min=1))
    (words,) = one.driver.objections(place.policy)
    assert words.startswith("pools: min = 1 of pool g: expected a pool of one instance type and one location")
