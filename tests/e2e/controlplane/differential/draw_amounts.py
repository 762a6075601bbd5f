"""What pods ask of their node in numbers: containers of every kind, amounts, ports, overhead, pods' own totals."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.worlds import Json

GPU, RDMA, HUGE, DISK = "nvidia.com/gpu", "example.com/rdma", "hugepages-2Mi", "ephemeral-storage"
CPU = ["1m", "100m", "250m", "0.5", "1", "1500m", "2", "3", "4", "7.5"]
MEMORY = ["1", "128Mi", "512Mi", "1G", "1Gi", "2.5Gi", "4Gi", "7Gi", "15Gi"]
DISKS = ["100Mi", "1Gi", "5G", "20Gi"]
PORTS = [8080, 8081, 9100]
ADDRESSES = ["", "", "0.0.0.0", "127.0.0.1", "10.0.0.1"]
OVERHEAD = {"heavy": {"cpu": "750m", "memory": "600Mi"}, "light": {"memory": "20Mi"}}


def amounts(chance: Chance, share: float = 0.5) -> Json:
    """A container's resources; sometimes limits alone, sometimes nothing at all."""
    asked = {}
    if chance.of(0.75):
        asked["cpu"] = chance.choice(CPU)
    if chance.of(0.75):
        asked["memory"] = chance.choice(MEMORY)
    whole: dict[str, str] = {}  # resources whose requests and limits are equal
    if chance.of(share * 0.8):
        whole[GPU] = chance.choice(["0", "1", "1", "2", "4"])
    if chance.of(share * 0.2):
        whole[RDMA] = chance.choice(["1", "2", "3"])
    if asked and chance.of(share * 0.2):
        whole[HUGE] = chance.choice(["2Mi", "64Mi", "256Mi"])
    if chance.of(share * 0.4):
        asked[DISK] = chance.choice(DISKS)
    if chance.of(0.15):
        return {"limits": asked | whole}  # which are the requests, then
    if chance.of(0.1):
        return {"requests": asked | whole, "limits": asked | whole}
    return {"requests": asked | whole, "limits": whole} if whole else {"requests": asked}


def ports(chance: Chance) -> list[Json]:
    """Ports of the host, by number, protocol and address; each only once in a container."""
    found: dict[tuple[Any, ...], Json] = {}
    for _ in range(chance.randint(1, 2)):
        number = chance.choice(PORTS)
        port: Json = {"containerPort": number, "hostPort": number}
        if chance.of(0.5):
            port["protocol"] = chance.choice(["TCP", "UDP", "SCTP"])
        if address := chance.choice(ADDRESSES):
            port["hostIP"] = address
        found[(number, port.get("protocol", "TCP"), address)] = port
    return list(found.values())


def container(chance: Chance, name: str, share: float = 0.5) -> Json:
    return {"name": name, "image": "work", "resources": amounts(chance, share)}


def containers(chance: Chance, *, rich: float) -> Json:
    """The part of a pod's spec that says what runs in it."""
    spec: Json = {"containers": [container(chance, "main")]}
    if chance.of(rich * 0.4):
        spec["containers"].append(container(chance, "second", 0.3))
    if chance.of(rich * 0.6):
        spec["initContainers"] = [_init(chance, number) for number in range(chance.randint(1, 3))]
    every = spec["containers"] + spec.get("initContainers", [])
    if chance.of(rich * 0.4):
        chance.choice(every)["ports"] = ports(chance)
        if chance.of(0.2):
            chance.choice(every)["ports"] = ports(chance)
    if chance.of(rich * 0.15):
        spec["runtimeClassName"] = chance.choice(sorted(OVERHEAD))
    if chance.of(rich * 0.25):
        spec["resources"] = _of_the_pod(chance)
    if chance.of(rich * 0.05):
        spec["hostNetwork"] = True
    return spec


def _init(chance: Chance, number: int) -> Json:
    made = container(chance, f"init-{number}", 0.4)
    return made | {"restartPolicy": "Always"} if chance.of(0.5) else made


def resizing(chance: Chance, spec: Json) -> Json:
    """The status of a pod whose containers hold something else than they ask for by now."""
    kind, reason = chance.choice(
        [("PodResizeInProgress", ""), ("PodResizePending", "Deferred"), ("PodResizePending", "Infeasible")]
    )
    condition = {"type": kind, "status": "True"} | ({"reason": reason} if reason else {})
    found: Json = {"conditions": [condition]}
    for containers, statuses in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        found[statuses] = [_held(chance, each) for each in spec.get(containers, ()) if chance.of(0.9)]
    return found


def _held(chance: Chance, container: Json) -> Json:
    # What cannot be resized stands in either status, as kubelets write them.
    said = container.get("resources") or {}
    fixed = {
        name: amount
        for name, amount in ((said.get("limits") or {}) | (said.get("requests") or {})).items()
        if name not in ("cpu", "memory")
    }

    def some() -> Json:
        return fixed | {"cpu": chance.choice(CPU), "memory": chance.choice(MEMORY)}

    status: Json = {
        "name": container["name"],
        "image": "work",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
    }
    if chance.of(0.9):
        status["resources"] = {"requests": some()}
    if chance.of(0.9):
        status["allocatedResources"] = some()
    return status


def _of_the_pod(chance: Chance) -> Json:
    """Totals that replace the sums; as large as any sum drawn above, or the API server refuses them."""
    found: Json = {}
    if chance.of(0.8):
        found["cpu"] = chance.choice(["16", "24", "31500m"])
    if chance.of(0.8):
        found["memory"] = chance.choice(["40Gi", "64Gi", "90G"])
    return {chance.choice(["requests", "limits"]): found or {"cpu": "20"}}


def runtime_classes() -> list[Json]:
    heavy: Json = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    return [
        {
            "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name, "overhead": {"podFixed": more},
            **({"scheduling": heavy} if name == "heavy" else {}),
        }
        for name, more in OVERHEAD.items()
    ]  # fmt: skip
