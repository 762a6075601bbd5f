"""A pod that its machine does not take, whatever the reason, causes one more purchase, and never a third."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.domain.kube import (
    HostPort,
    Node,
    NodeTerm,
    Pod,
    PodTerm,
    PodVolume,
    Requirement,
    Selector,
    Spread,
    Taint,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Machine
from controller.domain.plan import Explanation, Launch, MarkIdle, Retire, Snapshot
from controller.domain.reason import Reason
from controller.planning.planner import plan
from tests.planning.worlds import A1, A2, A4, GIB, NOW, machine, node, offers, pod, policy, pool, world

HOST = "kubernetes.io/hostname"
REPELLED = Selector(labels={"app": "agent"})
LOST = Volume(name="pv", local=True, terms=(NodeTerm((Requirement(HOST, "In", ("gone",)),)),))

# What the pod asks for, and what is the matter with every Node that comes, which nobody foresaw.
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "the scheduler does not say why": ({}, {}, {}),
    "a local volume": ({"volumes": (PodVolume(claim="data"),)}, {}, {}),
    "repelled": (
        {"anti_affinity": (PodTerm(topology_key=HOST, selector=REPELLED),)},
        {},
        {"labels": {"app": "agent"}},
    ),
    "a port": ({"host_ports": (HostPort(9000),)}, {}, {"host_ports": (HostPort(9000),)}),
    "spread": (
        {"labels": {"app": "agent"}, "spreads": (Spread(topology_key=HOST, selector=REPELLED),)},
        {},
        {"labels": {"app": "agent"}},
    ),
    "a hungry daemon": ({"requests": {"cpu": 8000}}, {}, {"requests": {"cpu": 18000}}),
    "hungry pods of others": (
        {"requests": {"cpu": 8000}},
        {},
        {"requests": {"cpu": 18000}, "owner_kind": "ReplicaSet"},
    ),
    "too little memory": ({"requests": {"memory": 60 * GIB}}, {"memory": 50}, {}),
    "a taint": ({}, {"taints": (Taint("broken.example.com", "yes", "NoSchedule"),)}, {}),
    "cordoned": ({}, {"unschedulable": True}, {}),
    "no longer Ready": ({}, {"ready": False}, {}),
    "another zone": ({"node_selector": {"topology.kubernetes.io/zone": "FIN-01"}}, {"zone": "elsewhere"}, {}),
}


class Town:
    """Machines come up at once and without a fault, except that nothing is ever bound to them."""

    def __init__(self, way: str, pods: int, gpus: int, *, leave: bool) -> None:
        wish, self.flaw, self.agent = WAYS[way]
        self.waiting = tuple(pod(f"train-{n}", gpus, **wish) for n in range(pods))
        self.now, self.leave = NOW, leave
        self.machines: dict[str, Machine] = {}
        self.nodes: dict[str, Node] = {}
        self.agents: list[Pod] = []
        self.disappointed: dict[str, tuple[str, ...]] = {}
        self.bought: Counter[str] = Counter()
        self.told: dict[str, Explanation] = {}

    def snapshot(self) -> Snapshot:
        return world(
            now=self.now,
            policy=policy(pool(max=50)),
            offers=offers(A1, A2, A4),
            pods=(*self.waiting, *self.agents),
            nodes=tuple(self.nodes.values()),
            machines=tuple(self.machines.values()),
            disappointed=self.disappointed,
            volumes=(LOST,),
            volume_claims=(VolumeClaim(namespace="default", name="data", phase="Bound", volume="pv"),),
        )

    def step(self) -> None:
        decided = plan(self.snapshot())
        self.told = dict(decided.pods)
        for action in decided.actions:
            if isinstance(action, Launch):
                self._comes(action)
            elif isinstance(action, MarkIdle):
                since = action.since
                text = datetime.fromtimestamp(since or 0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                there = self.nodes[action.machine]
                marks = {"gpu-autoscaler/idle-since": text} if since is not None else {}
                self.nodes[action.machine] = replace(there, annotations=marks)
            elif isinstance(action, Retire) and self.leave:
                self._goes(action.machine)
        self.now += 400

    def _comes(self, launch: Launch) -> None:
        self.bought.update(launch.pods)
        name = f"home-a100-{len(self.bought):05}{sum(self.bought.values()):05}"
        kind = launch.offer.type
        labels = {HOST: name, "gpu-autoscaler/pool": "a100", "topology.kubernetes.io/zone": "FIN-01"}
        flaw = dict(self.flaw)
        if zone := flaw.pop("zone", ""):
            labels["topology.kubernetes.io/zone"] = zone
        memory = flaw.pop("memory", kind.memory_gib - 10)
        self.machines[name] = machine(
            name, kind, pods=launch.pods, intended_at=self.now, ordered_at=self.now, ready_at=self.now + 200
        )
        self.nodes[name] = node(
            name, kind.gpus, cpu=kind.vcpus, memory=memory, labels=labels, created=self.now, **flaw
        )
        if self.agent:
            more = {"owner_kind": "DaemonSet"} | self.agent
            self.agents.append(pod(f"agent-{name}", 0, node=name, **more))

    def _goes(self, name: str) -> None:
        gone = self.machines.pop(name)
        del self.nodes[name]
        self.agents = [one for one in self.agents if one.node != name]
        for one in self.waiting:
            if one.key in gone.pods:
                known = self.disappointed.get(one.identity, ())
                self.disappointed[one.identity] = (*known, name)


@pytest.mark.parametrize("way", WAYS)
def test_a_pod_that_is_never_bound_is_never_bought_a_third_machine_for(way: str) -> None:
    town = Town(way, 1, 1, leave=True)
    for _ in range(12):
        town.step()
    assert 1 <= town.bought["default/train-0"] <= 2
    refused = town.bought["default/train-0"] == 2
    assert town.told["default/train-0"].code is (Reason.PREDICTION_WRONG if refused else Reason.FITS_NOW)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    way=st.sampled_from(sorted(WAYS)),
    pods=st.integers(1, 4),
    gpus=st.sampled_from([1, 2]),
    leave=st.booleans(),
)
def test_no_rule_and_no_number_of_pods_buys_a_third(way: str, pods: int, gpus: int, leave: bool) -> None:
    town = Town(way, pods, gpus, leave=leave)
    for _ in range(10):
        town.step()
    assert max(town.bought.values()) <= 2


def test_a_machine_whose_gpus_others_took_is_not_held_against_its_pod() -> None:
    """It was not in vain: work runs there."""
    names = ("home-a100-aaaaaaaaaa", "home-a100-bbbbbbbbbb")
    snapshot = world(
        pods=(pod(), *(pod(f"other-{name}", node=name) for name in names)),
        machines=tuple(machine(name, pods=("default/train",), intended_at=NOW - 1) for name in names),
        nodes=tuple(node(name) for name in names),
    )
    assert [action for action in plan(snapshot).actions if isinstance(action, Launch)]
