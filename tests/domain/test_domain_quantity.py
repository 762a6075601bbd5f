"""Quantities of every form against exact values, and the scheduler's rounding."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.domain.quantity import QuantityError, parse_quantity, scheduler_units, show, to_kubernetes

FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(1024),
    "Mi": Fraction(1024**2),
    "Gi": Fraction(1024**3),
    "Ti": Fraction(1024**4),
    "Pi": Fraction(1024**5),
    "Ei": Fraction(1024**6),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("1", "1"),
        (7, "7"),
        ("+3", "3"),
        ("-1", "-1"),
        ("0.1", "0.1"),
        (".5", "0.5"),
        ("5.", "5"),
        ("100m", "0.1"),
        ("1500m", "1.5"),
        ("1n", "0.000000001"),
        ("2u", "0.000002"),
        ("1k", "1000"),
        ("1M", "1000000"),
        ("1G", "1000000000"),
        ("1T", "1000000000000"),
        ("1P", "1000000000000000"),
        ("1E", "1000000000000000000"),
        ("1Ki", "1024"),
        ("1Mi", "1048576"),
        ("1.5Gi", "1610612736"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("2e3", "2000"),
        ("2E3", "2000"),
        ("12e-3", "0.012"),
        ("1e+2", "100"),
        ("9223372036854775807", "9223372036854775807"),
        ("0.1Ki", "102.4"),
        ("  4  ", "4"),
    ],
)
def test_a_quantity_has_its_exact_value(text: str | int, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "1x", "1 Gi", "Gi", "1gi", "1KI", "1K", "1ki", "--1", "1e", "1e1.5", "1,5", "0x10", "1_000", "∞",
     "nan", "inf", "1mi", "1mm", "1e3Gi", "1.2.3", "٣"],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_the_text_in_the_message(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity; expected a number such as"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [
        ("cpu", "1", 1000),
        ("cpu", "0.5", 500),
        ("cpu", "100m", 100),
        ("cpu", "1n", 1),
        ("cpu", "1.0001", 1001),
        ("cpu", "0", 0),
        ("memory", "1Gi", 1 << 30),
        ("memory", "1.5", 2),
        ("memory", "100m", 1),
        ("memory", "0.1Ki", 103),
        ("nvidia.com/gpu", "1", 1),
        ("nvidia.com/gpu", "500m", 1),
        ("pods", "110", 110),
        ("memory", "1Ei", 1 << 60),
    ],
)
def test_the_scheduler_compares_whole_units_rounded_up(resource: str, text: str, units: int) -> None:
    assert scheduler_units(resource, text) == units


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 10**15), st.integers(0, 999999), st.sampled_from(sorted(FACTORS)))
def test_any_amount_with_any_suffix_agrees_with_exact_fractions(whole: int, part: int, suffix: str) -> None:
    exact = (Fraction(whole) + Fraction(part, 10**6)) * FACTORS[suffix]
    text = f"{whole}.{part:06d}{suffix}"
    assert Fraction(parse_quantity(text)) == exact
    assert scheduler_units("memory", text) == -(-exact.numerator // exact.denominator)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "pods"]), st.integers(0, 2**62))
def test_units_written_for_kubernetes_read_back_the_same(resource: str, units: int) -> None:
    assert scheduler_units(resource, to_kubernetes(resource, units)) == units


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 22000, "22"),
        ("cpu", 0, "0"),
        ("memory", 32 << 30, "32Gi"),
        ("memory", 1 << 30, "1Gi"),
        ("memory", 0, "0"),
        ("memory", 100 << 20, "100Mi"),
        ("memory", 7, "7"),
        ("memory", 1 << 62, "4294967296Gi"),
        ("memory", (1 << 40) + (1 << 29), "1024.5Gi"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_people_read_amounts_in_the_usual_form(resource: str, units: int, text: str) -> None:
    assert show(resource, units) == text
