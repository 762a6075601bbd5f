"""What the controller manager does to nodes and what hangs on them.

Conditions become taints; NoExecute taints evict pods after their toleration; pods of a node that is
gone are collected; namespaces get their service account and CA, the cluster its two highest priorities.
Quirks kept: pods on a silent node stay Terminating, because nobody confirms; daemon pods tolerate the
taints and stay.
"""

from __future__ import annotations

import base64

from controller.sandbox.cluster.agenda import Agenda, Timer
from controller.sandbox.cluster.conditions import set_condition, set_doom
from controller.sandbox.cluster.creating import new_object
from controller.sandbox.cluster.fit import UNSCHEDULABLE_TAINT, tolerates
from controller.sandbox.cluster.pod_rules import NOT_READY, UNREACHABLE
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Obj,
)
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shelf import Change, Key
from controller.sandbox.cluster.store import Store

HIGHEST = {
    "system-node-critical": (
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
BEGINNING = ("default", "kube-system", "kube-public", "kube-node-lease")
LIFECYCLE_TAINTS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE_TAINT["key"])
_FILLER = base64.b64encode(b"verda-gpu-autoscaler sandbox: no real certificate. " * 12).decode()
ROOT_CA = (
    "-----BEGIN CERTIFICATE-----\n"
    + "".join(f"{_FILLER[at : at + 64]}\n" for at in range(0, len(_FILLER), 64))
    + "-----END CERTIFICATE-----\n"
)


class Lifecycle:
    def __init__(self, store: Store, agenda: Agenda, recorder: Recorder, settings: Settings) -> None:
        self.store = store
        self.agenda = agenda
        self.recorder = recorder
        self.settings = settings
        self._evictions: dict[Key, Timer] = {}
        self._deadly: dict[str, list[Obj]] = {}  # node -> its NoExecute taints
        store.follow(NODES, self._node_changed)
        store.follow(PODS, self._pod_changed)
        store.follow(NAMESPACES, self._namespace_changed)

    def begin(self) -> None:
        """The namespaces every cluster has; the UID of kube-system names the cluster."""
        for name in BEGINNING:
            new_object(self.store, NAMESPACES, {"metadata": {"name": name}})
        for name, (value, text) in HIGHEST.items():
            made = {"metadata": {"name": name}, "value": value, "description": text}
            new_object(self.store, PRIORITY_CLASSES, made)

    def _namespace_changed(self, change: Change) -> None:
        name = change.item.key[1]
        if change.verb == "ADDED":
            self.agenda.soon(("furnish", name), lambda: self.furnish(name))

    def furnish(self, name: str) -> None:
        if self.store.item(NAMESPACES, "", name) is None:
            return
        meta = {"namespace": name}
        if self.store.item(SERVICE_ACCOUNTS, name, "default") is None:
            self.store.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", **meta}})
        if self.store.item(CONFIG_MAPS, name, "kube-root-ca.crt") is None:
            self.store.create(
                CONFIG_MAPS, {"metadata": {"name": "kube-root-ca.crt", **meta}, "data": {"ca.crt": ROOT_CA}}
            )

    # ---- conditions become taints

    def _node_changed(self, change: Change) -> None:
        name = change.item.key[1]
        if change.verb == "DELETED":
            self._deadly.pop(name, None)
            for item in self.store.shelf(PODS).on_node(name):
                self._calm(item.key)
            self._collect_later(name)
            return
        node = change.new
        if wanted_taints(node) != (node.get("spec") or {}).get("taints", []):
            self.agenda.soon(("taint", name), lambda: self._taint(name))
        deadly = [t for t in (node.get("spec") or {}).get("taints") or [] if t.get("effect") == "NoExecute"]
        if deadly != self._deadly.get(name, []):
            self._deadly[name] = deadly
            self.agenda.soon(("deadly", name), lambda: self._judge_all(name))

    def _taint(self, name: str) -> None:
        def change(node: Obj) -> None:
            now, had = self.store.now(), node["spec"].get("taints") or []
            taints = [
                each if each in had or each["effect"] != "NoExecute" else each | {"timeAdded": now}
                for each in wanted_taints(node)
            ]
            if taints:
                node["spec"]["taints"] = taints
            else:
                node["spec"].pop("taints", None)

        node = self.store.modify(NODES, ("", name), change)
        if node is not None and any(t["key"] == UNREACHABLE for t in node["spec"].get("taints") or ()):
            self._pods_unready(name)

    def _pods_unready(self, node: str) -> None:
        for item in self.store.shelf(PODS).on_node(node):

            def change(pod: Obj) -> bool:
                held = {c["type"]: c["status"] for c in pod["status"].get("conditions") or ()}
                if held.get("Ready") != "True":
                    return False
                set_condition(
                    pod["status"], self.store.now(), type="Ready", status="False", lastProbeTime=None
                )
                return True

            self.store.modify(PODS, item.key, change)

    # ---- taints evict

    def _pod_changed(self, change: Change) -> None:
        key, item = change.item.key, change.item
        if change.verb == "DELETED":
            self._calm(key)
        elif item.node and (change.before is None or not change.before.node):
            if self._deadly.get(item.node):
                self.agenda.soon(("judge", key), lambda: self._judge(key))
            elif self.store.item(NODES, "", item.node) is None:
                self._collect_later(item.node)

    def _judge_all(self, node: str) -> None:
        for item in self.store.shelf(PODS).on_node(node):
            self._judge(item.key)

    def _judge(self, key: Key) -> None:
        """Evict now, later or not, as the pod tolerates its node's NoExecute taints."""
        pod = self.store.get(PODS, *key)
        deadly = self._deadly.get(pod["spec"].get("nodeName", ""), []) if pod else []
        if pod is None or not deadly:
            self._calm(key)
            return
        least: float | None = None
        for taint in deadly:
            found = tolerates(pod["spec"].get("tolerations") or (), taint)
            if found is None:
                least = 0.0
                break
            if found.get("tolerationSeconds") is not None:
                seconds = max(0.0, float(found["tolerationSeconds"]))
                least = seconds if least is None else min(least, seconds)
        if least is None:
            self._calm(key)
        elif key not in self._evictions:
            uid, wait = pod["metadata"]["uid"], self.settings.scaled(least)
            self._evictions[key] = self.agenda.after(wait, lambda: self._evict(key, uid))

    def _calm(self, key: Key) -> None:
        timer = self._evictions.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _evict(self, key: Key, uid: str) -> None:
        self._evictions.pop(key, None)
        pod = self.store.get(PODS, *key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        text = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self.recorder.tell(PODS, pod, "TaintManagerEviction", text, "taint-eviction-controller")

        def doom(held: Obj) -> None:
            why = "Taint manager: deleting due to NoExecute taint"
            set_doom(held, self.store.now(), "DeletionByTaintManager", why)

        self.store.modify(PODS, key, doom)
        self.store.delete(PODS, key)

    # ---- what is left behind

    def _collect_later(self, node: str) -> None:
        self.agenda.after(self.settings.scaled(self.settings.pod_gc), lambda: self._collect(node))

    def _collect(self, node: str) -> None:
        if self.store.item(NODES, "", node) is not None:
            return
        for item in self.store.shelf(PODS).on_node(node):
            self.store.delete(PODS, item.key, grace=0)


def wanted_taints(node: Obj) -> list[Obj]:
    """The node's taints as its conditions and its cordon want them; those of others stay as they are.

    A node that says nothing of its readiness loses the taint that it was created with.
    """
    spec = node.get("spec") or {}
    state = next(
        (c["status"] for c in (node.get("status") or {}).get("conditions") or () if c["type"] == "Ready"),
        None,
    )
    wanted: list[tuple[str, str]] = []
    if state == "Unknown":
        wanted = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    elif state == "False":
        wanted = [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]
    if spec.get("unschedulable"):
        wanted.append((UNSCHEDULABLE_TAINT["key"], "NoSchedule"))
    held: list[Obj] = spec.get("taints") or []
    kept = [t for t in held if t["key"] not in LIFECYCLE_TAINTS or (t["key"], t["effect"]) in wanted]
    present = {(t["key"], t["effect"]) for t in kept}
    return kept + [{"key": key, "effect": effect} for key, effect in wanted if (key, effect) not in present]
