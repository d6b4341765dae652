"""Do the figures of a text agree with one another? Rounding-interval arithmetic over printed numbers.

A printed figure is recomputed from other printed figures. Both are intervals, so three outcomes are kept apart:
the recomputed value prints as the same digits; it does not, but some unrounded values behind the figures would agree
(consistent only within rounding); or no such values exist, and one of the figures is off.

After statcheck (Nuijten et al. 2016, Behavior Research Methods 48, 1205) and, for shares of a small whole, GRIM
(Brown & Heathers 2017, Social Psychological and Personality Science 8, 363).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lib.intervals import Estimate, Number, as_estimate, printed, rounds_to


class Agreement(StrEnum):
    """How a printed figure stands to what the other figures make of it."""

    AGREES = "agrees"
    WITHIN_ROUNDING = "within rounding"
    OFF = "off"


@dataclass(frozen=True)
class Check:
    """One printed figure against its recomputation."""

    name: str
    text: str
    recomputed: Estimate
    agreement: Agreement

    def __str__(self) -> str:
        return f"{self.name}: printed {self.text}, recomputed {float(self.recomputed.value):.6g}"


def check(name: str, text: str, recomputed: Estimate | Number) -> Check:
    """Compare printed digits with a value or interval recomputed from other figures.

    A round word is written with its precision: "six thousand" is ``6e3``, anything from 5,500 to 6,500.
    Raises MalformedNumber for digits outside the ledger's notation.
    """
    value = as_estimate(recomputed)
    if not value.overlaps(printed(text)):
        return Check(name, text, value, Agreement.OFF)
    same_digits = rounds_to(value.value, text)
    return Check(name, text, value, Agreement.AGREES if same_digits else Agreement.WITHIN_ROUNDING)


def ordered(name: str, smaller: Estimate | Number, larger: Estimate | Number) -> Check:
    """A conclusion instead of a digit: the text says that one figure is below another.

    Rounding cannot rescue a wrong order, it can only leave it open (within rounding).
    """
    low, high = as_estimate(smaller), as_estimate(larger)
    margin = high - low
    if low.high < high.low:
        return Check(name, "greater than 0", margin, Agreement.AGREES)
    possible = low.low < high.high
    return Check(name, "greater than 0", margin, Agreement.WITHIN_ROUNDING if possible else Agreement.OFF)


def counts_behind(text: str, whole: int, percent: bool = False) -> list[int]:
    """Every k for which k / whole prints as the text: empty means that no count can have produced it (GRIM)."""
    if whole < 1:
        raise ValueError(f"a share of {whole} things")
    stated = printed(text) / (100 if percent else 1)
    return [k for k in range(whole + 1) if stated.low * whole <= k <= stated.high * whole]


def proportional(lengths: Sequence[int], counts: Sequence[int]) -> bool:
    """Whether the bars of a printed histogram can be the counts at one scale, each rounded to a whole length.

    Raises ValueError when a bar has no count or the other way round.
    """
    if len(lengths) != len(counts):
        raise ValueError(f"{len(lengths)} bars for {len(counts)} counts")
    half = as_estimate(1) / 2
    scales = [(bar - half.value, bar + half.value, n) for bar, n in zip(lengths, counts, strict=True) if n > 0]
    lowest = max(low / n for low, _, n in scales)
    return lowest <= min(high / n for _, high, n in scales)


def by_agreement(checks: Iterable[Check]) -> dict[Agreement, list[Check]]:
    """The checks sorted by outcome; every outcome is a key."""
    listed = list(checks)
    return {outcome: [c for c in listed if c.agreement is outcome] for outcome in Agreement}
