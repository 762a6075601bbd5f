"""What is sold where and for how much: types, availability, locations, images, the balance.

The quirks: availability is a bare yes or no per location and market, on-demand unless asked, under
an old and a new spelling of the same parameters; and it is no promise.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from controller.sandbox.cloud.answers import Refusal, invalid, money_number
from controller.sandbox.cloud.catalogue import InstanceType, shown_type
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response

PERIODS = (("MONTH_1", "1 month", 1, 5), ("MONTH_6", "6 months", 6, 10), ("YEAR_1", "1 year", 12, 20))


def list_types(state: State, request: Request) -> Response:
    currency = request.first("currency", "usd").lower()
    if currency not in ("usd", "eur"):
        raise invalid("currency must be one of usd, eur")
    rate = _rate(state, currency)
    rows = [shown_type(kind, name=name, currency=currency, rate=rate) for name, kind in state.sold().items()]
    return Response.of_json(200, rows)


def _rate(state: State, currency: str) -> Decimal:
    """Prices are kept in the project's currency; the list may be asked for in the other one."""
    if currency == state.settings.currency:
        return Decimal(1)
    return state.settings.euro_rate if currency == "eur" else 1 / state.settings.euro_rate


def price_history() -> Response:
    raise Refusal(404, "Price history is not supported anymore")


def periods() -> Response:
    """Long-term contracts: shown, because their path is public, and refused in a create."""
    rows: list[dict[str, Any]] = [
        {
            "code": code,
            "name": name,
            "is_enabled": True,
            "unit_name": "month",
            "unit_value": months,
            "discount_percentage": discount,
        }
        for code, name, months, discount in PERIODS
    ]
    return Response.of_json(200, rows)


def availability(state: State, request: Request) -> Response:
    spot, codes = _asked(state, request)
    found = [
        (code, [name for name, kind in state.sold().items() if _free(state, kind, code, spot=spot)])
        for code in codes
    ]
    omit = state.settings.empty_locations == "omitted"
    rows = [{"location_code": code, "availabilities": names} for code, names in found if names or not omit]
    return Response.of_json(200, rows)


def availability_of(state: State, request: Request, name: str) -> Response:
    spot, codes = _asked(state, request)
    kind = state.type_named(name)
    if kind is None:
        raise Refusal(404, f"Instance type {name} not found")
    free = any(_free(state, kind, code, spot=spot) for code in codes)
    return Response.of_json(200, str(free).lower() if state.settings.availability_as == "text" else free)


def _asked(state: State, request: Request) -> tuple[bool, list[str]]:
    spot = request.first("is_spot") or request.first("isSpot") or "false"
    if spot.lower() not in ("true", "false"):
        raise invalid("is_spot must be true or false")
    code = request.first("location_code") or request.first("locationCode")
    if code and code not in state.catalogue.codes:
        raise invalid(f"Invalid location code {code}")
    return spot.lower() == "true", [code] if code else list(state.catalogue.codes)


def _free(state: State, kind: InstanceType, code: str, *, spot: bool) -> bool:
    return state.stock.has(state.ground.place(kind, code, "spot" if spot else "on-demand"))


def locations(state: State) -> Response:
    return Response.of_json(200, [dict(location) for location in state.catalogue.locations])


def images(state: State, request: Request) -> Response:
    name = request.first("instance_type")
    slugs = set(state.catalogue.images)
    if name:
        kind = state.type_named(name)
        if kind is None:
            raise Refusal(404, f"Instance type {name} not found")
        slugs = set(kind.supported_os)
    found = [image.shown() for slug, image in state.catalogue.images.items() if slug in slugs]
    return Response.of_json(200, [image for image in found if name or not image["is_cluster"]])


def cluster_images(state: State) -> Response:
    found = [image.shown() for image in state.catalogue.images.values()]
    return Response.of_json(200, [image for image in found if image["is_cluster"]])


def balance(state: State) -> Response:
    amount = max(state.balance, Decimal(0))
    return Response.of_json(200, {"amount": money_number(amount), "currency": state.settings.currency})
