"""Resource quantities as whole thousandths, rounded up: exact enough to compare and to add.

Kubernetes takes binary and decimal suffixes and exponents, and rounds what is finer than a
thousandth up; `cpu: 0.5`, `500m` and `5e2m` are one amount.
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


@lru_cache(maxsize=4096)
def thousandths(quantity: Any) -> int:
    """The amount times 1,000. ValueError where it is no quantity."""
    if isinstance(quantity, bool) or not isinstance(quantity, (str, int, float)):
        raise ValueError(quantity)
    found = _SHAPE.fullmatch(str(quantity))
    if found is None:
        raise ValueError(quantity)
    number, exponent, suffix = found.groups()
    value = Decimal(number + (exponent or "")) * _SCALE.get(suffix or "", Decimal(1)) * 1000
    return int(value.to_integral_value(ROUND_CEILING))


def amounts(quantities: Any) -> dict[str, int]:
    return {name: thousandths(value) for name, value in (quantities or {}).items()}
