"""What a terminating pod holds beside its GPUs, and frees with them: ports, places apart from others, attachments."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import CsiNode, HostPort, PodTerm, PodVolume, Selector, Volume, VolumeClaim
from controller.domain.machine import Phase
from controller.domain.plan import Launch, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A100S, NOW, machine, node, offers, pod, world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
BYE = NOW + 20
PORT: dict[str, Any] = {"host_ports": (HostPort(80),)}
APP: dict[str, Any] = {"labels": {"app": "x"}}
DRIVER = "csi.example.com"


def apart(key: str = HOST) -> dict[str, Any]:
    return {"anti_affinity": (PodTerm(topology_key=key, selector=Selector(labels={"app": "x"})),)}


def with_volume(name: str) -> dict[str, Any]:
    return {"volumes": (PodVolume(claim=name),)}


def at_home(*pods: Any, gpus: int = 1, **more: Any) -> Snapshot:
    labels = {HOST: "home", ZONE: "home"}
    values: dict[str, Any] = {
        "pods": pods,
        "nodes": (node("home", gpus, labels=labels),),
        "offers": offers(*A100S),
    }
    return world(**(values | more))


def told(snapshot: Snapshot) -> dict[str, Reason]:
    return {key.partition("/")[2]: why.code for key, why in plan(snapshot).pods.items()}


STORED: dict[str, Any] = {
    "csi_nodes": (CsiNode(name="home", limits={DRIVER: 1}),),
    "volume_claims": tuple(
        VolumeClaim(namespace="default", name=name, phase="Bound", volume=f"pv-{name}") for name in "ab"
    ),
    "volumes": tuple(Volume(name=f"pv-{name}", driver=DRIVER) for name in "ab"),
}


@pytest.mark.parametrize(
    ("waiting", "holding", "more"),
    [
        pytest.param(PORT, PORT, {}, id="a host port"),
        pytest.param(APP | apart(), APP, {}, id="it would not be beside the other"),
        pytest.param(APP, apart(), {}, id="the other would not have it beside itself"),
        pytest.param(APP | apart(), APP | apart(), {}, id="neither would be beside the other"),
        pytest.param(APP | apart(ZONE), APP | apart(ZONE), {}, id="nor in the same location"),
        pytest.param(with_volume("a"), with_volume("b"), STORED, id="the only attachment"),
    ],
)
@pytest.mark.parametrize("gpus", [1, 2])
def test_what_replaces_a_terminating_pod_waits_for_its_place(
    waiting: dict[str, Any], holding: dict[str, Any], more: dict[str, Any], gpus: int
) -> None:
    new, old = pod("new", **waiting), pod("old", node="home", deleting_at=BYE, **holding)
    assert told(at_home(new, old, gpus=gpus, **more)) == {"new": Reason.GPUS_FREED_SOON}
    stays = pod("old", node="home", **holding)
    assert told(at_home(new, stays, gpus=gpus, **more)) == {"new": Reason.LAUNCHING}
    stuck = pod("old", node="home", deleting_at=NOW - 60, **holding)
    assert told(at_home(new, stuck, gpus=gpus, **more)) == {"new": Reason.LAUNCHING}


@pytest.mark.parametrize("rules", [PORT, APP | apart(), APP | apart(ZONE)])
def test_a_place_that_is_freed_once_is_not_given_to_two_pods(rules: dict[str, Any]) -> None:
    old = pod("old", node="home", deleting_at=BYE, **rules)
    found = told(at_home(pod("a", **rules), pod("b", **rules), old, gpus=4))
    assert found == {"a": Reason.GPUS_FREED_SOON, "b": Reason.LAUNCHING}


@pytest.mark.parametrize("rules", [PORT, APP | apart()])
def test_a_place_is_not_free_while_one_that_stays_holds_it_too(rules: dict[str, Any]) -> None:
    """As pods do that were bound before the rule was there, or on another address."""
    old = pod("old", node="home", deleting_at=BYE, **rules)
    stays = pod("stays", 0, node="home", **(rules | {"host_ports": (HostPort(80, ip="10.0.0.1"),)}))
    assert told(at_home(pod("new", **rules), old, stays, gpus=4)) == {"new": Reason.LAUNCHING}


@pytest.mark.parametrize("rules", [PORT, APP | apart()])
def test_a_place_is_held_until_it_is_free_however_often_it_is_planned_with(rules: dict[str, Any]) -> None:
    """Whether the promised pod had better stay with its machine is found out by placing all of them once more."""
    coming = machine(phase=Phase.BOOTING, pods=("default/promised",))
    old = pod("old", node="home", deleting_at=BYE, **rules)
    pods = (pod("new", **rules), old, pod("promised"), pod("picky", node_selector={ZONE: "home"}))
    assert told(at_home(*pods, gpus=2, machines=(coming,))) == {
        "new": Reason.GPUS_FREED_SOON,
        "promised": Reason.ON_THE_WAY,
        "picky": Reason.GPUS_FREED_SOON,
    }


def test_a_pod_that_is_to_be_near_a_terminating_one_is_no_reason_to_buy() -> None:
    near = {"affinity": (PodTerm(topology_key=HOST, selector=Selector(labels={"app": "x"})),)}
    old = pod("old", node="home", deleting_at=BYE, **APP)
    snapshot = at_home(pod("new", **near), old)
    assert told(snapshot) == {"new": Reason.GPUS_FREED_SOON}
    assert not any(isinstance(action, Launch) for action in plan(snapshot).actions)
