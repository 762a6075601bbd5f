"""Where a setting is: its path as people write it, what may stand there, and its environment variable.

Everything is read from the model itself, so that the loader, the messages and the documentation
cannot disagree about which keys exist.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from controller.config.values import Path

PREFIX = "GPU_AUTOSCALER_"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Shape:
    """What may stand at a path: a `model` with fixed keys, a `list`, a `map` with free keys, a `value`."""

    kind: str
    model: type[BaseModel] | None = None
    inner: Any = None

    def below(self, part: str | int) -> Shape | None:
        if self.kind == "model" and self.model is not None and part in self.model.model_fields:
            return shape(self.model.model_fields[str(part)].annotation)
        if (self.kind == "list" and isinstance(part, int)) or (self.kind == "map" and isinstance(part, str)):
            return shape(self.inner)
        return None


def shape(annotation: Any) -> Shape:
    origin = get_origin(annotation)
    if origin is Annotated:
        return shape(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return shape(next(part for part in get_args(annotation) if part is not type(None)))
    if origin is tuple:
        return Shape("list", inner=get_args(annotation)[0])
    if origin is dict:
        return Shape("map", inner=get_args(annotation)[1])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return Shape("model", model=annotation)
    return Shape("value")


def shape_at(root: type[BaseModel], path: Path) -> Shape | None:
    found: Shape | None = Shape("model", model=root)
    for part in path:
        found = found.below(part) if found else None
    return found


def show_path(path: Path) -> str:
    """`pools[0].labels["example.com/team"]`"""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += '["' + part.replace('"', '\\"') + '"]'
    return text


def parse_path(text: str) -> Path | None:
    """The reverse for plain keys: `scale_up.strategy`, `pools[0].max`, `pools.0.max`."""
    parts = [part for part in re.split(r"\.|\[([0-9]+)\]", text) if part]
    if not parts or re.search(r"[^A-Za-z0-9_.\[\]-]", text):
        return None
    return tuple(int(part) if part.isascii() and part.isdigit() else part for part in parts)


def fields(model: type[BaseModel], above: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Every key, depth first; `*` stands for an entry of a list and `<name>` for a free key."""
    for key, field in model.model_fields.items():
        path = (*above, key)
        yield path, field
        here = shape(field.annotation)
        if here.kind in ("list", "map"):
            path, here = (*path, "*" if here.kind == "list" else "<name>"), shape(here.inner)
        if here.kind == "model" and here.model is not None:
            yield from fields(here.model, path)


def variable(path: Path) -> str:
    return PREFIX + "__".join(str(part).upper() for part in path)


def variables(model: type[BaseModel]) -> list[str]:
    """The variables whose names hold nothing free: what a misspelt one is compared with."""
    return [variable(path) for path, _ in fields(model) if not {"*", "<name>"} & set(path)]


def suggestion(word: str, known: Iterable[str], count: int = 1) -> str:
    """`; did you mean …?`, or nothing when nothing is close."""
    by_form = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_form, n=count, cutoff=0.6)
    return f"; did you mean {' or '.join(by_form[name] for name in close)}?" if close else ""
