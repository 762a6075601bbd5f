"""Lists and their pages.

All pages of a list show one moment: the continue token carries its resourceVersion, and what has changed
since is undone from the history. When that is no longer possible the answer is 410 with a token that
goes on inconsistently, as the real server offers. Selectors on name, namespace and node use indexes.
"""

from __future__ import annotations

import base64
import heapq
import json
from bisect import bisect_left
from collections.abc import Callable, Iterator

from controller.sandbox.cluster.errors import bad_request, gone, too_large_version
from controller.sandbox.cluster.field_selectors import parse_fields
from controller.sandbox.cluster.options import ListOptions
from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.selectors import parse_labels
from controller.sandbox.cluster.shelf import Item, Key, Shelf
from controller.sandbox.wire import Request

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
INCONSISTENT = -1
TOKEN_VERSION = "meta.k8s.io/v1"


class Selection:
    """What the selectors and the path of a request choose."""

    def __init__(self, resource: Resource, namespace: str, request: Request, name: str = "") -> None:
        exact, fields = parse_fields(resource, request.first("fieldSelector"))
        self.space = namespace  # of the path
        self.namespace = namespace or exact.get("metadata.namespace", "")
        self.impossible = bool(namespace) and exact.get("metadata.namespace", namespace) != namespace
        self.name = name or exact.get("metadata.name", "")
        self.node = exact.get("spec.nodeName")
        self.labels = parse_labels(request.first("labelSelector"))
        indexed = {"metadata.name", "metadata.namespace", "spec.nodeName"}
        only_indexed = set(exact) <= indexed and "!=" not in request.first("fieldSelector")
        self.fields = None if only_indexed else fields
        # Decoding is what costs: an object without the letters of a wanted value cannot be meant.
        self.letters = [
            value.encode() for value in exact.values() if value.isalnum() and value not in ("true", "false")
        ]
        self.everything = not (self.labels or fields or self.name)

    def test(self, item: Item) -> bool:
        if self.impossible or (self.namespace and item.key[0] != self.namespace):
            return False
        if self.name and item.key[1] != self.name:
            return False
        if self.node is not None and item.node != self.node:
            return False
        if self.labels and not self.labels(item.labels):
            return False
        if self.fields is not None and any(letters not in item.raw for letters in self.letters):
            return False
        return self.fields is None or self.fields(item.decode())

    def candidates(self, shelf: Shelf, after: Key | None) -> Iterator[Item]:
        if self.node:
            return (item for item in shelf.on_node(self.node) if after is None or item.key > after)
        if self.name and (self.namespace or not shelf.resource.namespaced):
            found = shelf.items.get((self.namespace, self.name))
            return iter([found] if found and (after is None or found.key > after) else [])
        return shelf.span(self.namespace, after)


def _token(version: int, after: Key, space: str) -> str:
    """Behind which key to go on: as the store has it, below what was listed."""
    start = "/".join(part for part in ("", "" if space else after[0], after[1]) if part)
    held = {"v": TOKEN_VERSION, "rv": version, "start": f"/{start}\0"}
    raw = json.dumps(held, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _read_token(text: str, space: str, *, namespaced: bool) -> tuple[int, Key]:
    begin = "invalid continue token: continue key is not valid: "
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise bad_request(f"{begin}illegal base64 data at input byte 0") from None
    try:
        held = json.loads(raw)
        version, stated, start = int(held["rv"]), held["v"], str(held["start"])
    except (ValueError, KeyError, TypeError):
        first = raw[:1].decode("latin-1") if raw[:1].isascii() else f"\\u{raw[0]:04x}"
        raise bad_request(f"{begin}invalid character '{first}' looking for beginning of value") from None
    if stated != TOKEN_VERSION:
        raise bad_request(f"{begin}server does not recognize this encoded version {stated}")
    if version == 0:
        raise bad_request(f"{begin}incorrect encoded start resourceVersion (version {TOKEN_VERSION})")
    name = start.removeprefix("/").removesuffix("\0")
    if space or not namespaced:
        return version, (space, name)
    namespace, _, name = name.partition("/")
    return version, (namespace, name)


def _version_of(text: str) -> int:
    if text and not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text or 0)


def page(shelf: Shelf, selection: Selection, options: ListOptions, newest: int) -> tuple[list[Item], Obj]:
    """The items of one page and the list's metadata."""
    limit = max(options.limit, 0)
    if options.version == "0" and not options.token:
        limit = 0  # a list from the cache is never cut
    version, after = _moment(shelf, selection, options, newest)
    try:
        was = shelf.at_version(version) if version != newest else {}
    except KeyError:
        if after is None:
            raise gone("The resourceVersion for the provided list is too old.") from None
        problem = gone(TOO_OLD)
        problem.details = {"continue": _token(INCONSISTENT, after, selection.space)}
        raise problem from None
    # The indexes know only the present, so a list of a past moment looks at everything.
    found = _as_of(shelf, selection, after, was) if was else selection.candidates(shelf, after)
    items: list[Item] = []
    meta: Obj = {"resourceVersion": str(version)}
    for item in found:
        if not selection.test(item):
            continue
        if limit and len(items) == limit:
            meta["continue"] = _token(version, items[-1].key, selection.space)
            if selection.everything:
                left = _left(shelf, selection.namespace, items[-1].key)
                meta["remainingItemCount"] = left + _gone(selection, was, shelf, items[-1].key)
            break
        items.append(item)
    return items, meta


def _moment(shelf: Shelf, selection: Selection, options: ListOptions, newest: int) -> tuple[int, Key | None]:
    if options.token:
        version, after = _read_token(options.token, selection.space, namespaced=shelf.resource.namespaced)
        if version > newest:
            raise too_large_version(str(version), newest)
        return (newest if version < 0 else version), after
    asked = _version_of(options.version)
    if asked > newest:
        raise too_large_version(options.version, newest)
    return (asked if options.match == "Exact" and asked else newest), None


def _as_of(
    shelf: Shelf, selection: Selection, after: Key | None, was: dict[Key, Item | None]
) -> Iterator[Item]:
    lost = sorted(key for key in was if key not in shelf.items and (after is None or key > after))
    present = (item.key for item in shelf.span(selection.namespace, after))
    then: Callable[[Key], Item | None] = lambda key: was[key] if key in was else shelf.items[key]  # noqa: E731
    for key in heapq.merge(present, lost):
        if (item := then(key)) is not None:
            yield item


def _left(shelf: Shelf, namespace: str, last: Key) -> int:
    end = bisect_left(shelf.keys, (namespace + "\0", "")) if namespace else len(shelf.keys)
    return end - bisect_left(shelf.keys, last) - 1


def _gone(selection: Selection, was: dict[Key, Item | None], shelf: Shelf, last: Key) -> int:
    """How many more, or fewer, there were behind a key at a past moment."""
    more = sum(
        1
        for key, item in was.items()
        if item and key not in shelf.items and key > last and selection.test(item)
    )
    now = [key for key, item in was.items() if item is None and key in shelf.items and key > last]
    fewer = sum(selection.test(shelf.items[key]) for key in now)
    return more - fewer
