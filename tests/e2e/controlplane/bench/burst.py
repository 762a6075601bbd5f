"""A thousand pods at once onto machines with eight GPUs, with the cloud counting requests in real seconds.

The pods keep arriving while the first machines are ordered already, and the cloud takes sixty orders a
minute; in the end there must be exactly the machines that one plan over all pods has, and all pods run.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from controller.app.snapshots import read
from controller.planning.planner import plan
from tests.e2e.controlplane.bench import load
from tests.e2e.controlplane.bench.latency import PODS as PATH
from tests.e2e.controlplane.bench.rows import Row
from tests.e2e.controlplane.bench.stage import (
    DEFAULTS,
    SCRIPTS,
    Controller,
    Stage,
    orders_at,
    requests_at,
    say,
)
from tests.e2e.controlplane.bench.watcher import Watcher
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.scene import Scene, until
from tests.e2e.programs import run

A_MINUTE = 60  # orders that the cloud takes
POOL = {"name": "a100", "instance_types": ["8A100.176V"], "locations": ["FIN-01"], "max": 1000}
SETTINGS: dict[str, Any] = {"pools": [POOL], "limits": {"launches_per_minute": A_MINUTE, "scripts": SCRIPTS}}
UNLIMITED: dict[str, Any] = {"pools": [POOL], "limits": {"launches_per_minute": 100_000, "scripts": SCRIPTS}}
ABOUT = (
    "Each asks for one GPU, the pool buys machines with eight; the scheduler runs with a raised client limit. "
    f"Settings are the defaults except for room for {SCRIPTS:,} startup scripts and `limits.launches_per_minute: {A_MINUTE}`, "
    "which is what the cloud takes: it counts requests in real seconds. Its machines boot at once, when all orders are out."
)


def measure(stage: Stage, pods: int = 1000) -> list[Row]:
    found = _planned(stage, pods)
    wanted = int(found[0].value)
    with stage.scene(speed=200) as scene, stage.controller(scene, SETTINGS) as controller:
        found += _bought(stage, scene, pods, wanted)
        found += _about(controller)
    return found


def _planned(stage: Stage, pods: int) -> list[Row]:
    """What one plan over all pods has, by the command; nobody buys anything yet."""
    say(f"burst: one plan over {pods} pods")
    with stage.scene() as scene, Watcher(stage.plane.kubeconfig) as seen:
        took = _create(stage, pods)
        until("every pod was called Unschedulable", lambda: len(seen.unschedulable) >= pods, 120)
        told = max(seen.unschedulable.values()) - min(seen.unschedulable.values())
        saved = stage.home / "snapshot.json"
        words = scene.command({**DEFAULTS, **UNLIMITED}, "one-plan")
        words = [words[0], "plan", *words[2:6], "--save", str(saved), "--json"]
        answer = run(words, stage.home, limit=120)
        assert answer.returncode == 0, answer.stderr
        launches = [a for a in json.loads(answer.stdout)["actions"] if a["verb"] == "launch"]
    picture = read(str(saved))[0]
    began = time.monotonic()
    plan(picture)
    return [
        Row("burst_planned", f"machines in one plan over {pods} pods", sum(a["count"] for a in launches)),
        Row("burst_plan_ms", "that plan takes", round((time.monotonic() - began) * 1000), "ms"),
        Row("burst_alone_s", f"without a controller: {pods} pods are created in", _s(took), "s"),
        Row("burst_alone_told_s", "and the last is Unschedulable after the first", _s(told), "s"),
    ]


def _bought(stage: Stage, scene: Scene, pods: int, wanted: int) -> list[Row]:
    say(f"burst: {pods} pods at once, {wanted} machines expected")
    with Watcher(stage.plane.kubeconfig) as seen:
        began = time.time()
        creating = threading.Thread(target=_create, args=(stage, pods))
        creating.start()
        until("the first order arrives", lambda: orders_at(scene), 60)
        creating.join()
        until("every pod was called Unschedulable", lambda: len(seen.unschedulable) >= pods, 120)
        first_told, last_told = min(seen.unschedulable.values()), max(seen.unschedulable.values())
        say(f"the last pod was Unschedulable after {last_told - began:.1f} s")
        limit = 60.0 * (wanted // A_MINUTE) + 90
        until(f"{wanted} orders are accepted", lambda: len(_accepted(scene)) >= wanted, limit)
        say("all orders are out; now the machines boot")
        with Kubelets(scene.core, scene.cloud, boot=0, gpu_delay=0):
            until("all pods run", lambda: seen.count("Running") >= pods, 120)
        time.sleep(5)  # anything that is bought too much would be by now
    taken = _accepted(scene)
    sent = [r for r in requests_at(scene, "POST") if r["path"] in ("/instances", "/scripts")]
    refused = sum(1 for r in requests_at(scene) if r["status"] == 429)
    pace = f"{len(taken)} in {taken[-1] - taken[0]:.0f} s"
    bought = int(scene.state()["creates"])
    return [
        Row("burst_first_s", "first pod Unschedulable → first order", _s(taken[0] - first_told), "s", below=1.5),
        Row("burst_whole_s", "first pod created → first order", _s(taken[0] - began), "s"),
        Row("burst_told_s", "first created → last one Unschedulable", _s(last_told - began), "s"),
        Row("burst_machines", "machines bought until all pods run", bought, exactly=wanted),
        Row("burst_pace", "most orders that arrived in any 60 s", _most_in(taken), note=pace),
        Row("burst_429", "answers 429, to orders and all else", refused, below=A_MINUTE / 4,
            note=f"{len(sent)} orders and scripts were sent for {len(taken)} machines"),
    ]  # fmt: skip


def _about(controller: Controller) -> list[Row]:
    plans = controller.metric("gpu_autoscaler_plan_seconds_count")
    mean = controller.metric("gpu_autoscaler_plan_seconds_sum") / max(1.0, plans)
    return [
        Row("burst_plans_ms", f"mean of the {plans:.0f} plans made", round(mean * 1000, 1), "ms"),
        Row("burst_cpu_s", "CPU time of the controller, its start included", _s(controller.cpu()), "s"),
        Row("burst_peak_mib", "most resident memory of the controller", controller.resident()[1], "MiB"),
    ]


def _create(stage: Stage, pods: int) -> float:
    objects = [(PATH, load.gpu_pod(f"burst-{number:04d}", 1)) for number in range(pods)]
    return load.create(stage.plane.kubeconfig, objects)


def _accepted(scene: Scene) -> list[float]:
    return [order["at"] for order in orders_at(scene) if order["status"] == 202]


def _most_in(moments: Sequence[float], span: float = 60.0) -> int:
    return max(sum(1 for other in moments if at <= other < at + span) for at in moments)


def _s(seconds: float) -> float:
    return round(seconds, 2)
