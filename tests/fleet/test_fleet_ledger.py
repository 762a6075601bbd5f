"""The ledger survives conflicts, lost answers and damage, and never loses what somebody else bought."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from controller.cluster.protocol import ClusterError
from controller.domain.machine import Machine, Phase
from controller.domain.reason import Reason
from controller.fleet.ledger import KEY, Ledger, LedgerError
from tests.fleet.clockwork import Time
from tests.fleet.fakes import Account, Hands, Town

NAME = "gpu-autoscaler-ledger"


def record(intent: str = "aaaaaaaaaa", phase: Phase = Phase.INTENDED, **more: Any) -> Machine:
    values: dict[str, Any] = {
        "name": f"home-a100-{intent}", "pool": "a100", "instance_type": "1A100.22V", "location": "FIN-01",
        "market": "on-demand", "price": Decimal("1.20"), "intended_at": 1000.0,
    }  # fmt: skip
    return Machine(intent=intent, phase=phase, **(values | more))


@pytest.fixture
def hands() -> Hands:
    time = Time()
    account = Account(time)
    return Hands(account, Town(time, account))


def stored(hands: Hands) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hands.town.maps[NAME][0][KEY])
    return found


def intents(hands: Hands) -> list[str]:
    return [m["intent"] for m in stored(hands)["machines"]]


def put_there(hands: Hands, text: str) -> None:
    _, version = hands.town.maps.get(NAME, ({}, 0))
    hands.town.maps[NAME] = ({KEY: text}, version + 1)


async def test_what_was_flushed_is_there_for_the_next_one(hands: Hands) -> None:
    first = Ledger(hands, "home")
    await first.load()
    machine = record(phase=Phase.ORDERED, pods=("default/train",), disks=("d-1",), instance_id="i-1")
    first.put(machine)
    first.learn("1A100.22V", {"cpu": 22000, "memory": 5, "pods": 250, "nvidia.com/gpu": 1})
    first.launched(1000.0)
    await first.flush()
    second = Ledger(hands, "home")
    await second.load()
    assert second.machines == {machine.intent: machine}
    assert second.figures == {"1A100.22V": {"cpu": 22000, "memory": 5, "pods": 250}}
    assert second.launches == [1000.0]


async def test_nothing_is_written_when_nothing_changed(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.put(record())
    await ledger.flush()
    assert not ledger.put(record())
    await ledger.flush()
    assert len(hands.did("write_config_map")) == 1


async def test_fifty_intents_at_once_cost_two_writes(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()

    async def buy(number: int) -> None:
        ledger.put(record(f"aaaaaaaa{chr(97 + number % 25)}{chr(97 + number // 25)}"))
        await ledger.flush()
        assert f"aaaaaaaa{chr(97 + number % 25)}{chr(97 + number // 25)}" in intents(hands)

    await asyncio.gather(*(buy(number) for number in range(50)))
    assert len(hands.did("write_config_map")) <= 2
    assert len(intents(hands)) == 50


async def test_what_another_leader_bought_meanwhile_is_kept(hands: Hands) -> None:
    ours, theirs = Ledger(hands, "home"), Ledger(hands, "home")
    await ours.load()
    await theirs.load()
    theirs.put(record("bbbbbbbbbb"))
    await theirs.flush()
    ours.put(record("aaaaaaaaaa"))
    await ours.flush()
    assert intents(hands) == ["aaaaaaaaaa", "bbbbbbbbbb"]
    assert set(ours.machines) == {"aaaaaaaaaa", "bbbbbbbbbb"}


async def test_a_stale_leader_never_writes_an_old_record_over_a_newer_one(hands: Hands) -> None:
    stale = Ledger(hands, "home")
    await stale.load()
    stale.put(record(), record("bbbbbbbbbb"))
    await stale.flush()
    new = Ledger(hands, "home")
    await new.load()
    new.change("aaaaaaaaaa", phase=Phase.ORDERED, instance_id="i-1")
    new.drop(["bbbbbbbbbb"])
    await new.flush()
    stale.change("aaaaaaaaaa", note="stale")
    stale.put(record("cccccccccc"))
    await stale.flush()
    found = {m["intent"]: m for m in stored(hands)["machines"]}
    assert sorted(found) == ["aaaaaaaaaa", "cccccccccc"]
    assert found["aaaaaaaaaa"]["instance_id"] == "i-1"


async def test_an_intent_that_was_dropped_after_a_lost_write_does_not_come_back(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.put(record())
    hands.faults["write_config_map"] = ["lost"]
    with pytest.raises(LedgerError):
        await ledger.flush()
    assert intents(hands) == ["aaaaaaaaaa"]
    ledger.drop(["aaaaaaaaaa"])
    await ledger.flush()
    assert intents(hands) == []
    assert ledger.machines == {}


async def test_a_machine_closed_after_a_lost_write_is_paid_once(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.put(record(phase=Phase.DELETING, ordered_at=1000.0))
    await ledger.flush()
    ledger.change("aaaaaaaaaa", gone_at=4600.0)
    hands.faults["write_config_map"] = ["lost"]
    with pytest.raises(LedgerError):
        await ledger.flush()
    ledger.close(ledger.machines["aaaaaaaaaa"], 4600.0)
    await ledger.flush()
    ledger.launched(4601.0)
    hands.faults["write_config_map"] = ["lost"]
    with pytest.raises(LedgerError):
        await ledger.flush()
    ledger.launched(4602.0)
    await ledger.flush()
    assert ledger.machines == {}
    assert stored(hands)["machines"] == []
    assert [Decimal(c) for c in stored(hands)["costs"].values()] == [Decimal("1.2000")]


async def test_costs_that_another_leader_booked_are_added_to_ours(hands: Hands) -> None:
    ours, theirs = Ledger(hands, "home"), Ledger(hands, "home")
    await ours.load()
    await theirs.load()
    theirs.book(Decimal(2), 0.0, 3600.0)
    await theirs.flush()
    ours.book(Decimal(3), 0.0, 3600.0)
    await ours.flush()
    assert ours.costs == {"1970-01-01": Decimal("5.0000")}


async def test_a_cancelled_write_is_not_taken_for_written(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.put(record())
    hands.gates["write_config_map"] = asyncio.Event()
    task = asyncio.create_task(ledger.flush())
    await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    hands.gates.clear()
    await ledger.flush()
    assert intents(hands) == ["aaaaaaaaaa"]


async def test_a_config_map_that_was_deleted_is_written_anew(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.put(record())
    await ledger.flush()
    del hands.town.maps[NAME]
    ledger.put(record("bbbbbbbbbb"))
    await ledger.flush()
    assert intents(hands) == ["aaaaaaaaaa", "bbbbbbbbbb"]


async def test_somebody_who_keeps_changing_it_is_an_error_and_not_a_loop(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.put(record())
    hands.on_call["write_config_map"] = lambda name: put_there(hands, "{}")
    with pytest.raises(LedgerError, match="keeps changing"):
        await ledger.flush()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "damaged"),
        ('{"machines": [{"intent": "x"}]}', "damaged"),
        ('{"cluster_id": "other"}', "belongs to cluster id 'other'"),
        ('{"version": 2}', "newer version"),
    ],
)
async def test_a_ledger_that_cannot_be_understood_stops_everything(
    hands: Hands, text: str, words: str
) -> None:
    put_there(hands, text)
    with pytest.raises(LedgerError, match=words):
        await Ledger(hands, "home").load()


async def test_an_unreachable_cluster_is_a_ledger_error_also_in_the_middle_of_a_conflict(
    hands: Hands,
) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    put_there(hands, "{}")
    ledger.put(record())
    hands.faults["read_config_map"] = [ClusterError("unreachable", "no route")]
    with pytest.raises(LedgerError, match="no route"):
        await ledger.flush()
    await ledger.flush()
    assert intents(hands) == ["aaaaaaaaaa"]


async def test_who_holds_the_machines_of_the_ledger_sees_what_is_loaded_later(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    held = ledger.machines
    other = Ledger(hands, "home")
    await other.load()
    other.put(record())
    await other.flush()
    await ledger.load()
    assert held == {"aaaaaaaaaa": record()}


def test_costs_are_kept_for_two_months(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    for day in range(100):
        ledger.book(Decimal(1), day * 86400.0, day * 86400.0 + 3600.0)
    assert len(ledger.costs) == 62


async def test_what_was_given_up_is_forgotten_once_machines_start_in_another_way(hands: Hands) -> None:
    first = Ledger(hands, "home", "one way")
    await first.load()
    first.failures.give_up("u", "home-a100-a", Reason.JOIN_DEADLINE)
    first.failures.disappoint("u", "home-a100-b")
    first.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 1000.0)
    await first.flush()
    for settings, kept in (("one way", True), ("", True), ("another", False), ("one way", False)):
        later = Ledger(hands, "home", settings)
        await later.load()
        assert bool(later.failures.given_up) is bool(later.failures.in_vain) is kept
        assert later.failures.disappointed == {
            "u": ["home-a100-b"]
        }  # a machine that is too small stays too small
        if settings:
            await later.flush()


async def test_a_ledger_that_does_not_tell_how_machines_started_is_believed(hands: Hands) -> None:
    first = Ledger(hands, "home")
    await first.load()
    first.failures.give_up("u", "home-a100-a", Reason.JOIN_DEADLINE)
    await first.flush()
    later = Ledger(hands, "home", "one way")
    await later.load()
    assert later.failures.given_up


async def test_costs_that_others_book_between_two_conflicts_are_added_once(hands: Hands) -> None:
    ours = Ledger(hands, "home")
    await ours.load()
    others = iter([Decimal(2), Decimal(4)])

    def another_books(_: str) -> None:
        if (price := next(others, None)) is not None:
            text = json.dumps({"cluster_id": "home", "costs": {"1970-01-01": str(price)}})
            put_there(hands, text)

    hands.on_call["write_config_map"] = another_books
    ours.book(Decimal(3), 0.0, 3600.0)
    await ours.flush()
    assert ours.costs == {"1970-01-01": Decimal("7.0000")}


async def test_a_machine_that_ran_over_the_end_of_a_month_costs_each_month_its_own_days(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    midnight = datetime(2027, 2, 1, tzinfo=UTC).timestamp()
    assert ledger.book(Decimal(1), midnight - 30 * 3600, midnight + 2 * 3600) == Decimal(32)
    assert ledger.costs == {
        "2027-01-30": Decimal(6),
        "2027-01-31": Decimal(24),
        "2027-02-01": Decimal(2),
    }
    assert ledger.spent_in_month(midnight - 1) == Decimal(30)
    assert ledger.spent_in_month(midnight) == Decimal(2)
    assert ledger.spent_in_month(midnight + 40 * 86400) == Decimal(0)


async def test_what_ran_for_years_is_booked_whole_on_the_days_that_are_kept(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    end = datetime(2027, 2, 1, 12, tzinfo=UTC).timestamp()
    assert ledger.book(Decimal(1), end - 1000 * 86400, end) == Decimal(24000)
    assert sum(ledger.costs.values()) == Decimal(24000)
    assert len(ledger.costs) == 62


async def test_when_a_driver_began_is_known_after_a_restart_and_a_conflict_and_from_before_the_first_read(
    hands: Hands,
) -> None:
    first, second = Ledger(hands, "home"), Ledger(hands, "home")
    await first.load()
    await second.load()
    first.driver_begins(2000.0)
    await first.flush()
    second.put(record())
    await second.flush()  # meets the other's write
    assert (second.driver_began, stored(hands)["driver_began"]) == (2000.0, 2000.0)
    third = Ledger(hands, "home")
    third.driver_begins(3000.0)
    await third.load()
    await third.flush()
    assert stored(hands)["driver_began"] == 3000.0
