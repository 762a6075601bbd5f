"""Amounts of money in words. The same amount always reads the same, however many zeros it was written with."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal

_CENT_OF_A_CENT = Decimal("0.0001")


def in_words(amount: Decimal) -> str:
    """Two to four decimals: `1.29`, `0.4515`, `3.00`."""
    return _short(amount.quantize(_CENT_OF_A_CENT, rounding=ROUND_HALF_EVEN))


def at_least(amount: Decimal) -> str:
    """The same, never less than the amount: what somebody has to allow so that it fits."""
    return _short(amount.quantize(_CENT_OF_A_CENT, rounding=ROUND_CEILING))


def _short(amount: Decimal) -> str:
    text = format(amount, "f")
    return text[:-2] + text[-2:].rstrip("0")
