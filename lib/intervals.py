"""Printed numbers as intervals, and the arithmetic that keeps them honest.

A figure in a text is not a point: "25.6" stands for every number that rounds to it. `printed` turns the digits into
that interval exactly (rational arithmetic, no floats), and `Estimate` carries a value with its interval through
sums, products and ratios. This is the only place where digits become numbers.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Number = int | float | Fraction
Rounding = Literal["nearest", "truncated"]

_DIGITS = re.compile(r"(?P<sign>[-+−]?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<frac>\d+))?(?:e(?P<exp>[-+]?\d+))?")


class MalformedNumber(ValueError):
    """The text is not a number in the ledger's notation (``12,288``, ``0.0952``, ``365e6``)."""


@dataclass(frozen=True)
class Estimate:
    """A value with the interval [low, high] that it is known to lie in; any unit, the caller's.

    Arithmetic treats both operands as independent intervals (outer bounds), which is conservative for
    quantities that share an error. Raises ValueError when the interval does not contain the value.
    """

    value: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"interval [{self.low}, {self.high}] does not contain {self.value}")

    def __add__(self, other: Estimate | Number) -> Estimate:
        o = as_estimate(other)
        return Estimate(self.value + o.value, self.low + o.low, self.high + o.high)

    def __sub__(self, other: Estimate | Number) -> Estimate:
        o = as_estimate(other)
        return Estimate(self.value - o.value, self.low - o.high, self.high - o.low)

    def __mul__(self, other: Estimate | Number) -> Estimate:
        o = as_estimate(other)
        corners = [a * b for a in (self.low, self.high) for b in (o.low, o.high)]
        return Estimate(self.value * o.value, min(corners), max(corners))

    def __truediv__(self, other: Estimate | Number) -> Estimate:
        o = as_estimate(other)
        if o.low <= 0 <= o.high:
            raise ZeroDivisionError(f"the divisor's interval [{o.low}, {o.high}] contains zero")
        corners = [_ratio(a, b) for a in (self.low, self.high) for b in (o.low, o.high)]
        return Estimate(_ratio(self.value, o.value), min(corners), max(corners))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number) -> Estimate:
        return as_estimate(other) - self

    def __rtruediv__(self, other: Number) -> Estimate:
        return as_estimate(other) / self

    def sqrt(self) -> Estimate:
        """Square root, element by element; ValueError below zero."""
        return Estimate(math.sqrt(self.value), math.sqrt(self.low), math.sqrt(self.high))

    def overlaps(self, other: Estimate) -> bool:
        """Whether some number lies in both intervals: the two figures can both be right."""
        return self.low <= other.high and other.low <= self.high

    def within(self, other: Estimate) -> bool:
        """Whether this whole interval lies inside the other."""
        return other.low <= self.low and self.high <= other.high

    def contains(self, number: Number) -> bool:
        """Whether the interval contains the number, ends included."""
        return self.low <= number <= self.high


def as_estimate(number: Estimate | Number) -> Estimate:
    """A plain number as an interval of width zero; an Estimate unchanged."""
    return number if isinstance(number, Estimate) else Estimate(number, number, number)


def printed(text: str, rounding: Rounding = "nearest", times: Number = 1) -> Estimate:
    """The interval that printed digits stand for, in exact fractions.

    ``nearest`` is half a unit of the last printed digit either way, both ends included, because a text does not say
    how it breaks ties; ``truncated`` is [v, v + one unit]. ``times`` widens either (what "about" is declared to mean).
    "365e6" has its last printed digit at the million. Raises MalformedNumber.
    """
    value, last_digit = _parse(text)
    half_widths = (last_digit / 2, last_digit / 2) if rounding == "nearest" else (Fraction(0), last_digit)
    below, above = (Fraction(times) * w for w in half_widths)
    return Estimate(value, value - below, value + above)


def exact(text: str) -> Estimate:
    """The digits as an exact number: a threshold that we declare rather than one that somebody rounded."""
    return as_estimate(_parse(text)[0])


def rounds_to(number: Number, text: str) -> bool:
    """Whether the number, rounded half to even at the text's last digit, prints as exactly these digits."""
    value, last_digit = _parse(text)
    return round(Fraction(number) / last_digit) * last_digit == value


def _parse(text: str) -> tuple[Fraction, Fraction]:
    match = _DIGITS.fullmatch(text.strip())
    if match is None:
        raise MalformedNumber(f"malformed number {text!r}: write it like 12,288 or 0.0952 or 365e6")
    frac = match["frac"] or ""
    last_digit = Fraction(10) ** (int(match["exp"] or 0) - len(frac))
    digits = int(match["whole"].replace(",", "") + frac)
    return (-digits if match["sign"] in {"-", "−"} else digits) * last_digit, last_digit


def _ratio(a: Number, b: Number) -> Number:
    exact_both = not isinstance(a, float) and not isinstance(b, float)
    return Fraction(a) / Fraction(b) if exact_both else a / b
