"""Scenarios: faults and events at their time, from a file, at the start or into a cloud that runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller.sandbox.cloud.command import build, read_file, read_scenario_file
from controller.sandbox.cloud.knobs import BadSetting
from controller.sandbox.cloud.openapi import description
from controller.sandbox.cloud.scenario import read_scenario
from controller.sandbox.wire import Request
from tests.cli.commands import cli

from .world import Cloud, refusal


def begin(cloud: Cloud, *entries: dict[str, Any]) -> None:
    cloud.control("PUT", "scenario", list(entries))


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
