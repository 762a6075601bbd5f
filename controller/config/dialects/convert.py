"""A translated configuration as our own YAML: what is not a default, with a comment where a meaning changed.

What is written and what was read give the same settings; credentials are left out, because they belong into
variables or Secrets. A startup script that stood inside of the configuration stands inside of the YAML.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BaseModel, SecretStr

from controller.config.dialects.flags import Flags
from controller.config.errors import one_line
from controller.config.load import Loaded
from controller.config.settings import Settings
from controller.config.values import Path

_LEFT_OUT = frozenset({("verda", "client_id"), ("verda", "client_secret")})


def as_yaml(loaded: Loaded, flags: Flags | None = None) -> str:
    """The text of a settings file; what `flags` say beside settings is told in a comment."""
    notes = {path: one_line(note) for path, note in loaded.draft.notes.items()}
    lines = [f"# Converted from a configuration of {loaded.dialect}."]
    lines += [f"# {one_line(line)}" for line in loaded.warnings]
    if loaded.draft.environ:
        lines.append(f"# Beside this file no .env is read: set {' and '.join(sorted(loaded.draft.environ))}.")
    if options := _options(flags or Flags()):
        lines.append(f"# Not settings, so they stay on the command line of run: {one_line(options)}")
    values = _values(loaded.settings, (), notes)
    if loaded.origins.get("namespace") in ("POD_NAMESPACE", "service account", None):
        values.pop("namespace", None)
    return "\n".join([*lines, *_map(values, (), notes, 0)]) + "\n"


def _options(flags: Flags) -> str:
    given = {"--listen": flags.listen, "--kubeconfig": flags.kubeconfig, "--log-level": flags.log_level}
    return " ".join(f"{option}={shlex.quote(text)}" for option, text in given.items() if text)


def _values(model: BaseModel, path: Path, notes: Mapping[Path, str]) -> dict[str, Any]:
    """What was set and differs from the default, or has another meaning now, as it is written; required keys always."""
    shown = model.model_dump(mode="json")
    found: dict[str, Any] = {}
    for key, field in type(model).model_fields.items():
        value, at = getattr(model, key), (*path, key)
        if at in _LEFT_OUT or value is None:
            continue
        told = any(noted[: len(at)] == at for noted in notes)
        if not (told or field.is_required()) and value == field.get_default(call_default_factory=True):
            continue
        found[key] = _value(value, shown[key], at, notes)
    return found


def _value(value: Any, shown: Any, path: Path, notes: Mapping[Path, str]) -> Any:
    if isinstance(value, BaseModel):
        return _values(value, path, notes)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {
            str(key): _value(inner, shown[str(key)], (*path, str(key)), notes) for key, inner in value.items()
        }
    if isinstance(value, tuple) and isinstance(shown, list):
        return [_value(inner, shown[n], (*path, n), notes) for n, inner in enumerate(value)]
    return shown


def _map(values: Mapping[str, Any], path: Path, notes: Mapping[Path, str], depth: int) -> list[str]:
    lines: list[str] = []
    for key, value in values.items():
        at = (*path, key)
        lines += _entry(f"{'  ' * depth}{_scalar(key)}:", value, at, notes, depth)
    return lines


def _entry(head: str, value: Any, path: Path, notes: Mapping[Path, str], depth: int) -> list[str]:
    comment = f"  # {notes[path]}" if path in notes else ""
    if isinstance(value, Mapping) and value:
        return [head + comment, *_map(value, path, notes, depth + 1)]
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        lines = [head + comment]
        for n, item in enumerate(value):
            inner = _map(item, (*path, n), notes, depth + 2) if isinstance(item, Mapping) else [_scalar(item)]
            note = [f"{'  ' * (depth + 1)}# {notes[(*path, n)]}"] if (*path, n) in notes else []
            first = f"{'  ' * (depth + 1)}- {inner[0].lstrip()}" if inner else f"{'  ' * (depth + 1)}- {{}}"
            lines += [*note, first, *inner[1:]]
        return lines
    if isinstance(value, str) and _is_block(value):
        pad = "  " * (depth + 1)
        return [
            f"{head} |{'' if value.endswith(chr(10)) else '-'}{comment}",
            *(f"{pad}{line}" if line else "" for line in value.removesuffix("\n").split("\n")),
        ]
    return [f"{head} {_scalar(value)}{comment}"]


def _is_block(text: str) -> bool:
    """Whether YAML's literal form keeps every character of it."""
    return (
        "\n" in text
        and not text.endswith("\n\n")
        and not text.startswith((" ", "\n"))
        and bool(re.search(r"\S", text))
        and all(character.isprintable() or character in "\n\t" for character in text)
    )


def _scalar(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True)
    # An odd line break (U+0085) would be read as an ordinary one; escaped it is kept.
    if yaml.safe_load(text) != value:
        text = yaml.safe_dump(value, default_flow_style=True, width=10**9)
    # A key has to be on one line.
    if isinstance(value, str) and len(text.strip().removesuffix("\n...").splitlines()) > 1:
        text = yaml.safe_dump(value, default_style='"', width=10**9)
    return text.strip().removesuffix("\n...").strip()


def is_the_same(one: Settings, other: Settings) -> bool:
    """The same settings, apart from credentials."""
    bare = {"verda": one.verda}
    return one == other.model_copy(update=bare)
