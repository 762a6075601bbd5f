"""A template that promises more than nodes have buys machine after machine: it is noticed, told and corrected."""

from __future__ import annotations

from typing import Any

from controller.domain.machine import Phase
from tests.compat_grpc.generations import Client
from tests.compat_grpc.scene import H1, SOLD, G, Served, pool, replace, served, world
from tests.fleet.fakes import GIB

DISK = "ephemeral-storage"
H8 = replace(H1, name="8H100.80S.176V", gpus=8, vcpus=176, memory_gib=1000)


async def a_node_that_offers(one: Served, **less: int) -> None:
    await one.client().NodeGroupIncreaseSize(id="g", delta=1)
    (machine,) = await one.until(Phase.READY)
    node = one.world.town.nodes[machine.name]
    amounts = {**node.allocatable, **{name.replace("_", "-"): units for name, units in less.items()}}
    one.world.town.nodes[machine.name] = replace(node, allocatable=amounts)
    await one.look()
    await one.settle()


async def promised(client: Client, group: str = "g") -> dict[str, Any]:
    node = client.template_node(await client.NodeGroupTemplateNodeInfo(id=group))
    return {name: each.string for name, each in node.status.allocatable.items()}


def share(one: Served, resource: str, group: str = "g") -> float | None:
    return one.registry.get_sample_value(
        "gpu_autoscaler_grpc_shortfall", {"group": group, "resource": resource}
    )


async def test_a_template_promises_no_more_than_nodes_of_its_group_were_seen_to_have() -> None:
    async with served() as one:
        client = one.client()
        before = await promised(client)
        await a_node_that_offers(one, ephemeral_storage=40 * GIB)
        after = await promised(client)
        assert (int(before[DISK]) > 80 * 10**9, int(after[DISK])) == (True, 40 * GIB)
        assert after["nvidia.com/gpu"] == "1"
        assert (await promised(client, "h"))[DISK] == before[DISK]
        assert share(one, DISK) == 0.5025
        told = [words for words in one.warnings if DISK in words]
        assert told == [
            f"TemplatePromisedTooMuch: group g offers less {DISK} than predicted: {40 * GIB} instead of "
            f"{before[DISK]}; its template promises no more than that from now on"
        ]


async def test_it_is_told_once_and_stays_known_when_the_machine_is_gone() -> None:
    async with served() as one:
        client = one.client()
        await a_node_that_offers(one, ephemeral_storage=40 * GIB)
        (machine,) = one.controller.ledger.machines.values()
        await one.run(60)
        await client.NodeGroupDeleteNodes(id="g", nodes=[client.node(f"verda://{machine.name}")])
        await one.run(300)
        assert not one.controller.ledger.machines
        assert int((await promised(client))[DISK]) == 40 * GIB
        assert len([words for words in one.warnings if DISK in words]) == 1


async def test_what_another_type_offered_says_nothing_of_the_one_that_a_group_has_now() -> None:
    """Pods that fit only the larger type would wait for ever: no machine comes that shows what it has."""
    async with served(world(G)) as one:
        client = one.client()
        await a_node_that_offers(one, memory=40 * GIB, ephemeral_storage=40 * GIB)
        assert int((await promised(client))["memory"]) == 40 * GIB
        other = replace(G, instance_types=(H8.name,), disk_gb=1000)
        one.world.account.offers.append(replace(SOLD[0], type=H8))
        await one.controller.fleet.refresh_catalogue()
        one.controller.fleet.policy = replace(one.world.policy, pools=(other,))
        await one.run(10)
        now = await promised(client)
        assert int(now["memory"]) > 700 * GIB
        assert int(now[DISK]) > 700 * 10**9
        assert share(one, "memory") is None


async def test_nor_do_machines_that_were_made_with_other_settings_of_their_pool() -> None:
    place = world(G)
    async with served(place) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        node = place.town.nodes[machine.name]
        place.town.nodes[machine.name] = replace(node, allocatable={**node.allocatable, DISK: 80 * GIB})
        one.controller.fleet.policy = replace(place.policy, pools=(replace(G, disk_gb=1000),))
        await one.run(10)
        assert int((await promised(one.client()))[DISK]) > 700 * 10**9
        assert not [words for words in one.warnings if DISK in words]
    place.policy = replace(place.policy, pools=(replace(G, disk_gb=1000),))
    async with served(place) as one:
        await one.run(10)
        assert int((await promised(one.client()))[DISK]) > 700 * 10**9


async def test_nodes_that_have_what_was_promised_end_it() -> None:
    async with served() as one:
        client = one.client()
        before = await promised(client)
        await a_node_that_offers(one, ephemeral_storage=40 * GIB)
        (machine,) = one.controller.ledger.machines.values()
        node = one.world.town.nodes[machine.name]
        one.world.town.nodes[machine.name] = replace(
            node, allocatable={**node.allocatable, DISK: int(before[DISK])}
        )
        await one.look()
        assert (await promised(client))[DISK] == before[DISK]
        assert share(one, DISK) is None


async def test_a_node_that_has_just_started_and_says_nothing_of_it_changes_nothing() -> None:
    async with served() as one:
        client = one.client()
        before = await promised(client)
        await a_node_that_offers(one, ephemeral_storage=0)
        assert (await promised(client))[DISK] == before[DISK]
        assert share(one, DISK) is None


async def test_gpus_that_are_lost_for_a_moment_never_reach_the_template() -> None:
    async with served() as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        node = one.world.town.nodes[machine.name]
        one.world.town.nodes[machine.name] = replace(
            node, allocatable={**node.allocatable, "nvidia.com/gpu": 0}
        )
        await one.look()
        assert (await promised(client))["nvidia.com/gpu"] == "1"
        assert not [words for words in one.warnings if "nvidia.com/gpu" in words]


async def test_machines_of_a_pool_that_no_setting_speaks_of_any_more_are_no_trouble() -> None:
    place = world(pool("g"), pool("old", H1))
    async with served(place) as one:
        await one.client().NodeGroupIncreaseSize(id="old", delta=1)
        await one.until(Phase.READY)
    place.policy = replace(place.policy, pools=(G,))
    async with served(place) as one:
        await one.run(30)
        assert share(one, "memory", "old.1h100.80s.30v.fin-01") is None
