"""Which requests arrived, and when: the outside view by which a client's latency and pace are measured.

Only what the API itself would see, never the sandbox's own paths; no header and no body, so no token
and no script. The oldest are forgotten, so that a cloud that runs for long does not grow.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from controller.sandbox.wire import Request

REMEMBERED = 20_000


class Visits:
    def __init__(self, most: int = REMEMBERED) -> None:
        self._seen: deque[tuple[float, str, str, int]] = deque(maxlen=most)

    def note(self, arrived: float, method: str, path: str, status: int) -> None:
        self._seen.append((arrived, method, path, status))

    def shown(self, request: Request) -> list[dict[str, Any]]:
        """In the order of arrival; `method` and `path` in the query leave out all others."""
        method, path = request.first("method"), request.first("path")
        return [
            {"at": round(at, 6), "method": verb, "path": where, "status": status}
            for at, verb, where, status in self._seen
            if method in ("", verb) and path in ("", where)
        ]
