"""One seed from its beginning to its end: worlds, pods, the controller, trouble, and what came of it."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controller.config.load import Loaded, load
from controller.sandbox.simulator.clock import VirtualLoop
from controller.sandbox.simulator.owner import Owner
from controller.sandbox.simulator.process import RESTARTS_AFTER, Process, tasks_of_processes
from controller.sandbox.simulator.workload import Work
from controller.sandbox.simulator.worlds import Worlds

NAMESPACE = "gpu-autoscaler"
JOIN = {
    "k3s": {
        "template": "k3s",
        "server": "https://10.0.0.1:6443",
        "token_from": {"secret": {"name": "join", "key": "token"}},
        "version": "v1.36.3+k3s1",
    }
}
# What is done again and again is done more seldom than by default, so that a day takes seconds. What a life of
# a machine waits for (deadlines, cooldown, proofs) is as it is, and a user's own settings are taken as they are.
CALM: dict[str, Any] = {
    "timing": {"tick": "30s", "poll_cloud": "60s", "poll_cloud_busy": "20s", "catalogue": "10m"},
    "lease": {"duration": "60s", "renew": "20s", "spend_within": "45s"},
}
ENVIRON = {
    "VERDA_CLIENT_ID": "simulated-client",
    "VERDA_CLIENT_SECRET": "simulated-client-key",
    "VERDA_BASE_URL": "http://127.0.0.1:9/v1",
}
AFTERWARDS = 12 * 3600.0  # until everything has run and is gone, at most
TIDY = 1800.0


def default_settings(machines: int) -> dict[str, Any]:
    """One pool of everything that is not arm64, everywhere, on demand."""
    return {
        "cluster_id": "simulated",
        "namespace": NAMESPACE,
        "pools": [{"name": "all", "min_gpu_memory_gb": 1, "market": "on_demand_only", "max": machines}],
        "join": JOIN,
        **CALM,
    }


def loaded_from(settings: Mapping[str, Any]) -> Loaded:
    return load("simulated.yaml", ENVIRON, text=json.dumps(settings))


class Plan_:  # noqa: N801
    pass


class Simulation:
    def __init__(
        self,
        *,
        seed: int,
        hours: float,
        works: Sequence[Work],
        loaded: Loaded,
        tell: Callable[[float, str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.hours = hours
        self.loaded = loaded
        self.loop = VirtualLoop()
        self.loop.set_task_factory(tasks_of_processes)
        self.rng = random.Random(f"{seed}-simulation")
        self._tell = tell
        self.worlds = Worlds(self.loop, seed)
        self.owner = Owner(self.worlds, works, self.note)
        self.processes: dict[str, Process] = {}
        self._born = 0
        self.end_of_faults = hours * 3600

    def note(self, words: str) -> None:
        if self._tell is not None:
            self._tell(self.loop.time(), words)

    # -- controllers

    def start(self, place: str) -> None:
        self._born += 1
        name = f"{place}-{self._born}"
        process = Process(
            name, self.loaded, loop=self.loop, sky=self.worlds.sky, ground=self.worlds.ground,
            wall=self.worlds.wall, rng=random.Random(f"{self.seed}-{name}"), ended=self._ended,
        )  # fmt: skip
        self.processes[place] = process
        self.note(f"controller {name} starts")
        process.start()

    def _ended(self, process: Process, why: str) -> None:
        place = process.name.rpartition("-")[0]
        self.note(f"controller {process.name} {why}")
        if self.processes.get(place) is process:
            del self.processes[place]
            self.loop.call_later(RESTARTS_AFTER, self.start, place)

    # -- the whole course

    def run(self) -> float:
        """Returns the seconds of wall time that it took."""
        began = time.perf_counter()
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._course())
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            asyncio.set_event_loop(None)
        return time.perf_counter() - began

    async def _course(self) -> None:
        self._prepare()
        self.start("a")
        last = max((want.work.arrives for want in self.owner.wants), default=0.0)
        await asyncio.sleep(max(self.hours * 3600, last))
        end = self.loop.time() + AFTERWARDS
        while self.loop.time() < end and not (self.owner.left == 0 and self.empty()):
            await asyncio.sleep(10)
        for process in list(self.processes.values()):
            process.die()
        self.processes.clear()

    def _prepare(self) -> None:
        namespace = self.loaded.settings.namespace
        self.worlds.ask_cluster(
            "POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": namespace}}
        )
        for entry in self.loaded.settings.join.values():
            if entry.token_from is not None and (secret := entry.token_from.secret) is not None:
                body = {
                    "kind": "Secret",
                    "metadata": {"name": secret.name},
                    "stringData": {secret.key: "K10::server:not-a-real-token"},
                }
                self.worlds.ask_cluster("POST", f"/api/v1/namespaces/{namespace}/secrets", body)
        self.loop.call_later(TIDY, self._tidy)

    def _tidy(self) -> None:
        self.worlds.forget(4 * 3600)
        self.loop.call_later(TIDY, self._tidy)

    def empty(self) -> bool:
        state = self.worlds.cloud.state
        return not any(one.live for one in state.instances.values())
