"""The options in a query string, checked before they are followed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from controller.sandbox.cluster.errors import (
    Cause,
    bad_request,
    invalid_options,
    not_allowed_there,
    required,
    unsupported_value,
    wrong,
)
from controller.sandbox.cluster.paths import flag
from controller.sandbox.cluster.resources import Obj
from controller.sandbox.wire import Request

POLICIES = ("Foreground", "Background", "Orphan", "nil")
VALIDATIONS = ("", "Ignore", "Strict", "Warn")
MATCHES = ("Exact", "NotOlderThan", "")


@dataclass(frozen=True)
class WriteOptions:
    dry: bool = False
    validation: str = "Warn"

    @property
    def strict(self) -> bool:
        return self.validation == "Strict"

    @property
    def warns(self) -> bool:
        return self.validation == "Warn"


def _dry(values: Any) -> list[Cause]:
    if values and values != ["All"]:
        return [unsupported_value("dryRun", values, "All")]
    return []


def write_options(request: Request, kind: str, *, apply: bool = False) -> WriteOptions:
    """`kind` is CreateOptions, UpdateOptions or PatchOptions."""
    dry = request.query.get("dryRun") or []
    causes = _dry(dry)
    validation = request.first("fieldValidation")
    if validation not in VALIDATIONS:
        causes.append(unsupported_value("fieldValidation", validation, *VALIDATIONS))
    if apply and not request.first("fieldManager"):
        causes.append(required("fieldManager", "is required for apply patch"))
    if causes:
        raise invalid_options(kind, *causes)
    return WriteOptions(bool(dry), validation or "Warn")


@dataclass(frozen=True)
class DeleteOptions:
    dry: bool = False
    grace: int | None = None
    propagation: str = ""
    uid: str | None = None
    version: str | None = None
    told: Obj = field(default_factory=dict)


def delete_options(request: Request, body: Any) -> DeleteOptions:
    """From the body, which wins, or from the query."""
    held: Obj = body if isinstance(body, dict) else {}
    if held.get("kind", "DeleteOptions") != "DeleteOptions":
        kind, version = held["kind"], held.get("apiVersion", "")
        raise bad_request(
            f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        )
    dry = held.get("dryRun") or request.query.get("dryRun") or []
    policy = held.get("propagationPolicy") or request.first("propagationPolicy")
    orphan = held.get("orphanDependents")
    if orphan is None and request.first("orphanDependents"):
        orphan = flag(request, "orphanDependents")
    causes: list[Cause] = []
    if policy and orphan is not None:
        causes.append(
            wrong("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy and policy not in POLICIES:
        causes.append(unsupported_value("propagationPolicy", policy, *POLICIES))
    causes += _dry(dry)
    if causes:
        raise invalid_options("DeleteOptions", *causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    grace = held.get("gracePeriodSeconds")
    if grace is None and request.first("gracePeriodSeconds"):
        grace = int(request.first("gracePeriodSeconds"))
    wanted: Obj = held.get("preconditions") or {}
    return DeleteOptions(bool(dry), grace, policy, wanted.get("uid"), wanted.get("resourceVersion"), held)


@dataclass(frozen=True)
class ListOptions:
    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""
    seconds: int = 0
    bookmarks: bool = False
    initial: bool | None = None  # sendInitialEvents


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def list_options(request: Request, *, watching: bool) -> ListOptions:
    first = request.first
    made = ListOptions(
        _number(first("limit") or "0"),
        first("continue"),
        first("resourceVersion"),
        first("resourceVersionMatch"),
        _number(first("timeoutSeconds") or "0"),
        flag(request, "allowWatchBookmarks"),
        flag(request, "sendInitialEvents") if first("sendInitialEvents") else None,
    )
    if made.token and made.version not in ("", "0") and not watching:
        raise bad_request("specifying resource version is not allowed when using continue")
    causes = _watch_causes(made) if watching else _list_causes(made)
    if causes:
        raise invalid_options("ListOptions", *causes)
    return made


def _list_causes(options: ListOptions) -> list[Cause]:
    causes: list[Cause] = []
    where = "resourceVersionMatch"
    if options.match:
        if not options.version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append(not_allowed_there(where, text))
        if options.token:
            causes.append(
                not_allowed_there(where, "resourceVersionMatch is forbidden when continue is provided")
            )
        if options.match not in MATCHES:
            causes.append(unsupported_value(where, options.match, *MATCHES))
        if options.match == "Exact" and options.version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(not_allowed_there(where, text))
    if options.initial is not None:
        causes.append(not_allowed_there("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return causes


def _watch_causes(options: ListOptions) -> list[Cause]:
    where = "resourceVersionMatch"
    causes: list[Cause] = []
    if options.initial is not None and options.match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(not_allowed_there(where, text))
    if options.match:
        if options.initial is None:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            causes.append(not_allowed_there(where, text))
        if options.match != "NotOlderThan":
            causes.append(unsupported_value(where, options.match, "NotOlderThan"))
    # A watch that begins with what is there is given this match by the server itself.
    if options.token and (options.match or (options.initial is None and options.version in ("", "0"))):
        causes.append(not_allowed_there(where, "resourceVersionMatch is forbidden when continue is provided"))
    return causes
