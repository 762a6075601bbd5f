"""Nodes that the real scheduler allows, where that is not what one would think: found by comparing with it."""

from __future__ import annotations

import pytest

from controller.domain.kube import Namespace, PodVolume, Selector, Spread, StorageClass, Volume, VolumeClaim
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
