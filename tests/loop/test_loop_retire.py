"""`retire`: the command beside a running controller, until nothing is left in the account and in the cluster."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from controller.sandbox.demo.stage import Stage
from tests.cli.commands import cli
from tests.loop.acting import CLOUD, CLUSTER, nothing_left, runs, until
from tests.loop.test_loop_outcomes import running

ONE = {"pools": [{"name": "a100", "instance_types": ["1A100.22V"], "max": 3, "min": 1}]}


def environ(stage: Stage, home: Path) -> dict[str, str]:
    return {"KUBECONFIG": stage.kubeconfig, "HOME": str(home), "NO_PROXY": "*"}


@pytest.mark.life
@pytest.mark.parametrize("how", [(), ("--force",)])
async def test_everything_goes_although_it_is_used_and_is_wanted_again_only_when_that_is_said(
    how: tuple[str, ...], tmp_path: Path
) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, ONE) as program:
        await stage.pod("train", 1)
        notes = {} if how else {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
        await stage.patch("/api/v1/namespaces/default/pods/train", {"metadata": {"annotations": notes}})
        await until("the pod runs", runs(stage, "train"))
        code, shown, told = await cli(
            "retire", "--all", "--wait", "--json", *how, env=environ(stage, tmp_path), within=90
        )
        assert code == 0, (shown, told)
        assert json.loads(shown)["left"] == []
        await until("nothing is left", nothing_left(stage))
        creates = (await stage.bill())["creates"]
        await stage.pod("more", 1)

        async def told_why() -> bool:
            why = program.loop.plan.pods.get("default/more")
            return why is not None and why.code.value == "retired"

        await until("the pod hears why nothing is bought", told_why)
        await asyncio.sleep(1)
        assert (await stage.bill())["creates"] == creates
        code, shown, told = await cli("retire", "--undo", env=environ(stage, tmp_path))
        assert code == 0, told
        await until("it runs", runs(stage, "more"), within=60)


@pytest.mark.life
async def test_what_keeps_a_machine_is_named_when_the_time_is_over(tmp_path: Path) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER) as stage, running(stage, ONE):
        await stage.pod("train", 1)
        await until("the pod runs", runs(stage, "train"))
        words = ("retire", "--all", "--wait", "--timeout", "20")
        code, shown, told = await cli(*words, env=environ(stage, tmp_path), within=90)
        assert code == 1, (shown, told)
        assert "pod default/train has no controller and would be lost (--force evicts it, too)" in shown
        assert "are left after 20 s" in told
        assert await runs(stage, "train")()


async def test_where_no_controller_lives_that_is_said_and_the_wish_stands(tmp_path: Path) -> None:
    async with Stage(cloud=CLOUD, cluster=CLUSTER, boots=False) as stage:
        env = environ(stage, tmp_path)
        code, _, told = await cli("retire", "--all", env=env)
        assert (code, "no controller has led there yet" in told) == (1, True)
        path = "/api/v1/namespaces/gpu-autoscaler/configmaps"
        await stage.create(path, {"kind": "ConfigMap", "metadata": {"name": "gpu-autoscaler-status"}})
        code, _, told = await cli("retire", "--all", env=env)
        assert (code, "sweep --cluster-id" in told) == (1, True)
        found = await stage.get(f"{path}/gpu-autoscaler-status")
        assert found["metadata"]["annotations"] == {"gpu-autoscaler/retire": "all"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "expected either --all or --undo"),
        (("--all", "--undo"), "expected either --all or --undo"),
        (("--all", "--after-work", "--force"), "--force: expected without --after-work"),
        (("--undo", "--wait"), "--undo: expected alone"),
    ],
)
async def test_a_command_line_that_makes_no_sense_is_one_line(
    words: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    code, _, told = await cli("retire", *words, env={"HOME": str(tmp_path)})
    assert (code, len(told.splitlines())) == (2, 1)
    assert expected in told


async def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    code, _, told = await cli("retire", "--all", env={"HOME": str(tmp_path)})
    assert (code, "no cluster was asked" in told) == (3, True)
