"""Structured logs: one line each, as JSON or as text, with the machine and pod they concern.

Nothing that was registered as secret survives: it is replaced wherever it turns up, in messages and in
error texts of libraries alike, also where somebody quoted it for JSON or a URL or broke it into lines.
That holds for what is printed here; a handler of the program around us gets its records as they are.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_MASK = "***"
_LEAST = 6
_secrets: set[str] = set()


def keep_secret(*values: str) -> None:
    """Never let these values through. Very short ones would only garble the logs."""
    for value in values:
        for part in (value, value.strip()):
            forms = (
                part,
                json.dumps(part)[1:-1],
                quote(part, safe=""),
                quote_plus(part),
                " ".join(part.split()),
            )
            _secrets.update(form for form in forms if len(form) >= _LEAST)


def mask(text: str) -> str:
    # The longest first: a secret that begins like another must not leave its tail behind.
    for secret in sorted(_secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, _MASK)
    return text


def _one_line(text: str) -> str:
    return mask(" ".join(mask(text).splitlines()))


class _Line(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        extra: dict[str, Any] = {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
        if record.exc_info:
            extra["error"] = " | ".join(mask(self.formatException(record.exc_info)).splitlines())
        message = record.getMessage()
        if self._json:
            line = json.dumps(
                extra
                | {
                    "time": moment,
                    "level": record.levelname.lower(),
                    "logger": record.name,
                    "message": mask(message),
                },
                default=str,
                ensure_ascii=False,
            )
        else:
            words = " ".join(f"{key}={value}" for key, value in extra.items() if value not in ("", None))
            line = f"{moment[11:23]} {record.levelname.lower():7} {message}" + (f"  {words}" if words else "")
        return _one_line(line)


class _Printer(logging.StreamHandler[TextIO]):
    """Ours: the one on the console."""


def set_up(level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Print the log. Whoever else listens goes on listening, as long as it does not print on the console too."""
    printer = _Printer(stream or sys.stderr)
    printer.setFormatter(_Line(form))
    root = logging.getLogger()
    root.handlers[:] = [other for other in root.handlers if not _prints(other, printer.stream)] + [printer]
    root.setLevel(logging.WARNING)
    logging.getLogger("gpu_autoscaler").setLevel(level.upper())
    # Per-request lines of the HTTP libraries would carry URLs and nothing that helps.
    for name in ("aiohttp.access", "urllib3", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _prints(other: logging.Handler, stream: TextIO) -> bool:
    """An earlier one of ours, or one of `logging.basicConfig`: every line would stand there twice, and unmasked."""
    console = (stream, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return isinstance(other, _Printer) or (
        isinstance(other, logging.StreamHandler) and any(other.stream is each for each in console)
    )
