"""Reading what people write to make things happen: each key checked, each mistake named.

`Fields` hands out the values of one object; `done` complains about keys that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from controller.sandbox.cloud.knobs import BadSetting, is_number, money


class Fields:
    def __init__(self, at: str, raw: Any) -> None:
        if not isinstance(raw, dict):
            raise BadSetting(at, raw, "an object")
        self.at = at
        self.raw: Mapping[str, Any] = raw
        self._known: list[str] = []

    def done(self) -> None:
        for key in self.raw:
            if key not in self._known:
                known = ", ".join(self._known)
                raise BadSetting(f"{self.at}.{key}", self.raw[key], f"no such key; known are {known}")

    def any(self, key: str, default: Any = None) -> Any:
        self._known.append(key)
        value = self.raw.get(key)
        return default if value is None else value

    def bad(self, key: str, expected: str) -> BadSetting:
        return BadSetting(f"{self.at}.{key}", self.raw.get(key), expected)

    def text(self, key: str, default: str = "") -> str:
        value = self.any(key, default)
        if not isinstance(value, str):
            raise self.bad(key, "a text")
        return value

    def needed(self, key: str) -> str:
        value = self.text(key)
        if not value:
            raise self.bad(key, "a text that is not empty")
        return value

    def choice(self, key: str, options: tuple[str, ...], default: str = "") -> str:
        value = self.any(key, default)
        if value not in options:
            raise self.bad(key, "one of " + ", ".join(options))
        return str(value)

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.any(key, default)
        if not isinstance(value, bool):
            raise self.bad(key, "true or false")
        return value

    def number(self, key: str, default: float | None = None, *, most: float | None = None) -> float | None:
        value = self.any(key, default)
        if value is None:
            return None
        if not is_number(value) or value < 0 or (most is not None and value > most):
            raise self.bad(key, "a number, 0 or more" + (f", {most:g} at most" if most is not None else ""))
        return float(value)

    def seconds(self, key: str) -> float:
        value = self.number(key, 0.0)
        return value if value is not None else 0.0

    def count(self, key: str, default: int | None = None, *, least: int = 0) -> int | None:
        value = self.any(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.bad(key, f"a whole number, {least} or more")
        return value

    def items(self, key: str, form: str = "a list") -> list[Any]:
        value = self.any(key, [])
        if not isinstance(value, list):
            raise self.bad(key, form)
        return value

    def object(self, key: str) -> dict[str, Any]:
        value = self.any(key, {})
        if not isinstance(value, dict):
            raise self.bad(key, "an object")
        return value

    def money(self, key: str) -> Decimal:
        return money(f"{self.at}.{key}", self.any(key))
