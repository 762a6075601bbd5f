"""Values for the assignments of a shell script: `JOIN_TOKEN=""` at its top is a place to be filled in.

Revisions of Verda's own provider give a script its values that way and no other, so their scripts empty what is merely
exported above them. Here-documents are left alone, as there: they are files that the script writes. An assignment that
stands before a command, or whose value goes on in the next line, is left alone too: what follows it would be lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable

ValueOf = Callable[[str, str], str | None]
_PREFIX = re.compile(r"\s*(?P<declares>(?:export|readonly|declare|typeset)\s+(?:-[A-Za-z]+\s+)*)?")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)=", re.ASCII)
_BETWEEN = re.compile(r"\s*(?:;|&&|\|\|)\s*|\s+|$")
_DOCUMENT = re.compile(r"(?<!<)<<(?P<tabs>-?)\s*(?P<quote>[\"']?)\\?(?P<end>[A-Za-z_]\w*)(?P=quote)")


def rewrite(script: str, value_of: ValueOf) -> str:
    """`value_of` is told a name and what is assigned to it, as it stands there; what it answers stands there then."""
    lines = script.split("\n")
    last = {line: n for n, line in enumerate(lines)}
    last_bare = {line.lstrip("\t"): n for n, line in enumerate(lines)}
    document: list[tuple[str, bool]] = []  # ends of the here-documents that the line is in, the nearest first
    for n, line in enumerate(lines):
        if document:
            end, tabs = document[0]
            if (line.lstrip("\t") if tabs else line) == end:
                document.pop(0)
            continue
        # What is never ended is none: `$((1 << N))` looks like one.
        document = [
            (end, tabs) for end, tabs in _documents(line) if (last_bare if tabs else last).get(end, -1) > n
        ]
        if not document:
            lines[n] = _rewritten(line, value_of)
    return "\n".join(lines)


def is_empty(value: str) -> bool:
    return value in ("", '""', "''")


def _documents(line: str) -> list[tuple[str, bool]]:
    if line.lstrip().startswith("#"):
        return []
    return [(found["end"], bool(found["tabs"])) for found in _DOCUMENT.finditer(line)]


def _rewritten(line: str, value_of: ValueOf) -> str:
    made, at, ended = "", 0, True
    while ended:
        rest = _assignments(line, at, value_of)
        if rest is None:
            break
        made, at, ended = made + rest[0], rest[1], rest[2]
    return made + line[at:]


def _assignments(line: str, at: int, value_of: ValueOf) -> tuple[str, int, bool] | None:
    """The assignments from here to the end of the command, where that one ends, and whether another one follows.

    None: what stands here is left alone.
    """
    prefix = _PREFIX.match(line, at)
    end = prefix.end() if prefix else at
    made = line[at:end]
    while name := _NAME.match(line, end):
        value = _word(line, name.end())
        between = _BETWEEN.match(line, value) if value is not None else None
        if value is None or between is None:
            return None
        old = line[name.end() : value]
        other = value_of(name["name"], old)
        made += name[0] + (old if other is None else other) + between[0]
        end = between.end()
        if between[0].strip():
            return made, end, True
    declares = prefix is not None and prefix["declares"]
    return (made, end, False) if end == len(line) or line[end] == "#" or declares else None


def _word(line: str, at: int) -> int | None:
    """Where the word of the shell that begins here ends; None: not in this line."""
    inside: list[str] = []  # what closes what is open
    while at < len(line):
        sign, closes = line[at], inside[-1] if inside else ""
        if sign == closes:
            inside.pop()
        elif closes == "'":
            pass
        elif sign == "\\":
            at += 1
        elif line.startswith(("$(", "${"), at):
            inside.append(")" if line[at + 1] == "(" else "}")
            at += 1
        elif sign in '"`' or (sign == "'" and closes != '"'):
            inside.append(sign)
        elif sign == "(" and closes == ")":
            inside.append(")")
        elif not inside and sign in " \t;&|<>()":
            break
        at += 1
    return None if inside or at > len(line) else at
