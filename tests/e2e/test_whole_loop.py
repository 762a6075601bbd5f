"""The whole loop as a user sets it up, with programs only: both sandboxes, the controller, kubectl."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.e2e.programs import PROGRAM, environment, started
from tests.e2e.programs import run as run_program

CONFIG = """
cluster_id: e2e
namespace: gpu-autoscaler
pools:
  - {name: a100, instance_types: [1A100.22V, 2A100.44V], locations: [FIN-01], max: 3}
timing: {tick: 500ms, poll_cloud: 2s, poll_cloud_busy: 1s}
deadlines: {gpu_settle: 500ms, drain_pause: 300ms}
scale_down: {cooldown: 3s}
join:
  k3s: {template: k3s, server: "https://10.0.0.1:6443", version: v1.36.3+k3s1, token_from: {secret: {name: join, key: token}}}
verda: {client_id: e2e, client_secret: e2e-not-a-key, base_url: BASE_URL}
"""


def pod(name: str, gpus: int, run_for: str = "60s") -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {"gpu-autoscaler-sandbox/run-for": run_for}},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {"name": "c", "image": "work", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
                ],
            },
        }
    )


class World:
    def __init__(self, cloud: str, kubeconfig: Path, config: Path, kubectl: str, home: Path) -> None:
        self.cloud = cloud
        self.kubeconfig = kubeconfig
        self.config = config
        self._kubectl = kubectl
        self._home = home

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = run_program(
            [
                self._kubectl,
                "--kubeconfig",
                str(self.kubeconfig),
                "--cache-dir",
                str(self._home / "cache"),
                *words,
            ],
            self._home,
            stdin=stdin,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def program(self, *words: str) -> tuple[int, str]:
        done = run_program([PROGRAM, *words], self._home)
        return done.returncode, done.stdout + done.stderr

    def state(self) -> dict[str, list[object]]:
        with urlopen(self.cloud.removesuffix("/v1") + "/_sandbox/state", timeout=10) as answer:  # noqa: S310
            found: dict[str, list[object]] = json.load(answer)
            return found


def until(what: str, holds: Callable[[], object], within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, f"not within {within:g} s: {what}"
        time.sleep(0.2)


@pytest.fixture
def world(tmp_path: Path, kubectl_bin: str) -> Iterator[World]:
    kubeconfig, config = tmp_path / "kubeconfig", tmp_path / "config.yaml"
    assert "VERDA_CLIENT_ID" not in environment(tmp_path)
    with started([PROGRAM, "sandbox", "cloud"], tmp_path) as cloud:
        url = cloud.line()
        config.write_text(CONFIG.replace("BASE_URL", url))
        with started(
            [PROGRAM, "sandbox", "cluster", "--cloud", url, "--kubeconfig", str(kubeconfig)], tmp_path
        ) as cluster:
            cluster.line()
            made = World(url, kubeconfig, config, kubectl_bin, tmp_path)
            made.kubectl("create", "namespace", "gpu-autoscaler")
            made.kubectl(
                "create", "secret", "generic", "join", "-n", "gpu-autoscaler", "--from-literal=token=K10x::y"
            )
            yield made


@pytest.mark.long
def test_a_pod_brings_a_machine_and_its_end_takes_it_away(world: World, tmp_path: Path) -> None:
    words = [
        "run",
        "--config",
        str(world.config),
        "--kubeconfig",
        str(world.kubeconfig),
        "--listen",
        "127.0.0.1:0",
    ]
    with started([PROGRAM, *words], tmp_path):
        world.kubectl("create", "-f", "-", stdin=pod("train", 1))
        world.kubectl("create", "-f", "-", stdin=pod("never", 16))

        def finished() -> bool:
            return world.kubectl("get", "pod", "train", "-o", "jsonpath={.status.phase}") == "Succeeded"

        until("the pod has run", finished)
        told = world.kubectl("describe", "pod", "train")
        assert "TriggeredScaleUp" in told
        assert "launches 1A100.22V in FIN-01" in told
        refused = world.kubectl("describe", "pod", "never")
        assert "NotTriggerScaleUp" in refused
        assert "it needs 16 nvidia.com/gpu on one machine" in refused
        assert "ask for at most 2" in refused
        until(
            "nothing is left",
            lambda: not any(world.state()[k] for k in ("instances", "volumes", "trash", "scripts")),
        )
        assert world.state()["creates"] == 1
        assert "never" in world.kubectl(
            "get", "configmap", "-n", "gpu-autoscaler", "gpu-autoscaler-status", "-o", "yaml"
        )


def test_the_plan_of_a_saved_snapshot_is_the_same_byte_for_byte(world: World, tmp_path: Path) -> None:
    world.kubectl("create", "-f", "-", stdin=pod("train", 2))

    def judged() -> bool:
        return "Unschedulable" in world.kubectl(
            "get", "pod", "train", "-o", "jsonpath={.status.conditions[*].reason}"
        )

    until("the scheduler has judged it", judged)
    saved = str(tmp_path / "snapshot.json")
    live = [
        "plan",
        "--config",
        str(world.config),
        "--kubeconfig",
        str(world.kubeconfig),
        "--json",
        "--save",
        saved,
    ]
    code, shown = world.program(*live)
    assert code == 0, shown
    first, second = (world.program("plan", "--snapshot", saved, "--json") for _ in range(2))
    assert first == second == (0, shown)
    action = json.loads(shown)["actions"][0]
    assert (action["verb"], action["instance_type"], action["pods"]) == (
        "launch",
        "2A100.44V",
        ["default/train"],
    )
    assert "e2e-not-a-key" not in Path(saved).read_text()


def test_one_decision_is_carried_out_and_then_it_ends(world: World) -> None:
    world.kubectl("create", "-f", "-", stdin=pod("train", 1))
    time.sleep(1)
    words = ["run", "--config", str(world.config), "--kubeconfig", str(world.kubeconfig)]
    code, shown = world.program(*words, "--once", "--dry-run")
    assert (code, world.state()["creates"]) == (0, 0), shown
    assert "launch 1A100.22V" in shown
    code, shown = world.program(*words, "--once")
    assert (code, world.state()["creates"]) == (0, 1), shown
