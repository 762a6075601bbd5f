"""The reading verbs: get, list, watch."""

from __future__ import annotations

from controller.sandbox.cluster import errors
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.errors import ApiError, bad_request
from controller.sandbox.cluster.listing import Selection, page
from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shelf import Item
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import TABLE, View
from controller.sandbox.cluster.watching import Watch
from controller.sandbox.wire import Request, Response

LONGEST_WATCH = 3600.0


def flag(request: Request, name: str) -> bool:
    """As Go reads a boolean: the Python clients write `True`."""
    return request.first(name) in ("1", "t", "T", "true", "TRUE", "True")


class Reader:
    def __init__(self, store: Store, agenda: Agenda, settings: Settings) -> None:
        self.store = store
        self.agenda = agenda
        self.settings = settings
        self.watches: set[Watch] = set()

    def get(self, resource: Resource, namespace: str, name: str, request: Request) -> Response:
        item = self.store.item(resource, namespace, name)
        if item is None:
            raise errors.not_found(resource, name)
        view = View(resource, request, self.store.clock)
        return Response(200, view.one(item), {"Content-Type": "application/json"})

    def need(self, resource: Resource, namespace: str, name: str) -> Obj:
        obj = self.store.get(resource, namespace, name)
        if obj is None:
            raise errors.not_found(resource, name)
        return obj

    def list_(self, resource: Resource, namespace: str, request: Request) -> Response:
        shelf = self.store.shelf(resource)
        items, meta = page(shelf, Selection(resource, namespace, request), request, self.store.version)
        return View(resource, request, self.store.clock).many(items, meta)

    def select(self, resource: Resource, namespace: str, request: Request) -> list[Item]:
        selection = Selection(resource, namespace, request)
        return [i for i in selection.candidates(self.store.shelf(resource), None) if selection.test(i)]

    def watch(self, resource: Resource, namespace: str, name: str, request: Request) -> Response:
        selection = Selection(resource, namespace, request, name)
        view = View(resource, request, self.store.clock)
        asked = request.first("resourceVersion")
        if asked and not asked.isdigit():
            raise bad_request(f"Invalid value: {asked!r}: resourceVersion must be a number")
        marked = flag(request, "sendInitialEvents")
        if marked and request.first("resourceVersionMatch") != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise errors.invalid(resource, "", ("resourceVersionMatch", "FieldValueForbidden", text))
        initial = marked or (asked in ("", "0") and not request.first("sendInitialEvents"))
        since = int(asked) if asked not in ("", "0") else None
        shelf = self.store.shelf(resource)
        if since is not None and not initial and since < shelf.floor and self.settings.gone_as_http:
            raise ApiError(410, "Expired", f"too old resource version: {since} ({shelf.floor})")
        bookmarks = flag(request, "allowWatchBookmarks") and view.form != TABLE
        made = Watch(resource, shelf, selection.test, view.one, bookmarks)
        self.watches = {w for w in self.watches if not (w.stream.closed or w.stream.abandoned)} | {made}
        seconds = float(request.first("timeoutSeconds") or 0) or LONGEST_WATCH
        # Everything older than the watch is known to a client once it has seen the initial events.
        made.start(self.agenda, seconds, since, initial, lambda: self.store.version, marked)
        return Response(200, b"", {"Content-Type": "application/json"}, made.stream)

    def disconnect(self) -> int:
        """End all watches, as a restarting API server does."""
        ended = [watch for watch in self.watches if not (watch.stream.closed or watch.stream.abandoned)]
        for watch in ended:
            watch.close()
        self.watches.clear()
        return len(ended)
