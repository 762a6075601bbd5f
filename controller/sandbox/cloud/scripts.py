"""Startup scripts and SSH keys: small texts with a name.

The quirks: scripts are listed newest first in pages of ten, so that the eleventh hides; a read by id
answers with an array of one because the SDKs index it; there is a quota of 100 scripts; and the SDK
still uses the old path of the keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from controller.sandbox.cloud.answers import (
    Refusal,
    id_answer,
    id_list,
    invalid,
    json_object,
    page_answer,
)
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.texts import Script, SshKey
from controller.sandbox.wire import Request, Response


def _texts(body: Mapping[str, Any], *keys: str) -> list[str]:
    for key in keys:
        if not isinstance(body.get(key), str) or not body[key]:
            raise invalid(f"{key} is required")
    return [body[key] for key in keys]


def _by_id(state: State, shown: dict[str, Any]) -> Response:
    return Response.of_json(200, [shown] if state.settings.by_id_as_array else shown)


# -- scripts


def list_scripts(state: State, request: Request) -> Response:
    part = request.first("name").lower()
    rows = [script for script in state.scripts.values() if part in script.name.lower()]
    if request.first("orderDirection").upper() != "ASC":
        rows.reverse()  # they are kept in the order of their making
    return page_answer(request, [script.shown() for script in rows], state.settings)


def read_script(state: State, script_id: str) -> Response:
    script = state.scripts.get(script_id)
    if script is None:
        raise Refusal(404, "Startup script not found")
    return _by_id(state, script.shown())


def create_script(state: State, request: Request) -> Response:
    name, text = _texts(json_object(request), "name", "script")
    if len(state.scripts) >= state.settings.script_quota:
        raise invalid("Startup script limit exceeded")
    script = Script(state.new_id(), name, text, state.now)
    state.scripts[script.id] = script
    return id_answer(201, script.id, state.settings)


def delete_script(state: State, script_id: str) -> Response:
    if state.scripts.pop(script_id, None) is None:
        raise Refusal(404, "Startup script not found")
    return Response(200)


def delete_scripts(state: State, request: Request) -> Response:
    for script_id in id_list(json_object(request).get("scripts"), "scripts"):
        state.scripts.pop(script_id, None)
    return Response(200)


# -- keys


def list_keys(state: State) -> Response:
    return Response.of_json(200, [key.shown() for key in state.ssh_keys.values()])


def _key(state: State, key_id: str) -> SshKey:
    key = state.ssh_keys.get(key_id)
    if key is None:
        raise invalid("Invalid ssh-key ID")
    return key


def read_key(state: State, key_id: str) -> Response:
    return _by_id(state, _key(state, key_id).shown())


def create_key(state: State, request: Request) -> Response:
    name, text = _texts(json_object(request), "name", "key")
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    fingerprint = ":".join(digest[index : index + 2] for index in range(0, 32, 2))
    key = SshKey(state.new_id(), name, text, fingerprint)
    state.ssh_keys[key.id] = key
    return id_answer(201, key.id, state.settings)


def delete_key(state: State, key_id: str) -> Response:
    del state.ssh_keys[_key(state, key_id).id]
    return Response(200)


def delete_keys(state: State, request: Request) -> Response:
    keys = [_key(state, key_id) for key_id in id_list(json_object(request).get("keys"), "keys")]
    for key in keys:
        del state.ssh_keys[key.id]
    return Response(200)
