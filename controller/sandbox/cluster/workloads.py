"""Which owner of pods has to look again, and when: DaemonSets, Jobs, ReplicaSets and Deployments.

A change of an owner is looked at at once, what becomes of its pods a moment later and together.
StatefulSets and CronJobs are stored only.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.daemonsets import DaemonSets
from controller.sandbox.cluster.jobs import Jobs
from controller.sandbox.cluster.making import PodMaker
from controller.sandbox.cluster.recorder import Recorder
from controller.sandbox.cluster.replicas import Replicas
from controller.sandbox.cluster.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    Obj,
    Resource,
)
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shelf import Change, Key
from controller.sandbox.cluster.store import Store

COUNTED_AFTER = 0.05  # seconds of the clock


class Workloads:
    def __init__(self, store: Store, agenda: Agenda, recorder: Recorder, settings: Settings) -> None:
        self.store = store
        self.agenda = agenda
        self._owners: dict[str, tuple[Resource, Key]] = {}  # uid -> who makes pods
        self._counting: set[str] = set()
        maker = PodMaker(store, recorder)
        self.jobs = Jobs(maker, agenda, settings, lambda key: self._due(JOBS, key))
        replicas = Replicas(maker)
        self._steps: dict[Resource, Callable[[Obj], None]] = {
            DAEMON_SETS: DaemonSets(maker).step,
            JOBS: self.jobs.step,
            REPLICA_SETS: replicas.replica_set,
            DEPLOYMENTS: replicas.deployment,
        }
        for resource in self._steps:
            store.follow(resource, self._owner_changed)
        store.follow(PODS, self._pod_changed)
        store.follow(NODES, self._node_changed)

    # ---- following the store

    def _owner_changed(self, change: Change) -> None:
        if change.verb == "DELETED":
            self._owners.pop(change.item.uid, None)
            self.jobs.forget(change.item.uid)
        else:
            self._owners[change.item.uid] = (change.resource, change.item.key)
            self._due(change.resource, change.item.key)
        for uid in change.item.owners:
            self._owner_due(uid)

    def _pod_changed(self, change: Change) -> None:
        for uid in change.item.owners:
            self._owner_due(uid)

    def _node_changed(self, change: Change) -> None:
        if change.before is not None and change.verb != "DELETED":
            old, new = change.old or {}, change.new
            if change.before.labels == change.item.labels and old.get("spec") == new.get("spec"):
                return
        for key in list(self.store.shelf(DAEMON_SETS).keys):
            self._due(DAEMON_SETS, key)

    def _owner_due(self, uid: str) -> None:
        """What became of a pod is counted a moment later: a thousand pods of a Job start as many times."""
        found = self._owners.get(uid)
        if found is None or uid in self._counting:
            return
        self._counting.add(uid)

        def count() -> None:
            self._counting.discard(uid)
            self._due(*found)

        self.agenda.after(COUNTED_AFTER, count)

    def _due(self, resource: Resource, key: Key) -> None:
        self.agenda.soon((resource.plural, key), lambda: self._step(resource, key))

    def _step(self, resource: Resource, key: Key) -> None:
        owner = self.store.get(resource, *key)
        if owner is not None and not owner["metadata"].get("deletionTimestamp"):
            self._steps[resource](owner)
