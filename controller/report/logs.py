"""Structured logs: one line each, as JSON or as text, with the machine and pod they concern.

Nothing that was registered as secret survives: it is replaced wherever it turns up, in messages and in
error texts of libraries alike, also where somebody quoted it for JSON, HTML or a URL, broke it into lines, or wrote
it in base64, alone or as a part of something longer.
That holds for what is printed here; a handler of the program around us gets its records as they are.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_MASK = "***"
_LEAST = 6
_ESCAPED = re.compile("%[0-9A-F]{2}")
_secrets: set[str] = set()


def keep_secret(*values: str) -> None:
    """Never let these values through. Very short ones would only garble the logs."""
    for value in values:
        for part in (value, value.strip()):
            if len(part) >= _LEAST:
                _secrets.update(form for form in _forms(part) if len(form) >= _LEAST)


def _forms(part: str) -> Iterator[str]:
    for text in (part, " ".join(part.split())):
        quoted = json.dumps(text)[1:-1]
        yield from (text, quoted, json.dumps(quoted)[1:-1], quoted.replace("/", "\\/"), repr(text)[1:-1])
        yield from (json.dumps(text, ensure_ascii=False)[1:-1], _as_go_does(text))
        yield from (html.escape(text), html.escape(text, quote=False))
        for url in (quote(text, safe=""), quote(text), quote_plus(text)):
            yield url
            yield _ESCAPED.sub(lambda found: found[0].lower(), url)
    raw = part.encode()
    for shift in range(3):  # a part of something longer may begin at any of three places
        # Of the first and the last letter some bits are those of what stands beside it.
        letters = base64.b64encode(b"\0" * shift + raw)
        inner = letters.rstrip(b"=").decode()[(0, 2, 3)[shift] :]
        whole = inner if (shift + len(raw)) % 3 == 0 else inner[:-1]
        yield from (whole, whole.replace("+", "-").replace("/", "_"))


def _as_go_does(text: str) -> str:
    """Its JSON escapes what means something in HTML."""
    plain = json.dumps(text, ensure_ascii=False)[1:-1]
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04x}", plain)


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
