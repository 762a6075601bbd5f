"""Resource quantities as whole thousandths, rounded up, and in the one form in which they are stored.

Kubernetes takes binary and decimal suffixes and exponents, and rounds what is finer than a
thousandth up; `cpu: 0.5`, `500m` and `5e2m` are one amount. It writes `500m` for all of them.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_SHAPE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?")
_SCALE = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3")}
_SCALE |= {suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)}
_SCALE |= {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)}
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _parts(quantity: Any) -> tuple[Decimal, str, str]:
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float)):
        raise ValueError(quantity)
    found = _SHAPE.fullmatch(str(quantity))
    if found is None:
        raise ValueError(quantity)
    number, exponent, suffix = found.groups()
    return (
        Decimal(number + (exponent or "")) * _SCALE.get(suffix or "", Decimal(1)),
        exponent or "",
        suffix or "",
    )


@lru_cache(maxsize=4096)
def thousandths(quantity: Any) -> int:
    """The amount times 1,000. ValueError where it is no quantity."""
    value, _, _ = _parts(quantity)
    return int((value * 1000).to_integral_value(ROUND_CEILING))


@lru_cache(maxsize=4096)
def canonical(quantity: Any) -> str:
    """The form that is stored: the largest suffix of its family that leaves a whole number."""
    _, exponent, suffix = _parts(quantity)
    amount = thousandths(quantity)
    if amount == 0:
        return "0"
    if suffix.endswith("i") and amount % 1000 == 0 and abs(amount) >= 1024 * 1000:
        whole, power = amount // 1000, 0
        while whole % 1024 == 0 and power < len(_BINARY) - 1:
            whole, power = whole // 1024, power + 1
        return f"{whole}{_BINARY[power]}"
    power = -1
    while amount % 1000 == 0 and power < len(_DECIMAL) - 1:
        amount, power = amount // 1000, power + 1
    if exponent:
        return f"{amount}e{3 * power}" if power else str(amount)
    return f"{amount}{'m' if power < 0 else _DECIMAL[power]}"


def amounts(quantities: Any) -> dict[str, int]:
    return {name: thousandths(value) for name, value in (quantities or {}).items()}


def written(amount: int) -> str:
    """A sum of thousandths, in binary steps where it has any."""
    return canonical(f"{amount // 1024000}Ki" if amount % 1024000 == 0 else f"{amount}m")
