"""The sandbox's own paths under `/_sandbox`: look into the cloud, and make things happen in it.

Nothing here exists in the real API and nothing here needs a token. `?project=` says whose things are
meant, the first project's without it. A bad request is a 400 that names the key, the value and what was
expected, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from controller.sandbox.cloud import lifecycle
from controller.sandbox.cloud.answers import Refusal, id_answer, json_object, money_number
from controller.sandbox.cloud.bill import bill
from controller.sandbox.cloud.events import read_event
from controller.sandbox.cloud.instances import place
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.model import Instance
from controller.sandbox.cloud.order import read_order
from controller.sandbox.cloud.outcomes import read_outcomes
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.scenario import read_scenario
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response

if TYPE_CHECKING:
    from controller.sandbox.cloud.world import CloudWorld

Endpoint = Callable[["CloudWorld", State, Request], Response]


@dataclass(frozen=True, slots=True)
class Control:
    summary: str
    endpoint: Endpoint
    answer: str  # the shape of its answer; nothing = an empty one
    status: int = 200
    refusals: tuple[int, ...] = ()


def handle(world: CloudWorld, request: Request, name: str) -> Response:
    control = CONTROLS.get(f"{request.method} {name}")
    if control is None:
        raise Refusal(404, f"the sandbox has no {request.method} {request.path}")
    state = world.project(request.first("project") or world.state.project)
    try:
        return control.endpoint(world, state, request)
    except BadSetting as problem:
        raise Refusal(400, str(problem)) from None


def _json(request: Request) -> Any:
    try:
        return request.json()
    except (ValueError, RecursionError):
        raise Refusal(400, "body: expected JSON") from None


# -- look


def _state(world: CloudWorld, state: State, request: Request) -> Response:
    instances, volumes = list(state.instances.values()), list(state.volumes.values())
    settings = state.settings
    cost = {"instances": state.cost(instances), "volumes": state.cost(volumes)}
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
                "total": money_number(sum(cost.values(), Decimal(0))),
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


def _bill(world: CloudWorld, state: State, request: Request) -> Response:
    return Response.of_json(200, bill(state))


def _projects(world: CloudWorld, state: State, request: Request) -> Response:
    rows = [
        {"project": one.project, "creates": one.creates, "balance": money_number(one.balance)}
        for one in world.projects.values()
    ]
    return Response.of_json(200, rows)


def _requests(world: CloudWorld, state: State, request: Request) -> Response:
    return Response.of_json(200, world.visits.shown(request))


def _openapi(world: CloudWorld, state: State, request: Request) -> Response:
    from controller.sandbox.cloud.openapi import description  # it describes this table too

    return Response.of_json(200, description())


def _faults(world: CloudWorld, state: State, request: Request) -> Response:
    """Over HTTP the carrier answers this itself; in memory there is none."""
    return world.faults.handle(request) or Response(404)


# -- knobs


def _settings(world: CloudWorld, state: State, request: Request) -> Response:
    shown = state.settings.shown() | {"balance": money_number(state.balance)}
    return Response.of_json(200, {"settings": shown, "explained": Settings.explained()})


def _put_settings(world: CloudWorld, state: State, request: Request) -> Response:
    values = _json(request)
    settings = state.settings.changed(values)
    state.change(settings, balance=settings.balance if "balance" in values else None)
    return _settings(world, state, request)


def _put_stock(world: CloudWorld, state: State, request: Request) -> Response:
    state.stock.replace(_json(request))
    return Response.of_json(200, state.stock.shown())


def _put_outcomes(world: CloudWorld, state: State, request: Request) -> Response:
    state.outcomes = read_outcomes(_json(request))
    return Response.of_json(200, {"outcomes": len(state.outcomes)})


def _put_scenario(world: CloudWorld, state: State, request: Request) -> Response:
    world.scenario.begin(read_scenario(_json(request)))
    return _scenario(world, state, request)


def _scenario(world: CloudWorld, state: State, request: Request) -> Response:
    return Response.of_json(200, world.scenario.shown())


def _end_scenario(world: CloudWorld, state: State, request: Request) -> Response:
    world.scenario.end()
    return Response(204)


# -- make happen


def _happen(world: CloudWorld, state: State, request: Request) -> Response:
    return Response.of_json(200, read_event(Fields("event", _json(request)))(world, state))


def _evict(world: CloudWorld, state: State, request: Request) -> Response:
    body = json_object(request)
    instance = _named(state, body)
    if not instance.spot:
        raise Refusal(400, f"{instance.hostname} is no spot instance, only those are evicted")
    if instance.status in ("deleting", "discontinued"):
        raise Refusal(400, f"{instance.hostname} is {instance.status}")
    lifecycle.evict(
        state, instance, journal=body.get("journal"), return_stock=body.get("return_stock") is True
    )
    return Response.of_json(200, _instance(state, instance))


def _named(state: State, body: Mapping[str, Any]) -> Instance:
    """By id, or the live one of a hostname."""
    wanted = body.get("id") or body.get("hostname")
    if isinstance(wanted, str) and wanted in state.instances:
        return state.instances[wanted]
    found = [one for one in state.instances.values() if one.hostname == wanted and one.live]
    if not found:
        raise Refusal(404, f"no live instance has the id or hostname {wanted}")
    return found[-1]


def _put_instance(world: CloudWorld, state: State, request: Request) -> Response:
    """An instance from the console: nobody counts it as a create, and it may be running already."""
    body = json_object(request)
    instance = place(state, read_order(state, body))
    if body.get("running", False) is True:
        lifecycle.begin_running(state, instance)
    else:
        lifecycle.begin(state, instance, by=lifecycle.CONSOLE)
    return id_answer(202, instance.id, Settings())


def _revoke_tokens(world: CloudWorld, state: State, request: Request) -> Response:
    world.tokens.revoke_all()
    return Response(204)


CONTROLS: Mapping[str, Control] = {
    "GET state": Control("Everything there is and was, with what only the sandbox knows", _state, "State"),
    "GET bill": Control("Who owes what for what", _bill, "Bill"),
    "GET projects": Control("The projects that have been seen", _projects, "Projects"),
    "GET requests": Control("Which requests arrived, and when", _requests, "Visits"),
    "GET openapi.json": Control("This description", _openapi, "Description"),
    "GET settings": Control("All knobs", _settings, "Knobs"),
    "PUT settings": Control("Turn some of them", _put_settings, "Knobs", 200, (400,)),
    "PUT stock": Control("Set what is free, row by row", _put_stock, "Stock", 200, (400,)),
    "PUT outcomes": Control("Say how accepted creates fail later", _put_outcomes, "Outcomes", 200, (400,)),
    "GET faults": Control("The rules in force, and how often each has hit", _faults, "Faults"),
    "PUT faults": Control("Other rules, instead of these", _faults, "Faults", 200, (400,)),
    "DELETE faults": Control("No rules", _faults, "Faults"),
    "GET scenario": Control("What is still to come and what has happened", _scenario, "Scenario"),
    "PUT scenario": Control("Begin one, instead of the one before", _put_scenario, "Scenario", 200, (400,)),
    "DELETE scenario": Control("End it; what it did stays done", _end_scenario, "", 204),
    "POST events": Control("Make one thing happen now", _happen, "Happened", 200, (400,)),
    "POST evict": Control("Evict one spot instance", _evict, "SandboxInstance", 200, (400, 404)),
    "POST instances": Control("An instance nobody bought through the API", _put_instance, "Id", 202, (400,)),
    "POST revoke-tokens": Control("Every token is stale", _revoke_tokens, "", 204),
}
