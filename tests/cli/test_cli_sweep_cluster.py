"""`sweep` where a cluster can be asked: its ledger, its Lease and its pods have a say."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from controller.fleet.cleanup import Cleanup, Result
from controller.fleet.orphans import Found
from controller.sandbox.demo.stage import NAMESPACE, Stage
from tests.cli.test_cli_sweep import HOST, INTENT, MARKS, OTHER, Account

OTHERS = MARKS | {"gpuas-intent": OTHER}
KNOBS = {"speed": 500, "rate_limits": False}


class Here(Account):
    """The account of a stage whose cluster can be reached."""

    stage: Stage

    @property
    def environ(self) -> dict[str, str]:
        return {
            "VERDA_CLIENT_ID": "client",
            "VERDA_CLIENT_SECRET": "a-secret-that-must-not-show",
            "VERDA_BASE_URL": f"{self.stage.cloud_url}/v1",
            "KUBECONFIG": self.stage.kubeconfig,
            "HOME": str(self.home),
            "NO_PROXY": "*",
        }

    async def ledger(self, cluster_id: str = "home", *machines: dict[str, Any], text: str = "") -> None:
        book = {"version": 1, "cluster_id": cluster_id, "machines": list(machines)}
        await self.stage.create(
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            {
                "kind": "ConfigMap",
                "metadata": {"name": "gpu-autoscaler-ledger"},
                "data": {"ledger.json": text or json.dumps(book)},
            },
        )

    async def lease(self, holder: str = "replica_1") -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
        await self.stage.create(
            f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases",
            {"kind": "Lease", "metadata": {"name": "gpu-autoscaler"}, "spec": spec},
        )

    async def renew(self) -> None:
        """A controller that is alive."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpu-autoscaler"
        while True:
            await self.stage.patch(
                path, {"spec": {"renewTime": f"2026-11-18T10:00:00.{time.time_ns() % 10**6:06}Z"}}
            )
            await asyncio.sleep(0.02)


def record(intent: str = INTENT, phase: str = "ready", **more: Any) -> dict[str, Any]:
    return {
        "intent": intent, "name": f"home-a100-{intent}", "pool": "a100", "instance_type": "1A100.22V",
        "location": "FIN-01", "market": "on-demand", "phase": phase, **more,
    }  # fmt: skip


@pytest.fixture
async def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Here]:
    account = Here(tmp_path, monkeypatch, capsys)
    async with Stage(cloud=KNOBS, boots=False) as stage:
        account.stage = stage
        account.world, account.faults, account.state = stage.cloud, stage.cloud_faults, stage.cloud.state
        yield account


def plant(here: Here) -> dict[str, str]:
    return {
        "machine": here.machine(description=f"gpuas home {INTENT}", **MARKS),
        "script": here.script(f"gpuas-home-{INTENT}"),
        "other": here.machine(f"home-a100-{OTHER}", f"gpuas home {OTHER}", **OTHERS),
        "disk": here.disk(f"home-b200-{OTHER}", **OTHERS),
    }


async def test_what_the_ledger_knows_as_living_is_no_orphan(here: Here) -> None:
    planted = plant(here)
    await here.ledger("home", record(), record(OTHER, "tombstone"))
    await here.lease()  # of a controller that died
    _, listed, _ = await here.sweep()
    assert listed["cluster"] == "same"
    left = {row["id"]: row["why"] for row in listed["left_alone"]}
    assert "the ledger of its cluster knows its machine (ready)" in left[planted["machine"]]
    code, told, _ = await here.sweep(apply=True)
    assert code == 0, told
    things = here.things()
    assert things["instance"] == {planted["machine"]}
    assert things["script"] == {planted["script"]}
    assert things["volume"] == {here.state.instances[planted["machine"]].os_volume_id}


async def test_a_controller_that_is_alive_is_never_raced(here: Here) -> None:
    plant(here)
    await here.ledger("home")
    await here.lease("replica_7")
    before = here.things()
    renewing = asyncio.create_task(here.renew())
    try:
        code, told, _ = await here.sweep()
        assert code == 0
        assert any("replica_7 holds the Lease" in line for line in told["warnings"])
        for yes in (False, True):
            code, _, words = await here.sweep(apply=True, yes=yes)
            assert (code, here.things()) == (1, before)
            assert "controller replica_7 is alive" in words
    finally:
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing


@pytest.mark.parametrize(("gpus", "goes"), [(1, False), (0, True)])
async def test_a_machine_goes_when_the_last_look_at_its_pods_is_clean(
    here: Here, gpus: int, goes: bool
) -> None:
    planted = plant(here)
    await here.ledger("home")
    await here.stage.create("/api/v1/nodes", {"kind": "Node", "metadata": {"name": HOST}})
    await here.stage.pod("work", gpus, nodeName=HOST)
    _, listed, _ = await here.sweep()
    if not goes:
        why = {row["id"]: row["why"] for row in listed["left_alone"]}[planted["machine"]]
        assert why == "pods on it use its GPUs: default/work"
    code, told, _ = await here.sweep(apply=True)
    assert code == 0, told
    assert (planted["machine"] not in here.things()["instance"]) is goes
    assert (planted["script"] not in here.things()["script"]) is goes
    assert planted["other"] not in here.things()["instance"]


@pytest.mark.parametrize(("gpus", "goes"), [(1, False), (0, True)])
async def test_the_attached_disk_of_a_machine_that_nobody_knows_goes_when_no_pod_uses_that(
    here: Here, gpus: int, goes: bool
) -> None:
    machine = plant(here)["machine"]
    disk = here.state.instances[machine].os_volume_id
    await here.ledger("home")
    await here.stage.create("/api/v1/nodes", {"kind": "Node", "metadata": {"name": HOST}})
    await here.stage.pod("work", gpus, nodeName=HOST)
    del here.state.instances[machine]
    code, told, _ = await here.sweep(apply=True)
    assert code == 0, told
    assert (disk not in here.things()["volume"]) is goes
    if not goes:
        assert {row["id"]: row["why"] for row in told["left_alone"]}[
            disk
        ] == "pods on it use its GPUs: default/work"


async def test_a_pod_that_appears_before_the_delete_of_an_attached_disk_stops_that(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = plant(here)["machine"]
    disk = here.state.instances[machine].os_volume_id
    await here.ledger("home")
    await here.stage.create("/api/v1/nodes", {"kind": "Node", "metadata": {"name": HOST}})
    del here.state.instances[machine]
    remove = Cleanup.remove

    async def late(self: Cleanup, found: Iterable[Found], patience: float) -> list[Result]:
        await here.stage.pod("late", 1, nodeName=HOST)
        return await remove(self, found, patience)

    monkeypatch.setattr(Cleanup, "remove", late)
    code, told, _ = await here.sweep(apply=True)
    assert disk in here.things()["volume"]
    row = next(row for row in told["orphans"] if row["id"] == disk)
    assert (code, row["removed"]) == (1, False)
    assert "default/late" in row["message"]


async def test_a_pod_that_appears_before_the_delete_stops_it(here: Here) -> None:
    planted = plant(here)
    await here.ledger("home")
    await here.stage.create("/api/v1/nodes", {"kind": "Node", "metadata": {"name": HOST}})
    here.stage.cloud_faults.replace(
        [{"method": "GET", "path": f"/instances/{planted['machine']}", "fault": "delay_answer", "seconds": 1}]
    )
    sweeping = asyncio.create_task(here.sweep(apply=True, patience=300))
    await asyncio.sleep(0.5)
    await here.stage.pod("late", 1, nodeName=HOST)
    code, told, _ = await sweeping
    assert planted["machine"] in here.things()["instance"]
    row = next(row for row in told["orphans"] if row["id"] == planted["machine"])
    assert (code, row["removed"]) == (1, False)
    assert "default/late" in row["message"]


async def test_another_cluster_that_answers_proves_nothing_and_hinders_nothing(here: Here) -> None:
    planted = plant(here)
    await here.ledger("elsewhere", record())
    _, listed, _ = await here.sweep()
    assert listed["cluster"] == "other"
    assert any("elsewhere, not home" in line for line in listed["warnings"])
    code, _, _ = await here.sweep(apply=True)
    assert code == 0
    assert not set(planted.values()) & set().union(*here.things().values())


async def test_a_ledger_that_cannot_be_read_stops_the_removal(here: Here) -> None:
    plant(here)
    await here.ledger(text="{damaged")
    before = here.things()
    code, _, words = await here.sweep(apply=True)
    assert (code, here.things()) == (3, before)
    assert "its ledger is damaged" in words


async def test_the_cluster_without_a_ledger_is_known_by_its_derived_id(here: Here) -> None:
    kube_system = await here.stage.get("/api/v1/namespaces/kube-system")
    from controller.domain.names import default_cluster_id

    own = default_cluster_id(kube_system["metadata"]["uid"], NAMESPACE)
    one = here.machine(f"{own}-a100-{INTENT}", f"gpuas {own} {INTENT}")
    _, listed, _ = await here.sweep(cluster_id=own)
    assert listed["cluster"] == "same"
    assert one in {row["id"] for row in listed["orphans"]}
