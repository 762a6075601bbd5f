"""The controller is killed or stopped at the worst moments; afterwards there is exactly one machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.sandbox.demo.stage import Stage
from tests.loop.acting import CLOUD, CLUSTER, Process, followed, nothing_left, ordered, runs, until


async def _fired(stage: Stage) -> bool:
    return any(rule["fired"] for rule in stage.cloud_faults.shown()["faults"])


async def _killed_at(tmp_path: Path, fault: dict[str, Any], moment: str) -> dict[str, Any]:
    """Start, kill once the fault fired, start again, wait for the pod; the state of the account."""
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        stage.cloud_faults.replace([fault])
        process = Process(stage, tmp_path)
        await process.start()
        try:
            await stage.pod("train", 1)

            async def reached() -> bool:
                return await _fired(stage)

            await until(moment, reached)
            if fault["fault"] == "delay_answer" and fault["path"] == "/instances":
                await until("the create was accepted", ordered(stage, 1))
            await process.kill()
            stage.cloud_faults.replace([])
            await process.start()
            await until("the pod runs", runs(stage, "train"), within=60)
            await until("the controller follows the machine", followed(stage))
            state = await stage.bill()
        finally:
            await process.stop()
        assert "never-in-any-log" not in process.log
        return state


async def test_killed_after_the_create_was_accepted_there_is_exactly_one_machine(tmp_path: Path) -> None:
    fault = {"method": "POST", "path": "/instances", "fault": "delay_answer", "seconds": 60}
    state = await _killed_at(tmp_path, fault, "the create call is being answered")
    assert (state["creates"], len(state["instances"])) == (1, 1)


async def test_killed_right_before_the_create_call_there_is_exactly_one_machine(tmp_path: Path) -> None:
    fault = {"method": "POST", "path": "/instances", "fault": "hang", "seconds": 60}
    state = await _killed_at(tmp_path, fault, "the create call is on the wire and not accepted")
    assert (state["creates"], len(state["instances"])) == (1, 1)


async def test_killed_between_the_intent_and_the_create_call_there_is_exactly_one_machine(
    tmp_path: Path,
) -> None:
    fault = {"method": "POST", "path": "/scripts", "fault": "delay_answer", "seconds": 60}
    state = await _killed_at(tmp_path, fault, "the script is being uploaded")
    assert (state["creates"], len(state["instances"])) == (1, 1)


async def _machines(stage: Stage) -> list[dict[str, Any]]:
    return [
        node
        for node in (await stage.get("/api/v1/nodes"))["items"]
        if node["metadata"]["name"].startswith("home-a100-")
    ]


async def test_stopped_while_a_machine_boots_the_promise_goes_on_and_nothing_is_bought_twice(
    tmp_path: Path,
) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER | {"speed": 20}) as stage:
        process = Process(stage, tmp_path)
        await process.start()
        try:
            await stage.pod("train", 1)
            await until("a machine was ordered", ordered(stage, 1))
            assert await process.stop() == 0
            await process.start()
            await until("the pod runs", runs(stage, "train"), within=60)
            assert (await stage.bill())["creates"] == 1
            assert await process.stop() == 0
        finally:
            await process.stop()


async def test_stopped_while_a_machine_cools_down_the_timer_goes_on(tmp_path: Path) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        process = Process(stage, tmp_path, {"scale_down": {"cooldown": "15s"}})
        await process.start()

        async def idle_since() -> str:
            nodes = await _machines(stage)
            notes = nodes[0]["metadata"].get("annotations", {}) if nodes else {}
            return str(notes.get("gpu-autoscaler/idle-since", ""))

        try:
            await stage.pod("train", 1, run_for=20)
            before = await until("the machine is idle", idle_since)
            assert await process.stop() == 0
            await process.start()
            await until("it is gone, with disk and script", nothing_left(stage), within=60)
            assert (await stage.bill())["creates"] == 1
            log = process.log
            assert await process.stop() == 0
        finally:
            await process.stop()
        clock = before[11:19]
        assert f"idle since {clock}" in log
        assert "longer than scale_down.cooldown (15 s)" in log


async def test_the_lease_is_given_back_at_the_end(tmp_path: Path) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        process = Process(stage, tmp_path)
        await process.start()
        path = "/apis/coordination.k8s.io/v1/namespaces/gpu-autoscaler/leases/gpu-autoscaler"

        async def holder() -> str:
            return str((await stage.get(path)).get("spec", {}).get("holderIdentity") or "")

        try:
            await until("the lease is held", holder)
        finally:
            code = await process.stop()
        assert (code, await holder()) == (0, "")
