"""The adapter against the sandbox cloud over real HTTP: a machine's whole life, and what goes wrong in it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from controller.cloud.protocol import CloudError, Order
from controller.cloud.verda.provider import VerdaCloud
from controller.domain import names
from controller.domain.cloudthings import ON_DEMAND, SPOT, Instance
from controller.domain.outcome import Happened, Outcome, Refused, Unknown
from controller.domain.reason import Reason
from controller.sandbox.cloud import lifecycle
from controller.sandbox.cloud.settings import Settings
from controller.sandbox.cloud.world import CloudWorld
from controller.sandbox.faults import Faults
from controller.sandbox.shell import Running, serve

START = 1_800_000_000.0
CREDENTIALS = "client-of-ours:its-secret-in-the-sandbox"
INTENT = "abcdefghij"
ORDER = Order(
    hostname=names.hostname("home", "a100", INTENT),
    description=names.description("home", INTENT),
    tags=(("gpuas-cluster", "home"), ("gpuas-pool", "a100"), ("gpuas-intent", INTENT)),
    instance_type="1A100.22V",
    location="FIN-03",
    market=ON_DEMAND,
    image="ubuntu-24.04",
    disk_gb=100,
    ssh_key_ids=(),
)
SPOT_ORDER = msgspec.structs.replace(ORDER, market=SPOT)


class Scene:
    """A sandbox cloud whose time stands still until it is told to pass, and the adapter on it."""

    def __init__(self) -> None:
        self.now = START
        knobs = {
            "speed": 1, "ordered_s": 10, "provisioning_s": 100, "boot_s": 60, "delete_s": 30, "volume_gone_s": 120,
            "volume_delete_s": 5, "rate_limits": False, "credentials": CREDENTIALS,
        }  # fmt: skip
        self.faults = Faults()
        self.world = CloudWorld(lambda: self.now, random.Random(7), Settings().changed(knobs))
        self.running: Running | None = None
        self.cloud: VerdaCloud

    async def open(self, **words: Any) -> Scene:
        self.running = await serve(self.world, faults=self.faults)
        client_id, _, secret = CREDENTIALS.partition(":")
        words = {"client_id": client_id, "client_secret": secret, **words}
        words = {"base_url": f"{self.running.url}/v1/", "sleep": self._sleep, **words}
        self.cloud = VerdaCloud(clock=lambda: self.now, monotonic=lambda: self.now, **words)
        return self

    def impatient(self) -> VerdaCloud:
        """Another adapter on it, that does not wait for long."""
        assert self.running is not None
        client_id, _, secret = CREDENTIALS.partition(":")
        return VerdaCloud(
            client_id=client_id,
            client_secret=secret,
            base_url=f"{self.running.url}/v1/",
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            sleep=self._sleep,
            read_timeout=0.5,
            call_timeout=1.5,
        )

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds

    async def close(self) -> None:
        await self.cloud.close()
        if self.running is not None:
            await asyncio.sleep(0.01)  # the server is at rest when it is told to stop
            await self.running.stop()

    def set(self, **knobs: Any) -> None:
        self.world.state.change(self.world.state.settings.changed(knobs))

    def fault(self, method: str, path: str, fault: str, **more: Any) -> None:
        self.faults.replace([{"method": method, "path": path, "fault": fault, **more}])

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.world.tick()

    async def order(self, order: Order = ORDER) -> str:
        outcome = await self.cloud.create(order)
        assert isinstance(outcome, Happened), outcome
        return outcome.id

    async def order_running(self, order: Order = ORDER) -> Instance:
        instance_id = await self.order(order)
        self.wait(111)
        found = await self.cloud.instance(instance_id)
        assert found is not None
        assert found.state == "running"
        return found


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    opened = await Scene().open()
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def refused(outcome: Outcome) -> Reason:
    assert isinstance(outcome, Refused), outcome
    return outcome.reason


async def test_the_catalogue_knows_what_is_sold_where_in_which_market(scene: Scene) -> None:
    scene.world.state.stock.replace(
        [{"instance_type": "1A100.22V", "location": "FIN-01", "market": "spot", "count": 0}]
    )
    found = await scene.cloud.catalogue()
    offers = {offer.key: offer for offer in found.offers}
    assert len(offers) == 55 * 4 * 2
    assert not offers["1A100.22V/FIN-01/spot"].available
    assert offers["1A100.22V/FIN-01/on-demand"].available
    assert not offers["1B200.30V/FIN-01/on-demand"].available
    assert offers["1B200.30V/FIN-03/on-demand"].available
    assert offers["1A100.22V/FIN-03/spot"].price == Decimal("0.4515")
    eight = found.type_named("8H100.80S.176V")
    assert eight is not None
    assert (eight.gpus, eight.vcpus, eight.memory_gib, eight.gpu_memory_gib) == (8, 176, 1480, 640)
    arm = {kind.name for kind in (offer.type for offer in found.offers) if kind.arch == "arm64"}
    assert arm == {"1GB300.32V", "2GB300.64V", "4GB300.128V"}


@pytest.mark.parametrize("order", [ORDER, SPOT_ORDER])
async def test_a_machine_carries_every_mark_that_its_order_gave_it(scene: Scene, order: Order) -> None:
    instance = await scene.order_running(order)
    assert (instance.hostname, instance.market, instance.location) == (order.hostname, order.market, "FIN-03")
    marks = (instance.hostname, instance.description, instance.tags)
    assert names.owned_intent("home", *marks) == INTENT
    assert instance.ip
    assert instance.created_at == pytest.approx(START, abs=1)
    listed = await scene.cloud.inventory()
    assert (listed.instances, listed.complete) == ((instance,), True)
    (disk,) = (await scene.cloud.volumes()).listed
    assert (disk.id, disk.name, disk.is_os, disk.size_gb) == (
        instance.os_volume_id,
        order.hostname,
        True,
        100,
    )
    assert dict(disk.tags)["gpuas-intent"] == INTENT


async def test_an_evicted_spot_machine_leaves_no_disk(scene: Scene) -> None:
    instance = await scene.order_running(SPOT_ORDER)
    lifecycle.evict(scene.world.state, scene.world.state.instances[instance.id])
    scene.wait(1000)
    assert (await scene.cloud.volumes()).listed == ()
    assert (await scene.cloud.inventory()).instances == ()


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("quoted", Happened),
        ("newline", Happened),
        ("lose_after", Unknown),
        ("hang", Unknown),
        ("lose_before", Unknown),
    ],
)
async def test_what_became_of_an_order_is_never_guessed(fault: str, expected: type) -> None:
    scene = await Scene().open(read_timeout=0.3 if fault == "hang" else 5)
    scene.fault("POST", "/instances", fault)
    try:
        outcome = await scene.cloud.create(ORDER)
        assert type(outcome) is expected
        scene.faults.replace([])
        found = (await scene.cloud.inventory()).instances
        # The inventory, and only the inventory, tells what the answer did not.
        assert len(found) == scene.world.state.creates == (0 if fault in ("lose_before", "hang") else 1)
        if isinstance(outcome, Happened):
            assert found[0].id == outcome.id
    finally:
        await scene.close()


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_server_error_after_the_purchase_is_unknown_and_not_repeated(
    scene: Scene, status: int
) -> None:
    scene.fault("POST", "/instances", "answer_after", status=status, body="<html>")
    assert isinstance(await scene.cloud.create(ORDER), Unknown)
    assert scene.world.state.creates == 1


@pytest.mark.parametrize(
    ("knobs", "changes", "reason"),
    [
        ({"gpu_quota": 0}, {}, Reason.QUOTA),
        ({"storage_quota_gb": 50}, {}, Reason.QUOTA),
        ({"volume_quota": 0, "error_message_as_list": True}, {}, Reason.QUOTA),
        ({}, {"image": "no-such-image"}, Reason.IMAGE_NOT_SUPPORTED),
        ({}, {"location": "MOON-01"}, Reason.BAD_REQUEST),
        ({}, {"disk_gb": 10}, Reason.BAD_REQUEST),
        ({}, {"instance_type": "1B200.30V", "location": "FIN-01"}, Reason.NO_CAPACITY),
    ],
)  # fmt: skip
async def test_a_refused_order_says_why(
    scene: Scene, knobs: dict[str, Any], changes: dict[str, Any], reason: Reason
) -> None:
    scene.set(**knobs)
    outcome = await scene.cloud.create(msgspec.structs.replace(ORDER, **changes))
    assert refused(outcome) is reason
    assert scene.world.state.creates == 0


async def test_an_empty_balance_is_no_funds(scene: Scene) -> None:
    state = scene.world.state
    state.change(state.settings, balance=Decimal("0.01"))
    assert refused(await scene.cloud.create(ORDER)) is Reason.NO_FUNDS


@pytest.mark.parametrize("body", ["json", "text"])
async def test_a_rate_limit_is_told_with_its_end(scene: Scene, body: str) -> None:
    scene.set(rate_limits=True, endpoint_limit=1, rate_limit_body=body)
    await scene.order()
    outcome = await scene.cloud.create(ORDER)
    assert refused(outcome) is Reason.RATE_LIMITED
    assert isinstance(outcome, Refused)
    assert outcome.retry_after
    assert scene.world.state.creates == 1


@pytest.mark.parametrize("status", [400, 403])
async def test_a_machine_is_deleted_as_soon_as_the_cloud_allows_with_its_disk(
    scene: Scene, status: int
) -> None:
    scene.set(action_refused_status=status)
    instance_id = await scene.order()
    scene.wait(50)
    booting = await scene.cloud.instance(instance_id)
    assert booting is not None
    assert booting.status == "provisioning"
    disks = (booting.os_volume_id,)
    assert refused(await scene.cloud.delete(instance_id, disks)) is Reason.NOT_ALLOWED_YET
    scene.wait(70)
    assert await scene.cloud.delete(instance_id, disks) == Happened(instance_id)
    assert await scene.cloud.delete(instance_id, disks) == Happened(instance_id)  # safe to repeat
    scene.wait(200)
    assert (await scene.cloud.inventory()).instances == ()
    assert (await scene.cloud.volumes()).listed == ()  # not even in the trash
    gone = await scene.cloud.instance(instance_id)
    assert gone is not None
    assert gone.state == "gone"


def is_done(outcome: Outcome) -> bool:
    gone = isinstance(outcome, Refused) and outcome.reason is Reason.ALREADY_GONE
    return gone or isinstance(outcome, Happened)


@pytest.mark.parametrize("knobs", [{"delete_discontinued_status": 204}, {"delete_discontinued_status": 403}])
async def test_deleting_what_is_gone_is_done(scene: Scene, knobs: dict[str, int]) -> None:
    scene.set(**knobs)
    instance = await scene.order_running()
    assert await scene.cloud.delete(instance.id, instance.disks) == Happened(instance.id)
    scene.wait(500)
    assert is_done(await scene.cloud.delete(instance.id, instance.disks))


@pytest.mark.parametrize("status", [400, 404])
async def test_what_was_never_there_is_none_and_deleted(scene: Scene, status: int) -> None:
    scene.set(unknown_id_status=status)
    nobody = "11111111-2222-4333-8444-555555555555"
    assert await scene.cloud.instance(nobody) is None
    assert refused(await scene.cloud.delete(nobody, ())) is Reason.ALREADY_GONE
    assert refused(await scene.cloud.delete_script(nobody)) is Reason.ALREADY_GONE
    assert refused(await scene.cloud.delete_volume(nobody)) is Reason.ALREADY_GONE


async def test_a_disk_nobody_knows_does_not_keep_its_machine(scene: Scene) -> None:
    instance = await scene.order_running()
    disks = ("11111111-2222-4333-8444-555555555555", *instance.disks)
    assert await scene.cloud.delete(instance.id, disks) == Happened(instance.id)
    scene.wait(500)
    assert (await scene.cloud.volumes()).listed == ()


@pytest.mark.parametrize("status", [204, 400])
async def test_a_disk_that_was_left_behind_can_be_deleted_also_from_the_trash(
    scene: Scene, status: int
) -> None:
    scene.set(repeated_permanent_delete_status=status)
    instance = await scene.order_running()
    disk = instance.os_volume_id
    assert refused(await scene.cloud.delete_volume(disk)) is Reason.NOT_ALLOWED_YET
    assert await scene.cloud.delete(instance.id, ()) == Happened(instance.id)
    scene.wait(500)
    assert [(one.id, one.status) for one in (await scene.cloud.volumes()).listed] == [(disk, "detached")]
    trash = scene.world.state.volumes[disk]
    trash.fate, trash.status = "move_to_trash", "deleted"
    assert await scene.cloud.delete_volume(disk) == Happened(disk)
    scene.wait(10)
    assert is_done(await scene.cloud.delete_volume(disk))


async def test_more_scripts_than_fit_a_page_are_all_found(scene: Scene) -> None:
    scene.set(script_quota=500)
    for number in range(120):
        await scene.cloud.create_script(f"gpuas-home-{number:010}", "#!/bin/bash\n")
    await scene.cloud.create_script("somebody-elses-gpuas-home-1", "#!/bin/bash\n")
    found = await scene.cloud.scripts("gpuas-home-")
    assert len({script.id for script in found}) == 120
    assert all(script.text == "#!/bin/bash\n" for script in found)


async def test_a_full_quota_of_scripts_is_told_as_such(scene: Scene) -> None:
    scene.set(script_quota=0)
    assert refused(await scene.cloud.create_script("gpuas-home-x", "#!/bin/bash\n")) is Reason.QUOTA


async def test_a_script_reaches_its_machine(scene: Scene) -> None:
    made = await scene.cloud.create_script("gpuas-home-x", "#!/bin/bash\necho hello\n")
    assert isinstance(made, Happened)
    instance = await scene.order_running(msgspec.structs.replace(ORDER, script_id=made.id))
    assert instance.script_id == made.id


async def test_tokens_that_end_early_are_replaced_without_anybody_noticing(scene: Scene) -> None:
    await scene.order()
    scene.world.tokens.revoke_all()
    await scene.order()
    assert len((await scene.cloud.inventory()).instances) == 2


async def test_wrong_credentials_name_what_to_check() -> None:
    scene = await Scene().open(client_secret="wrong")
    try:
        with pytest.raises(CloudError, match="VERDA_CLIENT_ID and VERDA_CLIENT_SECRET") as caught:
            await scene.cloud.catalogue()
        assert caught.value.reason is Reason.UNAUTHORISED
        assert refused(await scene.cloud.create(ORDER)) is Reason.UNAUTHORISED
    finally:
        await scene.close()


READS: list[Callable[[VerdaCloud], Awaitable[Any]]] = [
    lambda cloud: cloud.catalogue(),
    lambda cloud: cloud.inventory(),
    lambda cloud: cloud.volumes(),
    lambda cloud: cloud.scripts("gpuas-"),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("fault", ["lose_before", "lose_after"])
async def test_a_read_survives_two_lost_answers(
    scene: Scene, read: Callable[[VerdaCloud], Awaitable[Any]], fault: str
) -> None:
    scene.fault("GET", "/*", fault, times=2)
    assert await read(scene.cloud) is not None


async def test_fields_and_statuses_from_the_future_are_tolerated(scene: Scene) -> None:
    scene.set(extra_fields={"colour": "green"}, status_alias={"ordered": "dreaming"})
    await scene.order()
    found = await scene.cloud.inventory()
    assert [(one.status, one.state) for one in found.instances] == [("dreaming", "unknown")]
    assert found.complete
