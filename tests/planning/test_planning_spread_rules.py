"""The finer words of a hard spread, row by row: which of two nodes may take the pod."""

from __future__ import annotations

from typing import Any

import pytest

from controller.domain.kube import Node, Pod, Requirement, Selector, Spread, Taint, Toleration
from controller.domain.kube import NodeTerm as Term
from controller.planning.feasible import feasible_nodes
from tests.planning.worlds import node, pod, world

ZONE = "topology.kubernetes.io/zone"
APP = {"app": "web"}
CORDON = "node.kubernetes.io/unschedulable"


def zoned(name: str, zone: str, **more: Any) -> Node:
    return node(name, labels={"kubernetes.io/hostname": name, ZONE: zone, **more.pop("labels", {})}, **more)


def running(name: str, on: str, **labels: str) -> Pod:
    return pod(name, 0, node=on, labels=APP | labels)


def fits(*there: Pod, nodes: tuple[Node, ...] = (), asked: dict[str, Any] | None = None, **rule: Any) -> Any:
    """Of the nodes a (zone A), b and whatever else: those for one more pod of the app."""
    spread = Spread(topology_key=ZONE, selector=Selector(labels=APP), **rule)
    wanted = pod("new", 0, **({"labels": APP} | (asked or {})), spreads=(spread,))
    snapshot = world(nodes=(zoned("a", "A"), zoned("b", "B"), *nodes), pods=there)
    return feasible_nodes(snapshot, wanted)


V1 = {"labels": APP | {"version": "1"}}


@pytest.mark.parametrize(
    ("rule", "asked", "nodes", "there", "found"),
    [
        ({}, {}, (), ("a",), ("b",)),
        ({"max_skew": 2}, {}, (), ("a",), ("a", "b")),
        # Two zones are fewer than asked for, so nothing counts as the least.
        ({"min_domains": 3}, {}, (), (), ("a", "b")),
        ({"min_domains": 3}, {}, (), ("a",), ("b",)),
        ({"min_domains": 3}, {}, (), ("a", "b"), ()),
        ({"min_domains": 2}, {}, (), ("a", "b"), ("a", "b")),
        # Pods of another version count only without matchLabelKeys.
        ({}, V1, (), ("a",), ("b",)),
        ({"match_label_keys": ("version",)}, V1, (), ("a",), ("a", "b")),
        ({"match_label_keys": ("absent",)}, V1, (), ("a",), ("b",)),
        # An empty zone that the pod may not go to: does it hold the others back?
        ({}, {"node_selector": {"x": "y"}}, (zoned("c", "C", labels={"x": "y"}),), ("a",), ("c",)),
        ({"honors_affinity": False}, {"node_selector": {"x": "y"}}, (zoned("c", "C", labels={"x": "y"}),), ("c",), ()),
        ({"honors_affinity": True}, {"node_selector": {"x": "y"}}, (zoned("c", "C", labels={"x": "y"}),), ("c",), ("c",)),
        ({}, {}, (zoned("c", "C", taints=(Taint("t"),)),), ("a", "b"), ()),
        ({"honors_taints": True}, {}, (zoned("c", "C", taints=(Taint("t"),)),), ("a", "b"), ("a", "b")),
        ({"honors_taints": True}, {"tolerations": (Toleration("t", "Exists"),)}, (zoned("c", "C", taints=(Taint("t"),)),), ("a", "b"), ("c",)),
        # A cordoned node takes none; its zone counts as long as it does not bear the taint of that, too.
        ({"honors_taints": True}, {}, (zoned("c", "C", unschedulable=True),), ("a", "b"), ()),
        ({"honors_taints": True}, {}, (zoned("c", "C", unschedulable=True, taints=(Taint(CORDON),)),), ("a", "b"), ("a", "b")),
        ({}, {"tolerations": (Toleration(CORDON, "Exists"),)}, (zoned("c", "C", unschedulable=True),), ("a", "b"), ("c",)),
        ({}, {"required_terms": (Term((Requirement(ZONE, "NotIn", ("C",)),)),)}, (zoned("c", "C"),), ("a", "b"), ("a", "b")),
    ],
)  # fmt: skip
def test_skew_min_domains_policies_and_label_keys(
    rule: dict[str, Any],
    asked: dict[str, Any],
    nodes: tuple[Node, ...],
    there: tuple[str, ...],
    found: tuple[str, ...],
) -> None:
    pods = tuple(running(f"r{n}", on) for n, on in enumerate(there))
    assert fits(*pods, nodes=nodes, asked=asked, **rule) == found
