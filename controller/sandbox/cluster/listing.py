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

from controller.sandbox.cluster.errors import ApiError, bad_request, gone
from controller.sandbox.cluster.resources import Obj, Resource
from controller.sandbox.cluster.selectors import parse_fields, parse_labels
from controller.sandbox.cluster.shelf import Item, Key, Shelf
from controller.sandbox.wire import Request

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
INCONSISTENT = -1


class Selection:
    """What the selectors and the path of a request choose."""

    def __init__(self, resource: Resource, namespace: str, request: Request, name: str = "") -> None:
        exact, fields = parse_fields(resource, request.first("fieldSelector"))
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


def _token(version: int, after: Key) -> str:
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": list(after)}).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _read_token(text: str) -> tuple[int, Key]:
    try:
        held = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return int(held["rv"]), (str(held["start"][0]), str(held["start"][1]))
    except (ValueError, KeyError, IndexError, TypeError):
        raise bad_request("continue key is not valid: the token cannot be read") from None


def page(shelf: Shelf, selection: Selection, request: Request, newest: int) -> tuple[list[Item], Obj]:
    """The items of one page and the list's metadata."""
    limit = int(request.first("limit") or 0)
    version, after = _moment(shelf, request, newest)
    try:
        was = shelf.at_version(version) if version != newest else {}
    except KeyError:
        if after is None:
            raise gone("The resourceVersion for the provided list is too old.") from None
        problem = gone(TOO_OLD)
        problem.details = {"continue": _token(INCONSISTENT, after)}
        raise problem from None
    # The indexes know only the present, so a list of a past moment looks at everything.
    found = _as_of(shelf, selection, after, was) if was else selection.candidates(shelf, after)
    items: list[Item] = []
    meta: Obj = {"resourceVersion": str(version)}
    for item in found:
        if not selection.test(item):
            continue
        if limit and len(items) == limit:
            meta["continue"] = _token(version, items[-1].key)
            if selection.everything and not was:
                meta["remainingItemCount"] = _left(shelf, selection.namespace, items[-1].key)
            break
        items.append(item)
    return items, meta


def _moment(shelf: Shelf, request: Request, newest: int) -> tuple[int, Key | None]:
    if token := request.first("continue"):
        version, after = _read_token(token)
        return (newest if version == INCONSISTENT else version), after
    asked = request.first("resourceVersion")
    if asked and not asked.isdigit():
        raise bad_request(f"Invalid value: {asked!r}: resourceVersion must be a number")
    if asked and int(asked) > newest:
        raise ApiError(504, "Timeout", f"Too large resource version: {asked}, current: {newest}")
    exact = request.first("resourceVersionMatch") == "Exact" and asked not in ("", "0")
    return (int(asked) if exact else newest), None


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
