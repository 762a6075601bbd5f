"""Where it listens, and for whom a replica waits."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from controller.app import program as program_module
from controller.app.exits import UNREACHABLE, Ends
from controller.sandbox.demo.stage import NAMESPACE, Stage

SETTINGS = {
    "cluster_id": "home",
    "pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 1, "join": "k3s"}],
    "lease": {"duration": "3s", "renew": "500ms", "spend_within": "2s"},
}


async def _lead(stage: Stage, holder: str) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600}
    await stage.create(
        f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
        {"kind": "Lease", "metadata": {"name": "gpu-autoscaler"}, "spec": spec},
    )


async def test_a_replica_says_once_for_whom_it_waits_and_once_names_the_holder(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpu_autoscaler")
    monkeypatch.setattr(program_module, "ONCE_PATIENCE", 4.0)
    async with Stage(boots=False) as stage:
        await _lead(stage, "the-other_1")
        program = await stage.program(SETTINGS)
        with pytest.raises(Ends) as ended:
            await program.once()
        assert ended.value.code == UNREACHABLE
        assert ended.value.lines[-1] == "nothing was decided: the-other_1 holds the lease"
        told = [each for each in caplog.records if each.message == "waiting for the lease"]
        assert [each.__dict__["holder"] for each in told] == ["the-other_1"]


async def test_the_address_is_logged_when_any_port_will_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpu_autoscaler")
    async with Stage(boots=False) as stage:
        program = await stage.program(SETTINGS)
        running = asyncio.create_task(program.run("127.0.0.1:0"))
        async with asyncio.timeout(20):
            while not program.server.address:  # noqa: ASYNC110  (nothing tells of it)
                await asyncio.sleep(0.05)
        told = [each for each in caplog.records if each.message == "listening"]
        assert re.fullmatch(r"127\.0\.0\.1:[1-9][0-9]*", told[0].__dict__["address"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
