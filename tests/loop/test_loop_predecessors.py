"""People come as they are: each predecessor's configuration drives machines from a pending pod to nothing again.

Each begins with one of the predecessor's own machines running, which is foreign until it is taken over by command.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.cli.adopting import _adopt
from controller.config.load import Loaded
from controller.sandbox.demo.stage import Stage
from tests.loop import predecessors as past
from tests.loop.acting import until
from tests.loop.lives import Life

pytestmark = pytest.mark.life


async def carries_a_pod(life: Life, stage: Stage, gpus: int, **spec: Any) -> dict[str, Any]:
    """From pending to running on a machine of ours; its Node."""
    await stage.pod("train", gpus, **spec)
    await life.runs()
    pod = (await stage.pods())["train"]
    return await past.node(stage, pod["spec"]["nodeName"])


async def is_taken_over(life: Life, stage: Stage, settings: Loaded, project: str, old: past.Old) -> None:
    """By command, while the controller runs: nothing by itself, one with --apply, and then it is ours to remove."""
    for apply in (False, True):
        rows = await _adopt(project, settings, stage.kubeconfig, apply)
        assert [row["because"] for row in rows if row["instance_id"] == old.id] == [""]
        known = {m.instance_id for m in life.program.fleet.machines()}
        assert apply or old.id not in known

    async def followed() -> bool:
        return any(m.instance_id == old.id for m in life.program.fleet.machines())

    await until("the running controller follows it", followed)
    life.strangers.pop(old.id)
    disks = [v["id"] for v in (await stage.bill())["volumes"] if v.get("instance_id") == old.id]
    for disk in disks:
        life.strangers.pop(disk, None)


async def test_the_python_providers_configuration_drives_machines_and_takes_over_its_own() -> None:
    pair = {"supported_os": {"1V100.6V": ["ubuntu-24.04-cuda-12.8-open-docker"]}}
    async with past.arena("gpu-workers-", "verda://{id}", pair) as stage:
        script = await past.script_in_the_account(stage)
        old = past.Old(stage)
        await old.plant(
            "gpu-workers-1a2b3c4d", "Autoscaler node for gpu-workers", "1V100.6V", "FIN-03",
            "ubuntu-24.04-cuda-12.8-open-docker",
        )  # fmt: skip
        await old.registered()
        settings = past.loaded(stage, {}, text=past.CA_VERDA.replace(past.SCRIPT, script))
        assert settings.dialect == "ca-verda"
        async with past.running(stage, settings) as life:
            await stage.pod("before", 1)  # the old machine, foreign as it is, has room for this one
            await life.runs("before")
            node = await carries_a_pod(life, stage, 1, nodeSelector={"node-role.kubernetes.io/gpu": "true"})
            assert node["metadata"]["labels"]["verda.com/gpu"] == "v100"
            assert len(life.posts) == 1
            assert old.id in {i["id"] for i in (await stage.bill())["instances"]}
            await is_taken_over(life, stage, settings, "ca-verda", old)
            await past.ready(life, 2)
            await stage.delete("/api/v1/namespaces/default/pods/before")
            await life.end()
            assert len(life.posts) == 1


async def test_the_go_providers_configuration_drives_machines_and_takes_over_its_own() -> None:
    pair = {"supported_os": {"1A100.22V": ["ubuntu-24.04-cuda-12.8-open-docker"]}}
    async with past.arena("gpu-nodes-", "datacrunch://{id}", pair) as stage:
        old = past.Old(stage)
        await old.plant(
            "gpu-nodes-5b3f0c9d1e2a4567",
            "gpu-nodes",
            "1A100.22V",
            "FIN-01",
            "ubuntu-24.04-cuda-12.8-open-docker",
        )
        await old.registered()
        environ = {"DATACRUNCH_CLUSTER_CONFIG_JSON": past.DATACRUNCH}
        settings = past.loaded(stage, environ, flags=past.DATACRUNCH_FLAGS)
        assert settings.dialect == "datacrunch"
        stage.cluster.settings.change({"gpus_sliced": {"*gpu-nodes-*": 7}})
        async with past.running(stage, settings) as life:
            tolerations = [{"key": "gpu-node", "operator": "Exists", "effect": "NoSchedule"}]
            node = await carries_a_pod(
                life, stage, 7, tolerations=tolerations, nodeSelector={"nodepool": "gpu"}
            )
            assert {"key": "gpu-node", "effect": "NoSchedule"} in node["spec"]["taints"]
            assert len(life.posts) == 1
            await is_taken_over(life, stage, settings, "datacrunch", old)
            await life.end()
            assert len(life.posts) == 1


async def test_verdas_own_providers_configuration_drives_machines_and_takes_over_its_own() -> None:
    pair = {"supported_os": {"1A6000.10V": ["ubuntu-24.04-cuda-12.8-open-docker"]}}
    hostname = "hostname-prefix-here-vm-fin-02-1a2b3c4d"
    async with past.arena("hostname-prefix-here-vm-", "verdacloud://FIN-02/{hostname}", pair) as stage:
        old = past.Old(stage)
        await old.plant(hostname, "gpu-workers", "1A6000.10V", "FIN-02", "ubuntu-24.04-cuda-12.8-open-docker")
        await old.registered()
        settings = past.loaded(stage, past.verdacloud(), flags=past.VERDACLOUD_FLAGS)
        assert settings.dialect == "verdacloud"
        async with past.running(stage, settings, past.VERDACLOUD_JOIN) as life:
            tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
            node = await carries_a_pod(
                life, stage, 1, tolerations=tolerations, nodeSelector={"verda.com/node-group": "gpu-workers", "team": "ai"}
            )  # fmt: skip
            assert node["metadata"]["labels"]["env"] == "production"
            await is_taken_over(life, stage, settings, "verdacloud", old)
            await life.end()
            assert len(life.posts) == 1


async def test_machines_of_a_predecessor_that_are_not_taken_over_are_left_alone() -> None:
    async with past.arena("gpu-workers-", "verda://{id}", {}) as stage:
        script = await past.script_in_the_account(stage)
        old = past.Old(stage)
        await old.plant("gpu-workers-1a2b3c4d", "Autoscaler node for gpu-workers", "1V100.6V", "FIN-03",
                        "ubuntu-24.04-cuda-12.6-docker")  # fmt: skip
        await old.registered()
        settings = past.loaded(stage, {}, text=past.CA_VERDA.replace(past.SCRIPT, script))
        async with past.running(stage, settings) as life:
            await asyncio.sleep(1.5)
            assert life.posts == []
            assert not life.program.fleet.machines()
            assert old.id in {i["id"] for i in (await stage.bill())["instances"]}
