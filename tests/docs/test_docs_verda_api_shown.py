"""Rows of the page about Verda's API, tried: each is taken from the page and met by the real adapter."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable
from decimal import Decimal
from typing import Any

import pytest

from controller.cloud.protocol import CloudError
from controller.cloud.verda.answers import Call, classify, is_about_tags
from controller.domain.cloudthings import ON_DEMAND, Instance, InstanceType, Inventory, Offer
from controller.domain.outcome import Happened, Outcome, Refused
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.fleet.refusals import Refusals
from tests.cloud.test_verda_on_sandbox import ORDER, Scene
from tests.cloud.test_verda_provider import NOW, World
from tests.cloud.verda_stub import ID, Reply, stub
from tests.docs.tables import codes, marked_rows
from tests.docs.test_docs_verda_api import TEXT

HTML = "<html><body><h1>Bad Gateway</h1></body></html>"
BODIES: dict[str, Any] = {
    "an id": ID,
    "nothing": "",
    "a page": HTML,
    "a list of nothing": [],
    "a text": "Rate limit!",
    "words of a gateway": {"message": "no Route matched with those values"},
}
CALLS = {
    "an order": Call.CREATE,
    "a new script": Call.CREATE_SCRIPT,
    "a delete": Call.DELETE,
    "a delete of a disk": Call.DELETE_VOLUME,
    "a delete of a script": Call.DELETE_SCRIPT,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def ended(outcome: Outcome) -> str:
    if isinstance(outcome, Refused):
        return f"`{outcome.reason}`"
    return "happened" if isinstance(outcome, Happened) else "unknown"


async def read(listing: Awaitable[Inventory]) -> str:
    try:
        return "read" if (await listing).complete else "not whole"
    except CloudError as error:
        return f"`{error.reason}`"


def rows(name: str) -> list[Any]:
    return [pytest.param(row[:-1], id=" ".join(row[:2]).replace("`", "")) for row in marked_rows(TEXT, name)]


@pytest.mark.parametrize("row", rows("statuses"))
async def test_a_status_means_what_its_row_says(row: list[str]) -> None:
    status, body, *expected = row
    code = codes(body)
    sent = {"code": code[0], "message": "words that nobody knows"} if code else BODIES[body]
    found = []
    for method in ("POST", "PUT", "GET"):
        with stub() as server:
            server.on(method, "/instances", Reply(int(status), sent))
            cloud = World(server).cloud
            if method == "POST":
                found.append(ended(await cloud.create(ORDER)))
            elif method == "PUT":
                found.append(ended(await cloud.delete(ID, ())))
            else:
                found.append((await read(cloud.inventory())).replace("read", "listed"))
            await cloud.close()
            # A change is sent once; only a refused token is tried again, with another one.
            assert method == "GET" or len(server.of(method, "/instances")) == (2 if status == "401" else 1)
    assert found == expected


@pytest.mark.parametrize("row", rows("sentences"))
def test_a_sentence_means_what_its_row_says(row: list[str]) -> None:
    words, sentence, to, status, code, expected = row
    for pattern in codes(words):
        assert re.search(pattern, f"{codes(code)[0]} {sentence}", re.IGNORECASE)
    for message in (sentence, sentence.upper(), [sentence]):
        body = json.dumps({"code": codes(code)[0], "message": message})
        assert ended(classify(int(status), body, CALLS[to], target=ID)) == expected
    if words:
        # It is the words that decide: without them the same answer means something else.
        without = json.dumps(
            {"code": code.strip("`").replace("GPU_QUOTA", "X"), "message": "nothing that is known"}
        )
        another = ended(classify(int(status), without, CALLS[to], target=ID))
        assert another != expected or (is_about_tags(400, body) and not is_about_tags(400, without))


@pytest.mark.parametrize("row", rows("states"))
def test_a_state_is_what_its_row_says(row: list[str]) -> None:
    statuses = codes(row[0]) + (
        ["never-heard-of", "hibernating", "restoring", ""] if "any other" in row[0] else []
    )
    for status in statuses:
        assert _instance(status).state == row[1]


def _instance(status: str) -> Instance:
    return Instance(
        id=ID, hostname="", description="", status=status, instance_type="", location="", market=ON_DEMAND,
        price=_type("x").price, created_at=0,
    )  # fmt: skip


def _type(name: str) -> InstanceType:
    price = Decimal(1)
    return InstanceType(name=name, model="A100", gpus=1, vcpus=1, memory_gib=1, price=price, spot_price=price)


@pytest.mark.parametrize("row", [row for row in rows("reasons") if row.values[0][1]])
def test_a_reason_keeps_away_from_what_its_row_says(row: list[str]) -> None:
    here, there = Offer(type=_type("1A"), location="FIN-01", market=ON_DEMAND), "FIN-03"
    elsewhere = Offer(type=_type("1A"), location=there, market=ON_DEMAND)
    another = Offer(type=_type("2B"), location="FIN-01", market=ON_DEMAND)
    refusals = Refusals(Deadlines())
    refusals.add(here.key, Reason(codes(row[0])[0]), "no", NOW)
    left_alone = [refusal.offer for refusal in refusals.active((here, elsewhere, another), NOW + 1)]
    wide = {"the offer": [here], "the type": [here, elsewhere], "the account": [here, elsewhere, another]}
    assert left_alone == [offer.key for offer in wide[row[1]]]


# ---- what goes wrong on the way


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    opened = await Scene().open()
    yield opened
    await opened.close()


@pytest.mark.parametrize("row", rows("faults"))
async def test_a_fault_ends_as_its_row_says(scene: Scene, row: list[str]) -> None:
    (fault,) = codes(row[0])
    more = {"seconds": 60.0} if fault in ("delay_answer", "drip", "hang", "hang_after") else {}
    answer = {"status": 500, "body": HTML} if fault.startswith("answer") else {}
    standing = await scene.order_running()
    waits = fault in ("delay_answer", "drip", "hang", "hang_after")
    cloud = scene.impatient() if waits else scene.cloud
    with contextlib.suppress(CloudError):
        await cloud.inventory()  # its token is fetched

    scene.fault("POST", "/instances", fault, **more, **answer)
    outcome = ended(await cloud.create(ORDER))
    assert f"{outcome} ({scene.world.state.creates - 1})" == row[1]
    assert scene.faults.rules[0].matched == 1

    scene.fault("GET", "/instances", fault, **more, **answer)
    assert await read(cloud.inventory()) == row[3]

    scene.fault("PUT", "/instances", fault, **more, **answer)
    assert ended(await cloud.delete(standing.id, standing.disks)) == row[2]
    assert scene.faults.rules[0].matched == 1
    if waits:
        await cloud.close()
    # Whatever was said: asked for again it goes, and with it its disk.
    assert ended(await scene.cloud.delete(standing.id, standing.disks)) == "happened"
    scene.wait(500)
    left = await scene.cloud.instance(standing.id)
    assert left is None or left.state == "gone"
    assert standing.os_volume_id not in [disk.id for disk in (await scene.cloud.volumes()).listed]
