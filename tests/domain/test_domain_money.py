"""Money in words."""

from __future__ import annotations

from decimal import Decimal

import pytest

from controller.domain.money import at_least, in_words


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("2.580", "2.58"),
        ("2.58", "2.58"),
        ("3", "3.00"),
        ("0.4515", "0.4515"),
        ("0.04830", "0.0483"),
        ("0", "0.00"),
        ("10.5", "10.50"),
    ],
)
def test_an_amount_reads_the_same_however_it_was_written(amount: str, text: str) -> None:
    assert in_words(Decimal(amount)) == text


@pytest.mark.parametrize(("amount", "text"), [("0.00001", "0.0001"), ("1.29", "1.29"), ("2.00004", "2.0001")])
def test_what_has_to_be_allowed_is_never_told_too_low(amount: str, text: str) -> None:
    assert at_least(Decimal(amount)) == text
    assert Decimal(at_least(Decimal(amount))) >= Decimal(amount)
