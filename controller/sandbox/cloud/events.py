"""What can be made to happen in the sandbox cloud, now or (by a scenario) at a time: one table.

An event is read and checked as a whole before anything of it is done; reading gives a deed, which is
done to a world and a project and tells what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from controller.sandbox.cloud import lifecycle
from controller.sandbox.cloud.catalogue import load
from controller.sandbox.cloud.choosing import Choice
from controller.sandbox.cloud.knobs import BadSetting, taken
from controller.sandbox.cloud.model import DESTROY, KEEP, TRASH, Instance
from controller.sandbox.cloud.outcomes import read_outcomes
from controller.sandbox.cloud.planting import read_planting
from controller.sandbox.cloud.reading import Fields
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.state import State
from controller.sandbox.cloud.stock import Stock

if TYPE_CHECKING:
    from controller.sandbox.cloud.world import CloudWorld

Deed = Callable[["CloudWorld", State], dict[str, Any]]
CATALOGUE = ("prices", "removed_types", "renamed_types", "added_types", "supported_os")
DISKS = {"keep": KEEP, "trash": TRASH, "destroy": DESTROY}


def read_event(fields: Fields) -> Deed:
    """Checked, and not yet done; raises `BadSetting`."""
    name = fields.choice("event", tuple(EVENTS))
    deed = EVENTS[name](fields)
    fields.done()
    return deed


# -- settings, stock, catalogue, money, credentials


def _settings(fields: Fields) -> Deed:
    values = fields.object("values")
    try:
        Settings().changed(values)
    except BadSetting as problem:
        raise problem.under(f"{fields.at}.values") from None

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        settings = state.settings.changed(values)
        state.change(settings, balance=settings.balance if "balance" in values else None)
        return {"changed": sorted(values)}

    return do


def _stock(fields: Fields) -> Deed:
    rows = fields.items("rows", "a list of {instance_type, location, market, count}")
    Stock(load()).read(rows, f"{fields.at}.rows")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        return {"changed": state.stock.replace(rows)}

    return do


def _outcomes(fields: Fields) -> Deed:
    """Added to those there are, in front of them."""
    rows = fields.items("rows")
    read_outcomes(rows, f"{fields.at}.rows")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        state.outcomes = read_outcomes(rows) + state.outcomes
        return {"outcomes": len(rows)}

    return do


def _catalogue(fields: Fields) -> Deed:
    """Prices, types and images that change, on top of what has changed before; null = as in the beginning."""
    kinds = {name: Settings.__dataclass_fields__[name].metadata for name in CATALOGUE}
    changes = {}
    for name, meta in kinds.items():
        value = fields.any(name)
        if value is not None:
            changes[name] = taken(f"{fields.at}.{name}", value, meta)
    returned = taken(f"{fields.at}.returned_types", fields.any("returned_types", []), {"kind": "texts"})

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        now = {name: getattr(state.settings, name) for name in CATALOGUE}
        for name, value in changes.items():
            now[name] = [*now[name], *value] if isinstance(value, list) else {**now[name], **value}
        now["removed_types"] = [name for name in now["removed_types"] if name not in returned]
        state.change(state.settings.changed(now))
        return {"changed": sorted(changes) + (["returned_types"] if returned else [])}

    return do


def _balance(fields: Fields) -> Deed:
    amount = fields.money("amount")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        state.account.add(amount - state.balance)
        return {"balance": float(amount)}

    return do


def _revoke_tokens(fields: Fields) -> Deed:
    """With `credentials`, only those are accepted from now on."""
    credentials = fields.text("credentials")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        world.tokens.revoke_all()
        if credentials:
            state.change(state.settings.changed({"credentials": credentials}))
        return {}

    return do


# -- what happens to instances


def _evict(fields: Fields) -> Deed:
    """Spot machines go, at once or as a wave over a time; the market's stock may be gone with them."""
    choice, over = Choice.read(fields), fields.seconds("over_s")
    journal, give_back = fields.any("journal"), fields.flag("return_stock")
    if not isinstance(journal, (bool, type(None))):
        raise fields.bad("journal", "true or false")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        def act(one: Instance) -> None:
            lifecycle.evict(state, one, journal=journal, return_stock=give_back)

        return _spread(state, choice.pick(state, spot_only=True), over, act)

    return do


def _delete(fields: Fields) -> Deed:
    """Somebody deletes them in the console."""
    choice, over = Choice.read(fields), fields.seconds("over_s")
    end = DISKS[fields.choice("disks", tuple(DISKS), "trash")]

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        def act(one: Instance) -> None:
            fates = dict.fromkeys(one.volume_ids, end)
            lifecycle.delete(state, one, fates, by=lifecycle.CONSOLE)

        return _spread(state, choice.pick(state), over, act)

    return do


def _shut_down(fields: Fields) -> Deed:
    """Somebody shuts them down; they go on costing."""
    choice, over = Choice.read(fields), fields.seconds("over_s")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        def act(one: Instance) -> None:
            lifecycle.shut_down(state, one, by=lifecycle.CONSOLE)

        running = [one for one in choice.pick(state) if one.status == "running"]
        return _spread(state, running, over, act)

    return do


def _fail(fields: Fields) -> Deed:
    """They end in a status that is no good, known or never seen before, and stay there."""
    choice, over = Choice.read(fields), fields.seconds("over_s")
    kind, error = fields.text("into", "error") or "error", fields.text("error") or None
    if kind in ("deleting", "discontinued"):
        raise fields.bad("into", "a status that is not the end; for that there are evict and delete")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        def act(one: Instance) -> None:
            lifecycle.fail(state, one, kind, error)

        return _spread(state, choice.pick(state), over, act)

    return do


def _spread(
    state: State, chosen: list[Instance], over_s: float, act: Callable[[Instance], None]
) -> dict[str, Any]:
    """At once, or at random moments of a time; one that has gone by then is left alone."""

    def unless_gone(one: Instance) -> None:
        if one.status not in ("deleting", "discontinued"):
            act(one)

    for one in chosen:
        if over_s > 0:
            state.later(state.rng.uniform(0, over_s), lambda one=one: unless_gone(one))  # type: ignore[misc]
        else:
            act(one)
    return {"ids": [one.id for one in chosen], "hostnames": [one.hostname for one in chosen]}


def _plant(fields: Fields) -> Deed:
    rows = fields.items("things")
    plantings = [read_planting(f"{fields.at}.things[{index}]", row) for index, row in enumerate(rows)]
    if not plantings:
        raise fields.bad("things", "a list of things to plant, not empty")

    def do(world: CloudWorld, state: State) -> dict[str, Any]:
        return {"planted": [{"kind": one.kind, "ids": one.all(state)} for one in plantings]}

    return do


EVENTS: Mapping[str, Callable[[Fields], Deed]] = {
    "settings": _settings,
    "stock": _stock,
    "outcomes": _outcomes,
    "catalogue": _catalogue,
    "balance": _balance,
    "revoke_tokens": _revoke_tokens,
    "evict": _evict,
    "delete": _delete,
    "shut_down": _shut_down,
    "fail": _fail,
    "plant": _plant,
}
