"""JSON patch, merge patch and apply; and that a patch that changes nothing writes nothing."""

from __future__ import annotations

from typing import Any

from tests.e2e.controlplane.conformance.probe import (
    APPLY,
    JSON_PATCH,
    MAPS,
    STRATEGIC,
    get,
    patch,
    post,
    probe,
)


def a_map(name: str, **data: str) -> Any:
    return {"metadata": {"name": name}, "data": data}


def operations(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """(op, path, value) or (op, path), or (op, path, from) for moves and copies."""
    made = []
    for op, path, *rest in rows:
        third = "from" if op in ("move", "copy") else "value"
        made.append({"op": op, "path": path, **({third: rest[0]} if rest else {})})
    return made


def said(name: str, kind: str = "ConfigMap", **data: str) -> bytes:
    values = ", ".join(f"{key}: '{value}'" for key, value in data.items())
    held = f"data: {{{values}}}\n" if data else ""
    return f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}}\n{held}".encode()


def applying(name: str, manager: str, *, says: str = "", **data: str) -> Any:
    return patch(f"{MAPS}/{name}?fieldManager={manager}", said(says or name, **data), APPLY)


ONE = f"{MAPS}/patched"

PROBES = (
    probe(
        "JSON patch",
        post(MAPS, a_map("json", a="1", b="2"), keep={"old": "metadata.resourceVersion"}),
        patch(f"{MAPS}/json", operations(("add", "/data/c", "3"), ("remove", "/data/a")), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("replace", "/data/b", "4"), ("test", "/data/b", "4")), JSON_PATCH),
        patch(
            f"{MAPS}/json",
            operations(("move", "/data/d", "/data/b"), ("copy", "/data/e", "/data/c")),
            JSON_PATCH,
        ),
        # one each: the API server tells several wrong keys in no order
        patch(f"{MAPS}/json", operations(("add", "/data/x~1y", "6")), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("add", "/data/x~0y", "7")), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("add", "/metadata/finalizers", ["example.com/a"])), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("add", "/metadata/finalizers/-", "example.com/b")), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("add", "/metadata/finalizers/0", "example.com/c")), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("remove", "/metadata/finalizers/1")), JSON_PATCH),
        patch(f"{MAPS}/json", operations(("remove", "/metadata/finalizers")), JSON_PATCH),
        patch(
            f"{MAPS}/json",
            operations(("test", "/metadata/resourceVersion", "<old>"), ("add", "/data/z", "1")),
            JSON_PATCH,
        ),
        patch(
            f"{MAPS}/json",
            operations(("replace", "/metadata/resourceVersion", "<old>"), ("add", "/data/z", "1")),
            JSON_PATCH,
        ),
        patch(f"{MAPS}/json", [], JSON_PATCH),
    ),
    probe(
        "JSON patches that fail",
        post(MAPS, a_map("failing", a="1")),
        patch(f"{MAPS}/failing", operations(("test", "/data/a", "2")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("test", "/data/none", "2")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("remove", "/data/none")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("replace", "/data/none", "2")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("add", "/none/none", "2")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("invent", "/data/a", "2")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("move", "/data/b", "/data/none")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("add", "/metadata/finalizers/5", "example.com/a")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("add", "data/a", "1")), JSON_PATCH),
        patch(f"{MAPS}/failing", {"data": {"a": "2"}}, JSON_PATCH),
        patch(f"{MAPS}/failing", [{"op": "add"}], JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("replace", "/data", "text")), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("replace", "", {})), JSON_PATCH),
        patch(f"{MAPS}/failing", operations(("remove", "/metadata/name")), JSON_PATCH),
        get(f"{MAPS}/failing"),
    ),
    probe(
        "merge patch",
        post(MAPS, a_map("patched", a="1", b="2"), keep={"old": "metadata.resourceVersion"}),
        patch(ONE, {"data": {"a": None, "c": "3"}}),
        patch(ONE, {"data": {"c": "3"}}),
        patch(ONE, {"data": None}),
        patch(ONE, {"metadata": {"labels": {"a": "1"}, "annotations": {"a": "1"}}}),
        patch(ONE, {"metadata": {"labels": None}}),
        patch(ONE, {"metadata": {"resourceVersion": "<old>"}, "data": {"a": "9"}}),
        patch(ONE, {"metadata": {"uid": "11111111-1111-4111-8111-111111111111"}}),
        patch(ONE, {"metadata": {"creationTimestamp": None}}),
        patch(ONE, {"metadata": {"generation": 77}}),
        patch(ONE, {"data": "text"}),
        patch(ONE, {"data": {"a": 1}}),
        patch(ONE, {"kind": "Secret"}),
        patch(ONE, {"apiVersion": "v2"}),
        patch(ONE, {"unknown": {"a": 1}}),
        patch(ONE, {}),
        patch(ONE, {"immutable": True}),
        patch(ONE, {"data": {"late": "1"}}),
        patch(ONE, {"immutable": False}),
        patch(ONE, {"metadata": {"labels": {"still": "free"}}}),
    ),
    probe(
        "an apply",
        applying("applied", "one", a="1", b="2"),
        applying("applied", "one", a="1", b="2"),
        applying("applied", "one", a="3", b="2", c="4"),
        patch(f"{MAPS}/applied", said("applied"), APPLY),
        patch(f"{MAPS}/applied?fieldManager=two", said("applied", kind="Secret"), APPLY),
        patch(f"{MAPS}/applied?fieldManager=two", b"kind: ConfigMap\nmetadata: {name: applied}\n", APPLY),
        applying("applied", "two", says="other"),
        patch(f"{MAPS}/applied?fieldManager=two", said("applied") + b"unknown: 1\n", APPLY),
        get(f"{MAPS}/applied"),
    ),
    probe(
        "apply by two",
        applying("shared", "one", a="1", b="2"),
        applying("shared", "one", a="3"),
        applying("shared", "two", a="4"),
        patch(f"{MAPS}/shared?fieldManager=two&force=true", said("shared", a="4"), APPLY),
        get(f"{MAPS}/shared"),
    ),
    probe(
        "a patch that changes nothing",
        post(MAPS, a_map("same", a="1")),
        patch(f"{MAPS}/same", {"data": {"a": "1"}}),
        patch(f"{MAPS}/same", {"data": {"a": "1"}}, STRATEGIC),
        patch(f"{MAPS}/same", operations(("replace", "/data/a", "1")), JSON_PATCH),
        patch(f"{MAPS}/same?fieldManager=other", {"data": {"a": "1"}}),
        get(f"{MAPS}/same"),
    ),
)
