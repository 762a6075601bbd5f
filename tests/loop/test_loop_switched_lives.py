"""Random lives of machines behind a real power server, with two replicas that end at any moment: the two laws hold.

The server refuses, hangs, answers without doing anything and does things without answering; machines are switched by
hand; whoever leads ends without a word, also between an acknowledgement and its proof. `SWITCHED_LIVES=20` runs more.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import deque
from typing import Any

import pytest

from controller.app.parts import make_connection, make_provider
from controller.app.program import Program
from controller.app.start import prepare
from controller.cluster.protocol import ClusterError
from controller.config.load import load
from controller.fleet.switching import life as lives
from controller.sandbox.demo.stage import QUICK, Stage, merged
from tests.loop.acting import until
from tests.loop.lives import Hurried
from tests.loop.racks import Rack
from tests.power_server import PowerServer

pytestmark = pytest.mark.life

SEEDS = range(int(os.environ.get("SWITCHED_LIVES", "2")))
GPUS = {"one": 1, "two": 1, "three": 2}
ON_WITHIN, DARK = 6.0, 1.0
FAULTS: list[int | str] = [
    500, 503, 404, 401, 429, 302, "reset", "hang", "slow", "nothing", "twice", "reset before", "hang before",
    "500 after",
]  # fmt: skip
SETTINGS: dict[str, Any] = {
    "cluster_id": "home",
    "lease": {"duration": "3s", "renew": "1s", "spend_within": "2s"},
    "timing": {"tick": "200ms", "poll_cloud": "300ms", "poll_cloud_busy": "300ms"},
    "deadlines": {
        "gpu_settle": "100ms", "drain_pause": "100ms", "ready": "3s", "backoff": {"first": "1s", "most": "2s"},
    },
    "scale_down": {"cooldown": "300ms"},
    "webhooks": {"power": {"timeout": "1s", "pause": "100ms", "longest_pause": "500ms", "status": {"field": "power.state"}}},
}  # fmt: skip


class Replica:
    """One controller in this process, with a connection of its own that can be cut."""

    def __init__(self, program: Program, connection: Any) -> None:
        self.program, self.connection = program, connection
        self.task = asyncio.create_task(program.run(None))

    @property
    def leads(self) -> bool:
        return self.program.lease.held

    async def die(self) -> None:
        """Without a word: the cluster hears no more of it, and calls under way break off."""

        async def cut(*_: Any, **__: Any) -> Any:
            raise ClusterError("unreachable", "cut off")

        self.connection.request = cut
        await self.end()

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.connection.close()


class Room:
    def __init__(self, stage: Stage, power: PowerServer, rng: random.Random) -> None:
        self.stage, self.power, self.rng = stage, power, rng
        self.rack = Rack(stage, power, GPUS)
        self.rack.boot, self.rack.stop = 0.4, 0.4
        self.broken = self.rack.broken
        self.replicas: list[Replica] = []
        self.names = 0
        self._born = 0
        self._seen: deque[tuple[float, int]] = deque(maxlen=1000)  # how many pods waited, of late
        self._deaths: list[float] = [0.0]
        self._asked: dict[str, float] = {}  # by machine: when it was told to come up
        self._used: dict[str, list[str]] = {}
        power.on_wish = self._judge
        power.on_effect = self._effect

    async def replica(self) -> None:
        self._born += 1
        machines = [
            {
                "name": name, "gpu_count": count, "min_on": "0s", "min_off": "0s", "switches_per_day": 10_000,
                "on_within": f"{ON_WITHIN:g}s", "off_within": "4s", "left_alone_for": "2s",
                "scale_up_endpoint": f"{self.power.url}/on/{name}", "scale_down_endpoint": f"{self.power.url}/off/{name}",
                **({"status_endpoint": f"{self.power.url}/status/{name}"} if name == "two" else {}),
            }
            for name, count in GPUS.items()
        ]  # fmt: skip
        quick = {key: value for key, value in QUICK.items() if key != "join"}
        text = json.dumps(merged(quick, merged(SETTINGS, {"machines": machines})))
        loaded, now = load("life.yaml", {}, text=text), Hurried()
        connection = await make_connection(self.stage.kubeconfig, {}, now)
        program = await prepare(
            loaded, connection, make_provider(loaded.settings, now), now, identity=f"r{self._born}"
        )
        self.replicas.append(Replica(program, connection))

    # -- laws

    def _effect(self, name: str, on: bool) -> None:
        if on:
            self._asked[name] = time.monotonic()
        else:
            self._asked.pop(name, None)
        self.rack._effect(name, on)

    def _judge(self, name: str, on: bool) -> None:
        """A further machine is asked for only while more pods wait than machines are coming up.

        Whoever leads next repeats a wish of one who ended, since nobody could say whether it was made; so pods count
        that waited then.
        """
        if not on:
            return
        now = time.monotonic()
        coming = [
            other for other, at in self._asked.items() if other != name and now - at < ON_WITHIN and not self._up(other)
        ]  # fmt: skip
        since = min([now, *(at for at in self._deaths if now - at < 15.0)]) - 5.0
        waiting = max((count for at, count in list(self._seen) if at > since), default=0)
        if len(coming) + 1 > waiting:
            self.broken.append(f"{name} is switched on for {waiting} pods while {coming} come")

    def _up(self, name: str) -> bool:
        return name in self.rack.ready

    # -- what happens

    async def look(self) -> dict[str, dict[str, Any]]:
        pods = await self.stage.pods()
        waiting = sum(1 for pod in pods.values() if not pod["spec"].get("nodeName"))
        self._seen.append((time.monotonic(), waiting))
        self._used = {}
        for key, pod in pods.items():
            if node := pod["spec"].get("nodeName"):
                self._used.setdefault(node, []).append(key)
        return pods

    async def pod(self, name: str, gpus: int) -> None:
        """It counts from now on: a machine may be asked for before anybody looks again."""
        self._seen.append((time.monotonic(), self._seen[-1][1] + 1))
        await self.stage.pod(name, gpus)

    async def happen(self) -> None:
        rng, chance = self.rng, self.rng.random()
        pods = await self.look()
        running = sorted(key for key, pod in pods.items() if pod["spec"].get("nodeName"))
        if chance < 0.30 and len(pods) < 3:
            self.names += 1
            await self.pod(f"p{self.names}", rng.choice([1, 1, 2]))
        elif chance < 0.55 and running:
            await self.stage.delete(f"/api/v1/namespaces/default/pods/{rng.choice(running)}")
        elif chance < 0.75:
            path = f"/{rng.choice(['on', 'off'])}/{rng.choice(list(GPUS))}"
            self.power.faults.setdefault(path, []).append(rng.choice(FAULTS))
        elif chance < 0.87:
            leading = [one for one in self.replicas if one.leads] or self.replicas
            await self._end(rng.choice(leading))
        elif chance < 0.92:
            name = rng.choice(list(GPUS))
            if name not in self._used and self.power.powers[name] == "off":
                self.power.powers[name] = "on"  # by hand
                await self.rack.set(name, True)

    async def _end(self, replica: Replica) -> None:
        self.replicas.remove(replica)
        self._deaths.append(time.monotonic())
        await (replica.die() if self.rng.random() < 0.7 else replica.end())
        await self.replica()

    async def rest(self) -> None:
        """Faults end, work ends, and everything is off."""
        self.power.faults.clear()
        for name in await self.stage.pods():
            await self.stage.delete(f"/api/v1/namespaces/default/pods/{name}")

        async def all_off() -> bool:
            await self.look()
            return set(self.power.powers.values()) == {"off"}

        await until("everything is off", all_off, within=90)


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_random_life_with_deaths_and_faults_breaks_no_law(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lives, "DARK", DARK)
    rng = random.Random(seed)
    with PowerServer() as power:
        async with Stage(cluster={"speed": 200}, boots=False) as stage:
            room = Room(stage, power, rng)
            await room.rack.register(on=frozenset({"three"}))
            try:
                for _ in range(2):
                    await room.replica()
                for _ in range(60):
                    await room.happen()
                    for _ in range(rng.choice([1, 2, 6])):
                        await asyncio.sleep(0.1)
                        await room.look()
                    assert room.broken == []
                await room.rest()
                await room.pod("last", 1)  # whatever was done to them, they still work

                async def bound() -> bool:
                    return bool((await room.look())["last"]["spec"].get("nodeName"))

                await until("the last pod is bound", bound, within=60)
            finally:
                for replica in room.replicas:
                    await replica.end()
            assert room.broken == []
            assert {h.method for h in power.heard} <= {"POST"}
