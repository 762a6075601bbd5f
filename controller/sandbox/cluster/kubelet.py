"""The machine side: a machine boots, its Node appears, gets Ready, and its GPUs appear later still.

Quirks kept: a Node of the same name that exists keeps its providerID, taints and own labels; forbidden
labels mean that the machine never joins; a running kubelet does not bring back a deleted Node, a
restarted one does; a kubelet that is silent confirms no deletion. Pods are the business of `pods.py`.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field

from controller.domain.node_labels import WELL_KNOWN
from controller.sandbox.cluster import nodeinfo
from controller.sandbox.cluster.agenda import Agenda, Timer, Work
from controller.sandbox.cluster.conditions import set_condition
from controller.sandbox.cluster.creating import new_object
from controller.sandbox.cluster.join import Join, Machine, refused_labels
from controller.sandbox.cluster.nodeinfo import GPU
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.resources import LEASES, NODES, Obj
from controller.sandbox.cluster.settings import Range, Settings, first_matching, matching
from controller.sandbox.cluster.shelf import Change
from controller.sandbox.cluster.stamps import micro_stamp
from controller.sandbox.cluster.store import Store

log = logging.getLogger(__name__)


@dataclass
class Kubelet:
    """One machine that is on, from its boot to its end."""

    machine: Machine
    join: Join
    phase: str = "booting"  # booting, refused, registered, ready, gpus, deleted (its Node), silent
    node_uid: str = ""
    was_ready: bool = False
    gpus_seen: bool = False
    gpus_withheld: bool = False
    timers: list[Timer] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        return self.phase in ("registered", "ready", "gpus")


class Machines:
    def __init__(
        self, store: Store, agenda: Agenda, recorder: Recorder, settings: Settings, rng: random.Random
    ) -> None:
        self.store = store
        self.agenda = agenda
        self.recorder = recorder
        self.settings = settings
        self.rng = rng
        self.on: dict[str, Kubelet] = {}  # by machine id
        self.by_node: dict[str, Kubelet] = {}
        self.silent: dict[str, Kubelet] = {}  # by node, as it was: its machine is off or gone
        self.log: list[str] = []
        store.follow(NODES, self._node_changed)

    # ---- machines come and go

    def boot(self, machine: Machine) -> None:
        """A machine is running now; without join parameters it never meets the cluster."""
        if machine.id in self.on or machine.join is None:
            return
        kubelet = self.on[machine.id] = Kubelet(machine, machine.join)
        before = self.silent.get(machine.join.node)
        if before is not None and before.machine.id == machine.id:  # it was off; its disk remembers
            kubelet.node_uid, kubelet.was_ready = before.node_uid, before.was_ready
        self._later(kubelet, self.settings.boot, lambda: self._register(kubelet))

    def gone(self, machine_id: str) -> None:
        """A machine is off or deleted: from here on nothing is heard of it."""
        kubelet = self.on.pop(machine_id, None)
        if kubelet is None:
            return
        for timer in kubelet.timers:
            timer.cancel()
        was_alive, kubelet.phase = kubelet.alive, "silent"
        name = kubelet.join.node
        if self.by_node.get(name) is kubelet:
            del self.by_node[name]
            was_alive = was_alive and not self._hand_over(name)
        if was_alive and name not in self.by_node:
            self.silent[name] = kubelet
            wait = self.settings.scaled(self.settings.node_grace)
            self.agenda.after(wait, lambda: self._fall_silent(name))

    def _hand_over(self, name: str) -> bool:
        """Where two machines wrote to one Node, the one that is left goes on writing; whether there is one."""
        left = [one for one in self.on.values() if one.alive and one.join.node == name]
        for kubelet in left[:1]:
            self.by_node[name] = kubelet
            if kubelet.phase != "registered":
                self._set_ready(name)
            self.write_gpus(kubelet)
        return bool(left)

    def restart(self, machine_id: str) -> None:
        """The kubelet starts again: a Node that was deleted comes back."""
        kubelet = self.on.get(machine_id)
        if kubelet is not None:
            for timer in kubelet.timers:
                timer.cancel()
            kubelet.phase, kubelet.gpus_seen = "booting", False
            self._register(kubelet)

    def alive(self, node: str) -> bool:
        """Whether pods of a node are looked after: by its machine, or because it was made by hand."""
        if node in self.by_node:
            return self.by_node[node].alive
        known = self.store.item(NODES, "", node) is not None
        return self.settings.adopt_nodes and known and node not in self.silent

    # ---- the life of a node

    def _later(self, kubelet: Kubelet, span: Range, work: Work) -> None:
        timer = self.agenda.after(self.settings.scaled(self.rng.uniform(*span)), work)
        kubelet.timers = [*kubelet.timers[-3:], timer]

    def _say(self, text: str) -> None:
        self.log = [*self.log[-199:], f"{self.store.now()} {text}"]
        log.info("%s", text)

    def _register(self, kubelet: Kubelet) -> None:
        join, name = kubelet.join, kubelet.join.node
        bad = refused_labels(join.labels)
        if bad:
            kubelet.phase = "refused"
            self._say(
                f"kubelet of {kubelet.machine.hostname} exits: --node-labels in the 'kubernetes.io' namespace "
                f"must begin with an allowed prefix or be in the specifically allowed set: {', '.join(bad)}"
            )
            return
        # One that was in the cluster before has its credentials and its network, and only starts again.
        if not kubelet.node_uid and matching(kubelet.machine.hostname, self.settings.never_join):
            kubelet.phase = "refused"
            self._say(f"kubelet of {kubelet.machine.hostname} cannot reach the cluster")
            return
        made = nodeinfo.node(kubelet.machine, join, self.settings, self.store.now())
        old = self.store.get(NODES, "", name)
        stored = new_object(self.store, NODES, made) if old is None else self._take_over(old, made)
        kubelet.node_uid, kubelet.phase = stored["metadata"]["uid"], "registered"
        self.by_node[name] = kubelet
        self.silent.pop(name, None)
        self._event(name, "Starting", "Starting kubelet.", "kubelet")
        text = f"Node {name} event: Registered Node {name} in Controller"
        self._event(name, "RegisteredNode", text, "node-controller")
        self._beat(kubelet)
        if kubelet.was_ready or not matching(kubelet.machine.hostname, self.settings.never_ready):
            self._later(kubelet, self.settings.ready, lambda: self._get_ready(kubelet))

    def _take_over(self, old: Obj, made: Obj) -> Obj:
        """The object keeps its identity; only well-known labels and the status follow the kubelet."""
        labels = made["metadata"]["labels"]
        ours = {key: value for key, value in labels.items() if key in WELL_KNOWN}
        old["metadata"]["labels"] = (old["metadata"].get("labels") or {}) | ours
        for figures in ("capacity", "allocatable"):
            # Extended resources are zero until their plug-in is heard again.
            held = old.get("status", {}).get(figures) or {}
            made["status"][figures] |= {key: "0" for key in held if "/" in key}
        old["status"] = made["status"]
        return self.store.update(NODES, old)

    def _event(self, name: str, reason: str, text: str, source: str) -> None:
        node = self.store.get(NODES, "", name)
        if node is not None:
            self.recorder.tell(NODES, node, reason, text, source)

    def _set_ready(self, name: str) -> bool:
        def change(node: Obj) -> None:
            set_conditions(
                node["status"], nodeinfo.conditions(self.store.now(), is_ready=True), self.store.now()
            )

        return self.store.modify(NODES, ("", name), change) is not None

    def _get_ready(self, kubelet: Kubelet) -> None:
        if not self._set_ready(kubelet.join.node):
            return
        kubelet.phase, kubelet.was_ready = "ready", True
        name = kubelet.join.node
        self._event(name, "NodeReady", f"Node {name} status is now: NodeReady", "kubelet")
        if kubelet.machine.gpus:
            self._later(kubelet, self.settings.gpu, lambda: self._show_gpus(kubelet))

    def _show_gpus(self, kubelet: Kubelet) -> None:
        kubelet.gpus_withheld = matching(kubelet.machine.hostname, self.settings.gpus_never)
        if kubelet.gpus_withheld:
            return
        kubelet.phase, kubelet.gpus_seen = "gpus", True
        self.write_gpus(kubelet)
        after = self.settings.scaled(self.settings.gpus_lost_after)
        if after and first_matching(kubelet.machine.hostname, self.settings.gpus_lost):
            kubelet.timers.append(self.agenda.after(after, lambda: self.write_gpus(kubelet, lose=True)))

    def write_gpus(self, kubelet: Kubelet, *, lose: bool = False) -> None:
        """Write what the plug-in lists, as the settings have it now."""
        if not (kubelet.alive and kubelet.gpus_seen):
            return
        host, settings = kubelet.machine.hostname, self.settings
        found = first_matching(host, settings.gpus_fewer)
        whole = first_matching(host, settings.gpus_sliced) or kubelet.machine.gpus
        listed = whole if found is None else min(found, whole)
        lost = first_matching(host, settings.gpus_lost) or 0
        if settings.gpus_lost_after and not lose:
            lost = 0

        def change(node: Obj) -> None:
            node["status"]["capacity"][GPU] = str(listed)
            node["status"]["allocatable"][GPU] = str(max(0, listed - lost))

        self.store.modify(NODES, ("", kubelet.join.node), change)

    def settings_changed(self) -> None:
        """GPUs may be lost or found on nodes that run."""
        for kubelet in self.on.values():
            if kubelet.alive and kubelet.gpus_withheld:
                self._show_gpus(kubelet)
            else:
                self.write_gpus(kubelet)

    # ---- heartbeats

    def _beat(self, kubelet: Kubelet) -> None:
        """Renew the node's Lease; it belongs to the Node and goes with it."""
        if not kubelet.alive or self.settings.heartbeat <= 0:
            return
        name, now = kubelet.join.node, micro_stamp(self.store.clock())
        if self.store.item(LEASES, "kube-node-lease", name) is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": kubelet.node_uid}
            meta = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
            self.store.create(LEASES, {"metadata": meta, "spec": spec})
        else:
            self.store.modify(
                LEASES, ("kube-node-lease", name), lambda lease: lease["spec"].update(renewTime=now)
            )
        timer = self.agenda.after(self.settings.heartbeat, lambda: self._beat(kubelet))
        kubelet.timers = [*kubelet.timers[-3:], timer]

    def _fall_silent(self, name: str) -> None:
        if name not in self.silent:
            return  # the machine is back

        def change(node: Obj) -> None:
            node["status"]["conditions"] = nodeinfo.unknown(node["status"]["conditions"], self.store.now())

        if self.store.modify(NODES, ("", name), change) is not None:
            self._event(name, "NodeNotReady", f"Node {name} status is now: NodeNotReady", "node-controller")

    def _node_changed(self, change: Change) -> None:
        if change.verb != "DELETED":
            return
        name = change.item.key[1]
        self.silent.pop(name, None)
        kubelet = self.by_node.get(name)
        if kubelet is not None and kubelet.node_uid == change.item.uid:
            kubelet.phase = "deleted"
            for timer in kubelet.timers:
                timer.cancel()


def set_conditions(status: Obj, new: list[Obj], now: str) -> None:
    for each in new:
        set_condition(status, now, **{k: v for k, v in each.items() if k != "lastTransitionTime"})
