"""Sets of pods that wait for GPUs together: a few workloads of several replicas each, with rules among them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.e2e.controlplane.differential.chance import Chance
from tests.e2e.controlplane.differential.draw_amounts import GPU
from tests.e2e.controlplane.differential.draw_rules import HOST, PREFERRED, REQUIRED, ZONE
from tests.e2e.controlplane.differential.worlds import CASE, Json, World
from tests.e2e.controlplane.scene import SETTINGS

LOCATIONS = ["FIN-01", "FIN-02", "FIN-03"]
TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}
TYPES = {
    "A100 80GB": [(1, 22, 120), (2, 44, 240), (4, 88, 480)],
    "H100": [(1, 32, 185), (2, 80, 370), (8, 176, 1480)],
}
SPACE = "diff-a"


def settings() -> dict[str, Any]:
    pools: list[Json] = [
        {
            "name": "plain",
            "gpu_models": ["A100 80GB"],
            "locations": LOCATIONS,
            "max": 60,
            "labels": {"tier": "low"},
        },
        {"name": "guarded", "gpu_models": ["H100"], "locations": LOCATIONS[:2], "max": 60, "taints": [TAINT]},
    ]
    return {**SETTINGS, "pools": pools}


def offers(chance: Chance) -> list[Json]:
    found = []
    for model, sizes in TYPES.items():
        # Without the small ones pods have to share machines.
        for gpus, vcpus, memory in sizes[chance.choice([0, 1, 2]) :]:
            price = Decimal(gpus) * (Decimal("1.29") if model.startswith("A") else Decimal("2.29"))
            for location in LOCATIONS:
                if chance.of(0.9):
                    found.append({
                        "instance_type": f"{gpus}{model.split()[0]}.{vcpus}V", "model": model, "gpus": gpus,
                        "vcpus": vcpus, "memory_gb": memory, "gpu_memory_gb": 80 * gpus, "location": location,
                        "price_per_hour": price, "market": "on-demand",
                        "images": ["ubuntu-24.04-cuda-12.8-open"],
                    })  # fmt: skip
    return found


def world(chance: Chance) -> World:
    """Nodes without GPUs to spare, with pods on them that rules look at."""
    nodes, pods = [], []
    for number, zone in enumerate(chance.some(LOCATIONS, 3)):
        name = f"old-{number}"
        there = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "1"}
        labels = {HOST: name, ZONE: zone}
        status = {
            "allocatable": there,
            "capacity": there,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        nodes.append(
            {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}
        )
        spec: Json = {"nodeName": name, "containers": [_container(1)]}
        meta = {"name": f"busy-{number}", "namespace": SPACE, "labels": {"app": f"w{number}"}}
        if chance.of(0.5):
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [_term({"app": f"w{number + 1}"}, ZONE)]}}
        pods.append({"kind": "Pod", "metadata": meta, "spec": spec})
    return World(nodes=tuple(nodes), pods=tuple(pods))


def waiting(chance: Chance) -> list[Json]:
    found = []
    for group in range(chance.randint(2, 5)):
        labels = {"app": f"w{group}", CASE: "case"}
        spec = _rules(chance, labels)
        spec["containers"] = [_container(chance.choice([1, 1, 1, 2, 4]), chance)]
        if chance.of(0.15):
            spec["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 8080}]
        if chance.of(0.2):
            spec["initContainers"] = [_container(1, chance) | {"name": "beside", "restartPolicy": "Always"}]
        for number in range(chance.randint(1, 6)):
            meta = {"name": f"w{group}-{number}", "namespace": SPACE, "labels": labels}
            found.append({"kind": "Pod", "metadata": meta, "spec": spec})
    return found


def _container(gpus: int, chance: Chance | None = None) -> Json:
    cpu = chance.choice(["1", "4", "10500m", "20"]) if chance else "1"
    memory = chance.choice(["1Gi", "16Gi", "50Gi"]) if chance else "1Gi"
    limits = {GPU: str(gpus), "cpu": cpu, "memory": memory}
    return {"name": "main", "image": "work", "resources": {"limits": limits}}


def _term(labels: dict[str, str], key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def _rules(chance: Chance, labels: dict[str, str]) -> Json:
    spec: Json = {}
    own = {"app": labels["app"]}
    if chance.of(0.5):
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if chance.of(0.15):
        spec["nodeSelector"] = {ZONE: chance.choice(LOCATIONS)}
    if chance.of(0.15):
        one = {"key": "gpu-autoscaler/gpu", "operator": "In", "values": ["a100-80gb"]}
        node = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [one]}]}}
        spec["affinity"] = {"nodeAffinity": node}
    match chance.choice(["", "", "apart", "together", "zones", "hosts", "both", "other", "soft"]):
        case "apart":
            spec.setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: [_term(own, HOST)]}
        case "together":
            spec.setdefault("affinity", {})["podAffinity"] = {REQUIRED: [_term(own, ZONE)]}
        case "zones":
            spec["topologySpreadConstraints"] = [_spread(own, ZONE, chance.randint(1, 2))]
        case "hosts":
            spec["topologySpreadConstraints"] = [_spread(own, HOST, chance.randint(1, 2))]
        case "both":
            spec["topologySpreadConstraints"] = [_spread(own, ZONE, 1), _spread(own, HOST, 2)]
        case "other":
            other = {"app": f"w{chance.randint(0, 3)}"}
            kind = chance.choice(["podAffinity", "podAntiAffinity"])
            spec.setdefault("affinity", {})[kind] = {REQUIRED: [_term(other, chance.choice([ZONE, HOST]))]}
        case "soft":
            wish = {"weight": 5, "podAffinityTerm": _term(own, HOST)}
            spec.setdefault("affinity", {})["podAntiAffinity"] = {PREFERRED: [wish]}
    return spec


def _spread(labels: dict[str, str], key: str, skew: int) -> Json:
    said = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return said | {"labelSelector": {"matchLabels": labels}}
