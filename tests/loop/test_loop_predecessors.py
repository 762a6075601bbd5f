"""People come as they are: each predecessor's configuration drives machines from a pending pod to nothing again.

Each begins with one of the predecessor's own machines running, which is foreign until it is taken over by command; then
it takes the first pod, and nothing is bought beside it. Machines that are switched are used as they are found.
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
from tests.loop.racks import Rack
from tests.power_server import PowerServer

pytestmark = pytest.mark.life


async def carries_a_pod(
    life: Life, stage: Stage, gpus: int, name: str = "train", **spec: Any
) -> dict[str, Any]:
    """From pending to running; the Node where it runs."""
    await stage.pod(name, gpus, **spec)
    await life.runs(name)
    pod = (await stage.pods())[name]
    return await past.node(stage, pod["spec"]["nodeName"])


async def is_left_alone(life: Life, old: past.Old) -> None:
    """It is foreign before anybody commands otherwise."""
    assert old.id in life.strangers
    assert not life.program.fleet.machines()


async def goes_back_to_nothing(life: Life, stage: Stage, *pods: str) -> None:
    """Every pod ends, and with them every machine, that of the predecessor too: no order was made beside it."""
    for pod in pods:
        await stage.delete(f"/api/v1/namespaces/default/pods/{pod}")
    await life.empty()
    assert len(life.posts) == 1


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


async def test_the_python_providers_configuration_takes_over_its_machine_and_drives_others() -> None:
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
        wanted = {"nodeSelector": {"node-role.kubernetes.io/gpu": "true"}}
        assert "launch 1V100.6V in FIN-03" in await past.would_buy(stage, settings, 1, **wanted)
        async with past.running(stage, settings) as life:
            await is_left_alone(life, old)
            await is_taken_over(life, stage, settings, "ca-verda", old)
            node = await carries_a_pod(life, stage, 1, "first", **wanted)
            assert node["metadata"]["name"] == old.hostname
            assert life.posts == []
            node = await carries_a_pod(life, stage, 1, **wanted)
            assert node["metadata"]["labels"]["verda.com/gpu"] == "v100"
            await past.ready(life, 2)
            await goes_back_to_nothing(life, stage, "first", "train")


async def test_the_go_providers_configuration_takes_over_its_machine_and_drives_others() -> None:
    pair = {"supported_os": {"1A100.22V": ["ubuntu-24.04-cuda-12.8-open-docker"]}}
    async with past.arena("gpu-nodes-", "datacrunch://{id}", pair) as stage:
        stage.cluster.settings.change({"gpus_sliced": {"*gpu-nodes-*": 7}})
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
        ours: dict[str, Any] = {
            "tolerations": [{"key": "gpu-node", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"nodepool": "gpu"},
        }
        assert "launch 1A100.22V in FIN-01" in await past.would_buy(stage, settings, 7, **ours)
        async with past.running(stage, settings) as life:
            await is_left_alone(life, old)
            await is_taken_over(life, stage, settings, "datacrunch", old)
            node = await carries_a_pod(life, stage, 7, "first", **ours)
            assert node["metadata"]["name"] == old.hostname
            assert life.posts == []
            node = await carries_a_pod(life, stage, 7, **ours)
            assert {"key": "gpu-node", "effect": "NoSchedule"} in node["spec"]["taints"]
            await goes_back_to_nothing(life, stage, "first", "train")


async def test_verdas_own_providers_configuration_takes_over_its_machine_and_drives_others() -> None:
    pair = {"supported_os": {"1A6000.10V": ["ubuntu-24.04-cuda-12.8-open-docker"]}}
    hostname = "hostname-prefix-here-vm-fin-02-1a2b3c4d"
    async with past.arena("hostname-prefix-here-vm-", "verdacloud://FIN-02/{hostname}", pair) as stage:
        old = past.Old(stage)
        await old.plant(hostname, "gpu-workers", "1A6000.10V", "FIN-02", "ubuntu-24.04-cuda-12.8-open-docker")
        await old.registered()
        settings = past.loaded(stage, past.verdacloud(), flags=past.VERDACLOUD_FLAGS)
        assert settings.dialect == "verdacloud"
        ours: dict[str, Any] = {
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"verda.com/node-group": "gpu-workers", "team": "ai"},
        }
        assert "launch 1A6000.10V in FIN-02" in await past.would_buy(
            stage, settings, 1, past.VERDACLOUD_JOIN, **ours
        )
        async with past.running(stage, settings, past.VERDACLOUD_JOIN) as life:
            await is_left_alone(life, old)
            await is_taken_over(life, stage, settings, "verdacloud", old)
            node = await carries_a_pod(life, stage, 1, "first", **ours)
            assert node["metadata"]["name"] == old.hostname
            assert life.posts == []
            node = await carries_a_pod(life, stage, 1, **ours)
            assert node["metadata"]["labels"]["env"] == "production"
            await goes_back_to_nothing(life, stage, "first", "train")


@pytest.mark.parametrize("form", ["variables", "helm"])
async def test_the_webhook_controllers_configuration_drives_its_machines_as_they_are(form: str) -> None:
    gpus = {"gpu-worker-1": 4, "gpu-worker-2": 8}
    with PowerServer() as power:
        async with Stage(cluster={"speed": 200}, boots=False) as stage:
            rack = Rack(stage, power, gpus)
            await rack.register(on=frozenset({"gpu-worker-1"}))
            settings = past.webhook(power.url, form)
            assert settings.dialect == ("webhook" if form == "helm" else "native")
            assert "gpu-worker-2" in await past.would_buy(stage, settings, 8)
            async with past.running(stage, settings) as life:
                await stage.pod("first", 4)
                await switched(life, stage, "first", "gpu-worker-1")
                assert power.heard == []  # what is on is used as it is
                await stage.pod("train", 8)
                await switched(life, stage, "train", "gpu-worker-2")
                (heard,) = power.heard
                assert (heard.method, heard.path, heard.body) == ("POST", "/gpu-worker-2/start", "{}")
                for pod in ("first", "train"):
                    await stage.delete(f"/api/v1/namespaces/default/pods/{pod}")

                async def all_off() -> bool:
                    return set(power.powers.values()) == {"off"}

                await until("everything is off", all_off)
                assert [len(power.keys(False, name)) for name in gpus] == [1, 1]
                assert [h.path for h in power.heard if h.path.endswith("start")] == ["/gpu-worker-2/start"]
            assert rack.broken == []


async def switched(life: Life, stage: Stage, pod: str, name: str) -> None:
    async def check() -> bool:
        return bool((await stage.pods())[pod]["spec"].get("nodeName") == name)

    await until(f"{pod} is bound to {name}", check)


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
