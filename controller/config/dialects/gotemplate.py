"""A startup script that was a template of Go: the values, trim markers, comments and quoted texts of it, and nothing else.

Its provider filled a template in before it bought a machine, and bought none where that failed. Every other action is
refused here just so: left as it is, it would be found on a machine that is paid for and never joins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

# What was once read as a comment or a quoted text is never tried as anything else: that takes for ever.
_ACTION = re.compile(
    r"""\{\{(?P<body>(?:"(?:\\.|[^"\\])*+"|`[^`]*+`|(?>/\*.*?\*/)|[^"`/}]|/(?!\*)|\}(?!\}))*+)\}\}""",
    re.DOTALL,
)
_FIELD = re.compile(r"\.([A-Za-z_]\w*)")


def fields(text: str) -> list[str]:
    """Names that stand in double braces, and nothing beside them."""
    found = (_FIELD.fullmatch(_inner(action["body"])) for action in _actions(text))
    return [field[1] for field in found if field]


def convert(text: str, names: Mapping[str, str]) -> tuple[str, list[str], list[int]]:
    """The text with our names in its braces; names that nobody knows, and lines of what is not understood."""
    made: list[str] = []
    unknown: list[str] = []
    others: list[int] = []
    at, trims = 0, False
    for action in _actions(text):
        body, before = action["body"], text[at : action.start()]
        if "{{" in before:
            others.append(_line(text, text.index("{{", at)))
        before = before.lstrip() if trims else before
        made.append(before.rstrip() if body[:1] == "-" and body[1:2].isspace() else before)
        at, trims = action.end(), body[-1:] == "-" and body[-2:-1].isspace()
        inner = _inner(body)
        if found := _FIELD.fullmatch(inner):
            if found[1] not in names:
                unknown.append(found[1])
            made.append(f"{{{{ .{names.get(found[1], '')} }}}}")
        elif (quoted := _quoted(inner)) is not None:
            made.append(quoted)
        elif not (inner.startswith("/*") and inner.endswith("*/")):
            others.append(_line(text, action.start()))
    rest = text[at:]
    if "{{" in rest:
        others.append(_line(text, text.index("{{", at)))
    made.append(rest.lstrip() if trims else rest)
    return "".join(made), unknown, others


def _actions(text: str) -> Iterator[re.Match[str]]:
    """Every one from left to right. Braces that are never closed are looked at once, however many there are."""
    at, last = 0, text.rfind("}}")
    while (begin := text.find("{{", at)) >= 0 and begin < last:
        if action := _ACTION.match(text, begin):
            yield action
        at = action.end() if action else begin + 1


def _inner(body: str) -> str:
    """Without trim markers, which need a space beside them."""
    body = body[1:] if body[:1] == "-" and body[1:2].isspace() else body
    body = body[:-1] if body[-1:] == "-" and body[-2:-1].isspace() else body
    return body.strip()


def _quoted(inner: str) -> str | None:
    if re.fullmatch(r"`[^`]*`", inner):
        return inner[1:-1]
    if not re.fullmatch(r'"(?:\\.|[^"\\])*"', inner):
        return None
    try:
        return str(json.loads(inner))
    except ValueError:
        return None


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
