"""What befalls one Node: it is forgotten, registers anew, is tainted by somebody, falls silent for a while."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from controller.sandbox.cluster.resources import NODES
from controller.sandbox.simulator.strangers import NODES as NOT_OURS
from controller.sandbox.simulator.worlds import Worlds


def to_a_node(
    worlds: Worlds,
    rng: random.Random,
    deed: str,
    seconds: float,
    undo_after: Callable[[float, Callable[[], None]], None],
) -> None:
    """To one that chance chooses, if there is any."""
    cluster = worlds.cluster
    nodes = [key[1] for key in cluster.store.shelf(NODES).keys if key[1] not in NOT_OURS]
    if not nodes:
        return
    name = rng.choice(nodes)
    path = f"/api/v1/nodes/{name}"
    kubelet = cluster.machines.by_node.get(name)
    if deed in ("forget_node", "reregister"):
        worlds.ask_cluster("DELETE", path)
    if deed == "taint":
        taints = [{"key": "maintenance", "value": "yes", "effect": "NoSchedule"}]
        node = cluster.store.get(NODES, "", name) or {}
        known = (node.get("spec") or {}).get("taints") or []
        worlds.ask_cluster("PATCH", path, {"spec": {"taints": [*known, *taints]}}, merge=True)
        undo_after(seconds, lambda: _untaint(worlds, name))
    if deed == "flap":
        cluster.store.modify(NODES, ("", name), lambda node: _ready(node, "Unknown", cluster.store.now()))
        worlds.turn_cluster()
        undo_after(seconds, lambda: _well_again(worlds, name))
    if deed in ("reregister", "restart_kubelet") and kubelet is not None:
        worlds.loop.call_later(
            min(seconds, 60.0),
            lambda: worlds.tell_cluster("POST", f"machines/{kubelet.machine.id}/restart"),
        )


def _untaint(worlds: Worlds, name: str) -> None:
    def change(node: dict[str, Any]) -> None:
        left = [t for t in node["spec"].get("taints") or () if t["key"] != "maintenance"]
        node["spec"]["taints"] = left

    worlds.cluster.store.modify(NODES, ("", name), change)
    worlds.turn_cluster()


def _well_again(worlds: Worlds, name: str) -> None:
    if name not in worlds.cluster.machines.silent:
        store = worlds.cluster.store
        store.modify(NODES, ("", name), lambda node: _ready(node, "True", store.now()))
        worlds.turn_cluster()


def _ready(node: dict[str, Any], status: str, now: str) -> None:
    for condition in node.get("status", {}).get("conditions") or ():
        if condition["type"] == "Ready":
            condition.update(status=status, lastTransitionTime=now)
