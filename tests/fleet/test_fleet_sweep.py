"""What a crash left behind is found and removed when provably ours, and nothing else is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from controller.cloud.protocol import CloudError
from controller.domain.cloudthings import Inventory, Script, Volume
from controller.domain.machine import Phase
from controller.domain.outcome import Refused, Unknown
from controller.domain.reason import Reason
from controller.fleet import sweep
from tests.fleet.scene import Controller, World

INTENT = "aaaaaaaaaa"
TAGS = (("gpuas-cluster", "home"), ("gpuas-intent", INTENT))
MARK = f"#!/bin/bash\n# gpuas home {INTENT}\n"


def _no(_: str) -> bool:
    return False


async def started(world: World) -> Controller:
    controller = world.start()
    await controller.look()
    return controller


def script(name: str = f"gpuas-home-{INTENT}", text: str = MARK) -> Script:
    return Script(id="s-1", name=name, text=text)


def disk(**more: Any) -> Volume:
    values: dict[str, Any] = {"id": "d-1", "name": f"home-a100-{INTENT}", "status": "detached", "tags": TAGS}
    return Volume(**(values | more))


async def test_a_script_and_a_disk_without_a_machine_go() -> None:
    world = World()
    world.account.scripts["s-1"] = script()
    world.account.volumes["d-1"] = disk()
    controller = await started(world)
    await controller.sweep()
    assert not world.account.scripts
    assert world.account.volumes["d-1"].status == "deleting"


@pytest.mark.parametrize(
    "found",
    [
        script(text="#!/bin/bash\necho mine\n"),
        script(text=f"# gpuas home {INTENT}\n#!/bin/bash\n"),  # the mark is not in the second line
        script(text="#!/bin/bash\n# gpuas home bbbbbbbbbb\n"),
        script(name=f"gpuas-home-two-{INTENT}", text=f"#!/bin/bash\n# gpuas home-two {INTENT}\n"),
        script(name="gpuas-home-short"),
    ],
)
async def test_a_script_with_one_mark_alone_stays(found: Script) -> None:
    world = World()
    world.account.scripts["s-1"] = found
    controller = await started(world)
    await controller.sweep()
    assert world.account.scripts == {"s-1": found}


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        (disk(tags=()), True),
        (disk(tags=(("gpuas-cluster", "home"), ("gpuas-intent", "bbbbbbbbbb"))), True),
        (disk(name="data"), False),
        (
            disk(
                name=f"home-two-a100-{INTENT}", tags=(("gpuas-cluster", "home-two"), ("gpuas-intent", INTENT))
            ),
            False,
        ),
    ],
)
async def test_a_disk_that_is_not_provably_ours_stays(found: Volume, reported: bool) -> None:
    world = World()
    world.account.volumes["d-1"] = found
    controller = await started(world)
    orphans = await controller.sweep()
    assert world.account.volumes == {"d-1": found}
    assert bool(orphans.doubtful) is reported


async def test_a_disk_attached_to_a_machine_that_the_last_list_did_not_show_stays() -> None:
    world = World()
    controller = await started(world)
    world.account.volumes["d-1"] = disk(status="attached", instance_id="i-9")
    world.account.instances["i-9"] = _stranger(world)
    await controller.sweep()
    assert world.account.volumes["d-1"].status == "attached"
    world.account.end("i-9")
    await controller.sweep()
    assert world.account.volumes["d-1"].status == "attached"  # until another sweep says so, too
    await controller.sweep()
    assert world.account.volumes["d-1"].status == "deleting"


async def test_a_disk_without_tags_is_ours_by_the_machine_that_it_was_made_with() -> None:
    world = World()
    controller = await started(world)
    alike = disk(id="d-2", tags=())
    world.account.volumes |= {"d-1": disk(tags=(), instance_id="i-9"), "d-2": alike}
    world.account.instances["i-9"] = replace(
        _stranger(world),
        hostname=f"home-a100-{INTENT}",
        description=f"gpuas home {INTENT}",
        os_volume_id="d-1",
    )
    await controller.sweep()
    assert world.account.volumes["d-1"].status == "detached"  # its machine is still there
    world.account.end("i-9")
    found = await controller.sweep()
    assert world.account.volumes["d-1"].status == "deleting"
    assert world.account.volumes["d-2"] == alike
    assert [sentence.split()[1] for sentence in found.doubtful] == ["d-2"]


def _stranger(world: World) -> Any:
    from tests.fleet.test_fleet_life import instance

    return instance(id="i-9", hostname="x", created_at=world.time.now)


async def test_a_launch_in_flight_keeps_its_script() -> None:
    world = World()
    controller = await started(world)
    controller.hands.gates["create"] = asyncio.Event()
    controller.buy("default/train")
    await world.time.settle()
    assert world.account.scripts
    await controller.sweep()
    assert world.account.scripts
    controller.hands.gates["create"].set()
    await world.time.settle()
    await controller.sweep()
    assert world.account.scripts


async def test_a_launch_that_begins_while_the_sweep_lists_keeps_its_script() -> None:
    world = World()
    controller = await started(world)
    gate = controller.hands.gates["volumes"] = asyncio.Event()
    sweeping = asyncio.create_task(controller.sweep())
    await world.time.settle()
    controller.buy("default/train")
    await world.time.settle()
    gate.set()
    await sweeping
    assert len(world.account.scripts) == 1


async def test_a_script_goes_once_its_machine_has_joined_and_the_sweep_never_takes_it_before() -> None:
    world = World(cooldown=1e9)
    world.town.add_pod()
    world.town.work = 1e9
    controller = world.start()
    for _ in range(30):
        await world.run(controller, 5)
        if controller.only.phase in (Phase.INTENDED, Phase.ORDERED, Phase.BOOTING):
            await controller.sweep()
            assert world.account.scripts
    assert controller.only.phase is Phase.READY
    assert not world.account.scripts
    assert controller.only.script_id == ""


async def test_a_sweep_of_one_who_no_longer_leads_removes_nothing() -> None:
    world = World()
    world.account.scripts["s-1"] = script()
    world.account.volumes["d-1"] = disk()
    controller = await started(world)
    found = await sweep.find(controller.hands, "home", {}, Inventory(at=0.0), _no, _no)
    await sweep.remove(controller.hands, found, lambda: False)
    assert found.scripts
    assert found.disks
    assert not controller.hands.did("delete_script", "delete_volume")


async def test_a_disk_goes_also_while_the_row_of_its_machine_that_is_gone_stays_listed() -> None:
    """The order's answer was lost, and the machine evicted before any list showed it."""
    world = World()
    world.account.shows_gone = True
    world.account.boots = False
    controller = await started(world)
    world.town.add_pod()
    controller.hands.faults["create"] = ["lost"]
    world.account.list_lag = 1e9
    await controller.look()
    await world.time.settle()
    world.account.end("i-1")
    world.account.available = False
    world.town.pods.clear()
    await world.run(controller, 300)
    assert [machine.phase for machine in controller.ledger.machines.values()] == [Phase.TOMBSTONE]
    world.account.list_lag = 0
    await world.run(controller, 30)
    assert [one.state for one in controller.fleet.inventory.instances] == ["gone"]
    await controller.sweep()
    found = await controller.sweep()
    assert [one.id for one in found.disks] == ["d-i-1"]
    await world.run(controller, 30)
    assert world.account.volumes == {}


async def test_so_does_one_of_a_machine_that_was_gone_before_a_new_ledger_began() -> None:
    world = World()
    world.account.shows_gone = True
    controller = world.start()
    world.town.add_pod()
    await world.until(controller, Phase.READY)
    await controller.die()
    world.town.pods.clear()
    world.town.nodes.clear()
    world.town.maps.clear()  # deleted by hand
    world.account.end("i-1")
    again = world.start()
    await world.run(again, 300)
    assert again.ledger.machines == {}
    await again.sweep()
    assert (await again.sweep()).disks
    await world.run(again, 30)
    assert world.account.volumes == {}


async def test_a_disk_of_a_machine_that_is_listed_and_there_stays() -> None:
    world = World()
    controller = await started(world)
    world.town.add_pod()
    await world.until(controller, Phase.READY)
    controller.ledger.drop(list(controller.ledger.machines))
    assert (await controller.sweep()).disks == ()
    assert "d-i-1" in world.account.volumes


async def test_a_disk_about_whose_machine_nobody_can_say_stays_and_keeps_no_other() -> None:
    world = World()
    world.account.volumes["d-1"] = disk(instance_id="odd")
    world.account.volumes["d-2"] = disk(id="d-2")
    world.account.volumes["d-3"] = disk(id="d-3", tags=(), instance_id="odd")
    controller = await started(world)
    unclear = CloudError(Reason.UNAVAILABLE, "answered 400")
    controller.hands.faults["instance"] = [unclear, unclear]
    found = await controller.sweep()
    assert {key: one.status for key, one in world.account.volumes.items()} == {
        "d-1": "detached",
        "d-2": "deleting",
        "d-3": "detached",
    }
    assert [words for words in found.doubtful if "d-1" in words and "answered 400" in words]
    await controller.sweep()
    assert world.account.volumes["d-1"].status == "deleting"


@pytest.mark.parametrize("verb", ["delete_volume", "delete_script"])
async def test_what_is_ours_and_may_not_be_removed_is_reported(verb: str) -> None:
    world = World()
    world.account.scripts["s-1"] = script()
    world.account.volumes["d-1"] = disk()
    controller = await started(world)
    controller.hands.faults[verb] = [Refused(Reason.BAD_REQUEST, "answered 400: it is being moved")]
    found = await sweep.find(
        controller.hands, "home", controller.ledger.machines, controller.fleet.inventory, _no, _no
    )
    (told,) = await sweep.remove(controller.hands, found)
    assert "being moved" in told
    assert ("d-1" if verb == "delete_volume" else "s-1") in told
    assert len(controller.hands.did("delete_volume", "delete_script")) == 2
    assert await sweep.remove(controller.hands, found) == ()


async def test_what_is_gone_or_may_be_is_no_trouble_of_a_sweep() -> None:
    world = World()
    world.account.volumes["d-1"] = disk()
    controller = await started(world)
    for outcome in (
        Refused(Reason.ALREADY_GONE, "gone"),
        Unknown("lost"),
        Refused(Reason.NOT_ALLOWED_YET, "attached"),
    ):
        controller.hands.faults["delete_volume"] = [outcome]
        orphans = sweep.Orphans((), (world.account.volumes["d-1"],))
        assert await sweep.remove(controller.hands, orphans) == ()
