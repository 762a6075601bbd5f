"""Whether a pod fits a node, pure, in the order and the words of the real scheduler's filters.

The first filter that fails names the node's reason; only the resources filter names several. Amounts
are thousandths. Init containers count by their maximum, sidecars (restartPolicy Always) add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.sandbox.cluster.ports import Port, clash, host_ports
from controller.sandbox.cluster.quantity import amounts, thousandths
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.cluster.selectors import Labels, meets

Amounts = dict[str, int]
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
ANTI = "node(s) didn't match pod anti-affinity rules"
NEAR = "node(s) didn't match pod affinity rules"
EXISTING_ANTI = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"
HELPED_BY_PREEMPTION = ("Insufficient ", "Too many pods", PORTS, ANTI, EXISTING_ANTI, SPREAD)


def _plus(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    for name, value in right.items():
        total[name] = total.get(name, 0) + value
    return total


def _most(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def of_containers(spec: Obj) -> Amounts:
    """What the containers of a pod need together, each when it runs."""
    running: Amounts = {}
    for each in spec.get("containers") or ():
        running = _plus(running, amounts((each.get("resources") or {}).get("requests")))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for each in spec.get("initContainers") or ():
        own = amounts((each.get("resources") or {}).get("requests"))
        if each.get("restartPolicy") == "Always":
            sidecars = _plus(sidecars, own)
            starting = _most(starting, sidecars)
        else:
            starting = _most(starting, _plus(own, sidecars))
    return _most(_plus(running, sidecars), starting)


def effective_requests(spec: Obj) -> Amounts:
    """What a pod takes from a node, its place among the pods included."""
    total = of_containers(spec)
    pod_level = (spec.get("resources") or {}).get("requests")
    if pod_level:
        total |= amounts(pod_level)
    total = _plus(total, amounts(spec.get("overhead")))
    total["pods"] = 1000
    return {name: value for name, value in total.items() if value}


def tolerates(tolerations: Iterable[Obj], taint: Obj) -> Obj | None:
    """The first toleration that covers a taint."""
    for each in tolerations:
        if each.get("effect") and each["effect"] != taint.get("effect"):
            continue
        if each.get("key") and each["key"] != taint["key"]:
            continue
        operator = each.get("operator") or "Equal"
        if operator == "Exists" or (
            each.get("key") and (each.get("value") or "") == (taint.get("value") or "")
        ):
            return each
    return None


def selects_node(spec: Obj, name: str, labels: Labels) -> bool:
    """nodeSelector and required node affinity."""
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    for term in required.get("nodeSelectorTerms") or ():
        expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
        if not expressions and not fields:
            continue  # an empty term selects nothing
        if meets(labels, expressions) and meets({"metadata.name": name}, fields):
            return True
    return False


@dataclass(slots=True)
class Placed:
    """A bound pod, as far as it takes room or others care where it is."""

    namespace: str
    labels: Labels
    requests: Amounts
    ports: frozenset[Port]
    anti: list[Obj]
    leaving: bool = False  # told to end: others are not spread over it any more


@dataclass(slots=True)
class NodeRoom:
    """A node and what is taken from it."""

    name: str
    labels: Labels = field(default_factory=dict)
    taints: list[Obj] = field(default_factory=list)
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    ports: dict[Port, int] = field(default_factory=dict)
    pods: dict[tuple[str, str], Placed] = field(default_factory=dict)

    def put(self, key: tuple[str, str], placed: Placed) -> None:
        self.pods[key] = placed
        for name, value in placed.requests.items():
            self.used[name] = self.used.get(name, 0) + value
        for port in placed.ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def take(self, key: tuple[str, str]) -> Placed | None:
        placed = self.pods.pop(key, None)
        if placed is None:
            return None
        for name, value in placed.requests.items():
            self.used[name] -= value
        for port in placed.ports:
            self.ports[port] -= 1
            if not self.ports[port]:
                del self.ports[port]
        return placed

    def unwelcome(self, wish: Wish) -> int:
        """Taints that ask the pod to go elsewhere if it can: they weigh more than what is free."""
        if not self.taints:
            return 0
        return sum(
            taint.get("effect") == "PreferNoSchedule" and not tolerates(wish.tolerations, taint)
            for taint in self.taints
        )

    def free_share(self) -> float:
        """How much of cpu and memory is free, the mean: the least allocated node is chosen."""
        shares = [
            1 - self.used.get(name, 0) / self.allocatable[name]
            for name in ("cpu", "memory")
            if self.allocatable.get(name)
        ]
        return sum(shares) / len(shares) if shares else 0.0


class Wish:
    """A waiting pod, with what its filters need worked out once."""

    def __init__(self, pod: Obj) -> None:
        meta, spec = pod["metadata"], pod["spec"]
        self.key = (meta["namespace"], meta["name"])
        self.namespace: str = meta["namespace"]
        self.labels: Labels = meta.get("labels") or {}
        self.spec: Obj = spec
        self.requests = effective_requests(spec)
        self.ports = host_ports(spec)
        self.tolerations: list[Obj] = spec.get("tolerations") or []
        self.priority: int = spec.get("priority") or 0
        affinity = spec.get("affinity") or {}
        self.near = _required(affinity, "podAffinity")
        self.anti = _required(affinity, "podAntiAffinity")
        self.spread = [
            each
            for each in spec.get("topologySpreadConstraints") or ()
            if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        ]

    def placed(self) -> Placed:
        return Placed(self.namespace, self.labels, self.requests, self.ports, self.anti)


def _required(affinity: Obj, kind: str) -> list[Obj]:
    return (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or []


class Company(Protocol):
    """What is asked last, when all else fits: where the other pods are."""

    def refusal(self, wish: Wish, room: NodeRoom) -> str | None: ...


class Volumes(Protocol):
    """What is asked when resources suffice: whether the pod's volumes can be there."""

    def refuses(self, room: NodeRoom) -> str: ...


def refusals(
    wish: Wish, room: NodeRoom, neighbours: Company | None, volumes: Volumes | None = None
) -> list[str]:
    """Why the pod cannot go to the node; empty when it can."""
    spec: Any = wish.spec
    if room.unschedulable and not tolerates(wish.tolerations, UNSCHEDULABLE_TAINT):
        return ["node(s) were unschedulable"]
    for taint in room.taints:
        if taint.get("effect") != "PreferNoSchedule" and not tolerates(wish.tolerations, taint):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    if not selects_node(spec, room.name, room.labels):
        return [AFFINITY]
    if clash(wish.ports, room.ports):
        return [PORTS]
    short: list[str] = []
    for name, asked in wish.requests.items():
        if asked > room.allocatable.get(name, 0) - room.used.get(name, 0):
            short.append("Too many pods" if name == "pods" else f"Insufficient {name}")
    if short:
        return short
    if volumes is not None and (stored := volumes.refuses(room)):
        return [stored]
    if neighbours is not None and (near := neighbours.refusal(wish, room)):
        return [near]
    return []


def explain(refused: dict[str, int], helped: int, nodes: int) -> str:
    """The message of a FailedScheduling event."""
    if not nodes:
        return "no nodes available to schedule pods"
    told = ", ".join(sorted(f"{count} {reason}" for reason, count in refused.items()))
    preemption = ", ".join(
        f"{count} {text}"
        for count, text in (
            (helped, "No preemption victims found for incoming pod"),
            (nodes - helped, "Preemption is not helpful for scheduling"),
        )
        if count
    )
    return f"0/{nodes} nodes are available: {told}. preemption: 0/{nodes} nodes are available: {preemption}."


def could_help(reasons: list[str], wish: Wish, room: NodeRoom) -> bool:
    """Whether removing pods could have made room: not where the whole node is too small."""
    if any(asked > room.allocatable.get(name, 0) for name, asked in wish.requests.items()):
        return False
    return any(reason.startswith(HELPED_BY_PREEMPTION) for reason in reasons)


def allocatable_of(node: Obj) -> Amounts:
    found: Amounts = {}
    for name, value in ((node.get("status") or {}).get("allocatable") or {}).items():
        found[name] = thousandths(value)
    return found
