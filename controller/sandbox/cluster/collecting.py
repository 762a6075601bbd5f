"""The collector of garbage: what owners leave behind, and what finalizers of its own wait for.

An owner that is gone takes what it owned along, in the background; one that is deleted with `orphan` lets
go of it first; one deleted in the foreground waits for what blocks it. Claims and volumes are protected
until no pod uses them.
"""

from __future__ import annotations

from functools import partial

from controller.sandbox.cluster.admission import PROTECTED
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.errors import ApiError
from controller.sandbox.cluster.removal import FOREGROUND, ORPHAN
from controller.sandbox.cluster.resources import CLAIMS, PODS, RESOURCES, VOLUMES, Obj, Resource, storage
from controller.sandbox.cluster.shelf import Change, Key
from controller.sandbox.cluster.store import Store

FINISHED = ("Succeeded", "Failed")


class Collector:
    def __init__(self, store: Store, agenda: Agenda) -> None:
        self.store = store
        self.agenda = agenda
        self._held: dict[str, tuple[Resource, Key]] = {}  # owners that wait for what they own, by uid
        for resource in {storage(each) for each in RESOURCES if "get" in each.verbs}:
            store.follow(resource, self._changed)
        store.follow(PODS, self._pod_changed)

    def _changed(self, change: Change) -> None:
        uid, key = change.item.uid, change.item.key
        if change.verb == "DELETED":
            if uid in self.store.dependents:
                self.agenda.soon(("dependents", uid), lambda: self._release(uid))
            self._held.pop(uid, None)
            for owner in change.item.owners:
                if owner in self._held:
                    held = self._held[owner]
                    self.agenda.soon(("finalizers", *held), partial(self._finalize, *held))
            return
        if change.resource is VOLUMES and change.verb == "ADDED":
            self.agenda.soon(("available", key), lambda: self._available(key))
        if b'"deletionTimestamp"' in change.item.raw and b'"finalizers"' in change.item.raw:
            self.agenda.soon(
                ("finalizers", change.resource, key), partial(self._finalize, change.resource, key)
            )

    # ---- finalizers

    def _finalize(self, resource: Resource, key: Key) -> None:
        obj = self.store.get(resource, *key)
        if obj is None or not obj["metadata"].get("deletionTimestamp"):
            return
        meta = obj["metadata"]
        held = meta.get("finalizers") or []
        if ORPHAN in held:
            self._let_go(meta["uid"])
            self._take_off(resource, key, ORPHAN)
        elif FOREGROUND in held:
            self._held[meta["uid"]] = (resource, key)
            if not self._blocking(meta["uid"]):
                self._take_off(resource, key, FOREGROUND)
        elif resource in PROTECTED and PROTECTED[resource] in held and not self._used(resource, obj):
            self._take_off(resource, key, PROTECTED[resource])

    def _take_off(self, resource: Resource, key: Key, finalizer: str) -> None:
        def change(obj: Obj) -> None:
            left = [each for each in obj["metadata"].get("finalizers") or () if each != finalizer]
            obj["metadata"]["finalizers"] = left
            if not left:
                del obj["metadata"]["finalizers"]

        self.store.modify(resource, key, change)

    def _blocking(self, uid: str) -> bool:
        """Delete what is owned; whether any of it still blocks its owner."""
        blocked = False
        for resource, key in self._owned(uid):
            item = self.store.item(resource, *key)
            if item is None:
                continue
            refs = item.decode()["metadata"].get("ownerReferences") or []
            self._delete(resource, key)
            still = self.store.item(resource, *key) is not None
            blocked = blocked or (
                still and any(r["uid"] == uid and r.get("blockOwnerDeletion") for r in refs)
            )
        return blocked

    # ---- dependents

    def _owned(self, uid: str) -> list[tuple[Resource, Key]]:
        return sorted(self.store.dependents.get(uid, set()), key=lambda held: (held[0].plural, held[1]))

    def _let_go(self, uid: str) -> None:
        for resource, key in self._owned(uid):

            def release(obj: Obj) -> None:
                meta = obj["metadata"]
                meta["ownerReferences"] = [r for r in meta.get("ownerReferences") or () if r["uid"] != uid]
                if not meta["ownerReferences"]:
                    del meta["ownerReferences"]

            self.store.modify(resource, key, release)

    def _release(self, uid: str) -> None:
        """The owner is gone; a second owner keeps an object alive."""
        for resource, key in self._owned(uid):
            item = self.store.item(resource, *key)
            if item is not None and len(item.owners) > 1:
                self._drop(resource, key, uid)
            elif item is not None:
                self._delete(resource, key)

    def _drop(self, resource: Resource, key: Key, uid: str) -> None:
        def release(obj: Obj) -> None:
            refs = obj["metadata"].get("ownerReferences") or []
            obj["metadata"]["ownerReferences"] = [ref for ref in refs if ref["uid"] != uid]

        self.store.modify(resource, key, release)

    def _delete(self, resource: Resource, key: Key) -> None:
        try:
            self.store.delete(resource, key)
        except ApiError:
            return

    # ---- volumes

    def _pod_changed(self, change: Change) -> None:
        if change.verb == "DELETED" and b'"persistentVolumeClaim"' in change.item.raw:
            namespace = change.item.key[0]
            for item in list(self.store.shelf(CLAIMS).span(namespace)):
                if b'"deletionTimestamp"' in item.raw:
                    self._finalize(CLAIMS, item.key)

    def _used(self, resource: Resource, obj: Obj) -> bool:
        meta = obj["metadata"]
        if resource is VOLUMES:
            return bool((obj.get("status") or {}).get("phase") == "Bound")
        return any(
            (volume.get("persistentVolumeClaim") or {}).get("claimName") == meta["name"]
            for item in self.store.shelf(PODS).span(meta["namespace"])
            if b'"persistentVolumeClaim"' in item.raw
            for pod in (item.decode(),)
            if pod["status"].get("phase") not in FINISHED
            for volume in pod["spec"].get("volumes") or ()
        )

    def _available(self, key: Key) -> None:
        def change(volume: Obj) -> bool:
            if volume["status"].get("phase") != "Pending" or volume["spec"].get("claimRef"):
                return False
            volume["status"] |= {"phase": "Available", "lastPhaseTransitionTime": self.store.now()}
            return True

        self.store.modify(VOLUMES, key, change)
