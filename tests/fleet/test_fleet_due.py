"""When nobody has to look: nothing comes of the same picture before its time, and no list of the same is news."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.domain.machine import Machine, Phase
from controller.domain.outcome import Unknown
from controller.domain.policy import Deadlines
from controller.domain.reason import Reason
from controller.fleet.due import due
from controller.fleet.life import Seen, step
from controller.fleet.tasks import NotYet, Tasks
from tests.fleet.clockwork import Time
from tests.fleet.fakes import make_pod
from tests.fleet.scene import World
from tests.fleet.test_fleet_life import NOW, instance, machine, node

LIMITS = Deadlines()
AGES = st.sampled_from(
    [0.0, 1.0, 19.0, 21.0, 299.0, 301.0, 599.0, 601.0, 899.0, 901.0, 1199.0, 1201.0, 5000.0]
)
MOMENTS = ("ordered_at", "running_at", "joined_at", "node_ready_at", "gpus_seen_at", "gpus_lost_at",
           "node_missing_at", "stopped_at")  # fmt: skip


@st.composite
def pictures(draw: Any) -> tuple[Machine, Seen]:
    phase = draw(st.sampled_from([phase for phase in Phase if phase is not Phase.TOMBSTONE]))
    moments = {name: draw(st.one_of(st.just(0.0), AGES.map(lambda age: NOW - age))) for name in MOMENTS}
    status = draw(st.sampled_from(["provisioning", "running", "offline", "error", None]))
    there = draw(st.sampled_from([None, "ready", "silent", "no gpu"]))
    found = None if there is None else node(gpus=0 if there == "no gpu" else 1, ready=there != "silent")
    pods = (make_pod("train", NOW - 60, node="home-a100-aaaaaaaaaa"),) if draw(st.booleans()) else ()
    seen = Seen(
        instance=instance(status) if status else None,
        listed_at=NOW,
        node=found,
        doubt=draw(st.booleans()),
        pods=pods if found is not None else (),
        dressed=draw(st.booleans()),
        promised={"nvidia.com/gpu": 1},
    )
    return machine(phase, **moments), seen


@settings(deadline=None, max_examples=400)
@given(picture=pictures(), part=st.floats(0.0, 1.0))
def test_nothing_comes_of_the_same_picture_before_it_is_due(
    picture: tuple[Machine, Seen], part: float
) -> None:
    before, seen = picture
    record = step(before, seen, LIMITS, NOW)
    at = due(record, LIMITS, NOW)
    end = at if at is not None else NOW + 1e6
    later = min(NOW + part * (end - NOW), max(NOW, math.nextafter(end, 0.0)))  # at that very moment it is due
    assert step(record, seen, LIMITS, later) == record


async def test_what_is_due_comes_at_once_when_its_time_has_come() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    world.town.joins = False
    controller.buy()
    await world.until(controller, Phase.BOOTING)
    at = controller.fleet.due()
    assert at == controller.only.running_at + world.policy.deadlines.join
    await world.time.advance(at - world.time.now + 0.01)
    await controller.fleet.advance()
    assert controller.only.reason is Reason.JOIN_DEADLINE


async def test_a_list_that_tells_the_same_is_no_news() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    controller.buy()
    await world.until(controller, Phase.READY)
    fleet = controller.fleet
    await fleet.refresh_inventory()
    assert not await fleet.refresh_inventory()
    world.account.set("i-1", status="offline")
    assert await fleet.refresh_inventory()
    assert not await fleet.refresh_inventory()


async def test_each_list_that_lacks_a_machine_is_news() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    controller.hands.create = _lost  # type: ignore[method-assign]
    controller.buy()
    await world.time.settle()
    assert controller.only.phase is Phase.INTENDED
    assert [await controller.fleet.refresh_inventory() for _ in range(3)] == [True, True, True]


async def test_a_catalogue_of_the_same_offers_is_no_news() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    assert not await controller.fleet.refresh_catalogue()
    world.account.offers = [replace(world.account.offers[0], location="FIN-02")]
    assert await controller.fleet.refresh_catalogue()
    assert not await controller.fleet.refresh_catalogue()


async def test_a_pause_after_a_failure_is_due_at_its_end() -> None:
    time = Time()
    tasks = Tasks(time.clock, lambda: None)

    async def fail() -> None:
        raise NotYet("later", 30.0)

    assert tasks.due is None
    tasks.start("a", fail)
    await time.settle()
    began = time.now
    assert tasks.due == began + 30
    assert not tasks.start("a", fail)
    await time.advance(30)
    assert tasks.start("a", fail)
    await time.settle()
    await time.advance(31)
    assert tasks.due is None


async def _lost(order: object) -> Unknown:
    return Unknown("the answer was lost")
