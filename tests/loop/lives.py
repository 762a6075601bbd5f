"""A machine's whole life with a fault in it: bought for a pod, used, removed; and what must hold all along.

The controller is the real one, on the real adapter and SDK, over HTTP. Its waits are a fifth of what they
are (its clock is not), so that a life takes seconds. At every create that reaches the cloud it is checked
that no earlier order for these pods could still turn into a machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from controller.app.parts import Now, make_cloud, make_connection
from controller.app.program import Program
from controller.app.start import prepare
from controller.config.credentials import files_of
from controller.config.load import load
from controller.domain.machine import Phase
from controller.sandbox.demo.stage import QUICK, Stage, merged
from controller.sandbox.wire import Request, Response
from tests import marked
from tests.config.test_config_credentials import Mount
from tests.loop.acting import until

CLOUD: dict[str, Any] = {"speed": 600, "rate_limits": False}
CLUSTER: dict[str, Any] = {"speed": 400}
POOL: dict[str, Any] = {
    "name": "a100",
    "instance_types": ["1A100.22V", "2A100.44V"],
    "locations": ["FIN-01"],
    "max": 4,
}
SETTINGS: dict[str, Any] = {
    "cluster_id": "home",
    "pools": [POOL],
    "lease": {"duration": "6s", "renew": "2s", "spend_within": "5s"},
    "timing": {"tick": "300ms", "poll_cloud": "300ms", "poll_cloud_busy": "300ms", "catalogue": "1s"},
    "deadlines": {
        "gpu_settle": "100ms",
        "drain_pause": "100ms",
        "unknown_create": {"lists": 3, "over": "400ms"},
        "backoff": {"first": "1s", "most": "2s"},
    },
    "scale_down": {"cooldown": "300ms"},
    "verda": {"connect_timeout": "2s", "read_timeout": "2s"},
}
SLOWNESS = 5.0  # how much longer the controller thinks that it waits
SECRET = "the-secret-of-this-life"

STRANGERS: tuple[dict[str, Any], ...] = (
    {"hostname": "database", "description": "mine"},
    {"hostname": "home-a100-aaaaaaaaaa", "description": "made by hand"},
    {"hostname": "worker", "description": "gpuas home dddddddddd"},
    {"hostname": "home-a100-cccccccccc", "description": "gpuas other cccccccccc"},
)
# Each with one mark of ours, which is one too few.
THINGS_OF_STRANGERS: tuple[dict[str, Any], ...] = (
    {"disk": {"name": "home-a100-aaaaaaaaaa", "location": "FIN-01"}},
    {"disk": {"name": "home-a100-eeeeeeeeee", "location": "FIN-01", "where": "trash"}},
    {"script": {"name": "gpuas-home-aaaaaaaaaa", "script": "#!/bin/bash\necho mine\n"}},
    {"script": {"name": "mine", "script": "#!/bin/bash\n# gpuas home bbbbbbbbbb\n"}},
)
PARTS = ("instances", "volumes", "trash", "scripts")


class Hurried(Now):
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / SLOWNESS)


class Life:
    def __init__(self, stage: Stage, program: Program) -> None:
        self.stage = stage
        self.program = program
        self.posts: list[str] = []  # hostnames of the creates that reached the cloud
        self.wrong: list[str] = []
        self.most_alive = 0
        self.may_be_alive = 1  # of ours, at once
        self.strangers: dict[str, str] = {}

    # -- what is there

    def ours(self, thing: Mapping[str, Any]) -> bool:
        return thing["id"] not in self.strangers

    async def instances(self) -> list[dict[str, Any]]:
        return [one for one in (await self.stage.bill())["instances"] if self.ours(one)]

    async def only(self) -> dict[str, Any]:
        (found,) = await self.instances()
        return found

    async def plant(self) -> None:
        """What is not ours: machines with their disks, disks without machines, and scripts."""
        for stranger in STRANGERS:
            body = {
                "instance_type": "1A100.22V", "image": "ubuntu-24.04-cuda-12.8-open", "location_code": "FIN-01",
                "running": True, **stranger,
            }  # fmt: skip
            await self.stage.tell_cloud("POST", "instances", body)
        await self.stage.tell_cloud("POST", "events", {"event": "plant", "things": list(THINGS_OF_STRANGERS)})
        self.strangers = await self._everything()

    async def _everything(self) -> dict[str, str]:
        state = await self.stage.bill()
        return {thing["id"]: thing.get("status", "") for part in PARTS for thing in state[part]}

    async def code_of(self, pod: str) -> str:
        why = self.program.loop.plan.pods.get(f"default/{pod}")
        return why.code.value if why is not None else ""

    # -- what happens

    async def pod(self, name: str = "train") -> None:
        await self.stage.pod(name, 1)

    async def runs(self, name: str = "train", within: float = 40.0) -> None:
        async def check() -> bool:
            pods = await self.stage.pods()
            return name in pods and pods[name]["status"]["phase"] in ("Running", "Succeeded")

        await until(f"{name} runs", check, within=within)

    async def ready(self) -> None:
        async def check() -> bool:
            alive = [m for m in self.program.fleet.machines() if m.phase is not Phase.TOMBSTONE]
            return [m.phase for m in alive] == [Phase.READY]

        await until("one machine is ready", check)

    async def end(self, name: str = "train", within: float = 40.0) -> None:
        """The pod goes, and with it everything of ours; what is not ours is as it was."""
        await self.stage.delete(f"/api/v1/namespaces/default/pods/{name}")
        await self.empty(within)

    async def empty(self, within: float = 40.0) -> None:
        async def nothing_of_ours() -> bool:
            state = await self.stage.bill()
            return not any(self.ours(one) for part in PARTS for one in state[part])

        await until("no machine, disk or script of ours is left", nothing_of_ours, within=within)
        assert await self._everything() == self.strangers

    async def api(self, method: str, path: str, body: Any = None, client: str = "console") -> str:
        """A call of the project's own, as from the console."""
        secret = {"red-client": "red-secret-of-this-life"}.get(client, "console-key")
        login = {"grant_type": "client_credentials", "client_id": client, "client_secret": secret}
        base = self.stage.cloud_url + "/v1"
        async with aiohttp.ClientSession() as http:
            async with http.post(f"{base}/oauth2/token", json=login) as answer:
                token = (await answer.json())["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            async with http.request(method, base + path, json=body, headers=headers) as answer:
                text = await answer.text()
                assert answer.status < 300, text
                return text

    async def in_use(self, name: str = "train") -> str:
        """Bought, and running its pod; the id of the machine."""
        await self.pod(name)
        await self.runs(name)
        await self.ready()
        return str((await self.only())["id"])

    def fault(self, *rules: Mapping[str, Any]) -> None:
        self.stage.cloud_faults.replace([dict(rule) for rule in rules])

    async def knobs(self, **values: Any) -> None:
        await self.stage.tell_cloud("PUT", "settings", values)

    async def show_no_secret(self) -> None:
        """Events, ConfigMaps, Nodes, metrics and status; the logs are searched for every test."""
        paths = ("/api/v1/events", "/api/v1/configmaps", "/api/v1/nodes")
        told = [json.dumps(await self.stage.get(path)) for path in paths]
        assert "gpu-autoscaler-ledger" in told[1]
        told += [self.program.metrics.text().decode(), json.dumps(self.program.loop.status())]
        for text in told:
            assert marked.found_in(text) == []

    # -- what must hold at every create

    def tap(self) -> None:
        handle = self.stage.cloud.handle

        def tapped(request: Request) -> Response:
            if (request.method, request.path) == ("POST", "/v1/instances"):
                self._create_arrived(str(json.loads(request.body)["hostname"]))
            if (request.method, request.path) == ("POST", "/v1/scripts"):
                marked.note_script(json.loads(request.body)["script"])
            response = handle(request)
            alive = [one for one in self._alive() if one.id not in self.strangers]
            self.most_alive = max(self.most_alive, len(alive))
            return response

        self.stage.cloud.handle = tapped  # type: ignore[method-assign]

    def _alive(self) -> list[Any]:
        doomed = ("deleting", "discontinued", "no_capacity", "installation_failed", "error")
        return [one for one in self.stage.cloud.state.instances.values() if one.status not in doomed]

    def _create_arrived(self, hostname: str) -> None:
        """No earlier order for the same pods may still become a machine, or be one that serves them."""
        self.posts.append(hostname)
        machines = self.program.fleet.ledger.machines.values()
        pods = {pod for machine in machines if machine.name == hostname for pod in machine.pods}
        over = (Phase.TOMBSTONE, Phase.DELETING, Phase.DRAINING)
        for machine in machines:
            if machine.name != hostname and machine.phase not in over and pods & set(machine.pods):
                self.wrong.append(f"{hostname} was ordered while {machine.name} was {machine.phase.value}")


@asynccontextmanager
async def life(
    settings: Mapping[str, Any] | None = None,
    cloud: Mapping[str, Any] | None = None,
    cluster: Mapping[str, Any] | None = None,
    mount: Mount | None = None,
) -> AsyncIterator[Life]:
    """The controller runs; strangers are there. At the end nothing may have been bought twice."""
    async with Stage(cloud=CLOUD | dict(cloud or {}), cluster=CLUSTER | dict(cluster or {})) as stage:
        program = await _program(stage, merged(SETTINGS, settings or {}), mount)
        lived = Life(stage, program)
        await lived.plant()
        lived.tap()
        task = asyncio.create_task(program.run(None))
        try:
            yield lived
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await lived.show_no_secret()
        assert lived.wrong == []
        assert lived.most_alive <= lived.may_be_alive


async def _program(stage: Stage, settings: Mapping[str, Any], mount: Mount | None) -> Program:
    given = {"VERDA_CLIENT_ID": "life", "VERDA_CLIENT_SECRET": SECRET} if mount is None else mount.environ()
    environ = {**given, "VERDA_BASE_URL": stage.cloud_url + "/v1"}
    loaded = load("life.yaml", environ, text=json.dumps(merged(QUICK, settings)))
    now = Hurried()
    connection = await make_connection(stage.kubeconfig, environ, now)
    return await prepare(
        loaded,
        connection,
        make_cloud(loaded.settings, now, files_of(loaded.origins, environ)),
        now,
        identity="life",
    )
