"""Watches: from a change of a shelf to lines on a stream.

Quirks kept: an object that leaves the selection is DELETED to its watcher and one that enters is ADDED;
without a resourceVersion (or with 0) a watch begins with the present objects; `sendInitialEvents` ends
them with a bookmark that says so; a version older than the history is an ERROR event with code 410 in
an answer of status 200; bookmarks carry nothing but a version; a watch from a version that has not come
yet is silent.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from controller.sandbox.cluster.agenda import Agenda, Timer
from controller.sandbox.cluster.errors import ApiError
from controller.sandbox.cluster.resources import EVENTS, Obj, Resource
from controller.sandbox.cluster.schema import of_resource
from controller.sandbox.cluster.shape import shaped
from controller.sandbox.cluster.shelf import Change, Item, Shelf
from controller.sandbox.cluster.views import METADATA, Form
from controller.sandbox.wire import Stream

Test = Callable[[Item], bool]
Render = Callable[[Item], bytes]
INITIAL_END = {"k8s.io/initial-events-end": "true"}
NO_CACHE = "The resourceVersion for the provided watch is too old."  # in the words of the store


def line(verb: str, body: bytes) -> bytes:
    return b'{"type":"' + verb.encode() + b'","object":' + body + b"}\n"


def error_line(problem: ApiError) -> bytes:
    return line("ERROR", msgspec.json.encode(problem.status))


def _departed(before: Item, version: int) -> Item:
    """The last state that was selected, with the version of the change, as the real cache sends it."""
    obj = before.decode()
    obj["metadata"]["resourceVersion"] = str(version)
    return Item(before.key, version, obj, msgspec.json.encode(obj))


@lru_cache(maxsize=256)
def _empty(resource: Resource) -> bytes:
    """What a bookmark shows before its version: an object with nothing in it."""
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    held = head | shaped(of_resource(resource).name, {})
    held.pop("metadata", None)
    return msgspec.json.encode(held)[:-1] + b',"metadata":'


class Watch:
    """One client's view of a shelf."""

    def __init__(
        self, resource: Resource, shelf: Shelf, test: Test, render: Render, bookmarks: float
    ) -> None:
        """`bookmarks`: seconds between them, 0: none."""
        self.resource = resource
        self.shelf = shelf
        self.test = test
        self.render = render
        self.bookmarks = bookmarks
        self.form = Form()
        self.stream = Stream()
        self.stream.on_abandon = self.leave
        self.timers: list[Timer] = []

    def start(
        self,
        agenda: Agenda,
        seconds: float,
        since: int | None,
        initial: bool,
        newest: Callable[[], int],
        marked: bool,
        form: Form,
    ) -> None:
        """`since` is the version to go on from; with `initial` the present objects come first."""
        self.form = form
        if initial:
            for item in self.shelf.span():
                if self.test(item):
                    self.stream.put(line("ADDED", self.render(item)))
            if marked and self.bookmarks:
                self._bookmark(newest(), INITIAL_END)
        elif since is not None:
            if since < self.shelf.floor:
                text = f"too old resource version: {since} ({self.shelf.floor})"
                if self.shelf.resource is EVENTS:
                    text = NO_CACHE
                self.stream.put(error_line(ApiError(410, "Expired", text)))
                self.stream.close()
                return
            for change in self.shelf.history:
                if change.version > since:
                    self.told(change)
        self.shelf.followers.append(self.told)
        self.timers.append(agenda.after(seconds, self.close))
        if self.bookmarks:
            self._keep_marking(agenda, newest)

    def told(self, change: Change) -> None:
        was = change.before is not None and self.test(change.before)
        if change.verb == "DELETED":
            if was or (change.before is None and self.test(change.item)):
                self.stream.put(line("DELETED", self.render(change.item)))
            return
        if self.test(change.item):
            self.stream.put(line("MODIFIED" if was else "ADDED", self.render(change.item)))
        elif was and change.before is not None:
            self.stream.put(line("DELETED", self.render(_departed(change.before, change.version))))

    def _bookmark(self, version: int, annotations: dict[str, str] | None = None) -> None:
        meta: Obj = {"resourceVersion": str(version)} | ({"annotations": annotations} if annotations else {})
        if self.form.kind:
            body: Obj = {"kind": METADATA, "apiVersion": self.form.api_version, "metadata": meta}
            told = msgspec.json.encode(body)
        else:
            told = _empty(self.resource) + msgspec.json.encode(meta) + b"}"
        self.stream.put(line("BOOKMARK", told))

    def _keep_marking(self, agenda: Agenda, newest: Callable[[], int]) -> None:
        def mark() -> None:
            if not (self.stream.closed or self.stream.abandoned):
                self._bookmark(newest())
                self._keep_marking(agenda, newest)

        self.timers.append(agenda.after(self.bookmarks, mark))
        del self.timers[:-2]

    def close(self) -> None:
        self.leave()
        self.stream.close()

    def leave(self) -> None:
        if self.told in self.shelf.followers:
            self.shelf.followers.remove(self.told)
        for timer in self.timers:
            timer.cancel()
