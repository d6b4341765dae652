"""Measured values as a reader sees them: digits, intervals, cases, and the geometry of an interval bar."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from reports.render.model import Aspect, Published
from reports.render.reading import finite, text
from reports.render.words import Words

DIGITS = 6  # two more than the chapter ever prints after its leading zeros
MAX_DIGITS = 17  # a float64 has no more
ENDS = 12  # half a unit of the longest printed figure, 3,624,960 byte, and room to spare
WIDTH_DIGITS = 3  # of an interval's width: one more than in a table, since these are held against a line
SHORT, LONG = 3, 24  # how many cases or values a cell, and a table, shows
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
BAR_WIDTH, BAR_PAD, BAR_MIN = 160, 12, 2  # pixels, whole ones: a tenth is not seen
_BELOW, _ABOVE = ("less", "at_most"), ("greater", "at_least")  # the allowed side has no other end
_PRINTED = re.compile(r"-?[\d.,]+")
LOG_FROM = 30.0  # a range wider than this factor is drawn on a log scale


def _english(value: float, digits: int) -> str:
    if not math.isfinite(value):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}" if abs(value) < 1e15 else _power(float(value), digits)
    magnitude = math.floor(math.log10(abs(value)))
    if not -5 < magnitude < 9:
        return _power(value, digits)
    fixed = f"{value:,.{max(0, digits - 1 - magnitude)}f}"
    return fixed.rstrip("0").rstrip(".") if "." in fixed else fixed


def _power(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def number(value: float, w: Words, digits: int = DIGITS) -> str:
    """A number in the notation of the language."""
    return w.digits(_english(value, digits) if abs(value) < 1e300 or not math.isfinite(value) else str(value))


def printed(digits: str, w: Words) -> str:
    """A printed figure (English notation in the ledger) in the notation of the language."""
    return w.digits(digits) if _PRINTED.fullmatch(digits) and finite(digits.replace(",", "")) is not None else digits


def is_estimate(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a measured value is an estimate with an interval and not a table of cases."""
    return isinstance(value, dict) and {"value", "low", "high"} <= value.keys()


def digits_apart(value: float, ends: tuple[float | None, float | None]) -> int:
    """Enough digits that a value just outside an interval does not read like its end."""
    others = [end for end in ends if end is not None and end != value]
    digits = DIGITS
    while digits < MAX_DIGITS and any(_english(value, digits) == _english(end, digits) for end in others):
        digits += 1
    return digits


def short(value: object, w: Words, digits: int = DIGITS, most: int = SHORT) -> str:
    """Any measured value on one line."""
    if is_estimate(value):
        middle, low, high = (short(end, w, digits) for end in _rounded_ends(value))
        return f"{middle} {between(low, high)}"
    if isinstance(value, dict):
        return _several([f"{text(k)}: {short(v, w, digits)}" for k, v in value.items()], w, most)
    if isinstance(value, list | tuple):
        return _several([short(v, w, digits) for v in value], w, most)
    return _scalar(value, w, digits)


def _rounded_ends(estimate: Mapping[str, object]) -> list[object]:
    """Value, low and high to the digits that the interval's width leaves meaningful."""
    ends: list[object] = [estimate[k] for k in ("value", "low", "high")]
    low, high = (finite(end) for end in ends[1:])
    if low is None or high is None or low >= high:
        return ends
    return [rounded(end, high - low, WIDTH_DIGITS) if isinstance(end, float) else end for end in ends]


def rounded(number: float, width: float, digits: int) -> float:
    """A number to so many digits of the width of its interval: a further one would be noise."""
    if not (math.isfinite(width) and math.isfinite(number)):
        return number
    try:
        return round(number, digits - 1 - math.floor(math.log10(width))) + 0.0  # no minus zero
    except OverflowError:  # next to the largest float there is nothing to round up to
        return number


def between(low: str, high: str) -> str:
    """The interval that stands after a measured value."""
    return f"({low} – {high})"


def _scalar(value: object, w: Words, digits: int) -> str:
    if isinstance(value, bool):
        return w("ui.yes" if value else "ui.no")
    if isinstance(value, int | float):
        return number(value, w, digits)
    return "—" if value is None else text(value)


def _several(parts: list[str], w: Words, most: int) -> str:
    """The parts on one line, `most` of them; a single one more takes no more room than saying so."""
    rest = len(parts) - most
    return "; ".join(parts) if rest <= 1 else "; ".join([*parts[:most], "… " + w("ui.more", n=rest)])


def measured(aspect: Aspect, w: Words, most: int = SHORT) -> str:
    """The measured value on one line, of cases the first ones; digits enough to be told from the published interval."""
    digits, value, line = DIGITS, aspect.measured, aspect.published
    if line and isinstance(value, int | float) and math.isfinite(value):
        digits = digits_apart(value, (line.low, line.high))
    return " ".join(filter(None, [short(value, w, digits, most), unit(aspect.unit, w)]))


def cases(aspect: Aspect, w: Words) -> list[tuple[str, str]]:
    """A measured mapping or sequence as rows (case, value), at most LONG of them; scalars have none."""
    value = aspect.measured
    if isinstance(value, dict) and not is_estimate(value):
        rows = [(text(k), short(v, w)) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        rows = [(str(i), short(v, w)) for i, v in enumerate(value)]
    else:
        return []
    rest = len(rows) - LONG
    return rows[:LONG] + ([("…", w("ui.more", n=rest))] if rest > 1 else rows[LONG:])


def unit(given: str, w: Words) -> str:
    """The unit to print, translated where it is a word; "1" is how the ledger writes a pure number."""
    return "" if given == "1" else w.name("unit", given)


def published(aspect: Aspect, w: Words) -> str:
    """What the measured value is held against: relation, figure, unit."""
    line = aspect.published
    if line is None and aspect.relation in ("", "equal"):
        return "—"
    parts = [w.name("relation", aspect.relation)]
    parts += [printed(line.value, w), unit(line.unit, w)] if line else []
    return " ".join(filter(None, parts)) or "—"


def interval(line: Published | None, w: Words) -> str:
    """The interval a published figure stands for; nothing for a line without width, or without ends."""
    if line is None or line.low == line.high:
        return ""
    low, high = ("…" if end is None else number(end, w, ENDS) for end in (line.low, line.high))
    return f"[{low} – {high}]"


@dataclass(frozen=True)
class Bar:
    """Pixel positions of a published band and a measured mark in a box BAR_WIDTH wide."""

    band_x: int
    band_width: int
    mark_x: int
    low_x: int
    high_x: int
    log: bool


def bar(aspect: Aspect) -> Bar | None:
    """Geometry of the interval bar of a scalar aspect; None where there is no figure to draw against."""
    value = aspect.measured
    mark, low, high = map(finite, (value[k] for k in ("value", "low", "high")) if is_estimate(value) else [value] * 3)
    line = aspect.published
    if line is None or mark is None or low is None or high is None or isinstance(value, str):
        return None
    points = [mark, low, high, *(end for end in (line.low, line.high) if end is not None)]
    if len(points) == 3:
        return None
    log = min(points) > 0 and max(points) / min(points) > LOG_FROM
    axis = _Axis(min(points), max(points), log)
    left = 0 if line.low is None or aspect.relation in _BELOW else axis.x(line.low)
    right = BAR_WIDTH if line.high is None or aspect.relation in _ABOVE else axis.x(line.high)
    return Bar(left, max(right - left, BAR_MIN), axis.x(mark), axis.x(low), axis.x(high), log)


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    log: bool

    def x(self, value: float) -> int:
        # Halves, so that the widest range does not overflow.
        low, high, at = (math.log(v) if self.log else v / 2 for v in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(BAR_PAD + share * (BAR_WIDTH - 2 * BAR_PAD))
