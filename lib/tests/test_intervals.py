"""Printed numbers held against the standard library's decimal rounding, interval arithmetic against inner points."""

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.intervals import Estimate, MalformedNumber, as_estimate, exact, printed, rounds_to

decimals = st.decimals(min_value=-10_000, max_value=10_000, places=6, allow_nan=False)
places = st.integers(min_value=0, max_value=4)
ends = st.fractions(min_value=-50, max_value=50, max_denominator=100)


@given(decimals, places, st.sampled_from([ROUND_HALF_EVEN, ROUND_HALF_UP]))
def test_printed_contains_what_rounds_to_it_against_decimal(number, digits, mode):
    text = f"{number.quantize(Decimal(10) ** -digits, rounding=mode):,f}"
    assert printed(text).contains(Fraction(number))


@given(decimals, places)
def test_printed_excludes_what_rounds_elsewhere_against_decimal(number, digits):
    unit = Decimal(10) ** -digits
    text = f"{number.quantize(unit, rounding=ROUND_HALF_EVEN):f}"
    outside = Fraction(number) + Fraction(unit) * 2
    assert not printed(text).contains(outside)
    assert not rounds_to(outside, text)


@given(decimals, places)
def test_rounds_to_against_decimal(number, digits):
    text = f"{number.quantize(Decimal(10) ** -digits, rounding=ROUND_HALF_EVEN):f}"
    assert rounds_to(Fraction(number), text)


def test_a_full_unit_either_way_would_be_wrong():
    """The tempting wrong variant: ±1 unit instead of ±½ accepts 0.0953 for a printed 0.0952."""
    assert not printed("0.0952").contains(Fraction("0.0953"))
    assert printed("0.0952", times=2).contains(Fraction("0.0953"))


def test_ties_belong_to_both_neighbours_because_the_mode_is_unknown():
    assert printed("2").contains(Fraction("2.5")) and printed("3").contains(Fraction("2.5"))
    assert rounds_to(Fraction("2.5"), "2") and not rounds_to(Fraction("2.5"), "3")


def test_truncated_digits_reach_one_unit_up_only():
    assert printed("166", rounding="truncated") == Estimate(166, 166, 167)


@pytest.mark.parametrize(
    ("text", "value", "half_width"),
    [("12,288", 12288, "0.5"), ("365e6", 365_000_000, "500000"), ("-1.50", "-1.5", "0.005"), ("7", 7, "0.5")],
)
def test_digits_carry_precision(text, value, half_width):
    interval = printed(text)
    assert interval.value == Fraction(value) == exact(text).value
    assert interval.high - interval.value == interval.value - interval.low == Fraction(half_width)


@pytest.mark.parametrize("text", ["", "12.288,5", "1,23", "12,28", "1 000", "1e", "0x10", "NaN", "1.2.3", ",5"])
def test_malformed_numbers_are_named(text):
    with pytest.raises(MalformedNumber, match="malformed number"):
        printed(text)


@given(ends, ends, ends, ends, st.fractions(0, 1), st.fractions(0, 1))
def test_arithmetic_encloses_every_inner_point(a, b, c, d, s, t):
    x, y = _interval(a, b), _interval(c, d)
    u, v = x.low + s * (x.high - x.low), y.low + t * (y.high - y.low)
    assert (x + y).contains(u + v) and (x - y).contains(u - v) and (x * y).contains(u * v)
    if not y.contains(0):
        assert (x / y).contains(u / v)


def test_division_by_an_interval_around_zero_is_refused():
    with pytest.raises(ZeroDivisionError):
        as_estimate(1) / Estimate(0, -1, 1)


def test_an_interval_that_misses_its_value_is_refused():
    with pytest.raises(ValueError, match="does not contain"):
        Estimate(5, 0, 1)


def _interval(a, b):
    low, high = min(a, b), max(a, b)
    return Estimate((low + high) / 2, low, high)


def test_ends_belong_to_an_interval() -> None:
    whole, part, beside = Estimate(5, 0, 10), Estimate(5, 0, 10), Estimate(12, 10, 14)
    assert part.within(whole) and whole.overlaps(beside) and beside.overlaps(whole)
    assert not Estimate(5, -1, 10).within(whole) and not Estimate(5, 0, 11).within(whole)
    assert not whole.overlaps(Estimate(12, 11, 14)) and not Estimate(12, 11, 14).overlaps(whole)


def test_whole_numbers_divide_exactly() -> None:
    """The wrong variant divides them as floats, and 0.333… is no third."""
    assert (as_estimate(1) / 3).value == Fraction(1, 3) == (1 / as_estimate(3)).value
    assert (as_estimate(Fraction(1, 2)) / 3).value == Fraction(1, 6)
    assert isinstance((as_estimate(1.0) / 3).value, float) and isinstance((as_estimate(1) / 3.0).value, float)


def test_plain_numbers_on_the_left() -> None:
    two = Estimate(2, 1, 4)
    assert 1 - two == Estimate(-1, -3, 0)
    assert 8 / two == Estimate(4, 2, 8)
    assert Estimate(4, 1, 9).sqrt() == Estimate(2, 1, 3)
