"""The transport over real sockets: time-outs, lost answers, tokens, connections, and what is proven sent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from controller.cloud.verda.sdk import Session
from controller.cloud.verda.wire import Trouble
from controller.domain.reason import Reason
from tests.cloud.verda_stub import ID, SECRET, Reply, Seen, Stub, refusal, stub


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub() as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


def session(url: str, clock: Clock | None = None, **words: Any) -> Session:
    words = {"client_id": "client-of-ours", "client_secret": SECRET, "read_timeout": 2, **words}
    return Session(base_url=url, monotonic=clock or Clock(), **words)


def trouble(made: Session, method: str = "GET", path: str = "/instances", **words: Any) -> Trouble:
    with pytest.raises(Trouble) as caught:
        made.call(method, path, **words)
    assert SECRET not in str(caught.value)
    assert "token-" not in str(caught.value)
    assert "\n" not in caught.value.message
    return caught.value


def test_an_answer_keeps_its_status_headers_and_text(server: Stub) -> None:
    server.on("GET", "/x", Reply(418, "tea ☕", {"X-Total-Count": "7"}))
    answer = session(server.url).call("GET", "/x", params={"page": "2"})
    assert (answer.status, answer.text, answer.header("x-total-COUNT")) == (418, "tea ☕", "7")
    seen = server.of("GET", "/x")[0]
    assert seen.query == {"page": "2"}
    assert seen.headers["authorization"] == "Bearer token-1"
    assert seen.headers["user-agent"]


@pytest.mark.parametrize("ending", ["", "/", "//"])
def test_the_base_url_may_end_with_a_slash(server: Stub, ending: str) -> None:
    server.on("GET", "/instances", Reply(200, []))
    assert session(server.url + ending).call("GET", "/instances").status == 200


def test_nothing_is_sent_before_the_first_call(server: Stub) -> None:
    session(server.url)
    assert server.connections == 0


def test_reads_share_one_connection_and_a_post_has_its_own(server: Stub) -> None:
    server.on("GET", "/instances", Reply(200, []))
    server.on("POST", "/instances", Reply(202, ID))
    made = session(server.url)
    for _ in range(5):
        made.call("GET", "/instances")
    made.call("POST", "/instances", json={})
    made.call("GET", "/instances")
    reads = {seen.connection for seen in server.of("GET", "/instances")}
    assert len(reads) == 1
    assert server.of("POST", "/instances")[0].connection not in reads
    assert server.connections == 3  # the token's, the reads', the order's


def test_a_connection_that_was_idle_for_long_is_not_used_again(server: Stub, clock: Clock) -> None:
    server.on("GET", "/instances", Reply(200, []))
    made = session(server.url, clock)
    for pause in (0.0, 14.9, 15.1):
        clock.now += pause
        made.call("GET", "/instances")
    first, second, third = (seen.connection for seen in server.of("GET", "/instances"))
    assert first == second
    assert third != second


def test_a_redirection_is_answered_and_not_followed(server: Stub) -> None:
    server.on("GET", "/instances", Reply(302, "", {"Location": f"{server.url}/elsewhere"}))
    assert session(server.url).call("GET", "/instances").status == 302
    assert server.of("GET", "/elsewhere") == []


def test_a_netrc_never_replaces_the_token(
    server: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password mine\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server.on("GET", "/instances", Reply(200, []))
    session(server.url).call("GET", "/instances")
    assert server.of("GET", "/instances")[0].headers["authorization"] == "Bearer token-1"


# ---- what is proven


def test_an_answer_that_does_not_come_in_time_is_unknown(server: Stub) -> None:
    server.on("POST", "/instances", Reply(fault="hang"))
    found = trouble(session(server.url, read_timeout=0.3), "POST", "/instances", json={})
    assert (found.kind, found.message) == ("unknown", "POST /instances: no answer within 0.3 s")
    assert len(server.of("POST", "/instances")) == 1


def test_a_connection_reset_after_the_request_is_unknown_and_sent_once(server: Stub) -> None:
    server.on("POST", "/instances", Reply(fault="reset"))
    found = trouble(session(server.url), "POST", "/instances", json={})
    assert (found.kind, found.message) == (
        "unknown",
        "POST /instances: the connection was lost before an answer came",
    )
    assert len(server.of("POST", "/instances")) == 1


def test_a_refused_connection_is_not_sent(server: Stub) -> None:
    made = session(server.url)
    server.on("GET", "/instances", Reply(200, []))
    made.call("GET", "/instances")
    made._http._base_url = made._tokens._base_url = "http://127.0.0.1:1/v1"
    found = trouble(made, "POST", "/instances", json={})
    assert (found.kind, found.message) == ("not_sent", "POST /instances: the connection was refused")


def test_a_server_that_does_not_accept_is_not_sent() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        found = trouble(session(url, connect_timeout=0.05))
    assert (found.kind, found.reason) == ("not_sent", Reason.UNAVAILABLE)
    assert "no connection within 0.05 s" in found.message


def test_a_failed_handshake_is_not_sent(server: Stub) -> None:
    found = trouble(session(f"https://{server.host}/v1"), "POST", "/instances", json={})
    assert found.kind == "not_sent"
    assert "TLS failed" in found.message
    assert server.seen == []


@pytest.mark.parametrize(
    "url",
    ["", "api.verda.com/v1", "ftp://127.0.0.1/v1", "http://", "http://nowhere.invalid/v1", "http://a..b/v1"],
)
def test_a_bad_base_url_is_not_sent(url: str) -> None:
    assert trouble(session(url), "POST", "/instances", json={}).kind == "not_sent"


def test_a_proxy_that_refuses_the_way_is_not_sent(server: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.setenv("HTTPS_PROXY", f"http://{server.host}")  # it does not know CONNECT
    found = trouble(session("https://nowhere.invalid/v1"), "POST", "/instances", json={})
    assert (found.kind, found.reason) == ("not_sent", Reason.UNAVAILABLE)


def test_after_its_moment_nothing_is_sent_even_with_a_connection(server: Stub, clock: Clock) -> None:
    server.on("POST", "/instances", Reply(202, ID))
    made = session(server.url, clock)
    found = trouble(made, "POST", "/instances", json={}, not_after=clock.now - 1)
    assert (found.kind, found.message) == ("not_sent", "POST /instances: it was too late to send it")
    assert server.of("POST", "/instances") == []
    assert made.call("POST", "/instances", json={}, not_after=clock.now + 1).text == ID


@pytest.mark.parametrize("value", ["", "..", "a/b", "a?b", "a b", "%2e"])
def test_an_id_never_walks_to_another_endpoint(server: Stub, value: str) -> None:
    found = trouble(session(server.url), "DELETE", "/volumes/{id}", path_params={"id": value})
    assert (found.kind, found.reason) == ("not_sent", Reason.BAD_REQUEST)
    assert server.seen == []


@pytest.mark.parametrize(
    ("method", "status"), [("GET", 400), ("PUT", 403), ("PUT", 202), ("PUT", 207), ("POST", 500)]
)
def test_an_error_that_repeats_the_request_shows_no_secret(server: Stub, method: str, status: int) -> None:
    """A 202 and a 207 may be errors, too. What is read stays as it came; what is told of it does not."""
    said = f"Bearer token-1, refresh-1, {SECRET}"
    server.on(method, "/x", Reply(status, said))
    answer = session(server.url).call(method, "/x")
    assert (answer.text, answer.hide(answer.text)) == (said, "Bearer ***, ***, ***")


@pytest.mark.parametrize(
    ("secret", "said", "told"),
    [
        ("hush", "hush, x-hush, 'hush', %3Dhush%26 and hushed", "***, x-***, '***', %3D***%26 and ***ed"),
        ("a", "a bad image: a, secret=a; K_a", "*** bad image: ***, secret=***; K_***"),
        ("a1", "a1, a10, ba1", "***, a10, ba1"),
        (".*", "x.*y .*", "x.*y ***"),
        ("token-1-and-more", "token-1-and-more token-1", "*** ***"),
    ],
)
def test_a_secret_is_taken_out_of_words_and_a_very_short_one_where_it_stands_alone(
    server: Stub, secret: str, said: str, told: str
) -> None:
    """One of a letter or three is in many a word by chance, and a mask there would spell it."""
    server.on("GET", "/x", Reply(400, said))
    answer = session(server.url, client_secret=secret).call("GET", "/x")
    assert answer.hide(said) == told


# ---- tokens


def test_a_token_is_fetched_once_for_many_threads(server: Stub) -> None:
    server.on("GET", "/instances", Reply(200, []))
    made = session(server.url)
    together = threading.Barrier(8)

    def call() -> int:
        together.wait(5)
        return made.call("GET", "/instances").status

    with ThreadPoolExecutor(8) as threads:
        assert {one.result() for one in [threads.submit(call) for _ in range(8)]} == {200}
    assert len(server.tokens) == 1


def test_a_refused_token_is_replaced_once_for_many_threads(server: Stub) -> None:
    def only_the_second(seen: Seen) -> Reply:
        refused = seen.headers["authorization"] == "Bearer token-1"
        return refusal(401, "unauthorized_request", "expired") if refused else Reply(200, [])

    server.on("GET", "/instances", only_the_second)
    made = session(server.url)
    together = threading.Barrier(8)

    def call() -> int:
        together.wait(5)
        return made.call("GET", "/instances").status

    with ThreadPoolExecutor(8) as threads:
        assert {one.result() for one in [threads.submit(call) for _ in range(8)]} == {200}
    assert len(server.tokens) == 2


def test_a_token_is_refreshed_a_minute_before_it_ends(server: Stub, clock: Clock) -> None:
    server.on("GET", "/instances", Reply(200, []))
    made = session(server.url, clock)
    for pause in (0, 3539, 2):
        clock.now += pause
        made.call("GET", "/instances")
    assert [seen.headers["authorization"] for seen in server.of("GET", "/instances")] == [
        "Bearer token-1", "Bearer token-1", "Bearer token-2",
    ]  # fmt: skip
    assert server.tokens[1].body == {"grant_type": "refresh_token", "refresh_token": "refresh-1"}


def test_a_token_that_lives_shorter_than_the_margin_is_still_used(server: Stub, clock: Clock) -> None:
    server.token_life = 30
    server.on("GET", "/instances", Reply(200, []))
    made = session(server.url, clock)
    for pause in (0, 14):
        clock.now += pause
        made.call("GET", "/instances")
    assert len(server.tokens) == 1


@pytest.mark.parametrize("status", [400, 401, 500])
def test_a_refresh_that_fails_falls_back_to_the_credentials(server: Stub, clock: Clock, status: int) -> None:
    server.on("GET", "/instances", Reply(200, []))
    server.on("POST", "/oauth2/token", server.token(1), refusal(status, "x", "stale"), server.token(3))
    made = session(server.url, clock)
    made.call("GET", "/instances")
    clock.now += 4000
    assert made.call("GET", "/instances").status == 200
    assert [seen.body["grant_type"] for seen in server.tokens] == [
        "client_credentials", "refresh_token", "client_credentials",
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_401_is_answered_with_a_new_token_and_one_more_attempt(server: Stub, method: str) -> None:
    server.on(method, "/instances", refusal(401, "unauthorized_request", "expired"), Reply(202, ID))
    assert session(server.url).call(method, "/instances", json={}).text == ID
    assert [seen.headers["authorization"] for seen in server.of(method, "/instances")] == [
        "Bearer token-1", "Bearer token-2",
    ]  # fmt: skip
    assert [seen.body["grant_type"] for seen in server.tokens] == ["client_credentials"] * 2


def test_a_second_401_is_the_answer(server: Stub) -> None:
    server.on("GET", "/instances", refusal(401, "unauthorized_request", "no"))
    assert session(server.url).call("GET", "/instances").status == 401
    assert len(server.of("GET", "/instances")) == 2


def test_a_token_that_was_good_before_is_not_told_either(server: Stub) -> None:
    server.on(
        "GET", "/instances", refusal(401, "unauthorized_request", "no"), Reply(403, "token-1 was revoked")
    )
    answer = session(server.url).call("GET", "/instances")
    assert (answer.status, answer.hide(answer.text)) == (403, "*** was revoked")


@pytest.mark.parametrize("status", [400, 401, 403])
def test_refused_credentials_name_the_variables_to_check(server: Stub, status: int) -> None:
    server.on("POST", "/oauth2/token", refusal(status, "unauthorized_request", f"bad {SECRET}"))
    found = trouble(session(server.url), "POST", "/instances", json={})
    assert (found.kind, found.reason) == ("not_sent", Reason.UNAUTHORISED)
    assert "VERDA_CLIENT_ID and VERDA_CLIENT_SECRET" in found.message


def test_missing_credentials_are_told_without_a_call(server: Stub) -> None:
    found = trouble(session(server.url, client_secret=""))
    assert (found.kind, found.reason) == ("not_sent", Reason.UNAUTHORISED)
    assert "VERDA_CLIENT_SECRET" in found.message
    assert server.connections == 0


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, "oops"),
        Reply(302, "", {"Location": "http://127.0.0.1:1/"}),
        Reply(200, "<html>"),
        Reply(200, {"token": "x"}),
        Reply(200, []),
        Reply(200, {"access_token": "x", "expires_in": "soon"}),
        Reply(200, {"access_token": "x", "expires_in": "nan"}),
        Reply(200, {"access_token": "x", "expires_in": "-inf"}),
        Reply(200, {"access_token": "x", "expires_in": 10**400}),
        Reply(200, '{"access_token": "x", "expires_in": 1e400}'),
        Reply(fault="reset"),
        Reply(fault="hang"),
    ],
)
def test_without_a_token_nothing_was_sent(server: Stub, reply: Reply) -> None:
    server.on("POST", "/oauth2/token", reply)
    found = trouble(session(server.url, read_timeout=0.05), "POST", "/instances", json={})
    assert (found.kind, found.reason) == ("not_sent", Reason.UNAVAILABLE)
    assert server.of("POST", "/instances") == []


def test_a_limited_token_endpoint_says_when_to_come_back(server: Stub) -> None:
    server.on("POST", "/oauth2/token", Reply(429, "Rate limit!", {"Retry-After": "9"}))
    found = trouble(session(server.url))
    assert (found.reason, found.retry_after) == (Reason.RATE_LIMITED, 9.0)
