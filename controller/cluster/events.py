"""Events on pods and nodes, told once and then counted.

The same words about the same object within an hour raise the count of one Event instead of filling etcd;
after an hour the API server has forgotten the Event anyway. Cluster-scoped objects have their events in
the namespace `default`: the API server refuses any other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from controller.cluster.protocol import ClusterError, Subject, Transport
from controller.cluster.stamps import stamp

COMPONENT = "gpu-autoscaler"
AGGREGATED = 3600.0
LONGEST = 1024  # bytes
MOST_REMEMBERED = 4000
TIMEOUT = 10.0
AT_ONCE = 8
MOST_WAITING = (
    12_000  # more than one pass tells; while the API server is away they pile up, and the latest tell most
)
log = logging.getLogger(__name__)


class _Told(msgspec.Struct):
    path: str
    first: float
    count: int


class Events:
    def __init__(self, transport: Transport, *, wall: Callable[[], float]) -> None:
        self._transport = transport
        self._wall = wall
        self._told: dict[tuple[Subject, str, str], _Told] = {}
        # A thousand pods are told at once, and ledger and Lease must not queue up behind them for a connection.
        self._under_way = 0
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._drops = False

    async def tell(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        """Best effort: what goes wrong is logged, and no request takes longer than a few seconds."""
        message = _cut(message)
        try:
            if await self._turn():
                try:
                    await self._tell(subject, kind, reason, message)
                finally:
                    self._leave()
        except ClusterError as error:
            log.warning(
                "event %s on %s %s was not recorded: %s", reason, subject.kind, subject.name, error.message
            )
        except Exception:
            log.exception("event %s on %s %s was not recorded", reason, subject.kind, subject.name)

    async def _turn(self) -> bool:
        """Wait for one of the few places; False where too many others came after it."""
        if self._under_way < AT_ONCE:
            self._under_way += 1
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if len(self._waiting) > MOST_WAITING:
            oldest = self._waiting.popleft()
            if not oldest.done():
                oldest.set_result(False)
            if not self._drops:
                log.warning("more than %d events wait to be told: the oldest are dropped", MOST_WAITING)
            self._drops = True
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.result():
                self._leave()  # its turn had come in the same moment
            raise

    def _leave(self) -> None:
        """The place goes to the one that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._under_way -= 1
        self._drops = False

    async def _tell(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        now = self._wall()
        key = (subject, reason, message)
        known = self._told.get(key)
        if known is not None and 0 <= now - known.first < AGGREGATED and await self._count(known, now):
            return
        namespace = subject.namespace or "default"
        name = _name(subject, kind, reason, message, now)
        path = f"/api/v1/namespaces/{namespace}/events"
        body = _body(subject, namespace, name, kind, reason, message, now)
        try:
            await self._transport.request("POST", path, body=body, timeout=TIMEOUT)
        except ClusterError as error:
            if error.kind != "conflict":  # told in this very second already
                raise
        self._told.pop(key, None)  # those told first stand first
        self._forget(now)
        self._told[key] = _Told(f"{path}/{name}", now, 1)

    async def _count(self, known: _Told, now: float) -> bool:
        """Count one more; False where the Event is gone."""
        patch = {"count": known.count + 1, "lastTimestamp": stamp(int(now))}
        try:
            await self._transport.request(
                "PATCH", known.path, body=patch, content_type="application/merge-patch+json", timeout=TIMEOUT
            )
        except ClusterError as error:
            if error.kind == "not_found":
                return False
            raise
        known.count += 1
        return True

    def _forget(self, now: float) -> None:
        """What is too old to be counted on, and of the others what was told longest ago if there are too many."""
        while self._told:
            oldest = next(iter(self._told))
            if len(self._told) < MOST_REMEMBERED and 0 <= now - self._told[oldest].first < AGGREGATED:
                return
            del self._told[oldest]


def _name(subject: Subject, kind: str, reason: str, message: str, now: float) -> str:
    said = "\0".join((subject.kind, subject.uid, kind, reason, message, str(int(now))))
    return f"{subject.name[:230]}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _body(
    subject: Subject, namespace: str, name: str, kind: str, reason: str, message: str, now: float
) -> dict[str, Any]:
    about = {"apiVersion": "v1", "kind": subject.kind, "name": subject.name}
    about |= {key: value for key, value in (("namespace", subject.namespace), ("uid", subject.uid)) if value}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": stamp(int(now)),
        "lastTimestamp": stamp(int(now)),
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }


def _cut(message: str) -> str:
    """At most 1024 bytes, which is what the newer events API takes."""
    raw = message.encode()
    return message if len(raw) <= LONGEST else raw[: LONGEST - 3].decode(errors="ignore") + "…"
