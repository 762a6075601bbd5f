"""Work whose machine vanishes under it.

A file of its own, because the cluster's garbage collector takes up to a minute to notice that a Node is gone.
"""

from __future__ import annotations

import pytest

from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ENDLESS
from tests.e2e.controlplane.scene import Scene, container, pool, running, until


@pytest.mark.long
def test_work_on_machines_that_vanish_is_planned_again(scene: Scene, kubelets: Kubelets) -> None:
    """A Job's on a spot machine that is taken away, a ReplicaSet's on one that is deleted in the console.

    Their controllers make new pods when the cluster's own garbage collector has noticed that the Nodes
    are gone, which takes it up to a minute.
    """
    spot = {**pool(market="spot_only")["pools"][0], "name": "spot"}
    pools = {"pools": [spot, pool()["pools"][0]]}
    with running(scene.controller(pools | {"scale_down": {"cooldown": "60s"}})):
        meta = {"annotations": {ENDLESS: "true"}}
        scene.job("train", container(1), meta=meta, nodeSelector={"gpu-autoscaler/pool": "spot"})
        scene.replicas("serve", container(1), nodeSelector={"gpu-autoscaler/pool": "a100"})

        def at_work(owner: str) -> str:
            """The node on which its one pod runs."""
            return next(
                (p.spec.node_name for p in scene.pods_made_by(owner) if p.status.phase == "Running"), ""
            )

        until("both run", lambda: at_work("train") and at_work("serve"))
        before = {owner: at_work(owner) for owner in ("train", "serve")}
        scene.tell_cloud("POST", "evict", {"hostname": before["train"]})
        scene.delete_in_console(before["serve"])
        until("both Nodes are gone", lambda: not set(before.values()) & set(scene.nodes()))
        assert scene.state()["creates"] == 2
        for owner in ("train", "serve"):
            until(
                f"{owner} runs elsewhere", lambda owner=owner: at_work(owner) not in ("", before[owner]), 90
            )
        state = scene.state()
        assert (state["creates"], len(state["instances"]), len(state["volumes"])) == (4, 2, 2)
