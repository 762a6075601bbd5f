"""Values for the assignments of a shell script: `JOIN_TOKEN=""` at its top is a place to be filled in.

Revisions of Verda's own provider give a script its values that way and no other, so their scripts empty what is merely
exported above them. Here-documents are left alone, as there: they are files that the script writes. An assignment that
stands before a command, or whose value goes on in the next line, is left alone too: what follows it would be lost. So is
one within quotes that began on an earlier line, if what is written there would end them, or be executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

ValueOf = Callable[[str, str], str | None]
_PREFIX = re.compile(r"\s*(?P<declares>(?:export|readonly|declare|typeset)\s+(?:-[A-Za-z]+\s+)*)?")
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)=", re.ASCII)
_SPACED = re.compile(r"(?P<name>[A-Za-z_]\w*)[ \t]*=(?!=)[ \t]*", re.ASCII)  # of other languages
_BETWEEN = re.compile(r"\s*(?:;|&&|\|\|)\s*|\s+|$")
_DOCUMENT = re.compile(r"(?<!<)<<(?P<tabs>-?)\s*(?P<quote>[\"']?)\\?(?P<end>[^\s\"';&|<>()]+)(?P=quote)")
# What may not stand within quotes of an earlier line.
_ENDS = {"'": "'", '"': '"$`', "`": "`$\\"}


def rewrite(script: str, value_of: ValueOf, *, shell: bool = True, left: set[str] | None = None) -> str:
    """`value_of` is told a name and what is assigned to it, as it stands there; what it answers stands there then.

    `left` is told what stays empty because of quotes around it.
    """
    lines = script.split("\n")
    quotes = _quotes(lines) if shell else [""] * len(lines)
    for n in list(_code(lines)):
        ends = _ENDS.get(quotes[n], "")

        def within(name: str, old: str, ends: str = ends) -> str | None:
            new = value_of(name, old)
            if new is None or not any(sign in new for sign in ends):
                return new
            if left is not None and is_empty(old):
                left.add(name)
            return None

        lines[n] = _rewritten(lines[n], within, _NAME if shell else _SPACED)
    return "\n".join(lines)


def times_assigned(script: str, name: str) -> int:
    lines = script.split("\n")
    found = re.compile(
        r"(?:^|[;&|({`]|\b(?:do|then|else|export|readonly|declare|typeset|local)\b(?:\s+-\w+)*|\b[A-Za-z_]\w*=\S{0,200}\s)"
        rf"\s*{name}[ \t]*\+?=(?!=)"
    )
    return sum(len(found.findall(lines[n])) for n in _code(lines))


def _code(lines: list[str]) -> Iterator[int]:
    """The lines that neither begin a here-document nor belong to one, nor are a comment."""
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
        if not document and not line.lstrip().startswith("#"):
            yield n


def _quotes(lines: list[str]) -> list[str]:
    """The quotes that each line begins in, or nothing."""
    found: list[str] = []
    inside: list[str] = []
    code = set(_code(lines))
    in_text = False  # in a here-document, where quotes are none
    for n, line in enumerate(lines):
        found.append(inside[-1] if inside else "")
        if n in code or line.lstrip().startswith("#"):
            in_text = False
        if not in_text:
            _scan(line, 0, inside, "")
        in_text = n not in code and not inside
    return [""] * len(lines) if inside else found  # more than is understood here: no script ends so


def is_empty(value: str) -> bool:
    return value in ("", '""', "''")


def _documents(line: str) -> list[tuple[str, bool]]:
    if line.lstrip().startswith("#"):
        return []
    return [(found["end"], bool(found["tabs"])) for found in _DOCUMENT.finditer(line)]


def _rewritten(line: str, value_of: ValueOf, a_name: re.Pattern[str]) -> str:
    made, at, ended = "", 0, True
    while ended:
        rest = _assignments(line, at, value_of, a_name)
        if rest is None:
            break
        made, at, ended = made + rest[0], rest[1], rest[2]
    return made + line[at:]


def _assignments(
    line: str, at: int, value_of: ValueOf, a_name: re.Pattern[str]
) -> tuple[str, int, bool] | None:
    """The assignments from here to the end of the command, where that one ends, and whether another one follows.

    None: what stands here is left alone.
    """
    prefix = _PREFIX.match(line, at)
    end = prefix.end() if prefix else at
    made = line[at:end]
    while name := a_name.match(line, end):
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
    inside: list[str] = []
    at = _scan(line, at, inside, " \t;&|<>()")
    return None if inside or at > len(line) else at


def _scan(line: str, at: int, inside: list[str], ends: str) -> int:
    """Where the first of `ends` stands outside of what is open; `inside` is what closes that, and is kept so."""
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
        elif not inside and sign in ends:
            break
        elif sign == "#" and closes in ("", ")", "`") and (at == 0 or line[at - 1] in " \t;&|("):
            return len(line)
        at += 1
    return at
