"""Windows of the week as a kind of value: kept as people wrote them, refused with what is wrong."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainValidator

from controller.config.values import parse_text, wrong
from controller.domain.windows import EXPECTED, parse_window


def parse_hours(value: Any) -> str:
    text = parse_text(value)
    try:
        parse_window(text)
    except ValueError as error:
        raise wrong(f"{EXPECTED}; {error}") from None
    return text


Hours = Annotated[str, PlainValidator(parse_hours)]
