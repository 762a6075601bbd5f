"""Credentials that become those of another project at an awkward moment, and back again."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace

from controller.cloud.protocol import CloudError, Order
from controller.domain import names
from controller.domain.cloudthings import Inventory
from controller.domain.machine import Phase
from controller.domain.outcome import Refused
from controller.domain.plan import Retire
from controller.domain.reason import Reason
from controller.fleet.cleanup import Cleanup, read
from controller.fleet.ledger import KEY, LedgerError
from controller.fleet.orphans import survey
from controller.fleet.removal import SOFT
from tests.fleet.fakes import Account
from tests.fleet.scene import Controller, World
from tests.fleet.test_fleet_account import TOLD, at_work, back, draining, goes_on, moved, silent
from tests.fleet.test_fleet_removal import ready


class Another(Account):
    """Ids are unique in all the world, as the cloud's are."""

    def order(self, order: Order, *, name: str = "") -> str:
        return super().order(order, name=name or f"other-{len(self.orders) + 1}")


def elsewhere(world: World, controller: Controller) -> Account:
    controller.hands.account = Another(world.time, name="another")
    controller.hands.logins += 1
    return controller.hands.account


def heard_again(world: World) -> None:
    world.town.cut_off.clear()


async def test_time_in_our_own_project_does_not_count_for_the_half_hour() -> None:
    """Strange while the Nodes are silent for a moment, back for an hour, strange again for a moment."""
    world = World()
    controller = await at_work(world, 2)
    for again in range(2):
        other = elsewhere(world, controller)
        silent(world)
        if again:
            world.town.add_pod("next")
        await world.run(controller, 60)
        assert other.orders == []
        heard_again(world)
        back(world, controller)
        await world.run(controller, 3600)
    assert len(world.account.orders) == 3
    assert {m.phase for m in controller.ledger.machines.values()} == {Phase.READY}


@pytest.mark.parametrize("number", [0, 1])
async def test_nor_does_time_before_one_of_ours_was_seen_with_other_credentials(number: int) -> None:
    world = World()
    controller = await at_work(world)
    for client in range(2 + number):
        elsewhere(world, controller)
        silent(world)
        await world.run(controller, 60)
        heard_again(world)
        world.account.name = f"home, client {client}"
        back(world, controller)
        await world.run(controller, 3600)
        assert controller.only.phase is Phase.READY


async def test_a_clock_that_jumps_back_begins_the_half_hour_anew() -> None:
    world = World()
    controller = await at_work(world)
    other = elsewhere(world, controller)
    silent(world)
    world.town.add_pod("next")
    await world.run(controller, 600)
    world.time.now -= 3600
    await world.run(controller, 1500)
    assert other.orders == []
    await world.run(controller, 600)
    assert len(other.orders) == 1


async def test_its_lists_do_not_complete_a_minute_of_absence_that_began_at_home() -> None:
    world = World()
    world.town.work = 1e9
    world.account.list_lag = 75
    world.account.boots = False
    controller = world.start()
    await controller.look()
    world.town.add_pod("next")
    controller.hands.faults["create"] = ["lost"]
    await controller.look()
    await world.time.settle()
    await world.run(controller, 60)
    other = elsewhere(world, controller)
    await world.run(controller, 300)
    assert other.orders == []
    assert controller.only.phase is Phase.INTENDED
    back(world, controller)
    await world.run(controller, 60)
    assert len(world.account.orders) == 1


async def test_a_machine_there_with_our_cluster_id_is_neither_adopted_nor_makes_it_our_home() -> None:
    """One cluster id in two projects: production and staging."""
    world = World()
    controller = await at_work(world, 2)
    ours = next(iter(world.account.instances.values()))
    other = elsewhere(world, controller)
    intent = "abcdefghij"
    other.instances["foreign"] = replace(
        ours,
        id="foreign",
        hostname=names.hostname("home", "a100", intent),
        description=f"gpuas home {intent}",
        tags=((names.TAG_CLUSTER, "home"), (names.TAG_POOL, "a100"), (names.TAG_INTENT, intent)),
    )
    world.town.add_pod("next")
    silent(world)
    await world.run(controller, 1700)
    assert controller.hands.did("delete") == []
    assert other.orders == []
    assert len(controller.ledger.machines) == len(world.town.nodes) == 2
    assert controller.ledger.account == "home"


async def test_a_delete_that_was_accepted_at_home_is_not_proven_there() -> None:
    world, controller, machine = await ready()
    world.account.stuck_delete = True  # accepted, and without effect
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await world.until(controller, Phase.DELETING)
    await world.run(controller, 10)
    assert controller.only.delete_at
    other = elsewhere(world, controller)
    world.town.add_pod("next")
    await world.run(controller, 60)
    assert other.orders == []
    assert machine.intent in controller.ledger.machines


async def test_a_machine_that_is_proven_gone_holds_nothing_up_with_other_credentials() -> None:
    world, controller, machine = await ready()
    controller.hands.faults["volumes"] = []
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    gate = controller.hands.gates["volumes"] = asyncio.Event()  # its disk is looked for, for long
    await goes_on(world, controller, lambda: bool(controller.only.gone_at))
    world.account.name = "the same, by another client"
    controller.hands.logins += 1
    world.town.add_pod("next")
    await world.run(controller, 30)
    assert len(world.account.orders) == 2
    gate.set()


async def test_a_machine_that_the_cloud_itself_called_gone_holds_nothing_up_with_other_credentials() -> None:
    world = World()
    controller = await at_work(world)
    world.account.end("i-1")
    controller.hands.gates["volumes"] = asyncio.Event()
    await world.run(controller, 60)
    assert controller.only.reason is Reason.VANISHED
    world.account.name = "the same, by another client"
    controller.hands.logins += 1
    world.town.add_pod("next")
    await world.run(controller, 30)
    assert len(world.account.orders) == 2


async def test_its_list_and_an_answer_from_home_do_not_make_it_our_home() -> None:
    world = World()
    controller = await at_work(world)
    home = controller.hands.account
    other = elsewhere(world, controller)
    controller.hands.on_call["instance"] = lambda _: setattr(controller.hands, "account", home)
    await controller.fleet.refresh_inventory()
    controller.hands.on_call.clear()
    controller.hands.account = other
    world.town.add_pod("next")
    await controller.fleet.advance()
    assert controller.ledger.account == "home"
    await world.run(controller, 300)
    assert other.orders == []
    assert len(controller.ledger.machines) == 1


async def test_a_home_that_another_leader_found_is_ours_too() -> None:
    world = World()
    controller = await at_work(world)
    controller.ledger.found_in("")  # of an earlier version
    await controller.ledger.flush()
    await controller.die()
    again = world.start()
    again.hands.account = Account(world.time, name="another")
    await world.run(again, 10)
    assert again.ledger.account == ""
    second = world.start()
    await second.look()
    assert second.ledger.account == "home"
    await second.die()
    again.hands.account = world.account
    again.hands.logins += 1
    again.ledger.launched(world.time.now)
    await again.ledger.flush()
    assert again.ledger.account == "home"
    world.town.add_pod("next")
    await world.run(again, 60)
    assert len(world.account.orders) == 2


async def test_where_our_machines_are_is_stored() -> None:
    world = World()
    await at_work(world)
    assert '"account":"home"' in world.stored()
    controller = world.start()
    await controller.fleet.rebuild()
    assert controller.hands.trusted == "home"


async def test_a_machine_that_starts_meanwhile_is_kept() -> None:
    world = World()
    world.town.work = 1e9
    controller = world.start()
    await controller.look()
    world.town.add_pod("next")
    await controller.look()
    await world.time.settle()
    await world.run(controller, 5)
    assert controller.only.phase is Phase.ORDERED
    elsewhere(world, controller)
    await world.run(controller, 1300)  # longer than an order may take
    back(world, controller)
    await world.run(controller, 120)
    assert controller.only.phase is Phase.READY
    assert len(world.account.orders) == 1


async def test_a_machine_seen_again_right_before_is_still_at_stake() -> None:
    world = World()
    controller = await at_work(world)
    hidden = moved(world.account)
    await world.until(controller, Phase.DELETING)
    await world.run(controller, 20)
    world.account.instances.update(hidden)
    await controller.look()
    other = elsewhere(world, controller)
    world.town.add_pod("next")
    await world.run(controller, 60)
    assert other.orders == []


async def test_an_idle_machine_is_not_drained_while_it_cannot_be_removed() -> None:
    world = World()
    controller = await at_work(world)
    elsewhere(world, controller)
    await world.run(controller, 30)
    world.town.pods.clear()
    await world.run(controller, 300)
    assert controller.only.phase is Phase.READY
    (node,) = world.town.nodes.values()
    assert names.TAINT_DRAINING not in {taint.key for taint in node.taints}
    assert not any(isinstance(action, Retire) for action in controller.plan.actions)
    assert "credentials" in controller.plan.machines[node.name].message
    world.town.add_pod("next")
    await world.run(controller, 30)
    assert world.town.pods["default/next"].node


async def test_a_node_that_cannot_be_believed_may_be_ours_and_ready() -> None:
    """A second Node carries its provider ID."""
    world = World()
    controller = await at_work(world)
    other = elsewhere(world, controller)
    (name,) = world.town.nodes
    world.town.nodes["intruder"] = replace(world.town.nodes[name], name="intruder", uid="uid-x")
    world.town.add_pod("next")
    world.town.add_pod("more")
    await world.run(controller, 3600)
    assert other.orders == []
    assert controller.ledger.account == "home"


async def test_a_removal_that_is_resumed_there_closes_no_record() -> None:
    world = World()
    controller = await at_work(world)
    controller.hands.faults["delete"] = [Refused(Reason.NOT_ALLOWED_YET, "not yet")] * 500
    world.town.pods.clear()
    await world.until(controller, Phase.DELETING)
    await world.run(controller, 20)
    silent(world)
    await controller.die()
    again = world.start()
    elsewhere(world, again)
    await world.run(again, 300)
    assert len(again.ledger.machines) == len(world.town.nodes) == 1
    assert again.hands.trusted == "home"


async def test_a_rotation_that_overlaps_a_list_holds_no_order_up() -> None:
    world = World()
    controller = await at_work(world)
    hands = controller.hands
    plain = hands.inventory

    async def listed() -> Inventory:
        found = await plain()
        if hands.logins == 0:  # replaced while the answer was under way
            world.account.name = "the same, by another client"
            hands.logins += 1
        return found

    hands.inventory = listed  # type: ignore[method-assign]
    world.town.add_pod("next")
    await world.run(controller, 60)
    assert len(world.account.orders) == 2
    assert TOLD not in controller.fleet.reports


async def test_a_sweep_by_hand_takes_nothing_for_gone_when_credentials_change_on_the_way() -> None:
    world = World()
    controller = await at_work(world)
    hands = controller.hands
    hands.trusted = None
    found = survey(await read(hands), world.time.now, "home")
    assert [one.kind for one in found if one.removes]

    async def look(name: str) -> str:
        return ""

    def switch(_: Any) -> None:
        if hands.account is world.account:
            elsewhere(world, controller)

    world.account.stuck_delete = True
    cleanup = Cleanup(hands, clock=world.time.clock, sleep=world.time.sleep, last_look=look)
    hands.on_call["inventory"] = switch
    task = asyncio.create_task(cleanup.remove(found, 60))
    for _ in range(100):
        await world.time.advance(1.0)
        if task.done():
            break
    assert not any(result.gone for result in task.result())
    assert world.account.alive()


async def test_what_one_wrong_answer_hid_is_asked_for_again_only_after_a_pause() -> None:
    world = World()
    controller = await at_work(world)
    hidden = moved(world.account)
    asked: list[float] = []

    def note(_: str) -> None:
        if controller.only.phase is Phase.DELETING:
            asked.append(world.time.now)

    controller.hands.on_call["instance"] = note
    await world.until(controller, Phase.DELETING)
    await world.run(controller, 10, step=1.0)
    world.account.instances.update(hidden)
    assert len(asked) >= 2
    assert asked[1] - asked[0] >= 3


async def test_a_list_there_that_is_cut_short_adds_nothing_to_what_is_known() -> None:
    world = World()
    controller = await at_work(world, 2)
    ours = next(iter(world.account.instances.values()))
    other = elsewhere(world, controller)
    other.complete = False
    intent = "abcdefghij"
    tags = ((names.TAG_CLUSTER, "home"), (names.TAG_POOL, "a100"), (names.TAG_INTENT, intent))
    marks = {"hostname": names.hostname("home", "a100", intent), "description": f"gpuas home {intent}"}
    other.instances["foreign"] = replace(ours, id="foreign", tags=tags, **marks)
    await world.run(controller, 30)
    other.complete = True
    world.town.add_pod("next")
    await world.run(controller, 600)
    assert other.orders == []
    assert controller.ledger.account == "home"
    assert len(controller.ledger.machines) == 2


async def updated(world: World, controller: Controller) -> Controller:
    """From a version whose ledger tells no account."""
    controller.ledger.found_in("")
    await controller.ledger.flush()
    await controller.die()
    for _ in range(30):
        world.happen()
        await world.time.advance(1.0)
    return world.start()


async def test_an_update_while_the_last_machine_goes_holds_nothing_up() -> None:
    world, controller, machine = await ready()
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.time.settle()
    await goes_on(world, controller, lambda: bool(controller.only.delete_at))
    again = await updated(world, controller)
    world.town.add_pod("next")
    await world.run(again, 120)
    assert len(world.account.orders) == 2


async def test_an_update_with_an_order_that_never_came_holds_nothing_up() -> None:
    world = World()
    controller = world.start()
    await controller.look()
    world.town.add_pod("next")
    controller.hands.faults["create"] = ["never"]
    await controller.look()
    await world.time.settle()
    assert controller.only.phase is Phase.INTENDED
    again = await updated(world, controller)
    await world.run(again, 300)
    assert len(world.account.orders) == 1


async def test_an_old_list_does_not_count_for_the_half_hour() -> None:
    """The credentials are right again, and the cloud is away."""
    world = World()
    controller = await at_work(world)
    elsewhere(world, controller)
    await world.run(controller, 20)
    back(world, controller)
    silent(world)
    for _ in range(400):
        controller.hands.faults["inventory"] = [CloudError(Reason.UNAVAILABLE, "away")]
        world.happen()
        with contextlib.suppress(CloudError):
            await controller.look()
        await controller.fleet.advance()
        await world.time.advance(5.0)
    assert controller.ledger.account == "home"


async def test_an_order_between_the_list_and_the_pass_after_a_rotation_is_tried_again_soon() -> None:
    world = World()
    controller = await at_work(world)
    hands = controller.hands
    gate = hands.gates["create"] = asyncio.Event()
    world.town.add_pod("next")
    await controller.look()
    await world.time.settle()
    world.account.name = "the same, by another client"
    hands.logins += 1
    await controller.fleet.refresh_inventory()
    gate.set()
    await world.time.settle()
    hands.gates.clear()
    await world.run(controller, 60)
    assert len(world.account.orders) == 2


async def test_a_drain_under_way_is_called_off_there_and_its_machine_takes_pods() -> None:
    world, controller, machine = await draining()
    before = len(controller.hands.did("evict"))
    assert before
    other = elsewhere(world, controller)
    await world.run(controller, 120)
    assert len(controller.hands.did("evict")) <= before + 1  # one may have been on its way
    assert controller.only.phase is Phase.READY
    assert world.town.nodes[machine.name].taints == (SOFT,)  # idle, and no more than that
    world.town.add_pod("next")
    await world.run(controller, 30)
    assert world.town.pods["default/next"].node == machine.name
    assert other.orders == []


async def test_so_is_one_that_another_process_began() -> None:
    world, controller, machine = await draining()
    await controller.die()
    again = world.start()
    elsewhere(world, again)
    await world.run(again, 120)
    assert again.hands.did("evict") == []
    assert again.only.phase is Phase.READY
    assert world.town.nodes[machine.name].taints == (SOFT,)  # idle, and no more than that


async def test_a_removal_that_has_come_to_its_delete_waits_for_our_own_account() -> None:
    """Nobody knows whether the delete was sent, so no pod may come to it."""
    world, controller, machine = await ready()
    controller.hands.faults["delete"] = [Refused(Reason.NOT_ALLOWED_YET, "not yet")] * 500
    controller.fleet.retire(machine.name, Reason.IDLE, "idle")
    await world.until(controller, Phase.DELETING)
    other = elsewhere(world, controller)
    await world.run(controller, 300)
    assert controller.only.phase is Phase.DELETING
    assert names.TAINT_DRAINING in {taint.key for taint in world.town.nodes[machine.name].taints}
    controller.hands.faults.clear()
    back(world, controller)
    await world.run(controller, 120)
    assert world.account.alive() == []
    assert controller.ledger.machines == {}
    assert other.orders == []


@pytest.mark.parametrize("verb", ["prepare", "create_script"])
async def test_an_order_that_was_being_prepared_is_not_sent_once_there_is_doubt(verb: str) -> None:
    world = World()
    controller = await at_work(world)
    gate = controller.hands.gates[verb] = asyncio.Event()
    world.town.add_pod("next")
    await controller.look()
    await world.time.settle()
    hidden = moved(world.account)
    await world.run(controller, 30)
    assert TOLD in controller.fleet.reports
    gate.set()
    await world.run(controller, 30)
    assert len(world.account.orders) == 1
    assert world.account.scripts == {}
    assert controller.heard.of("refused") == ["vanished"]
    world.account.instances.update(hidden)
    await world.run(controller, 15)
    assert len(world.account.orders) == 2


async def test_an_update_from_a_ledger_that_tells_no_account_buys_nothing_for_silent_nodes_there() -> None:
    world = World()
    controller = await at_work(world, 2)
    again = await updated(world, controller)
    other = elsewhere(world, again)
    silent(world)
    world.town.add_pod("next")
    await world.run(again, 600)
    assert other.orders == []


async def test_an_order_that_never_came_is_at_stake_nowhere() -> None:
    world = World()
    controller = world.start()
    await controller.look()
    world.town.add_pod("first")
    controller.hands.faults["create"] = ["never"]
    await controller.look()
    world.town.pods.clear()
    await world.run(controller, 300)
    assert controller.only.phase is Phase.TOMBSTONE
    other = elsewhere(world, controller)
    world.town.add_pod("next")
    await world.run(controller, 60)
    assert len(other.orders) == 1


async def test_time_in_which_another_led_does_not_count_for_the_half_hour() -> None:
    world = World()
    controller = await at_work(world)
    other = elsewhere(world, controller)
    silent(world)
    world.town.add_pod("next")
    await world.run(controller, 60)
    await controller.lose_lease()
    await world.run(controller, 3600, step=60)
    controller.leads = True
    await world.run(controller, 600)
    assert other.orders == []


async def test_records_that_somebody_takes_out_of_the_ledger_are_missed_there_too() -> None:
    world = World()
    controller = await at_work(world)
    elsewhere(world, controller)
    await world.run(controller, 30)
    data, version = world.town.maps[names.LEDGER_CONFIGMAP]
    world.town.maps[names.LEDGER_CONFIGMAP] = (data | {KEY: '{"cluster_id":"home"}'}, version + 1)
    controller.ledger.launched(world.time.now)
    with pytest.raises(LedgerError, match="took machines out"):
        await controller.look()
    assert not controller.fleet.rebuilt
