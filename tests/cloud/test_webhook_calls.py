"""The calls that switch machines, as values: what is sent, and what every answer means."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from controller.cloud.webhook.calls import Keys, Target, Way, outcome_of, power_of, to_ask, to_switch
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.reason import Reason

NOW = 1_800_000_000.7
PLAIN = Target(name="gpu-worker-1", gpus=4, on="http://power/on/1", off="http://power/off/1")
WORDS = {
    "means_on": ("on", "running", "poweredon", "true", "1"),
    "means_off": ("off", "stopped", "poweroff", "false", "0"),
}


def made(**way: object) -> Target:
    return Target(name="w1", gpus=4, on="http://power/on", off="http://power/off", way=Way(**way))  # type: ignore[arg-type]


def test_by_default_it_is_the_plain_post_of_an_empty_object() -> None:
    request = to_switch(PLAIN, True, "k-on", Keys(), NOW)
    assert (request.method, request.url, request.body) == ("POST", "http://power/on/1", b"{}")
    assert request.headers == {"Content-Type": "application/json", "Idempotency-Key": "k-on"}
    assert to_switch(PLAIN, False, "k-off", Keys(), NOW).url == "http://power/off/1"


def test_placeholders_are_filled_in_and_other_dollars_stay() -> None:
    target = made(
        body='{"a": "${action}", "m": "${machine}", "n": ${gpus}, "k": "${id}", "$": "${"}',
        headers={"X": "${machine}"},
    )
    request = to_switch(target, False, "k", Keys(), NOW)
    assert request.body == b'{"a": "off", "m": "w1", "n": 4, "k": "k", "$": "${"}'
    assert request.headers["X"] == "w1"


def test_a_get_carries_no_body() -> None:
    request = to_switch(made(method="GET"), True, "k", Keys(), NOW)
    assert request.body == b""
    assert "Content-Type" not in request.headers


def test_proofs_of_every_kind() -> None:
    assert to_switch(PLAIN, True, "k", Keys(bearer="t"), NOW).headers["Authorization"] == "Bearer t"
    basic = to_switch(made(username="me"), True, "k", Keys(password="p:ä"), NOW).headers["Authorization"]
    assert base64.b64decode(basic.removeprefix("Basic ")).decode() == "me:p:ä"
    assert to_switch(made(key_header="X-Api-Key"), True, "k", Keys(key="s"), NOW).headers["X-Api-Key"] == "s"


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("stamped", [False, True])
def test_the_signature_is_of_what_is_sent(algorithm: str, stamped: bool) -> None:
    target = made(algorithm=algorithm, timestamp_header="X-Time" if stamped else "")
    request = to_switch(target, True, "k", Keys(signing="secret"), NOW)
    text = b"1800000000.{}" if stamped else b"{}"
    digest = hmac.new(b"secret", text, getattr(hashlib, algorithm)).hexdigest()
    assert request.headers["X-Signature-256"] == f"{algorithm}={digest}"
    assert request.headers.get("X-Time") == ("1800000000" if stamped else None)


def test_secrets_are_in_no_text_of_a_request() -> None:
    keys = Keys(bearer="hunter2", signing="hunter2", key="hunter2", password="hunter2")
    target = Target(name="w", gpus=1, on="http://p/?t=hunter2", off="http://p/off")
    assert "hunter2" not in repr(keys) + str(keys) + repr(to_switch(target, True, "k", keys, NOW))


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (200, Happened, None), (202, Happened, None), (204, Happened, None), (299, Happened, None),
        (301, Unknown, None), (302, Unknown, None), (304, Unknown, None), (307, Unknown, None),
        (400, Refused, Reason.BAD_REQUEST), (401, Refused, Reason.UNAUTHORISED), (403, Refused, Reason.UNAUTHORISED),
        (404, Refused, Reason.BAD_REQUEST), (405, Refused, Reason.BAD_REQUEST), (422, Refused, Reason.BAD_REQUEST),
        (408, Unknown, None), (409, Unknown, None), (425, Unknown, None), (429, Refused, Reason.RATE_LIMITED),
        (500, Unknown, None), (502, Unknown, None), (503, Unknown, None), (504, Unknown, None), (100, Unknown, None),
    ],
)  # fmt: skip
def test_what_each_status_means(status: int, kind: type, reason: Reason | None) -> None:
    found = outcome_of(Way(), status, "power:80")
    assert isinstance(found, kind)
    assert getattr(found, "reason", None) is reason
    if not isinstance(found, Happened):
        assert found.message == f"power:80 answered {status}"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("status", "answered"),
    [
        (409, True), (425, True), (500, True), (501, True), (200, False), (302, False), (307, False), (408, False),
        (502, False), (503, False), (504, False),
    ],
)  # fmt: skip
def test_only_an_error_of_the_machine_itself_counts_as_answered_by_it(status: int, answered: bool) -> None:
    """Where nothing else is answered for long it is believed to be off: a proxy, or a page to log in, says nothing of it."""
    found = outcome_of(Way(success=((202, 202),)), status, "power:80")
    assert isinstance(found, Unknown)
    assert found.answered is answered


def test_other_codes_may_be_success() -> None:
    way = Way(success=((202, 202), (302, 302)))
    assert isinstance(outcome_of(way, 302, "p"), Happened)
    assert isinstance(outcome_of(way, 200, "p"), Unknown)


@pytest.mark.parametrize(
    ("text", "pause"), [("7", 7.0), ("", None), ("soon", None), ("99999999", 300.0), ("-1", None)]
)
def test_the_pause_that_a_server_asks_for_is_heeded_up_to_five_minutes(
    text: str, pause: float | None
) -> None:
    found = outcome_of(Way(), 429, "p", text)
    assert isinstance(found, Refused)
    assert found.retry_after == pause


@pytest.mark.parametrize(
    ("field", "body", "power"),
    [
        ("", b"on", "on"), ("", b" Powered_On\n", "on"), ("", b'"off"', "off"), ("", b"true", "on"), ("", b"0", "off"),
        ("", b"\xef\xbb\xbfon", "on"),
        ("power.state", b'{"power": {"state": "Power-Off"}}', "off"), ("power.state", b'{"power": {"state": 1}}', "on"),
        ("power.state", b'{"power": "on"}', ""), ("power.state", b"on", ""), ("power.state", b"[]", ""),
        ("", b"", ""), ("", b"maybe", ""), ("", b"\xff\xfe", ""), ("", b"{}", ""), ("on", b'{"on": false}', "off"),
        ("a", b'{"a": null}', ""), ("a", b'{"a": 1.5}', ""), ("", b"[" * 100_000, ""),
    ],
)  # fmt: skip
def test_what_a_status_answer_says(field: str, body: bytes, power: str) -> None:
    assert power_of(Way(field=field, **WORDS), body) == power


def test_the_question_for_the_status_is_a_get_with_the_same_proofs() -> None:
    target = Target(name="w", gpus=1, on="http://p/on", off="http://p/off", status="http://p/status")
    request = to_ask(target, Keys(bearer="t"), NOW)
    assert (request.method, request.url, request.body) == ("GET", "http://p/status", b"")
    assert request.headers["Authorization"] == "Bearer t"
