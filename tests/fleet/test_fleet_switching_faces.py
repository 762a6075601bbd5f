"""What of a switched machine's Node is planned with while the machine is off."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from controller.domain.kube import Taint
from controller.domain.policy import Policy, Pool
from controller.domain.switching import Face, Power
from controller.fleet.switching.faces import face_of
from controller.planning.own import offered
from tests.fleet.fakes import make_node
from tests.fleet.power import Cabinet, switch


@pytest.mark.parametrize(
    ("key", "stays"),
    [
        ("nvidia.com/gpu", True),
        ("startup.example.com/driver", True),
        ("gpu-autoscaler/draining", False),
        ("node.kubernetes.io/unreachable", False),
        ("node.cloudprovider.kubernetes.io/uninitialized", False),
        ("ToBeDeletedByClusterAutoscaler", False),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/x", False),
        ("startup-taint.cluster-autoscaler.kubernetes.io/driver", False),
        ("status-taint.cluster-autoscaler.kubernetes.io/rebooting", False),
    ],
)
def test_taints_that_come_and_go_keep_no_pod_off_a_machine_that_is_off(key: str, stays: bool) -> None:
    node = make_node("w1", 0.0, taints=(Taint(key, "", "NoSchedule"),))
    assert [taint.key for taint in face_of(node, {}).taints] == [key] * stays


@pytest.mark.parametrize("delete_node", [False, True])
@pytest.mark.parametrize(("before", "after", "asks"), [(4, 8, 8), (8, 4, 4)])
async def test_gpus_that_were_put_in_or_taken_out_count_as_soon_as_the_settings_say_so(
    before: int, after: int, asks: int, delete_node: bool
) -> None:
    world = Cabinet(switch("w1", before, delete_node=delete_node))
    box = world.room.add("w1", before)
    operator = world.begin()
    await world.run(operator, 30)
    world.town.work = 30
    world.town.add_pod("small", gpus=1)
    await world.wait_for(operator, "w1", Power.ON)
    await world.wait_for(operator, "w1", Power.OFF)
    box.gpus = after
    operator.fleet.policy = world.policy = replace(
        world.policy, switches=(switch("w1", after, delete_node=delete_node),)
    )
    if after < before:
        world.town.add_pod("too large", gpus=before)
        await world.run(operator, 1200)
        assert len(world.room.wishes(True)) == 1
        del world.town.pods["default/too large"]
    world.town.add_pod("large", gpus=asks)
    await world.run(operator, 1200)
    assert "default/large" not in world.town.pods, operator.plan.pods
    assert operator.record("w1").face is not None


def test_a_face_of_before_the_promise_was_remembered_is_believed() -> None:
    """Records outlive the program that wrote them."""
    face = msgspec.json.decode(b'{"labels": {}, "allocatable": {"nvidia.com/gpu": 4, "cpu": 1}}', type=Face)
    assert offered(Policy(cluster_id="home"), Pool(name="w1", max=1), 8, face, None)["nvidia.com/gpu"] == 4
