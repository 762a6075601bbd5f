"""Namespaces: what each one is furnished with, and that it is emptied before it goes."""

from __future__ import annotations

from controller.sandbox.cluster import errors
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.options import DeleteOptions
from controller.sandbox.cluster.removal import check
from controller.sandbox.cluster.resources import NAMESPACES, RESOURCES, Obj
from controller.sandbox.cluster.shelf import Key
from controller.sandbox.cluster.store import Store

KEPT = ("default", "kube-system", "kube-public", "kube-node-lease")
AGAIN = 0.2


class Namespaces:
    def __init__(self, store: Store, agenda: Agenda) -> None:
        self.store = store
        self.agenda = agenda

    def delete(self, key: Key, options: DeleteOptions) -> tuple[Obj, bool]:
        held = self.store.item(NAMESPACES, *key)
        if held is None:
            raise errors.not_found(NAMESPACES, key[1])
        if key[1] in KEPT[:3]:
            raise errors.forbidden(NAMESPACES, key[1], "this namespace may not be deleted")
        check(NAMESPACES, held, options.uid, options.version)
        obj = held.decode()
        if obj["metadata"].get("deletionTimestamp"):
            return obj, False
        obj["status"]["phase"] = "Terminating"
        obj["metadata"]["deletionTimestamp"] = self.store.now()
        made = self.store.commit(NAMESPACES, "MODIFIED", obj, held, options.dry)
        if not options.dry:
            self.agenda.soon(("namespace", key[1]), lambda: self._empty(key))
        return made, False

    def _empty(self, key: Key) -> None:
        left = 0
        for resource in RESOURCES:
            if not resource.namespaced or resource.stored_as:
                continue
            for item in list(self.store.shelf(resource).span(key[1])):
                left += not self.store.delete(resource, item.key)[1]
        if left:
            self.agenda.after(AGAIN, lambda: self._empty(key))
        elif (held := self.store.item(NAMESPACES, *key)) is not None:
            self.store.commit(NAMESPACES, "DELETED", held.decode(), held, False)
