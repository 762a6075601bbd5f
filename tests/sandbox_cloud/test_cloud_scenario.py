"""Scenarios: faults and events at their time, from a file, at the start or into a cloud that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.cloud.command import build, read_file, read_scenario_file
from controller.sandbox.cloud.events import EVENTS
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.openapi import description
from controller.sandbox.cloud.scenario import read_scenario
from controller.sandbox.wire import Request
from tests.cli.commands import cli

from .world import ORDER, Cloud, refusal


def begin(cloud: Cloud, *entries: dict[str, Any]) -> None:
    cloud.control("PUT", "scenario", list(entries))


def happen(cloud: Cloud, event: str, **words: Any) -> Any:
    return cloud.control("POST", "events", {"event": event, **words}).json()


def done(cloud: Cloud) -> list[tuple[float, str]]:
    return [(one["at_s"], one["what"]) for one in cloud.get("/_sandbox/scenario")["done"]]


def hit(cloud: Cloud, method: str = "GET", path: str = "/v1/instances") -> str | None:
    rule = cloud.world.faults.choose(Request.of(method, path))
    return rule.fault if rule else None


# -- time


def test_entries_happen_at_their_machine_time_and_those_without_at_once() -> None:
    cloud = Cloud(speed=10)
    begin(
        cloud,
        {"event": "balance", "amount": 50},
        {"event": "settings", "values": {"public_ip": False}, "at_s": 100},
        {"event": "stock", "rows": [{"count": 0}], "at_s": 200},
    )
    assert cloud.get("/balance")["amount"] == 50
    assert done(cloud) == [(0, "balance")]
    cloud.wait(10)
    assert cloud.get("/_sandbox/settings")["settings"]["public_ip"] is False
    assert cloud.get("/instance-availability/1A100.22V") is True
    cloud.wait(10)
    assert cloud.get("/instance-availability/1A100.22V") is False
    assert done(cloud) == [(0, "balance"), (100, "settings"), (200, "stock")]


def test_an_event_may_repeat() -> None:
    cloud = Cloud()
    begin(cloud, {"event": "revoke_tokens", "at_s": 5, "every_s": 10, "times": 3})
    cloud.wait(100)
    assert done(cloud) == [(5, "revoke_tokens"), (15, "revoke_tokens"), (25, "revoke_tokens")]


def test_a_fault_begins_and_ends() -> None:
    cloud = Cloud()
    storm = {"fault": "answer", "status": 429, "headers": {"Retry-After": "7"}, "times": 0, "share": 1}
    begin(cloud, {**storm, "at_s": 10, "for_s": 20})
    for wait, expected in ((0, None), (10, "answer"), (19, "answer"), (1, None)):
        cloud.wait(wait)
        cloud.world.tick()
        assert hit(cloud) == expected


def test_a_new_scenario_takes_the_place_of_the_old_one_whose_deeds_stay() -> None:
    cloud = Cloud()
    cloud.world.faults.replace([{"fault": "drip", "seconds": 1, "path": "/mine", "times": 0}])
    begin(cloud, {"fault": "hang", "times": 0}, {"event": "balance", "amount": 1, "at_s": 10})
    assert hit(cloud) == "hang"
    begin(cloud, {"event": "balance", "amount": 2, "at_s": 20})
    assert hit(cloud) is None
    assert hit(cloud, path="/mine") == "drip"
    cloud.wait(15)
    assert cloud.get("/balance")["amount"] == 10_000
    assert cloud.send("DELETE", "/_sandbox/scenario").status == 204
    cloud.wait(15)
    assert cloud.get("/balance")["amount"] == 10_000


def test_an_event_that_cannot_happen_is_noted_and_the_rest_goes_on() -> None:
    cloud = Cloud()
    orphan = {"disk": {"name": "d", "where": "attached", "instance": "nobody"}}
    begin(cloud, {"event": "plant", "things": [orphan], "at_s": 1}, {"event": "revoke_tokens", "at_s": 2})
    cloud.wait(10)
    first, second = cloud.get("/_sandbox/scenario")["done"]
    assert first["result"] == {"problem": "no live instance has the hostname nobody"}
    assert second["what"] == "revoke_tokens"


BAD: list[tuple[Any, str]] = [
    ({}, "scenario: got {}, expected a list of faults and events"),
    ([{"at_s": 1}], 'scenario[0]: got {"at_s": 1}, expected either a fault or an event'),
    ([{"event": "explode"}], 'scenario[0].event: got "explode", expected one of settings, stock'),
    ([{"event": "revoke_tokens", "at_s": -1}], "scenario[0].at_s: got -1, expected a number, 0 or more"),
    ([{"event": "revoke_tokens", "when": 1}], "scenario[0].when: got 1, expected no such key; known are"),
    ([{"event": "revoke_tokens", "times": 2}], "scenario[0].every_s: got null, expected a number of machine"),
    ([{"fault": "hang", "nth": 0}], "scenario[0].nth: got 0, expected an integer from 1"),
    ([{"fault": "hang", "at_s": "soon"}], 'scenario[0].at_s: got "soon", expected a number'),
    (
        [{"event": "settings", "values": {"speed": 0}}],
        "scenario[0].values.speed: got 0, expected a number above 0",
    ),
    ([{"event": "stock", "rows": [{"count": -1}]}], "scenario[0].rows[0].count: got -1, expected a whole"),
    ([{"event": "stock", "rows": [{"instance_type": "x", "count": 1}]}], "scenario[0].rows[0]: got"),
    ([{"event": "outcomes", "rows": [{"outcome": "x"}]}], 'scenario[0].rows[0].outcome: got "x", expected'),
    ([{"event": "evict", "share": 2}], "scenario[0].share: got 2, expected a number, 0 or more, 1 at most"),
    ([{"event": "evict", "market": "grey"}], 'scenario[0].market: got "grey", expected one of'),
    ([{"event": "evict", "count": 1.5}], "scenario[0].count: got 1.5, expected a whole number"),
    ([{"event": "evict", "journal": "no"}], 'scenario[0].journal: got "no", expected true or false'),
    ([{"event": "delete", "disks": "burn"}], 'scenario[0].disks: got "burn", expected one of keep'),
    ([{"event": "fail", "into": "discontinued"}], 'scenario[0].into: got "discontinued", expected a status'),
    ([{"event": "balance"}], "scenario[0].amount: got null, expected an amount of money"),
    ([{"event": "catalogue", "prices": {"a": 1}}], "scenario[0].prices.a: got 1, expected an object with"),
    ([{"event": "plant", "things": []}], "scenario[0].things: got [], expected a list of things to plant"),
    ([{"event": "plant", "things": [{"tree": {}}]}], "scenario[0].things[0]: got"),
    (
        [{"event": "plant", "things": [{"instance": {"hostname": "-"}}]}],
        "scenario[0].things[0].instance: got",
    ),
    ([{"event": "plant", "things": [{"instance": {}}]}], "scenario[0].things[0].instance.hostname: got null"),
    (
        [{"event": "plant", "things": [{"disk": {"name": "d", "where": "attached"}}]}],
        "scenario[0].things[0].disk.instance: got null, expected a hostname",
    ),
    (
        [{"event": "plant", "things": [{"script": {"name": "s", "size": 1}}]}],
        "scenario[0].things[0].script.size: got 1, expected no such key",
    ),
]


@pytest.mark.parametrize(("raw", "sentence"), BAD)
def test_a_bad_scenario_names_the_key_and_changes_nothing(raw: Any, sentence: str) -> None:
    cloud = Cloud()
    good = {"event": "balance", "amount": 1}
    status, _, message = refusal(cloud.send("PUT", "/_sandbox/scenario", raw))
    assert status == 400
    assert message.startswith(sentence)
    if isinstance(raw, list):
        answer = cloud.send("PUT", "/_sandbox/scenario", [good, *raw])
        assert refusal(answer)[2].startswith(sentence.replace("[0]", "[1]", 1))
    assert cloud.get("/balance")["amount"] == 10_000
    assert cloud.get("/_sandbox/scenario")["done"] == []


# -- events


def test_there_is_a_test_for_every_event() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'"{name}"' in text.partition("# -- events")[2] for name in EVENTS)


def crowd(cloud: Cloud, count: int, **words: Any) -> None:
    instance = {"hostname": "spot-{n}", "is_spot": True, "count": count, **words}
    happen(cloud, "plant", things=[{"instance": instance}])


def test_a_wave_takes_a_share_of_the_spot_machines_of_a_type_and_place_over_a_time() -> None:
    cloud = Cloud()
    crowd(cloud, 20, instance_type="1A100.22V", location_code="FIN-01")
    crowd(cloud, 5, instance_type="1A100.22V", location_code="FIN-02")
    happen(cloud, "plant", things=[{"instance": {"hostname": "steady", "location_code": "FIN-01"}}])
    told = happen(cloud, "evict", location="FIN-01", instance_type="1A100.22V", share=0.5, over_s=60)
    assert len(set(told["ids"])) == 10
    assert len(cloud.get("/instances")) == 26
    cloud.wait(30)
    assert 16 < len(cloud.get("/instances")) < 26
    cloud.wait(30)
    left = cloud.get("/instances")
    assert len(left) == 16
    assert sum(one["location"] == "FIN-02" for one in left) == 5


def test_an_eviction_is_in_the_journal_or_not_as_it_is_configured() -> None:
    for knob, journal, reasons in (
        (True, None, ["evicted_by_on_demand"]),
        (False, None, []),
        (True, False, []),
        (False, True, ["evicted_by_on_demand"]),
    ):
        cloud = Cloud(evictions_in_journal=knob)
        crowd(cloud, 1)
        told = happen(cloud, "evict", **({} if journal is None else {"journal": journal}))
        events = cloud.get(f"/journal/compute/{told['ids'][0]}")
        assert [e["properties"]["delete_reason"] for e in events if e["properties"]] == reasons


def test_the_stock_of_evicted_machines_is_gone_or_comes_back() -> None:
    for give_back, free in ((False, False), (True, True)):
        cloud = Cloud()
        happen(cloud, "stock", rows=[{"instance_type": "CPU.4V.16G", "market": "spot", "count": 1}])
        crowd(cloud, 1)
        happen(cloud, "evict", count=1, return_stock=give_back)
        where = "/instance-availability/CPU.4V.16G?is_spot=true&location_code=FIN-03"
        assert cloud.get(where) is free


def test_somebody_deletes_a_machine_in_the_console() -> None:
    for disks, live, trash in (("keep", 1, 0), ("trash", 0, 1), ("destroy", 0, 0)):
        cloud = Cloud()
        instance_id = cloud.running()
        assert happen(cloud, "delete", hostname="home-*", disks=disks)["ids"] == [instance_id]
        assert cloud.get(f"/journal/compute/{instance_id}")[0]["request_origin"] == "console"
        cloud.wait(30 + 120)
        assert cloud.status(instance_id) == "discontinued"
        assert (len(cloud.get("/volumes")), len(cloud.get("/volumes/trash"))) == (live, trash)


def test_somebody_shuts_a_machine_down_and_it_goes_on_costing() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    happen(cloud, "shut_down", id=instance_id)
    cloud.wait(10)
    assert cloud.status(instance_id) == "offline"
    before = cloud.state()["meter"]["instances"]
    cloud.wait(3600)
    assert cloud.state()["meter"]["instances"] == pytest.approx(before + 1.29, abs=1e-3)


@pytest.mark.parametrize("status", ["error", "unknown", "notfound", "never-seen-before"])
def test_a_machine_that_runs_ends_in_a_status_that_is_no_good(status: str) -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    happen(cloud, "fail", id=instance_id, into=status, error="GPU_QUOTA_EXCEEDED")
    assert cloud.status(instance_id) == status
    assert [one["status"] for one in cloud.get("/instances")] == [status]
    assert cloud.get(f"/journal/compute/{instance_id}")[0]["error_message"] == "GPU_QUOTA_EXCEEDED"
    assert cloud.delete(instance_id).status == 202


def test_a_balance_that_runs_out_takes_everything_with_it() -> None:
    cloud = Cloud()
    instance_id = cloud.running()
    kept = cloud.send(
        "POST", "/volumes", {"type": "NVMe", "name": "data", "size": 10, "location_code": "FIN-03"}
    ).body.decode()
    happen(cloud, "balance", amount=0)
    cloud.wait(1)
    assert cloud.status(instance_id) == "discontinued"
    assert cloud.get("/volumes") == []
    assert kept in {one["id"] for one in cloud.get("/volumes/trash")}
    assert refusal(cloud.send("POST", "/instances", ORDER))[:2] == (402, "insufficient_funds")


def test_the_catalogue_changes_step_by_step() -> None:
    cloud = Cloud()

    def types() -> dict[str, Any]:
        return {row["instance_type"]: row for row in cloud.get("/instance-types")}

    happen(cloud, "catalogue", prices={"1A100.22V": {"price_per_hour": "1.79"}}, removed_types=["1V100.6V"])
    happen(cloud, "catalogue", prices={"2A100.44V": {"spot_price": "0.5"}})
    happen(
        cloud, "catalogue", added_types={"1H400.40V": "1H100.80S.30V"}, renamed_types={"1L40S.20V": "1L40X"}
    )
    happen(cloud, "catalogue", supported_os={"1A100.22V": ["ubuntu-24.04"]})
    found = types()
    assert (found["1A100.22V"]["price_per_hour"], found["2A100.44V"]["spot_price"]) == ("1.790", "0.5000")
    assert {"1H400.40V", "1L40X"} < set(found)
    assert {"1V100.6V", "1L40S.20V"}.isdisjoint(found)
    assert found["1A100.22V"]["supported_os"] == ["ubuntu-24.04"]
    assert [one["image_type"] for one in cloud.get("/images?instance_type=1A100.22V")] == ["ubuntu-24.04"]
    assert found["1H400.40V"]["id"] != found["1H100.80S.30V"]["id"]
    happen(cloud, "catalogue", returned_types=["1V100.6V"])
    assert "1V100.6V" in types()


def test_a_type_that_appeared_is_bought_from_the_stock_of_the_one_it_is_like() -> None:
    cloud = Cloud(added_types={"1H400.40V": "1H100.80S.30V"}, prices={"1H400.40V": {"price_per_hour": 9}})
    happen(cloud, "stock", rows=[{"instance_type": "1H100.80S.30V", "count": 1}])
    instance_id = cloud.create(instance_type="1H400.40V")
    assert cloud.get(f"/instances/{instance_id}")["price_per_hour"] == 9
    assert cloud.send("POST", "/instances", {**ORDER, "instance_type": "1H400.40V"}).status == 503


def test_credentials_are_rotated() -> None:
    cloud = Cloud()
    cloud.get("/balance")
    happen(cloud, "revoke_tokens", credentials="id:new")
    assert cloud.send("GET", "/balance").status == 401
    grant = {"grant_type": "client_credentials", "client_id": "id", "client_secret": "secret"}
    assert cloud.send("POST", "/oauth2/token", grant).status == 401
    assert cloud.send("POST", "/oauth2/token", {**grant, "client_secret": "new"}).status == 200


def test_creates_fail_later_by_share_with_their_own_words_and_get_stuck_anywhere() -> None:
    cloud = Cloud()
    rows = [{"outcome": "error", "share": 0.5, "times": 0, "error": "GPU_QUOTA_EXCEEDED"}]
    happen(cloud, "outcomes", rows=rows)
    ids = [cloud.create(hostname=f"m{number}") for number in range(40)]
    cloud.wait(200)
    failed = [one for one in ids if cloud.status(one) == "error"]
    assert 10 < len(failed) < 30
    assert cloud.get(f"/journal/compute/{failed[0]}")[0]["error_message"] == "GPU_QUOTA_EXCEEDED"
    happen(cloud, "outcomes", rows=[{"outcome": "stuck", "stuck_in": "ordered"}])
    stuck = cloud.create()
    cloud.wait(10_000)
    assert cloud.status(stuck) == "ordered"
    assert cloud.delete(stuck).status == 202


def test_quotas_change_while_the_cloud_runs() -> None:
    cloud = Cloud()
    cloud.create()
    happen(cloud, "settings", values={"instance_quota": 1})
    assert refusal(cloud.send("POST", "/instances", ORDER))[2] == "Instance limit exceeded"
    happen(cloud, "settings", values={"instance_quota": None, "vcpu_quota": 30})
    assert refusal(cloud.send("POST", "/instances", ORDER))[2] == "vCPU limit exceeded"


def test_foreign_things_orphans_and_look_alikes_are_planted() -> None:
    cloud = Cloud()
    told = happen(
        cloud,
        "plant",
        things=[
            {"instance": {"hostname": "home-a100-{n}", "description": "somebody's", "count": 3}},
            {"instance": {"hostname": "coming", "running": False}},
            {"disk": {"name": "home-a100-abcdefghij", "os_image": "ubuntu-24.04"}},
            {
                "disk": {
                    "name": "thrown",
                    "where": "trash",
                    "tags": [{"key": "gpuas-cluster", "value": "home"}],
                }
            },
            {"disk": {"name": "gone", "where": "destroyed"}},
            {"disk": {"name": "data", "where": "attached", "instance": "home-a100-1"}},
            {"script": {"name": "gpuas-home-{n}", "script": "#!/bin/bash\n# gpuas home {n}\n", "count": 12}},
            {"ssh_key": {"name": "me"}},
        ],
    )
    assert [(one["kind"], len(one["ids"])) for one in told["planted"]] == [
        ("instance", 3), ("instance", 1), ("disk", 1), ("disk", 1), ("disk", 1), ("disk", 1), ("script", 12),
        ("ssh_key", 1),
    ]  # fmt: skip
    shown = {one["hostname"]: one for one in cloud.get("/instances")}
    assert sorted(shown) == ["coming", "home-a100-0", "home-a100-1", "home-a100-2"]
    assert (shown["coming"]["status"], shown["home-a100-0"]["status"]) == ("ordered", "running")
    disks = {one["name"]: one for one in cloud.get("/volumes")}
    assert disks["home-a100-abcdefghij"]["status"] == "detached"
    assert disks["data"]["instance_id"] == shown["home-a100-1"]["id"]
    assert [one["name"] for one in cloud.get("/volumes/trash")] == ["thrown"]
    assert "home-a100-abcdefghij" not in [one["name"] for one in cloud.get("/scripts")]
    assert len(cloud.get("/scripts?page=2")) == 2
    assert cloud.state()["creates"] == 0
    assert cloud.get(f"/journal/compute/{shown['coming']['id']}")[0]["request_origin"] == "console"


# -- files


SCENARIO = """
- {fault: lose_after, method: POST, path: /instances, nth: 2}
- {event: plant, things: [{instance: {hostname: stranger}}]}
- {event: evict, share: 0.5, over_s: 120, at_s: 600}
- {event: balance, amount: 0, at_s: 3600}
"""


def test_a_scenario_file_is_yaml_or_json(tmp_path: Path) -> None:
    yaml, json = tmp_path / "s.yaml", tmp_path / "s.json"
    yaml.write_text(SCENARIO)
    json.write_text('{"scenario": [{"event": "revoke_tokens"}]}')
    assert [entry.at_s for entry in read_scenario_file(str(yaml))] == [0, 0, 600, 3600]
    assert len(read_scenario_file(str(json))) == 1
    bad = tmp_path / "bad.yaml"
    bad.write_text("[")
    for path, sentence in ((bad, "scenario_file: got"), (tmp_path / "none", "scenario_file: got")):
        with pytest.raises(BadSetting, match=sentence):
            read_scenario_file(str(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[{event: explode}]", 'scenario[0].event: got "explode", expected one of settings'),
        ("{}", "scenario: got {}, expected a list of faults and events"),
        ("[", "scenario_file: got"),
    ],
)
async def test_with_a_bad_scenario_the_program_does_not_start(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    code, out, complaint = await cli("sandbox", "cloud", "--scenario", str(path), env={})
    assert (code, out) == (2, "")
    assert complaint.startswith(sentence)


async def test_the_program_prints_its_description() -> None:
    code, out, _ = await cli("sandbox", "cloud", "--openapi", env={})
    assert code == 0
    assert json.loads(out) == json.loads(json.dumps(description()))


def test_faults_of_a_scenario_are_those_of_the_faults_path() -> None:
    rules = [{"fault": "hang"}, {"fault": "answer", "status": 503}]
    assert [entry.rule for entry in read_scenario({"faults": rules})] == [
        entry.rule for entry in read_scenario(rules)
    ]


def test_a_settings_file_says_knobs_stock_and_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "knobs.yaml"
    path.write_text("boot_s: {p50: 90, p99: 600}\nstock: [{count: 0}]\noutcomes: [{outcome: stuck}]\n")
    world = build(read_file(str(path)), speed=1, seed=0, credentials=None)
    assert world.state.settings.shown()["boot_s"] == {"p50": 90.0, "p99": 600.0}
    assert not world.state.stock.has(("1A100.22V", "FIN-01", "spot"))
    assert len(world.state.outcomes) == 1
