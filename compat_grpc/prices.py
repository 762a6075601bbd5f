"""Prices for the price expander: of a template's node by its labels, and of a pod by its share of a machine.

The expander drops a group when any of these calls fails, and asks for nodes that do not exist yet; so the
price follows from pool, type and location. A pod costs its largest share of the cheapest machine that has
what it asks for. Both in the currency of the settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from compat_grpc.groups import Group
from compat_grpc.wire import externalgrpc_pb2 as wire
from compat_grpc.wire import kube_pb2 as kube
from controller.domain import names
from controller.domain.cloudthings import Catalogue, InstanceType
from controller.domain.policy import Pool
from controller.domain.quantity import QuantityError, scheduler_units
from controller.domain.resources import Resources, add, maximum

_HOUR = Decimal(3600)


def hours(request: wire.PricingNodePriceRequest | wire.PricingPodPriceRequest) -> Decimal:
    """Newer releases send other fields; both are seconds and nanoseconds."""
    begin, end = request.startTime, request.endTime
    if request.HasField("startTimestamp") or request.HasField("endTimestamp"):
        begin, end = request.startTimestamp, request.endTimestamp
    seconds = Decimal(end.seconds - begin.seconds) + Decimal(end.nanos - begin.nanos) / 10**9
    return max(Decimal(0), seconds) / _HOUR


def of_group(pool: Pool, group: Group, catalogue: Catalogue, kind: InstanceType) -> Decimal:
    """An hour of the machine that would be bought now: the first market that sells it, or would."""
    markets = pool.markets()
    for market in markets:
        for offer in catalogue.offers:
            if (offer.type.name, offer.location, offer.market) == (kind.name, group.location, market) and (
                offer.available and offer.price > 0
            ):
                return offer.price
    return next((kind.price_in(market) for market in markets if kind.price_in(market) > 0), kind.price)


def group_of_labels(groups: Mapping[str, Group], labels: Mapping[str, str]) -> Group | None:
    pool, kind = labels.get(names.LABEL_POOL, ""), labels.get(names.LABEL_INSTANCE_TYPE, "")
    location = labels.get(names.LABEL_LOCATION, "") or labels.get(names.LABEL_ZONE, "")
    return next((group for group in groups.values() if group.place == (pool, kind, location)), None)


def requests_of(pod: bytes) -> dict[str, int]:
    """What the scheduler counts: containers together, or the largest of those that run before them."""
    try:
        spec = kube.Pod.FromString(pod).spec
    except Exception:  # noqa: BLE001  (whatever the decoder dislikes: a price is never worth an error)
        return {}
    running: dict[str, int] = {}
    for container in spec.containers:
        running = add(running, _units(container.resources.requests))
    first: dict[str, int] = {}
    for container in spec.initContainers:
        if container.restartPolicy == "Always":
            running = add(running, _units(container.resources.requests))
        else:
            first = maximum(first, _units(container.resources.requests))
    return add(maximum(running, first), _units(spec.overhead))


def _units(amounts: Mapping[str, kube.Quantity]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, amount in amounts.items():
        try:
            found[name] = max(0, scheduler_units(name, amount.string or "0"))
        except QuantityError:
            continue
    return found


def of_pod(priced: Iterable[tuple[Resources, Decimal]], needs: Mapping[str, int]) -> Decimal:
    """An hour of it, by the cheapest machine that has everything it asks for; else by what there is."""
    best: tuple[bool, Decimal] | None = None
    for there, price in priced:
        lacks = any(units and not there.get(name) for name, units in needs.items())
        shares = [Decimal(units) / there[name] for name, units in needs.items() if there.get(name)]
        rank = (lacks, price * max(shares, default=Decimal(0)))
        best = rank if best is None or rank < best else best
    return best[1] if best is not None else Decimal(0)
