"""The outside fails for a while, or somebody else acts: the controller goes on and puts things right."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.domain.machine import Phase
from controller.sandbox.demo.stage import Stage
from tests.loop.acting import CLOUD, CLUSTER, nothing_left, pod_phase, runs, until
from tests.loop.test_loop_outcomes import running

pytestmark = pytest.mark.life

ONE = {"pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 3}]}


async def _one_ready(stage: Stage, program: Any) -> str:
    await stage.pod("train", 1)
    await until("the pod runs", runs(stage, "train"))

    async def ready() -> bool:
        return [machine.phase for machine in program.fleet.machines()] == [Phase.READY]

    await until("the machine is ready", ready)
    return str(program.fleet.machines()[0].name)


async def test_a_cloud_that_is_away_for_a_while_costs_one_machine_and_no_more() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, ONE) as program:

        async def started() -> bool:
            return program.loop.passes > 0

        await until("it decides", started)
        stage.cloud_faults.replace([{"path": "*", "fault": "lose_before", "times": 0}])
        await stage.pod("train", 1)

        async def told() -> bool:
            return any("cannot be read" in problem for problem in program.loop.problems())

        await until("the trouble is told", told)
        stage.cloud_faults.replace([])
        await until("the pod runs", runs(stage, "train"))
        assert (await stage.bill())["creates"] == 1

        async def recovered() -> bool:
            return not program.loop.problems()

        await until("the trouble is over", recovered)


async def test_an_api_server_that_is_away_for_a_while_is_found_again() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, ONE) as program:

        async def started() -> bool:
            return program.loop.passes > 0

        await until("it decides", started)
        stage.cluster_faults.replace([{"path": "/api*", "fault": "lose_before", "times": 0}])
        await stage.tell_cluster("POST", "disconnect", {})
        await asyncio.sleep(1)
        stage.cluster_faults.replace([])
        await stage.tell_cluster("POST", "compact", {})
        await stage.pod("train", 1)
        await until("the pod runs", runs(stage, "train"), within=60)
        assert (await stage.bill())["creates"] == 1


async def test_what_can_no_longer_be_watched_is_told_until_it_can() -> None:
    """A role that was edited: what is known grows old, and nothing else would say so."""
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, ONE) as program:

        async def started() -> bool:
            return program.loop.passes > 0

        async def told() -> bool:
            return any("jobs cannot be followed" in problem for problem in program.loop.problems())

        async def recovered() -> bool:
            return not program.loop.problems()

        await until("it decides", started)
        refusal = {
            "method": "GET",
            "path": "/apis/batch/v1/jobs",
            "fault": "answer",
            "status": 403,
            "times": 0,
        }
        stage.cluster_faults.replace([refusal])
        await stage.tell_cluster("POST", "disconnect", {})
        await until("the trouble is told", told)
        stage.cluster_faults.replace([])
        await until("the trouble is over", recovered, within=60)


async def test_a_machine_deleted_behind_our_back_is_replaced_and_its_node_removed() -> None:
    settings = {"market": "spot_only"}
    pools = {"pools": [ONE["pools"][0] | settings]}
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, pools) as program:
        name = await _one_ready(stage, program)
        await stage.tell_cloud("POST", "evict", {"hostname": name})

        async def ghost_is_gone() -> bool:
            nodes = (await stage.get("/api/v1/nodes"))["items"]
            return name not in [node["metadata"]["name"] for node in nodes]

        await until("the Node of the vanished machine is deleted", ghost_is_gone)
        await stage.delete("/api/v1/namespaces/default/pods/train")
        await stage.pod("again", 1)
        await until("the next pod runs on a new machine", runs(stage, "again"))
        state = await stage.bill()
        assert state["creates"] == 2
        assert name not in [instance["hostname"] for instance in state["instances"]]
        await stage.delete("/api/v1/namespaces/default/pods/again")
        await until("nothing is left of either", nothing_left(stage), within=60)


async def test_gpus_that_never_come_cost_one_replacement_elsewhere() -> None:
    deadlines = {"deadlines": {"gpu": "2s"}}
    pools = {"pools": [{"name": "a100", "instance_types": ["1A100.22V", "2A100.44V"], "max": 3}]}
    async with (
        Stage(cloud=CLOUD, cluster=CLUSTER | {"gpus_never": ["home-*"]}) as stage,
        running(stage, deadlines | pools) as program,
    ):
        await stage.pod("train", 1)

        async def replaced() -> bool:
            return bool((await stage.bill())["creates"] >= 2)

        await until("a second machine was ordered", replaced)
        await stage.tell_cluster("PUT", "settings", {"gpus_never": []})
        await until("the pod runs", runs(stage, "train"))

        async def first_is_gone() -> bool:
            return len((await stage.bill())["instances"]) == len(program.fleet.machines()) == 1

        await until("the first machine is gone", first_is_gone)
        assert await pod_phase(stage, "train") in ("Running", "Succeeded")


async def test_an_opt_in_startup_taint_is_lifted_and_does_not_keep_the_pod_away() -> None:
    pools = {"pools": [ONE["pools"][0] | {"startup_taint": True}]}
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, pools):
        await stage.pod("train", 1)
        await until("the pod runs", runs(stage, "train"))


async def test_a_machine_that_never_holds_its_pod_is_bought_twice_and_then_no_more() -> None:
    # The prediction says that this product fits; the nodes of this cluster never carry the label.
    wants = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    quick = ONE | {"scale_down": {"cooldown": "1s"}, "timing": {"tick": "200ms"}}
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, quick) as program:
        await stage.pod("train", 1, nodeSelector=wants)

        async def given_up() -> bool:
            why = program.loop.plan.pods.get("default/train")
            return why is not None and why.code.value == "prediction_wrong"

        await until("it is given up", given_up, within=60)
        await until("nothing is left", nothing_left(stage), within=60)
        await asyncio.sleep(2)
        assert (await stage.bill())["creates"] == 2


async def test_a_list_that_lags_for_longer_than_the_proof_takes_buys_nothing_twice() -> None:
    # The id is known, and the machine is there when it is read by that id.
    async with (
        Stage(cloud=CLOUD | {"list_lag_s": 8, "speed": 20}, cluster=CLUSTER) as stage,
        running(stage, ONE),
    ):
        await stage.pod("train", 1)
        await until("the pod runs", runs(stage, "train"))
        assert (await stage.bill())["creates"] == 1


async def test_empty_lists_buy_nothing_and_take_nothing_away() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, ONE) as program:
        name = await _one_ready(stage, program)
        empty = {
            "method": "GET",
            "path": "/instances",
            "fault": "answer",
            "status": 200,
            "body": [],
            "times": 0,
        }
        stage.cloud_faults.replace([empty])
        await asyncio.sleep(5)
        assert [machine.phase for machine in program.fleet.machines()] == [Phase.READY]
        stage.cloud_faults.replace([])
        await asyncio.sleep(1)
        state = await stage.bill()
        assert (state["creates"], [i["hostname"] for i in state["instances"]]) == (1, [name])


async def test_a_pause_that_stood_before_the_start_is_heeded_from_the_first_decision_on() -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        await stage.create(
            "/api/v1/namespaces/gpu-autoscaler/configmaps",
            {
                "kind": "ConfigMap",
                "metadata": {"name": "gpu-autoscaler-status", "annotations": {"gpu-autoscaler/pause": "all"}},
            },
        )
        await stage.pod("train", 1)
        async with running(stage, ONE) as program:

            async def decided() -> bool:
                why = program.loop.plan.pods.get("default/train")
                return why is not None and why.code.value == "paused"

            await until("it says that it is paused", decided)
            assert (await stage.bill())["creates"] == 0


async def test_a_missing_join_secret_is_named_and_bought_for_soon_after_it_is_there() -> None:
    secret = "/api/v1/namespaces/gpu-autoscaler/secrets"
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        await stage.delete(f"{secret}/join")
        async with running(stage, ONE) as program:
            await stage.pod("train", 1)

            async def named() -> bool:
                why = program.loop.plan.pods.get("default/train")
                return why is not None and why.code.value == "join_unprepared" and "join" in why.message

            await until("the Secret is named", named)
            assert (await stage.bill())["creates"] == 0
            await stage.create(
                secret, {"kind": "Secret", "metadata": {"name": "join"}, "stringData": {"token": "K10x::y"}}
            )
            await until("the pod runs", runs(stage, "train"))


async def test_a_ledger_emptied_by_hand_while_a_machine_boots_buys_nothing_twice() -> None:
    path = "/api/v1/namespaces/gpu-autoscaler/configmaps/gpu-autoscaler-ledger"
    async with Stage(cloud=CLOUD | {"speed": 40}, cluster=CLUSTER) as stage, running(stage, ONE):
        await stage.pod("train", 1)

        async def ordered() -> bool:
            return bool((await stage.bill())["creates"] == 1)

        await until("a machine is ordered", ordered)
        await stage.patch(path, {"data": {"ledger.json": '{"cluster_id": "home", "machines": []}'}})
        await stage.pod("more", 1)
        await until("both run", runs(stage, "train"))
        await until("both run", runs(stage, "more"))
        assert (await stage.bill())["creates"] == 2
        await stage.patch(path, {"data": None})
        await asyncio.sleep(2)
        assert (await stage.bill())["creates"] == 2


async def test_no_script_is_left_when_the_answer_to_the_order_was_lost() -> None:
    lost = {"method": "POST", "path": "/instances", "fault": "lose_before"}
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage:
        stage.cloud_faults.replace([lost])
        async with running(stage, ONE):
            await stage.pod("train", 1)
            await until("the pod runs", runs(stage, "train"))

            async def no_scripts() -> bool:
                return (await stage.bill())["scripts"] == []

            await until("no script is left", no_scripts, within=15)
