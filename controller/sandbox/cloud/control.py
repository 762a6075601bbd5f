"""The sandbox's own paths under `/_sandbox`: look into the cloud, and make things happen in it.

Nothing here exists in the real API and nothing here needs a token. A bad request is a 400 that names
the key, the value and what was expected, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud import lifecycle
from controller.sandbox.cloud.answers import Refusal, id_answer, json_object, money_number
from controller.sandbox.cloud.catalogue import MARKETS
from controller.sandbox.cloud.instances import place
from controller.sandbox.cloud.model import Instance, Outcome
from controller.sandbox.cloud.order import read_order
from controller.sandbox.cloud.settings import BadSetting, Settings
from controller.sandbox.cloud.state import OutcomeRule, State
from controller.sandbox.wire import Request, Response

OUTCOMES = ("no_capacity", "installation_failed", "error", "stuck")


def _refused(problem: BadSetting) -> Refusal:
    return Refusal(400, str(problem))


def _json(request: Request) -> Any:
    try:
        return request.json()
    except ValueError:
        raise Refusal(400, "body: expected JSON") from None


# -- look


def show_state(state: State) -> Response:
    instances, volumes = list(state.instances.values()), list(state.volumes.values())
    settings = state.settings
    cost = {"instances": state.cost(instances), "volumes": state.cost(volumes)}
    total = sum(cost.values(), Decimal(0))
    return Response.of_json(
        200,
        {
            "instances": [_instance(state, one) for one in instances if one.live],
            "volumes": [one.shown(settings) for one in volumes if one.live],
            "trash": [one.shown(settings) for one in volumes if one.in_trash],
            "scripts": [script.shown() for script in state.scripts.values()],
            "ssh_keys": [key.shown() for key in state.ssh_keys.values()],
            "deleted_instances": [_instance(state, one) for one in instances if not one.live],
            "deleted_volumes": [one.shown(settings) for one in volumes if one.destroyed],
            "creates": state.creates,
            "meter": {
                **{key: money_number(value) for key, value in cost.items()},
                "total": money_number(total),
                "currency": settings.currency,
            },
            "balance": money_number(state.balance),
            "stock": state.stock.shown(),
            "now": round(state.now, 6),
        },
    )


def _instance(state: State, instance: Instance) -> dict[str, Any]:
    """The API's own fields and what only the sandbox knows: the script, when the system is up."""
    return instance.shown(state.settings) | {
        "script": instance.script,
        "running_at": instance.running_at,
        "boot_at": instance.boot_at,
        "discontinued_at": instance.discontinued_at,
        "cost": money_number(state.cost([instance])),
    }


def show_settings(state: State) -> Response:
    shown = state.settings.shown() | {"balance": money_number(state.balance)}
    return Response.of_json(200, {"settings": shown, "explained": Settings.explained()})


# -- change


def put_settings(state: State, request: Request) -> Response:
    values = _json(request)
    try:
        settings = state.settings.changed(values)
    except BadSetting as problem:
        raise _refused(problem) from None
    state.change(settings, balance=settings.balance if "balance" in values else None)
    return show_settings(state)


def put_stock(state: State, request: Request) -> Response:
    try:
        state.stock.replace(_json(request))
    except BadSetting as problem:
        raise _refused(problem) from None
    return Response.of_json(200, state.stock.shown())


def put_outcomes(state: State, request: Request) -> Response:
    try:
        state.outcomes = read_outcomes(_json(request))
    except BadSetting as problem:
        raise _refused(problem) from None
    return Response.of_json(200, {"outcomes": len(state.outcomes)})


def read_outcomes(raw: Any) -> list[OutcomeRule]:
    """The async failures of the next creates: the first rule that matches and is not used up."""
    if not isinstance(raw, list):
        raise BadSetting(
            "outcomes", raw, "a list of {instance_type, location, market, outcome, after_s, times}"
        )
    return [_outcome(f"outcomes[{index}]", row) for index, row in enumerate(raw)]


def _outcome(at: str, row: Any) -> OutcomeRule:
    keys = ("instance_type", "location", "market", "outcome", "after_s", "times")
    if not isinstance(row, dict):
        raise BadSetting(at, row, "an object")
    for key in row:
        if key not in keys:
            raise BadSetting(f"{at}.{key}", row[key], "no such key; known are " + ", ".join(keys))
    kind, after, times = row.get("outcome"), row.get("after_s"), row.get("times", 1)
    if kind not in OUTCOMES:
        raise BadSetting(f"{at}.outcome", kind, "one of " + ", ".join(OUTCOMES))
    if after is not None and (isinstance(after, bool) or not isinstance(after, (int, float)) or after < 0):
        raise BadSetting(f"{at}.after_s", after, "machine seconds after the create, or null")
    if isinstance(times, bool) or not isinstance(times, int) or times < 0:
        raise BadSetting(f"{at}.times", times, "a whole number; 0 = for ever")
    market = row.get("market") or "*"
    if market not in ("*", *MARKETS):
        raise BadSetting(f"{at}.market", market, "spot, on-demand or *")
    return OutcomeRule(
        row.get("instance_type") or "*",
        row.get("location") or "*",
        market,
        Outcome(kind, None if after is None else float(after)),
        times or None,
    )


# -- make happen


def evict(state: State, request: Request) -> Response:
    body = json_object(request)
    instance = _named(state, body)
    if not instance.spot:
        raise Refusal(400, f"{instance.hostname} is no spot instance, only those are evicted")
    if instance.status in ("deleting", "discontinued"):
        raise Refusal(400, f"{instance.hostname} is {instance.status}")
    lifecycle.evict(
        state,
        instance,
        journal=body.get("journal", True) is not False,
        return_stock=body.get("return_stock") is True,
    )
    return Response.of_json(200, _instance(state, instance))


def _named(state: State, body: Mapping[str, Any]) -> Instance:
    """By id, or the live one of a hostname."""
    wanted = body.get("id") or body.get("hostname")
    if wanted in state.instances:
        return state.instances[wanted]
    found = [one for one in state.instances.values() if one.hostname == wanted and one.live]
    if not found:
        raise Refusal(404, f"no live instance has the id or hostname {wanted}")
    return found[-1]


def put_instance(state: State, request: Request) -> Response:
    """An instance from the console: nobody counts it as a create, and it may be running already."""
    body = json_object(request)
    instance = place(state, read_order(state, body))
    if body.get("running", False) is True:
        lifecycle.begin_running(state, instance)
    else:
        lifecycle.begin(state, instance)
    return id_answer(202, instance.id, "plain")
