"""What a machine really costs where that is not the list price: agreed prices and discounts.

The API knows list prices only. Limits, preferences and budgets are about what is paid, so a rule is
applied before anything is compared. The rule for a type wins over the one for its GPU model, and that
over the one for everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import msgspec
from msgspec.structs import replace

from controller.domain.cloudthings import SPOT, InstanceType
from controller.domain.names import gpu_slug

ANY = "*"


class PriceRule(msgspec.Struct, frozen=True, kw_only=True):
    """A price per hour of one machine replaces the list price; a discount is taken off what is not replaced."""

    on_demand: Decimal | None = None
    spot: Decimal | None = None
    discount: Decimal = Decimal(0)  # a fraction

    def apply(self, market: str, listed: Decimal) -> Decimal:
        agreed = self.spot if market == SPOT else self.on_demand
        return agreed if agreed is not None else listed * (1 - self.discount)


Rules = Mapping[str, PriceRule]  # by slug of a type or a GPU model, or ANY


def rule_for(rules: Rules, type_name: str, model: str) -> PriceRule | None:
    keys = (gpu_slug(type_name), gpu_slug(model), ANY)
    return next((rules[key] for key in keys if key in rules), None)


def price_paid(rules: Rules, type_name: str, model: str, market: str, listed: Decimal) -> Decimal:
    rule = rule_for(rules, type_name, model)
    return rule.apply(market, listed) if rule is not None else listed


def priced(rules: Rules, kind: InstanceType) -> InstanceType:
    """The type with the prices that are paid for it. A market that is not sold stays without a price."""
    rule = rule_for(rules, kind.name, kind.model)
    if rule is None:
        return kind
    return replace(
        kind,
        price=rule.apply("", kind.price) if kind.price else kind.price,
        spot_price=rule.apply(SPOT, kind.spot_price) if kind.spot_price else kind.spot_price,
    )
