"""What one machine costs the API server: every request of the controller from the pod to the last trace.

One machine alone, so that nothing is shared with another; the times are the product's own except for the
cooldown, in which nothing happens but what the background row tells.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from tests.e2e.controlplane.bench.audit import asked
from tests.e2e.controlplane.bench.latency import POOL
from tests.e2e.controlplane.bench.rows import Row
from tests.e2e.controlplane.bench.stage import Stage, say
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import NAMESPACE, runs, until

SETTINGS: dict[str, Any] = {"pools": [POOL], "scale_down": {"cooldown": "15s"}}
ABOUT = (
    "One machine alone, from the pod that needs it to the last trace of it. Settings are the defaults except for "
    "`scale_down.cooldown: 15s`; the cloud's machines boot at once."
)
MOST = 40.0


def measure(stage: Stage, rounds: int = 1) -> list[Row]:
    say("requests: one machine from the pod that needs it to the last trace of it")
    with (
        stage.scene(speed=200, rate_limits=False) as scene,
        stage.controller(scene, SETTINGS),
        Kubelets(scene.core, scene.cloud),
    ):
        time.sleep(12)  # what follows the start is over
        quiet_from = time.time()
        time.sleep(20)
        began = time.time()
        for number in range(rounds):
            scene.pod(f"round-{number}", 1)
            until("the pod runs", lambda number=number: runs(scene, f"round-{number}"), 90)
            time.sleep(25)  # until the machine's GPUs have settled and the machine counts as ready
            scene.delete_pod(f"round-{number}")
            until("nothing is left", lambda: scene.empty() and not scene.nodes(), 120)
        time.sleep(6)  # the last status
        ended = time.time()
    every = asked(stage.plane, NAMESPACE, since=began, until=ended)
    quiet = asked(stage.plane, NAMESPACE, since=quiet_from, until=began)
    kinds = Counter(f"{each.verb} {_what(each.resource, each.name)}" for each in every)
    for what, count in kinds.most_common():
        say(f"  {count:3d} {what}")
    background = len(quiet) * (ended - began) / (began - quiet_from)
    lists = [each for each in every if each.verb == "list"]
    shown = ", ".join(f"{count} {what}" for what, count in kinds.most_common())
    return [
        Row("requests", "requests per machine bought and removed, Lease and watches apart",
            round(len(every) / rounds, 1), below=MOST, note=shown),
        Row("requests_background", f"of them what is asked every few seconds anyway, in {ended - began:.0f} s",
            round(background / rounds, 1)),
        Row("requests_lists", "lists per machine, each of the pods on its node", len(lists) / rounds),
    ]  # fmt: skip


def _what(resource: str, name: str) -> str:
    return f"{resource} {name.removeprefix('gpu-autoscaler-')}" if resource == "configmaps" else resource
