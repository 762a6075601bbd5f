"""What could cost money twice, go round for ever or stay for ever, where somebody else counts the machines."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.cloudthings import Catalogue, Instance, Script
from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.policy import Limits, Policy
from controller.domain.reason import Reason
from controller.fleet import adoption
from controller.fleet.predecessors import Found
from tests.compat_grpc.scene import A1, G, Served, code_of, pool, served, world
from tests.fleet.fakes import make_pod

TAKEN_OVER = (("gpuas-cluster", "home"), ("gpuas-pool", "g"), ("gpuas-intent", "bbbbbbbbbb"))


async def _with_a_machine_of_a_predecessor(one: Served, tags: tuple[tuple[str, str], ...]) -> None:
    place, fleet = one.world, one.controller.fleet
    place.account.instances["x-1"] = Instance(
        id="x-1", hostname="old-1a2b3c4d", description="", status="running", instance_type=A1.name,
        location="FIN-01", market="on-demand", price=A1.price, created_at=place.time.now - 500, tags=tags,
    )  # fmt: skip
    found = Found(instance=place.account.instances["x-1"], group="old", pool="g", node="old-1a2b3c4d")
    catalogue = Catalogue(at=0.0, offers=tuple(place.account.offers))
    fleet.ledger.put(adoption.record(fleet.policy, catalogue, found, "bbbbbbbbbb", place.time.now))
    await one.run(60)


async def test_a_machine_that_was_taken_over_is_deleted_when_it_is_asked_for() -> None:
    async with served(world(G)) as one:
        await _with_a_machine_of_a_predecessor(one, TAKEN_OVER)
        client = one.client()
        (listed,) = (await client.NodeGroupNodes(id="g")).instances
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(listed.id)])
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
        await one.run(120)
        assert not one.world.account.alive()
        assert not one.controller.ledger.machines


async def test_a_record_without_the_tags_is_not_enough_to_delete_a_machine() -> None:
    async with served(world(G)) as one:
        await _with_a_machine_of_a_predecessor(one, ())
        client = one.client()
        (listed,) = (await client.NodeGroupNodes(id="g")).instances
        code, words = await code_of(client.NodeGroupDeleteNodes(id="g", nodes=[client.node(listed.id)]))
        assert (code, "does not carry the marks" in words) == ("FAILED_PRECONDITION", True)
        assert not one.hands.did("delete")


async def test_a_project_without_room_for_a_script_is_asked_once_and_not_for_each_market_in_turn() -> None:
    place = world(pool("g", market="prefer_spot"))
    async with served(place) as one:
        client = one.client()
        one.hands.faults["create_script"] = [Refused(Reason.QUOTA, "Startup script limit exceeded")] * 50
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.run(10)
        assert len(one.hands.did("create_script")) == 1
        (listed,) = (await client.NodeGroupNodes(id="g")).instances
        assert listed.status.errorInfo.errorCode == "limit_scripts"
        assert not place.account.orders


async def test_orders_wait_for_room_for_their_scripts() -> None:
    place = world(pool("g", max=5), script_quota=4)
    place.account.script_quota = 4
    for number in range(2):
        place.account.scripts[f"of-{number}"] = Script(id=f"of-{number}", name=f"of-{number}", text="")
    async with served(place) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=5)
        await one.run(15)
        assert len(place.account.orders) == 2
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 5
        await one.until(Phase.READY, 5)
        assert len(place.account.orders) == 5
        assert not one.controller.heard.of("refused")


async def test_what_the_ledger_does_not_hold_any_more_is_not_ordered_when_its_turn_comes() -> None:
    place = world(G, limits=Limits(launches_per_minute=1))
    async with served(place) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=3)
        await one.run(10)
        waiting = [m.intent for m in one.controller.ledger.machines.values() if m.phase is Phase.INTENDED]
        assert len(waiting) == 2
        one.controller.ledger.drop(waiting)  # as after reading it again, where somebody else wrote
        await one.run(200)
        assert len(place.account.orders) == 1
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1
        assert not place.account.scripts


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda policy: replace(policy, pause="scale-up"), "paused"),
        (lambda policy: replace(policy, pools=(replace(G, pause="all"),)), "paused"),
        (lambda policy: replace(policy, pools=()), "no_capacity"),
        (lambda policy: replace(policy, pools=(replace(G, max_price_per_hour=Decimal(1)),)), "limit_price"),
    ],
)
async def test_what_waits_for_its_turn_is_not_ordered_once_the_settings_forbid_it(
    change: Callable[[Policy], Policy], code: str
) -> None:
    place = world(G, limits=Limits(launches_per_minute=1))
    async with served(place) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=3)
        await one.run(10)
        one.controller.fleet.policy = change(place.policy)
        await one.run(300)
        assert len(place.account.orders) == 1
        (group,) = (await client.NodeGroups()).nodeGroups
        listed = (await client.NodeGroupNodes(id=group.id)).instances
        failed = [i for i in listed if i.status.errorInfo.errorCode]
        assert [i.status.errorInfo.errorCode for i in failed] == [code] * 2
        assert (await client.NodeGroupTargetSize(id=group.id)).targetSize == 3
        await client.NodeGroupDeleteNodes(id=group.id, nodes=[client.node(i.id) for i in failed])
        assert (await client.NodeGroupTargetSize(id=group.id)).targetSize == 1
        assert not place.account.scripts


async def test_what_waits_for_its_turn_is_not_ordered_where_the_one_before_was_just_refused() -> None:
    """Pods count on it until it has failed; and each try would be one more refusal."""
    place = world(replace(G, max=9), limits=Limits(launches_per_minute=1))
    async with served(place) as one:
        client = one.client()
        one.hands.faults["create"] = [None] + [Refused(Reason.NO_CAPACITY, "none left")] * 8
        await client.NodeGroupIncreaseSize(id="g", delta=6)
        await one.run(90)
        assert len(one.hands.did("create")) == len(place.account.orders) + 1 == 2
        listed = (await client.NodeGroupNodes(id="g")).instances
        failed = [i.status.errorInfo.errorCode for i in listed if i.status.errorInfo.errorCode]
        assert failed == ["no_capacity"] * 5


@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.RATE_LIMITED, Reason.JOIN_UNPREPARED])
async def test_trouble_that_passes_is_waited_for(reason: Reason) -> None:
    """One error of the cloud is no reason to give up on all that stand in line."""
    place = world(replace(G, max=9), limits=Limits(launches_per_minute=2))
    async with served(place) as one:
        client = one.client()
        one.hands.faults["create"] = [None, Refused(reason, "not now", retry_after=20.0)]
        await client.NodeGroupIncreaseSize(id="g", delta=4)
        await one.run(200, step=1)
        assert len(place.account.orders) == 3
        listed = (await client.NodeGroupNodes(id="g")).instances
        assert [i.status.errorInfo.errorCode for i in listed if i.status.errorInfo.errorCode] == [
            reason.value
        ]


async def test_what_waits_for_its_turn_is_ordered_in_the_other_market_where_the_first_is_sold_out() -> None:
    place = world(pool("g", market="prefer_spot"), limits=Limits(launches_per_minute=1))
    async with served(place) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=2)
        await one.run(10)
        one.controller.fleet.catalogue = replace(
            one.controller.fleet.catalogue,
            offers=tuple(replace(o, available=o.market != "spot") for o in place.account.offers),
        )
        await one.until(Phase.READY, 2)
        assert [o.market for o in place.account.orders] == ["spot", "on-demand"]


@pytest.mark.parametrize("where", ["pool", "everything", "node"])
async def test_a_machine_in_use_stays_while_removing_is_paused(where: str) -> None:
    place = world(replace(G, pause="scale-down" if where == "pool" else ""))
    async with served(place) as one:
        client, fleet = one.client(), one.controller.fleet
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        if where == "everything":
            fleet.policy = replace(fleet.policy, pause="all")
        if where == "node":
            town = place.town.nodes
            town[machine.name] = replace(town[machine.name], annotations={names.PAUSE: "scale-down"})
        node = client.node(f"verda://{machine.name}")
        code, words = await code_of(client.NodeGroupDeleteNodes(id="g", nodes=[node]))
        assert (code, "(paused)" in words) == ("FAILED_PRECONDITION", True)
        assert not one.hands.did("delete")
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 1


async def test_what_never_joined_goes_also_while_removing_is_paused() -> None:
    async with served(world(replace(G, pause="scale-down"))) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.BOOTING)
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(f"verda://{machine.name}")])
        await one.run(60)
        assert not one.world.account.alive()


async def test_a_machine_that_served_a_pod_and_is_taken_away_can_be_replaced_at_once() -> None:
    """Nobody tells here whom a machine was bought for; that a pod uses it is seen."""
    async with served(world(G)) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        pod = make_pod("train", one.world.time.now, node=machine.name, phase="Running")
        one.world.town.pods[pod.key] = pod
        one.world.town.bound_at[pod.key] = one.world.time.now
        await one.run(10)
        one.world.account.end(machine.instance_id)
        await one.run(10)
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 0
        assert (await code_of(client.NodeGroupIncreaseSize(id="g", delta=1)))[0] == "OK"


@pytest.mark.parametrize(("market", "uses"), [("spot_only", True), ("on_demand_only", False)])
async def test_a_market_that_takes_machines_away_before_they_were_of_use_is_left_alone(
    market: str, uses: bool
) -> None:
    async with served(world(replace(G, market=market))) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        if uses:
            pod = make_pod("train", one.world.time.now, node=machine.name, phase="Running")
            one.world.town.pods[pod.key] = pod
            one.world.town.bound_at[pod.key] = one.world.time.now
        one.world.account.end(machine.instance_id)
        await one.run(10)
        code, words = await code_of(client.NodeGroupIncreaseSize(id="g", delta=1))
        assert (code, "(vanished)" in words) == ("FAILED_PRECONDITION", True)
