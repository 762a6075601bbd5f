"""`.env` beside the Python provider: credentials in lines `KEY=value`. The environment itself wins.

That provider reads it with python-dotenv, which warns of lines that are none and goes on; so do we, unless such a line
may be the very credential that is missing. Quotes, escapes, values of several lines and `${NAME}` mean the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath

from controller.config.dialects.draft import Draft
from controller.config.errors import Problem
from controller.config.sources import CREDENTIALS

_LINE = re.compile(r"[^\S\n]*(?:export[^\S\n]+)?('[^'\n]+'|[^=#\s']+)[^\S\n]*=[^\S\n]*")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\])*)\1""")
_NOTHING = re.compile(r"\s*(?:#.*)?")
_REFERENCE = re.compile(r"\$\{([^}:]*)(?::-([^}]*))?\}")
_SINGLE = {"\\": "\\", "'": "'"}
_DOUBLE = _SINGLE | {'"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# What stands there, and whose variables win over it: those of the provider, which knew no older names, and ours.
_WANTED = {
    f"VERDA_{key.upper()}": [name for name in names if not name.startswith("DATACRUNCH")]
    for key, names in CREDENTIALS.items()
}
_NEEDED = ("VERDA_CLIENT_ID", "VERDA_CLIENT_SECRET")
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
    found, problems = parse_dotenv(text.replace("\r\n", "\n").replace("\r", "\n"), path, environ)
    draft.environ = {
        key: found[key] for key, names in _WANTED.items() if key in found and not _given(names, environ)
    }
    needed = (key for key in _NEEDED if not _given(_WANTED[key], environ))
    if any(not found.get(key, "").strip() for key in needed):
        draft.problems += problems
        return
    for problem in problems:
        draft.warn(problem.where, "", f"expected {problem.expected}; the line is left out")


def _given(names: Sequence[str], environ: Mapping[str, str]) -> bool:
    return any(environ.get(name, "").strip() or environ.get(f"{name}_FILE", "").strip() for name in names)


def parse_dotenv(
    text: str, path: str, environ: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[Problem]]:
    """What it says, and the lines that say nothing. Values are never shown in a problem."""
    found: dict[str, str] = {}
    problems: list[Problem] = []
    at, number = 0, 1
    while at < len(text):
        end = _end_of_line(text, at)
        line = text[at:end].strip()
        match = _LINE.match(text, at, end)
        if match is None:
            if line and not line.startswith("#"):
                problems.append(Problem("", None, "KEY=value", f"{path}:{number}"))
        else:
            value, end = _value(text, match.end(), end)
            if value is None:
                problems.append(
                    Problem("", None, "KEY=value with nothing behind its closing quote", f"{path}:{number}")
                )
            else:
                found[match[1].strip("'")] = _filled(value, {**found, **(environ or {})})
        number += text.count("\n", at, end + 1)
        at = end + 1
    return found, problems


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _value(text: str, start: int, end: int) -> tuple[str | None, int]:
    """The value that begins at `start`, and where the line ends on which it does; one in quotes may have several.

    None where a quote is not closed, or something follows it.
    """
    if text[start : start + 1] not in ("'", '"'):
        return re.split(r"\s#", text[start:end], maxsplit=1)[0].strip(), end
    quoted = _QUOTED.match(text, start)
    if quoted is None:
        return None, end
    closes = _end_of_line(text, quoted.end())
    if not _NOTHING.fullmatch(text, quoted.end(), closes):
        return None, closes
    escapes = _DOUBLE if quoted[1] == '"' else _SINGLE
    return re.sub(r"\\(.)", lambda found: escapes.get(found[1], found[0]), quoted[2]), closes


def _filled(value: str, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: known.get(found[1], found[2] or ""), value)
