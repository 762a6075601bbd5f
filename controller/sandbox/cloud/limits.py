"""Request limits: 500 a minute for the project, 60 for one method and path, 120 for the two lists.

Windows are fixed and counted in real seconds, whatever the speed of the machines; each project has its
own. The query string is taken not to make another path: a knob. A 429 has been documented with a length that cannot hold `{code, message}`,
so its body may be plain text; a knob picks which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.sandbox.cloud.answers import CODES
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.wire import Response

LISTS = (("GET", "/instances"), ("GET", "/volumes"))
TEXT_BODY = b"Rate limit."  # 11 bytes


@dataclass(slots=True)
class _Window:
    start: float
    used: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What the headers tell after one request was counted."""

    headers: dict[str, str]
    retry_after: int | None  # None = within the limits


class RateLimits:
    def __init__(self) -> None:
        self._project = _Window(0.0)
        self._endpoints: dict[tuple[str, str], _Window] = {}

    def count(self, method: str, path: str, settings: Settings, now: float, *, query: str = "") -> Standing:
        span = settings.rate_window_s
        key = (method, path if settings.limit_ignores_query else f"{path}?{query}")
        if now >= self._project.start + span:
            self._project = _Window(now)
            self._endpoints = {k: w for k, w in self._endpoints.items() if now < w.start + span}
        window = self._endpoints.get(key)
        if window is None or now >= window.start + span:
            window = self._endpoints[key] = _Window(now)
        quota = settings.list_limit if (method, path) in LISTS else settings.endpoint_limit
        bounds = [("project", self._project, settings.project_limit), ("endpoint", window, quota)]
        waits = [_left(w, span, now) for _, w, most in bounds if w.used >= most]
        if not waits:
            for _, used, _ in bounds:
                used.used += 1
        return Standing(
            {
                "RateLimit-Policy": ", ".join(f'"{name}";q={most};w={span:g}' for name, _, most in bounds),
                "RateLimit": ", ".join(
                    f'"{name}";r={max(0, most - w.used)};t={_left(w, span, now)}' for name, w, most in bounds
                ),
            },
            max(waits) if waits else None,
        )


def _left(window: _Window, span: float, now: float) -> int:
    return max(1, math.ceil(window.start + span - now))


def too_many(standing: Standing, settings: Settings) -> Response:
    headers = {**standing.headers, "Retry-After": str(standing.retry_after)}
    if settings.rate_limit_body == "text":
        return Response(429, TEXT_BODY, {"Content-Type": "application/json", **headers})
    return Response.of_json(429, {"code": CODES[429], "message": "Too many requests"}, headers)
