"""Structured logs: one line each, as JSON or as text, with the machine and pod they concern.

Nothing that looks like a secret survives: values registered as secret are replaced wherever they
turn up, in messages and in error texts of libraries alike.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_MASK = "***"
_secrets: set[str] = set()


def keep_secret(*values: str) -> None:
    """Never let these values through. Very short ones would only garble the logs."""
    _secrets.update(value for value in values if len(value) >= 6)


def mask(text: str) -> str:
    for secret in _secrets:
        if secret in text:
            text = text.replace(secret, _MASK)
    return text


class _Line(logging.Formatter):
    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        extra: dict[str, Any] = {k: v for k, v in record.__dict__.items() if k not in _STANDARD}
        if record.exc_info:
            extra["error"] = " | ".join(self.formatException(record.exc_info).splitlines())
        message = record.getMessage()
        if self._json:
            line = json.dumps(
                {"time": moment, "level": record.levelname.lower(), "logger": record.name, "message": message}
                | extra,
                default=str,
                ensure_ascii=False,
            )
        else:
            words = " ".join(f"{key}={value}" for key, value in extra.items() if value not in ("", None))
            line = f"{moment[11:23]} {record.levelname.lower():7} {message}" + (f"  {words}" if words else "")
        return mask(line.replace("\n", " "))


def set_up(level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Line(form))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gpu_autoscaler").setLevel(level.upper())
    # Per-request lines of the HTTP libraries would carry URLs and nothing that helps.
    for name in ("aiohttp.access", "urllib3", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)
