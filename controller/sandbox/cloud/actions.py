"""The one PUT that carries every action on instances, and its many ways to answer.

The quirks: one body for many ids that answers 202, 204 or 207 with results in camelCase; a refused
delete while provisioning; deleting what is deleted is fine (or was not, once). Actions that the
document names without a word of what they do are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.sandbox.cloud import lifecycle
from controller.sandbox.cloud.answers import Refusal, id_list, invalid, json_object
from controller.sandbox.cloud.instances import find
from controller.sandbox.cloud.model import Instance
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response

DELETES = ("delete", "discontinue", "delete_stuck")
ALLOWED_FROM: Mapping[str, tuple[str, ...]] = {
    "shutdown": ("running",),
    "force_shutdown": ("running",),
    "start": ("offline",),
    "boot": ("offline",),
    "hibernate": ("offline", "running"),
}
REACHED: Mapping[str, str] = {
    "shutdown": "offline",
    "force_shutdown": "offline",
    "start": "running",
    "boot": "running",
}
UNAVAILABLE = ("configure_spot", "deploy", "transfer")  # in the document, explained nowhere
ACTIONS = (*DELETES, *ALLOWED_FROM, *UNAVAILABLE)


def act(state: State, request: Request) -> Response:
    body = json_object(request)
    ids, action = id_list(body.get("id"), "id"), body.get("action")
    if not isinstance(action, str) or action not in ACTIONS:
        raise invalid(f"Invalid action {action}")
    volume_ids = _volume_ids(state, body)
    if not isinstance(body.get("delete_permanently") or False, bool):
        raise invalid("delete_permanently must be a boolean")
    permanently = bool(body.get("delete_permanently"))
    if len(ids) == 1 and not state.settings.refusals_as_207:
        if not _act_on(state, ids[0], action, volume_ids, permanently=permanently):
            return Response(204)
        return Response.of_json(202, [_result(ids[0], action)])
    results = []
    for instance_id in ids:
        try:
            _act_on(state, instance_id, action, volume_ids, permanently=permanently)
            results.append(_result(instance_id, action))
        except Refusal as refusal:
            results.append(_result(instance_id, action, refusal))
    return _answer(state, results)


def _answer(state: State, results: list[dict[str, Any]]) -> Response:
    failed = [result for result in results if result["status"] == "error"]
    if not failed:
        return Response.of_json(202, results)
    if len(failed) == len(results) and state.settings.all_refused_status == 400:
        raise invalid(failed[0]["error"])
    return Response.of_json(207, results)


def _volume_ids(state: State, body: Mapping[str, Any]) -> list[str] | None:
    raw = body.get("volume_ids")
    if raw is None:
        return None
    if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
        raise invalid("volume_ids must be an array of ids")
    for volume_id in raw:
        if volume_id not in state.volumes:
            raise invalid(f"Invalid volume id {volume_id}")
    return raw


def _result(instance_id: str, action: str, refusal: Refusal | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = {"instanceId": instance_id, "action": action, "status": "success"}
    if refusal is not None:
        shown |= {"status": "error", "error": refusal.message, "statusCode": refusal.status}
    return shown


def _act_on(
    state: State, instance_id: str, action: str, volume_ids: list[str] | None, *, permanently: bool
) -> bool:
    """Do it; false when it was so already."""
    instance = find(state, instance_id)
    if action in UNAVAILABLE:
        raise Refusal(403, f"Action {action} is not available")
    if action in DELETES:
        return _delete(state, instance, action, volume_ids, permanently=permanently)
    if instance.status == REACHED.get(action):
        return False
    asleep = action == "hibernate" and not state.settings.hibernate_running
    if instance.status not in (("offline",) if asleep else ALLOWED_FROM[action]):
        name = action.replace("_", " ")
        raise Refusal(
            state.settings.action_refused_status, f"Can't {name} {_article(instance.status)} instance"
        )
    if action == "hibernate":
        lifecycle.delete(state, instance, {})
    elif action in ("shutdown", "force_shutdown"):
        lifecycle.shut_down(state, instance)
    else:
        lifecycle.start(state, instance)
    return True


def _delete(
    state: State, instance: Instance, action: str, volume_ids: list[str] | None, *, permanently: bool
) -> bool:
    settings = state.settings
    if instance.status == "deleting":
        return False
    if instance.status == "discontinued":
        if settings.delete_discontinued_status == 403:
            raise Refusal(403, "Can't discontinue a discontinued instance")
        return False
    if instance.status in settings.undeletable_statuses and action != "delete_stuck":
        raise Refusal(
            settings.action_refused_status, f"Can't discontinue {_article(instance.status)} instance"
        )
    lifecycle.delete(
        state, instance, lifecycle.fates_of(state, instance, volume_ids, permanently=permanently)
    )
    return True


def _article(status: str) -> str:
    return f"{'an' if status[0] in 'aeiou' else 'a'} {status}"
