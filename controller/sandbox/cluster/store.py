"""The objects: one global resourceVersion, optimistic writes, and deletion in its stages.

Followers are told of every change in order; they never write while being told, they put work on the
agenda.

Outside quirks kept: a pod that is not bound, or that has finished, goes at once whatever its grace; a
finalizer holds an object until the last one is taken off; an update that changes nothing is no event.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from controller.sandbox.cluster import errors
from controller.sandbox.cluster.resources import PODS, Obj, Resource, storage
from controller.sandbox.cluster.shelf import FIRST_VERSION, Change, Item, Key, Shelf
from controller.sandbox.cluster.stamps import stamp

_encode = msgspec.json.Encoder().encode
NO_GENERATION = {"Node", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim", "Lease"}


class Store:
    def __init__(self, clock: Callable[[], float], rng: random.Random, window: int = 4000) -> None:
        self.clock = clock
        self.rng = rng
        self.version = FIRST_VERSION
        self.window = window
        self.shelves: dict[Resource, Shelf] = {}
        self.dependents: dict[str, set[tuple[Resource, Key]]] = {}  # owner's uid -> objects
        self.orphaning: set[str] = set()  # owners that were deleted with propagation Orphan

    def shelf(self, resource: Resource) -> Shelf:
        resource = storage(resource)
        if resource not in self.shelves:
            self.shelves[resource] = Shelf(resource, self.window)
        return self.shelves[resource]

    def follow(self, resource: Resource, told: Callable[[Change], None]) -> None:
        self.shelf(resource).followers.append(told)

    def now(self) -> str:
        return stamp(self.clock())

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    # ---- reading

    def item(self, resource: Resource, namespace: str, name: str) -> Item | None:
        return self.shelf(resource).items.get((namespace, name))

    def get(self, resource: Resource, namespace: str, name: str) -> Obj | None:
        found = self.item(resource, namespace, name)
        return found.decode() if found else None

    def every(self, resource: Resource, namespace: str = "") -> list[Obj]:
        return [item.decode() for item in self.shelf(resource).span(namespace)]

    # ---- writing

    def create(self, resource: Resource, obj: Obj, *, dry: bool = False) -> Obj:
        meta = obj.setdefault("metadata", {})
        key = (meta.get("namespace", ""), meta["name"])
        if key in self.shelf(resource).items:
            raise errors.already_exists(resource, meta["name"])
        meta.setdefault("uid", self.new_uid())
        meta["creationTimestamp"] = self.now()
        for leftover in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(leftover, None)
        if "spec" in obj and resource.kind not in NO_GENERATION:
            meta["generation"] = 1
        return self.commit(resource, "ADDED", obj, None, dry)

    def update(self, resource: Resource, obj: Obj, *, dry: bool = False) -> Obj:
        """Replace an object; refused when it carries a resourceVersion that is not the newest."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        before = self.shelf(resource).items.get(key)
        if before is None:
            raise errors.not_found(resource, meta["name"])
        wanted = meta.get("resourceVersion") or str(before.version)
        if wanted != str(before.version):
            raise errors.conflict(resource, meta["name"])
        old = before.decode()
        if meta.get("uid") not in (None, "", before.uid):
            text = (
                f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {before.uid}"
            )
            raise errors.conflict(resource, meta["name"], text)
        for kept in (
            "uid",
            "creationTimestamp",
            "generation",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            meta.pop(kept, None)
            if kept in old["metadata"]:
                meta[kept] = old["metadata"][kept]
        meta["resourceVersion"] = str(before.version)
        if obj == old:
            return old
        if obj.get("spec") != old.get("spec") and "generation" in meta:
            meta["generation"] += 1
        if (
            meta.get("deletionTimestamp")
            and not meta.get("finalizers")
            and not meta.get("deletionGracePeriodSeconds")
        ):
            return self.commit(resource, "DELETED", obj, before, dry)
        return self.commit(resource, "MODIFIED", obj, before, dry)

    def modify(self, resource: Resource, key: Key, change: Callable[[Obj], Any]) -> Obj | None:
        """Read, let `change` edit in place, write; None where the object is gone or `change` says False."""
        obj = self.get(resource, *key)
        if obj is None or change(obj) is False:
            return None
        return self.update(resource, obj)

    def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        grace: int | None = None,
        uid: str = "",
        version: str = "",
        propagation: str = "",
        dry: bool = False,
    ) -> tuple[Obj, bool]:
        """Delete or begin to; the object as it is now, and whether it is gone."""
        before = self.shelf(resource).items.get(key)
        if before is None:
            raise errors.not_found(resource, key[1])
        for what, wanted, found in (
            ("UID", uid, before.uid),
            ("ResourceVersion", version, str(before.version)),
        ):
            if wanted and wanted != found:
                why = f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
                raise errors.conflict(resource, key[1], why)
        obj = before.decode()
        meta = obj["metadata"]
        seconds = self._grace(obj, grace) if resource is PODS else 0
        left = meta.get("deletionGracePeriodSeconds")
        if meta.get("deletionTimestamp") and left is not None:
            seconds = min(seconds, left)  # a grace can only be shortened
        if propagation == "Orphan" and not dry:
            self.orphaning.add(before.uid)
        if not seconds and not meta.get("finalizers"):
            return self.commit(resource, "DELETED", obj, before, dry), True
        if meta.get("deletionTimestamp") and left == seconds:
            return obj, False
        meta["deletionTimestamp"] = stamp(self.clock() + seconds)
        meta["deletionGracePeriodSeconds"] = seconds
        return self.commit(resource, "MODIFIED", obj, before, dry), False

    @staticmethod
    def _grace(pod: Obj, asked: int | None) -> int:
        spec = pod.get("spec", {})
        if not spec.get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        return max(0, asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30))

    def commit(self, resource: Resource, verb: str, obj: Obj, before: Item | None, dry: bool) -> Obj:
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        meta = obj["metadata"]
        if dry:
            return obj
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        if next(iter(obj)) != "metadata":
            obj = {"metadata": meta, **obj}
        shelf = self.shelf(resource)
        item = Item((meta.get("namespace", ""), meta["name"]), self.version, obj, _encode(obj))
        change = Change(shelf.resource, verb, item, before, obj)
        shelf.place(change)
        self._index_owners(shelf.resource, item, before, verb)
        for told in list(shelf.followers):
            told(change)
        change.forget_decoded()
        return obj

    def _index_owners(self, resource: Resource, item: Item, before: Item | None, verb: str) -> None:
        old = before.owners if before else ()
        new = () if verb == "DELETED" else item.owners
        if old == new:
            return
        for uid in set(old) - set(new):
            held = self.dependents.get(uid, set())
            held.discard((resource, item.key))
            if not held:
                self.dependents.pop(uid, None)
        for uid in new:
            self.dependents.setdefault(uid, set()).add((resource, item.key))
