"""Both worlds on one virtual clock: their timers, the machines that boot, and what passes between them.

A world does at once what a request makes due; what is due later wakes the loop. Machines of the cloud are
told to the cluster's kubelets in the moment in which they run or are gone.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from controller.sandbox.cloud.model import Instance
from controller.sandbox.cloud.settings import Settings as CloudSettings
from controller.sandbox.cloud.visits import Visits
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.cluster.machines import machine_of
from controller.sandbox.cluster.settings import Settings as ClusterSettings
from controller.sandbox.cluster.world import ClusterWorld
from controller.sandbox.faults import Faults
from controller.sandbox.simulator.carrier import Carried, carry
from controller.sandbox.wire import Request, Response

BEGAN = 1_800_000_000.0  # the wall clock when a simulation begins
SHORTEST = 0.001
EVENTS_STAY = 3600.0  # seconds, as with the real API server
VISITS = 100  # requests to the cloud that are remembered: nobody asks for them
# No heartbeats: nobody here reads them, and the sandbox tells of silent nodes without them. Bookmarks come about once a minute,
# as from a real API server: just before a watch takes silence for the end of its server (`watching.SILENCE`), one that the
# network delays would make the picture too old to decide on.
CLUSTER: dict[str, Any] = {"speed": 1, "heartbeat": 0, "history": 500, "bookmarks": 60}
CLOUD: dict[str, Any] = {"speed": 1, "balance": "100000000", "script_quota": 1000}


class _Side:
    """One world with its faults, as requests reach it."""

    def __init__(self, core: Any, faults: Faults, after: Callable[[Request], None]) -> None:
        self.core = core
        self.faults = faults
        self.late: Callable[[Request], float] = lambda request: 0.0
        self._after = after

    def carried(self, request: Request) -> Carried:
        found = carry(self.core, self.faults, request)
        self._after(request)
        return found


class Worlds:
    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        self.loop = loop
        self.cloud = CloudWorld(self.wall, random.Random(f"{seed}-cloud"), CloudSettings().changed(CLOUD))
        self.cloud.visits = Visits(VISITS)
        settings = ClusterSettings()
        settings.change(CLUSTER)
        self.cluster = ClusterWorld(self.wall, seed, settings)
        self.cloud_faults = self.cloud.faults = Faults(rng=random.Random(f"{seed}-cloud-faults"))
        self.cluster_faults = Faults(rng=random.Random(f"{seed}-cluster-faults"))
        self.sky = _Side(self.cloud, self.cloud_faults, self._cloud_touched)
        self.ground = _Side(self.cluster, self.cluster_faults, self._cluster_touched)
        self.hear: list[Callable[[], None]] = []  # whoever looks after each step of the cloud
        self.turns = 0
        self.lag_until = 0.0  # of scheduler, controllers and kubelets
        # Timers belong to the worlds, not to the process whose call happened to set them: a dead one would be kept.
        self._context = contextvars.copy_context()
        self._running: dict[str, Instance] = {}
        self._cloud_timer: asyncio.TimerHandle | None = None
        self._cluster_timer: asyncio.TimerHandle | None = None
        self.turn_cloud()
        self.turn_cluster()

    def wall(self) -> float:
        return BEGAN + self.loop.time()

    # -- time

    def _cloud_touched(self, request: Request) -> None:
        if request.method != "GET":
            self.turn_cloud()

    def _cluster_touched(self, request: Request) -> None:
        if request.method != "GET" or "watch" in request.query:  # a watch has timers of its own
            self.turn_cluster()

    def turn_cloud(self) -> None:
        """Do what is due, tell the kubelets, and come again when more is."""
        pause = self.cloud.tick()
        self._tell_kubelets()
        self.turns += 1
        for hear in self.hear:
            hear()
        self._cloud_timer = self._again(self._cloud_timer, pause, self.turn_cloud)

    def turn_cluster(self) -> None:
        lag = self.lag_until - self.loop.time()
        pause: float | None = lag
        if lag <= 0:
            while (pause := self.cluster.tick()) == 0.0:
                pass
        self._cluster_timer = self._again(self._cluster_timer, pause, self.turn_cluster)

    def _again(
        self, timer: asyncio.TimerHandle | None, pause: float | None, turn: Callable[[], None]
    ) -> asyncio.TimerHandle | None:
        if pause is None:
            return timer
        at, now = self.loop.time() + max(SHORTEST, pause), self.loop.time()
        if timer is not None and not timer.cancelled():
            if now < timer.when() <= at:
                return timer  # it will look then, and find that it is early
            timer.cancel()
        return self.loop.call_at(at, turn, context=self._context)

    def _tell_kubelets(self) -> None:
        state = self.cloud.state
        for known in [one for one in self._running.values() if one.status != "running"]:
            del self._running[known.id]
            self.cluster.gone(known.id)
        for one in state.instances.values():
            if one.status == "running" and one.id not in self._running:
                self._running[one.id] = one
                self.cluster.boot(machine_of(one.shown(state.settings) | {"script": one.script}, None))
        self.turn_cluster()

    # -- as a user reaches them

    def ask_cluster(self, method: str, path: str, body: Any = None, *, merge: bool = False) -> Response:
        kind = "application/merge-patch+json" if merge else "application/json"
        raw = b"" if body is None else json.dumps(body).encode()
        response = self.cluster.handle(Request.of(method, path, raw, {"content-type": kind}))
        self.turn_cluster()
        return response

    def tell_cloud(self, method: str, path: str, body: Any) -> Any:
        """A control path of the sandbox."""
        response = self.cloud.handle(Request.of(method, f"/_sandbox/{path}", json.dumps(body).encode()))
        self.turn_cloud()
        if response.status >= 300:
            raise ValueError(f"{method} {path}: {response.body.decode()}")
        return response.json() if response.body else None

    def tell_cluster(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Response:
        return self.ask_cluster(method, f"/_sandbox/{path}", dict(body or {}))

    def forget(self, older_than: float) -> None:
        """What ended long ago, so that months do not fill the memory. Its cost stays in the account."""
        state, before = self.cloud.state, self.wall() - older_than
        for one in [i for i in state.instances.values() if not i.live and (i.discontinued_at or 0) < before]:
            del state.instances[one.id]
        for disk in [v for v in state.volumes.values() if v.destroyed and (v.meter.ended_at or 0) < before]:
            del state.volumes[disk.id]
        worn = {id(tag) for one in state.instances.values() for tag in (*one.tags, *one.os_tags)}
        worn |= {id(tag) for disk in state.volumes.values() for tag in disk.tags}
        state.tags = {pair: tag for pair, tag in state.tags.items() if id(tag) in worn}
        state.events[:] = [event for event in state.events if event.at >= before]
        self.cluster.recorder.forget(self.wall() - EVENTS_STAY)
        self.turn_cluster()
