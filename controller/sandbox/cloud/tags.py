"""Tags: marks of ownership on instances and disks, in the API since September 2026.

Keys are lower-cased by the server, the same pair has one project-wide id, and linking it twice is a
409. A delete names the tag's id; one client deletes by key, so that is taken too. With the knob off
there are no tags: they are ignored in bodies, absent in answers, and their paths do not
exist; another makes them an error, as if the account could not have them.
"""

from __future__ import annotations

from typing import Any

from controller.sandbox.cloud.answers import Refusal, invalid, json_object, unknown_path
from controller.sandbox.cloud.model import Instance, Tag, Volume
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response

MOST = 10
LONGEST_KEY, LONGEST_VALUE = 63, 127


def parse_tags(state: State, raw: Any) -> list[Tag]:
    if raw is not None and state.settings.tags_refused:
        raise invalid("property tags should not exist")
    if raw is None or not state.settings.has_tags:
        return []
    if not isinstance(raw, list):
        raise invalid("tags must be an array")
    if len(raw) > MOST:
        raise invalid(f"A resource can have at most {MOST} tags")
    return list({tag.id: tag for tag in (_parse_tag(state, item) for item in raw)}.values())


def _parse_tag(state: State, raw: Any) -> Tag:
    key = raw.get("key") if isinstance(raw, dict) else None
    value = raw.get("value") if isinstance(raw, dict) else None
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY:
        raise invalid(f"A tag key must have 1 to {LONGEST_KEY} characters")
    if value is not None and (not isinstance(value, str) or len(value) > LONGEST_VALUE):
        raise invalid(f"A tag value must have at most {LONGEST_VALUE} characters")
    return state.tag(key.lower(), value or "")


def wanted_tags(state: State, request: Request) -> list[tuple[str, str | None]]:
    """The `?tag=` filters: all have to hold, `key` alone means any value."""
    if not state.settings.has_tags:
        return []
    pairs = [text.partition("=") for text in request.query.get("tag", [])]
    return [(key.lower(), value if sign else None) for key, sign, value in pairs]


def has_tags(thing: Instance | Volume, wanted: list[tuple[str, str | None]]) -> bool:
    return not wanted or all(
        any(tag.key == key and value in (None, tag.value) for tag in thing.tags) for key, value in wanted
    )


def _owner(state: State, kind: str, thing_id: str) -> Instance | Volume:
    if not state.settings.has_tags or kind not in ("instances", "volumes"):
        raise unknown_path(state.settings)
    found: Instance | Volume | None
    found = state.instances.get(thing_id) if kind == "instances" else state.volumes.get(thing_id)
    if found is None:
        raise Refusal(404, "Resource not found")
    if not found.live:
        raise Refusal(403, "Can't change tags of a deleted resource")
    return found


def list_tags(state: State, kind: str, thing_id: str) -> Response:
    return Response.of_json(200, [tag.shown() for tag in _owner(state, kind, thing_id).tags])


def link(state: State, request: Request, kind: str, thing_id: str) -> Response:
    owner = _owner(state, kind, thing_id)
    tag = _parse_tag(state, json_object(request))
    if tag in owner.tags:
        raise Refusal(409, "Tag is already linked to this resource")
    if len(owner.tags) >= MOST:
        raise invalid(f"A resource can have at most {MOST} tags")
    owner.tags.append(tag)
    return Response.of_json(201, tag.shown())


def unlink(state: State, kind: str, thing_id: str, tag_id: str) -> Response:
    owner = _owner(state, kind, thing_id)
    left = [tag for tag in owner.tags if tag_id not in (tag.id, tag.key)]
    if len(left) == len(owner.tags):
        raise Refusal(404, "Tag not found")
    owner.tags[:] = left
    return Response(204)
