"""Only the image was replaced: each predecessor's own command line, variables and files, on a real control plane.

Each begins with one of the predecessor's machines running. It is taken over by command and takes the first pod; the
second pod is bought for, and at the end nothing is left. The configurations are those of the documentation; what
makes waits short comes by variables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from controller.sandbox.cluster.join import Defaults
from tests.e2e.controlplane import access
from tests.e2e.controlplane.kubelets import Kubelets
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.racks import Rack
from tests.e2e.controlplane.scene import NAMESPACE, SETTINGS, Scene, running, runs, until
from tests.e2e.programs import PROGRAM, Started
from tests.loop import predecessors as past
from tests.power_server import PowerServer

IMAGE = "ubuntu-24.04-cuda-12.8-open-docker"
BESIDE = ("timing", "deadlines", "lease")


def variables(scene: Scene, kubeconfig: Path, **more: str) -> dict[str, str]:
    waits = {f"GPU_AUTOSCALER_{key.upper()}": json.dumps(SETTINGS[key]) for key in BESIDE}
    account = {
        "VERDA_CLIENT_ID": "real",
        "VERDA_CLIENT_SECRET": "real-not-a-key",
        "VERDA_BASE_URL": scene.cloud,
    }
    return waits | account | {
        "KUBECONFIG": str(kubeconfig), "POD_NAMESPACE": NAMESPACE, "GPU_AUTOSCALER_CLUSTER_ID": "real",
        "GPU_AUTOSCALER_SCALE_DOWN__COOLDOWN": "1s", "GPU_AUTOSCALER_SCALE_DOWN__MIN_AGE": "0s",
    } | more  # fmt: skip


def command(name: str) -> str:
    return str(Path(PROGRAM).parent / name)


def asked(words: Sequence[str], home: Path, environ: Mapping[str, str]) -> Started:
    return Started([*words], home, environ)


def told(by: Started) -> str:
    """What it printed, when it has ended well."""
    by.process.wait(timeout=60)
    by.end()
    lines = []
    while not by.lines.empty():
        lines.append(by.lines.get())
    assert by.process.returncode == 0, "\n".join([*lines, *by.complaints])
    return "\n".join(lines)


class Move:
    """From one project to ours: its machine, its command and variables, and a pod that only its pool can hold."""

    def __init__(self, scene: Scene, kubelets: Kubelets, project: str, environ: Mapping[str, str]) -> None:
        self.scene, self.kubelets, self.project, self.environ = scene, kubelets, project, environ

    def plant(self, hostname: str, description: str, kind: str, location: str) -> None:
        self.hostname, self.kind = hostname, kind
        self.scene.tell_cloud("PUT", "settings", {"any_ssh_key": True, "supported_os": {kind: [IMAGE]}})
        body = {
            "hostname": hostname, "description": description, "instance_type": kind, "image": IMAGE,
            "location_code": location, "running": True,
        }  # fmt: skip
        self.scene.tell_cloud("POST", "instances", body)
        until("its Node is registered", lambda: hostname in self.scene.nodes())

    def where(self, pod: str) -> str:
        return self.scene.core.read_namespaced_pod(pod, "default").spec.node_name or ""

    def made(self, run: Sequence[str], words: Sequence[str], gpus: int, **pod: Any) -> None:
        """`run`: the documented command line; `words`: what of it `adopt` needs as well."""
        scene, home = self.scene, self.scene.home
        # It selects by labels that nobody has set yet: as things are, only a machine of ours could hold it.
        scene.pod("first", gpus, **pod)
        until("it waits", lambda: "first" in scene.waiting())
        look = asked([*run, "--dry-run", "--once"], home, self.environ)
        adopt = [PROGRAM, "adopt", "--from", self.project, *words]
        listed = asked(adopt, home, self.environ)
        assert f"launch {self.kind}" in told(look)
        assert "--apply would take over 1" in told(listed)
        assert scene.state()["creates"] == 0
        assert not scene.config_maps(NAMESPACE) or "gpu-autoscaler-ledger" not in scene.config_maps(NAMESPACE)
        assert f"{self.hostname} (" in told(asked([*adopt, "--apply"], home, self.environ))
        with running(Started([*run], home, self.environ)):
            until("the old machine takes the first pod", lambda: runs(scene, "first"))
            assert self.where("first") == self.hostname
            assert scene.state()["creates"] == 0
            scene.pod("second", gpus, **pod)
            until("the second pod runs", lambda: runs(scene, "second"))
            assert self.where("second").startswith("real-")
            assert scene.state()["creates"] == 1
            for name in ("first", "second"):
                scene.delete_pod(name)
            until("every machine and disk is gone", lambda: not any(self.left()))
            until("no Node is left", lambda: not scene.nodes())

    def left(self) -> list[Any]:
        state = self.scene.state()
        return [*state["instances"], *state["volumes"], *state["trash"]]


def kubelets_for(scene: Scene, prefix: str, provider_id: str) -> Kubelets:
    predecessors = Defaults([{"hostname_prefix": prefix, "provider_id": provider_id, "labels": {}}])
    return Kubelets(scene.core, scene.cloud, boot=0.1, gpu_delay=0.1, predecessors=predecessors)


def test_the_python_providers_container_goes_on_with_our_image(
    scene: Scene, controller_kubeconfig: Path
) -> None:
    line = '# gpuas-join {"provider_id": "verda://{id}"}'
    script = {"name": "join-k3s", "script": f"#!/bin/bash\n{line}\ntrue\n"}
    scene.tell_cloud("POST", "events", {"event": "plant", "things": [{"script": script}]})
    (there,) = scene.state()["scripts"]
    (scene.home / "config.yaml").write_text(past.CA_VERDA.replace(past.SCRIPT, there["id"]))
    with kubelets_for(scene, "gpu-workers-", "verda://{id}") as kubelets:
        move = Move(scene, kubelets, "ca-verda", variables(scene, controller_kubeconfig))
        move.plant("gpu-workers-1a2b3c4d", "Autoscaler node for gpu-workers", "1V100.6V", "FIN-03")
        run = [
            command("verda-cloud-provider"),
            "--config",
            "config.yaml",
            "--port",
            "0",
            "--log-level",
            "INFO",
        ]
        move.made(
            [*run, "--driver", "planner"], ["--config", "config.yaml"], 1,
            nodeSelector={"verda.com/gpu": "v100", "node-role.kubernetes.io/gpu": "true"},
        )  # fmt: skip
    assert [each["name"] for each in scene.state()["scripts"]] == ["join-k3s"]


def test_the_go_providers_deployment_goes_on_with_our_image(
    scene: Scene, controller_kubeconfig: Path
) -> None:
    environ = variables(scene, controller_kubeconfig, DATACRUNCH_CLUSTER_CONFIG_JSON=past.DATACRUNCH)
    with kubelets_for(scene, "gpu-nodes-", "datacrunch://{id}") as kubelets:
        kubelets.sliced = 7
        move = Move(scene, kubelets, "datacrunch", environ)
        move.plant("gpu-nodes-5b3f0c9d1e2a4567", "gpu-nodes", "1A100.22V", "FIN-01")
        move.made(
            [command("cluster-autoscaler"), *past.DATACRUNCH_FLAGS, "--address=127.0.0.1:0"],
            past.DATACRUNCH_FLAGS,
            7,
            tolerations=[{"key": "gpu-node", "operator": "Exists", "effect": "NoSchedule"}],
            nodeSelector={"nodepool": "gpu"},
        )
    assert scene.empty()


def test_verdas_own_providers_deployment_goes_on_with_our_image(
    scene: Scene, controller_kubeconfig: Path
) -> None:
    environ = variables(scene, controller_kubeconfig, **past.verdacloud())
    prefix = "hostname-prefix-here-vm-"
    with kubelets_for(scene, prefix, "verdacloud://FIN-02/{hostname}") as kubelets:
        move = Move(scene, kubelets, "verdacloud", environ)
        move.plant(f"{prefix}fin-02-1a2b3c4d", "gpu-workers", "1A6000.10V", "FIN-02")
        move.made(
            [command("cluster-autoscaler"), *past.VERDACLOUD_FLAGS, "--address=127.0.0.1:0"],
            past.VERDACLOUD_FLAGS,
            1,
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            nodeSelector={"verda.com/node-group": "gpu-workers", "team": "ai"},
        )
    assert scene.empty()


def test_the_webhook_controllers_account_gets_the_printed_rights_and_its_machines_are_used_as_they_are(
    scene: Scene, plane: ControlPlane, admin: client.ApiClient
) -> None:
    gpus = {"gpu-worker-1": 4, "gpu-worker-2": 8}
    with PowerServer() as power:
        power.powers["gpu-worker-1"] = "on"
        environ = {
            f"GPU_NODE_{n}_{key}": value
            for n, (name, count) in enumerate(gpus.items(), start=1)
            for key, value in {
                "NAME": name,
                "GPU_COUNT": str(count),
                "SCALE_UP_ENDPOINT": f"{power.url}/{name}/start",
                "SCALE_DOWN_ENDPOINT": f"{power.url}/{name}/stop",
                "MIN_ON": "0s",  # the test's own, as all that makes waits short
            }.items()
        }
        namespace = {"POD_NAMESPACE": NAMESPACE}
        printed = told(asked([PROGRAM, "config", "check", "--rights"], scene.home, environ | namespace))
        objects = [dict(each) for each in yaml.safe_load_all(printed)]
        account = objects[1]["subjects"][0]
        objects.insert(0, {"kind": "ServiceAccount", "metadata": {"name": account["name"]}})
        access.create(admin, objects)
        try:
            kubeconfig = access.kubeconfig(plane, admin, objects, scene.home / "webhook.kubeconfig")
            environ |= {k: v for k, v in variables(scene, kubeconfig).items() if not k.startswith("VERDA_")}
            _use_as_they_are(scene, Rack(scene.core, power, gpus), environ)
        finally:
            access.delete(admin, objects)


def _use_as_they_are(scene: Scene, rack: Rack, environ: Mapping[str, str]) -> None:
    def bound(pod: str, to: str) -> bool:
        return bool(scene.core.read_namespaced_pod(pod, "default").spec.node_name == to)

    run = [PROGRAM, "run", "--listen", "127.0.0.1:0"]
    with rack:
        scene.pod("first", 4)
        until("what is on takes a pod", lambda: bound("first", "gpu-worker-1"))
        scene.pod("second", 8)
        until("it waits", lambda: "second" in scene.waiting())
        assert "launch gpu-worker-2" in told(asked([*run, "--dry-run", "--once"], scene.home, environ))
        assert not rack.power.heard
        with running(Started(run, scene.home, environ)):
            until("the other one is switched on", lambda: bound("second", "gpu-worker-2"))
            (heard,) = rack.power.heard
            assert (heard.method, heard.path, heard.body) == ("POST", "/gpu-worker-2/start", "{}")
            for name in ("first", "second"):
                scene.delete_pod(name)
            until("both are off", lambda: set(rack.power.powers.values()) == {"off"})
    assert sorted(rack.log) == ["off gpu-worker-1", "off gpu-worker-2", "on gpu-worker-2"]
    assert sorted(scene.nodes()) == ["gpu-worker-1", "gpu-worker-2"]
