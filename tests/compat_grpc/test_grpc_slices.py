"""Pools whose GPUs cluster-autoscaler does not know: it never counts a node as ready that has the GPU label and not one of its
own resources; and without the label it takes one for ready whose GPUs are still to come, and buys another."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain import names
from controller.domain.kube import Taint
from controller.domain.machine import Phase
from controller.domain.policy import Policy
from controller.join.protocol import Joining
from tests.compat_grpc.generations import GENERATIONS
from tests.compat_grpc.scene import G, Served, served, world

MIG, SHARED = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"


def cut_up(one: Served, resource: str, count: int, *, says: bool = True) -> list[Joining]:
    """Nodes offer this instead of whole GPUs. Returns what their startup scripts say, one of the user's own sets nothing."""
    town, usual, said = one.world.town, one.world.town.step, []
    prepare = one.hands.prepare

    async def remember(joining: Joining) -> Any:
        said.append(joining)
        return await prepare(joining)

    def step() -> None:
        before = set(town.nodes)
        usual()
        for name, node in town.nodes.items():
            if name not in before and says:
                script = next(joining for joining in said if joining.name == name)
                node = replace(node, labels=dict(script.labels), taints=script.taints)
            offered = dict(node.allocatable)
            if offered.pop("nvidia.com/gpu", 0):
                offered[resource] = count
            town.nodes[name] = replace(node, allocatable=offered)

    town.step = step  # type: ignore[method-assign]
    one.hands.prepare = remember  # type: ignore[method-assign]
    return said


def startup_taints(one: Served) -> list[list[Taint]]:
    """By node: those by which cluster-autoscaler takes it for one that still starts."""
    prefix = "ignore-taint.cluster-autoscaler.kubernetes.io/"
    return [[t for t in n.taints if t.key.startswith(prefix)] for n in one.world.town.nodes.values()]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_neither_the_template_nor_the_node_has_the_gpu_label(generation: str) -> None:
    async with served(world(replace(G, resources={MIG: 7}))) as one:
        client = one.client(generation)
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="g"))
        assert names.LABEL_GPU not in made.metadata.labels
        assert made.status.allocatable[MIG].string == "7"
        assert "nvidia.com/gpu" not in made.status.allocatable
        assert [t.key for t in made.spec.taints] == ["nvidia.com/gpu"]
        said = cut_up(one, MIG, 7)
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.READY)
        await one.run(20)
        node = one.world.town.nodes[machine.name]
        assert names.LABEL_GPU not in said[0].labels
        assert names.LABEL_GPU not in node.labels
        assert node.labels[names.LABEL_POOL] == "g"
        assert not (await client.GetAvailableGPUTypes()).gpuTypes
        assert not [words for words in one.warnings if words.startswith("NodesWithoutWholeGpus")]


@pytest.mark.parametrize("resource", [MIG, SHARED])
@pytest.mark.parametrize("own_script", [True, False])
async def test_its_node_still_starts_until_its_gpus_are_there_and_no_pod_is_kept_away(
    resource: str, own_script: bool
) -> None:
    async with served(world(replace(G, resources={resource: 7}))) as one:
        cut_up(one, resource, 7, says=own_script)
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        (machine,) = await one.until(Phase.STARTED)
        await one.run(5, step=1)
        looks = 0
        while one.controller.only.phase is Phase.STARTED:
            ((taint,),) = startup_taints(one)
            assert taint.effect == "PreferNoSchedule"
            looks += 1
            await one.run(1, step=1)
        assert looks > 3
        assert one.controller.only.phase is Phase.READY
        assert one.world.town.nodes[machine.name].allocatable[resource] == 7
        await one.run(10)
        assert startup_taints(one) == [[]]
        await one.run(60)
        assert startup_taints(one) == [[]]


async def test_gpus_that_never_come_are_still_a_failure() -> None:
    async with served(world(replace(G, resources={MIG: 7}))) as one:
        cut_up(one, "nvidia.com/gpu", 1)  # nobody cuts them up
        await one.client().NodeGroupIncreaseSize(id="g", delta=1)
        await one.until(Phase.STARTED)
        await one.run(900)
        assert (await one.client().NodeGroupTargetSize(id="g")).targetSize == 0
        assert not one.world.account.alive()
        assert not one.world.town.nodes


async def test_whole_gpus_beside_slices_are_known_to_it() -> None:
    async with served(world(replace(G, resources={MIG: 3, "nvidia.com/gpu": 1}))) as one:
        client = one.client()
        made = client.template_node(await client.NodeGroupTemplateNodeInfo(id="g"))
        assert made.metadata.labels[names.LABEL_GPU] == "a100-80gb"
        await client.NodeGroupIncreaseSize(id="g", delta=1)
        await one.until(Phase.STARTED)
        await one.run(5)
        assert startup_taints(one) == [[]]


def test_without_cluster_autoscaler_nothing_is_different() -> None:
    policy = Policy(cluster_id="home", pools=(replace(G, resources={MIG: 7}), G))
    assert [pool.waits_by_taint for pool in policy.pools] == [False, False]
    made = Served(world(), policy).driver.shaped(policy)
    assert [pool.waits_by_taint for pool in made.pools] == [True, False]
    assert Served(world(), policy).driver.shaped(replace(policy, pools=(G,))).pools == (G,)
