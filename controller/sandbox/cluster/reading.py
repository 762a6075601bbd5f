"""The reading verbs: get, list, watch."""

from __future__ import annotations

from controller.sandbox.cluster import errors
from controller.sandbox.cluster.agenda import Agenda
from controller.sandbox.cluster.errors import ApiError, internal
from controller.sandbox.cluster.listing import Selection, page
from controller.sandbox.cluster.options import list_options
from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.settings import Settings
from controller.sandbox.cluster.shelf import Item
from controller.sandbox.cluster.store import Store
from controller.sandbox.cluster.views import TABLE, View
from controller.sandbox.cluster.watching import Watch
from controller.sandbox.wire import Request, Response

LONGEST_WATCH = 3600.0
NOT_A_NUMBER = 'resourceVersion: Invalid value: "{0}": strconv.ParseUint: parsing "{0}": invalid syntax'


def _number(version: str) -> int:
    if version and not version.isdigit():
        raise internal(NOT_A_NUMBER.format(version))
    return int(version or 0)


class Reader:
    def __init__(self, store: Store, agenda: Agenda, settings: Settings) -> None:
        self.store = store
        self.agenda = agenda
        self.settings = settings
        self.watches: list[Watch] = []

    def get(self, resource: Resource, namespace: str, name: str, request: Request) -> Response:
        view = self._view(resource, request)
        if _number(asked := request.first("resourceVersion")) > self.store.version:
            raise errors.too_large_version(asked, self.store.version)
        item = self.store.item(resource, namespace, name)
        if item is None:
            raise errors.not_found(resource, name)
        return view.single(item)

    def need(self, resource: Resource, namespace: str, name: str) -> Obj:
        obj = self.store.get(resource, namespace, name)
        if obj is None:
            raise errors.not_found(resource, name)
        return obj

    def list_(self, resource: Resource, namespace: str, request: Request) -> Response:
        view = self._view(resource, request, listing=True)
        options = list_options(request, watching=False)
        selection = Selection(resource, namespace, request)
        items, meta = page(self.store.shelf(resource), selection, options, self.store.version)
        return view.many(items, meta)

    def select(self, resource: Resource, namespace: str, request: Request) -> list[Item]:
        selection = Selection(resource, namespace, request)
        return [i for i in selection.candidates(self.store.shelf(resource), None) if selection.test(i)]

    def watch(self, resource: Resource, namespace: str, name: str, request: Request) -> Response:
        view = self._view(resource, request, listing=True)
        options = list_options(request, watching=True)
        selection = Selection(resource, namespace, request, name)
        since = _number(options.version) or None
        initial = bool(options.initial) or (since is None and options.initial is None)
        shelf = self.store.shelf(resource)
        if since is not None and not initial and since < shelf.floor and self.settings.gone_as_http:
            raise ApiError(410, "Expired", f"too old resource version: {since} ({shelf.floor})")
        bookmarks = self.settings.bookmarks if options.bookmarks and view.form.kind != TABLE else 0.0
        made = Watch(resource, shelf, selection.test, view.one, bookmarks)
        self.watches = [w for w in self.watches if not (w.stream.closed or w.stream.abandoned)] + [made]
        seconds = float(options.seconds) or LONGEST_WATCH
        # Everything older than the watch is known to a client once it has seen the initial events.
        marked = bool(options.initial)
        made.start(self.agenda, seconds, since, initial, lambda: self.store.version, marked, view.form)
        return Response(200, b"", {"Content-Type": "application/json"}, made.stream)

    def _view(self, resource: Resource, request: Request, *, listing: bool = False) -> View:
        return View(resource, request, self.store.clock, listing=listing)

    def disconnect(self) -> int:
        """End all watches, as a restarting API server does."""
        ended = [watch for watch in self.watches if not (watch.stream.closed or watch.stream.abandoned)]
        for watch in ended:
            watch.close()
        self.watches.clear()
        return len(ended)
