"""Work that runs on machines or elsewhere, and what the controller and the Nodes say about it meanwhile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.request import urlopen

from tests.e2e.controlplane.scene import NAMESPACE, Scene, container, runs, until
from tests.e2e.programs import Started

# For scenarios that are not about these delays.
PROMPT: dict[str, Any] = {
    "timing": {"tick": "300ms", "poll_cloud": "1s", "poll_cloud_busy": "300ms"},
    "deadlines": {"gpu_settle": "0s", "drain_pause": "200ms", "unknown_create": {"lists": 3, "over": "2s"}},
    "scale_down": {"cooldown": "1s"},
    "disruption": {"budget": "100%"},
}
SLOW_DRAIN = {**PROMPT, "deadlines": {**PROMPT["deadlines"], "drain_pause": "2s"}}  # long enough to be seen
STATUS = "gpu-autoscaler-status"
BY_HAND = {"kwok.x-k8s.io/status": "custom"}  # on a pod: the test starts and ends it, and not KWOK


def machine_for(scene: Scene, name: str, gpus: int = 1, **spec: Any) -> str:
    """The node on which a new pod came to run."""
    scene.pod(name, gpus, **spec)
    until(f"{name} runs", lambda: runs(scene, name))
    return node_of(scene, name)


def node_of(scene: Scene, pod: str) -> str:
    return str(scene.core.read_namespaced_pod(pod, "default").spec.node_name)


def deployment(scene: Scene, name: str, *, notes: Mapping[str, str] | None = None, **spec: Any) -> None:
    """Of one pod without GPUs, which carries the label `app`."""
    labels = {"app": name}
    meta = {"labels": labels, "annotations": dict(notes or {})}
    template = {"metadata": meta, "spec": {"containers": [container(0)], **spec}}
    wanted = {"selector": {"matchLabels": labels}, "template": template}
    scene.apps.create_namespaced_deployment("default", {"metadata": {"name": name}, "spec": wanted})


def pods_of(scene: Scene, app: str) -> list[Any]:
    """Also those that are being deleted."""
    found: list[Any] = scene.core.list_namespaced_pod("default", label_selector=f"app={app}").items
    return found


def ending(scene: Scene, *apps: str) -> list[str]:
    """Pods that were told to end, and have not yet."""
    found = [pod.metadata for app in apps for pod in pods_of(scene, app)]
    return [meta.name for meta in found if meta.deletion_timestamp]


def says(scene: Scene, pod: str, phase: str) -> None:
    """What a kubelet would report, of a pod that is `BY_HAND`."""
    ready = {"type": "Ready", "status": str(phase == "Running")}
    status = {"status": {"phase": phase, "conditions": [ready]}}
    scene.core.patch_namespaced_pod_status(pod, "default", status)


def foreign_node(scene: Scene, name: str) -> None:
    """A Node that is nobody's machine, without GPUs."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    scene.core.create_node(
        {
            "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": room, "allocatable": room},
        }
    )


def taints(scene: Scene, node: str) -> set[str]:
    return {taint.key for taint in scene.core.read_node(node).spec.taints or ()}


def node_events(scene: Scene, name: str) -> dict[str, str]:
    # In whatever namespace: that of events about Nodes is a convention.
    found = scene.core.list_event_for_all_namespaces(field_selector=f"involvedObject.name={name}").items
    return {event.reason: event.message for event in found}


def told(controller: Started) -> dict[str, Any]:
    """What it says at /status."""
    marker = "address="
    until("it listens", lambda: any(marker in line for line in controller.complaints))
    address = next(line.split(marker)[1].split()[0] for line in controller.complaints if marker in line)
    with urlopen(f"http://{address}/status", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def why(controller: Started, machine: str) -> tuple[str, str]:
    """The code and the sentence that it has for a machine."""
    found = [each for each in told(controller)["machines"] if each["name"] == machine]
    return (found[0]["code"], found[0]["message"]) if found else ("", "")


def status_of(scene: Scene) -> str:
    """The text in the status ConfigMap; empty while there is none."""
    stored = [m for m in scene.core.list_namespaced_config_map(NAMESPACE).items if m.metadata.name == STATUS]
    return str(stored[0].data["status.json"]) if stored else ""


def pause_all(scene: Scene, what: str | None) -> None:
    """Ask for a pause of everything where `kubectl annotate` would, beside the status; None lifts it."""
    until("there is a status", lambda: status_of(scene))
    notes = {"metadata": {"annotations": {"gpu-autoscaler/pause": what}}}
    scene.core.patch_namespaced_config_map(STATUS, NAMESPACE, notes)
