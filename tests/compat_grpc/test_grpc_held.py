"""Groups that nothing may be taken from, and groups of settings that change: what cluster-autoscaler is told of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.policy import Billing, Headroom, NamespaceLimit
from controller.domain.reason import Reason
from controller.fleet.switching.seeing import SPEAKS
from tests.compat_grpc.generations import Client
from tests.compat_grpc.scene import G, code_of, pool, served, world
from tests.compat_grpc.test_grpc_switched import cabinet, own, switched_on

SPEAKING = Taint(key=SPEAKS[0], effect=SPEAKS[1])


async def sizes(client: Client) -> dict[str, tuple[int, int]]:
    return {g.id: (g.minSize, g.maxSize) for g in (await client.NodeGroups()).nodeGroups}


@pytest.mark.parametrize("where", ["pool", "everything"])
@pytest.mark.parametrize("pause", ["scale-down", "all"])
async def test_a_paused_group_has_no_machine_to_spare_so_that_no_pod_is_evicted_in_vain(
    where: str, pause: str
) -> None:
    """A machine is drained before its deletion is asked for; what is at its minimum is left alone."""
    async with served(world(G)) as one:
        client, fleet = one.client(), one.controller.fleet
        await client.NodeGroupIncreaseSize(id="g", delta=2)
        await one.until(Phase.READY, 2)
        assert await sizes(client) == {"g": (0, 3)}
        before = fleet.policy
        fleet.policy = (
            replace(before, pause=pause)
            if where == "everything"
            else replace(before, pools=(replace(G, pause=pause),))
        )
        assert await sizes(client) == {"g": (2, 3)}
        fleet.policy = replace(before, pause="scale-up")
        assert await sizes(client) == {"g": (0, 3)}


async def test_what_could_not_be_made_is_no_minimum_of_a_paused_group_or_it_would_be_bought_again() -> None:
    """It is collected, and `--enforce-node-group-min-size` would fill the minimum of a moment ago in the same loop."""
    async with served(world(G)) as one:
        client = one.client()
        one.hands.faults["create"] = [None, Refused(Reason.NO_CAPACITY, "none left")]
        await client.NodeGroupIncreaseSize(id="g", delta=2)
        await one.until(Phase.READY)
        one.controller.fleet.policy = replace(one.world.policy, pools=(replace(G, pause="scale-down"),))
        assert (await client.NodeGroupTargetSize(id="g")).targetSize == 2
        assert await sizes(client) == {"g": (1, 3)}


async def test_a_group_that_only_shrinks_has_room_for_all_that_is_listed_in_it() -> None:
    async with served(world(G)) as one:
        client, left = one.client(), "g.1a100.22v.fin-01"
        one.hands.faults["create"] = [None, Refused(Reason.NO_CAPACITY, "none left")]
        await client.NodeGroupIncreaseSize(id="g", delta=2)
        await one.until(Phase.READY)
        one.controller.fleet.policy = replace(one.world.policy, pools=())
        assert (await client.NodeGroupTargetSize(id=left)).targetSize == 2
        assert await sizes(client) == {left: (0, 2)}
        assert (await code_of(client.NodeGroupIncreaseSize(id=left, delta=1)))[0] == "FAILED_PRECONDITION"


async def test_a_switched_machine_that_has_to_stay_on_is_its_groups_minimum() -> None:
    async with served(cabinet(own("w1", min_on=900.0), own("w2", pause="scale-down"), own("w3"))) as one:
        client = one.client()
        assert await sizes(client) == {"w1": (0, 1), "w2": (0, 1), "w3": (0, 1)}
        for name in ("w1", "w2", "w3"):
            await switched_on(one, client, name)
        assert await sizes(client) == {"w1": (1, 1), "w2": (1, 1), "w3": (0, 1)}
        node = one.world.town.nodes["w3"]
        one.world.town.nodes["w3"] = replace(node, annotations={names.PAUSE: "scale-down"})
        assert (await sizes(client))["w3"] == (1, 1)
        await one.run(960, step=20)
        await one.controller.fleet.refresh_catalogue()
        assert (await sizes(client))["w1"] == (0, 1)


async def test_one_that_is_not_served_any_more_is_not_drained_again_and_again() -> None:
    async with served(cabinet()) as one:
        client = one.client()
        await switched_on(one, client)
        one.controller.fleet.policy = replace(one.world.policy, switches=())
        await one.run(5)
        assert await sizes(client) == {"w1": (1, 1)}


async def test_what_only_the_planner_keeps_is_said_to_rest() -> None:
    place = world(G, namespaces={"team-a": NamespaceLimit(gpus=2)}, headroom=(Headroom(pool="g", gpus=1),))
    async with served(place) as one:
        await one.run(30)
        told = [words for words in one.warnings if words.startswith("SettingsOfThePlannerRest")]
        assert len(told) == 1
        assert "namespaces, headroom: without effect while cluster-autoscaler decides" in told[0]


async def test_so_it_is_with_settings_that_change_and_each_thing_is_told_once() -> None:
    async with served(world(G)) as one:
        await one.run(10)
        assert not [words for words in one.warnings if words.startswith("SettingsOfThePlannerRest")]
        one.controller.fleet.policy = replace(
            one.world.policy,
            pools=(replace(G, expire_after=86400.0),),
            ignore_namespaces=("playground",),
            min_pod_age=60.0,
            billing=Billing(drain_idle=True),
        )
        await one.run(30)
        (told,) = [words for words in one.warnings if words.startswith("SettingsOfThePlannerRest")]
        keys = "planning.ignore_namespaces, planning.min_pod_age, billing.on_exhausted, pools[*].expire_after"
        assert f": {keys}: without effect" in told
        assert len([words for words in one.warnings if words.startswith("InsecureExternalGrpc")]) == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, False),
        ({"resources": {"nvidia.com/mig-1g.10gb": 7}}, False),
        ({"resources": {"nvidia.com/mig-1g.10gb": 3, "nvidia.com/gpu": 1}}, False),
        ({"resource_claims": "always"}, True),
    ],
)
async def test_pools_whose_nodes_never_count_as_ready_are_told(more: dict[str, Any], told: bool) -> None:
    async with served(world(replace(G, **more))) as one:
        await one.run(10)
        assert any(words.startswith("NodesWithoutWholeGpus: pools g:") for words in one.warnings) is told


async def test_a_place_that_a_pool_may_not_buy_from_any_more_is_no_group_any_more() -> None:
    """It would be chosen for a scale-up that cannot be."""
    both = pool("g", locations=("FIN-01", "FIN-03"), instance_types=("1A100.22V", "1H100.80S.30V"))
    async with served(world(both)) as one:
        client = one.client()
        types = ("1a100.22v", "1h100.80s.30v")
        assert set(await sizes(client)) == {f"g.{t}.{p}" for t in types for p in ("fin-01", "fin-03")}
        await client.NodeGroupIncreaseSize(id="g.1a100.22v.fin-03", delta=1)
        (machine,) = await one.until(Phase.READY)
        fewer = replace(both, locations=("FIN-01", "FIN-02"))
        one.controller.fleet.policy = replace(one.world.policy, pools=(fewer,))
        assert await sizes(client) == {
            "g.1a100.22v.fin-01": (0, 2), "g.1h100.80s.30v.fin-01": (0, 2),
            "g.1a100.22v.fin-03": (0, 1),  # while its machine is there
        }  # fmt: skip
        node = client.node(f"verda://{machine.name}")
        await client.NodeGroupDeleteNodes(id="g.1a100.22v.fin-03", nodes=[node])
        await one.run(180)
        assert set(await sizes(client)) == {"g.1a100.22v.fin-01", "g.1h100.80s.30v.fin-01"}


async def test_a_machine_that_is_off_is_not_switched_on_before_its_node_is_gone() -> None:
    """Its old Node, not Ready, would be no machine on its way: another one would be taken beside it."""
    async with served(cabinet()) as one:
        client, town = one.client(), one.world.town
        await switched_on(one, client)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        for _ in range(60):
            await one.run(5)
            if not town.nodes["w1"].ready:
                town.nodes["w1"] = replace(town.nodes["w1"], taints=(SPEAKING, *town.nodes["w1"].taints))
                break
        await one.run(60)
        code, words = await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1))
        assert (code, "its Node is about to be deleted (switching_off)" in words) == (
            "FAILED_PRECONDITION",
            True,
        )
        assert len(one.world.room.wishes(True)) == 1  # type: ignore[attr-defined]
        town.nodes["w1"] = replace(town.nodes["w1"], taints=())
        await one.run(60)
        assert "w1" not in town.nodes
        await switched_on(one, client)


async def test_a_node_that_pods_keep_is_no_reason_to_leave_its_machine_off_for_ever() -> None:
    async with served(cabinet()) as one:
        client, town = one.client(), one.world.town
        await switched_on(one, client)
        await client.NodeGroupDeleteNodes(id="w1", nodes=[client.node("verda://w1")])
        for _ in range(60):
            await one.run(5)
            if not town.nodes["w1"].ready:
                town.add_pod("stays", node="w1", gpus=0)
                town.work = 1e9
                break
        await one.run(120)
        assert (await code_of(client.NodeGroupIncreaseSize(id="w1", delta=1)))[0] == "FAILED_PRECONDITION"
        await one.run(600, step=20)
        assert "w1" in town.nodes
        await switched_on(one, client)
