"""What others put on the Node of a switched machine while it is off or boots, and what they have not put there yet."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controller.domain.kube import Taint
from controller.domain.switching import Power
from tests.fleet.power import Cabinet, Operator, switch
from tests.fleet.scene import POOL

# Calico at a clean shutdown, a cloud controller, an operator whose agent is away, who starts Nodes.
PASSING = (
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.cilium.io/agent-not-ready",
    "ebs.csi.aws.com/agent-not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/agent",
)
PRODUCT = {"nvidia.com/gpu.product": "A100"}


def put(world: Cabinet, *keys: str) -> None:
    node = world.town.nodes["w1"]
    taints = tuple(Taint(key=key, effect="NoSchedule") for key in keys)
    world.town.nodes["w1"] = replace(node, taints=node.taints + taints)


async def once_on(*names: str, gpus: int = 1, **of_policy: Any) -> tuple[Cabinet, Operator]:
    """w1 was of use, and went off."""
    world = Cabinet(*(switch(name, gpus) for name in names), **of_policy)
    for name in names:
        world.room.add(name, gpus, power="on" if name == "w1" else "off")
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 700)
    world.town.work = 1e6
    return world, operator


@pytest.mark.parametrize("key", PASSING)
@pytest.mark.parametrize("start", ["off", "on"])
async def test_a_taint_that_goes_by_itself_keeps_no_machine_off(key: str, start: str) -> None:
    world = Cabinet(switch("w1", 1))
    world.room.add("w1", 1, power=start)
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 700)
    put(world, key)
    world.town.add_pod("train")
    await world.run(operator, 60)
    assert len(world.room.wishes(True)) == 1, operator.plan.pods


@pytest.mark.parametrize("key", ["example.com/broken", "node.kubernetes.io/out-of-service"])
async def test_a_taint_that_a_person_puts_on_the_node_holds_the_machine_until_it_is_gone(key: str) -> None:
    world, operator = await once_on("w1")
    put(world, key)
    world.town.add_pod("train")
    await world.run(operator, 600)
    assert not world.room.wishes(True)
    node = world.town.nodes["w1"]
    world.town.nodes["w1"] = replace(node, taints=tuple(t for t in node.taints if t.key != key))
    await world.run(operator, 60)
    assert len(world.room.wishes(True)) == 1


@pytest.mark.parametrize("bought", [False, True])
@pytest.mark.parametrize("key", [*PASSING, "example.com/starting"])
async def test_a_taint_that_comes_while_it_boots_makes_no_second_machine_of_it(
    key: str, bought: bool
) -> None:
    names = ("w1",) if bought else ("w1", "w2")
    world, operator = await once_on(*names, gpus=2, pools=(POOL,) if bought else ())
    pod = world.town.add_pod("train")
    await world.run(operator, 30)
    assert operator.power("w1") is Power.RISING
    put(world, key)
    await world.run(operator, 10)
    del world.town.pods[pod.key]
    world.town.add_pod("again")
    world.town.add_pod("beside")
    await world.run(operator, 10)
    assert len(world.room.wishes(True)) == 1
    assert not world.account.orders


async def test_one_that_somebody_else_switches_on_is_waited_for_though_its_network_agent_is_away() -> None:
    world = Cabinet(switch("w1", 1), switch("w2", 1))
    world.room.add("w1", 1, show=60.0)
    world.room.add("w2", 1)
    operator = world.begin()
    await world.run(operator, 30)
    world.room.press("w1", True)
    await world.run(operator, 65)
    put(world, "node.cilium.io/agent-not-ready")
    world.town.add_pod("train")
    await world.run(operator, 30)
    assert not world.room.wishes(True), operator.plan.pods


@pytest.mark.parametrize("known", ["remembered", "from the settings"])
@pytest.mark.parametrize("pods", ["a second one", "the same, made anew"])
async def test_a_young_node_is_taken_to_get_the_labels_that_it_has_not_got_yet(known: str, pods: str) -> None:
    seen = known == "remembered"
    mine = switch("w1", 2, delete_node=True) if seen else switch("w1", 2, labels=PRODUCT)
    world = Cabinet(mine, switch("w2", 2, labels=PRODUCT))
    world.room.add("w1", 2, power="on" if seen else "off", node=seen, show=60.0)
    world.room.add("w2", 2, node=False)
    if seen:
        node = world.town.nodes["w1"]
        world.town.nodes["w1"] = replace(node, labels={**node.labels, **PRODUCT})
    operator = world.begin()
    await world.wait_for(operator, "w1", Power.OFF)
    await world.run(operator, 700)
    world.town.work = 1e6
    pod = world.town.add_pod("train", node_selector=PRODUCT)
    await world.run(operator, 80)
    assert operator.power("w1") is Power.RISING
    assert world.town.nodes["w1"].ready
    if pods != "a second one":
        del world.town.pods[pod.key]
    world.town.add_pod("other", node_selector=PRODUCT)
    await world.run(operator, 15)
    assert len(world.room.wishes(True)) == 1, operator.plan.pods
