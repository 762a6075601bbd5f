"""Verda as a cloud, against scripted answers: reads that are whole, changes that end in an outcome."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from controller.cloud.protocol import Cloud, CloudError, Order
from controller.cloud.verda import provider
from controller.cloud.verda.calls import CHANGE_THREADS, READ_THREADS
from controller.cloud.verda.provider import VerdaCloud
from controller.domain.cloudthings import ON_DEMAND, SPOT
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason
from tests.cloud.verda_stub import ID, SECRET, Reply, Seen, Stub, refusal, stub

NOW = 1_794_996_000.0  # Wed, 18 Nov 2026 10:00:00 GMT
OTHER = "11111111-2222-4333-8444-555555555555"
TYPE = {
    "instance_type": "1A100.22V",
    "model": "A100 80GB",
    "gpu": {"number_of_gpus": 1},
    "cpu": {"number_of_cores": 22},
    "memory": {"size_in_gigabytes": 120},
    "gpu_memory": {"size_in_gigabytes": 80},
    "price_per_hour": "1.290",
    "spot_price": "0.4515",
    "supported_os": ["ubuntu-24.04"],
}
ORDER = Order(
    hostname="home-a100-abcdefghij",
    description="gpuas home abcdefghij",
    tags=(("gpuas-cluster", "home"),),
    instance_type="1A100.22V",
    location="FIN-03",
    market=SPOT,
    image="ubuntu-24.04",
    disk_gb=100,
)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(autouse=True, scope="module")
def _sdk() -> None:
    """Whoever calls first imports it, and waits for that: no reason for a test to depend on who was first."""
    importlib.import_module("controller.cloud.verda.sdk")


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub() as running:
        yield running


class World:
    """The adapter with a clock and a sleep that take no time."""

    def __init__(self, server: Stub, **words: Any) -> None:
        self.now = NOW
        self.passed = 0.0
        self.slept: list[float] = []

        async def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.passed += seconds

        words = {"base_url": server.url, "client_id": "client", "client_secret": SECRET, **words}
        self.cloud = VerdaCloud(
            clock=lambda: self.now,
            monotonic=lambda: 100 + self.passed,
            sleep=sleep,
            rng=random.Random(7),
            **words,
        )


Make = Callable[..., World]


@pytest.fixture
async def make(server: Stub) -> AsyncIterator[Make]:
    made: list[World] = []

    def one(**words: Any) -> World:
        made.append(World(server, **words))
        return made[-1]

    yield one
    for world in made:
        await world.cloud.close()


@pytest.fixture
def world(make: Make) -> World:
    return make()


def reason_of(outcome: Outcome) -> Reason:
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


async def failure(read: Awaitable[Any]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await read
    assert SECRET not in caught.value.message
    return caught.value


def test_making_it_imports_no_sdk_and_sends_nothing() -> None:
    program = (
        "import sys\n"
        "from controller.cloud.verda.provider import VerdaCloud\n"
        "VerdaCloud(client_id='a', client_secret='b', base_url='http://127.0.0.1:1/v1')\n"
        "assert not {'verda', 'requests', 'urllib3'} & set(sys.modules), 'imported'\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_it_is_a_cloud(world: World) -> None:
    cloud: Cloud = world.cloud
    assert cloud is world.cloud


# ---- the catalogue


def in_stock(server: Stub, on_demand: list[Any], spot: list[Any]) -> None:
    def answer(seen: Seen) -> Reply:
        return Reply(200, spot if seen.query["is_spot"] == "true" else on_demand)

    server.on("GET", "/instance-types", Reply(200, [TYPE, {"instance_type": "broken"}]))
    server.on("GET", "/locations", Reply(200, [{"code": "FIN-01"}, {"code": "FIN-03"}, {"name": "?"}]))
    server.on("GET", "/instance-availability", answer)


async def test_the_catalogue_offers_every_place_and_market_and_says_what_is_there(
    server: Stub, world: World
) -> None:
    in_stock(
        server,
        [{"location_code": "FIN-01", "availabilities": []}],
        [{"location_code": "FIN-03", "availabilities": ["1a100.22v", "NEW.1V"]}, {"odd": 1}],
    )
    found = await world.cloud.catalogue()
    assert (found.at, found.currency) == (NOW, "usd")
    assert {(offer.location, offer.market): (offer.available, offer.price) for offer in found.offers} == {
        ("FIN-01", ON_DEMAND): (False, Decimal("1.290")),
        ("FIN-01", SPOT): (False, Decimal("0.4515")),
        ("FIN-03", ON_DEMAND): (False, Decimal("1.290")),
        ("FIN-03", SPOT): (True, Decimal("0.4515")),
    }


async def test_prices_are_kept_for_minutes_and_stock_is_always_fresh(server: Stub, world: World) -> None:
    in_stock(server, [], [])
    for pause in (0, 299, 2):
        world.now += pause
        await world.cloud.catalogue()
    assert len(server.of("GET", "/instance-types")) == 2
    assert len(server.of("GET", "/locations")) == 1
    assert len(server.of("GET", "/instance-availability")) == 6


async def test_without_one_of_the_stock_lists_there_is_no_catalogue(server: Stub, world: World) -> None:
    in_stock(server, [], [])
    server.on("GET", "/instance-availability", Reply(500))
    assert (await failure(world.cloud.catalogue())).reason is Reason.UNAVAILABLE


# ---- the inventory


async def test_the_inventory_lists_everything_ours_or_not(server: Stub, world: World) -> None:
    server.on("GET", "/instances", Reply(200, [{"id": ID}, {"id": OTHER, "status": "discontinued"}]))
    found = await world.cloud.inventory()
    assert ([one.id for one in found.instances], found.complete, found.at) == ([ID, OTHER], True, NOW)


@pytest.mark.parametrize(
    ("rows", "total", "complete"),
    [
        ([{"id": ID}], "1", True),
        ([{"id": ID}], "0", True),
        ([{"id": ID}], "many", True),
        ([{"id": ID}], "2", False),
        ([{"id": ID}], "9" * 5000, False),
        ([], "1", False),
        ([{"id": ID}, {"hostname": "without-id"}], "2", False),
        ([{"id": ID}, None], "", False),
    ],
)
async def test_an_inventory_that_may_be_short_says_so(
    server: Stub, world: World, rows: list[Any], total: str, complete: bool
) -> None:
    server.on("GET", "/instances", Reply(200, rows, {"X-Total-Count": total}))
    assert (await world.cloud.inventory()).complete is complete


@pytest.mark.parametrize("body", ["", "<html>", "null", "{}", '{"instances": []}', "[NaN]"])
async def test_an_answer_that_is_no_list_is_no_empty_inventory(server: Stub, world: World, body: str) -> None:
    server.on("GET", "/instances", Reply(200, body))
    assert (await failure(world.cloud.inventory())).reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("status", [204, 400, 404])
async def test_a_refused_list_is_no_empty_inventory(server: Stub, world: World, status: int) -> None:
    server.on("GET", "/instances", Reply(status))
    assert (await failure(world.cloud.inventory())).reason is Reason.UNAVAILABLE


@pytest.mark.parametrize(
    "reply",
    [refusal(404, "not_found", "Instance not found"), refusal(400, "invalid_request", "Invalid instance id")],
)
async def test_an_instance_that_is_not_known_is_none(server: Stub, world: World, reply: Reply) -> None:
    server.on("GET", f"/instances/{ID}", reply)
    assert await world.cloud.instance(ID) is None


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404, "<html>"),
        Reply(404, ""),
        Reply(404, "404 page not found\n"),
        Reply(404, "default backend - 404"),
        Reply(404, {"message": "no Route matched with those values"}),
        Reply(404, {"error": "Not Found"}),
        refusal(404, "not_found", f"Cannot GET /v2/instances/{ID}"),
        refusal(404, "not_found", "Path not found"),
        refusal(400, "invalid_request", "other"),
        Reply(200, "[]"),
        Reply(200, "{}"),
        Reply(200, ""),
    ],
)
async def test_an_answer_that_proves_nothing_is_no_missing_instance(
    server: Stub, world: World, reply: Reply
) -> None:
    server.on("GET", f"/instances/{ID}", reply)
    assert (await failure(world.cloud.instance(ID))).reason is Reason.UNAVAILABLE


async def test_an_instance_is_read_by_its_id(server: Stub, world: World) -> None:
    server.on("GET", f"/instances/{ID}", Reply(200, {"id": ID, "status": "discontinued"}))
    found = await world.cloud.instance(ID)
    assert found is not None
    assert found.state == "gone"


# ---- reads that fail


@pytest.mark.parametrize("first", [Reply(500), Reply(502, "<html>"), Reply(503), Reply(fault="reset")])
async def test_a_read_is_repeated_twice_at_most(server: Stub, world: World, first: Reply) -> None:
    server.on("GET", "/instances", first, first, Reply(200, []))
    assert (await world.cloud.inventory()).instances == ()
    assert world.slept == [0.2, 0.8]
    server.on("GET", "/instances", first)
    found = await failure(world.cloud.inventory())
    assert found.reason is Reason.UNAVAILABLE
    assert server.url in found.message
    assert len(server.of("GET", "/instances")) == 6


async def test_a_short_retry_after_is_waited_for(server: Stub, world: World) -> None:
    limited = Reply(429, "Rate limit!", {"Retry-After": "Wed, 18 Nov 2026 10:00:04 GMT"})
    server.on("GET", "/instances", limited, Reply(200, []))
    await world.cloud.inventory()
    assert world.slept == [4.0]


async def test_a_date_to_wait_for_is_measured_by_the_clock_that_it_was_given_by(
    server: Stub, world: World
) -> None:
    """Ours is half an hour behind."""
    said = {"Retry-After": "Wed, 18 Nov 2026 10:30:03 GMT", "Date": "Wed, 18 Nov 2026 10:30:00 GMT"}
    server.on("GET", "/instances", Reply(429, "Rate limit!", said), Reply(200, []))
    await world.cloud.inventory()
    assert world.slept == [3.0]


@pytest.mark.parametrize(
    ("headers", "retry_after"), [({"Retry-After": "37"}, 37.0), ({}, None), ({"Retry-After": "?"}, None)]
)
async def test_a_long_retry_after_is_passed_on(
    server: Stub, world: World, headers: dict[str, str], retry_after: float | None
) -> None:
    server.on("GET", "/instances", Reply(429, "Rate limit!", headers))
    found = await failure(world.cloud.inventory())
    assert (found.reason, found.retry_after) == (Reason.RATE_LIMITED, retry_after)
    assert world.slept == []
    assert len(server.of("GET", "/instances")) == 1


async def test_refused_credentials_are_told_once_and_with_what_to_do(server: Stub, world: World) -> None:
    server.on("POST", "/oauth2/token", refusal(401, "unauthorized_request", "Invalid client id"))
    found = await failure(world.cloud.inventory())
    assert found.reason is Reason.UNAUTHORISED
    assert "VERDA_CLIENT_ID" in found.message
    assert "VERDA_CLIENT_SECRET" in found.message
    assert "\n" not in found.message
    assert len(server.tokens) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_missing_rights_are_a_matter_of_credentials(server: Stub, world: World, status: int) -> None:
    server.on("GET", "/instances", refusal(status, "forbidden_action", "Insufficient scope"))
    found = await failure(world.cloud.inventory())
    assert found.reason is Reason.UNAUTHORISED
    assert "Insufficient scope" in found.message


async def test_an_unreachable_cloud_names_its_url_without_a_password(make: Make) -> None:
    world = make(base_url="http://me:hunter2@127.0.0.1:1/v1/")
    found = await failure(world.cloud.inventory())
    assert found.reason is Reason.UNAVAILABLE
    assert "http://127.0.0.1:1/v1/" in found.message
    assert "refused" in found.message
    assert "hunter2" not in found.message


async def test_a_redirection_points_at_the_base_url(server: Stub, world: World) -> None:
    server.on("GET", "/instances", Reply(301, "", {"Location": "/v2/instances"}))
    assert "check VERDA_BASE_URL" in (await failure(world.cloud.inventory())).message


async def test_a_hung_read_ends_with_its_time_out(server: Stub, make: Make) -> None:
    server.on("GET", "/instances", Reply(fault="hang"))
    found = await failure(make(call_timeout=0.05).cloud.inventory())
    assert (found.reason, "no answer within" in found.message) == (Reason.UNAVAILABLE, True)


# ---- create


def bodies(server: Stub) -> list[Any]:
    return [seen.body for seen in server.of("POST", "/instances")]


@pytest.mark.parametrize("body", [ID, f'"{ID}"', f"{ID}\n", f'{{"id": "{ID}"}}'])
async def test_a_create_ends_with_the_id_of_the_machine(server: Stub, world: World, body: str) -> None:
    server.on("POST", "/instances", Reply(202, body))
    assert await world.cloud.create(ORDER) == Happened(ID)
    (sent,) = bodies(server)
    assert (sent["contract"], sent["is_spot"], sent["startup_script_id"]) == ("SPOT", True, None)
    assert "pricing" not in sent


@pytest.mark.parametrize(
    "reply",
    [
        Reply(202, ""),
        Reply(202, "<html>accepted</html>"),
        Reply(500, ""),
        refusal(500, "server_error", "Internal server error"),
        Reply(503, "<html>"),
        Reply(504, ""),
        Reply(302, "", {"Location": "/"}),
        Reply(fault="reset"),
        Reply(fault="hang"),
    ],
)
async def test_a_create_whose_fate_is_unknown_is_sent_exactly_once(
    server: Stub, make: Make, reply: Reply
) -> None:
    server.on("POST", "/instances", reply)
    world = make(read_timeout=0.3 if reply.fault == "hang" else 5)
    assert isinstance(await world.cloud.create(ORDER), Unknown)
    assert len(bodies(server)) == 1


async def test_a_create_that_hangs_longer_than_its_thread_may_is_unknown(server: Stub, make: Make) -> None:
    server.on("POST", "/instances", Reply(fault="hang"))
    outcome = await make(call_timeout=0.05).cloud.create(ORDER)
    assert outcome == Unknown("POST /instances: no answer within 0.05 s")


async def test_a_create_that_waits_too_long_for_a_thread_is_never_sent(server: Stub, make: Make) -> None:
    server.on("PUT", "/instances", Reply(fault="hang"))
    server.on("POST", "/instances", Reply(202, ID))
    world = make(call_timeout=0.05)
    deletes = [asyncio.create_task(world.cloud.delete(ID, ())) for _ in range(CHANGE_THREADS)]
    await asyncio.sleep(0)
    outcome = await world.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE
    await asyncio.gather(*deletes, return_exceptions=True)
    server.close()
    assert bodies(server) == []


async def test_reads_that_hang_keep_no_thread_from_a_removal(
    server: Stub, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine reads may give up meanwhile, and their pauses pass in no time.
    monkeypatch.setattr(provider, "DELETE_WITHIN", 1e9)
    server.on("GET", "/volumes/trash", Reply(fault="hang"))
    server.on("PUT", "/instances", Reply(202))
    world = make()
    reads = [asyncio.create_task(world.cloud.volumes()) for _ in range(READ_THREADS)]
    await asyncio.sleep(0)
    assert await world.cloud.delete(ID, ()) == Happened(ID)
    for task in reads:
        task.cancel()
    await asyncio.gather(*reads, return_exceptions=True)


async def test_a_create_that_could_only_be_sent_late_is_not_sent(server: Stub, make: Make) -> None:
    server.on("POST", "/instances", Reply(202, ID))
    outcome = await make(create_within=-1).cloud.create(ORDER)
    assert outcome == Refused(Reason.UNAVAILABLE, "POST /instances: it was too late to send it")
    assert bodies(server) == []


async def test_a_create_without_a_token_is_refused_and_not_unknown(server: Stub, world: World) -> None:
    server.on("POST", "/oauth2/token", Reply(500))
    outcome = await world.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.UNAVAILABLE


async def test_a_create_that_is_rate_limited_says_for_how_long(server: Stub, world: World) -> None:
    server.on("POST", "/instances", Reply(429, "Rate limit!", {"Retry-After": "12"}))
    outcome = await world.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.retry_after) == (Reason.RATE_LIMITED, 12.0)
    assert len(bodies(server)) == 1


async def test_an_absurd_retry_after_is_an_hour_and_not_for_ever(server: Stub, world: World) -> None:
    server.on("POST", "/instances", Reply(429, "Rate limit!", {"Retry-After": "999999999"}))
    outcome = await world.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert (outcome.reason, outcome.retry_after) == (Reason.RATE_LIMITED, 3600.0)


@pytest.mark.parametrize(
    "no_tags",
    [
        refusal(400, "invalid_request", ["property tags should not exist"]),
        refusal(400, "invalid_request", "Tag limit exceeded"),
        refusal(403, "forbidden_action", "Tags are not enabled for this project"),
        refusal(403, "forbidden_action", "Insufficient scope for tags"),
        refusal(409, "conflict", "The tag is already linked"),
        refusal(422, "invalid_request", "os_volume.tags must not be given"),
    ],
)
async def test_refused_tags_are_left_out_once_and_for_all(server: Stub, world: World, no_tags: Reply) -> None:
    server.on("POST", "/instances", no_tags, Reply(202, ID))
    assert await world.cloud.create(ORDER) == Happened(ID)
    assert await world.cloud.create(ORDER) == Happened(ID)
    assert [("tags" in body, "tags" in body["os_volume"]) for body in bodies(server)] == [
        (True, True),
        (False, False),
        (False, False),
    ]


async def test_an_order_without_tags_is_not_sent_later_than_the_first_one_could_have_been(
    server: Stub, make: Make
) -> None:
    """Whoever asked looked at its lease then: a slow refusal does not make that look any younger."""
    world = make(create_within=10)

    def slow(seen: Seen) -> Reply:
        world.passed += 11
        return refusal(400, "invalid_request", ["property tags should not exist"])

    server.on("POST", "/instances", slow, Reply(202, ID))
    outcome = await world.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert len(server.of("POST", "/instances")) == 1


async def test_tags_refused_twice_are_not_the_reason(server: Stub, world: World) -> None:
    server.on("POST", "/instances", refusal(400, "invalid_request", "stage and tags"))
    for expected in (2, 4):
        outcome = await world.cloud.create(ORDER)
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.BAD_REQUEST
        assert len(bodies(server)) == expected


@pytest.mark.parametrize(
    "reply",
    [
        Reply(500, "tags"),
        refusal(500, "server_error", "tags"),
        refusal(503, "service_unavailable", "tags"),
        refusal(402, "insufficient_funds", "tags"),
        refusal(400, "invalid_request", "stage"),
        Reply(400, "tags"),
        Reply(202, "tags"),
        Reply(fault="reset"),
    ],
)
async def test_only_a_rejected_order_is_ever_sent_again(server: Stub, world: World, reply: Reply) -> None:
    server.on("POST", "/instances", reply)
    await world.cloud.create(ORDER)
    assert len(bodies(server)) == 1


# ---- delete


async def test_a_delete_names_one_machine_its_disks_and_no_trash(server: Stub, world: World) -> None:
    server.on("PUT", "/instances", Reply(202, [{"instanceId": ID, "status": "success"}]))
    assert await world.cloud.delete(ID, ("disk-1", "disk-2")) == Happened(ID)
    assert await world.cloud.delete(ID, ()) == Happened(ID)
    assert [seen.body for seen in server.of("PUT", "/instances")] == [
        {"action": "delete", "id": ID, "volume_ids": ["disk-1", "disk-2"], "delete_permanently": True},
        {"action": "delete", "id": ID, "volume_ids": [], "delete_permanently": True},
    ]


async def test_a_207_is_read_for_our_machine(server: Stub, world: World) -> None:
    rows = [
        {"instanceId": OTHER, "status": "success"},
        {"instanceId": ID, "status": "error", "statusCode": 403, "error": "Can't discontinue a provisioning instance"},
    ]  # fmt: skip
    server.on("PUT", "/instances", Reply(207, rows))
    outcome = await world.cloud.delete(ID, ())
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.NOT_ALLOWED_YET


async def test_what_else_is_secret_is_taken_out_of_every_answer_that_may_be_told(
    server: Stub, make: Make
) -> None:
    cloud = make(hide=lambda text: text.replace("join-token", "***")).cloud
    row = {"instanceId": ID, "status": "error", "statusCode": 400, "error": "it said join-token"}
    server.on("PUT", "/instances", Reply(207, [row]))
    server.on("POST", "/scripts", refusal(400, "invalid_request", "quota: join-token"))
    server.on("GET", "/scripts", refusal(403, "forbidden_action", "no scripts for join-token"))
    outcomes = [await cloud.delete(ID, ()), await cloud.create_script("x", "join-token")]
    told = [getattr(outcome, "message", "") for outcome in outcomes]
    told.append((await failure(cloud.scripts(""))).message)
    assert [("***" in text, "join-token" in text) for text in told] == [(True, False)] * 3


SCRIPT = "#!/bin/bash\n# gpuas home abcdefghij\n  export JOIN_WITH=hunter2-and-more\ncurl -k https://u:pw@x\n"


@pytest.mark.parametrize(
    "lines", [SCRIPT, SCRIPT.partition("\n")[2], "export JOIN_WITH=hunter2-and-more", SCRIPT.splitlines()[3]]
)
async def test_no_answer_that_repeats_a_script_of_ours_shows_any_of_it(
    server: Stub, make: Make, lines: str
) -> None:
    cloud = make().cloud
    server.on("POST", "/scripts", refusal(400, "invalid_request", f"limit exceeded: {lines}"[:79]))
    server.on("GET", "/scripts", refusal(403, "forbidden_action", f"overheard: {lines}"))
    server.on("POST", "/instances", refusal(400, "invalid_request", ["overheard", lines]))
    outcomes = [await cloud.create_script("x", SCRIPT), await cloud.create(ORDER)]
    told = [getattr(outcome, "message", "") for outcome in outcomes]
    told.append((await failure(cloud.scripts(""))).message)
    assert all("overheard" in text or "limit exceeded" in text for text in told)
    assert not [
        text for text in told for word in ("gpuas home", "JOIN", "hunter", "curl", "pw@") if word in text
    ]


async def test_no_answer_that_repeats_a_script_of_ours_that_was_only_read_shows_any_of_it(
    server: Stub, make: Make
) -> None:
    cloud = make().cloud
    rows = [{"id": ID, "name": "gpuas-home-abcdefghij", "script": SCRIPT}]
    server.on("GET", "/scripts", Reply(200, rows, {"X-Total-Count": "1"}))
    server.on("DELETE", f"/scripts/{ID}", refusal(400, "invalid_request", f"overheard: {SCRIPT}"))
    await cloud.scripts("")
    told = getattr(await cloud.delete_script(ID), "message", "")
    assert "overheard" in told
    assert "hunter" not in told


@pytest.mark.parametrize("secret", ["8", "8472bacf", "success", "volume", "error"])
async def test_a_secret_that_is_part_of_an_answer_changes_nothing_in_what_it_means(
    server: Stub, make: Make, secret: str
) -> None:
    cloud = make(client_secret=secret, hide=lambda text: text.replace(secret, "***")).cloud
    server.on("POST", "/instances", Reply(202, ID), refusal(400, "x", "volume limit exceeded"))
    assert await cloud.create(ORDER) == Happened(ID)
    assert reason_of(await cloud.create(ORDER)) is Reason.QUOTA
    about_a_disk = result(statusCode=400, error="Invalid volume id")
    server.on("PUT", "/instances", Reply(207, [about_a_disk]), Reply(202, [result(status="success")]))
    server.on("GET", f"/instances/{ID}", Reply(200, {"id": ID}))
    assert await cloud.delete(ID, ("gone",)) == Happened(ID)
    server.on("GET", "/scripts", Reply(200, [{"id": ID, "name": "x", "script": "#!"}]))
    assert [script.id for script in await cloud.scripts("x")] == [ID]


async def test_no_half_of_a_secret_is_told_where_a_long_sentence_is_cut(server: Stub, make: Make) -> None:
    other = "another-secret-of-some-length"
    cloud = make(hide=lambda text: text.replace(other, "***")).cloud
    for length in range(120, 260):
        for secret in (SECRET, other):
            long = refusal(403, "forbidden_action", "x" * length + secret)
            server.on("POST", "/instances", long)
            outcome = await cloud.create(ORDER)
            assert isinstance(outcome, Refused)
            server.on("GET", "/instances", long)
            for told in (outcome.message, (await failure(cloud.inventory())).message):
                assert secret[:3] not in told.replace("VERDA_CLIENT_SECRET", "")


def result(**words: Any) -> dict[str, Any]:
    return {"instanceId": ID, "action": "delete", "status": "error", **words}


@pytest.mark.parametrize(
    "about_a_disk",
    [
        refusal(400, "invalid_request", "Invalid volume id gone"),
        refusal(404, "not_found", "Volume gone not found"),
        refusal(202, "invalid_request", "Invalid volume id gone"),
        Reply(202, [result(statusCode=400, error="Invalid volume id")]),
        Reply(202, result(statusCode=400, error="Invalid volume id")),
        Reply(202, [result(error={"message": ["Invalid volume id"]})]),
        Reply(
            207, [result(instanceId=OTHER, status="success"), result(statusCode=404, error="No such volume")]
        ),
    ],
)
async def test_a_disk_that_is_gone_does_not_keep_its_machine(
    server: Stub, world: World, about_a_disk: Reply
) -> None:
    server.on("PUT", "/instances", about_a_disk, Reply(202))
    server.on(
        "GET", f"/instances/{ID}", Reply(200, {"id": ID, "os_volume_id": "here", "volume_ids": ["data"]})
    )
    assert await world.cloud.delete(ID, ("gone", "here", "data")) == Happened(ID)
    assert server.of("PUT", "/instances")[1].body["volume_ids"] == ["here", "data"]


@pytest.mark.parametrize(
    "about_something_else",
    [
        Reply(202, [result(statusCode=403, error="Can't discontinue a provisioning instance")]),
        Reply(202, [result(statusCode=404, error="Instance not found")]),
        Reply(202, [result(statusCode=400, error="Invalid instance id, volumes were kept")]),
        Reply(202, [result(statusCode=500, error="a volume broke")]),
        Reply(202, [result(statusCode=403, error="not with your volumes")]),
        Reply(207, [result(instanceId=OTHER, statusCode=400, error="Invalid volume id")]),
        Reply(202, [result(status="success", error="Invalid volume id")]),
        Reply(202, [result(status="pending", error="Invalid volume id")]),
        refusal(202, "server_error", "a volume broke"),
    ],
)
async def test_a_delete_is_not_sent_with_fewer_disks_for_any_other_reason(
    server: Stub, world: World, about_something_else: Reply
) -> None:
    server.on("PUT", "/instances", about_something_else)
    server.on("GET", f"/instances/{ID}", Reply(200, {"id": ID, "os_volume_id": None, "volume_ids": []}))
    await world.cloud.delete(ID, ("d1",))
    assert [seen.body["volume_ids"] for seen in server.of("PUT", "/instances")] == [["d1"]]


async def test_a_lost_answer_to_a_delete_is_unknown(server: Stub, world: World) -> None:
    server.on("PUT", "/instances", Reply(fault="reset"))
    assert isinstance(await world.cloud.delete(ID, ()), Unknown)


async def test_an_id_that_cannot_be_in_a_path_is_refused_unsent(server: Stub, world: World) -> None:
    for outcome in (await world.cloud.delete_volume(""), await world.cloud.delete_script("../volumes")):
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.BAD_REQUEST
    assert (await failure(world.cloud.instance(".."))).reason is Reason.BAD_REQUEST
    assert server.seen == []


# ---- disks and scripts


async def test_disks_are_listed_with_those_in_the_trash(server: Stub, world: World) -> None:
    os_disk = {"id": "a", "name": "n", "status": "attached", "is_os_volume": True, "base_hourly_cost": 0.0137}
    server.on("GET", "/volumes", Reply(200, [os_disk, {"id": "b", "status": "detached", "size": 50}]))
    trash = [{"id": "b", "status": "detached"}, {"id": "c"}, {"id": "d", "is_permanently_deleted": True}]
    server.on("GET", "/volumes/trash", Reply(200, trash))
    found = (await world.cloud.volumes()).listed
    assert [(disk.id, disk.status) for disk in found] == [
        ("a", "attached"),
        ("b", "deleted"),
        ("c", "deleted"),
    ]
    assert (found[0].is_os, found[0].price_per_hour) == (True, Decimal("0.0137"))


async def test_a_list_of_disks_that_is_cut_is_refused(server: Stub, world: World) -> None:
    server.on("GET", "/volumes", Reply(200, [{"id": "a"}], {"X-Total-Count": "2"}))
    server.on("GET", "/volumes/trash", Reply(200, []))
    assert (await failure(world.cloud.volumes())).reason is Reason.UNAVAILABLE


@pytest.mark.parametrize("path", ["/volumes", "/volumes/trash"])
@pytest.mark.parametrize("row", [{"name": "n", "status": "detached"}, {"id": 7, "name": "n"}, None, "a"])
async def test_a_list_with_a_disk_that_cannot_be_read_is_refused(
    server: Stub, world: World, path: str, row: Any
) -> None:
    """It may be the one whose absence would end a record."""
    server.on("GET", "/volumes", Reply(200, []))
    server.on("GET", "/volumes/trash", Reply(200, []))
    server.on("GET", path, Reply(200, [{"id": "a"}, row]))
    assert (await failure(world.cloud.volumes())).reason is Reason.UNAVAILABLE


async def test_a_list_of_all_scripts_with_one_that_cannot_be_read_is_refused(
    server: Stub, world: World
) -> None:
    server.on("GET", "/scripts", Reply(200, [{"id": "a", "name": "x"}, {"name": "broken"}]))
    assert (await failure(world.cloud.scripts(""))).reason is Reason.UNAVAILABLE


async def test_a_disk_that_is_gone_for_good_is_none_wherever_it_is_listed(server: Stub, world: World) -> None:
    server.on(
        "GET", "/volumes", Reply(200, [{"id": "a", "status": "deleted", "is_permanently_deleted": True}])
    )
    server.on("GET", "/volumes/trash", Reply(200, []))
    assert (await world.cloud.volumes()).listed == ()


@pytest.mark.parametrize("shown", ["00000000-0000-4000-8000-000000000000", "x"])
async def test_an_answer_about_another_machine_says_nothing_of_ours(
    server: Stub, world: World, shown: str
) -> None:
    server.on("GET", f"/instances/{ID}", Reply(200, {"id": shown, "status": "discontinued"}))
    assert (await failure(world.cloud.instance(ID))).reason is Reason.UNAVAILABLE


async def test_a_disk_is_deleted_for_good(server: Stub, world: World) -> None:
    server.on("DELETE", f"/volumes/{ID}", Reply(202), refusal(400, "x", "x is already permanently deleted"))
    assert await world.cloud.delete_volume(ID) == Happened(ID)
    assert reason_of(await world.cloud.delete_volume(ID)) is Reason.ALREADY_GONE
    assert server.of("DELETE", f"/volumes/{ID}")[0].body == {"is_permanent": True}


def pages(all_rows: list[dict[str, str]], cap: int, counted: bool) -> Callable[[Seen], Reply]:
    def answer(seen: Seen) -> Reply:
        size = min(int(seen.query["pageSize"]), cap)
        start = (int(seen.query["page"]) - 1) * size
        headers = {"X-Total-Count": str(len(all_rows))} if counted else {}
        return Reply(200, all_rows[start : start + size], headers)

    return answer


@pytest.mark.parametrize("cap", [10, 100])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("count", [0, 1, 10, 100, 205])
async def test_scripts_are_found_on_all_pages(
    server: Stub, world: World, cap: int, counted: bool, count: int
) -> None:
    ours = [{"id": f"s{n}", "name": f"gpuas-home-{n}", "script": "#!"} for n in range(count)]
    foreign = [{"id": "other", "name": "my-gpuas-home-1", "script": "#!"}]
    server.on("GET", "/scripts", pages(foreign + ours, cap, counted))
    found = await world.cloud.scripts("gpuas-home-")
    assert [script.id for script in found] == [row["id"] for row in ours]
    assert server.of("GET", "/scripts")[0].query == {"page": "1", "pageSize": "100", "name": "gpuas-home-"}


@pytest.mark.parametrize("first", [0, 3], ids=["empty", "a second page that is missing"])
async def test_a_list_of_scripts_that_is_shorter_than_its_own_count_is_no_list(
    server: Stub, world: World, first: int
) -> None:
    """A sweep that reads it would call an account clean in which a join token lies."""
    some = [{"id": f"s{n}", "name": f"gpuas-home-{n}", "script": "#!"} for n in range(first)]
    total = {"X-Total-Count": "5"}
    server.on("GET", "/scripts", Reply(200, some, total), Reply(200, [], total))
    with pytest.raises(CloudError, match="shorter than its own count"):
        await world.cloud.scripts("")


@pytest.mark.parametrize("cap", [10, 100])
@pytest.mark.parametrize("count", [0, 1, 10, 25, 100])
async def test_a_count_of_the_whole_project_beside_the_scripts_of_one_name_is_no_trouble(
    server: Stub, world: World, cap: int, count: int
) -> None:
    """Nobody says whether the count is one before or after the filter; it must not stop every sweep."""
    ours = [{"id": f"s{n}", "name": f"gpuas-home-{n}", "script": "#!"} for n in range(count)]
    filtered = pages(ours, cap, counted=False)

    def counted(seen: Seen) -> Reply:
        return dataclasses.replace(filtered(seen), headers={"X-Total-Count": "137"})

    server.on("GET", "/scripts", counted)
    assert [one.id for one in await world.cloud.scripts("gpuas-home-")] == [row["id"] for row in ours]


async def test_a_server_that_knows_no_pages_does_not_loop(server: Stub, world: World) -> None:
    server.on("GET", "/scripts", Reply(200, [{"id": "a", "name": "x"}, {"name": "broken"}]))
    assert [script.id for script in await world.cloud.scripts("x")] == ["a"]
    assert len(server.of("GET", "/scripts")) < 10


async def test_a_script_is_made_and_removed(server: Stub, world: World) -> None:
    server.on("POST", "/scripts", Reply(201, ID))
    server.on("DELETE", f"/scripts/{ID}", Reply(200), refusal(404, "not_found", "gone"))
    assert await world.cloud.create_script("gpuas-home-x", "#!/bin/bash") == Happened(ID)
    assert server.of("POST", "/scripts")[0].body == {"name": "gpuas-home-x", "script": "#!/bin/bash"}
    assert await world.cloud.delete_script(ID) == Happened(ID)
    assert reason_of(await world.cloud.delete_script(ID)) is Reason.ALREADY_GONE


async def test_after_closing_nothing_is_sent(server: Stub, world: World) -> None:
    await world.cloud.close()
    outcome = await world.cloud.create(ORDER)
    assert isinstance(outcome, Refused)
    assert server.connections == 0


async def test_calls_run_side_by_side_and_leave_the_loop_free(server: Stub, make: Make) -> None:
    waiting = asyncio.Event()
    arrived: list[str] = []
    loop = asyncio.get_running_loop()

    def hold(seen: Seen) -> Reply:
        arrived.append(seen.path)
        if len(arrived) == 8:
            loop.call_soon_threadsafe(waiting.set)
        return Reply(fault="hang")

    for number in range(8):
        server.on("GET", f"/instances/{number}", hold)
    world = make()
    reads = [asyncio.create_task(world.cloud.instance(str(number))) for number in range(8)]
    async with asyncio.timeout(5):
        await waiting.wait()  # the loop turns while eight threads wait
    for task in reads:
        task.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
