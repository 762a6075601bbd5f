"""What kubelets do to the pods of their nodes: start them, end them, confirm that they are gone.

A pod ends after the time in its annotation `gpu-autoscaler-sandbox/run-for`, or that of the `sleep` it
runs; without either it runs for ever. Machine time is divided by `speed`. A pod whose controller wants
it always running (a ReplicaSet, a DaemonSet) does not end by itself.
"""

from __future__ import annotations

import random
import re
from functools import partial

from controller.sandbox.cluster.agenda import Agenda, Timer
from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.errors import ApiError
from controller.sandbox.cluster.kubelet import Machines
from controller.sandbox.cluster.nodeinfo import hash_of
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import NODES, PODS, Obj
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shelf import Change, Key
from controller.sandbox.cluster.store import Store

RUN_FOR = "gpu-autoscaler-sandbox/run-for"
FAIL = "gpu-autoscaler-sandbox/fail"
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd]?)")
_SLEEP = re.compile(r"(?:^|[\s;&|/])sleep\s+(\d+(?:\.\d+)?)([smhd]?)(?=$|[\s;&|])")
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float | None:
    """`90`, `90s`, `5m`, `1h30m`; None where it is no duration."""
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def run_time(pod: Obj) -> float | None:
    """Seconds of machine time until a pod ends by itself; None for never."""
    owners = {ref.get("kind") for ref in pod["metadata"].get("ownerReferences") or ()}
    if owners & {"ReplicaSet", "DaemonSet", "StatefulSet", "ReplicationController"}:
        return None
    annotations = pod["metadata"].get("annotations") or {}
    if RUN_FOR in annotations:
        return seconds_of(str(annotations[RUN_FOR]))
    longest = 0.0
    for each in pod["spec"]["containers"]:
        words = " ".join(str(word) for word in (*(each.get("command") or ()), *(each.get("args") or ())))
        found = _SLEEP.search(words)
        if found is None:
            return None
        longest = max(longest, float(found[1]) * _UNITS[found[2]])
    return longest


class PodRunner:
    def __init__(
        self,
        store: Store,
        agenda: Agenda,
        recorder: Recorder,
        settings: Settings,
        machines: Machines,
        rng: random.Random,
    ) -> None:
        self.store = store
        self.agenda = agenda
        self.recorder = recorder
        self.settings = settings
        self.machines = machines
        self.rng = rng
        self._timers: dict[Key, tuple[str, Timer]] = {}  # uid, what comes next for the pod
        self._ending: set[tuple[Key, str]] = set()
        store.follow(PODS, self._pod_changed)
        store.follow(NODES, self._node_changed)

    def _pod_changed(self, change: Change) -> None:
        key, item = change.item.key, change.item
        if change.verb == "DELETED":
            self._forget(key)
            self._ending.discard((key, item.uid))
            return
        if not item.node or not self.machines.alive(item.node):
            return
        if b'"deletionTimestamp"' in item.raw and change.new["metadata"].get("deletionTimestamp"):
            self.agenda.soon(("ending", key, item.uid), lambda: self._end(key, item.uid))
        elif (change.before is None or change.before.node != item.node) and (
            (change.new.get("status") or {}).get("phase") == "Pending"
        ):
            self.agenda.soon(("starting", key, item.uid), lambda: self._admit(key, item.uid))

    def _node_changed(self, change: Change) -> None:
        """A kubelet that starts (again) finds pods that wait for it, and some to confirm as gone."""
        if change.verb == "DELETED" or (change.before is not None and change.before.uid != change.item.uid):
            return
        name = change.item.key[1]
        if change.before is not None and _is_ready(change.new) and not _is_ready(change.old or {}):
            self._tell_ready(name)
        kubelet = self.machines.by_node.get(name)
        if change.before is not None and (kubelet is None or kubelet.phase != "registered"):
            return
        for item in self.store.shelf(PODS).on_node(name):
            self.agenda.soon(("found", item.key, item.uid), partial(self._found, item.key, item.uid))

    def _tell_ready(self, node: str) -> None:
        """A kubelet that is heard again says of its pods what was taken back while it was silent."""
        for item in self.store.shelf(PODS).on_node(node):

            def change(pod: Obj) -> bool:
                held = {c["type"]: c["status"] for c in pod["status"].get("conditions") or ()}
                if pod["status"].get("phase") != "Running" or held.get("Ready") != "False":
                    return False
                set_condition(
                    pod["status"], self.store.now(), type="Ready", status="True", lastProbeTime=None
                )
                return True

            self.store.modify(PODS, item.key, change)

    def _found(self, key: Key, uid: str) -> None:
        pod = self._pod(key, uid)
        if pod is None or not self.machines.alive(pod["spec"]["nodeName"]):
            return
        if pod["metadata"].get("deletionTimestamp"):
            self._end(key, uid)
        elif key in self._timers:
            return
        elif pod["status"].get("phase") == "Pending":
            self._admit(key, uid)
        elif pod["status"].get("phase") == "Running" and run_time(pod) is not None:
            self._finish(key, uid)  # it ended while nothing was heard of its node

    def _pod(self, key: Key, uid: str) -> Obj | None:
        pod = self.store.get(PODS, *key)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _forget(self, key: Key) -> None:
        _, timer = self._timers.pop(key, ("", None))
        if timer is not None:
            timer.cancel()

    def _admit(self, key: Key, uid: str) -> None:
        wait = self.settings.scaled(self.rng.uniform(*self.settings.pod_start))
        self._forget(key)
        self._timers[key] = (uid, self.agenda.after(wait, lambda: self._start(key, uid)))

    def _start(self, key: Key, uid: str) -> None:
        self._timers.pop(key, None)
        pod = self._pod(key, uid)
        if pod is None or pod["status"].get("phase") != "Pending" or pod["metadata"].get("deletionTimestamp"):
            return
        if not self.machines.alive(pod["spec"]["nodeName"]):
            return
        node = self.store.get(NODES, "", pod["spec"]["nodeName"]) or {}
        run(pod, node, self.store.now())
        self.store.update(PODS, pod)
        names = ", ".join(each["name"] for each in pod["spec"]["containers"])
        self.recorder.tell(PODS, pod, "Started", f"Started container {names}", "kubelet")
        seconds = run_time(pod)
        if seconds is not None:
            timer = self.agenda.after(self.settings.scaled(seconds), lambda: self._finish(key, uid))
            self._timers[key] = (uid, timer)

    def _finish(self, key: Key, uid: str) -> None:
        self._timers.pop(key, None)
        pod = self._pod(key, uid)
        if pod is None or not self.machines.alive(pod["spec"]["nodeName"]):
            return
        failed = (pod["metadata"].get("annotations") or {}).get(FAIL) == "true"
        finish(pod, self.store.now(), failed=failed)
        self.store.update(PODS, pod)

    def _end(self, key: Key, uid: str) -> None:
        """Begin to stop a pod that is to be deleted; a shorter grace later on ends it at once."""
        pod = self._pod(key, uid)
        if pod is None or (key, uid) in self._ending:
            return
        self._ending.add((key, uid))
        self._forget(key)
        grace = min(pod["metadata"].get("deletionGracePeriodSeconds") or 0, 1)
        if pod["status"].get("phase") == "Running":
            names = ", ".join(each["name"] for each in pod["spec"]["containers"])
            self.recorder.tell(PODS, pod, "Killing", f"Stopping container {names}", "kubelet")
        self.agenda.after(self.settings.scaled(grace), lambda: self._confirm(key, uid))

    def _confirm(self, key: Key, uid: str) -> None:
        self._ending.discard((key, uid))
        pod = self._pod(key, uid)
        if pod is None or not self.machines.alive(pod["spec"]["nodeName"]):
            return
        try:
            self.store.delete(PODS, key, grace=0, uid=uid)
        except ApiError:
            return


def _is_ready(node: Obj) -> bool:
    held = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in held)


def run(pod: Obj, node: Obj, now: str) -> None:
    """The status of a pod that has just started."""
    status = pod["status"]
    number = hash_of(pod["metadata"]["uid"])
    address = f"10.42.{number % 250}.{number // 250 % 250 + 2}"
    host = next(
        (
            a["address"]
            for a in (node.get("status") or {}).get("addresses") or ()
            if a["type"] == "InternalIP"
        ),
        "",
    )
    status |= {"phase": "Running", "startTime": now, "podIP": address, "podIPs": [{"ip": address}]}
    if host:
        status |= {"hostIP": host, "hostIPs": [{"ip": host}]}
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        set_condition(status, now, type=kind, status="True", lastProbeTime=None)
    status["containerStatuses"] = [
        {
            "name": each["name"],
            "image": each.get("image", ""),
            "imageID": f"sandbox/{each.get('image', '')}@sha256:{hash_of(each.get('image', '')):064x}",
            "containerID": f"containerd://{hash_of(pod['metadata']['uid'] + each['name']):064x}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
            "lastState": {},
        }
        for each in pod["spec"]["containers"]
    ]
    status.pop("reason", None)
    status.pop("message", None)


def finish(pod: Obj, now: str, *, failed: bool) -> None:
    """The status of a pod that has ended by itself."""
    status = pod["status"]
    status["phase"] = "Failed" if failed else "Succeeded"
    for kind in ("Ready", "ContainersReady"):
        set_condition(status, now, type=kind, status="False", reason="PodCompleted", lastProbeTime=None)
    for each in status.get("containerStatuses") or ():
        began = (each.get("state", {}).get("running") or {}).get("startedAt", now)
        code, reason = (1, "Error") if failed else (0, "Completed")
        over = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now}
        each |= {"ready": False, "started": False, "state": {"terminated": over}}
