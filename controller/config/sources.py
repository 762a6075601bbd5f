"""Where settings come from: command line over environment over file over defaults.

Maps are merged key by key; a list replaces the list below it, whole. An empty variable counts as not
set, because charts and shells leave such behind. In variables and on the command line lists are
comma-separated, labels are `k=v,…`, taints `k[=v]:Effect,…`, and any list or map may be JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from controller.config.errors import Places, Problem, show_file
from controller.config.paths import (
    PREFIX,
    Shape,
    parse_path,
    shape,
    shape_at,
    show_path,
    suggestion,
    variables,
)
from controller.config.settings import Settings
from controller.config.values import Path

COMMAND_LINE = "command line"
# What Kubernetes puts into every pod for a Service whose name begins with gpu-autoscaler.
SERVICE_LINK = re.compile(
    r"(?:.+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_.+)?|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)(?:_[A-Z]+)?)?)"
)
_LARGEST_FILE = 65_536
# The first that is set wins; each may also be a file, with _FILE after its name.
CREDENTIALS = {
    "client_id": (f"{PREFIX}VERDA__CLIENT_ID", "VERDA_CLIENT_ID", "DATACRUNCH_CLIENT_ID"),
    "client_secret": (f"{PREFIX}VERDA__CLIENT_SECRET", "VERDA_CLIENT_SECRET", "DATACRUNCH_CLIENT_SECRET"),
    "base_url": (f"{PREFIX}VERDA__BASE_URL", "VERDA_BASE_URL", "DATACRUNCH_BASE_URL"),
}


class Tree:
    """The settings as merged so far, and the place of each part."""

    def __init__(self, data: dict[str, Any] | None = None, places: Places | None = None) -> None:
        self.data: dict[str, Any] = data if data is not None else {}
        self.places = places or Places()

    def get(self, path: Path) -> Any:
        found: Any = self.data
        for part in path:
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and isinstance(part, int) and part < len(found):
                found = found[part]
            else:
                return None
        return found

    def put(self, path: Path, value: Any, where: str) -> str:
        """Lay a value over what is there; answers what is wrong with the path, or ""."""
        spot: Any = self.data
        for n, part in enumerate(path[:-1]):
            if isinstance(part, int):
                problem = _grow(spot, part)
                if problem:
                    return problem
                below = spot[part]
            else:
                below = spot.get(part)
            if not isinstance(below, dict | list):
                below = [] if isinstance(path[n + 1], int) else {}
                spot[part] = below
            if not below:
                self.places.where.setdefault(path[: n + 1], where)  # of what it goes on lacking
            if isinstance(below, list) != isinstance(path[n + 1], int):
                return f"a {'list' if isinstance(path[n + 1], int) else 'map'} at {show_path(path[: n + 1])}"
            spot = below
        last = path[-1]
        if isinstance(last, int):
            problem = _grow(spot, last)
            if problem:
                return problem
        old = spot[last] if isinstance(last, int) else spot.get(last)
        if isinstance(value, Mapping) and isinstance(old, dict):
            for key, inner in value.items():
                self.put((*path, str(key)), inner, where)
            return ""
        self.places.forget(path)
        self.places.where[path] = where
        spot[last] = plain(value)
        return ""


def _grow(spot: Any, index: int) -> str:
    if index > len(spot):
        return f"an index of at most {len(spot)}, because the list has {len(spot)} entries"
    if index == len(spot):
        spot.append({})
    return ""


def plain(value: Any) -> Any:
    """Own dicts and lists all the way down, so that merging changes nobody else's."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def from_text(text: str, what: Shape) -> Any:
    """What a variable's text means at a place of this shape. Raises ValueError with what was expected."""
    if what.kind == "value":
        return text
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise ValueError(f"valid JSON: {error.msg} at character {error.pos + 1}") from None
        except RecursionError:
            raise ValueError("JSON of a sensible depth") from None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    inner = shape(what.inner) if what.inner is not None else None
    short = inner is not None and (
        inner.kind == "value" or (inner.model is not None and hasattr(inner.model, "_short_form"))
    )
    if what.kind == "list" and short:
        return parts
    if what.kind == "map" and short:
        pairs = [part.partition("=") for part in parts]
        if any(not separator for _, separator, _ in pairs):
            raise ValueError("pairs k=v with commas between them, or JSON")
        return _once([(key.strip(), value.strip()) for key, _, value in pairs])
    raise ValueError(f"JSON, because this is a {'list' if what.kind == 'list' else 'map'}")


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"every key once, and {key} is there twice")
        made[key] = value
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"numbers, and {name} is none")


def apply_environment(tree: Tree, environ: Mapping[str, str]) -> list[Problem]:
    """The `GPU_AUTOSCALER_…` variables; those for a whole list or map before those for parts of it."""
    problems: list[Problem] = []
    ours = [name for name in environ if name.startswith(PREFIX)]
    for name in sorted(ours, key=lambda name: (name.count("__"), name)):
        rest = name.removeprefix(PREFIX)
        if SERVICE_LINK.fullmatch(rest) or any(
            name.removesuffix("_FILE") in known for known in CREDENTIALS.values()
        ):
            continue
        path: Path | None = _path_of(rest)
        what = shape_at(Settings, path) if path else None
        if path is None or what is None:
            # Its value is not shown: a misspelt name may hold a credential.
            expected = f"the name of a setting{suggestion(name, variables(Settings))}"
            problems.append(Problem("", None, expected, name))
            continue
        if not environ[name].strip():
            continue
        problems += _lay(tree, path, environ[name].strip(), what, name)
    return problems


def _path_of(rest: str) -> Path | None:
    parts: list[str | int] = []
    for part in rest.lower().split("__"):
        what = shape_at(Settings, tuple(parts))
        if what is None or not part:
            return None
        if what.kind == "list":
            if not (part.isascii() and part.isdigit() and len(part) < 5):
                return None
            parts.append(int(part))
        else:
            parts.append(part)
    return tuple(parts)


def apply_overrides(tree: Tree, overrides: Mapping[str, Any]) -> list[Problem]:
    """Values from the command line: `{"scale_up.strategy": "cheapest"}`, or maps. None is not given."""
    problems: list[Problem] = []
    for key, value in overrides.items():
        path = parse_path(key)
        what = shape_at(Settings, path) if path else None
        if value is None:
            continue
        if path is None or what is None:
            known = [part.removeprefix(PREFIX).lower().replace("__", ".") for part in variables(Settings)]
            expected = f"one of the known keys{suggestion(key, known)}"
            problems.append(Problem(key, None, expected, COMMAND_LINE))
            continue
        problems += _lay(tree, path, value, what, COMMAND_LINE)
    return problems


def _lay(tree: Tree, path: Path, given: Any, what: Shape, where: str) -> list[Problem]:
    try:
        value = from_text(given, what) if isinstance(given, str) else given
    except ValueError as error:
        return [Problem(show_path(path), None, str(error), where)]
    problem = tree.put(path, value, where)
    return [Problem(show_path(path), None, problem, where)] if problem else []


def apply_credentials(tree: Tree, environ: Mapping[str, str], warnings: list[str]) -> list[Problem]:
    """`VERDA_…`, the older `DATACRUNCH_…`, each also as `…_FILE`."""
    problems: list[Problem] = []
    for key, names in CREDENTIALS.items():
        found: list[tuple[str, str]] = []
        for name in names:
            if environ.get(name, "").strip():
                found.append((name, environ[name].strip()))
            from_file = environ.get(f"{name}_FILE", "").strip()
            if from_file:
                content, problem = read_credential(from_file)
                if problem:
                    problems.append(Problem(f"verda.{key}", show_file(from_file), problem, f"{name}_FILE"))
                else:
                    found.append((f"{name}_FILE", content))
        if not found:
            continue
        name, value = found[0]
        warnings += [
            f"{other}: differs from {name}, which wins" for other, content in found[1:] if content != value
        ]
        tree.put(("verda", key), value, name)
    return problems


def read_credential(path: str) -> tuple[str, str]:
    """The file's only line, or what is wrong with the file; never both."""
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_FILE + 1)
        text = content.decode()
    except OSError as error:
        return "", f"a file that can be read ({error.strerror})"
    except UnicodeDecodeError:
        return "", "a file with one line of text"
    text = text.strip("\r\n")
    if not text.strip() or len(content) > _LARGEST_FILE or "\n" in text:
        return "", "a file with one line of text"
    return text, ""
