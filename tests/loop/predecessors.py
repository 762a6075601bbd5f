"""Predecessors' configurations as their projects document them, and a life of machines under each of them.

Only what the documentation leaves open is filled in: ids of keys and scripts. The settings of the tests' own, which make
waits short, come by variables, as a user would set them beside a foreign file.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import yaml

from controller.app.parts import make_connection, make_provider
from controller.app.start import prepare
from controller.config.dialects.flags import parse_flags
from controller.config.load import Loaded, load
from controller.domain.machine import Phase
from controller.domain.resources import GPU
from controller.report.plan_json import plan_lines
from controller.sandbox.cluster.join import Defaults
from controller.sandbox.demo.stage import NAMESPACE, QUICK, Stage, merged
from tests.loop.acting import until
from tests.loop.lives import CLOUD, CLUSTER, SECRET, SETTINGS, Hurried, Life

SSH_KEY, SCRIPT = "your-ssh-key-id", "your-startup-script-id"
CA_VERDA = """\
node_groups:
  gpu-workers:
    instance_type: "1V100.6V"
    image: "ubuntu-24.04-cuda-12.8-open-docker"
    min_size: 0
    max_size: 10
    location: "FIN-03"
    ssh_key_ids: ["your-ssh-key-id"]
    startup_script_id: "your-startup-script-id"
    hourly_price: 0.60
    contract: "PAY_AS_YOU_GO"
    pricing: "FIXED_PRICE"
    labels:
      verda.com/gpu: "v100"
      node-role.kubernetes.io/gpu: "true"
"""
DATACRUNCH = """\
{
  "node_configs": {
    "gpu-nodes": {
      "image_type": "ubuntu-24.04-cuda-12.8-open-docker",
      "ssh_key_ids": ["your-ssh-key-id"],
      "instance_option": "prefer_spot",
      "disk_size_gb": 100,
      "override_num_gpus": 7,
      "pricing_option": "dynamic",
      "startup_script_base64": "IyEvYmluL2Jhc2gKdHJ1ZQo=",
      "taints": [{"key": "gpu-node", "effect": "NoSchedule"}],
      "labels": {"nodepool": "gpu", "nvidia.com/mig.config": "all-1g.10gb",}
    }
  }
}
"""
DATACRUNCH_FLAGS = (
    "--v=4", "--logtostderr=true", "--stderrthreshold=INFO", "--cloud-provider=datacrunch",
    "--nodes=0:3:1A100.22V:FIN-01:gpu-nodes",
)  # fmt: skip
JOIN_SCRIPT = """\
#!/usr/bin/env bash
set -euo pipefail
kubeadm join "{{.MasterIP}}:{{.MasterPort}}" --token "{{.JoinToken}}" \\
  --discovery-token-ca-cert-hash "{{.JoinHashFull}}" --node-name "$(hostname)"
"""
VERDACLOUD: dict[str, Any] = {
    "image": {"gpu": "ubuntu-24.04-cuda-12.8-open-docker", "cpu": "ubuntu-24.04"},
    "sshKeyIDs": [SSH_KEY],
    "billingConfig": {"price": "FIXED_PRICE", "contract": "PAY_AS_YOU_GO"},
    "debug": False,
    "availableLocations": ["FIN-02", "FIN-03"],
    "osVolumeSize": 100,
    "labels": ["env=production"],
    "startupScript": base64.b64encode(JOIN_SCRIPT.encode()).decode(),
    "taints": [],
    "reapOrphanNodes": False,
    "reapOrphanNodesAfterCycles": 3,
    "groups": {
        "gpu-workers": {
            "labels": ["hardware=gpu", "team=ai"],
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            "billingConfig": {"price": "FIXED_PRICE", "contract": "SPOT"},
            "osVolumeSize": 200,
            "availableLocations": ["FIN-02"],
        }
    },
}
VERDACLOUD_FLAGS = (
    "--v=4", "--stderrthreshold=info", "--cloud-provider=verdacloud", "--skip-nodes-with-local-storage=false",
    "--expander=least-waste", "--nodes=0:5:1A6000.10V:gpu-workers:hostname-prefix-here",
    "--scale-down-delay-after-delete=10s", "--scale-down-delay-after-failure=3m", "--balance-similar-node-groups",
    "--skip-nodes-with-system-pods=false",
)  # fmt: skip
VERDACLOUD_JOIN = {
    "MASTER_IP": "10.0.0.10",
    "MASTER_PORT": "6443",
    "JOIN_TOKEN": "abcdef.0123456789abcdef",
    "JOIN_HASH_FULL": "sha256:" + "0" * 64,
}


def verdacloud() -> dict[str, str]:
    return {
        "VERDA_CLUSTER_CONFIG": base64.b64encode(json.dumps(VERDACLOUD).encode()).decode()
    } | VERDACLOUD_JOIN


def quick(more: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The short waits of the tests, as variables beside a foreign configuration."""
    left_out = ("pools", "join", "namespace")
    # The machine that runs the tests may have other work: what is tried here is not who leads, and not time-outs.
    patient = {
        "verda": {"connect_timeout": "10s", "read_timeout": "20s"},
        "lease": {"duration": "90s", "renew": "10s", "spend_within": "60s"},
    }
    settings = merged(merged(merged(QUICK, SETTINGS), patient), more or {})
    return {
        f"GPU_AUTOSCALER_{key.upper()}": value if isinstance(value, str) else json.dumps(value)
        for key, value in settings.items()
        if key not in left_out
    } | {"POD_NAMESPACE": NAMESPACE}


class Old:
    """A predecessor's machine: made by it, running, and its Node registered."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.id = ""
        self.hostname = ""

    async def plant(self, hostname: str, description: str, kind: str, location: str, image: str) -> None:
        body = {
            "hostname": hostname, "description": description, "instance_type": kind, "image": image,
            "location_code": location, "running": True,
        }  # fmt: skip
        await self.stage.tell_cloud("POST", "instances", body)
        self.hostname = hostname
        self.id = next(i["id"] for i in (await self.stage.bill())["instances"] if i["hostname"] == hostname)

    async def registered(self) -> None:
        """As one that has been at work for long: its GPUs are usable, and nothing about its Node changes any more."""

        async def check() -> bool:
            nodes = (await self.stage.get("/api/v1/nodes"))["items"]
            found = [one for one in nodes if one["metadata"]["name"] == self.hostname]
            return any(
                GPU in one["status"].get("allocatable", {}) and not one["spec"].get("taints") for one in found
            )

        await until(f"{self.hostname} is registered", check)


@asynccontextmanager
async def arena(prefix: str, provider_id: str, cloud: Mapping[str, Any]) -> AsyncIterator[Stage]:
    """Both worlds. Machines whose hostname begins so join as the predecessor's scripts let them."""
    defaults = Defaults([{"hostname_prefix": prefix, "provider_id": provider_id, "labels": {}}])
    settings = {"any_ssh_key": True} | CLOUD | dict(cloud)
    async with Stage(cloud=settings, cluster=CLUSTER, defaults=defaults) as stage:
        yield stage


async def script_in_the_account(stage: Stage) -> str:
    """A script that joins; its id stands in the configuration."""
    line = '# gpuas-join {"provider_id": "verda://{id}"}'
    made = await stage.tell_cloud(
        "POST",
        "events",
        {
            "event": "plant",
            "things": [{"script": {"name": "join-k3s", "script": f"#!/bin/bash\n{line}\ntrue\n"}}],
        },
    )
    del made
    (script,) = (await stage.bill())["scripts"]
    return str(script["id"])


def loaded(
    stage: Stage, environ: Mapping[str, str], *, text: str | None = None, flags: Sequence[str] = ()
) -> Loaded:
    given = {
        "VERDA_CLIENT_ID": "life",
        "VERDA_CLIENT_SECRET": SECRET,
        "VERDA_BASE_URL": stage.cloud_url + "/v1",
        **quick(),
        **environ,
    }
    return load("config.yaml" if text is not None else None, given, text=text, flags=parse_flags(flags))


@asynccontextmanager
async def running(
    stage: Stage, settings: Loaded, environ: Mapping[str, str] | None = None
) -> AsyncIterator[Life]:
    now = Hurried()
    connection = await make_connection(stage.kubeconfig, {}, now)
    program = await prepare(
        settings,
        connection,
        make_provider(settings.settings, now),
        now,
        identity="life",
        environ=environ or {},
    )
    life = Life(stage, program)
    life.strangers = await life._everything()
    life.tap()
    task = asyncio.create_task(program.run(None))
    try:
        yield life
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await life.show_no_secret()
    assert life.wrong == []


async def would_buy(
    stage: Stage, settings: Loaded, gpus: int, environ: Mapping[str, str] | None = None, **spec: Any
) -> str:
    """What `run --dry-run --once` prints for such a pod; it orders, switches and writes nothing."""
    await stage.pod("asked", gpus, **spec)

    async def refused() -> bool:
        return bool((await stage.pods())["asked"]["status"].get("conditions"))

    await until("the scheduler has refused it", refused)
    before = await _marks_of_acts(stage)
    now = Hurried()
    connection = await make_connection(stage.kubeconfig, {}, now)
    cloud = make_provider(settings.settings, now)
    try:
        program = await prepare(
            settings, connection, cloud, now, identity="look", environ=environ or {}, dry_run=True
        )
        await program.once()
    finally:
        await connection.close()
        await cloud.close()
    after = await _marks_of_acts(stage)
    assert after == before, f"{after}\n{before}"
    await stage.delete("/api/v1/namespaces/default/pods/asked")
    return "\n".join(plan_lines(program.loop.plan, program.fleet.catalogue.currency))


async def _marks_of_acts(stage: Stage) -> list[Any]:
    """What any act would change: orders, machines, scripts, ConfigMaps, Leases, taints and labels of Nodes."""
    bill = await stage.bill()
    kept = (await stage.get("/api/v1/configmaps"))["items"]
    leases = (await stage.get("/apis/coordination.k8s.io/v1/leases"))["items"]
    nodes = (await stage.get("/api/v1/nodes"))["items"]
    return [
        bill["creates"],
        [[one["id"] for one in bill[part]] for part in ("instances", "scripts")],
        kept,
        [lease for lease in leases if lease["metadata"]["name"] == "gpu-autoscaler"],
        [(one["metadata"].get("labels"), one["spec"].get("taints")) for one in nodes],
    ]


async def node(stage: Stage, name: str) -> dict[str, Any]:
    return await stage.get(f"/api/v1/nodes/{name}")


async def ready(life: Life, count: int) -> None:
    async def check() -> bool:
        alive = [m for m in life.program.fleet.machines() if m.phase is not Phase.TOMBSTONE]
        return [m.phase for m in alive] == [Phase.READY] * count

    await until(f"{count} machines are ready", check)


def webhook(power: str, form: str) -> Loaded:
    """As its documentation has it, in variables or in the values of its chart; only the host is the test's."""
    asked = [("gpu-worker-1", 4), ("gpu-worker-2", 8)]
    if form == "helm":
        groups = [
            {"name": name, "gpuCount": gpus, "scaleUpEndpoint": f"{power}/{name}/start",
             "scaleDownEndpoint": f"{power}/{name}/stop"}
            for name, gpus in asked
        ]  # fmt: skip
        at_once = {f"GPU_AUTOSCALER_MACHINES__{n}__MIN_ON": "0s" for n in range(len(asked))}
        return load("values.yaml", quick() | at_once, text=yaml.safe_dump({"nodeGroups": groups}))
    environ = {
        f"GPU_NODE_{n}_{key}": value
        for n, (name, gpus) in enumerate(asked, start=1)
        for key, value in {
            "NAME": name,
            "GPU_COUNT": str(gpus),
            "SCALE_UP_ENDPOINT": f"{power}/{name}/start",
            "SCALE_DOWN_ENDPOINT": f"{power}/{name}/stop",
            "MIN_ON": "0s",  # the tests' own, as all that makes waits short
        }.items()
    }
    return load(None, quick() | environ)
