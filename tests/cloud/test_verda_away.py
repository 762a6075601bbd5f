"""A cloud that is away: nobody knocks for a while, everybody can see it, and no purchase is guessed about."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator

import pytest

from controller.cloud.protocol import CloudError
from controller.cloud.verda.provider import VerdaCloud
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.reason import Reason
from tests.cloud.test_verda_provider import NOW, ORDER
from tests.cloud.verda_stub import ID, SECRET, Reply, Stub, refusal, stub

PATHS = (
    ("GET", "/instances"), ("POST", "/instances"), ("PUT", "/instances"), ("GET", "/volumes"), ("GET", "/volumes/trash"),
)  # fmt: skip


class World:
    """The adapter with a clock that only sleeping turns."""

    def __init__(self, server: Stub) -> None:
        self.server = server
        self.passed = 0.0
        self.cloud = VerdaCloud(
            client_id="client", client_secret=SECRET, base_url=server.url,
            clock=lambda: NOW + self.passed, monotonic=lambda: 100 + self.passed, sleep=self.sleep, rng=random.Random(7),
        )  # fmt: skip

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds

    def all_answer(self, reply: Reply) -> None:
        for method, path in PATHS:
            self.server.on(method, path, reply)

    async def fail(self, times: int) -> None:
        for number in range(times):
            with pytest.raises(CloudError):
                await (self.cloud.volumes() if number % 2 else self.cloud.inventory())

    async def break_it(self) -> None:
        self.all_answer(Reply(502, "<html>Bad Gateway</html>"))
        await self.fail(3)
        assert self.cloud.health().breaker != "closed"

    @property
    def calls(self) -> int:
        return len(self.server.seen)


@pytest.fixture(autouse=True)
def told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpu_autoscaler.cloud")  # whatever others set for the whole program


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("NO_PROXY", "*")
    with stub() as server:
        made = World(server)
        yield made
        await made.cloud.close()


async def test_after_repeated_trouble_of_the_whole_api_it_is_asked_only_now_and_then(world: World) -> None:
    await world.break_it()
    before = world.calls
    began = world.passed
    while world.passed < began + 120:
        await world.fail(1)
        await world.sleep(1.0)
    # Once in half a minute at most, instead of three attempts of each read in every second.
    assert world.calls - before < 12


async def test_while_it_is_away_a_purchase_is_refused_and_certainly_not_sent(world: World) -> None:
    await world.break_it()
    for _ in range(50):
        outcome = await world.cloud.create(ORDER)
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.UNAVAILABLE
        assert outcome.retry_after is not None
        assert 0 < outcome.retry_after <= 30
        await world.sleep(outcome.retry_after)  # also when the pause is over: a purchase is no probe
    assert world.server.of("POST", "/instances") == []


async def test_purchases_whose_answers_were_lost_are_unknown_also_when_they_open_the_breaker(
    world: World,
) -> None:
    world.all_answer(Reply(fault="reset"))
    await world.fail(1)
    for _ in range(2):
        assert isinstance(await world.cloud.create(ORDER), Unknown)
    assert world.cloud.health().breaker != "closed"
    assert len(world.server.of("POST", "/instances")) == 2


async def test_one_path_in_trouble_stops_nothing(world: World) -> None:
    world.all_answer(Reply(200, []))
    world.server.on("GET", "/volumes/trash", Reply(500))
    world.server.on("POST", "/instances", Reply(500))
    for _ in range(10):
        assert isinstance(await world.cloud.create(ORDER), Unknown)
    assert (await world.cloud.inventory()).complete
    with pytest.raises(CloudError):
        await world.cloud.volumes()
    assert world.cloud.health().breaker == "closed"
    assert (await world.cloud.inventory()).complete


async def test_no_capacity_and_limits_are_answers_of_an_api_in_good_health(world: World) -> None:
    world.server.on("POST", "/instances", refusal(503, "service_unavailable", "No capacity available"))
    world.server.on("PUT", "/instances", refusal(403, "forbidden_action", "no"))
    for _ in range(10):
        await world.cloud.create(ORDER)
        await world.cloud.delete(ID, ())
    assert world.cloud.health().breaker == "closed"


async def test_without_a_token_the_whole_api_is_away(world: World) -> None:
    world.server.on("POST", "/oauth2/token", Reply(500))
    for _ in range(6):
        assert isinstance(await world.cloud.delete(ID, ()), Refused)
    assert world.cloud.health().breaker == "open"
    assert len(world.server.tokens) == 5


async def test_credentials_that_are_refused_are_no_outage(world: World) -> None:
    world.server.on("POST", "/oauth2/token", refusal(401, "unauthorized_request", "Invalid client id"))
    for _ in range(10):
        assert isinstance(await world.cloud.delete(ID, ()), Refused)
    assert world.cloud.health().breaker == "closed"


async def test_the_first_answer_of_a_probe_ends_it_and_everything_goes_again(world: World) -> None:
    await world.break_it()
    world.all_answer(Reply(200, []))
    await world.sleep(30)
    world.server.on("PUT", "/instances", Reply(202))
    # A removal may be the probe: it is safe to repeat. A read from before may still be on its way as one.
    outcomes = [await world.cloud.delete(ID, ())]
    while isinstance(outcomes[-1], Refused) and len(outcomes) < 500:
        await asyncio.sleep(0.01)
        await world.sleep(5)
        outcomes.append(await world.cloud.delete(ID, ()))
    assert outcomes[-1] == Happened(ID)
    assert world.cloud.health().breaker == "closed"
    world.server.on("POST", "/instances", Reply(202, ID))
    assert await world.cloud.create(ORDER) == Happened(ID)


async def test_each_change_is_one_line_in_the_log_and_seen_in_the_health(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        return [record.message for record in caplog.records if record.name == "gpu_autoscaler.cloud"]

    assert world.cloud.health().message == ""
    await world.break_it()
    found = world.cloud.health()
    assert found.since >= NOW
    assert "502" in found.message
    before = world.passed
    while world.passed < before + 200:
        await world.fail(1)
        await world.sleep(1.0)
    opened = lines().count("the cloud is away and is left alone for a while")
    assert 5 < opened < 16
    assert lines().count("the cloud is tried again") == opened - 1
    world.all_answer(Reply(200, []))
    await world.sleep(30)
    await world.cloud.inventory()
    assert lines()[-2:] == ["the cloud is tried again", "the cloud answers again"]
    assert (world.cloud.health().breaker, world.cloud.health().message) == ("closed", "")
