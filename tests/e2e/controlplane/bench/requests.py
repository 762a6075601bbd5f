"""What one machine costs the API server: every request of the controller from the pod to the last trace.

One machine alone, so that nothing is shared with another; the times are the product's own except for the
cooldown, in which nothing happens but what the background row tells.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from tests.e2e.controlplane.bench.audit import Asked, asked
from tests.e2e.controlplane.bench.latency import POOL
from tests.e2e.controlplane.bench.rows import Row
from tests.e2e.controlplane.bench.stage import Controller, Stage, say
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import NAMESPACE, runs, until

SETTINGS: dict[str, Any] = {"pools": [POOL], "scale_down": {"cooldown": "15s"}}
ABOUT = (
    "One machine alone, from the pod that needs it to the last trace of it. Settings are the defaults except for "
    "`scale_down.cooldown: 15s`; the cloud's machines boot at once."
)
MOST = 40.0


# Read every 15 seconds whether there are machines or not, for the annotations that people write there.
POLLED = ("get configmaps status", "get deployments")


def measure(stage: Stage) -> list[Row]:
    say("requests: one machine from the pod that needs it to the last trace of it")
    with (
        stage.scene(speed=200, rate_limits=False) as scene,
        stage.controller(scene, SETTINGS) as controller,
        Kubelets(scene.core, scene.cloud),
    ):
        time.sleep(6)  # what follows the start is over
        began = time.time()
        scene.pod("train", 1)
        until("the pod runs", lambda: runs(scene, "train"), 90)
        until("the machine counts as ready", lambda: _ready(controller), 60)
        scene.delete_pod("train")
        until("nothing is left", lambda: scene.empty() and not scene.nodes(), 120)
        time.sleep(6)  # the last status
        ended = time.time()
    every = asked(stage.plane, NAMESPACE, since=began, until=ended)
    kinds = Counter(f"{each.verb} {_what(each)}" for each in every)
    shown = ", ".join(f"{count} {what}" for what, count in kinds.most_common())
    return [
        Row("requests", "requests per machine bought and removed, Lease and watches apart", len(every),
            below=MOST, note=shown),
        Row("requests_polled", f"of them read now and then anyway, in {ended - began:.0f} s",
            sum(kinds[what] for what in POLLED)),
        Row("requests_lists", "of them lists: of the pods on its node, right before the delete",
            sum(1 for each in every if each.verb == "list"), exactly=1),
    ]  # fmt: skip


def _ready(controller: Controller) -> bool:
    return all(machine["phase"] == "ready" for machine in controller.status()["machines"])


def _what(each: Asked) -> str:
    ours = each.resource == "configmaps"
    return f"{each.resource} {each.name.removeprefix('gpu-autoscaler-')}" if ours else each.resource
