from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.faults import FAULTS, Faults
from controller.sandbox.wire import Request, Response

CREATE = Request.of("POST", "/v1/instances")


def _faults(*rules: dict[str, Any]) -> Faults:
    faults = Faults()
    faults.replace(list(rules))
    return faults


def _hits(faults: Faults, request: Request, count: int) -> list[bool]:
    return [faults.choose(request) is not None for _ in range(count)]


def test_a_rule_hits_the_nth_match_as_often_as_it_says() -> None:
    faults = _faults({"method": "POST", "path": "/instances", "nth": 2, "times": 2, "fault": "hang"})
    assert _hits(faults, CREATE, 5) == [False, True, True, False, False]
    shown = faults.shown()["faults"][0]
    assert (shown["matched"], shown["fired"]) == (5, 2)
    assert _hits(_faults({"times": 0, "fault": "hang"}), CREATE, 4) == [True] * 4


@pytest.mark.parametrize(
    ("path", "target", "matches"),
    [
        ("/instances", "/v1/instances", True),
        ("/v1/instances", "/instances", True),
        ("/instances", "/instances/1", False),
        ("/instances/*", "/v1/v1/instances/1", True),
        ("*", "/anything", True),
        ("/api/v1/pods*", "/api/v1/pods/a", True),
        ("/instances[1]", "/instances1", False),
    ],
)
def test_paths_match_with_wildcards_and_without_regard_to_the_version(
    path: str, target: str, matches: bool
) -> None:
    assert _hits(_faults({"path": path, "fault": "hang"}), Request.of("GET", target), 1) == [matches]


def test_of_two_rules_that_are_due_only_the_first_is_spent() -> None:
    faults = _faults({"fault": "answer", "status": 503}, {"fault": "answer", "status": 502})
    chosen = [faults.choose(CREATE) for _ in range(3)]
    assert [rule.status if rule else None for rule in chosen] == [503, 502, None]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (
            {"fault": "explode"},
            'faults[0].fault: got "explode", expected one of delay_answer, drip, lose_before',
        ),
        ({"fault": "hang", "nth": 0}, "faults[0].nth: got 0, expected an integer from 1"),
        ({"fault": "hang", "speed": 1}, "faults[0].speed: got 1, expected no such key"),
        ({"fault": "delay_answer"}, "faults[0].seconds: got null, expected a number of seconds"),
        ({"fault": "answer", "status": 42}, "faults[0].status: got 42, expected an integer from 200 to 599"),
        ({"fault": "hang", "share": 2}, "faults[0].share: got 2, expected a number from 0 to 1"),
        ({"fault": "leave_out", "rows": "x"}, 'faults[0].rows: got "x", expected a list of ids'),
        ({"fault": "drip"}, "faults[0].seconds: got null, expected a number of seconds"),
        ({"fault": "total_above", "count": 0}, "faults[0].count: got 0, expected an integer from 1"),
        ({"fault": "hang", "headers": {"a": 1}}, 'faults[0].headers: got {"a": 1}, expected an object'),
        ({"fault": "hang", "path": ""}, 'faults[0].path: got "", expected a text that is not empty'),
    ],
)
def test_a_bad_rule_is_refused_by_name_and_changes_nothing(rule: dict[str, Any], sentence: str) -> None:
    faults = _faults({"fault": "hang"})
    answer = faults.handle(Request.of("PUT", "/v1/_sandbox/faults", [rule]))
    assert answer is not None
    assert answer.status == 400
    assert answer.json()["message"].startswith(sentence)
    assert len(faults.rules) == 1


def test_a_rule_may_hit_only_bodies_that_contain_something() -> None:
    faults = _faults({"contains": "home-a100", "times": 0, "fault": "hang"})
    bodies = [b'{"hostname":"home-a100-x"}', b'{"hostname":"other"}']
    requests = [Request.of("POST", "/v1/instances", body) for body in bodies]
    assert [faults.choose(request) is not None for request in requests] == [True, False]


def test_a_share_of_the_requests_is_hit_and_the_same_ones_each_time() -> None:
    rule = {"times": 0, "share": 0.3, "fault": "answer", "status": 429}
    first, second = _hits(_faults(rule), CREATE, 1000), _hits(_faults(rule), CREATE, 1000)
    assert first == second
    assert 240 < sum(first) < 360
    assert _hits(_faults({**rule, "share": 0}), CREATE, 100) == [False] * 100


def test_rules_are_replaced_shown_and_removed() -> None:
    faults = Faults()
    put = faults.handle(Request.of("PUT", "/_sandbox/faults", {"faults": [{"fault": "quoted"}]}))
    get = faults.handle(Request.of("GET", "/v1/_sandbox/faults"))
    assert put
    assert get
    assert put.json() == get.json()
    faults.handle(Request.of("DELETE", "/_sandbox/faults"))
    assert faults.rules == []
    assert faults.handle(Request.of("GET", "/instances")) is None


@pytest.mark.parametrize(
    ("rule", "status", "body"),
    [
        ({"fault": "answer", "status": 503, "body": "<html>"}, 503, b"<html>"),
        ({"fault": "answer_after", "status": 500, "body": {"code": "x"}}, 500, b'{"code":"x"}'),
        ({"fault": "quoted"}, 202, b'"id"'),
        ({"fault": "newline"}, 202, b"id\n"),
        ({"fault": "empty"}, 202, b""),
    ],
)
def test_what_a_rule_answers(rule: dict[str, Any], status: int, body: bytes) -> None:
    chosen = _faults(rule).choose(CREATE)
    assert chosen
    answer = chosen.answer(Response(202, b"id"))
    assert (answer.status, answer.body) == (status, body)


ROWS = [{"id": "1", "hostname": "a"}, {"id": "2", "hostname": "b"}, {"id": "3", "name": "c"}]


@pytest.mark.parametrize(
    ("rule", "left", "total"),
    [
        ({"fault": "leave_out", "rows": ["b"]}, ["1", "3"], None),
        ({"fault": "leave_out", "rows": ["1", "c"]}, ["2"], None),
        ({"fault": "leave_out"}, [], None),
        ({"fault": "total_above"}, ["1", "2", "3"], "4"),
        ({"fault": "total_above", "count": 5}, ["1", "2", "3"], "8"),
    ],
)
def test_a_list_can_come_with_gaps(rule: dict[str, Any], left: list[str], total: str | None) -> None:
    chosen = _faults(rule).choose(Request.of("GET", "/v1/instances"))
    assert chosen
    answer = chosen.answer(Response.of_json(200, ROWS))
    assert [row["id"] for row in answer.json()] == left
    assert answer.headers.get("X-Total-Count") == total


def test_a_fault_for_lists_leaves_other_answers_alone() -> None:
    chosen = _faults({"fault": "leave_out"}).choose(CREATE)
    assert chosen
    assert chosen.answer(Response(202, b"id")).body == b"id"


def test_a_body_that_is_no_json_is_refused() -> None:
    answer = Faults().handle(Request("PUT", "/_sandbox/faults", body=b"[" * 100_000))
    assert answer
    assert answer.status == 400
    assert answer.json()["message"].endswith("expected JSON")


def test_every_fault_says_what_it_does() -> None:
    assert all(fault.text for fault in FAULTS.values())
