from __future__ import annotations

from typing import Any

import pytest

from controller.sandbox.faults import Faults
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
        ({"fault": "explode"}, 'faults[0].fault: got "explode", expected one of delay_answer, lose_before'),
        ({"fault": "hang", "nth": 0}, "faults[0].nth: got 0, expected an integer from 1"),
        ({"fault": "hang", "speed": 1}, "faults[0].speed: got 1, expected no such key"),
        ({"fault": "delay_answer"}, "faults[0].seconds: got null, expected a number of seconds"),
        ({"fault": "answer", "status": 42}, "faults[0].status: got 42, expected an integer from 200 to 599"),
    ],
)
def test_a_bad_rule_is_refused_by_name_and_changes_nothing(rule: dict[str, Any], sentence: str) -> None:
    faults = _faults({"fault": "hang"})
    answer = faults.handle(Request.of("PUT", "/v1/_sandbox/faults", [rule]))
    assert answer is not None
    assert answer.status == 400
    assert answer.json()["message"].startswith(sentence)
    assert len(faults.rules) == 1


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
    ],
)
def test_what_a_rule_answers(rule: dict[str, Any], status: int, body: bytes) -> None:
    chosen = _faults(rule).choose(CREATE)
    assert chosen
    answer = chosen.answer(Response(202, b"id"))
    assert (answer.status, answer.body) == (status, body)
