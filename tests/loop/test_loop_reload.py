"""Settings change while pods come and go: taken whole or not at all, nothing restarts, nothing is bought twice or lost."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.app.exits import Ends
from controller.app.parts import make_cloud, make_connection, make_provider
from controller.app.reload import APPLIED, REFUSED, Reload
from controller.app.start import prepare
from controller.config.errors import ConfigError
from controller.config.load import Loaded, load
from controller.domain.machine import Phase
from controller.fleet.switching import life as switched
from controller.sandbox.demo.stage import QUICK, Stage, merged
from tests.loop.acting import until
from tests.loop.lives import CLOUD, CLUSTER, POOL, SECRET, SETTINGS, Hurried, Life
from tests.loop.racks import Rack
from tests.power_server import PowerServer

pytestmark = pytest.mark.life

# The machine that runs the tests may have other work: what is tried here is not who leads, and not time-outs.
PATIENT = {
    "verda": {"connect_timeout": "10s", "read_timeout": "20s"},
    "lease": {"duration": "90s", "renew": "10s", "spend_within": "60s"},
}
OTHER = POOL | {"name": "other", "instance_types": ["1A100.22V"], "max": 1, "pause": "scale-up"}
BASE = merged(merged(QUICK, SETTINGS), PATIENT)


class Mounted:
    """A ConfigMap as the kubelet mounts it: the file is a link through `..data`, which is swapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.path = folder / "config.yaml"

    def put(self, text: str) -> None:
        self.count += 1
        new = self.folder / f"..{self.count}"
        new.mkdir()
        (new / "config.yaml").write_text(text)
        link = self.folder / "..new"
        link.symlink_to(new.name)
        os.replace(link, self.folder / "..data")
        if not self.path.is_symlink():
            self.path.symlink_to("..data/config.yaml")


class Reloaded(Life):
    def __init__(self, life: Life, mounted: Mounted, reload: Reload) -> None:
        self.__dict__.update(life.__dict__)
        self.mounted = mounted
        self.reload = reload

    async def change(self, settings: Mapping[str, Any] | str) -> str:
        text = settings if isinstance(settings, str) else json.dumps(merged(BASE, settings))
        self.mounted.put(text)
        return await self.reload.look()


@asynccontextmanager
async def reloaded(folder: Path, settings: Mapping[str, Any] | None = None) -> AsyncIterator[Reloaded]:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        mounted = Mounted(folder)
        mounted.put(json.dumps(merged(BASE, settings or {})))
        environ = {
            "VERDA_CLIENT_ID": "life",
            "VERDA_CLIENT_SECRET": SECRET,
            "VERDA_BASE_URL": stage.cloud_url + "/v1",
        }

        def again() -> Loaded:
            try:
                return load(str(mounted.path), environ)
            except ConfigError as error:
                raise Ends(2, *str(error).splitlines()) from error

        now = Hurried()
        connection = await make_connection(stage.kubeconfig, environ, now)
        loaded = again()
        program = await prepare(loaded, connection, make_cloud(loaded.settings, now), now, identity="life")
        life = Reloaded(Life(stage, program), mounted, Reload(program, again, sleep=now.sleep))
        await life.plant()
        life.tap()
        task = asyncio.create_task(program.run(None))
        try:
            yield life
        finally:
            ended_by_itself = task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await life.show_no_secret()
        assert not ended_by_itself
        assert life.wrong == []


def metric(life: Life, name: str) -> float:
    lines = life.program.metrics.text().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"gpu_autoscaler_{name}"))


BAD: list[str | dict[str, Any]] = [
    "pools: [",
    "pools: 5",
    {"pools": []},
    {"pools": [POOL | {"max": "many"}]},
    {"pools": [POOL | {"min": 9}]},
    {"cluster_id": "another"},
    {"namespace": "elsewhere"},
    {"verda": {"currency": "eur"}},
    {"colour": "red"},
    {"scale_down": {"cooldown": "soon"}},
]
GOOD: list[str | dict[str, Any]] = [
    {},
    {"pools": [POOL | {"max": 3}]},
    {"pools": [POOL, OTHER]},
    {"scale_down": {"cooldown": "250ms"}},
    {"limits": {"machines": 8}},
    {"lease": {"duration": "80s"}},
    {"pools": [POOL | {"max_price_per_hour": 50}]},
]


def numbered(settings: str | dict[str, Any], n: int) -> str | dict[str, Any]:
    """A change even where the same one comes twice in a row."""
    return (
        f"{settings}\n# {n}\n"
        if isinstance(settings, str)
        else merged({"limits": {"gpus": 100 + n}}, settings)
    )


async def test_a_hundred_changes_while_pods_come_and_go_restart_nothing_and_buy_nothing_twice(
    tmp_path: Path,
) -> None:
    rng = random.Random(8)
    async with reloaded(tmp_path) as life:
        program, applied, refused, pods = life.program, 0, 0, 0
        for n in range(100):
            bad = rng.random() < 0.5
            result = await life.change(numbered(rng.choice(BAD if bad else GOOD), n))
            assert result == (REFUSED if bad else APPLIED), n
            applied, refused = applied + (not bad), refused + bad
            assert [pool.name for pool in program.loop.policy.pools][:1] == ["a100"]
            assert program.fleet.policy is program.loop.policy
            if n % 10 == 0:
                pods += 1
                await life.pod(f"p{pods}")
            if n % 10 == 5:
                await life.runs(f"p{pods}")
                await life.stage.delete(f"/api/v1/namespaces/default/pods/p{pods}")
            await asyncio.sleep(0.02)
        assert metric(life, 'settings_changes_total{result="applied"}') == applied
        assert metric(life, 'settings_changes_total{result="refused"}') == refused
        assert await life.change({}) == APPLIED
        assert metric(life, "settings_valid") == 1
        await life.empty()
        assert life.program is program
        assert (applied + refused, min(applied, refused) > 30, pods) == (100, True, 10)
        assert 1 <= len(life.posts) <= pods  # one machine for each pod at most; an idle one takes the next


async def test_a_refused_change_is_told_in_event_metric_and_status_until_it_is_mended(tmp_path: Path) -> None:
    async with reloaded(tmp_path) as life:
        await life.in_use()
        before = life.program.loop.policy
        assert await life.change({"pools": [POOL | {"max": "many"}]}) == REFUSED
        assert life.program.loop.policy is before
        assert metric(life, "settings_valid") == 0
        assert any("pools[0].max = many" in line for line in life.program.loop.problems())

        async def told() -> bool:
            events = (await life.stage.get("/api/v1/events"))["items"]
            return any(e["reason"] == "SettingsRefused" and "max = many" in e["message"] for e in events)

        await until("an event tells it", told)
        assert await life.change({"pools": [POOL | {"max": 3}]}) == APPLIED
        assert metric(life, "settings_valid") == 1
        assert not any("refused" in line for line in life.program.loop.problems())
        await life.end()


@pytest.mark.parametrize("kept", [False, True])
async def test_machines_of_a_pool_that_is_taken_out_are_drained_after_their_work_or_kept(
    tmp_path: Path, kept: bool
) -> None:
    ways = {"scale_down": {"removed_pools": "keep" if kept else "drain", "cooldown": "1h"}}
    async with reloaded(tmp_path, ways) as life:
        name = await life.in_use() and life.program.fleet.machines()[0].name
        assert await life.change(ways | {"pools": [OTHER]}) == APPLIED

        async def closed() -> bool:
            node = await life.stage.get(f"/api/v1/nodes/{name}")
            taints = [taint["key"] for taint in node["spec"].get("taints", ())]
            return "gpu-autoscaler/draining" in taints

        if kept:
            await asyncio.sleep(1.0)
            assert not await closed()
        else:
            await until("it takes no new pods", closed)
        pods = await life.stage.pods()
        assert pods["train"]["status"]["phase"] == "Running"
        await life.stage.delete("/api/v1/namespaces/default/pods/train")
        if kept:
            await asyncio.sleep(1.0)
            assert [m.phase for m in life.program.fleet.machines()] == [Phase.READY]
            assert await life.change({}) == APPLIED  # the pool is back, with a short cooldown
        await life.empty()


async def test_a_pool_that_comes_back_opens_its_machines_again(tmp_path: Path) -> None:
    async with reloaded(tmp_path) as life:
        await life.in_use()
        name = life.program.fleet.machines()[0].name

        async def keys() -> list[str]:
            node = await life.stage.get(f"/api/v1/nodes/{name}")
            return [taint["key"] for taint in node["spec"].get("taints", ())]

        async def closed() -> bool:
            return "gpu-autoscaler/draining" in await keys()

        async def opened() -> bool:
            return not await closed()

        assert await life.change({"pools": [OTHER]}) == APPLIED
        await until("it is closed", closed)
        assert await life.change({}) == APPLIED
        await until("it is open", opened)
        await life.end()
        assert len(life.posts) == 1


SWITCHED: dict[str, Any] = {
    "cluster_id": "home",
    "timing": {"tick": "200ms", "poll_cloud": "300ms", "poll_cloud_busy": "300ms"},
    "deadlines": {"gpu_settle": "100ms", "drain_pause": "100ms", "backoff": {"first": "1s", "most": "2s"}},
    "scale_down": {"cooldown": "300ms"},
    "lease": PATIENT["lease"],
}


def machine(name: str, power: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "gpu_count": 1, "min_on": "0s", "min_off": "0s", "switches_per_day": 10_000, "left_alone_for": "0s",
        "scale_up_endpoint": f"{power}/on/{name}", "scale_down_endpoint": f"{power}/off/{name}", **more,
    }  # fmt: skip


async def test_a_hundred_changes_of_switched_machines_switch_nothing_twice_and_nothing_off_under_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switched, "DARK", 1.0)  # how long a Node has to be not Ready
    rng = random.Random(8)
    with PowerServer() as power:
        async with Stage(cluster=CLUSTER, boots=False) as stage:
            rack = Rack(stage, power, {"one": 1, "two": 1})
            await rack.register()
            one, two = (machine(name, power.url) for name in ("one", "two"))
            other = f"{power.url}/on/one?way=other"
            good: list[dict[str, Any]] = [
                {"machines": [one, two]},
                {"machines": [one, two], "webhooks": {"w": {"timeout": "7s", "headers": {"X-N": "1"}}}},
                {"machines": [one | {"scale_up_endpoint": other}, two | {"price_per_hour": 0.5}]},
                {"machines": [two, one], "deadlines": {"backoff": {"first": "500ms", "most": "1s"}}},
                {"machines": [one]},
            ]
            bad: list[str | dict[str, Any]] = [
                "machines: [",
                {"machines": []},
                {"machines": [one, one]},
                {"machines": [one, two | {"gpu_count": 0}]},
                {"machines": [one, {"name": "two"}]},
                {"machines": [one | {"scale_up_endpoint": "power/on"}, two]},
                {"machines": [one | {"webhook": "nobody"}, two]},
                {"machines": [one, two], "webhooks": {"w": {"auth": {"bearer": {"secret": SECRET}}}}},
            ]
            mounted = Mounted(tmp_path)
            base = merged({key: value for key, value in QUICK.items() if key != "join"}, SWITCHED)
            mounted.put(json.dumps(merged(base, good[0])))

            def again() -> Loaded:
                try:
                    return load(str(mounted.path), {})
                except ConfigError as error:
                    raise Ends(2, *str(error).splitlines()) from error

            now, loaded = Hurried(), again()
            connection = await make_connection(stage.kubeconfig, {}, now)
            program = await prepare(
                loaded, connection, make_provider(loaded.settings, now), now, identity="life"
            )
            reload = Reload(program, again, sleep=now.sleep)
            task = asyncio.create_task(program.run(None))

            async def bound(pod: str) -> Any:
                return (await stage.pods())[pod]["spec"].get("nodeName")

            async def all_off() -> bool:
                return set(power.powers.values()) == {"off"}

            try:
                for n in range(100):
                    wrong = rng.random() < 0.5
                    text = rng.choice(bad) if wrong else rng.choice(good)
                    shown = text if isinstance(text, str) else json.dumps(merged(base, text))
                    mounted.put(f"{shown}\n# {n}\n")
                    assert await reload.look() == (REFUSED if wrong else APPLIED), (n, text)
                    if n % 20 == 0:
                        await stage.pod(f"p{n}", 1)
                    if n % 20 == 12:
                        await until("it is bound", lambda n=n: bound(f"p{n - 12}"), within=60)
                        await stage.delete(f"/api/v1/namespaces/default/pods/p{n - 12}")
                    assert rack.broken == []
                    await asyncio.sleep(0.02)
                mounted.put(json.dumps(merged(base, good[0])))
                assert await reload.look() == APPLIED
                await until("everything is off", all_off, within=60)
                assert not task.done()
                assert 1 <= len(power.keys(True)) <= 5  # one wish for each pod at most
                assert rack.broken == []
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await connection.close()
