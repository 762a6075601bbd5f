"""What was bought in vain, as two writers of the ledger know it: neither forgets nor remembers for the other."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from controller.domain.plan import Tried
from controller.domain.reason import Reason
from controller.fleet.book import Book, merge
from controller.fleet.ledger import Ledger, LedgerError
from tests.fleet.clockwork import Time
from tests.fleet.fakes import Account, Hands, Town
from tests.fleet.test_fleet_ledger import NAME, record, stored


@pytest.fixture
def hands() -> Hands:
    time = Time()
    account = Account(time)
    return Hands(account, Town(time, account))


async def knowing(hands: Hands, settings: str = "one way") -> Ledger:
    """A ledger that has stored something to forget."""
    ledger = Ledger(hands, "home", settings)
    await ledger.load()
    ledger.failures.give_up("u", "home-a100-a", Reason.JOIN_DEADLINE)
    ledger.failures.disappoint("u", "home-a100-b")
    ledger.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 1000.0)
    await ledger.flush()
    return ledger


def touched(hands: Hands) -> None:
    """As by `kubectl annotate`: another version with the same content."""
    data, version = hands.town.maps[NAME]
    hands.town.maps[NAME] = (data, version + 1)


def vain(hands: Hands) -> tuple[Any, Any, Any]:
    book = stored(hands)
    return book["given_up"], book["disappointed"], book["in_vain"]


async def test_what_was_forgotten_after_a_lost_write_does_not_come_back(hands: Hands) -> None:
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.failures.give_up("u", "home-a100-a", Reason.JOIN_DEADLINE)
    ledger.failures.disappoint("u", "home-a100-b")
    ledger.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 1000.0)
    hands.faults["write_config_map"] = ["lost"]
    with pytest.raises(LedgerError):
        await ledger.flush()
    ledger.failures.works(record(), 3000.0)
    ledger.failures.forget_disappointments(())
    await ledger.flush()
    assert (ledger.failures.given_up, ledger.failures.disappointed, ledger.failures.in_vain) == ({}, {}, {})
    assert vain(hands) == ({}, {}, {})


async def test_what_was_forgotten_does_not_come_back_because_somebody_annotated_the_config_map(
    hands: Hands,
) -> None:
    ledger = await knowing(hands)
    touched(hands)
    ledger.failures.works(record(), 3000.0)
    ledger.failures.forget_disappointments(())
    await ledger.flush()
    assert vain(hands) == ({}, {}, {})


async def test_what_other_settings_ended_does_not_come_back_after_a_conflict(hands: Hands) -> None:
    await knowing(hands, "one way")
    later = Ledger(hands, "home", "another")
    await later.load()
    touched(hands)
    await later.flush()
    assert vain(hands) == ({}, {"u": ["home-a100-b"]}, {})
    assert stored(hands)["starting"] == "another"


async def test_what_another_leader_learned_meanwhile_is_added_to_what_is_known_here(hands: Hands) -> None:
    await knowing(hands)
    ours, theirs = Ledger(hands, "home", "one way"), Ledger(hands, "home", "one way")
    await ours.load()
    await theirs.load()
    theirs.failures.give_up("u", "home-a100-d", Reason.GPU_DEADLINE)
    theirs.failures.give_up("v", "home-a100-e", Reason.GPU_DEADLINE)
    theirs.failures.disappoint("u", "home-a100-f")
    theirs.failures.tried_in_vain(record(pool="h100"), Reason.GPU_DEADLINE, 1100.0)
    await theirs.flush()
    ours.failures.give_up("u", "home-a100-c", Reason.READY_DEADLINE)
    ours.failures.disappoint("u", "home-a100-g")
    ours.failures.works(record(), 3000.0)
    await ours.flush()
    assert ours.failures.given_up == {
        "u": {
            "home-a100-a": Reason.JOIN_DEADLINE,
            "home-a100-c": Reason.READY_DEADLINE,
            "home-a100-d": Reason.GPU_DEADLINE,
        },
        "v": {"home-a100-e": Reason.GPU_DEADLINE},
    }
    assert ours.failures.disappointed == {"u": ["home-a100-b", "home-a100-g", "home-a100-f"]}
    assert set(ours.failures.in_vain) == {"h100"}


async def test_what_another_leader_forgot_goes_unless_it_changed_here(hands: Hands) -> None:
    for changes_here in (False, True):
        hands.town.maps.clear()
        ours = await knowing(hands)
        theirs = Ledger(hands, "home", "one way")
        await theirs.load()
        theirs.failures.works(record(), 3000.0)
        theirs.failures.forget_disappointments(())
        await theirs.flush()
        ours.launched(2000.0)
        if changes_here:
            ours.failures.tried_in_vain(record(intended_at=1500.0), Reason.JOIN_DEADLINE, 2000.0)
        await ours.flush()
        assert (ours.failures.given_up, ours.failures.disappointed) == ({}, {})
        assert {pool: known.tries for pool, known in ours.failures.in_vain.items()} == (
            {"a100": 2} if changes_here else {}
        )


async def test_tries_that_two_leaders_made_are_known_to_both_and_none_is_left_undated(hands: Hands) -> None:
    await knowing(hands)
    ours, theirs = Ledger(hands, "home", "one way"), Ledger(hands, "home", "one way")
    await ours.load()
    await theirs.load()
    for ledger, name in ((theirs, "home-a100-d"), (ours, "home-a100-c")):
        ledger.failures.tried_in_vain(record(name=name, intended_at=1500.0), Reason.JOIN_DEADLINE, 2000.0)
        ledger.failures.give_up("u", name, Reason.JOIN_DEADLINE)
    await theirs.flush()
    await ours.flush()
    ours.failures.date_tries(3000.0)
    dated = {name for known in ours.failures.tried.values() for name in known.machines}
    assert dated == set(ours.failures.given_up["u"]) == {"home-a100-a", "home-a100-c", "home-a100-d"}
    before = dict(ours.failures.tried)
    ours.failures.date_tries(4000.0)
    assert ours.failures.tried == before


def test_what_is_undated_for_the_second_time_keeps_what_was_so_before(hands: Hands) -> None:
    ledger = Ledger(hands, "home", "one way")
    for name, now in (("home-a100-a", 1000.0), ("home-a100-b", 2000.0)):
        ledger.failures.give_up("u", name, Reason.JOIN_DEADLINE)
        ledger.failures.date_tries(now)
    ledger.failures.date_tries(3000.0)
    known = Tried(tries=1, last=2000.0, machines=("home-a100-a", "home-a100-b"))
    assert ledger.failures.tried == {"": known}


async def test_a_sort_that_works_again_does_not_come_back_because_somebody_annotated_the_config_map(
    hands: Hands,
) -> None:
    ledger = await knowing(hands)
    ledger.failures.date_tries(1000.0)
    await ledger.flush()
    assert stored(hands)["tried"]
    touched(hands)
    ledger.failures.comes_up(record())
    ledger.failures.forget_disappointments(())
    ledger.failures.date_tries(1000.0)
    await ledger.flush()
    assert stored(hands)["tried"] == {}


async def test_what_another_leader_counted_since_wins_over_what_was_forgotten_here(hands: Hands) -> None:
    ours = await knowing(hands)
    theirs = Ledger(hands, "home", "one way")
    await theirs.load()
    theirs.failures.tried_in_vain(record(intended_at=1500.0), Reason.JOIN_DEADLINE, 2000.0)
    await theirs.flush()
    ours.failures.works(record(), 3000.0)
    await ours.flush()
    assert ours.failures.in_vain["a100"].tries == 2


async def test_what_another_leader_gave_up_under_other_settings_counts_for_nothing_here(hands: Hands) -> None:
    ours = Ledger(hands, "home", "another")
    await ours.load()
    await knowing(hands, "one way")
    ours.launched(2000.0)
    await ours.flush()
    assert vain(hands) == ({}, {"u": ["home-a100-b"]}, {})


async def test_launches_of_two_leaders_count_together(hands: Hands) -> None:
    ours, theirs = Ledger(hands, "home"), Ledger(hands, "home")
    await ours.load()
    await theirs.load()
    theirs.launched(1001.0)
    await theirs.flush()
    ours.launched(1000.0)
    await ours.flush()
    assert ours.launches == [1000.0, 1001.0]


def test_costs_of_a_lost_write_that_another_leader_built_on_count_once() -> None:
    day = "2026-11-18"
    before, lost = Book(costs={day: Decimal(10)}), Book(costs={day: Decimal(15)})
    theirs = Book(costs={day: Decimal(18)})  # they read ours of 15, and booked 3
    assert merge(lost, [before, lost], theirs).costs == {day: Decimal(18)}
    theirs = Book(costs={day: Decimal(12)})  # they read ours of 10, and booked 2
    assert merge(lost, [before, lost], theirs).costs == {day: Decimal(17)}
    assert merge(lost, [before, lost], Book(costs={day: Decimal(4)})).costs == {day: Decimal(15)}


def test_where_the_machines_are_is_known_from_either_and_ours_is_the_newer() -> None:
    assert merge(Book(), [Book()], Book(account="home")).account == "home"
    assert merge(Book(account="home"), [Book()], Book()).account == "home"
    assert merge(Book(account="new"), [Book(account="home")], Book(account="home")).account == "new"


async def test_costs_of_two_leaders_count_once_each(hands: Hands) -> None:
    one, other = Ledger(hands, "home"), Ledger(hands, "home")
    await one.load()
    one.book(Decimal(10), 0, 3600)
    await one.flush()
    await other.load()
    one.book(Decimal(5), 0, 3600)
    await one.flush()
    other.book(Decimal(2), 0, 3600)
    await other.flush()
    assert sum(other.costs.values()) == 17


def test_figures_that_only_the_other_learned_are_kept() -> None:
    ours, theirs = Book(figures={"1A100.22V": {"cpu": 1}}), Book(figures={"8H100.80V": {"cpu": 2}})
    assert merge(ours, [Book()], theirs).figures == {"1A100.22V": {"cpu": 1}, "8H100.80V": {"cpu": 2}}


async def test_what_another_booked_on_top_of_a_write_of_ours_without_an_answer_counts_once(
    hands: Hands,
) -> None:
    """Written again as it was, and refused: the first of the two may have come to be, and the other read it."""
    ledger = Ledger(hands, "home")
    await ledger.load()
    ledger.launched(1000.0)
    await ledger.flush()
    ledger.book(Decimal(1), 0.0, 3600.0)
    hands.faults["write_config_map"] = ["lost"]
    with pytest.raises(LedgerError):
        await ledger.flush()
    other = Ledger(hands, "home")
    await other.load()
    other.book(Decimal(2), 0.0, 3600.0)
    await other.flush()
    await ledger.flush()
    assert list(ledger.costs.values()) == [Decimal(3)]
