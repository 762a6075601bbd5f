"""Lost, quoted and odd answers, neighbours and strangers: one machine for one pod, nobody else's touched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controller.app.program import Program
from controller.sandbox.demo.stage import Stage, merged
from tests.loop.acting import CLOUD, CLUSTER, SETTINGS, nothing_left, runs, until

pytestmark = pytest.mark.life


@asynccontextmanager
async def running(
    stage: Stage, settings: Mapping[str, Any] | None = None, **more: Any
) -> AsyncIterator[Program]:
    program = await stage.program(merged(SETTINGS, settings or {}), **more)
    task = asyncio.create_task(program.run(None))
    try:
        yield program
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"fault": "lose_after"}, id="the connection is cut after the commit"),
        pytest.param({"fault": "lose_before"}, id="the connection is cut before anything happened"),
        pytest.param({"fault": "quoted"}, id="the id comes quoted"),
        pytest.param({"fault": "newline"}, id="the id is followed by a newline"),
        pytest.param({"fault": "answer_after", "status": 202, "body": ""}, id="the answer is empty"),
        pytest.param({"fault": "answer_after", "status": 500, "body": {"code": "server_error", "message": "oops"}},
                     id="a server error, and created all the same"),
        pytest.param({"fault": "answer_after", "status": 502, "body": "<html>Bad Gateway</html>"}, id="a proxy's page"),
    ],
)  # fmt: skip
async def test_an_odd_answer_to_the_create_call_leads_to_exactly_one_machine(fault: dict[str, Any]) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        stage.cloud_faults.replace([{"method": "POST", "path": "/instances", **fault}])
        async with running(stage):
            await stage.pod("train", 1)
            await until("the pod runs", runs(stage, "train"))
        state = await stage.bill()
        assert (state["creates"], len(state["instances"])) == (1, 1)


def _like(hostname: str, **more: Any) -> dict[str, Any]:
    return {
        "instance_type": "1A100.22V",
        "image": "ubuntu-24.04-cuda-12.8-open",
        "hostname": hostname,
        "description": "mine",
        "location_code": "FIN-01",
        "running": True,
        **more,
    }


STRANGERS = [
    _like("database"),
    _like("home-a100-aaaaaaaaaa"),
    _like("home-a100-bbbbbbbbbb", description="gpuas other bbbbbbbbbb"),
    _like("home-a100-cccccccccc", tags=[{"key": "gpuas-cluster", "value": "other"}]),
    _like("worker", description="gpuas home dddddddddd"),
    _like("home-a100-0000000000", tags=[{"key": "gpuas-cluster", "value": "home"}]),
]


async def test_machines_and_disks_of_strangers_are_never_touched() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER, boots=False) as stage:
        for stranger in STRANGERS:
            await stage.tell_cloud("POST", "instances", stranger)
        before = await stage.bill()
        async with running(stage, {"timing": {"poll_cloud": "200ms"}}) as program:

            async def looked() -> bool:
                return program.loop.passes > 6 and program.fleet.inventory.complete

            await until("some decisions were made", looked)
            assert program.fleet.machines() == ()
        after = await stage.bill()
        for part in ("instances", "volumes"):
            assert {thing["id"]: thing["status"] for thing in after[part]} == {
                thing["id"]: thing["status"] for thing in before[part]
            }


async def test_two_clusters_in_one_account_never_touch_each_others_machines() -> None:
    async with (
        Stage(cloud=CLOUD, cluster=CLUSTER, boots=False) as one,
        Stage(cluster=CLUSTER, boots=False, neighbour=one) as other,
    ):
        async with running(one), running(other, {"cluster_id": "away"}) as away:
            await one.pod("train", 1)
            await other.pod("train", 1)

            async def both() -> bool:
                return len((await one.bill())["instances"]) == 2

            await until("both ordered their machine", both)

            async def seen() -> bool:
                return len(away.fleet.machines()) == 1 and away.loop.passes > 10

            await until("each knows its own only", seen)
            state = await one.bill()
            names = sorted(instance["hostname"] for instance in state["instances"])
            assert [name.split("-a100-")[0] for name in names] == ["away", "home"]
            assert state["creates"] == 2
        assert len((await one.bill())["instances"]) == 2


async def test_a_refused_offer_leads_to_the_next_one_and_leaves_no_script() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        await stage.tell_cloud("PUT", "stock", [{"instance_type": "1A100.22V", "count": 0}])
        no = {"code": "service_unavailable", "message": "Not enough resources"}
        stage.cloud_faults.replace(
            [{"method": "POST", "path": "/instances", "fault": "answer", "status": 503, "body": no}]
        )
        async with running(stage, {"pools": [{"name": "a100", "gpu_models": ["A100 80GB"], "max": 2}]}):
            await stage.pod("train", 1)
            await until("the pod runs", runs(stage, "train"))
            state = await stage.bill()
            assert [instance["instance_type"] for instance in state["instances"]] == ["2A100.44V"]
            assert state["creates"] == 1
            await stage.delete("/api/v1/namespaces/default/pods/train")
            await until("everything is gone", nothing_left(stage), within=60)


async def test_an_asynchronous_failure_is_deleted_and_another_offer_is_taken() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        await stage.tell_cloud("PUT", "outcomes", [{"outcome": "no_capacity", "times": 1}])
        async with running(stage, {"pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 2}]}):
            await stage.pod("train", 1)
            await until("the pod runs", runs(stage, "train"))
        state = await stage.bill()
        assert state["creates"] == 2
        assert [i["status"] for i in state["instances"] if i["status"] == "running"] == ["running"]
