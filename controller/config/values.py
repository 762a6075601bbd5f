"""The kinds of values that settings are made of: texts, counts, money, durations, shares; addresses are in `urls`.

Every kind takes what YAML, JSON and environment variables write for it and refuses the rest with the
words that the user reads. YAML 1.1 turns an unquoted `on` or `no` into a boolean and Python takes a
boolean for a number, so both are refused by name instead of being converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeVar

from pydantic import PlainSerializer, PlainValidator, SecretStr
from pydantic_core import PydanticCustomError

from controller.domain.windows import EXPECTED as WINDOW
from controller.domain.windows import parse_window

Path = tuple[str | int, ...]
T = TypeVar("T")

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_MONEY = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PIECE = re.compile(r"([0-9]+(?:\.[0-9]+)?)(us|ms|d|h|m|s)")
_UNITS = {
    "d": Decimal(86_400_000_000),
    "h": Decimal(3_600_000_000),
    "m": Decimal(60_000_000),
    "s": Decimal(1_000_000),
    "ms": Decimal(1000),
    "us": Decimal(1),
}
_MOST = 1_000_000_000
_LONGEST = timedelta(days=3650)
_QUOTE = "text; YAML reads on, off, yes and no as true or false, so write it in quotes"


def wrong(expected: str) -> PydanticCustomError:
    """The value is refused; `expected` says what belongs there."""
    return PydanticCustomError("expected", "expected {expected}", {"expected": expected})


def several(problems: Iterable[tuple[Path, Any, str]]) -> PydanticCustomError:
    """Parts of the value are refused: (path below the value, the part, what was expected)."""
    return PydanticCustomError("several", "several problems", {"problems": list(problems)})


def parse_text(value: Any) -> str:
    if isinstance(value, bool):
        raise wrong(_QUOTE)
    if isinstance(value, int | float):
        raise wrong("text; write the number in quotes")
    if not isinstance(value, str):
        raise wrong("text")
    if not value or not value.isprintable():
        raise wrong("text that is not empty, on one line")
    return value


def parse_flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise wrong("true or false")


def parse_whole(value: Any, low: int = 0, high: int = _MOST) -> int:
    wanted = f"a whole number, {low} or more" if high == _MOST else f"a whole number from {low} to {high}"
    if isinstance(value, str) and len(value) < 20 and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise wrong(wanted)
    return value


def parse_money(value: Any) -> Decimal:
    expected = wrong("an amount of money per hour or month, 0 or more, such as 2.50")
    if isinstance(value, bool):
        raise expected
    if isinstance(value, str) and len(value) < 30 and _MONEY.fullmatch(value):
        amount = Decimal(value)
    elif isinstance(value, int | float):
        amount = Decimal(str(value))
    elif isinstance(value, Decimal):
        amount = value
    else:
        raise expected
    if not amount.is_finite() or not 0 <= amount <= _MOST:
        raise expected
    return amount


def show_money(amount: Decimal) -> int | float | str:
    """A number where that loses nothing, which is always so for amounts that people write."""
    if amount == amount.to_integral_value():
        return int(amount)
    return float(amount) if Decimal(str(float(amount))) == amount else str(amount)


def parse_duration(value: Any) -> timedelta:
    """`10m`, `90s`, `1h30m`, `100ms`; a plain number is seconds."""
    expected = wrong("a duration such as 90s, 10m, 1h30m or 100ms (a plain number is seconds)")
    if isinstance(value, bool):
        raise expected
    if isinstance(value, timedelta):
        span = value
    elif isinstance(value, int | float | str) and len(str(value)) <= 40:
        text = str(value)
        if _MONEY.fullmatch(text):
            text += "s"
        pieces = _PIECE.findall(text)
        if not pieces or "".join(number + unit for number, unit in pieces) != text:
            raise expected
        micro = sum((Decimal(number) * _UNITS[unit] for number, unit in pieces), Decimal(0))
        if micro > _LONGEST // timedelta(microseconds=1):
            raise wrong("a duration of at most ten years")
        span = timedelta(microseconds=round(micro))
    else:
        raise expected
    if not timedelta(0) <= span <= _LONGEST:
        raise expected
    return span


def parse_some_time(value: Any) -> timedelta:
    span = parse_duration(value)
    if not span:
        raise wrong("a duration longer than 0, such as 30s")
    return span


def parse_lifetime(value: Any) -> timedelta:
    span = parse_duration(value)
    if span < timedelta(hours=1):
        raise wrong(
            "a duration of at least 1h, such as 30d: machines that expire sooner would be replaced for ever"
        )
    return span


def show_duration(span: timedelta) -> str:
    """As people write it, and exactly: `1h30m`, `24h`, `100ms`, `0s`."""
    left = span // timedelta(microseconds=1)
    parts = []
    for unit in ("h", "m", "s", "ms", "us"):
        count, left = divmod(left, int(_UNITS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_share(value: Any) -> str:
    """`20%`, or a count of machines."""
    expected = wrong('a share such as "20%" or a whole number of machines')
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise expected
    text = str(value)
    if not re.fullmatch(r"(?:0|[1-9][0-9]{0,5})%?", text) or (text.endswith("%") and int(text[:-1]) > 100):
        raise expected
    return text


def matching(pattern: str, expected: str) -> PlainValidator:
    """A text of exactly this form."""
    form = re.compile(pattern)

    def parse(value: Any) -> str:
        text = parse_text(value)
        if not form.fullmatch(text):
            raise wrong(expected)
        return text

    return PlainValidator(parse)


def whole(low: int, high: int = _MOST) -> PlainValidator:
    return PlainValidator(lambda value: parse_whole(value, low, high))


def attempt(parse: Callable[[Any], T], value: Any) -> T | None:
    """The parsed value, or None where it is refused (the model reports that)."""
    try:
        return parse(value)
    except PydanticCustomError:
        return None


def parse_patterns(value: Any) -> tuple[str, ...]:
    """Regular expressions, one or several."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise wrong("a list of regular expressions")
    problems: list[tuple[Path, Any, str]] = []
    for n, pattern in enumerate(found):
        try:
            if len(re.compile(parse_text(pattern)).pattern) > 1000:
                problems.append(((n,), pattern, "a regular expression of at most 1000 characters"))
        except (re.error, RecursionError, OverflowError) as error:
            problems.append(((n,), pattern, f"a regular expression ({error})"))
        except PydanticCustomError:
            problems.append(((n,), pattern, "a regular expression: text that is not empty, on one line"))
    if problems:
        raise several(problems)
    return tuple(found)


def parse_windows(value: Any) -> tuple[str, ...]:
    """Windows of the week, one or several."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not found:
        raise wrong(WINDOW)
    problems: list[tuple[Path, Any, str]] = []
    for n, text in enumerate(found):
        try:
            parse_window(parse_text(text))
        except (ValueError, PydanticCustomError) as error:
            why = f": {error}" if not isinstance(error, PydanticCustomError) else ""
            problems.append(((n,) if not isinstance(value, str) else (), text, WINDOW + why))
    if problems:
        raise several(problems)
    return tuple(found)


def parse_secret(value: Any) -> SecretStr:
    return value if isinstance(value, SecretStr) else SecretStr(parse_text(value))


Text = Annotated[str, PlainValidator(parse_text)]
Flag = Annotated[bool, PlainValidator(parse_flag)]
Count = Annotated[int, whole(0)]
Money = Annotated[Decimal, PlainValidator(parse_money), PlainSerializer(show_money, when_used="json")]
Duration = Annotated[
    timedelta, PlainValidator(parse_duration), PlainSerializer(show_duration, when_used="json")
]
SomeTime = Annotated[
    timedelta, PlainValidator(parse_some_time), PlainSerializer(show_duration, when_used="json")
]
Lifetime = Annotated[
    timedelta, PlainValidator(parse_lifetime), PlainSerializer(show_duration, when_used="json")
]
Share = Annotated[str, PlainValidator(parse_share)]
Secret = Annotated[
    SecretStr, PlainValidator(parse_secret), PlainSerializer(lambda _: "***", when_used="json")
]
Name = Annotated[
    str,
    matching(
        r"[a-z0-9](?:[a-z0-9-]{0,18}[a-z0-9])?",
        "1 to 20 of a-z, 0-9 and -, with no - at either end (in quotes if it is a number)",
    ),
]
