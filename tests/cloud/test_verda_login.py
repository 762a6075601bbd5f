"""Credentials that change under a running program, over real HTTP; and connections, by counting them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.app.parts import Now, make_cloud
from controller.cloud.protocol import CloudError
from controller.cloud.verda.calls import READ_THREADS
from controller.cloud.verda.parsing import volume
from controller.cloud.verda.provider import VerdaCloud
from controller.cloud.verda.wire import Answer, Login
from controller.config.credentials import files_of
from controller.config.load import load
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.reason import Reason
from controller.report.logs import mask
from tests.cloud.test_verda_provider import ORDER
from tests.cloud.verda_stub import ID, Reply, Seen, Stub, refusal, stub
from tests.config.test_config_credentials import Mount


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setenv("NO_PROXY", "*")
    with stub() as running:
        running.on("GET", "/instances", Reply(200, []))
        running.on("POST", "/instances", Reply(202, ID))
        running.on("POST", "/scripts", Reply(201, ID))
        running.on("PUT", "/instances", Reply(202))
        yield running


class Rotation:
    """An account whose only good secret is `secret`: tokens of others are revoked."""

    def __init__(self, server: Stub, secret: str) -> None:
        self.secret = secret
        self._server = server
        self._of: dict[str, str] = {}  # token -> the secret that it was made with
        server.on("POST", "/oauth2/token", self._log_in)
        for method, path in (("GET", "/instances"), ("POST", "/instances"), ("PUT", "/instances")):
            server.on(method, path, self._checked)

    def _log_in(self, seen: Seen) -> Reply:
        if seen.body.get("client_secret") != self.secret:
            return refusal(401, "unauthorized_request", "Invalid client id or client secret")
        reply = self._server.token(len(self._server.tokens))
        self._of["Bearer " + str(reply.body["access_token"])] = self.secret
        return reply

    def revoke(self) -> None:
        """Every token, and no secret."""
        self._of.clear()

    def made_with(self, seen: Seen) -> str:
        return self._of.get(seen.headers["authorization"], "")

    def _checked(self, seen: Seen) -> Reply:
        if self._of.get(seen.headers["authorization"]) != self.secret:
            return refusal(401, "unauthorized_request", "Access token is missing or invalid")
        return {"POST": Reply(202, ID), "PUT": Reply(202), "GET": Reply(200, [])}[seen.method]


def refused(outcome: Outcome) -> Reason:
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    made = Mount(tmp_path)
    made.write(id="client-of-ours", secret="secret-one")
    return made


@pytest.fixture
async def cloud(server: Stub, mount: Mount) -> AsyncIterator[VerdaCloud]:
    environ = mount.environ(VERDA_BASE_URL=server.url)
    loaded = load(None, environ)
    made = make_cloud(loaded.settings, Now(), files_of(loaded.origins, environ))
    yield made
    await made.close()


async def test_a_secret_that_was_replaced_is_used_at_the_next_call(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    await cloud.inventory()
    mount.write(id="client-of-ours", secret="secret-two")
    account.secret = "secret-two"
    assert await cloud.create(ORDER) == Happened(ID)
    assert [seen.body["client_secret"] for seen in server.tokens] == ["secret-one", "secret-two"]
    assert len(server.of("POST", "/instances")) == 1
    assert mask("it is secret-two") == "it is ***"


async def test_a_secret_that_is_replaced_while_a_call_is_refused_is_used_for_that_call(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    await cloud.inventory()
    account.secret = "secret-two"

    def refused_and_swapped(seen: Seen) -> Reply:
        mount.write(id="client-of-ours", secret="secret-two")
        server.on("PUT", "/instances", account._checked)
        return refusal(401, "unauthorized_request", "Access token is missing or invalid")

    server.on("PUT", "/instances", refused_and_swapped)
    assert await cloud.delete(ID, ()) == Happened(ID)


# ---- credentials that may be those of another project


async def test_with_credentials_of_another_account_nothing_is_changed_and_nothing_is_missing(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    server.on("GET", f"/instances/{ID}", refusal(404, "not_found", "Instance not found"))
    server.on("GET", "/volumes", Reply(200, []))
    server.on("GET", "/volumes/trash", Reply(200, []))
    cloud.trust((await cloud.inventory()).account)
    assert await cloud.instance(ID) is None
    assert (await cloud.volumes()).listed == ()
    mount.write(id="client-of-another", secret="secret-two")
    account.secret = "secret-two"
    before = len(server.seen)
    changes = (
        lambda: cloud.create(ORDER),
        lambda: cloud.create_script("gpuas-home-x", "#!/bin/bash"),
        lambda: cloud.delete(ID, ()),
        lambda: cloud.delete_volume(ID),
        lambda: cloud.delete_script(ID),
    )
    for change in changes:
        outcome = await change()
        assert refused(outcome) is Reason.UNAUTHORISED
        assert "another project" in getattr(outcome, "message", "")
    for read in (lambda: cloud.instance(ID), lambda: cloud.volumes()):
        with pytest.raises(CloudError, match="another project") as caught:
            await read()
        assert caught.value.reason is Reason.UNAUTHORISED
    assert [f"{seen.method} {seen.path}" for seen in server.seen[before:]] == []
    for path in ("/volumes", "/volumes/trash"):
        with pytest.raises(CloudError, match="another project"):
            await cloud._reads._every_volume(path, volume)
    assert len(server.seen) == before
    cloud.trust((await cloud.inventory()).account)
    assert await cloud.create(ORDER) == Happened(ID)
    assert await cloud.instance(ID) is None


async def test_another_secret_of_the_same_client_is_the_same_account(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    first = (await cloud.inventory()).account
    cloud.trust(first)
    mount.write(id="client-of-ours", secret="secret-two")
    account.secret = "secret-two"
    assert await cloud.create(ORDER) == Happened(ID)
    assert (await cloud.inventory()).account == first
    assert cloud.health().logins == 1


async def test_an_account_is_told_apart_by_client_and_address_and_tells_neither() -> None:
    def of(client_id: str, base_url: str = "https://api.example/v1", client_secret: str = "") -> str:
        return Login(client_id=client_id, client_secret=client_secret, base_url=base_url).account

    here = of("client-of-ours")
    assert here == of("client-of-ours", client_secret="new")
    assert len({here, of("client-of-another"), of("client-of-ours", "http://emulator.example/v1")}) == 3
    assert "client" not in here
    assert len(here) == 16
    for same in ("https://api.example/v1/", "https://API.Example/v1", " HTTPS://api.example/v1 "):
        assert of("client-of-ours", same) == here
    assert of("client-of-ours", "https://api.example/V1") != here


async def test_tags_that_one_account_refuses_are_tried_again_in_another(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    no_tags = refusal(400, "invalid_request", ["property tags should not exist"])
    server.on("POST", "/instances", no_tags, Reply(202, ID))
    for _ in range(2):
        assert await cloud.create(ORDER) == Happened(ID)
    mount.write(id="client-of-another", secret="secret-two")
    await cloud.inventory()
    assert await cloud.create(ORDER) == Happened(ID)
    assert ["tags" in seen.body for seen in server.of("POST", "/instances")] == [True, False, False, True]


async def test_disks_and_trash_of_different_accounts_are_no_list(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    """The credentials change between the two questions."""
    held = threading.Event()
    kept = cloud._line.send

    def in_turn(method: str, path: str, **words: Any) -> Answer:
        if path == "/volumes/trash":
            held.wait(5)
            mount.write(id="client-of-another", secret="secret-two")
        try:
            return kept(method, path, **words)
        finally:
            held.set()

    server.on("GET", "/volumes", Reply(200, []))
    server.on("GET", "/volumes/trash", Reply(200, []))
    cloud._line.send = in_turn  # type: ignore[method-assign]
    with pytest.raises(CloudError, match="changed on the way"):
        await cloud.volumes()
    assert (await cloud.volumes()).account == (await cloud.inventory()).account


async def test_other_credentials_are_counted_before_anything_goes_out_with_them(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    counted: list[int] = []

    def log_in(seen: Seen) -> Reply:
        counted.append(cloud.health().logins)
        return server.token(len(counted))

    server.on("POST", "/oauth2/token", log_in)
    before = await cloud.inventory()
    mount.write(id="client-of-another", secret="secret-two")
    assert (await cloud.inventory()).account != before.account
    assert counted == [0, 1]


async def test_an_order_that_is_refused_is_not_sent_again_with_credentials_of_another_account(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    cloud.trust((await cloud.inventory()).account)

    def refused_and_swapped(seen: Seen) -> Reply:
        mount.write(id="client-of-another", secret="secret-two")
        server.on("POST", "/instances", account._checked)
        account.secret = "secret-two"
        return refusal(401, "unauthorized_request", "Access token is missing or invalid")

    server.on("POST", "/instances", refused_and_swapped)
    assert refused(await cloud.create(ORDER)) is Reason.UNAUTHORISED
    assert [account.made_with(seen) for seen in server.of("POST", "/instances")] == ["secret-one"]
    assert refused(await cloud.create(ORDER)) is Reason.UNAUTHORISED
    cloud.trust((await cloud.inventory()).account)
    assert await cloud.create(ORDER) == Happened(ID)


async def test_an_order_without_a_token_does_not_take_one_of_another_account(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    cloud.trust(Login(client_id="client-of-ours", client_secret="", base_url=server.url).account)

    def refused_and_swapped(seen: Seen) -> Reply:
        mount.write(id="client-of-another", secret="secret-two")
        Rotation(server, "secret-two")
        return refusal(401, "unauthorized_request", "Invalid client id or client secret")

    server.on("POST", "/oauth2/token", refused_and_swapped)
    assert refused(await cloud.create(ORDER)) is Reason.UNAUTHORISED
    assert server.of("POST", "/instances") == []


def refusing(mount: Mount, last: Reply) -> list[object]:
    """Two 401, so also for a fresh token; meanwhile the credentials become those of another account."""
    refused_once = refusal(401, "unauthorized_request", "Access token is missing or invalid")

    def refused_and_swapped(seen: Seen) -> Reply:
        mount.write(id="client-of-another", secret="secret-two")
        return refused_once

    return [refused_once, refused_and_swapped, last]


async def test_an_order_whose_fresh_token_is_refused_is_not_sent_to_another_account(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    cloud.trust((await cloud.inventory()).account)
    server.on("POST", "/instances", *refusing(mount, Reply(202, ID)))
    assert refused(await cloud.create(ORDER)) is Reason.UNAUTHORISED
    assert len(server.of("POST", "/instances")) == 2


@pytest.mark.parametrize("at_the_token", [True, False])
async def test_a_list_that_is_asked_for_again_is_of_the_account_that_answered(
    server: Stub, mount: Mount, cloud: VerdaCloud, at_the_token: bool
) -> None:
    if at_the_token:

        def refused_and_swapped(seen: Seen) -> Reply:
            mount.write(id="client-of-another", secret="secret-two")
            Rotation(server, "secret-two")
            return refusal(401, "unauthorized_request", "Invalid client id or client secret")

        server.on("POST", "/oauth2/token", refused_and_swapped)
    else:
        server.on("GET", "/instances", *refusing(mount, Reply(200, [])))
    other = Login(client_id="client-of-another", client_secret="", base_url=server.url).account
    assert (await cloud.inventory()).account == other


async def test_an_account_without_a_name_is_no_account(server: Stub, cloud: VerdaCloud) -> None:
    """As a ledger tells it in which none was written yet."""
    cloud.trust("")
    assert refused(await cloud.create(ORDER)) is Reason.UNAUTHORISED
    assert server.of("POST", "/instances") == []
    cloud.trust((await cloud.inventory()).account)
    assert await cloud.create(ORDER) == Happened(ID)


async def test_an_order_is_sent_again_with_another_token_of_the_same_credentials(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    cloud.trust((await cloud.inventory()).account)
    account.revoke()
    assert await cloud.create(ORDER) == Happened(ID)
    assert len(server.of("POST", "/instances")) == 2
    assert cloud.health().logins == 0


async def test_a_list_of_the_last_credentials_is_none_of_the_next_ones(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    """It was on its way when they changed."""
    arrived, may_answer = threading.Event(), threading.Event()

    def slow(seen: Seen) -> Reply:
        arrived.set()
        return Reply(200, [], wait=may_answer)

    first = (await cloud.inventory()).account
    server.on("GET", "/instances", slow)
    listing = asyncio.create_task(cloud.inventory())
    assert await asyncio.to_thread(arrived.wait, 5)
    mount.write(id="client-of-another", secret="secret-two")
    await cloud.delete(ID, ())
    may_answer.set()
    assert (await listing).account == first
    assert (await cloud.inventory()).account != first


# ---- credentials that are missing, and another address


async def test_without_the_new_secret_nothing_goes_and_with_it_everything_does_again(
    server: Stub, mount: Mount, cloud: VerdaCloud
) -> None:
    account = Rotation(server, "secret-one")
    await cloud.inventory()
    account.secret = "secret-two"
    outcome = await cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAUTHORISED
    with pytest.raises(CloudError, match="VERDA_CLIENT_ID and VERDA_CLIENT_SECRET"):
        await cloud.inventory()
    assert cloud.health().logins == 0
    mount.write(id="client-of-ours", secret="secret-two")
    await cloud.inventory()
    assert cloud.health().logins == 1
    assert await cloud.create(ORDER) == Happened(ID)


async def test_another_address_is_another_api_of_which_nothing_is_known(server: Stub) -> None:
    with stub() as other:
        other.on("GET", "/instances", Reply(200, []))
        at = server.url
        cloud = VerdaCloud(
            login=lambda: Login(client_id="a", client_secret="b-secret", base_url=at), read_timeout=2
        )
        for path in ("/instances", "/volumes", "/volumes/trash"):
            server.on("GET", path, Reply(502))
        while cloud.health().breaker == "closed":
            for read in (cloud.inventory, cloud.volumes):
                with pytest.raises(CloudError):
                    await read()
        at = other.url
        async with asyncio.timeout(10):  # the probe that finds out is soon allowed
            while cloud.health().breaker != "closed":
                try:
                    await cloud.inventory()
                except CloudError as error:
                    await asyncio.sleep(error.retry_after or 0.1)
        assert other.of("GET", "/instances")
        await cloud.close()


def test_a_login_never_shows_its_secret() -> None:
    assert "hush" not in repr(Login(client_id="a", client_secret="hush-hush", base_url="https://x"))


# ---- connections


async def test_calls_one_after_another_share_a_few_connections(server: Stub, cloud: VerdaCloud) -> None:
    for _ in range(30):
        await cloud.inventory()
        await cloud.delete(ID, ())
    assert len(server.of("GET", "/instances")) == len(server.of("PUT", "/instances")) == 30
    kept = {seen.connection for seen in server.seen if seen.method in ("GET", "PUT")}
    # One for reads and one for changes; a pool may begin another thread before the last one is seen to be idle.
    assert 2 <= len(kept) <= 10
    assert server.connections == len(kept) + 1  # and the token's


async def test_many_calls_at_once_have_one_connection_for_each_thread(
    server: Stub, cloud: VerdaCloud
) -> None:
    for _ in range(4):
        await asyncio.gather(*(cloud.inventory() for _ in range(50)))
    assert len(server.of("GET", "/instances")) == 200
    assert server.connections <= READ_THREADS + 1
