"""Everything that is wrong with the settings, in one go, a line each, and never a secret in any of them.

A line says where the value stands, its key, the value, and what was expected there:
`config.yaml:12: pools[0].min = 5: expected at most max (4)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, SecretStr, ValidationError

from controller.config.paths import shape_at, show_path, suggestion
from controller.config.values import Path

MASK = "***"
_SECRET = re.compile(r"secret|token|password|credential|api_?key", re.IGNORECASE)
_KEY = re.compile(r"auth|cookie|\bkey\b|[-_]key\b|\bpass", re.IGNORECASE)
_MOST = 60
_PLAIN_AUTH = ("username", "algorithm", "server_name", "name", "timestamp_header", "file")


@dataclass(frozen=True)
class Problem:
    key: str
    value: str | None  # as shown: masked and shortened; None: there is none, or it must not be shown
    expected: str
    where: str  # file:line, the name of a variable, "command line", "default" or "snapshot"

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        setting = (
            f"{self.key} = {self.value}: " if self.value is not None else f"{self.key}: " if self.key else ""
        )
        return one_line(f"{place}{setting}expected {self.expected}")


def one_line(text: str) -> str:
    """Names come from outside, and may hold line breaks and worse."""
    return "".join(character if character.isprintable() else " " for character in text)


class ConfigError(Exception):
    """The settings cannot be used; `problems` holds every reason."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


def names_secret(text: str) -> bool:
    """Of a header or a body; both have customs of their own beside what settings are called."""
    return bool(_SECRET.search(text) or _KEY.search(text))


def is_secret(path: Path) -> bool:
    """Whether the last name on the path says so; what stands below `secret: {name, key}` is none.

    A text where a whole section with credentials belongs may be one of them.
    """
    if path in (("verda",), ("join",), ("kubernetes",)) or (len(path) == 2 and path[0] == "join"):
        return True
    if "startupScriptEnv" in path:
        return True
    name = next((part for part in reversed(path) if isinstance(part, str)), "")
    if path[:1] == ("join",) and (path[2:3] == ("script",) or path[2:4] == ("token_from", "value")):
        return True
    if path[0] == "webhooks" and "secret" not in path[2:] and _may_hold_a_key(path[2:], name):
        return True
    return bool(_SECRET.search(name))


def _may_hold_a_key(below: Path, name: str) -> bool:
    """Whether somebody may have written a credential itself at this place of a webhook."""
    if not below or below[0] == "headers":
        return True
    return below[0] in ("auth", "tls") and name not in _PLAIN_AUTH


# Up to the last @: a password that was not escaped may hold whatever else parts an address.
_NAME_AND_PASSWORD = re.compile(r"(?s)\A(\w+:[/\\]+|//)?.*@")


def _is_address(path: Path) -> bool:
    """Also one whose beginning was forgotten."""
    return bool(path) and str(path[-1]).lower().endswith(("endpoint", "url"))


# Paths of these are as secret as what follows their `?`: hooks take their keys there.
_HOOKS = ("endpoint", "script_url", "fetch_url")
_BEHIND_THE_HOST = re.compile(r"(?s)\A((?:\w+:)?[/\\]*[^/\\]*[/\\]).+")
_FILE = re.compile(
    r"(?:~|\.{0,2})/[\w./~ -]*|(?:[\w.-]+/)*[\w.-]*\.(?:json|ya?ml|txt|env|conf|cfg|ini|sh|b64|pem|crt|key|token)"
)


def show_file(name: str) -> str:
    """The name of a file in a message; what does not look like one may be what should stand in it."""
    return name if _FILE.fullmatch(name) else MASK


def show_value(path: Path, value: Any, raw: str | None = None) -> str:
    """The value in a message. A map or list is not opened: it may hold anything."""
    if isinstance(value, Mapping):
        return "{…}" if value else "{}"
    if isinstance(value, list | tuple | set):
        return "[…]" if value else "[]"
    if value is None:
        return "null"
    if (is_secret(path) and value != "bootstrap") or isinstance(value, SecretStr):
        return MASK
    if isinstance(value, bool):
        return raw or str(value).lower()
    text = str(value)
    if path[:1] == ("webhooks",) and path[-1] == "body" and names_secret(text):
        return MASK
    if path[:1] == ("webhooks",) and path[-1] == "file" and show_file(text) == MASK:
        return MASK
    if "://" in text or _is_address(path):
        text = _NAME_AND_PASSWORD.sub(rf"\1{MASK}@", text)
        text = re.sub(r"([?#]).*", rf"\1{MASK}", text, flags=re.DOTALL)
        if path and str(path[-1]).lower().endswith(_HOOKS):
            text = _BEHIND_THE_HOST.sub(rf"\1{MASK}", text)
    if len(text) > _MOST:
        text = text[: _MOST - 1] + "…"
    return text if text and text.isprintable() and text == text.strip() else json.dumps(text)


class Places:
    """Where each part of the merged settings came from; a part without a place has that of its parent."""

    def __init__(self, root: str = "default") -> None:
        self.where: dict[Path, str] = {(): root}
        self.raw: dict[Path, str] = {}  # how a boolean was written, as `on` surprises people

    def of(self, path: Path) -> str:
        return next(self.where[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.where)

    def forget(self, path: Path) -> None:
        for known in (self.where, self.raw):
            for old in [old for old in known if old[: len(path)] == path and (old or not path)]:
                del known[old]

    def problem(self, path: Path, value: Any, expected: str) -> Problem:
        return Problem(show_path(path), show_value(path, value, self.raw.get(path)), expected, self.of(path))


def from_validation(error: ValidationError, root: type[BaseModel], places: Places) -> list[Problem]:
    """The model's complaints in our words."""
    problems: list[Problem] = []
    for entry in error.errors(include_url=False):
        path: Path = entry["loc"]
        context = entry.get("ctx", {})
        match entry["type"]:
            case "several":
                problems += [
                    places.problem((*path, *below), value, text) for below, value, text in context["problems"]
                ]
            case "missing":
                problems.append(
                    Problem(show_path(path), None, "a value, because it is required", places.of(path))
                )
            case "extra_forbidden":
                problems.append(unknown_key(path, root, places))
            case "expected":
                problems.append(places.problem(path, entry["input"], context["expected"]))
            case kind:
                problems.append(
                    places.problem(path, entry["input"], _WORDS.get(kind) or _plain(entry["msg"], context))
                )
    return problems


def unknown_key(path: Path, root: type[BaseModel], places: Places) -> Problem:
    """The value of a key that nobody knows is not shown: it may be a misspelt credential."""
    name = str(path[-1])
    above = shape_at(root, path[:-1])
    known = sorted(above.model.model_fields) if above and above.model else []
    expected = f"one of the known keys{suggestion(name, known) or ' (' + ', '.join(known) + ')'}"
    if name == "contract":
        expected = "no such key: machines are bought pay-as-you-go only, LONG_TERM contracts are refused"
    return Problem(show_path(path), None, expected, places.of(path))


_WORDS = {
    "model_type": "a map of keys and values",
    "model_attributes_type": "a map of keys and values",
    "dict_type": "a map of keys and values",
    "tuple_type": "a list",
    "list_type": "a list",
}


def _plain(message: str, context: Mapping[str, Any]) -> str:
    if "expected" in context:
        choices = [choice for choice in re.findall(r"'([^']*)'", str(context["expected"])) if choice]
        return f"one of {', '.join(choices)}" if len(choices) > 1 else "".join(choices)
    return message.removeprefix("Input should be ").lower()
