"""What is paid: rules by type, model or for everything, the closest one first."""

from __future__ import annotations

from decimal import Decimal

import pytest

from controller.domain.cloudthings import InstanceType
from controller.domain.prices import PriceRule, priced

KIND = InstanceType(
    name="1A100.22V", model="A100 80GB", gpus=1, vcpus=22, memory_gib=120,
    price=Decimal("1.29"), spot_price=Decimal("0.4515"),
)  # fmt: skip
TENTH = PriceRule(discount=Decimal("0.1"))
AGREED = PriceRule(on_demand=Decimal("1.00"))


@pytest.mark.parametrize(
    ("rules", "price", "spot"),
    [
        ({}, "1.29", "0.4515"),
        ({"*": TENTH}, "1.161", "0.40635"),
        ({"a100-80gb": TENTH, "*": AGREED}, "1.161", "0.40635"),
        ({"1a100-22v": AGREED, "a100-80gb": TENTH, "*": TENTH}, "1.00", "0.4515"),
        ({"*": PriceRule(on_demand=Decimal(1), discount=Decimal("0.5"))}, "1", "0.22575"),
        ({"*": PriceRule(spot=Decimal("0.4"))}, "1.29", "0.4"),
        ({"2a100-44v": AGREED}, "1.29", "0.4515"),
    ],
)
def test_the_closest_rule_decides(rules: dict[str, PriceRule], price: str, spot: str) -> None:
    paid = priced(rules, KIND)
    assert (paid.price, paid.spot_price) == (Decimal(price), Decimal(spot))


def test_a_market_that_is_not_sold_gets_no_price_from_a_rule() -> None:
    only_on_demand = InstanceType(
        name="x", model="y", gpus=1, vcpus=1, memory_gib=1, price=Decimal(1), spot_price=Decimal(0)
    )
    assert priced({"*": PriceRule(spot=Decimal("0.4"))}, only_on_demand).spot_price == 0
