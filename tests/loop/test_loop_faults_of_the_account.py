"""Tokens, limits, evictions, money, quotas and a catalogue that changes: the account's own weather."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from controller.domain import names
from controller.domain.reason import Reason
from tests.config.test_config_credentials import Mount
from tests.loop.acting import until
from tests.loop.lives import SECRET, STRANGERS, Life, life

pytestmark = pytest.mark.life

SPOT = {
    "pools": [
        {"name": "a100", "instance_types": ["1A100.22V"], "locations": ["FIN-01"], "market": "spot_only", "max": 4}
    ]
}  # fmt: skip


# ---- credentials of another project


async def test_in_another_project_nothing_is_bought_and_nothing_removed(tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    mount.write(id="life", secret=SECRET)
    async with life(cloud={"projects": {"red": "red-client:red-secret-of-this-life"}}, mount=mount) as lived:
        lived.may_be_alive = 2
        await lived.in_use()
        mount.write(id="red-client", secret="red-secret-of-this-life")
        await lived.pod("next")

        async def told() -> bool:
            return await lived.code_of("next") == Reason.VANISHED.value

        await until("the pod is told", told)
        status = lived.program.loop.status()
        assert "credentials" in status["reports"]["project"]
        # That it is about every offer needs no row for each, renewed at every look. An order that was refused in
        # the moment between the new credentials and the doubt may have left rows that are not.
        assert [row for row in status["refusals"] if row["reason"] == Reason.VANISHED.value] == []
        for _ in range(30):  # ten times as long as it takes to believe that a machine vanished
            await asyncio.sleep(0.2)
            assert [m.phase.value for m in lived.program.fleet.machines()] == ["ready"]
        red = {one["project"]: one for one in await lived.stage.tell_cloud("GET", "projects", None)}["red"]
        assert red["creates"] == 0
        mount.write(id="life", secret=SECRET)
        await lived.runs("next")
        assert (await lived.stage.bill())["creates"] == 2
        await lived.stage.delete("/api/v1/namespaces/default/pods/next")
        await lived.end()


async def test_a_machine_with_our_cluster_id_in_another_project_is_not_ours(tmp_path: Path) -> None:
    """Production and staging, each with a project of its own, may both be called home."""
    mount = Mount(tmp_path)
    mount.write(id="life", secret=SECRET)
    async with life(cloud={"projects": {"red": "red-client:red-secret-of-this-life"}}, mount=mount) as lived:
        lived.may_be_alive = 2
        await lived.in_use()
        (ours,) = lived.program.fleet.machines()
        await lived.api("POST", "/instances", _as_ours(lived, "abcdefghij"), client="red-client")
        mount.write(id="red-client", secret="red-secret-of-this-life")
        await lived.pod("next")

        async def told() -> bool:
            return await lived.code_of("next") == Reason.VANISHED.value

        await until("the pod is told", told)
        for _ in range(20):
            await asyncio.sleep(0.2)
            assert [(m.name, m.phase.value) for m in lived.program.fleet.machines()] == [(ours.name, "ready")]
        rows = json.loads(await lived.api("GET", "/instances", client="red-client"))
        assert [row["hostname"] for row in rows] == [names.hostname("home", "a100", "abcdefghij")]
        mount.write(id="life", secret=SECRET)
        await lived.runs("next")
        await lived.stage.delete("/api/v1/namespaces/default/pods/next")
        await lived.end()


def _as_ours(lived: Life, intent: str) -> dict[str, Any]:
    cluster_id = lived.program.fleet.policy.cluster_id
    hostname = names.hostname(cluster_id, "a100", intent)
    marks = {names.TAG_CLUSTER: cluster_id, names.TAG_POOL: "a100", names.TAG_INTENT: intent}
    return {
        "instance_type": "1A100.22V",
        "image": "ubuntu-24.04-cuda-12.8-open",
        "location_code": "FIN-01",
        "hostname": hostname,
        "description": names.description(cluster_id, intent),
        "os_volume": {"name": hostname, "size": 100},
        "tags": [{"key": key, "value": value} for key, value in marks.items()],
    }


# ---- tokens and limits


@pytest.mark.parametrize(
    "fault",
    [
        {"method": "POST", "path": "/oauth2/token", "fault": "answer", "status": 500, "times": 4},
        {"method": "POST", "path": "/oauth2/token", "fault": "hang", "times": 1},
        {"method": "POST", "path": "/oauth2/token", "fault": "lose_after", "times": 4},
        {"method": "POST", "path": "/oauth2/token", "fault": "answer", "status": 200, "body": "<html>", "times": 3},
        {"method": "POST", "path": "/oauth2/token", "fault": "answer", "status": 429, "body": "Rate limit.",
         "headers": {"Retry-After": "1"}, "times": 2},
    ],
    ids=lambda rule: f"{rule['fault']} {rule.get('status', '')}",
)  # fmt: skip
async def test_without_a_token_for_a_while_nothing_is_lost(fault: dict[str, Any]) -> None:
    async with life() as lived:
        lived.fault(fault)
        await lived.stage.tell_cloud("POST", "revoke-tokens", {})
        await lived.in_use()
        assert lived.stage.cloud_faults.rules[0].fired
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


async def test_tokens_that_are_revoked_again_and_again_are_replaced() -> None:
    async with life() as lived:

        async def revoke() -> None:
            while True:
                await lived.stage.tell_cloud("POST", "revoke-tokens", {})
                await asyncio.sleep(0.1)

        revoking = asyncio.create_task(revoke())
        try:
            await lived.in_use()
            assert (await lived.stage.bill())["creates"] == 1
            await lived.end()
        finally:
            revoking.cancel()
            await asyncio.gather(revoking, return_exceptions=True)


async def test_tokens_of_a_second_with_refresh_tokens_of_less_are_enough() -> None:
    async with life(cloud={"token_ttl_s": 1, "refresh_ttl_s": 0.2}) as lived:
        await lived.in_use()
        await lived.end()


async def test_limits_are_kept_to_and_a_storm_of_429s_is_weathered() -> None:
    # Windows of a second, so small that the controller alone would fill them.
    limits = {
        "rate_limits": True,
        "rate_window_s": 1,
        "project_limit": 30,
        "endpoint_limit": 6,
        "list_limit": 6,
    }
    async with life(cloud={**limits, "rate_limit_body": "text"}) as lived:
        storm = {"fault": "answer", "status": 429, "body": "Rate limit.", "headers": {"Retry-After": "1"}}
        lived.fault({**storm, "path": "/instances*", "times": 5})
        await lived.in_use()
        assert (await lived.stage.bill())["creates"] == 1
        await lived.end()


# ---- machines that are taken away


async def _closed(lived: Life, gone: str) -> None:
    async def closed() -> bool:
        return all(machine.instance_id != gone for machine in lived.program.fleet.machines())

    await until("the machine that vanished is closed, with its Node", closed)


async def _replaced(lived: Life, gone: str) -> None:
    """The next pod runs on a new machine, and then all goes."""
    await _closed(lived, gone)
    await lived.stage.delete("/api/v1/namespaces/default/pods/train")
    assert await lived.in_use("again") != gone
    assert (await lived.stage.bill())["creates"] == 2
    await lived.end("again")


@pytest.mark.parametrize("journal", [True, False])
async def test_an_evicted_machine_is_replaced_and_leaves_nothing(journal: bool) -> None:
    async with life(SPOT) as lived:
        machine = await lived.in_use()
        await lived.stage.tell_cloud("POST", "evict", {"id": machine, "journal": journal})
        await _replaced(lived, machine)


async def test_a_wave_of_evictions_replaces_what_was_taken_and_no_more() -> None:
    async with life(SPOT) as lived:
        lived.may_be_alive = 2
        await lived.in_use()
        await lived.pod("second")
        await lived.runs("second")
        taken = [one["id"] for one in await lived.instances()]
        assert len(taken) == 2
        for machine in taken:
            await lived.stage.tell_cloud("POST", "evict", {"id": machine})
        for machine in taken:
            await _closed(lived, machine)
        await lived.stage.delete("/api/v1/namespaces/default/pods/train")
        await lived.stage.delete("/api/v1/namespaces/default/pods/second")
        await lived.in_use("again")
        assert (await lived.stage.bill())["creates"] == 3
        await lived.end("again")


async def test_a_machine_deleted_in_the_console_is_replaced_and_its_disk_removed() -> None:
    async with life() as lived:
        machine = await lived.in_use()
        await lived.api("PUT", "/instances", {"action": "delete", "id": machine, "volume_ids": []})
        await _replaced(lived, machine)


@pytest.mark.parametrize(
    "event", [{"event": "shut_down"}, {"event": "fail", "into": "installation_failed"}], ids=str
)
async def test_a_machine_that_ends_before_it_joined_is_removed_and_another_one_is_bought(
    event: dict[str, Any],
) -> None:
    async with life(cloud={"boot_s": 6000}) as lived:  # ten seconds
        lived.may_be_alive = 2  # one that is off is there until its delete, which nobody waits for
        await lived.pod()

        async def boots() -> bool:
            return [one["status"] for one in await lived.instances()] == ["running"]

        await until("the machine boots", boots)
        first = (await lived.only())["id"]
        await lived.knobs(boot_s=60)
        await lived.stage.tell_cloud("POST", "events", {**event, "id": first})
        await lived.runs()
        assert first not in [one["id"] for one in await lived.instances() if one["status"] == "running"]
        assert (await lived.stage.bill())["creates"] == 2
        await lived.end()


async def test_a_machine_in_use_that_is_shut_down_in_the_console_goes_and_its_pod_is_free() -> None:
    """Its kubelet is silent, so nobody can confirm the pod's end: Kubernetes lets go of it with the Node."""
    async with life({"deadlines": {"stopped": "2s"}}) as lived:
        machine = await lived.in_use()
        await lived.stage.tell_cloud("POST", "events", {"event": "shut_down", "id": machine})
        await lived.empty(within=90)
        assert (await lived.stage.bill())["creates"] == 1

        async def freed() -> bool:
            return "train" not in await lived.stage.pods()

        await until("Kubernetes lets go of the pod", freed)


async def test_a_machine_in_use_that_is_shut_down_for_a_moment_is_there_afterwards() -> None:
    async with life() as lived:
        machine = await lived.in_use()
        await lived.stage.tell_cloud("POST", "events", {"event": "shut_down", "id": machine})

        async def noticed() -> bool:
            return [bool(m.stopped_at) for m in lived.program.fleet.machines()] == [True]

        await until("it is seen to be off", noticed)
        await lived.api("PUT", "/instances", {"action": "start", "id": machine})

        async def forgotten() -> bool:
            return [bool(m.stopped_at) for m in lived.program.fleet.machines()] == [False]

        await until("it is seen to run again", forgotten)
        assert (await lived.only())["id"] == machine
        await lived.stage.delete("/api/v1/namespaces/default/pods/train?gracePeriodSeconds=0")
        await lived.end()


async def test_an_empty_balance_takes_everything_and_after_a_payment_it_goes_on() -> None:
    async with life() as lived:
        machine = await lived.in_use()
        await lived.knobs(balance=0.0001)

        async def all_gone() -> bool:
            return (await lived.stage.bill())["instances"] == []

        await until("the cloud discontinued everything", all_gone)
        await _closed(lived, machine)
        await lived.stage.delete("/api/v1/namespaces/default/pods/train")
        await lived.pod("again")

        async def told() -> bool:
            return await lived.code_of("again") == "no_funds"

        await until("the next pod is told", told)
        await lived.knobs(balance=10_000)
        await lived.runs("again")
        # The strangers went with the balance; what is left of them is in the trash, and not ours to touch.
        state = await lived.stage.bill()
        lived.strangers = {one["id"]: one["status"] for one in state["trash"] if one["id"] in lived.strangers}
        assert len(lived.strangers) == len(STRANGERS) + 2  # their system disks, and those without machines
        assert machine not in [one["id"] for one in state["instances"]]
        await lived.stage.delete("/api/v1/namespaces/default/pods/again")

        async def nothing_of_ours() -> bool:
            now = await lived.stage.bill()
            return not any(lived.ours(one) for part in ("instances", "volumes", "trash") for one in now[part])

        await until("nothing of ours is left", nothing_of_ours)
        trash = {one["id"]: one["status"] for one in (await lived.stage.bill())["trash"]}
        assert trash == lived.strangers


# ---- scripts


async def test_a_full_quota_of_scripts_is_told_and_bought_for_when_there_is_room() -> None:
    async with life(cloud={"script_quota": 0}) as lived:
        await lived.pod()

        async def told() -> bool:
            return await lived.code_of("train") in ("quota", "limit_scripts")

        await until("the pod is told", told)
        assert (await lived.stage.bill())["creates"] == 0
        await lived.knobs(script_quota=10)
        await lived.runs()
        await lived.end()


async def test_a_script_of_ours_behind_many_others_is_found_and_theirs_are_left_alone() -> None:
    async with life() as lived:
        lost = "#!/bin/bash\n# gpuas home zzzzzzzzzz\n"
        await lived.api("POST", "/scripts", {"name": "gpuas-home-zzzzzzzzzz", "script": lost})
        for number in range(15):  # newer ones come first, ten to a page
            await lived.api(
                "POST", "/scripts", {"name": f"theirs-{number}", "script": "#!/bin/bash\n# gpuas\n"}
            )
        await lived.api(
            "POST", "/scripts", {"name": "gpuas-home-yyyyyyyyyy", "script": "#!/bin/bash\n# mine\n"}
        )

        async def swept() -> bool:
            return lost not in [script["script"] for script in (await lived.stage.bill())["scripts"]]

        await lived.in_use()
        await until("ours is swept", swept)
        await lived.stage.delete("/api/v1/namespaces/default/pods/train")

        async def done() -> bool:
            return lived.program.fleet.machines() == ()

        await until("the machine is gone", done)
        left = (await lived.stage.bill())["scripts"]
        names = sorted(script["name"] for script in left if lived.ours(script))
        assert names == sorted(["gpuas-home-yyyyyyyyyy", *(f"theirs-{number}" for number in range(15))])


# ---- the catalogue


@pytest.mark.parametrize(
    "knobs",
    [
        {"prices": {"1A100.22V": {"price_per_hour": 3.5, "spot_price": 1.1}}},
        {"removed_types": ["1A100.22V"]},
        {"renamed_types": {"1A100.22V": "1A100.80S.24V"}},
    ],
    ids=lambda knobs: next(iter(knobs)),
)
async def test_a_catalogue_that_changes_under_a_machine_keeps_it_and_is_planned_with(
    knobs: dict[str, Any],
) -> None:
    pools = {"pools": [{"name": "a100", "gpu_models": ["A100 80GB"], "locations": ["FIN-01"], "max": 4}]}
    async with life(pools) as lived:
        machine = await lived.in_use()
        await lived.knobs(**knobs)
        await asyncio.sleep(1.0)  # the catalogue is read each second, a fifth of it here
        assert (await lived.only())["id"] == machine
        lived.may_be_alive = 2  # one for each pod
        await lived.pod("more")
        await lived.runs("more")
        assert (await lived.stage.bill())["creates"] == 2
        await lived.stage.delete("/api/v1/namespaces/default/pods/more")
        await lived.end()
