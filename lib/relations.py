"""How a measured number can stand to a stated one, decided with intervals.

Three answers, never two: a relation is satisfied by the whole measured interval, violated by the whole of it, or the
interval straddles the line and the sample cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import pairwise

from lib.intervals import Estimate


class Decision(Enum):
    """Whether a relation holds for every value the measured interval allows."""

    TRUE = "true"
    FALSE = "false"
    UNDECIDED = "undecided"


def inside(measured: Estimate, stated: Estimate) -> Decision:
    """Equality with a printed figure: the measured interval lies in the figure's rounding interval."""
    if measured.within(stated):
        return Decision.TRUE
    return Decision.UNDECIDED if measured.overlaps(stated) else Decision.FALSE


def consistent(measured: Estimate, stated: Estimate) -> Decision:
    """Two rounded figures that can both be right: their intervals share a number."""
    return Decision.TRUE if measured.overlaps(stated) else Decision.FALSE


def below(measured: Estimate, stated: Estimate) -> Decision:
    """measured < stated. The stated figure's rounding counts in the statement's favour."""
    return _decide(measured.high < stated.high, measured.low >= stated.high)


def at_most(measured: Estimate, stated: Estimate) -> Decision:
    """measured ≤ stated, rounding in the statement's favour."""
    return _decide(measured.high <= stated.high, measured.low > stated.high)


def above(measured: Estimate, stated: Estimate) -> Decision:
    """measured > stated, rounding in the statement's favour."""
    return _decide(measured.low > stated.low, measured.high <= stated.low)


def at_least(measured: Estimate, stated: Estimate) -> Decision:
    """measured ≥ stated, rounding in the statement's favour."""
    return _decide(measured.low >= stated.low, measured.high < stated.low)


SCALAR_RELATIONS: dict[str, Callable[[Estimate, Estimate], Decision]] = {
    "equal": inside,
    "about": inside,
    "equivalent": inside,
    "consistent": consistent,
    "less": below,
    "at_most": at_most,
    "greater": above,
    "at_least": at_least,
}
TREND_RELATIONS = ("increasing", "decreasing")


def trend(relation: str, sequence: Sequence[Estimate]) -> Decision:
    """Whether consecutive values strictly rise (or fall). One reversed pair refutes; one overlap leaves it open.

    Raises ValueError on fewer than two values: a single value has no trend.
    """
    if len(sequence) < 2:
        raise ValueError("a trend needs at least two values")
    ordered = sequence if relation == "increasing" else list(reversed(sequence))
    steps = [_decide(a.high < b.low, a.low >= b.high) for a, b in pairwise(ordered)]
    if Decision.FALSE in steps:
        return Decision.FALSE
    return Decision.UNDECIDED if Decision.UNDECIDED in steps else Decision.TRUE


def _decide(satisfied: bool, violated: bool) -> Decision:
    if satisfied:
        return Decision.TRUE
    return Decision.FALSE if violated else Decision.UNDECIDED
