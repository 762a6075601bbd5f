"""What a knob is and which values it takes: its kind, its default, a word of explanation.

A knob that answers one of the API's open questions carries that question's number, so that the
documentation can tell which is which.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import Any

from controller.sandbox.cloud.spread import FORMS, LogNormal, Uniform, read_spread


class BadSetting(ValueError):
    """A value that cannot be taken, naming the key, the value and what was expected."""

    def __init__(self, key: str, value: Any, expected: str) -> None:
        super().__init__(f"{key}: got {json.dumps(value, default=str)}, expected {expected}")
        self.key, self.value, self.expected = key, value, expected

    def under(self, at: str) -> BadSetting:
        """The same, with the longer key of what it is part of."""
        return BadSetting(f"{at}.{self.key}", self.value, self.expected)


EXPECTED: Mapping[str, str] = {
    "flag": "true or false",
    "text": "a text",
    "count": "a whole number, 0 or more",
    "number": "a number, 0 or more",
    "positive": "a number above 0",
    "span": FORMS,
    "texts": "a list of texts",
    "texts_by_text": "an object of texts",
    "lists_by_text": "an object of lists of texts",
    "object": "an object",
    "money": "an amount of money, 0 or more",
    "prices": "{type: {price_per_hour, spot_price}}",
}


def knob(kind: str, default: Any, text: str, *, question: int | None = None, **more: Any) -> Any:
    meta = {"kind": kind, "text": text, "question": question, **more}
    if isinstance(default, (dict, list)):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


def span(low: float, high: float, text: str, *, question: int | None = None) -> Any:
    return knob("span", Uniform(low, high), text, question=question)


def choice(default: Any, options: tuple[Any, ...], text: str, *, question: int | None = None) -> Any:
    return knob("choice", default, text, question=question, options=options)


def taken(key: str, value: Any, meta: Mapping[str, Any]) -> Any:
    """The value as the program keeps it; raises `BadSetting`."""
    kind: str = meta["kind"]
    if kind.endswith("?") and value is None:
        return None
    match kind.rstrip("?"):
        case "flag" if isinstance(value, bool):
            return value
        case "text" if isinstance(value, str) and value:
            return value
        case "count" if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        case "number" if is_number(value) and value >= 0:
            return float(value)
        case "positive" if is_number(value) and value > 0:
            return float(value)
        case "choice" if any(value == option and type(value) is type(option) for option in meta["options"]):
            return value
        case "span" if (spread := read_spread(value)) is not None:
            return spread
        case "texts" if _texts(value) and set(value) <= set(meta.get("among", value)):
            if set(meta.get("needed", ())) <= set(value) and (
                "among" not in meta or len(set(value)) == len(value)
            ):
                return list(value)
        case "texts_by_text" if isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
            return dict(value)
        case "lists_by_text" if isinstance(value, dict) and all(_texts(v) for v in value.values()):
            return {name: list(items) for name, items in value.items()}
        case "object" if isinstance(value, dict):
            return dict(value)
        case "money":
            return money(key, value)
        case "prices" if isinstance(value, dict):
            return {name: _price_row(f"{key}.{name}", row) for name, row in value.items()}
    raise BadSetting(key, value, expected(meta))


def expected(meta: Mapping[str, Any]) -> str:
    kind: str = meta["kind"]
    if kind == "choice":
        return "one of " + ", ".join(str(option) for option in meta["options"])
    words = EXPECTED[kind.rstrip("?")]
    if "among" in meta:
        words += " among " + ", ".join(meta["among"]) + ", each once"
    if meta.get("needed"):
        words += ", with " + " and ".join(meta["needed"])
    return words + (" or null" if kind.endswith("?") else "")


def plain(value: Any) -> Any:
    """A value as JSON shows it."""
    if isinstance(value, (Uniform, LogNormal)):
        return value.shown()
    if isinstance(value, Decimal):
        return round(float(value), 4)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, (tuple, list)) else value


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def money(key: str, value: Any) -> Decimal:
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal(-1)
    if isinstance(value, bool) or not amount.is_finite() or amount < 0:
        raise BadSetting(key, value, EXPECTED["money"])
    return amount


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _price_row(key: str, row: Any) -> dict[str, Decimal]:
    if not isinstance(row, dict) or not set(row) <= {"price_per_hour", "spot_price"}:
        raise BadSetting(key, row, "an object with price_per_hour, spot_price or both")
    return {name: money(f"{key}.{name}", value) for name, value in row.items()}
