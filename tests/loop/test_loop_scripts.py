"""Startup scripts over real HTTP: a small quota is lived with, and a script may go right after the create."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.domain.reason import Reason
from controller.sandbox.demo.stage import Stage
from tests.loop.acting import CLOUD, CLUSTER, nothing_left, ordered, pod_phase, runs, until
from tests.loop.test_loop_outcomes import running

pytestmark = pytest.mark.life

QUICK = {"timing": {"catalogue": "500ms"}}


async def test_four_pods_run_although_the_account_takes_two_scripts_only() -> None:
    most = 0
    async with Stage(cloud=CLOUD | {"script_quota": 5}, cluster=CLUSTER) as stage:
        for number in range(3):
            await _foreign_script(stage, f"theirs-{number}")
        async with running(stage, QUICK) as program:
            told: set[Reason] = set()
            program.loop.on_plan.append(lambda plan: told.update(why.code for why in plan.pods.values()))
            for number in range(4):
                await stage.pod(f"p{number}", 1)

            async def all_run() -> bool:
                nonlocal most
                most = max(most, len((await stage.bill())["scripts"]))
                return all([await pod_phase(stage, f"p{n}") in ("Running", "Succeeded") for n in range(4)])

            await until("all four run", all_run, within=60)
        assert most <= 5
        assert Reason.LIMIT_SCRIPTS in told
        state = await stage.bill()
        assert state["creates"] <= 4  # fewer and larger ones hold more pods where a limit binds
        assert {script["name"] for script in state["scripts"]} == {"theirs-0", "theirs-1", "theirs-2"}


async def _foreign_script(stage: Stage, name: str) -> None:
    from controller.sandbox.cloud.texts import Script

    state = stage.cloud.state
    script = Script(state.new_id(), name, "#!/bin/bash\n", state.now)
    state.scripts[script.id] = script
    await asyncio.sleep(0)


@pytest.mark.parametrize("when", ["after_create", "after_join"])
async def test_the_script_goes_when_the_settings_say(when: str) -> None:
    join = {"join": {"k3s": {"delete_script": when}}}
    async with Stage(cloud=CLOUD | {"provisioning_s": 300}, cluster=CLUSTER) as stage, running(stage, join):
        await stage.pod("train", 1, run_for=60)
        await until("it is ordered", ordered(stage, 1))
        state: dict[str, Any] = {}

        async def script_gone() -> bool:
            nonlocal state
            state = await stage.bill()
            return not state["scripts"]

        await until("the script is gone", script_gone)
        booting = [one["status"] in ("ordered", "provisioning") for one in state["instances"]]
        assert booting == [when == "after_create"]
        await until("the pod runs", runs(stage, "train"))
        await until("nothing is left", nothing_left(stage))
