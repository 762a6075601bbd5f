"""Which of the optional kinds the API server has: asked at the start, and again now and then.

Add-ons come and go while the program runs. A list of groups is one small answer; whether a version has
the very kind is told only by the version's own list, since a group may well serve others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from controller.cluster.kinds import Kind
from controller.cluster.protocol import ClusterError, Transport

T = TypeVar("T", bound=msgspec.Struct)


class _Version(msgspec.Struct):
    groupVersion: str = ""


class _Group(msgspec.Struct):
    name: str = ""
    versions: list[_Version] | None = None


class _Groups(msgspec.Struct):
    groups: list[_Group] | None = None


class _Resource(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


async def served(transport: Transport, kinds: Iterable[Kind[Any]]) -> tuple[Kind[Any], ...]:
    """Those that the server has, of each resource in the first version that is named. Raises ClusterError."""
    groups = (await _asked(transport, "/apis", _Groups)).groups or ()
    versions = {version.groupVersion for group in groups for version in group.versions or ()}
    lists: dict[str, set[str]] = {}
    found: dict[str, Kind[Any]] = {}
    for kind in kinds:
        if kind.api not in versions or kind.resource in found:
            continue
        if kind.api not in lists:
            has = (await _asked(transport, f"/apis/{kind.api}", _Resources)).resources or ()
            lists[kind.api] = {resource.name for resource in has}
        if kind.plural in lists[kind.api]:
            found[kind.resource] = kind
    return tuple(found.values())


async def _asked(transport: Transport, path: str, form: type[T]) -> T:
    """An answer; what is not there, is not for us or is no discovery at all has nothing in it."""
    try:
        return msgspec.json.decode(await transport.request("GET", path), type=form)
    except ClusterError as error:
        if error.kind not in ("not_found", "forbidden"):
            raise
    except msgspec.MsgspecError:
        pass
    return form()
