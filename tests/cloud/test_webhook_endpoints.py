"""Power endpoints over real HTTP: what every fault on the way is taken for, and what is told of it."""

from __future__ import annotations

import base64
import gc
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller.cloud.webhook.calls import Target, Way
from controller.cloud.webhook.endpoints import HttpEndpoints, Read, Sources, Unreadable
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason
from tests.power_server import Authority, PowerServer

SECRET = "hunter2-of-the-power-server"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("power-ca"))


@pytest.fixture
def server() -> Iterator[PowerServer]:
    with PowerServer() as made:
        yield made


def said(text: str) -> Read:
    async def read() -> str:
        return text

    return read


async def cannot() -> str:
    raise Unreadable("Secret power cannot be read: forbidden")


def one(url: str, way: dict[str, Any] | None = None, **sources: Read) -> HttpEndpoints:
    """Endpoints of one machine."""
    values: dict[str, Any] = {
        "timeout": 5.0,
        "means_on": ("on",),
        "means_off": ("off",),
        "field": "power.state",
    }
    target = Target(
        name="w1", gpus=1, on=f"{url}/on/w1", off=f"{url}/off/w1", status=f"{url}/status/w1",
        way=Way(**(values | (way or {}))),
    )  # fmt: skip
    return HttpEndpoints({"w1": target}, {"w1": Sources(**sources)}, lambda: 1_800_000_000.0)


async def call(endpoints: HttpEndpoints, key: str, *, machine: str = "w1", on: bool = True) -> Outcome:
    return await (await endpoints.prepare(machine, on))(key)


async def switched(url: str, way: dict[str, Any] | None = None, **sources: Read) -> Outcome:
    return await call(one(url, way, **sources), "key-on")


async def test_the_plain_call_reaches_the_server_as_the_webhook_controller_sends_it(
    server: PowerServer,
) -> None:
    assert await switched(server.url) == Happened()
    (heard,) = server.heard
    assert (heard.method, heard.path, heard.body) == ("POST", "/on/w1", "{}")
    assert heard.headers["content-type"] == "application/json"
    assert heard.key == "key-on"
    assert server.powers == {"w1": "on"}


async def test_its_status_is_asked(server: PowerServer) -> None:
    endpoints = one(server.url)
    assert await endpoints.ask("w1") == "off"
    await call(endpoints, "k")
    assert await endpoints.ask("w1") == "on"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (500, Unknown),
        ("reset", Unknown),
        ("hang", Unknown),
        (404, Refused),
        ("slow", Happened),
        (302, Unknown),
    ],
)
async def test_what_each_fault_is_taken_for(server: PowerServer, fault: int | str, kind: type) -> None:
    server.faults["*"] = [fault]
    outcome = await switched(server.url, {"timeout": 0.3 if fault == "hang" else 5.0})
    assert isinstance(outcome, kind)
    assert [h.path for h in server.heard] == ["/on/w1"]  # once, and a redirect is not followed


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET", "DELETE"])
async def test_no_call_is_repeated_behind_our_back(server: PowerServer, method: str) -> None:
    """The library would repeat some after a broken connection; a refusal of the second would pass for one of both."""
    server.faults["*"] = ["reset", 404]
    outcome = await switched(server.url, {"method": method})
    assert isinstance(outcome, Unknown)
    assert "broke off" in outcome.message
    assert [h.path for h in server.heard] == ["/on/w1"]


async def test_where_nobody_listens_the_call_certainly_had_no_effect(server: PowerServer) -> None:
    url = server.url
    server.__exit__()
    outcome = await switched(url)
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE
    endpoints = one(url)
    assert await endpoints.ask("w1") == ""


async def test_a_name_that_nobody_knows_is_a_server_that_is_away() -> None:
    outcome = await switched("http://no-such-host.invalid")
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("host", ["a..b", "a" * 70, "a" * 300])
async def test_a_name_that_is_none_is_a_server_that_is_away(host: str) -> None:
    """The resolver's codec complains in a way of its own; settings refuse such names, and may come from elsewhere."""
    outcome = await switched(f"http://{host}")
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE
    endpoints = one(f"http://{host}")
    assert await endpoints.ask("w1") == ""


async def test_a_machine_that_the_settings_have_lost_is_not_called(server: PowerServer) -> None:
    endpoints = one(server.url)
    outcome = await call(endpoints, "k", machine="w2")
    assert isinstance(outcome, Refused)
    assert await endpoints.ask("w2") == ""
    assert server.heard == []


async def test_no_connection_is_used_twice(server: PowerServer) -> None:
    endpoints = one(server.url)
    for number in range(3):
        assert await call(endpoints, f"k{number}") == Happened()
    assert [h.headers["connection"] for h in server.heard] == ["close"] * 3


async def test_a_call_leaves_nothing_open_so_that_replaced_endpoints_need_not_be_kept(
    server: PowerServer,
) -> None:
    server.faults["/on/w1"] = [200, "hang"]
    endpoints = one(server.url, {"timeout": 0.3})
    assert await call(endpoints, "k1") == Happened()
    assert isinstance(await call(endpoints, "k2"), Unknown)
    assert await endpoints.ask("w1") == "on"
    left = [it for it in gc.get_objects() if isinstance(it, aiohttp.ClientSession) and not it.closed]
    assert left == []


async def test_what_a_call_takes_is_read_before_it_is_sent(server: PowerServer) -> None:
    reads: list[str] = []

    async def token() -> str:
        reads.append(SECRET)
        return SECRET

    send = await one(server.url, bearer=token).prepare("w1", False)
    assert (len(reads), server.heard) == (1, [])
    assert await send("key-off") == Happened()
    assert (len(reads), [h.path for h in server.heard]) == (1, ["/off/w1"])


PROOFS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Read]]] = [
    ("bearer", {"token": SECRET}, {}, {"bearer": said(SECRET + "\n")}),
    ("basic", {"basic": base64.b64encode(f"me:{SECRET}".encode()).decode()}, {"username": "me"}, {"password": said(SECRET)}),
    ("api key", {"api_key": SECRET}, {"key_header": "X-Api-Key"}, {"key": said(SECRET)}),
    ("signature", {"signing": SECRET}, {}, {"signing": said(SECRET)}),
    ("signature with a time", {"signing": SECRET}, {"timestamp_header": "X-Timestamp"}, {"signing": said(SECRET)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wanted", "way", "sources"), PROOFS, ids=[row[0] for row in PROOFS])
async def test_a_server_that_asks_for_a_proof_gets_it(
    name: str, wanted: dict[str, Any], way: dict[str, Any], sources: dict[str, Read]
) -> None:
    with PowerServer(**wanted) as server:
        assert await switched(server.url, way, **sources) == Happened()
        without = await switched(server.url)
        assert isinstance(without, Refused)
        assert without.reason is Reason.UNAUTHORISED
        assert server.effects == [("w1", True, "key-on")]


async def test_a_credential_that_cannot_be_read_sends_nothing(server: PowerServer) -> None:
    outcome = await switched(server.url, bearer=cannot)
    assert outcome == Refused(Reason.UNAVAILABLE, "Secret power cannot be read: forbidden")
    assert server.heard == []


@pytest.mark.parametrize(
    "text", ["one-half\nother-half", "one-half\x00other-half", "one-half\r\nX-Other: half"]
)
async def test_a_credential_of_several_lines_sends_nothing_and_ends_nothing(
    server: PowerServer, text: str
) -> None:
    for way, sources in (({}, {"bearer": said(text)}), ({"key_header": "X-Api-Key"}, {"key": said(text)})):
        endpoints = one(server.url, way, **sources)
        assert await endpoints.ask("w1") == ""
        outcome = await call(endpoints, "key-off", on=False)
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.UNAVAILABLE
        assert "half" not in outcome.message
    assert server.heard == []


async def test_a_certificate_of_its_own_ca_is_trusted_and_no_other(authority: Authority) -> None:
    with PowerServer(tls=authority.context()) as server:
        assert await switched(server.url, ca=said(authority.read("ca.crt"))) == Happened()
        stranger = await switched(server.url)
        assert isinstance(stranger, Refused)
        assert stranger.reason is Reason.UNAVAILABLE
        assert "certificate is not trusted" in stranger.message
        assert len(server.heard) == 1


async def test_the_name_in_the_certificate_counts(authority: Authority) -> None:
    with PowerServer(tls=authority.context()) as server:
        ca = said(authority.read("ca.crt"))
        assert await switched(server.url, {"server_name": "power.test"}, ca=ca) == Happened()
        other = await switched(server.url, {"server_name": "other.test"}, ca=ca)
        assert isinstance(other, Refused)
        assert len(server.heard) == 1


async def test_a_server_that_asks_for_a_client_certificate_gets_it(authority: Authority) -> None:
    ca = said(authority.read("ca.crt"))
    pair = {
        "certificate": said(authority.read("client.crt")),
        "private_key": said(authority.read("client.key")),
    }
    with PowerServer(tls=authority.context(asks_for_client=True)) as server:
        assert await switched(server.url, ca=ca, **pair) == Happened()
        assert not isinstance(await switched(server.url, ca=ca), Happened)
        assert len(server.heard) == 1


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shown", ["none", "foreign"])
async def test_a_client_certificate_that_is_not_accepted_certainly_had_no_effect(
    authority: Authority, tmp_path: Path, newest: ssl.TLSVersion, shown: str
) -> None:
    """With TLS 1.3 the refusal comes after the call was written: nobody would dare to switch another machine on."""
    asks = authority.context(asks_for_client=True)
    asks.maximum_version = newest
    pair: dict[str, Read] = {}
    if shown == "foreign":
        other = Authority(tmp_path / "other")
        pair = {"certificate": said(other.read("client.crt")), "private_key": said(other.read("client.key"))}
    with PowerServer(tls=asks) as server:
        for on in (True, False):
            endpoints = one(server.url, ca=said(authority.read("ca.crt")), **pair)
            outcome = await call(endpoints, "k", on=on)
            assert isinstance(outcome, Refused), outcome
            assert outcome.reason is Reason.UNAVAILABLE
        assert server.heard == []


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ({"ca": said("no certificate")}, "tls.ca holds no certificate"),
        ({"certificate": said("no"), "private_key": said("no")}, "tls.certificate and tls.key are no pair"),
    ],
)
async def test_a_certificate_that_is_none_is_named_and_not_shown(
    sources: dict[str, Read], words: str
) -> None:
    outcome = await switched("https://127.0.0.1:9", **sources)
    assert isinstance(outcome, Refused)
    assert words in outcome.message


async def test_certificates_that_were_replaced_are_used(authority: Authority, tmp_path: Path) -> None:
    found = ["no certificate"]

    async def read() -> str:
        return found[0]

    with PowerServer(tls=authority.context()) as server:
        endpoints = one(server.url, ca=read)
        assert isinstance(await call(endpoints, "k"), Refused)
        found[0] = authority.read("ca.crt")
        assert await call(endpoints, "k") == Happened()


@pytest.mark.parametrize("fault", [500, 401, "reset", "hang"])
async def test_what_is_told_names_the_host_and_no_secret(
    fault: int | str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with PowerServer() as server:
        server.faults["*"] = [fault]
        target = Target(
            name="w1", gpus=1, on=f"{server.url}/on/w1?token={SECRET}", off="http://x", status=f"{server.url}/{SECRET}",
            way=Way(timeout=0.3),
        )  # fmt: skip
        endpoints = HttpEndpoints({"w1": target}, {"w1": Sources(bearer=said(SECRET))}, lambda: 0.0)
        outcome = await call(endpoints, "k")
        await endpoints.ask("w1")
    told = repr(outcome) + caplog.text
    assert "127.0.0.1" in repr(outcome)
    assert SECRET not in told


async def test_a_status_that_comes_in_pieces_is_understood(server: PowerServer) -> None:
    server.pieces, server.powers["w1"] = True, "on"
    endpoints = one(server.url)
    assert await endpoints.ask("w1") == "on"


async def test_a_server_that_packs_what_it_may_pack_is_understood(server: PowerServer) -> None:
    server.packs = True
    server.powers["w1"] = "on"
    assert await one(server.url).ask("w1") == "on"


async def test_a_status_that_never_ends_is_given_up(server: PowerServer) -> None:
    server.powers["w1"] = "on" * 100_000
    endpoints = one(server.url)
    assert await endpoints.ask("w1") == ""
