"""Nodes that the real scheduler allows, where that is not what one would think: found by comparing with it."""

from __future__ import annotations

import pytest

from controller.domain.kube import (
    Namespace,
    NodeTerm,
    PodVolume,
    Requirement,
    Selector,
    Spread,
    StorageClass,
    Volume,
    VolumeClaim,
)
from controller.planning.feasible import feasible_nodes
from tests.planning.worlds import node, pod, world

HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        (Selector({"app": "x"}), ("b",)),
        (Selector(), ("a", "b")),  # counts nobody
        (None, ("a", "b")),
    ],
)
def test_an_empty_selector_spreads_over_nobody(selector: Selector | None, found: tuple[str, ...]) -> None:
    there = pod("there", 0, node="a", labels={"app": "x"})
    spread = Spread(topology_key=HOST, selector=selector)
    new = pod("new", 0, labels={"app": "x"}, spreads=(spread,))
    nodes = (node("a"), node("b"))
    spaces = (Namespace(name="default"),)
    assert feasible_nodes(world(pods=(there, new), nodes=nodes, namespaces=spaces), new) == found


@pytest.mark.parametrize(
    ("labels", "kept_for", "found"),
    [({}, "", ()), ({"disk": "fast"}, "", ("a",)), ({}, "default/data", ("a",))],
)
def test_a_claim_takes_a_volume_that_it_selects_or_that_is_kept_for_it(
    labels: dict[str, str], kept_for: str, found: tuple[str, ...]
) -> None:
    claim = VolumeClaim(
        namespace="default", name="data", storage_class="by-hand", selector=Selector({"disk": "fast"})
    )
    volume = Volume(name="v", storage_class="by-hand", phase="Available", labels=labels, claim=kept_for)
    kind = StorageClass(name="by-hand", provisioner="kubernetes.io/no-provisioner", waits_for_consumer=True)
    new = pod("new", 0, volumes=(PodVolume(claim="data"),))
    there = world(
        pods=(new,), nodes=(node("a"),), volume_claims=(claim,), volumes=(volume,), storage_classes=(kind,)
    )
    assert feasible_nodes(there, new) == found


@pytest.mark.parametrize(
    ("name", "labels", "fits"),
    [
        ("now", {"topology.kubernetes.io/zone": "za"}, True),
        ("elsewhere", {"topology.kubernetes.io/zone": "zb"}, False),
        ("old", {"failure-domain.beta.kubernetes.io/zone": "za"}, True),
        (
            "both",
            {"failure-domain.beta.kubernetes.io/zone": "zb", "topology.kubernetes.io/zone": "za"},
            False,
        ),
        ("region", {"topology.kubernetes.io/region": "za"}, False),
        ("none", {}, True),
    ],
)
def test_a_volume_with_a_zone_label_of_long_ago_is_at_the_nodes_of_that_zone(
    name: str, labels: dict[str, str], fits: bool
) -> None:
    claim = VolumeClaim(namespace="default", name="data", phase="Bound", volume="v")
    volume = Volume(name="v", labels={"failure-domain.beta.kubernetes.io/zone": "za"})
    new = pod("new", 0, volumes=(PodVolume(claim="data"),))
    there = world(pods=(new,), nodes=(node(name, labels=labels),), volume_claims=(claim,), volumes=(volume,))
    assert feasible_nodes(there, new) == ((name,) if fits else ())


@pytest.mark.parametrize(
    ("created", "found"), [((1.0, 2.0), ("b",)), ((2.0, 1.0), ("a",)), ((1.0, 1.0), ("a",))]
)
def test_of_several_default_classes_the_newest_counts_and_then_the_first_by_name(
    created: tuple[float, float], found: tuple[str, ...]
) -> None:
    """A claim that names none gets it from the control plane within a moment."""
    classes = tuple(
        StorageClass(
            name=f"class-{where}",
            provisioner="disk.example.com",
            waits_for_consumer=True,
            default=True,
            created=since,
            allowed=(NodeTerm((Requirement(HOST, "In", (where,)),)),),
        )
        for where, since in zip("ab", created, strict=True)
    )
    new = pod("new", 0, volumes=(PodVolume(claim="data"),))
    there = world(
        pods=(new,),
        nodes=(node("a"), node("b")),
        volume_claims=(VolumeClaim(namespace="default", name="data"),),
        storage_classes=classes,
    )
    assert feasible_nodes(there, new) == found
