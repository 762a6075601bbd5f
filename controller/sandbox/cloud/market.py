"""What is sold where and for how much: types, availability, locations, images, the balance.

The quirks: availability is a bare yes or no per location and market, on-demand unless asked, under
an old and a new spelling of the same parameters; and it is no promise.
"""

from __future__ import annotations

from decimal import Decimal

from controller.sandbox.cloud.answers import Refusal, invalid, money_number
from controller.sandbox.cloud.catalogue import InstanceType, shown_type
from controller.sandbox.cloud.state import State
from controller.sandbox.wire import Request, Response


def list_types(state: State, request: Request) -> Response:
    currency = request.first("currency", "usd").lower()
    if currency not in ("usd", "eur"):
        raise invalid("currency must be one of usd, eur")
    rate = _rate(state, currency)
    rows = []
    for name, kind in state.sold():
        row = shown_type(_priced(state, kind), name=name, currency=currency, rate=rate)
        rows.append(row)
    return Response.of_json(200, rows)


def _rate(state: State, currency: str) -> Decimal:
    """Prices are kept in the project's currency; the list may be asked for in the other one."""
    if currency == state.settings.currency:
        return Decimal(1)
    return state.settings.euro_rate if currency == "eur" else 1 / state.settings.euro_rate


def _priced(state: State, kind: InstanceType) -> InstanceType:
    if kind.instance_type not in state.settings.prices:
        return kind
    return InstanceType(
        kind.instance_type,
        kind.model,
        kind.gpus,
        kind.vcpus,
        state.price(kind, spot=False),
        state.price(kind, spot=True),
        kind.supported_os,
        kind.locations,
        kind.hardware,
        kind.facts,
    )


def availability(state: State, request: Request) -> Response:
    spot, codes = _asked(state, request)
    sold = list(state.sold())
    rows = [
        {
            "location_code": code,
            "availabilities": [name for name, kind in sold if _free(state, kind, code, spot=spot)],
        }
        for code in codes
    ]
    return Response.of_json(200, rows)


def availability_of(state: State, request: Request, name: str) -> Response:
    spot, codes = _asked(state, request)
    kind = state.type_named(name)
    if kind is None:
        raise Refusal(404, f"Instance type {name} not found")
    return Response.of_json(200, any(_free(state, kind, code, spot=spot) for code in codes))


def _asked(state: State, request: Request) -> tuple[bool, list[str]]:
    spot = request.first("is_spot") or request.first("isSpot") or "false"
    if spot.lower() not in ("true", "false"):
        raise invalid("is_spot must be true or false")
    code = request.first("location_code") or request.first("locationCode")
    if code and code not in state.catalogue.codes:
        raise invalid(f"Invalid location code {code}")
    return spot.lower() == "true", [code] if code else list(state.catalogue.codes)


def _free(state: State, kind: InstanceType, code: str, *, spot: bool) -> bool:
    return state.stock.has((kind.instance_type, code, "spot" if spot else "on-demand"))


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
