"""A startup script out of a template, with no way for a value to become code.

A template names variables as `{{ .NAME }}` in two places only: `readonly X={{ .NAME }}`, where the
value arrives quoted for the shell, and alone on a line, where the value is a comment made by us.
Anything else in double braces, a variable nobody knows, one without a value and a value that no
line uses are errors: a script that is wrong in one word costs a machine that never joins.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

_ASSIGNMENT = re.compile(r"(?P<left>readonly [A-Z][A-Z0-9_]*=)\{\{ \.(?P<name>[A-Z][A-Z0-9_]*) \}\}")
_COMMENT = re.compile(r"\{\{ \.(?P<name>[A-Z][A-Z0-9_]*) \}\}")
_SHEBANG = "#!/usr/bin/env bash"


class TemplateError(ValueError):
    """The template and its values do not fit; the message names the variable and no value."""


def render(template: str, values: Mapping[str, str | None], comments: Mapping[str, str | None]) -> str:
    """The finished script. `values` are quoted for the shell, `comments` stand on lines of their own."""
    used: set[str] = set()
    lines = []
    for number, line in enumerate(template.splitlines(), start=1):
        if "{{" not in line and "}}" not in line:
            lines.append(line)
        elif match := _ASSIGNMENT.fullmatch(line):
            lines.append(match["left"] + shlex.quote(_value(match["name"], values, comments)))
            used.add(match["name"])
        elif match := _COMMENT.fullmatch(line):
            lines.append(_comment(match["name"], values, comments))
            used.add(match["name"])
        else:
            raise TemplateError(
                f"line {number}: only `readonly X={{{{ .NAME }}}}` or a lone variable is allowed"
            )
    if lines[:1] != [_SHEBANG]:
        raise TemplateError(f"the first line must be {_SHEBANG}")
    unused = sorted({*values, *comments} - used)
    if unused:
        raise TemplateError(f"no line uses {', '.join(unused)}")
    return "\n".join(lines) + "\n"


def _value(name: str, values: Mapping[str, str | None], comments: Mapping[str, str | None]) -> str:
    if name in comments:
        raise TemplateError(f"{name} is a comment and stands alone on its line")
    return _single_line(name, _present(name, values))


def _comment(name: str, values: Mapping[str, str | None], comments: Mapping[str, str | None]) -> str:
    if name in values:
        raise TemplateError(f"{name} is a value and must be assigned: readonly {name}={{{{ .{name} }}}}")
    text = _single_line(name, _present(name, comments))
    if not text.startswith("# "):
        raise TemplateError(f"{name} must begin with '# '")
    return text


def _present(name: str, known: Mapping[str, str | None]) -> str:
    if name not in known:
        raise TemplateError(f"unknown variable {name}")
    value = known[name]
    if value is None:
        raise TemplateError(f"{name} has no value")
    return value


def _single_line(name: str, value: str) -> str:
    # NUL cannot be in a script at all; line breaks, also Unicode's, would end a comment or move the
    # second line by which the script is recognised as ours.
    if any(not character.isprintable() for character in value):
        raise TemplateError(f"{name} holds a line break or another control character")
    return value
