"""What a Node lacks that its script should have set: added while it starts, and never again."""

from __future__ import annotations

from typing import Any

from controller.cluster.protocol import ClusterError
from controller.domain.kube import Node, Taint
from controller.domain.machine import Machine, Phase
from controller.domain.policy import Policy, Pool
from controller.fleet.dressing import lacks
from tests.fleet.fakes import make_node
from tests.fleet.scene import World

POOL = Pool(
    name="a100",
    max=2,
    labels={"node-role.kubernetes.io/gpu": "true", "team": "ml"},
    taints=(Taint(key="gpu-node"),),
)
POLICY = Policy(cluster_id="home", pools=(POOL,))


def machine(phase: Phase = Phase.JOINED, **more: Any) -> Machine:
    values: dict[str, Any] = {
        "intent": "aaaaaaaaaa", "name": "home-a100-aaaaaaaaaa", "pool": "a100", "instance_type": "1A100.22V",
        "location": "FIN-01", "market": "spot", "model": "A100 80GB", "gpus": 1,
    }  # fmt: skip
    return Machine(phase=phase, **(values | more))


def node(**more: Any) -> Node:
    return Node(name="home-a100-aaaaaaaaaa", uid="n", **more)


def test_a_node_whose_script_set_nothing_gets_all_labels_and_taints() -> None:
    labels, taints = lacks(POLICY, machine(), node())
    assert labels["node-role.kubernetes.io/gpu"] == "true"
    assert labels["gpu-autoscaler/market"] == "spot"
    assert labels["gpu-autoscaler/gpu"] == "a100-80gb"
    assert taints == (Taint(key="gpu-node"),)


def test_what_is_there_is_not_changed() -> None:
    labels, _ = lacks(
        POLICY, machine(), node(labels={"team": "mine", "topology.kubernetes.io/zone": "verda"})
    )
    assert "team" not in labels
    assert "topology.kubernetes.io/zone" not in labels


def test_a_ready_machine_is_dressed_once_and_not_again() -> None:
    assert lacks(POLICY, machine(Phase.READY), node())[0]
    assert lacks(POLICY, machine(Phase.READY), node(labels={"gpu-autoscaler/machine": "x"})) == ({}, ())


def test_running_work_is_never_met_by_a_new_taint() -> None:
    assert lacks(POLICY, machine(Phase.READY), node())[1] == ()
    assert lacks(POLICY, machine(adopted=True), node())[1] == ()


def test_a_machine_of_an_unknown_pool_is_left_as_it_is() -> None:
    assert lacks(POLICY, machine(pool="gone"), node()) == ({}, ())


async def test_while_its_labels_cannot_be_written_a_machine_is_still_the_one_for_the_pod_that_selects_by_them() -> (
    None
):
    world = World()
    controller = world.start()
    controller.hands.faults["label"] = [ClusterError("unreachable", "away")] * 6
    world.town.add_pod(node_selector={"gpu-autoscaler/pool": "a100"})
    world.town.work = 1e9
    await world.run(controller, 600)
    assert not controller.hands.faults["label"]
    assert [pod.node for pod in world.town.pods.values()] == [controller.only.name]
    assert len(world.account.orders) == 1


async def test_a_pool_that_is_taken_out_closes_its_machines_and_opens_them_when_it_is_back() -> None:
    world = World(cooldown=1e9)
    controller = world.start()
    world.town.add_pod()
    world.town.work = 1e9
    await world.run(controller, 120)
    name = controller.only.name
    before = controller.fleet.policy
    controller.fleet.policy = Policy(
        cluster_id="home", deadlines=before.deadlines, pools=(Pool(name="other", max=0),)
    )
    await world.run(controller, 60)
    assert world.town.nodes[name].has_taint("gpu-autoscaler/draining", "NoSchedule")
    assert [pod.node for pod in world.town.pods.values()] == [name]
    controller.fleet.policy = before
    await world.run(controller, 60)
    assert not world.town.nodes[name].has_taint("gpu-autoscaler/draining", "NoSchedule")
    assert len(world.account.orders) == 1


def test_the_fakes_of_these_tests_make_nodes_without_our_labels() -> None:
    assert "gpu-autoscaler/machine" not in make_node("a", 0.0).labels
