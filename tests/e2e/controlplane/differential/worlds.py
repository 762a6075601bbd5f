"""Worlds and cases: what is there, and one pod that waits in it, as plain manifests.

A manifest is what is sent to the API server. What cannot be sent at once (a bound pod that is being
deleted, or has finished; a claim that is being deleted) is told in the annotation `STATE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]

STATE = "differential/state"
TERMINATING, FINISHED, FAILED, RESIZED = "terminating", "finished", "failed", "resized"
STATUS = "differential/status"  # of one that is resized
HELD = "differential/held"  # the finalizer of what is being deleted
CASE = "differential"  # the label of pods that are judged

# Nobody here deletes namespaces, so they are always the same; selectors choose between them by label.
NAMESPACES: dict[str, dict[str, str]] = {
    "diff-a": {"team": "red", "env": "prod"},
    "diff-b": {"team": "blue", "env": "prod"},
    "diff-c": {},
}
# In the order in which they are made; taken away the other way round.
PATHS = {
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Node": "/api/v1/nodes",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
}


@dataclass(frozen=True)
class World:
    nodes: tuple[Json, ...] = ()
    pods: tuple[Json, ...] = ()  # bound ones
    objects: tuple[Json, ...] = ()  # volumes and the like

    def everything(self) -> Iterator[Json]:
        yield from self.objects
        yield from self.nodes
        yield from self.pods


@dataclass(frozen=True)
class Case:
    world: World
    pod: Json
    objects: tuple[Json, ...] = ()  # that were made for this pod
    refused: bool = False  # judged only: binding it would change volumes, and take seconds

    def with_pod(self, pod: Json) -> Case:
        return replace(self, pod=pod)


def collection(manifest: Json) -> str:
    return PATHS[manifest["kind"]].format(namespace=manifest["metadata"].get("namespace", ""))


def path(manifest: Json) -> str:
    return f"{collection(manifest)}/{manifest['metadata']['name']}"


def state(manifest: Json) -> str:
    return str((manifest["metadata"].get("annotations") or {}).get(STATE, ""))


def named(manifest: Json) -> str:
    meta = manifest["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else str(meta["name"])
