"""Headers of the calls to an endpoint, and the placeholders that they and the body may have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from controller.config.values import Path, parse_text, several, wrong

PLACEHOLDERS = frozenset({"machine", "action", "gpus", "id"})
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OF_THE_CALL = ("host", "content-length", "transfer-encoding", "connection")
_ANOTHER = "another header: this one follows from the call itself"


def unknown_placeholder(text: str) -> str:
    unknown = sorted(set(_PLACEHOLDER.findall(text)) - PLACEHOLDERS)
    return (
        f"only the placeholders {', '.join(f'${{{name}}}' for name in sorted(PLACEHOLDERS))}"
        if unknown
        else ""
    )


def _parse_headers(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise wrong('a map of headers, such as {X-Rack: "7"}')
    problems: list[tuple[Path, Any, str]] = []
    for name, text in value.items():
        if not _HEADER.fullmatch(str(name)):
            problems.append(((str(name),), text, "the name of an HTTP header"))
        elif str(name).lower() in ("authorization", "proxy-authorization", "cookie"):
            problems.append(
                ((str(name),), "***", "no credentials here: name a Secret or a file under auth instead")
            )
        elif str(name).lower() in _OF_THE_CALL:
            problems.append(((str(name),), text, _ANOTHER))
        elif str(name).lower() == "content-type":
            problems.append(((str(name),), text, "content_type beside headers, which says what the body is"))
        elif not isinstance(text, str) or not text.isprintable() or not text.isascii():
            problems.append(((str(name),), text, "text of one line in ASCII; write numbers in quotes"))
        elif problem := unknown_placeholder(text):
            problems.append(((str(name),), text, problem))
    if problems:
        raise several(problems)
    return {str(name): str(text) for name, text in value.items()}


def _header_name(value: Any) -> str:
    text = parse_text(value)
    if not _HEADER.fullmatch(text):
        raise wrong("the name of an HTTP header, such as X-Api-Key")
    if text.lower() in _OF_THE_CALL:
        raise wrong(_ANOTHER)
    return text


HeaderName = Annotated[str, PlainValidator(_header_name)]
Headers = Annotated[dict[str, str], PlainValidator(_parse_headers), PlainSerializer(dict, when_used="json")]
