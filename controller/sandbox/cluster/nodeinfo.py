"""Node objects as a kubelet writes them: labels, addresses, capacity and conditions of a machine."""

from __future__ import annotations

import hashlib

from controller.sandbox.cluster.join import Join, Machine
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.settings import Settings

GPU = "nvidia.com/gpu"
MIB, GIB = 1024**2, 1024**3
HEALTHY = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
NOT_YET = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)


def conditions(now: str, *, is_ready: bool) -> list[Obj]:
    found: list[Obj] = [_condition(kind, "False", reason, text, now) for kind, reason, text in HEALTHY]
    if is_ready:
        return [*found, _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)]
    return [*found, _condition("Ready", "False", "KubeletNotReady", NOT_YET, now)]


def unknown(held: list[Obj], now: str) -> list[Obj]:
    """All conditions of a node whose kubelet is silent."""
    text = "Kubelet stopped posting node status."
    return [
        each
        | {"status": "Unknown", "reason": "NodeStatusUnknown", "message": text, "lastTransitionTime": now}
        for each in held
    ]


def _condition(kind: str, status: str, reason: str, text: str, now: str) -> Obj:
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": text}


def capacity(machine: Machine, settings: Settings) -> tuple[Obj, Obj]:
    """Capacity and allocatable without GPUs: MemTotal is what page structs and the kernel leave."""
    memory = max(int(machine.memory_gib * GIB * 63 / 64) - 320 * MIB, 256 * MIB)
    disk = int(machine.disk_gib * GIB * 0.97)
    same = {"cpu": str(machine.cpus), "pods": "110", "hugepages-1Gi": "0", "hugepages-2Mi": "0"}
    full = same | {"memory": f"{memory // 1024}Ki", "ephemeral-storage": f"{disk // 1024}Ki"}
    left = (memory - settings.memory_reserved_mib * MIB) // 1024
    return full, same | {"memory": f"{left}Ki", "ephemeral-storage": str(int(disk * 0.9))}


def well_known(machine: Machine, name: str) -> dict[str, str]:
    labels = {
        f"{prefix}kubernetes.io/{key}": value
        for prefix in ("", "beta.")
        for key, value in (("arch", "amd64"), ("os", "linux"))
    }
    return labels | {"kubernetes.io/hostname": name}


def status(machine: Machine, name: str, settings: Settings, now: str) -> Obj:
    full, left = capacity(machine, settings)
    address = machine.ip or "10.0.0.1"
    system = f"{hash_of(machine.id):064x}"[:32]
    return {
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "capacity": full,
        "allocatable": left,
        "conditions": conditions(now, is_ready=False),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": system,
            "containerRuntimeVersion": "containerd://2.2.1",
            "kernelVersion": "6.8.0-60-generic",
            "kubeProxyVersion": "",
            "kubeletVersion": settings.kubelet_version,
            "machineID": system,
            "operatingSystem": "linux",
            "osImage": "Ubuntu 24.04.2 LTS",
            "systemUUID": machine.id,
        },
    }


def hash_of(text: str) -> int:
    """A number of a text that is the same in every run."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def node(machine: Machine, join: Join, settings: Settings, now: str) -> Obj:
    made: Obj = {
        "metadata": {"name": join.node, "labels": well_known(machine, join.node) | join.labels},
        "spec": {},
    }
    if join.provider_id:
        made["spec"]["providerID"] = join.provider_id
    if join.taints:
        made["spec"]["taints"] = [dict(taint) for taint in join.taints]
    return made | {"status": status(machine, join.node, settings, now)}
