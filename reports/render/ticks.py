"""Where an axis is marked: four to six round numbers, powers of two or ten on a log axis; and places along it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FEWEST, MOST = 4, 6  # ticks of an axis
FLAT = 1e-4  # values closer together than this share are drawn as level: a tick's six digits would not tell them apart
LEVEL_ROOM = 0.1  # of the largest value, free above and below values drawn as level
FROM_ZERO = 0.35  # an axis whose lowest value lies below this share of its highest one starts at zero
LOG_PAD = 0.03  # of a log axis' length, free at either end
_STEPS = (1.0, 2.0, 2.5, 5.0)  # from tick to tick, times a power of ten
_SLACK = 1e-9  # of a step: what rounding may shift a value that lies on a tick


@dataclass(frozen=True)
class Ruler:
    """An axis from `low` to `high` with its ticks in order."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool

    def share(self, value: float) -> float:
        """How far along the axis the value lies, in percent of its length."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return round(100 * (at - low) / (high - low), 2)


def ruler(values: Sequence[float], scale: str) -> Ruler:
    """The axis of this scale over finite values, all positive on a log one."""
    low, high = min(values), max(values)
    return _log_ruler(low, high, values) if scale == "log" else _linear_ruler(low, high)


def _linear_ruler(low: float, high: float) -> Ruler:
    if 0 < low < FROM_ZERO * high:
        low = 0.0
    elif FROM_ZERO * low < high < 0:
        high = 0.0
    low, high = _apart(low, high)
    ticks = min(_choices(low, high), key=lambda found: found[-1] - found[0])
    return Ruler(ticks[0], ticks[-1], ticks, False)


def _choices(low: float, high: float) -> Iterator[tuple[float, ...]]:
    """Rows of round ticks that reach over the whole range. Doubling a step halves the row, so that one always fits."""
    for step in _steps(high - low):
        first, last = math.floor(low / step + _SLACK), math.ceil(high / step - _SLACK)
        if FEWEST <= last - first + 1 <= MOST:
            yield tuple(_clean(place * step, step) for place in range(first, last + 1))


def _steps(length: float) -> list[float]:
    """Round steps around a range of this length, from a tenth of its decade to more than the whole."""
    decade = math.floor(math.log10(length))
    return [step * 10.0**power for power in (decade - 1, decade, decade + 1) for step in _STEPS]


def _clean(tick: float, step: float) -> float:
    """Without the noise of the product, and without a minus zero."""
    return round(tick, max(0, 1 - math.floor(math.log10(step)))) + 0.0


def _apart(low: float, high: float) -> tuple[float, float]:
    """Ends with room between them where all values are one."""
    largest = max(abs(low), abs(high))
    room = LEVEL_ROOM * largest or 1.0
    return (low, high) if high - low > FLAT * largest else (low - room, high + room)


def _log_ruler(low: float, high: float, values: Sequence[float]) -> Ruler:
    if high < low * (1 + FLAT):
        low, high = low / 2, high * 2
    pad = (high / low) ** LOG_PAD
    low, high = low / pad, high * pad
    rows = [*_powers_of(values, low, high), *_between_powers(low, high)]
    ticks = min(rows, key=lambda row: max(FEWEST - len(row), len(row) - MOST, 0))
    return Ruler(low, high, tuple(ticks), True)


def _powers_of(values: Sequence[float], low: float, high: float) -> list[list[float]]:
    """Rows of powers, the better one first. Powers of two below one have too many digits unless the values are such."""
    twos, tens = _powers(2.0, low, high), _powers(10.0, low, high)
    if all(math.frexp(value)[0] == 0.5 for value in values):
        return [twos, tens]
    return [tens, twos] if min(values) >= 1 else [tens]


def _between_powers(low: float, high: float) -> Iterator[list[float]]:
    """Rows for a range too short for powers: 1, 3 or 1, 2, 5 of each decade, then even steps."""
    tens = _every_power(10.0, low / 10, high)
    for digits in ((1, 3), (1, 2, 5)):
        yield _inside(low, high, (_clean(digit * ten, ten) for ten in tens for digit in digits))
    for step in _steps(high - low):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first < MOST:
            yield [_clean(place * step, step) for place in range(max(first, 1), last + 1)]


def _powers(base: float, low: float, high: float) -> list[float]:
    """Powers of the base inside the range, every second or third of them where there are too many."""
    found = _every_power(base, low, high)
    return found[:: math.ceil(len(found) / MOST) or 1]


def _every_power(base: float, low: float, high: float) -> list[float]:
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    return _inside(low, high, (base**power for power in range(first, last + 1)))


def _inside(low: float, high: float, ticks: Iterable[float]) -> list[float]:
    return [tick for tick in ticks if low <= tick <= high]
