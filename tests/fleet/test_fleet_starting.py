"""What was given up is tried again at a start with another join token, which is told apart by its Secret's version."""

from __future__ import annotations

import pytest

from controller.cluster.protocol import ClusterError
from controller.domain.reason import Reason
from controller.fleet.ledger import Ledger
from tests.fleet.clockwork import Time
from tests.fleet.fakes import Account, Hands, Town
from tests.fleet.test_fleet_ledger import record


@pytest.fixture
def hands() -> Hands:
    time = Time()
    account = Account(time)
    made = Hands(account, Town(time, account))
    made.town.secrets |= {"join": "17", "other": "18"}
    return made


async def started(hands: Hands, settings: str = "one way") -> Ledger:
    ledger = Ledger(hands, "home", settings, ("join", "other"))
    await ledger.load()
    await ledger.flush()
    return ledger


async def given_up(hands: Hands) -> Ledger:
    ledger = await started(hands)
    ledger.failures.give_up("u", "home-a100-a", Reason.JOIN_DEADLINE)
    ledger.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 1000.0)
    await ledger.flush()
    return ledger


async def test_a_start_with_the_same_tokens_changes_nothing(hands: Hands) -> None:
    await given_up(hands)
    for _ in range(2):
        later = await started(hands)
        assert later.failures.given_up
        assert later.failures.in_vain


@pytest.mark.parametrize("changed", ["join", "other"])
async def test_a_start_with_another_token_tries_again_what_was_given_up(hands: Hands, changed: str) -> None:
    await given_up(hands)
    hands.town.secrets[changed] = "19"
    later = await started(hands)
    assert not later.failures.given_up
    assert not later.failures.in_vain


async def test_a_token_that_came_is_another_one(hands: Hands) -> None:
    del hands.town.secrets["join"]
    await given_up(hands)
    hands.town.secrets["join"] = "19"
    assert not (await started(hands)).failures.in_vain


async def test_a_leader_that_was_there_before_the_token_changed_agrees_with_one_that_came_after(
    hands: Hands,
) -> None:
    old = await given_up(hands)
    hands.town.secrets["join"] = "19"
    new = await started(hands)
    new.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 2000.0)
    await new.flush()
    await old.load()
    assert old.failures.in_vain
    await old.flush()
    assert (await started(hands)).failures.in_vain


@pytest.mark.parametrize("kind", ["unreachable", "forbidden"])
async def test_nothing_follows_from_a_secret_that_cannot_be_read_now(hands: Hands, kind: str) -> None:
    await given_up(hands)
    hands.faults["secret_version"] = [ClusterError(kind, "not now")]
    assert (await started(hands)).failures.in_vain
    assert (await started(hands)).failures.in_vain
    hands.town.secrets["join"] = "19"
    assert not (await started(hands)).failures.in_vain


async def test_other_settings_count_as_ever(hands: Hands) -> None:
    await given_up(hands)
    assert not (await started(hands, "another")).failures.in_vain


async def test_they_count_also_while_a_secret_cannot_be_read(hands: Hands) -> None:
    await given_up(hands)
    hands.faults["secret_version"] = [ClusterError("forbidden", "not allowed")] * 2
    assert not (await started(hands, "another")).failures.in_vain
    again = await started(hands, "another")
    again.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 2000.0)
    await again.flush()
    assert (await started(hands, "another")).failures.in_vain


@pytest.mark.parametrize("changed", ["join", "other"])
async def test_a_token_that_is_mended_meanwhile_ends_it_without_a_restart(hands: Hands, changed: str) -> None:
    ledger = await given_up(hands)
    await ledger.heed_tokens()
    assert ledger.failures.given_up
    assert ledger.failures.in_vain
    hands.town.secrets[changed] = "19"
    await ledger.heed_tokens()
    assert not ledger.failures.given_up
    assert not ledger.failures.in_vain
    await ledger.flush()
    later = await started(hands)
    assert not later.failures.given_up
    ledger.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 2000.0)
    await ledger.heed_tokens()
    assert ledger.failures.in_vain


async def test_a_secret_that_cannot_be_read_meanwhile_ends_nothing(hands: Hands) -> None:
    ledger = await given_up(hands)
    hands.faults["secret_version"] = [ClusterError("unreachable", "not now")]
    await ledger.heed_tokens()
    assert ledger.failures.given_up
    await ledger.heed_tokens()
    assert ledger.failures.given_up


async def test_tokens_are_looked_at_only_while_something_is_given_up(hands: Hands) -> None:
    ledger = await started(hands)
    before = len(hands.did("secret_version"))
    await ledger.heed_tokens()
    assert len(hands.did("secret_version")) == before


async def test_a_mended_token_that_meets_a_conflict_does_not_bring_it_back(hands: Hands) -> None:
    ledger = await given_up(hands)
    data, version = hands.town.maps["gpu-autoscaler-ledger"]
    hands.town.maps["gpu-autoscaler-ledger"] = (data, version + 1)
    hands.town.secrets["join"] = "19"
    await ledger.heed_tokens()
    await ledger.flush()
    later = await started(hands)
    assert not later.failures.given_up
    assert not later.failures.in_vain


async def test_a_token_that_was_replaced_long_before_the_first_order_ends_nothing(hands: Hands) -> None:
    """Tokens are rotated as a matter of routine; what came to nothing with the new one is in vain all the same."""
    ledger = await started(hands)
    hands.town.secrets["join"] = "19"
    ledger.launched(500.0)
    await ledger.heed_tokens()
    ledger.failures.give_up("u", "home-a100-a", Reason.JOIN_DEADLINE)
    ledger.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 1000.0)
    await ledger.heed_tokens()
    assert ledger.failures.given_up
    assert ledger.failures.in_vain
    await ledger.flush()
    assert (await started(hands)).failures.in_vain
    hands.town.secrets["join"] = "20"
    await ledger.heed_tokens()
    assert not ledger.failures.in_vain


async def test_a_token_that_is_mended_between_an_order_and_its_failure_ends_it(hands: Hands) -> None:
    ledger = await started(hands)
    ledger.launched(500.0)
    await ledger.heed_tokens()
    hands.town.secrets["join"] = "19"
    await ledger.heed_tokens()
    ledger.failures.tried_in_vain(record(), Reason.JOIN_DEADLINE, 1000.0)
    await ledger.heed_tokens()
    assert not ledger.failures.in_vain
