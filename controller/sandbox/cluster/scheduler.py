"""The scheduler: binds waiting pods, or says why it cannot, in the words of the real one.

It keeps what each node has left up to date from changes, so that binding a pod never looks at the other
pods. A pod that did not fit waits until a node or a leaving pod could have made a difference; pods that
ask for the same are refused together. No preemption.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.asking import answers, signature
from controller.sandbox.cluster.binding import assign
from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.errors import ApiError
from controller.sandbox.cluster.fit import (
    NodeRoom,
    Placed,
    Wish,
    allocatable_of,
    could_help,
    effective_requests,
    explain,
)
from controller.sandbox.cluster.ports import host_ports
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import (
    CLAIMS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Obj,
)
from controller.sandbox.cluster.shelf import Change, Key
from controller.sandbox.cluster.storage import Storage
from controller.sandbox.cluster.store import Store

NAME = "default-scheduler"
FINISHED = ("Succeeded", "Failed")
AT_ONCE = 50  # pods per turn, so that requests are answered in between


class Scheduler:
    def __init__(self, store: Store, agenda: Agenda, recorder: Recorder) -> None:
        self.store = store
        self.agenda = agenda
        self.recorder = recorder
        self.rooms: dict[str, NodeRoom] = {}  # also of nodes that are gone but still have pods
        self.nodes: dict[str, NodeRoom] = {}
        self.waiting: dict[Key, tuple[int, str]] = {}  # to be tried: priority, since when
        self.refused: dict[Key, tuple[int, str]] = {}  # tried, and nothing has changed since
        self.decisions: deque[Obj] = deque(maxlen=100)
        self.bound = 0
        self._anti = 0  # placed pods with anti-affinity
        self._cycle: dict[str, str] = {}  # signature -> refusal, while nothing was freed
        store.follow(NODES, self._node_changed)
        store.follow(PODS, self._pod_changed)
        for each in (CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES, NAMESPACES):
            store.follow(each, lambda change: self._retry())

    # ---- following the store

    def _room(self, name: str) -> NodeRoom:
        if name not in self.rooms:
            self.rooms[name] = NodeRoom(name)
        return self.rooms[name]

    def _node_changed(self, change: Change) -> None:
        name = change.item.key[1]
        if change.verb == "DELETED":
            self.nodes.pop(name, None)
            if name in self.rooms and not self.rooms[name].pods:
                del self.rooms[name]
            self._retry()
            return
        node, room = change.new, self._room(name)
        spec = node.get("spec") or {}
        figures = (
            node["metadata"].get("labels") or {},
            spec.get("taints") or [],
            bool(spec.get("unschedulable")),
            allocatable_of(node),
        )
        known = name in self.nodes
        self.nodes[name] = room
        if known and figures == (room.labels, room.taints, room.unschedulable, room.allocatable):
            return
        room.labels, room.taints, room.unschedulable, room.allocatable = figures
        self._retry()

    def _pod_changed(self, change: Change) -> None:
        key, node = change.item.key, change.item.node
        if change.verb == "DELETED":
            self.waiting.pop(key, None)
            self.refused.pop(key, None)
            self._free(key, node)
            return
        before = change.before
        if node and before is not None and before.node == node and key in self._room(node).pods:
            # Most changes of a bound pod are its status; only the end of it matters here.
            over = b'"Succeeded"' in change.item.raw or b'"Failed"' in change.item.raw
            if over and (change.new.get("status") or {}).get("phase") in FINISHED:
                self._free(key, node)
                return
            placed = self.rooms[node].pods[key]
            placed.labels = change.item.labels
            placed.leaving = placed.leaving or _leaves(change)
            return
        pod = change.new
        if (pod.get("status") or {}).get("phase") in FINISHED:
            return
        if node:
            self.waiting.pop(key, None)
            self.refused.pop(key, None)
            self._place(key, node, pod)
            return
        spec = pod["spec"]
        if spec.get("schedulerName", NAME) != NAME or pod["metadata"].get("deletionTimestamp"):
            self.waiting.pop(key, None)
            self.refused.pop(key, None)
            return
        if spec.get("schedulingGates"):
            return
        if (
            key in self.refused
            and change.old is not None
            and change.old["spec"] == spec
            and (change.item.labels == change.before.labels if change.before else False)
        ):
            return  # our own condition came back
        self.refused.pop(key, None)
        self.waiting[key] = (-(spec.get("priority") or 0), pod["metadata"]["creationTimestamp"])
        self._wake()

    def _place(self, key: Key, node: str, pod: Obj) -> None:
        room = self._room(node)
        if key in room.pods:
            return
        spec = pod["spec"]
        anti = ((spec.get("affinity") or {}).get("podAntiAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        ) or []
        labels = pod["metadata"].get("labels") or {}
        leaving = "deletionTimestamp" in pod["metadata"]
        room.put(key, Placed(key[0], labels, effective_requests(spec), host_ports(spec), anti, leaving))
        self._anti += bool(anti)
        if self.refused:
            self._retry_near()

    def _free(self, key: Key, node: str) -> None:
        if not node or node not in self.rooms:
            return
        placed = self.rooms[node].take(key)
        if placed is not None:
            self._anti -= bool(placed.anti)
            self._retry()
        if node not in self.nodes and not self.rooms[node].pods:
            del self.rooms[node]

    def _retry(self) -> None:
        """Something was freed or has changed: what was refused is tried again."""
        self._cycle.clear()
        if self.refused:
            self.waiting |= self.refused
            self.refused.clear()
        if self.waiting:
            self._wake()

    def _retry_near(self) -> None:
        """A placed pod can only help one that wants to be near others, or spread evenly among them."""
        for key in list(self.refused):
            pod = self.store.get(PODS, *key)
            if pod and (
                "podAffinity" in (pod["spec"].get("affinity") or {})
                or pod["spec"].get("topologySpreadConstraints")
            ):
                self._cycle.clear()
                self.waiting[key] = self.refused.pop(key)
                self._wake()

    def _wake(self) -> None:
        self.agenda.soon("scheduler", self._turn)

    # ---- deciding

    def _turn(self) -> None:
        for key in heapq.nsmallest(AT_ONCE, self.waiting, key=lambda k: (*self.waiting[k], k)):
            since = self.waiting.pop(key)
            pod = self.store.get(PODS, *key)
            if pod is None or pod["spec"].get("nodeName"):
                continue
            self._try(key, pod, since)
        if self.waiting:
            self._wake()

    def _try(self, key: Key, pod: Obj, since: tuple[int, str]) -> None:
        storage = Storage(self.store, pod)
        alike = not storage.refusal and not storage.matters  # what one pod is told, others like it are told
        sort = signature(pod)
        message = self._everywhere(storage.refusal) or (self._cycle.get(sort) if alike else None)
        chosen: NodeRoom | None = None
        if message is None:
            chosen, message = self._choose(Wish(pod), storage)
        if chosen is None:
            if alike:
                self._cycle[sort] = message
            self.refused[key] = since
            self._refuse(key, message)
            return
        try:
            storage.bind(chosen)
            bound = assign(self.store, key, chosen.name)
        except ApiError:
            return  # it went away or was bound by someone else
        self.bound += 1
        self.decisions.append({"pod": "/".join(key), "node": chosen.name, "at": self.store.now()})
        text = f"Successfully assigned {key[0]}/{key[1]} to {chosen.name}"
        self.recorder.tell(PODS, bound, "Scheduled", text, NAME)

    def _choose(self, wish: Wish, storage: Storage) -> tuple[NodeRoom | None, str]:
        reasons: dict[str, int] = {}
        helped = 0
        best: tuple[int, float, str] | None = None
        for room, refused in answers(self.store, self.nodes, wish, storage, any_anti=self._anti > 0):
            for reason in refused:
                reasons[reason] = reasons.get(reason, 0) + 1
            if refused:
                helped += could_help(refused, wish, room)
            else:
                better = (room.unwelcome(wish), -room.free_share(), room.name)
                best = better if best is None else min(best, better)
        if best is not None:
            return self.nodes[best[2]], ""
        return None, explain(reasons, helped, len(self.nodes))

    def fitting(self, pod: Obj) -> frozenset[str]:
        """Every node that would take the pod now."""
        storage = Storage(self.store, pod)
        if storage.refusal:
            return frozenset()
        asked = answers(self.store, self.nodes, Wish(pod), storage, any_anti=self._anti > 0)
        return frozenset(room.name for room, refused in asked if not refused)

    def _everywhere(self, text: str) -> str | None:
        """The message where a reason holds for every node."""
        if not text:
            return None
        nodes = len(self.nodes)
        return (
            f"0/{nodes} nodes are available: {text}. preemption: 0/{nodes} nodes are available: "
            f"{nodes} Preemption is not helpful for scheduling."
        )

    def _refuse(self, key: Key, message: str) -> None:
        wanted: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        wanted["message"] = message

        def tell(pod: Obj) -> bool:
            wanted["observedGeneration"] = pod["metadata"].get("generation", 1)
            held = pod["status"].get("conditions") or []
            if any(all(each.get(k) == v for k, v in wanted.items()) for each in held):
                return False
            set_condition(pod["status"], self.store.now(), **wanted, lastProbeTime=None)
            return True

        pod = self.store.modify(PODS, key, tell)
        if pod is not None:
            self.decisions.append({"pod": "/".join(key), "refused": message, "at": self.store.now()})
            self.recorder.tell(PODS, pod, "FailedScheduling", message, NAME, warning=True)


def _leaves(change: Change) -> bool:
    return b'"deletionTimestamp"' in change.item.raw and bool(change.new["metadata"].get("deletionTimestamp"))
