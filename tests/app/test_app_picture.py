"""What of the world is looked at: no more than the decision needs, and no less."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from controller.app import picture
from controller.domain.kube import (
    CsiNode,
    Node,
    NodeTerm,
    Pod,
    PodTerm,
    PodVolume,
    Requirement,
    Selector,
    Spread,
    Volume,
    VolumeClaim,
)
from controller.domain.machine import Phase
from controller.domain.plan import Snapshot
from controller.domain.policy import DefaultSpread, Limits
from controller.fleet.failures import Failures
from tests.planning.worlds import NOW, machine, node, pod, policy

NAME = "home-a100-aaaaaaaaaa"


class View:
    def __init__(self, nodes: list[Node], pods: list[Pod]) -> None:
        self._nodes, self._pods = nodes, pods

    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._nodes)

    def waiting_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods if not pod.node)

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods if pod.node == node)

    def daemonsets(self) -> tuple[()]:
        return ()

    jobs = budgets = namespaces = persistent_volumes = storage_classes = csi_nodes = daemonsets
    limit_ranges = pod_groups = device_claims = device_classes = unreadable = daemonsets

    def volume_claims(self) -> tuple[VolumeClaim, ...]:
        return (
            VolumeClaim(namespace="default", name="shared", access_modes=("ReadWriteOnce",)),
            VolumeClaim(namespace="default", name="single", access_modes=("ReadWriteOncePod",)),
        )

    def guarded_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self._pods if pod.node and pod.shape.anti_affinity)


def scene(pods: list[Pod], phase: Phase = Phase.READY) -> tuple[Any, Any]:
    nodes = [node(NAME), node("cpu", 0), node("gpu", 1)]
    ledger = SimpleNamespace(
        figures={},
        failures=Failures(lambda: None),
        launches=[],
        spent_in_month=lambda now: Decimal(7),
    )
    fleet: Any = SimpleNamespace(
        node_as_marked=lambda node: node,
        everything=lambda: (machine(NAME, phase=phase),),
        second_machines=lambda: (),
        switchboard=None,
        catalogue=SimpleNamespace(offers=()),
        active_refusals=lambda: (),
        scripts_free=lambda: None,
        ledger=ledger,
    )
    view: Any = View(nodes, [*pods, pod("far", 0, node="cpu")])
    return view, fleet


def taken(pods: list[Pod], phase: Phase = Phase.READY, **more: Any) -> Snapshot:
    view, fleet = scene(pods, phase)
    return picture.take(policy(**more), view, fleet, NOW)


def seen(pods: list[Pod], phase: Phase = Phase.READY, **more: Any) -> list[str]:
    return [found.name for found in taken(pods, phase, **more).nodes]


@pytest.mark.parametrize(
    ("pods", "phase", "all_nodes"),
    [
        ([], Phase.READY, False),
        ([pod("web", 0, node=NAME)], Phase.READY, True),
        ([pod("web", 0, node=NAME)], Phase.DRAINING, True),
        ([pod("web", 0, node=NAME)], Phase.STARTED, False),
        ([pod("web", 0, node=NAME), pod("train", node=NAME)], Phase.READY, False),
        ([pod("exporter", 0, node=NAME, owner_kind="DaemonSet")], Phase.READY, False),
    ],
)
def test_nodes_without_gpus_are_looked_at_only_while_pods_may_have_to_move_there(
    pods: list[Pod], phase: Phase, all_nodes: bool
) -> None:
    assert seen(pods, phase) == (["cpu", "gpu", NAME] if all_nodes else ["gpu", NAME])


BY_APP = PodTerm(topology_key="zone", selector=Selector({"app": "a"}))
A = {"app": "a"}


@pytest.mark.parametrize(
    ("pods", "all_nodes"),
    [
        ([pod("plain", labels=A)], False),
        ([pod("near", affinity=(BY_APP,))], True),
        ([pod("far-off", anti_affinity=(BY_APP,))], True),
        ([pod("spread", spreads=(Spread(topology_key="zone"),))], True),
        ([pod("spread", spreads=(Spread(topology_key="zone", hard=False),))], False),
        ([pod("data", volumes=(PodVolume(claim="shared"),))], False),
        ([pod("data", volumes=(PodVolume(claim="single"),))], True),
        ([pod("web", 0, affinity=(BY_APP,))], False),
        ([pod("train", labels=A), pod("guard", 0, node="cpu", anti_affinity=(BY_APP,))], True),
        ([pod("train"), pod("guard", 0, node="cpu", anti_affinity=(BY_APP,))], False),
        ([pod("web", 0, labels=A), pod("guard", 0, node="cpu", anti_affinity=(BY_APP,))], False),
    ],
)
def test_nodes_without_gpus_are_looked_at_where_their_pods_have_a_say(
    pods: list[Pod], all_nodes: bool
) -> None:
    assert seen(pods) == (["cpu", "gpu", NAME] if all_nodes else ["gpu", NAME])


def test_of_storage_only_what_the_pods_use_is_taken() -> None:
    pods = [
        pod("a", volumes=(PodVolume(claim="c"), PodVolume(name="scratch", ephemeral=True))),
        pod("b", node="gpu", volumes=(PodVolume(claim="d"),)),
    ]
    view, fleet = scene(pods)
    view.volume_claims = lambda: tuple(
        VolumeClaim(namespace="default", name=name, volume=volume)
        for name, volume in (("d", "pv-d"), ("c", ""), ("a-scratch", ""), ("other", "pv-o"))
    )
    view.persistent_volumes = lambda: (
        Volume(name="pv-o", claim="default/other"),
        Volume(name="pv-free"),
        Volume(name="pv-d", claim="default/d"),
        Volume(name="pv-for-c", claim="default/c"),
    )
    view.csi_nodes = lambda: (CsiNode(name="gpu"), CsiNode(name="gone"))
    found = picture.take(policy(), view, fleet, NOW)
    assert [claim.name for claim in found.volume_claims] == ["a-scratch", "c", "d"]
    assert [volume.name for volume in found.volumes] == ["pv-d", "pv-for-c", "pv-free"]
    assert [node.name for node in found.csi_nodes] == ["gpu"]


def test_the_host_of_a_waiting_pods_disk_is_looked_at_or_it_would_seem_to_be_gone() -> None:
    view, fleet = scene([pod("a", volumes=(PodVolume(claim="c"),))])
    on_cpu = NodeTerm((Requirement("kubernetes.io/hostname", "In", ("cpu",)),))
    disk = Volume(name="disk", claim="default/c", local=True, terms=(on_cpu,))
    view.persistent_volumes = lambda: (disk,)
    assert [node.name for node in picture.take(policy(), view, fleet, NOW).nodes] == ["cpu", "gpu", NAME]
    view.persistent_volumes = lambda: (replace(disk, claim="default/other"),)
    assert [node.name for node in picture.take(policy(), view, fleet, NOW).nodes] == ["gpu", NAME]


def test_all_nodes_are_looked_at_where_limits_count_them() -> None:
    assert seen([], limits=Limits(cluster_wide=True)) == ["cpu", "gpu", NAME]


@pytest.mark.parametrize(("hard", "all_nodes"), [(True, True), (False, False)])
def test_nodes_without_gpus_are_looked_at_where_the_clusters_own_spreading_holds(
    hard: bool, all_nodes: bool
) -> None:
    found = seen([], default_spreads=(DefaultSpread(topology_key="zone", hard=hard),))
    assert found == (["cpu", "gpu", NAME] if all_nodes else ["gpu", NAME])


def test_members_of_a_gang_are_looked_at_wherever_they_run() -> None:
    member = pod("train", annotations={"gpu-autoscaler/gang": "llm", "gpu-autoscaler/gang-size": "2"})
    assert seen([member]) == ["cpu", "gpu", NAME]


def test_what_was_spent_this_month_is_what_the_ledger_has_booked() -> None:
    assert taken([]).spent_this_month == Decimal(7)
