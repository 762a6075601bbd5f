"""Kubernetes quantities, exactly.

A quantity is a decimal number with a binary (`Ki`…`Ei`) or decimal (`n`…`E`) suffix or an exponent.
The scheduler compares integers: CPU in milli-units, everything else in whole units, both rounded
*up*; `scheduler_units` does the same, so that our idea of "fits" cannot drift by rounding.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache

_SUFFIX = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_FORM = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
# The default context rounds to 28 digits; the largest legal quantities need more.
_EXACT = Context(prec=100)


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


def negative(text: str | float) -> str:
    """A quantity, but of nothing that there can be; the API server takes none from anybody."""
    return f"{str(text)!r} is negative; expected 0 or more"


@lru_cache(maxsize=4096)
def parse_quantity(text: str | int) -> Decimal:
    """The exact value of a quantity as Kubernetes writes it."""
    found = _FORM.fullmatch(str(text).strip())
    if found is None:
        raise QuantityError(f"{text!r} is not a quantity; expected a number such as 2, 500m, 1.5Gi or 2e3")
    number = Decimal(found["number"])
    if found["exponent"]:
        return number.scaleb(int(found["exponent"]), _EXACT)
    return _EXACT.multiply(number, _SUFFIX[found["suffix"] or ""])


@lru_cache(maxsize=8192)
def scheduler_units(resource: str, text: str | int) -> int:
    """The integer that the scheduler compares: milli-CPUs for `cpu`, whole units for the rest."""
    value = parse_quantity(text)
    if resource == "cpu":
        value = _EXACT.multiply(value, Decimal(1000))
    return int(value.to_integral_value(rounding=ROUND_CEILING, context=_EXACT))


def show(resource: str, units: int) -> str:
    """Scheduler units in the form that people read: `1500m`, `32Gi`, `4`."""
    if resource == "cpu":
        return str(units // 1000) if units % 1000 == 0 else f"{units}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for suffix, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
            if units >= 10 * size or (units and units % size == 0):
                amount = f"{units / size:.1f}".removesuffix(".0")  # `:g` writes large ones as 4.29497e+09
                return f"{amount}{suffix}"
    return str(units)


def to_kubernetes(resource: str, units: int) -> str:
    """Scheduler units as a quantity that parses back to exactly the same units."""
    return (
        f"{units}m"
        if resource == "cpu" and units % 1000
        else str(units // 1000 if resource == "cpu" else units)
    )
