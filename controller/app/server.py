"""Metrics, health and status over HTTP.

`/healthz` fails when the main loop stalls, so that the kubelet restarts a wedged controller;
`/readyz` says whether the watched world is in step. Neither asks anybody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

from controller.report.metrics import Metrics


class Health:
    """A heartbeat of the main loop, on the monotonic clock."""

    def __init__(self, monotonic: Callable[[], float], stalled_after: float) -> None:
        self._monotonic = monotonic
        self._stalled_after = stalled_after
        self._beat = monotonic()

    def change(self, stalled_after: float) -> None:
        """Other settings are in force."""
        self._stalled_after = stalled_after

    def beat(self) -> None:
        self._beat = self._monotonic()

    @property
    def stalled_for(self) -> float:
        silent = self._monotonic() - self._beat
        return silent if silent > self._stalled_after else 0.0


def split_address(listen: str) -> tuple[str, int]:
    """`:8080`, `127.0.0.1:8080`, `[::1]:0`."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"--listen {listen!r}: expected ADDRESS:PORT or :PORT")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  (the pod's own address, for the kubelet)


class Server:
    def __init__(
        self,
        *,
        metrics: Metrics,
        health: Health,
        ready: Callable[[], str],
        status: Callable[[], dict[str, Any]],
    ) -> None:
        self._metrics = metrics
        self._health = health
        self._ready = ready
        self._status = status
        self._runner: web.AppRunner | None = None
        self.port = 0
        self.address = ""  # where it really listens

    async def start(self, listen: str) -> None:
        host, port = split_address(listen)
        app = web.Application()
        app.router.add_get("/metrics", self._get_metrics)
        app.router.add_get("/healthz", self._get_healthz)
        app.router.add_get("/health-check", self._get_healthz)  # where cluster-autoscaler's manifests ask
        app.router.add_get("/readyz", self._get_readyz)
        app.router.add_get("/status", self._get_status)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _get_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _get_healthz(self, _: web.Request) -> web.Response:
        stalled = self._health.stalled_for
        if stalled:
            return web.Response(status=503, text=f"the main loop has been silent for {stalled:.0f} s\n")
        return web.Response(text="ok\n")

    async def _get_readyz(self, _: web.Request) -> web.Response:
        why = self._ready()
        return web.Response(status=503, text=why + "\n") if why else web.Response(text="ok\n")

    async def _get_status(self, _: web.Request) -> web.Response:
        return web.Response(text=json.dumps(self._status(), indent=2) + "\n", content_type="application/json")
