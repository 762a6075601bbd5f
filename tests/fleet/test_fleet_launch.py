"""Buying one machine: every way in which an order can end, and what is left behind by it."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from msgspec.structs import replace

from controller.cloud.protocol import Order
from controller.cluster.protocol import ClusterError
from controller.domain.cloudthings import Offer
from controller.domain.machine import Phase
from controller.domain.outcome import Happened, Refused, Unknown
from controller.domain.policy import Limits
from controller.domain.prices import PriceRule
from controller.domain.reason import Reason
from controller.join.protocol import JoinError
from tests.fleet.fakes import A1, Fault
from tests.fleet.scene import Controller, World


async def bought(world: World, **faults: Fault) -> Controller:
    controller = world.start()
    await controller.look(decide=False)
    controller.hands.faults = {verb: [fault] for verb, fault in faults.items()}
    controller.buy("default/train")
    await world.time.settle()
    return controller


async def test_an_accepted_order_is_recorded_with_its_id_and_its_script() -> None:
    world = World()
    controller = await bought(world)
    machine = controller.only
    assert (machine.phase, machine.instance_id) == (Phase.ORDERED, "i-1")
    assert machine.script_id in world.account.scripts
    assert '"instance_id":"i-1"' in world.stored()
    assert controller.heard.told == [("launched", machine.name, "")]


async def test_the_intent_is_stored_before_anything_is_sent_to_the_cloud() -> None:
    world = World()
    controller = await bought(world)
    order = [verb for verb, _ in controller.hands.calls]
    assert order.index("write_config_map") < order.index("create_script") < order.index("create")


async def test_the_order_carries_three_marks_that_agree() -> None:
    world = World()
    controller = await bought(world)
    (order,) = world.account.orders
    intent = controller.only.intent
    assert order.hostname == f"home-a100-{intent}"
    assert order.description == f"gpuas home {intent}"
    assert dict(order.tags) == {"gpuas-cluster": "home", "gpuas-pool": "a100", "gpuas-intent": intent}


@pytest.mark.parametrize(
    "reason",
    [
        Reason.NO_CAPACITY,
        Reason.QUOTA,
        Reason.NO_FUNDS,
        Reason.RATE_LIMITED,
        Reason.BAD_REQUEST,
        Reason.UNAVAILABLE,
    ],
)
async def test_a_refused_order_leaves_neither_record_nor_script_and_is_held_against_the_offer(
    reason: Reason,
) -> None:
    world = World()
    controller = await bought(world, create=Refused(reason, "no"))
    assert not controller.ledger.machines
    assert not world.account.scripts
    assert [r.reason for r in controller.fleet.active_refusals()] == [reason]
    assert controller.heard.of("refused") == [reason.value]
    await controller.ledger.flush()
    assert '"intent"' not in world.stored()


async def test_a_refused_order_is_tried_with_the_next_offer_at_once() -> None:
    world = World()
    world.account.offers = [
        Offer(type=A1, location=place, market="on-demand") for place in ("FIN-01", "FIN-02")
    ]
    world.town.add_pod()
    controller = world.start()
    controller.hands.faults["create"] = [Refused(Reason.NO_CAPACITY, "sold out")]
    await controller.look()
    await world.time.settle()
    await controller.look()
    await world.time.settle()
    assert [order.location for order in world.account.orders] == ["FIN-02"]


async def test_offers_that_are_all_refused_are_not_tried_in_a_loop() -> None:
    world = World()
    world.town.add_pod()
    controller = world.start()
    controller.hands.faults["create"] = [Refused(Reason.NO_CAPACITY, "sold out")] * 99
    await world.run(controller, 170)
    assert len(controller.hands.did("create")) == 1


async def test_with_other_credentials_it_is_tried_at_once_and_without_them_not() -> None:
    """Half of a secret that was just being written, for one call, must not keep purchases away for minutes."""
    world = World()
    world.town.add_pod()
    controller = world.start()
    controller.hands.faults["create"] = [Refused(Reason.UNAUTHORISED, "401")] * 2
    await world.run(controller, 60)
    assert len(controller.hands.did("create")) == 1
    controller.hands.logins += 1  # and those are wrong, too
    await world.run(controller, 60)
    assert len(controller.hands.did("create")) == 2
    controller.hands.logins += 1
    await world.run(controller, 10)
    assert len(world.account.orders) == 1


async def test_other_credentials_forget_nothing_but_what_the_last_ones_were_refused_for() -> None:
    world = World()
    world.town.add_pod()
    controller = world.start()
    controller.hands.faults["create"] = [Refused(Reason.NO_FUNDS, "402")]
    await world.run(controller, 10)
    controller.hands.logins += 1
    await world.run(controller, 60)
    assert len(controller.hands.did("create")) == 1


async def test_capacity_that_is_refused_after_the_order_doubles_the_back_off_too() -> None:
    world = World(cooldown=1e6)
    world.town.add_pod()
    world.account.boots = False
    controller = world.start()
    tried: list[float] = []
    for _ in range(900 // 5):
        before = len(world.account.orders)
        await world.run(controller, 5)
        for order in world.account.orders[before:]:
            tried.append(world.time.now)
            key = next(i.id for i in world.account.alive() if i.hostname == order.hostname)
            world.account.set(key, status="no_capacity")
    first, second, third = tried[:3]
    assert 180 <= second - first < 260
    assert 360 <= third - second < 440
    assert len(world.account.alive()) <= 1


async def test_a_script_that_is_refused_buys_nothing() -> None:
    world = World()
    controller = await bought(world, create_script=Refused(Reason.QUOTA, "too many scripts"))
    assert not controller.ledger.machines
    assert not world.account.orders


@pytest.mark.parametrize("answer", ["lost", "never"])
async def test_a_script_whose_upload_is_unknown_buys_nothing_and_is_swept(answer: str) -> None:
    world = World()
    controller = await bought(world, create_script=answer)
    assert not controller.ledger.machines
    assert not world.account.orders
    await controller.sweep()
    assert not world.account.scripts


@pytest.mark.parametrize("error", [JoinError("no token"), ClusterError("unreachable", "no route")])
async def test_a_script_that_cannot_be_made_buys_nothing(error: Exception) -> None:
    world = World()
    controller = await bought(world, prepare=error)
    assert not controller.ledger.machines
    assert not controller.hands.did("create", "create_script")


async def test_an_intent_that_cannot_be_stored_buys_nothing() -> None:
    world = World()
    controller = await bought(world, write_config_map=ClusterError("unreachable", "no route"))
    assert not controller.ledger.machines
    assert not controller.hands.did("prepare", "create_script", "create")


async def test_a_lease_lost_before_the_upload_sends_nothing() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    controller.hands.on_call["prepare"] = lambda _: setattr(controller, "leads", False)
    controller.buy("default/train")
    await world.time.settle()
    assert not controller.hands.did("create", "create_script")
    assert not controller.fleet.active_refusals()


async def test_a_lease_lost_between_upload_and_order_orders_nothing() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    controller.hands.on_call["create_script"] = lambda _: setattr(controller, "leads", False)
    controller.buy("default/train")
    await world.time.settle()
    assert not world.account.orders
    assert not controller.ledger.machines


async def test_an_unknown_outcome_stays_an_intent_and_is_not_sent_again() -> None:
    world = World()
    world.town.add_pod()
    controller = await bought(world, create="never")
    machine = controller.only
    assert (machine.phase, machine.reason) == (Phase.INTENDED, Reason.UNKNOWN_OUTCOME)
    assert machine.script_id
    await world.run(controller, 55, 5.0)
    assert len(controller.hands.did("create")) == 1


async def test_orders_that_are_lost_again_and_again_are_made_ever_more_seldom() -> None:
    world = World()
    world.town.add_pod()
    controller = world.start()
    controller.hands.faults["create"] = ["never"] * 100
    await world.run(controller, 3600, 5.0)
    made = len(controller.hands.did("create"))
    assert 8 <= made <= 12
    controller.hands.faults["create"] = []
    await world.until(controller, Phase.READY, 3600)


async def test_an_answer_without_an_id_is_an_unknown_outcome() -> None:
    world = World()
    controller = await bought(world, create=Happened(""))
    assert controller.only.reason is Reason.UNKNOWN_OUTCOME


async def test_lists_while_the_order_is_on_the_wire_prove_nothing() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    gate = controller.hands.gates["create"] = asyncio.Event()
    controller.buy("default/train")
    await world.run(controller, 120)
    assert (controller.only.phase, controller.only.absent_lists) == (Phase.INTENDED, 0)
    gate.set()
    await world.time.settle()
    assert controller.only.phase is Phase.ORDERED


async def test_a_machine_that_appears_after_its_tombstone_is_surplus_and_goes_when_idle() -> None:
    world = World(cooldown=1e6)
    controller = await bought(world, create="never")
    await world.run(controller, 120)
    tomb = controller.only
    assert tomb.phase is Phase.TOMBSTONE
    (name,) = [target for verb, target in controller.hands.calls if verb == "create"]
    world.account.order(late_order(name, tomb.intent))
    await controller.look()
    assert controller.only.surplus
    assert controller.only.phase is Phase.ORDERED
    await world.run(controller, 120)
    assert not world.account.alive()
    assert not controller.ledger.machines


def late_order(name: str, intent: str) -> Order:
    return Order(
        hostname=name, description=f"gpuas home {intent}", instance_type=A1.name, location="FIN-01",
        tags=(("gpuas-cluster", "home"), ("gpuas-pool", "a100"), ("gpuas-intent", intent)),
        market="on-demand", image="x", disk_gb=100,
    )  # fmt: skip


async def test_an_order_that_no_list_shows_is_never_taken_for_absent_while_its_node_is_ready() -> None:
    world = World(cooldown=1e6)
    controller = await bought(world, create="lost")
    world.account.list_lag = 1e9
    await world.run(controller, 50)
    await world.run(controller, 600)
    assert (controller.only.phase, len(world.account.orders)) == (Phase.INTENDED, 1)
    assert "the cloud knows none" in controller.fleet.reports["project"]
    world.account.list_lag = 0
    await world.run(controller, 120)
    assert (controller.only.phase, controller.only.surplus) == (Phase.READY, False)


async def test_a_machine_that_joined_after_it_was_believed_absent_is_told() -> None:
    world = World(cooldown=1e6)
    world.town.joins = False
    controller = await bought(world, create="lost")
    world.account.list_lag = 1e9
    await world.run(controller, 120)
    assert controller.only.phase is Phase.TOMBSTONE
    world.town.joins = True
    await world.run(controller, 10)
    assert "its Node is Ready" in controller.fleet.reports[controller.only.name]
    world.account.list_lag = 0
    await world.run(controller, 200)
    assert not world.account.alive()


async def test_a_tombstone_is_forgotten_after_a_day() -> None:
    world = World()
    controller = await bought(world, create="never")
    await world.run(controller, 120)
    await world.time.advance(86400)
    await controller.look()
    assert not controller.ledger.machines


async def test_a_second_instance_of_one_intent_is_reported_and_removed_and_the_first_stays() -> None:
    world = World(cooldown=1e6)
    controller = await bought(world)
    world.account.order(world.account.orders[0])
    await controller.look(decide=False)
    assert "second machine" in controller.fleet.reports["i-2"]
    await world.run(controller, 120)
    assert [i.id for i in world.account.alive()] == ["i-1"]
    assert sorted(world.account.volumes) == ["d-i-1"]
    assert controller.only.instance_id == "i-1"
    assert "i-2" not in controller.fleet.reports


async def test_what_is_found_is_paid_as_the_catalogue_says_in_the_currency_of_the_limits() -> None:
    """A list of machines tells their price in the project's currency, and not which one that is."""
    rules = {"*": PriceRule(discount=Decimal("0.5"))}
    world = World(cooldown=1e6, prices=rules)
    await bought(world)
    world.account.order(world.account.orders[0])
    world.account.set("i-1", price=Decimal("129"))
    world.account.set("i-2", price=Decimal("129"))
    world.town.maps.clear()  # nothing is known of them but their marks
    controller = world.start()
    await controller.look(decide=False)
    assert controller.only.price == A1.price / 2
    begin = world.time.now
    await world.run(controller, 120)
    assert [i.id for i in world.account.alive()] == ["i-1"]
    most = A1.price / 2 * Decimal(world.time.now - begin + 60) / 3600
    assert 0 < sum(controller.ledger.costs.values()) <= most


async def test_a_second_instance_is_not_removed_while_work_runs_under_the_shared_name() -> None:
    world = World(cooldown=1e6)
    world.town.work = 1e6
    world.town.add_pod()
    controller = world.start()
    await world.until(controller, Phase.READY)
    await world.run(controller, 10)
    world.account.order(world.account.orders[0])
    await world.run(controller, 120)
    assert not controller.hands.did("delete")
    assert "i-2" in controller.fleet.reports


async def test_a_second_instance_is_not_removed_when_the_first_is_gone_by_now() -> None:
    """It is the only one then, and the list that showed both is old."""
    world = World(cooldown=1e6)
    controller = await bought(world)
    world.account.order(world.account.orders[0])
    controller.hands.on_call["instance"] = lambda _: world.account.end("i-1")
    await controller.look(decide=False)
    await world.time.settle()
    assert [instance.id for instance in world.account.alive()] == ["i-2"]
    assert not controller.hands.did("delete")


async def test_a_second_instance_is_not_removed_when_it_is_not_ours_by_now() -> None:
    """Somebody took our marks off it since the list was made."""
    world = World(cooldown=1e6)
    controller = await bought(world)
    world.account.order(world.account.orders[0])
    controller.hands.on_call["instance"] = lambda _: world.account.set("i-2", tags=(), description="theirs")
    await controller.look(decide=False)
    await world.time.settle()
    assert sorted(instance.id for instance in world.account.alive()) == ["i-1", "i-2"]
    assert not controller.hands.did("delete")


async def test_an_order_that_is_granted_after_its_tombstone_is_surplus() -> None:
    """Another leader has written that: for it nobody had asked."""
    world = World(cooldown=1e6)
    controller = world.start()
    await controller.look(decide=False)
    gate = controller.hands.gates["create"] = asyncio.Event()
    controller.buy("default/train")
    await world.time.settle()
    controller.ledger.change(controller.only.intent, phase=Phase.TOMBSTONE, gone_at=world.time.now)
    gate.set()
    await world.time.settle()
    assert (controller.only.phase, controller.only.surplus) == (Phase.ORDERED, True)
    await world.run(controller, 120)
    assert not world.account.alive()
    assert not controller.ledger.machines


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_second_instance_counts_against_limits_for_as_long_as_it_is_there(leaves: bool) -> None:
    """It costs as much as the first, also while work under the shared name keeps it, or the first one goes."""
    world = World(cooldown=1e6, limits=Limits(gpus=2))
    world.town.work = 1e6
    world.town.add_pod()
    controller = world.start()
    await world.until(controller, Phase.READY)
    await world.run(controller, 10)
    world.account.order(world.account.orders[0])
    if leaves:
        gone = replace(controller.only, phase=Phase.DELETING)
        controller.ledger.put(gone)
    world.town.add_pod("more")
    await controller.look()
    assert len(world.account.alive()) == 2
    assert [why.code for why in controller.plan.pods.values()] == [Reason.LIMIT_GPUS]
    await world.run(controller, 30)
    assert len(world.account.orders) == 2  # the test's own is the second


async def test_a_second_instance_that_is_left_when_the_first_is_gone_is_removed_at_once() -> None:
    """It is not the first one, seen late in a list: that one is known by its id."""
    world = World(cooldown=5.0)
    controller = await bought(world)
    await world.until(controller, Phase.READY)
    while controller.ledger.machines:
        await world.run(controller, 5)
    world.account.order(world.account.orders[0])
    await controller.look()
    assert controller.only.surplus
    await world.run(controller, 150)
    assert not world.account.alive()
    assert not world.account.volumes
    assert not controller.ledger.machines


async def test_three_failing_at_once_stop_the_buying_of_their_type() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    for _ in range(3):
        controller.buy()
    world.town.joins = False
    await world.run(controller, 900, 30.0)
    world.town.add_pod()
    found: list[str] = []
    for _ in range(20):
        await world.run(controller, 5)
        found += [r.message for r in controller.fleet.active_refusals()]
    assert any("unhealthy at once" in message for message in found)


async def test_a_pod_whose_machines_never_join_gets_two_and_others_ever_more_seldom_also_from_the_next_leader() -> (
    None
):
    world = World()
    world.town.joins = False
    world.town.add_pod()
    first = world.start()
    await world.run(first, 45 * 60, 30.0)
    await first.die()
    second = world.start()
    await world.run(second, 45 * 60, 30.0)
    assert len(world.account.orders) == 2
    await world.run(second, 3.5 * 3600, 30.0)
    assert len(world.account.orders) == 2 + 2  # an hour after the second failure, and two after the third
    assert second.plan.pods["default/train"].code is Reason.JOIN_DEADLINE
    assert world.account.alive() == []
    world.town.joins = True
    del world.town.pods["default/train"]
    world.town.add_pod(uid="of the next one")  # within one look: as a StatefulSet does
    await world.run(second, 600)
    assert len(world.account.orders) == 5


async def test_a_pod_gets_no_third_machine_while_two_stuck_on_their_way_cannot_be_deleted() -> None:
    world = World()
    places = ("FIN-01", "FIN-02", "FIN-03")
    world.account.offers = [Offer(type=A1, location=place, market="on-demand") for place in places]
    world.account.boots = False
    controller = world.start()
    await controller.look(decide=False)
    world.town.add_pod("train")
    await world.run(controller, 4 * 3600, 20)
    assert len(world.account.orders) == 2
    why = controller.plan.pods["default/train"]
    assert why.code is Reason.LAUNCH_DEADLINE
    assert "are still there" in why.message
    world.account.set("i-1", status="error")  # now it can be deleted
    await world.run(controller, 1800, 10)
    assert len(world.account.orders) == 3
    assert [instance.id for instance in world.account.alive()] == ["i-2", "i-3"]


async def test_an_answer_that_overtakes_nothing_new_is_not_lost_when_the_ledger_was_read_again() -> None:
    world = World()
    controller = world.start()
    await controller.look(decide=False)
    gate = controller.hands.gates["create"] = asyncio.Event()
    controller.buy("default/train")
    await world.time.settle()
    await controller.ledger.load()
    gate.set()
    await world.time.settle()
    assert (controller.only.phase, controller.only.instance_id) == (Phase.ORDERED, "i-1")


async def test_unknown_is_told_once() -> None:
    world = World()
    controller = await bought(world, create=Unknown("time-out"))
    assert controller.heard.of("unknown") == [""]
