"""What is written to Nodes of machines where cluster-autoscaler decides, which knows them by their provider IDs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controller.domain.kube import Node, Taint
from controller.domain.machine import Machine, Phase
from controller.fleet.removal import CLOSED, HARD, UNSEEN
from tests.compat_grpc.scene import G, Served, served, world


async def test_a_node_without_a_provider_id_gets_the_one_that_is_listed() -> None:
    """By a script of the user's own; to cluster-autoscaler its machine never registered, and would be deleted."""
    async with served(world(G)) as one:
        client = one.client()
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        nameless(one)
        (machine,) = await one.until(Phase.READY)
        await one.run(10)
        (listed,) = (await client.NodeGroupNodes(id="g")).instances
        node = one.world.town.nodes[machine.name]
        assert node.provider_id == listed.id == f"verda://{machine.name}"
        assert node.labels["gpu-autoscaler/pool"] == "g"
        assert len(one.hands.did("identify")) == 1


@pytest.mark.parametrize("given", ["k3s://{}", "aws:///a/i-1"])
async def test_one_that_has_any_keeps_it(given: str) -> None:
    async with served(world(G)) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        nameless(one, given)
        await one.run(120)
        assert not one.hands.did("identify")


async def test_one_that_a_cloud_controller_is_about_to_set_is_left_to_it() -> None:
    async with served(world(G)) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        nameless(one, "", Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule"))
        await one.run(120)
        assert not one.hands.did("identify")


def nameless(one: Served, given: str = "", *taints: Taint) -> None:
    """Nodes register with this provider ID."""
    town, usual = one.world.town, one.world.town.step
    known: set[str] = set()

    def step() -> None:
        usual()
        for name in set(town.nodes) - known:
            known.add(name)
            node: Node = town.nodes[name]
            town.nodes[name] = replace(node, provider_id=given.format(name), taints=(*node.taints, *taints))

    town.step = step  # type: ignore[method-assign]


async def test_machines_of_a_pool_that_was_taken_out_take_no_pod_and_still_count_as_ready() -> None:
    """Many nodes that are not ready stop all scaling, and nobody but cluster-autoscaler takes these away when they are idle."""
    async with served(world(G, removed_pools="drain")) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        one.controller.fleet.policy = replace(one.world.policy, pools=())
        await one.run(30)
        (taint,) = ours(one, machine)
        assert taint.effect == "NoSchedule"
        assert taint.key.startswith("status-taint.cluster-autoscaler.kubernetes.io/")
        one.controller.fleet.policy = one.world.policy
        await one.run(30)
        assert not ours(one, machine)


async def test_a_taint_of_an_earlier_version_of_ours_goes() -> None:
    async with served(world(G, removed_pools="drain")) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        node = one.world.town.nodes[machine.name]
        one.world.town.nodes[machine.name] = replace(node, taints=(*node.taints, UNSEEN))
        one.controller.fleet.policy = replace(one.world.policy, pools=())
        await one.run(30)
        assert ours(one, machine) == [CLOSED]


async def test_so_do_those_of_the_planner_which_a_template_would_learn() -> None:
    """It drained a removed pool before cluster-autoscaler took over, and the pool is back."""
    async with served(world(G)) as one:
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        node = one.world.town.nodes[machine.name]
        one.world.town.nodes[machine.name] = replace(node, taints=(*node.taints, HARD))
        await one.run(30)
        assert HARD not in one.world.town.nodes[machine.name].taints


def ours(one: Served, machine: Machine) -> list[Taint]:
    return [t for t in one.world.town.nodes[machine.name].taints if "cluster-autoscaler" in t.key]
