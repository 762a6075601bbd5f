"""JSON with the line of every value, as predecessors read it and as their documentation writes it.

The documentation of the Go provider shows commas before closing brackets, which its own parser refuses; they are
read here, and where they stand is told. Everything else that is no JSON is an error with its line. A key given
twice is an error too: one of both would silently win.
"""

from __future__ import annotations

import math
import re
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from controller.config.errors import ConfigError, Places, Problem
from controller.config.paths import show_path
from controller.config.values import Path

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?(?![0-9A-Za-z.])")
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 50
_MOST = 100_000
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.places = Places(name)
        self.commas: list[int] = []  # lines of commas that nothing follows
        self.problems: list[Problem] = []
        self._at = 0
        self._count = 0

    def line(self, at: int | None = None) -> int:
        return self.text.count("\n", 0, self._at if at is None else at) + 1

    def where(self, at: int | None = None) -> str:
        return f"{self.name}:{self.line(at)}"

    def stop(self, expected: str) -> ConfigError:
        return ConfigError([Problem("", None, expected, self.where())])

    def whole(self) -> Any:
        self._skip()
        value = self._value(())
        if self._at < len(self.text):
            raise self.stop("nothing after the JSON object")
        return value

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self._at)
        self._at = found.end() if found else self._at

    def _next(self) -> str:
        return self.text[self._at : self._at + 1]

    def _value(self, path: Path) -> Any:
        self._count += 1
        if self._count > _MOST or len(path) > _DEEPEST:
            raise self.stop("JSON of a sensible size and depth")
        self.places.where.setdefault(path, self.where())
        match self._next():
            case "{":
                return self._object(path)
            case "[":
                return self._list(path)
            case '"':
                return self._string()
        for word, value in _WORDS.items():
            if self.text.startswith(word, self._at) and not self.text[self._at + len(word) :][:1].isalnum():
                self._at += len(word)
                self._skip()
                return value
        number = _NUMBER.match(self.text, self._at)
        if number is None:
            raise self.stop(
                "a JSON value: an object, a list, a text in double quotes, a number, true, false or null"
            )
        found = float(number[0]) if number[1] or number[2] else int(number[0])
        if isinstance(found, float) and not math.isfinite(found):
            raise self.stop("a number of a sensible size")
        self._at = number.end()
        self._skip()
        return found

    def _string(self) -> str:
        try:
            found, self._at = scanstring(self.text, self._at + 1, True)
        except JSONDecodeError as error:
            self._at = min(error.pos, len(self.text))
            raise self.stop("a JSON text: double quotes around it, on one line, with known escapes") from None
        if _SURROGATE.search(found):
            raise self.stop("a text of whole characters: half of a surrogate pair stands in it")
        self._skip()
        return str(found)

    def _object(self, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self._open()
        while self._next() != "}":
            if self._next() != '"':
                raise self.stop('a key in double quotes, or "}"')
            start = self._at
            key = self._string()
            if self._next() != ":":
                raise self.stop('":" after the key')
            self._at += 1
            self._skip()
            if key in made:
                expected = f"every key once; it stands above already (line {self.places.of((*path, key)).rpartition(':')[2]})"
                self.problems.append(Problem(show_path((*path, key)), None, expected, self.where(start)))
                aside, self.places = self.places, Places(self.name)
                self._value((*path, key))
                self.places = aside
            else:
                self.places.where[(*path, key)] = self.where(start)
                made[key] = self._value((*path, key))
            self._comma("}")
        self._close()
        return made

    def _list(self, path: Path) -> list[Any]:
        made: list[Any] = []
        self._open()
        while self._next() != "]":
            made.append(self._value((*path, len(made))))
            self._comma("]")
        self._close()
        return made

    def _open(self) -> None:
        self._at += 1
        self._skip()

    _close = _open

    def _comma(self, end: str) -> None:
        if self._next() == ",":
            line = self.line()
            self._at += 1
            self._skip()
            if self._next() == end:
                self.commas.append(line)
        elif self._next() != end:
            raise self.stop(f'"," or "{end}"')


def parse_json(text: str, name: str) -> tuple[dict[str, Any], Places, list[Problem], list[str]]:
    """The object, the place of each value, keys given twice, and what is to be said. Raises where it is no JSON."""
    reader = _Reader(text.removeprefix("\ufeff"), name)
    try:
        data = reader.whole()
    except RecursionError:
        raise ConfigError([Problem("", None, "JSON of a sensible depth", name)]) from None
    if not isinstance(data, dict):
        raise ConfigError([Problem("", None, "a JSON object", f"{name}:1")])
    warnings = []
    if reader.commas:
        lines = ", ".join(str(line) for line in sorted(set(reader.commas)))
        warnings.append(
            f"{name}: commas before a closing bracket (line {lines}) are no JSON; they are read here, and nowhere else"
        )
    return data, reader.places, reader.problems, warnings
