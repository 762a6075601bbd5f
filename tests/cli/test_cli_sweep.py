"""`sweep` as users run it: planted leftovers and look-alikes in a sandbox account, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from controller.app.exits import Ends
from controller.app.parts import Now
from controller.cli.sweeping import sweep
from controller.sandbox.cloud import disks, instances, lifecycle
from controller.sandbox.cloud.model import TRASH
from controller.sandbox.cloud.order import read_order
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.texts import Script
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.faults import Faults
from controller.sandbox.shell import Running, serve
from tests.cli.commands import SECRET, cli

INTENT, OTHER = "abcdefghij", "zyxwvutsrq"
HOST = f"home-a100-{INTENT}"
MARKS = {"gpuas-cluster": "home", "gpuas-pool": "a100", "gpuas-intent": INTENT}
TEXT = f"#!/bin/bash\n# gpuas home {INTENT}\necho join\n"


def tags(pairs: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in pairs.items()]


HASTE = 50


class Hasty(Now):
    """Waits are cut short: the worlds live five hundred times faster than real ones."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / HASTE)


class Account:
    """A sandbox cloud with things in it that somebody left behind."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, output: pytest.CaptureFixture[str]) -> None:
        self.patch, self.output = patch, output
        knobs = {
            "speed": 500, "rate_limits": False, "credentials": f"client:{SECRET}", "script_quota": 1000,
            "provisioning_s": 1000,
        }  # fmt: skip
        self.faults = Faults()
        self.world = CloudWorld(time.time, random.Random(3), Settings().changed(knobs))
        self.state = self.world.state
        self.home = home
        self.running: Running | None = None

    async def open(self) -> Account:
        self.running = await serve(self.world, faults=self.faults)
        return self

    async def close(self) -> None:
        assert self.running is not None
        await self.running.stop()

    @property
    def environ(self) -> dict[str, str]:
        assert self.running is not None
        return {
            "VERDA_CLIENT_ID": "client",
            "VERDA_CLIENT_SECRET": SECRET,
            "VERDA_BASE_URL": f"{self.running.url}/v1",
            "HOME": str(self.home),
            "NO_PROXY": "*",
        }

    async def sweep(
        self,
        *,
        cluster_id: str = "home",
        env: Mapping[str, str] | None = None,
        patience: float = 900,
        **words: Any,
    ) -> tuple[int, dict[str, Any], str]:
        """As the command line calls it, with waits that are cut short; exit code, JSON, and what was told."""
        for key, value in (self.environ | dict(env or {})).items():
            self.patch.setenv(key, value)
        given = {"config": None, "kubeconfig": "", "apply": False, "yes": False, "as_json": True} | words
        self.output.readouterr()
        try:
            code = await sweep(
                cluster_id=cluster_id,
                patience=patience,
                now=Hasty(monotonic=lambda: time.monotonic() * HASTE),
                **given,
            )
            more = ""
        except Ends as end:
            code, more = end.code, "\n".join(end.lines)
        shown, told = self.output.readouterr()
        assert SECRET not in shown + told + more
        return code, json.loads(shown) if shown else {}, told + more

    # -- planting

    def machine(
        self, hostname: str = HOST, description: str = "", *, running: bool = True, **marks: str
    ) -> str:
        body = {
            "instance_type": "1A100.22V", "image": "ubuntu-24.04", "hostname": hostname, "location_code": "FIN-01",
            "description": description, "tags": tags(marks), "os_volume": {"name": hostname, "size": 100, "tags": tags(marks)},
        }  # fmt: skip
        one = instances.place(self.state, read_order(self.state, body))
        (lifecycle.begin_running if running else lifecycle.begin)(self.state, one)
        return one.id

    def disk(self, name: str = HOST, *, trash: bool = False, **marks: str) -> str:
        linked = [self.state.tag(key, value) for key, value in marks.items()]
        volume = disks.make(
            self.state,
            name=name,
            size=100,
            kind="NVMe",
            location="FIN-01",
            os_image="ubuntu-24.04",
            tags=linked,
        )
        if trash:
            disks.finish(self.state, volume, TRASH)
        return volume.id

    def script(self, name: str, text: str = TEXT) -> str:
        script = Script(self.state.new_id(), name, text, self.state.now)
        self.state.scripts[script.id] = script
        return script.id

    # -- what is there

    def things(self) -> dict[str, set[str]]:
        state = self.state
        return {
            "instance": {one.id for one in state.instances.values() if one.live},
            "volume": {one.id for one in state.volumes.values() if one.live},
            "trash": {one.id for one in state.volumes.values() if one.in_trash},
            "script": set(state.scripts),
        }


@pytest.fixture
async def account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Account]:
    for name in os.environ:
        if name.startswith(("VERDA_", "DATACRUNCH_", "GPU_AUTOSCALER_", "KUBE")):
            monkeypatch.delenv(name)
    opened = await Account(tmp_path, monkeypatch, capsys).open()
    yield opened
    await opened.close()


def plant(account: Account) -> dict[str, str]:
    """One orphan of every kind; the script is made first, so that the newest hundred hide it."""
    found = {"script": account.script(f"gpuas-home-{INTENT}")}
    for number in range(130):
        account.script(f"somebody-elses-{number}", "#!/bin/bash\n")
    found["script, first page"] = account.script(
        f"gpuas-home-{OTHER}", f"#!/bin/bash\n# gpuas home {OTHER}\n"
    )
    found["instance"] = account.machine(description=f"gpuas home {INTENT}", **MARKS)
    found["volume"] = account.disk(f"home-a100-{OTHER}", **(MARKS | {"gpuas-intent": OTHER}))
    found["trash"] = account.disk(f"home-b200-{OTHER}", trash=True, **(MARKS | {"gpuas-intent": OTHER}))
    return found


def plant_lookalikes(account: Account) -> dict[str, set[str]]:
    """Each with one mark, with marks that contradict each other, or of another cluster; and plain strangers."""
    contradicting = MARKS | {"gpuas-intent": OTHER}
    return {
        "instance": {
            account.machine(),  # the hostname alone
            account.machine("web-1", f"gpuas home {INTENT}"),  # the description alone
            account.machine("web-2", **MARKS),  # the tags alone
            account.machine(HOST, f"gpuas home {OTHER}"),
            account.machine(HOST, "", **contradicting),
            account.machine(f"other-a100-{INTENT}", f"gpuas other {INTENT}"),
            account.machine("plain", "somebody's"),
        },
        "volume": {
            account.disk(),  # the name alone
            account.disk("data", **MARKS),
            account.disk(HOST, **contradicting),
            account.disk("backup"),
        },
        "trash": {account.disk(trash=True), account.disk("old", trash=True)},
        "script": {
            account.script(f"gpuas-home-{INTENT}", "#!/bin/bash\necho mine\n"),
            account.script("mine", TEXT),
            account.script(f"gpuas-home-{OTHER}", TEXT),
            account.script("plain", "#!/bin/bash\n"),
        },
    }


async def test_orphans_of_every_kind_are_listed_with_their_marks_and_cost_and_nothing_is_touched(
    account: Account,
) -> None:
    planted = plant(account)
    account.state.instances[planted["instance"]].created_at -= 7200
    before = account.things()
    code, told, _ = await account.sweep()
    assert code == 0
    assert account.things() == before
    rows = {row["id"]: row for row in told["orphans"]}
    disk_of_the_machine = account.state.instances[planted["instance"]].os_volume_id
    assert set(rows) == {*planted.values(), disk_of_the_machine}
    machine = rows[planted["instance"]]
    assert (machine["kind"], machine["name"], machine["cluster_id"]) == ("instance", HOST, "home")
    assert len(machine["marks"]) == 3
    assert machine["price_per_hour"] == 1.29
    assert 2.58 <= machine["cost_so_far"] < 2.60
    assert rows[planted["volume"]]["price_per_hour"] == 0.0274
    assert rows[planted["trash"]]["price_per_hour"] == 0
    assert "quota" in rows[planted["trash"]]["why"]
    assert rows[planted["script"]]["marks"] == [
        f"name gpuas-home-{INTENT}", f"second line '# gpuas home {INTENT}'",
    ]  # fmt: skip
    assert (told["price_per_hour"], told["currency"]) == (1.3448, "usd")
    (warning,) = told["warnings"]
    assert warning.startswith("there is no kubeconfig (--kubeconfig, KUBECONFIG, ~/.kube/config)")
    assert "cannot be seen" in warning


async def test_costs_are_told_in_the_currency_of_the_account_and_not_in_that_of_the_settings(
    account: Account,
) -> None:
    machine = account.machine(description=f"gpuas home {INTENT}", **MARKS)
    wanted = {"GPU_AUTOSCALER_VERDA__CURRENCY": "eur"}
    _, told, _ = await account.sweep(env=wanted)
    row = next(row for row in told["orphans"] if row["id"] == machine)
    assert (row["price_per_hour"], row["currency"]) == (1.29, "usd")
    assert (told["price_per_hour"], told["currency"]) == (1.3174, "usd")
    _, text, _ = await cli("sweep", "--cluster-id", "home", env=account.environ | wanted)
    assert "1.3174 usd an hour" in text
    assert "eur" not in text


async def test_they_are_removed_with_apply_only_and_look_alikes_stay(account: Account) -> None:
    planted = plant(account)
    kept = plant_lookalikes(account)
    kept["script"] |= {s.id for s in account.state.scripts.values() if s.name.startswith("somebody")}
    kept["volume"] |= {
        account.state.instances[one].os_volume_id or "" for one in kept["instance"]
    }  # fmt: skip
    before = account.things()
    code, listed, _ = await account.sweep()
    assert (code, account.things()) == (0, before)
    code, shown, _ = await cli(
        "sweep", "--cluster-id", "home", "--apply", "--json", env=account.environ
    )  # as a process, as users run it
    told = json.loads(shown)
    assert code == 0, told
    assert account.things() == kept
    assert all(row["removed"] for row in told["orphans"])
    assert {row["id"] for row in told["orphans"]} == {row["id"] for row in listed["orphans"]}
    gone = [one for one in account.state.volumes.values() if one.id in planted.values()]
    assert all(one.destroyed for one in gone)  # not even in the trash
    running = {one.hostname for one in account.state.instances.values() if one.meter.since is not None}
    assert len(running) == 5
    assert account.state.instances[planted["instance"]].meter.since is None
    code, told, _ = await account.sweep(apply=True)
    assert (code, told["orphans"]) == (0, [])


async def test_look_alikes_are_listed_with_what_they_lack(account: Account) -> None:
    plant_lookalikes(account)
    _, told, _ = await account.sweep()
    assert told["orphans"] == []
    reasons = [row["why"] for row in told["left_alone"]]
    assert sum("only one mark says so" in why for why in reasons) == 11
    assert sum("contradict each other" in why for why in reasons) == 5
    assert not {"plain", "backup", "old"} & {row["name"] for row in told["left_alone"]}
    assert not [row for row in told["left_alone"] if row["cluster_id"] == "other"]


async def test_without_an_id_every_cluster_is_listed_and_none_is_swept(account: Account) -> None:
    plant(account)
    account.machine(f"two-a100-{OTHER}", f"gpuas two {OTHER}")
    code, told, _ = await account.sweep(cluster_id="")
    assert code == 0
    assert {row["cluster_id"] for row in told["orphans"]} == {"home", "two"}
    before = account.things()
    code, _, words = await account.sweep(cluster_id="", apply=True)
    assert (code, account.things()) == (2, before)
    assert "--apply needs --cluster-id" in words
    _, out, _ = await cli("sweep", env=account.environ)
    assert "cluster id home: 6 to remove" in out
    assert "cluster id two: 2 to remove" in out
    assert "nothing was removed" in out


async def test_a_machine_that_still_boots_goes_as_soon_as_the_cloud_allows(account: Account) -> None:
    one = account.machine(description=f"gpuas home {INTENT}", running=False, **MARKS)
    account.script(f"gpuas-home-{INTENT}")
    code, told, _ = await account.sweep(apply=True)
    assert code == 0, told
    assert not account.state.instances[one].live
    assert account.things() == {"instance": set(), "volume": set(), "trash": set(), "script": set()}


@pytest.mark.parametrize("as_207", [False, True])
@pytest.mark.parametrize("status", [400, 403])
async def test_a_machine_goes_as_soon_as_the_cloud_allows_whatever_state_refuses_and_however(
    account: Account, status: int, as_207: bool
) -> None:
    refusing = ["new", "ordered", "provisioning", "validating"]
    account.state.change(
        account.state.settings.changed(
            {
                "undeletable_statuses": refusing,
                "action_refused_status": status,
                "refusals_as_207": as_207,
                "all_refused_status": status if as_207 and status == 400 else 207,
                "ordered_s": 60,
                "provisioning_s": 60,
            }
        )
    )
    account.machine(description=f"gpuas home {INTENT}", running=False, **MARKS)
    code, told, _ = await account.sweep(apply=True)
    assert code == 0, told
    assert account.things() == {"instance": set(), "volume": set(), "trash": set(), "script": set()}


async def test_a_machine_whose_delete_is_refused_in_words_that_nobody_knows_is_asked_to_go_again(
    account: Account,
) -> None:
    account.machine(description=f"gpuas home {INTENT}", **MARKS)
    words = {"code": "invalid_request", "message": "The host is being moved"}
    rule = {
        "method": "PUT",
        "path": "/instances",
        "fault": "answer",
        "status": 400,
        "body": words,
        "times": 3,
    }
    account.faults.replace([rule])
    code, told, _ = await account.sweep(apply=True)
    assert code == 0, told
    assert account.things()["instance"] == set()


@pytest.mark.parametrize(
    ("path", "kind"), [("/volumes/*", "volume"), ("/volumes/*", "trash"), ("/scripts/*", "script")]
)
@pytest.mark.parametrize(
    "answer",
    [
        {"status": 400, "body": {"code": "invalid_request", "message": "The storage is being moved"}},
        {"status": 422, "body": {"code": "invalid_request", "message": "no"}},
        {"status": 400, "body": "<html>"},
        {"status": 404, "body": {"code": "not_found", "message": "Cannot DELETE /v2"}},
        {"status": 404, "body": {"code": "not_found", "message": "Resource not found"}},
    ],
)
async def test_a_disk_or_script_whose_delete_is_refused_is_asked_to_go_again_and_the_others_go(
    account: Account, path: str, kind: str, answer: dict[str, Any]
) -> None:
    planted = plant(account)
    account.faults.replace([{"method": "DELETE", "path": path, "fault": "answer", "times": 3, **answer}])
    code, told, _ = await account.sweep(apply=True)
    assert code == 0, told
    assert planted[kind] not in account.things()[kind]
    assert all(row["removed"] for row in told["orphans"])


async def test_what_is_refused_for_ever_is_asked_ever_more_seldom_and_told(account: Account) -> None:
    planted = plant(account)
    body = {"code": "invalid_request", "message": "The storage is being moved"}
    rule = {"method": "DELETE", "path": f"/volumes/{planted['volume']}", "fault": "answer", "times": 0}
    account.faults.replace([{**rule, "status": 400, "body": body}])
    code, told, _ = await account.sweep(apply=True, patience=300)
    assert code == 1
    left = [row for row in told["orphans"] if not row["removed"]]
    assert [row["id"] for row in left] == [planted["volume"]]
    assert "The storage is being moved" in left[0]["message"]
    assert 3 <= account.faults.rules[0].fired <= 15
    assert account.things()["script"].isdisjoint(planted.values())


async def test_what_does_not_go_in_time_is_told(account: Account) -> None:
    account.world.state.settings.undeletable_statuses.append("running")
    one = account.machine(description=f"gpuas home {INTENT}", **MARKS)
    code, told, _ = await account.sweep(apply=True, patience=100)
    assert code == 1
    (row,) = (row for row in told["orphans"] if row["id"] == one)
    assert row["removed"] is False
    assert "Can't discontinue" in row["message"]


@pytest.mark.parametrize(
    "rules",
    [
        [{"method": "PUT", "path": "/instances", "fault": "lose_after"}],
        [{"method": "PUT", "path": "/instances", "fault": "answer", "status": 500, "body": "<html>", "times": 2}],
        [{"method": "DELETE", "path": "*", "fault": "lose_before"}],
        [{"method": "GET", "path": "/volumes", "nth": 2, "fault": "answer", "status": 200, "body": []}],
        [{"method": "GET", "path": "/instances", "nth": 2, "fault": "answer", "status": 200, "body": []}],
        [{"method": "GET", "path": "/scripts", "nth": 4, "times": 4, "fault": "answer", "status": 503, "body": "x"}],
    ],
)  # fmt: skip
async def test_lost_answers_and_bad_lists_end_in_the_same_removal(account: Account, rules: list[Any]) -> None:
    planted = plant(account)
    account.faults.replace(rules)
    code, told, _ = await account.sweep(apply=True)
    assert code == 0, told
    left = set().union(*account.things().values())
    assert not left & set(planted.values())
    assert all(row["removed"] for row in told["orphans"])


async def test_machines_that_one_list_lacks_are_found_by_their_disks(account: Account) -> None:
    """An account must not look clean because a list was empty once."""
    plant(account)
    _, whole, _ = await account.sweep()
    account.faults.replace([{"method": "GET", "path": "/instances", "fault": "leave_out"}])
    code, told, _ = await account.sweep()
    assert code == 0
    assert account.faults.rules[0].fired
    found = [{row["id"] for row in one["orphans"]} for one in (told, whole)]
    assert found[0] == found[1]


async def test_a_list_that_is_cut_short_is_no_ground_to_remove_anything(account: Account) -> None:
    plant(account)
    before = account.things()
    cut = {"fault": "answer", "status": 200, "body": [], "headers": {"X-Total-Count": "7"}, "times": 0}
    account.faults.replace([{"method": "GET", "path": "/instances", **cut}])
    code, _, words = await account.sweep(apply=True)
    assert (code, account.things()) == (3, before)
    assert "not complete" in words


async def test_disks_without_tags_are_ours_by_the_machine_that_they_were_made_with(account: Account) -> None:
    """Accounts where tags fail: the second mark is the machine, read by id although it is gone from the list."""
    account.state.settings.tags = False
    account.state.settings.stale_volume_instance_id = True
    one = account.machine(description=f"gpuas home {INTENT}")
    disk = account.state.instances[one].os_volume_id
    lifecycle.delete(account.state, account.state.instances[one], {})
    await asyncio.sleep(0.3)
    account.world.tick()
    assert not account.state.instances[one].live
    alike = account.disk(HOST)
    code, told, _ = await account.sweep(apply=True)
    assert code == 0
    assert [row["id"] for row in told["orphans"]] == [disk]
    assert account.things()["volume"] == {alike}


async def test_a_foreign_disk_on_a_machine_of_ours_is_detached_and_told(account: Account) -> None:
    one = account.machine(description=f"gpuas home {INTENT}", **MARKS)
    data = account.disk("data")
    disks.attach(account.state, account.state.volumes[data], account.state.instances[one])
    _, told, _ = await account.sweep()
    assert [row["name"] for row in told["left_alone"]] == ["data"]
    code, _, _ = await account.sweep(apply=True)
    assert code == 0
    assert account.things()["volume"] == {data}


@pytest.mark.parametrize(
    ("words", "env", "code", "told"),
    [
        ({"cluster_id": "Home"}, {}, 2, "--cluster-id 'Home': expected 1 to 20 of a-z"),
        ({}, {"VERDA_CLIENT_SECRET": ""}, 2, "VERDA_CLIENT_SECRET: not set"),
        ({}, {"VERDA_CLIENT_ID": "somebody-else"}, 3, "VERDA_CLIENT_ID and VERDA_CLIENT_SECRET"),
        ({}, {"VERDA_BASE_URL": "http://127.0.0.1:1/v1"}, 3, "http://127.0.0.1:1/v1"),
        ({"config": "/nonexistent"}, {}, 2, "/nonexistent"),
        ({"kubeconfig": "/nonexistent"}, {}, 2, "/nonexistent"),
    ],
)
async def test_trouble_is_one_clear_line_and_a_documented_code(
    account: Account, words: dict[str, str], env: dict[str, str], code: int, told: str
) -> None:
    found, _, err = await account.sweep(**words, env=env)
    assert found == code
    assert told in err


async def test_a_cluster_that_is_named_and_does_not_answer_is_not_taken_for_dead(
    account: Account, tmp_path: Path
) -> None:
    planted = plant(account)
    config = tmp_path / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "current-context": "c",
            }
        )
    )
    env = {"KUBECONFIG": str(config)}
    code, told, _ = await account.sweep(env=env)
    assert (code, told["cluster"]) == (0, "unclear")
    before = account.things()
    code, _, words = await account.sweep(apply=True, env=env)
    assert (code, account.things()) == (3, before)
    assert "--yes" in words
    code, _, _ = await account.sweep(apply=True, yes=True, env=env)
    assert code == 0
    assert planted["instance"] not in account.things()["instance"]


async def test_an_id_from_the_settings_lists_but_deletes_machines_only_when_said_so(account: Account) -> None:
    planted = plant(account)
    env = {"GPU_AUTOSCALER_CLUSTER_ID": "home"}
    before = account.things()
    code, _, words = await account.sweep(cluster_id="", apply=True, env=env)
    assert (code, account.things()) == (2, before)
    assert "--cluster-id home, or give --yes" in words
    code, _, _ = await account.sweep(cluster_id="", apply=True, yes=True, env=env)
    assert code == 0
    assert planted["instance"] not in account.things()["instance"]


async def test_a_disk_that_an_unknown_machine_may_use_goes_only_when_said_so_too(account: Account) -> None:
    """The account shows no machine that it is attached to, and no cluster answers."""
    machine = plant(account)["instance"]
    disk = account.state.instances[machine].os_volume_id
    del account.state.instances[machine]
    env = {"GPU_AUTOSCALER_CLUSTER_ID": "home"}
    before = account.things()
    code, told, _ = await account.sweep(cluster_id="", env=env)
    assert any("cannot be seen: 1 attached disk" in line for line in told["warnings"])
    code, _, words = await account.sweep(cluster_id="", apply=True, env=env)
    assert (code, account.things()) == (2, before)
    assert "1 attached disk would be deleted" in words
    code, _, _ = await account.sweep(apply=True)
    assert code == 0
    assert disk not in account.things()["volume"]
