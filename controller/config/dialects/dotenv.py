"""`.env` beside the Python provider: credentials in lines `KEY=value`. The environment itself wins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from controller.config.dialects.draft import Draft
from controller.config.errors import Problem
from controller.config.sources import CREDENTIALS

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1""")
# What stands there, and whose variables win over it: those of the provider, which knew no older names, and ours.
_WANTED = {
    f"VERDA_{key.upper()}": [name for name in names if not name.startswith("DATACRUNCH")]
    for key, names in CREDENTIALS.items()
}
_LARGEST = 65_536


def read_dotenv(draft: Draft, environ: Mapping[str, str], config: str) -> None:
    """The first that exists: in the working directory, beside the settings file. Only credentials are taken."""
    places = [".env", *([os.path.join(os.path.dirname(config), ".env")] if config else [])]
    draft.files += places  # also one that is not there yet: it may come
    path = next((place for place in places if os.path.isfile(place)), "")
    if not path:
        return
    try:
        text = FilePath(path).read_bytes()[: _LARGEST + 1].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        draft.problems.append(Problem("", None, "a file of lines KEY=value that can be read", path))
        return
    found, problems = parse_dotenv(text, path)
    draft.problems += problems
    draft.environ = {
        key: found[key] for key, names in _WANTED.items() if key in found and not _given(names, environ)
    }


def _given(names: Sequence[str], environ: Mapping[str, str]) -> bool:
    return any(environ.get(name, "").strip() or environ.get(f"{name}_FILE", "").strip() for name in names)


def parse_dotenv(text: str, path: str) -> tuple[dict[str, str], list[Problem]]:
    """Values are never shown in a problem."""
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(Problem("", None, "KEY=value", f"{path}:{number}"))
            continue
        found[match[1]] = _value(match[2])
    return found, problems


def _value(text: str) -> str:
    if quoted := _QUOTED.match(text):
        return re.sub(rf"\\([\\{quoted[1]}])", r"\1", quoted[2])
    return re.split(r"\s#", text, maxsplit=1)[0].strip()
