"""Leader election on a Lease, as client-go does it, with one promise more: when money may be spent.

A lease of somebody else has ended when *we* have seen it unchanged for its duration on our own monotonic
clock; what its `renewTime` says is another machine's opinion. Our own right to spend ends 10 seconds
after the start of the last successful write, by the monotonic clock and by the wall clock, whichever is
earlier: a suspended machine's monotonic clock stands still, a corrected wall clock jumps back.

The transport should be one that nobody else uses: on a slow network a renewal must not wait for a new connection
because watches took the one that was there.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from controller.cluster.protocol import ClusterError, Transport
from controller.cluster.stamps import micro
from controller.domain.names import LEASE

DURATION = 15
RENEW = 5.0
RETRY = 0.4  # of the time between two renewals; 2 s where that is 5
SPENDING = 10.0
log = logging.getLogger(__name__)


class _Meta(msgspec.Struct):
    resourceVersion: str = ""


class _Spec(msgspec.Struct):
    holderIdentity: str | None = None
    leaseDurationSeconds: int | None = None
    acquireTime: str | None = None
    renewTime: str | None = None
    leaseTransitions: int | None = None


class _Wire(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Lease:
    """`run` competes until cancelled and then lets go. `on_change(held)` tells of gain and loss, once each.

    `identity` is `<hostname>_<random>`: two processes on one host must never take each other for themselves.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str,
        identity: str,
        clock: Callable[[], float],
        wall: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        rng: random.Random,
        on_change: Callable[[bool], None] = lambda held: None,
        name: str = LEASE,
        duration: float = DURATION,
        renew: float = RENEW,
        spend_within: float = SPENDING,
    ) -> None:
        self._transport = transport
        self._root = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._rng = rng
        self._on_change = on_change
        self._spend_within = math.inf
        self.change(duration=duration, renew=renew, spend_within=spend_within)
        self._found: _Wire | None = None  # as last read or written
        self._unchanged_since = 0.0
        self._success: tuple[float, float] | None = None  # monotonic and wall time, before it was sent
        self._held = False
        self._warm = False  # whether the last request was answered, and so its connection is there
        self.error = ""

    def change(self, *, duration: float, renew: float, spend_within: float) -> None:
        """Its times, in seconds. We lead for longer only once the others know that it lasts longer."""
        self._duration = max(1, math.ceil(duration))  # the API knows whole seconds only
        self._renew = renew
        self._retry = RETRY * renew
        self._spend_soon = spend_within
        self._spend_within = min(spend_within, self._spend_within)

    @property
    def held(self) -> bool:
        """Whether we are the leader; it ends by itself when renewing fails for long enough."""
        return self._held and self._fresh()

    def may_spend(self) -> bool:
        """To be asked right before every call that costs money."""
        return self.held

    @property
    def holder(self) -> str:
        """Who holds it, as far as we know."""
        return (self._found.spec.holderIdentity or "") if self._found else ""

    async def run(self) -> None:
        try:
            while True:
                await self._sleep(await self.step())
        finally:
            await self._let_go()

    async def step(self) -> float:
        """One attempt to take or to renew; the seconds until the next."""
        began = (self._clock(), self._wall())
        try:
            ours = await self._attempt(began[0])
            self.error = ""
        except ClusterError as error:
            self.error = error.message
            self._set(self._held and error.kind != "conflict" and self._fresh())
            return self._soon(began[0])
        if ours:
            self._success = began
        self._set(ours and self._fresh())  # an answer that took too long is worth nothing
        return max(0.0, self._renew - (self._clock() - began[0])) if self._held else self._soon(began[0])

    def _soon(self, began: float) -> float:
        """One that waited in vain for an answer has paused enough."""
        pause = self._retry * self._rng.uniform(0.8, 1.2)
        wait = max(0.05, pause - (self._clock() - began))
        if self._held and self._success:
            # Wake up in time to notice that it is lost.
            wait = min(wait, max(0.05, self._success[0] + self._spend_within - self._clock()))
        return wait

    def _fresh(self) -> bool:
        if self._success is None:
            return False
        steady, wall = self._clock() - self._success[0], self._wall() - self._success[1]
        return steady < self._spend_within and wall < self._spend_within

    def _set(self, held: bool) -> None:
        if held == self._held:
            return
        self._held = held
        log.info("the lease is %s (%s)", "held" if held else "lost", self.error or self.holder)
        self._on_change(held)

    async def _attempt(self, now: float) -> bool:
        if self._held and self._found is not None:
            try:  # the usual case needs no reading: nobody else writes while it is ours
                await self._write(self._renewed(self._found.spec), self._found.metadata.resourceVersion)
                return True
            except ClusterError as error:
                if error.kind not in ("conflict", "not_found"):
                    raise
        found = await self._read()
        if found is None:
            if self._others_may_spend():
                return False  # somebody deleted it, of which its holder hears with its next renewal only
            self._lapse()
            await self._write(self._taken(_Spec()), "")
            return True
        if self._found is None or found != self._found:
            self._found, self._unchanged_since = found, self._clock()
        holder = found.spec.holderIdentity or ""
        if holder == self._identity:
            await self._write(self._renewed(found.spec), found.metadata.resourceVersion)
            return True
        if self._others_may_spend():
            return False
        self._lapse()
        try:
            await self._write(self._taken(found.spec), found.metadata.resourceVersion)
        except ClusterError as error:
            if error.kind == "conflict":  # somebody was faster
                return False
            raise
        return True

    def _others_may_spend(self) -> bool:
        """Whether somebody else held it when it was seen last, and it has not ended since."""
        if self._found is None or self.holder in ("", self._identity):
            return False
        lasts = self._found.spec.leaseDurationSeconds or self._duration
        return self._clock() < self._unchanged_since + lasts

    def _lapse(self) -> None:
        """It is nobody's. Somebody else may have led and let go since our right to spend ended: that is told first."""
        self._set(self._held and self._fresh())

    def _taken(self, before: _Spec) -> dict[str, Any]:
        changes = (before.leaseTransitions or 0) + (1 if before.holderIdentity is not None else 0)
        return self._spec(micro(self._wall()), changes)

    def _renewed(self, before: _Spec) -> dict[str, Any]:
        return self._spec(before.acquireTime or micro(self._wall()), before.leaseTransitions or 0)

    def _spec(self, acquired: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._duration,
            "acquireTime": acquired,
            "renewTime": micro(self._wall()),
            "leaseTransitions": transitions,
        }

    async def _ask(self, method: str, path: str, body: object = None) -> bytes:
        """A connection that is there answers soon or not at all; a new one takes its time on a slow network.

        What is answered after the end of our right to spend is worth nothing.
        """
        patience = self._renew / 2
        if not self._warm:
            began = self._success[0] if self._held and self._success else self._clock()
            patience = max(patience, began + self._spend_within - self._clock())
        try:
            raw = await self._transport.request(method, path, body=body, timeout=patience)
        except ClusterError as error:
            self._warm = error.status != 0
            raise
        self._warm = True
        return raw

    async def _read(self) -> _Wire | None:
        try:
            raw = await self._ask("GET", f"{self._root}/{self._name}")
        except ClusterError as error:
            if error.kind == "not_found":
                return None
            raise
        return msgspec.json.decode(raw, type=_Wire)

    async def _write(self, spec: dict[str, Any], version: str) -> None:
        """Create (no version) or replace exactly that version."""
        meta = {"name": self._name, "namespace": self._namespace} | (
            {"resourceVersion": version} if version else {}
        )
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
        method, path = ("PUT", f"{self._root}/{self._name}") if version else ("POST", self._root)
        raw = await self._ask(method, path, body)
        self._found, self._unchanged_since = msgspec.json.decode(raw, type=_Wire), self._clock()
        if spec["leaseDurationSeconds"] >= self._duration:
            self._spend_within = self._spend_soon

    async def _let_go(self) -> None:
        """So that a successor need not wait for the end of the lease."""
        found, was = self._found, self._held
        self._set(False)
        self._success = None
        self._warm = True  # the end of the program waits for no new connection
        if not was or found is None:
            return
        spec = self._renewed(found.spec) | {"holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            await self._write(spec, found.metadata.resourceVersion)
        except ClusterError as error:
            log.warning("the lease was not released: %s", error.message)
