"""Machines behind a real power server: the whole controller over HTTP, with faults, proofs and certificates.

Before each call that switches a machine off, when it reaches the server, the cluster is asked for pods on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.app.parts import make_connection, make_provider
from controller.app.program import Program
from controller.app.start import prepare
from controller.config.load import load
from controller.domain.switching import Power
from controller.sandbox.demo.stage import QUICK, Stage, merged
from tests.loop.acting import until
from tests.loop.lives import Hurried
from tests.loop.racks import Rack
from tests.power_server import Authority, PowerServer

pytestmark = pytest.mark.life

SECRET = "hunter2-of-the-power-server"
SETTINGS: dict[str, Any] = {
    "cluster_id": "home",
    "lease": {"duration": "6s", "renew": "2s", "spend_within": "5s"},
    "timing": {"tick": "300ms", "poll_cloud": "300ms", "poll_cloud_busy": "300ms"},
    "deadlines": {"gpu_settle": "100ms", "drain_pause": "100ms", "backoff": {"first": "1s", "most": "2s"}},
    "scale_down": {"cooldown": "500ms"},
}


@asynccontextmanager
async def running(
    power: PowerServer, gpus: Mapping[str, int], webhook: Mapping[str, Any], **machine: Any
) -> AsyncIterator[tuple[Stage, Program]]:
    async with Stage(cluster={"speed": 200}, boots=False) as stage:
        rack = Rack(stage, power, gpus)
        await rack.register()
        await stage.create(
            "/api/v1/namespaces/gpu-autoscaler/secrets",
            {"kind": "Secret", "metadata": {"name": "power"}, "stringData": {"key": SECRET}},
        )
        machines = [
            {
                "name": name,
                "gpu_count": count,
                "scale_up_endpoint": f"{power.url}/on/{name}",
                "scale_down_endpoint": f"{power.url}/off/{name}",
                "min_on": "0s",
                **machine,
            }
            for name, count in gpus.items()
        ]
        settings = merged(SETTINGS, {"machines": machines, "webhooks": {"power": dict(webhook)}})
        quick = {key: value for key, value in QUICK.items() if key != "join"}
        loaded = load("life.yaml", {}, text=json.dumps(merged(quick, settings)))
        now = Hurried()
        connection = await make_connection(stage.kubeconfig, {}, now)
        cloud = make_provider(loaded.settings, now)
        program = await prepare(loaded, connection, cloud, now, identity="life")
        task = asyncio.create_task(program.run(None))
        try:
            yield stage, program
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await connection.close()
            told = [json.dumps(program.loop.status()), program.metrics.text().decode()]
            told += [
                json.dumps(await stage.get(f"/api/v1/{kind}")) for kind in ("events", "configmaps", "nodes")
            ]
            assert not [text for text in told if SECRET in text]
        assert rack.broken == []


async def bound(stage: Stage, name: str, to: str) -> None:
    async def check() -> bool:
        return bool((await stage.pods())[name]["spec"].get("nodeName") == to)

    await until(f"{name} is bound to {to}", check, within=60)


async def power_of(program: Program, name: str, power: Power) -> None:
    async def check() -> bool:
        record = program.ledger.switched.get(name)
        return record is not None and record.power is power

    await until(f"{name} is {power.value}", check, within=60)


@pytest.mark.parametrize("faults", [[500, 503, "reset"], ["hang", 500], ["slow"], [429], ["twice"]])
async def test_one_demand_is_one_wish_whatever_the_server_does(
    faults: list[int | str], caplog: pytest.LogCaptureFixture
) -> None:
    with PowerServer(token=SECRET) as power:
        power.faults = {"/on/small": list(faults), "/off/small": list(faults)}
        webhook = {
            "auth": {"bearer": {"secret": {"name": "power", "key": "key"}}},
            "timeout": "1s",
            "pause": "100ms",
        }
        async with running(power, {"small": 1, "large": 8}, webhook) as (stage, program):
            await power_of(program, "large", Power.OFF)
            await stage.pod("train", 1)
            await bound(stage, "train", "small")
            await power_of(program, "small", Power.ON)
            assert len(power.keys(True)) == 1
            await stage.delete("/api/v1/namespaces/default/pods/train")
            await power_of(program, "small", Power.FALLING)

            async def off() -> bool:
                return power.powers.get("small") == "off" and bool(program.ledger.switched["small"].acked_at)

            await until("it is off, and that was acknowledged", off)
            assert len(power.keys(False)) == 1
            assert {name for name, _, _ in power.effects} == {"small"}
            node = await stage.get("/api/v1/nodes/small")
            assert "gpu-autoscaler/draining" in [taint["key"] for taint in node["spec"]["taints"]]
    assert SECRET not in caplog.text


async def test_over_tls_with_a_signature_a_client_certificate_and_a_status(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    (tmp_path / "key").write_text(SECRET + "\n")
    with PowerServer(tls=authority.context(asks_for_client=True), signing=SECRET) as power:
        webhook = {
            "auth": {"hmac": {"key": {"file": str(tmp_path / "key")}, "timestamp_header": "X-Timestamp"}},
            "tls": {
                "ca": {"file": str(authority.folder / "ca.crt")},
                "certificate": {"file": str(authority.folder / "client.crt")},
                "key": {"file": str(authority.folder / "client.key")},
            },
            "body": '{"machine": "${machine}", "power": "${action}"}',
            "status": {"field": "power.state"},
        }
        status = f"{power.url}/status/one"
        async with running(power, {"one": 2}, webhook, status_endpoint=status) as (stage, program):
            await power_of(program, "one", Power.OFF)
            await stage.pod("train", 2)
            await bound(stage, "train", "one")
            assert json.loads(power.heard[0].body) == {"machine": "one", "power": "on"}
            assert power.effects[0][:2] == ("one", True)


async def test_an_acknowledgement_without_effect_ends_in_off_and_is_told() -> None:
    with PowerServer() as power:
        power.faults = {"/on/one": ["nothing"]}
        async with running(power, {"one": 1}, {}, on_within="3s") as (stage, program):
            await power_of(program, "one", Power.OFF)
            await stage.pod("train", 1)
            await power_of(program, "one", Power.FALLING)
            assert len(power.keys(True)) == 1

            async def told() -> bool:
                return "on_deadline" in json.dumps(await stage.get("/api/v1/events"))

            await until("it is told", told)
