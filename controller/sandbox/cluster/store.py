"""The objects: one global resourceVersion, optimistic writes, and a history of changes.

Followers are told of every change in order; they never write while being told, they put work on the
agenda. How things go away is in `removal`.

Outside quirks kept: an update that changes nothing is no event; a version of 0 is none; an update that
takes the last finalizer off what is being deleted deletes it, and its watchers see the state before.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from controller.sandbox.cluster import errors, removal
from controller.sandbox.cluster.resources import DEPLOYMENTS, Obj, Resource, storage
from controller.sandbox.cluster.shelf import FIRST_VERSION, Change, Item, Key, Shelf
from controller.sandbox.cluster.stamps import stamp

_encode = msgspec.json.Encoder().encode
ON_CREATE = "resourceVersion should not be set on objects to be created"


def _counted(resource: Resource, obj: Obj) -> Any:
    """What a change of counts as a new generation; a Deployment's annotations are told to its sets."""
    told = obj["metadata"].get("annotations") if resource is DEPLOYMENTS else None
    return obj.get("spec"), told or None


class Store:
    def __init__(self, clock: Callable[[], float], rng: random.Random, window: int = 4000) -> None:
        self.clock = clock
        self.rng = rng
        self.version = FIRST_VERSION
        self.window = window
        self.shelves: dict[Resource, Shelf] = {}
        self.dependents: dict[str, set[tuple[Resource, Key]]] = {}  # owner's uid -> objects

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
        if meta.get("resourceVersion") not in (None, "", "0"):
            raise errors.internal(ON_CREATE)
        held = self.shelf(resource).items.get(key)
        if held is not None:
            leaving = bool(held.decode()["metadata"].get("deletionTimestamp"))
            raise errors.already_exists(resource, meta["name"], leaving=leaving)
        meta.setdefault("uid", self.new_uid())
        meta["creationTimestamp"] = self.now()
        for leftover in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            meta.pop(leftover, None)
        if resource.counted:
            meta["generation"] = 1
        return self.commit(resource, "ADDED", obj, None, dry)

    def update(self, resource: Resource, obj: Obj, *, dry: bool = False, counts: bool = True) -> Obj:
        """Replace an object; refused when it carries a resourceVersion that is not the newest."""
        meta = obj["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        before = self.shelf(resource).items.get(key)
        if before is None:
            raise errors.not_found(resource, meta["name"])
        self.check_version(resource, meta, before)
        old = before.decode()
        for kept in removal.KEPT:
            meta.pop(kept, None)
            if kept in old["metadata"]:
                meta[kept] = old["metadata"][kept]
        meta["resourceVersion"] = str(before.version)
        if obj == old:
            return old
        if counts and "generation" in meta and _counted(resource, obj) != _counted(resource, old):
            meta["generation"] += 1
        if removal.finished(meta):
            # Watchers are told of the state that was there, the writer of the one it wanted.
            self.commit(resource, "DELETED", old, before, dry)
            return obj
        return self.commit(resource, "MODIFIED", obj, before, dry)

    @staticmethod
    def check_version(resource: Resource, meta: Obj, before: Item) -> None:
        wanted = meta.get("resourceVersion") or "0"
        if not wanted.isdigit():
            raise errors.internal(f'strconv.ParseUint: parsing "{wanted}": invalid syntax')
        if wanted not in ("0", str(before.version)):
            raise errors.conflict(resource, meta["name"])

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
        uid: str | None = None,
        version: str | None = None,
        propagation: str = "Background",
        dry: bool = False,
    ) -> tuple[Obj, bool]:
        """Delete or begin to; the object as it was last, and whether it is gone."""
        before = self.shelf(resource).items.get(key)
        if before is None:
            raise errors.not_found(resource, key[1])
        removal.check(resource, before, uid, version)
        obj = before.decode()
        step = removal.step(resource, obj, grace, propagation, self.clock())
        if step.changed:
            obj = self.commit(resource, "MODIFIED", obj, before, dry)
        if not step.gone:
            return obj, False
        if dry:
            return obj, True
        last = self.shelf(resource).items[key]
        return self.commit(resource, "DELETED", last.decode(), last, dry), True

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
