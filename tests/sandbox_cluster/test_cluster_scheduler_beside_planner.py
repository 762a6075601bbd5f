"""The sandbox's scheduler beside the planner, over the random worlds in which the planner is held to the real scheduler.

All in memory: the worlds are made through the sandbox's own API, and both are asked for the nodes that take a pod.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from controller.sandbox.cluster.resources import BY_NAME
from tests.e2e.controlplane.differential import draw, oracle
from tests.e2e.controlplane.differential.worlds import (
    FAILED,
    FINISHED,
    NAMESPACES,
    TERMINATING,
    World,
    collection,
    path,
    state,
)  # fmt: skip

from .town import Town

GROUPS = {"storageclasses": "storage.k8s.io", "csinodes": "storage.k8s.io"}
KINDS = (
    "namespaces", "nodes", "pods", "persistentvolumes", "persistentvolumeclaims", "storageclasses", "csinodes"
)  # fmt: skip
PODS = int(os.environ.get("BESIDE_PODS", "60"))
Json = dict[str, Any]


def make(town: Town, manifest: Json) -> None:
    town.post(collection(manifest), manifest)
    what = state(manifest)
    if what == TERMINATING:
        town.ask("DELETE", f"{path(manifest)}?gracePeriodSeconds=3600")
    elif what in (FINISHED, FAILED):
        phase = "Succeeded" if what == FINISHED else "Failed"
        town.patch(f"{path(manifest)}/status", {"status": {"phase": phase}})


def furnished(world: World) -> Town:
    town = Town(adopt_nodes=False)
    for name, labels in NAMESPACES.items():
        town.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    for each in world.everything():
        make(town, each)
    town.run()
    return town


def known(pod: Json) -> Json:
    """Without tolerations that compare numbers, which the sandbox's API refuses as that of a usual cluster does."""
    spec = dict(pod["spec"])
    if "tolerations" in spec:
        spec["tolerations"] = [t for t in spec["tolerations"] if t.get("operator") not in ("Gt", "Lt")]
    return {**pod, "spec": spec}


@pytest.mark.parametrize("seed", ["a", "b", "c", "d"])
def test_it_passes_the_nodes_that_the_planner_finds(seed: str) -> None:
    there = draw.world(f"beside-{seed}")
    town, store = furnished(there), None
    store = town.world.store
    different, some = [], 0
    for number in range(PODS):
        case = draw.case(f"beside-{seed}", number, there)
        answer = town.ask("POST", f"{collection(case.pod)}?dryRun=All", known(case.pod))
        if answer.status >= 300:
            continue
        for each in case.objects:
            make(town, each)
        town.run()
        pod = answer.json()
        passed = town.world.scheduler.fitting(pod)
        listed = {kind: store.every(BY_NAME[GROUPS.get(kind, ""), kind]) for kind in KINDS}
        found = oracle.expected(listed, pod)
        some += bool(found)
        if passed != found:
            different.append((number, sorted(passed - found), sorted(found - passed), pod["spec"]))
    assert not different, "\n".join(map(str, different[:3]))
    assert some > PODS / 5
