"""All objects of one resource, in order, with a bounded history of their changes.

Objects are kept as encoded JSON without kind and apiVersion (which lists leave out too): 30,000 pods are
then 120 MB instead of half a gigabyte, and a page of a list is a join of bytes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from controller.sandbox.cluster.resources import Obj, Resource

Key = tuple[str, str]  # namespace (empty for cluster scope), name
FIRST_VERSION = 1000
_decode = msgspec.json.Decoder(dict).decode


class Item:
    """One stored state of an object."""

    __slots__ = ("key", "labels", "node", "owners", "raw", "uid", "version")

    def __init__(self, key: Key, version: int, obj: Obj, raw: bytes) -> None:
        meta = obj["metadata"]
        self.key = key
        self.version = version
        self.raw = raw
        self.uid: str = meta["uid"]
        self.labels: dict[str, str] = meta.get("labels") or {}
        self.node: str = (obj.get("spec") or {}).get("nodeName") or ""
        refs = meta.get("ownerReferences")
        self.owners: tuple[str, ...] = tuple(ref["uid"] for ref in refs) if refs else ()

    def decode(self) -> Obj:
        return _decode(self.raw)


class Change:
    """One event: `item` is the new state (for a deletion the last one), `before` the state it replaced."""

    __slots__ = ("_new", "_old", "before", "item", "resource", "verb", "version")

    def __init__(
        self, resource: Resource, verb: str, item: Item, before: Item | None, new: Obj | None
    ) -> None:
        self.resource = resource
        self.verb = verb
        self.item = item
        self.before = before
        self.version = item.version
        self._new = new
        self._old: Obj | None = None

    @property
    def new(self) -> Obj:
        if self._new is None:
            self._new = self.item.decode()
        return self._new

    @property
    def old(self) -> Obj | None:
        if self._old is None and self.before is not None:
            self._old = self.before.decode()
        return self._old

    def forget_decoded(self) -> None:
        """History keeps thousands of changes; their decoded forms would weigh five times the bytes."""
        self._new = self._old = None


class Shelf:
    """All objects of one resource, in the order a list gives them."""

    def __init__(self, resource: Resource, window: int) -> None:
        self.resource = resource
        self.items: dict[Key, Item] = {}
        self.keys: list[Key] = []
        self.by_node: dict[str, set[Key]] = {}
        self.window = window
        self.history: deque[Change] = deque()
        self.floor = FIRST_VERSION  # changes up to here are forgotten
        self.followers: list[Callable[[Change], None]] = []

    def span(self, namespace: str = "", after: Key | None = None) -> Iterator[Item]:
        """Items in order, of one namespace or all, from behind a key on."""
        start: Key = (namespace, "")
        position = bisect_left(self.keys, max(start, after) if after else start)
        if after and position < len(self.keys) and self.keys[position] == after:
            position += 1
        for at in range(position, len(self.keys)):
            key = self.keys[at]
            if namespace and key[0] != namespace:
                return
            yield self.items[key]

    def on_node(self, node: str) -> list[Item]:
        return [self.items[key] for key in sorted(self.by_node.get(node, ()))]

    def at_version(self, version: int) -> dict[Key, Item | None]:
        """What has changed since a version, as it was then: a list's later pages show one moment."""
        if version < self.floor:
            raise KeyError(version)
        was: dict[Key, Item | None] = {}
        for change in reversed(self.history):
            if change.version <= version:
                break
            was[change.item.key] = change.before
        return was

    def compact(self) -> None:
        if self.history:
            self.floor = self.history[-1].version
            self.history.clear()

    def place(self, change: Change) -> None:
        item, before = change.item, change.before
        if change.verb == "DELETED":
            del self.items[item.key]
            self.keys.pop(bisect_left(self.keys, item.key))
        else:
            if before is None:
                insort(self.keys, item.key)
            self.items[item.key] = item
        if before is not None and before.node and (change.verb == "DELETED" or before.node != item.node):
            at = self.by_node[before.node]
            at.discard(item.key)
            if not at:
                del self.by_node[before.node]
        if item.node and change.verb != "DELETED":
            self.by_node.setdefault(item.node, set()).add(item.key)
        self.history.append(change)
        if len(self.history) > self.window:
            self.floor = self.history.popleft().version
