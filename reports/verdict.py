"""The closed set of verdicts, and how aspects combine into one."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """What a measurement says about a statement. An exception is an error, never a verdict."""

    HOLDS = "HOLDS"
    CONDITIONAL = "CONDITIONAL"  # true only under a named, measured condition
    REFUTED = "REFUTED"
    UNRESOLVED = "UNRESOLVED"  # the interval straddles the line, or n cannot decide
    NOT_MEASURED = "NOT_MEASURED"  # with the reason


class Outcome(StrEnum):
    """What pytest says: does the verdict equal the one on record?"""

    AS_RECORDED = "as-recorded"
    CHANGED = "changed"
    NEW = "new"
    UNRESOLVED = "unresolved"
    NOT_MEASURED = "not-measured"
    ERROR = "error"
    PENDING = "pending"


_DECIDED = frozenset({Verdict.HOLDS, Verdict.CONDITIONAL, Verdict.REFUTED})
_SEVERITY = (Verdict.REFUTED, Verdict.CONDITIONAL, Verdict.UNRESOLVED, Verdict.HOLDS)


def combine(aspects: Iterable[Verdict]) -> Verdict:
    """The strictest fair reading: a statement is no better than its worst measured aspect."""
    measured = set(aspects)
    return next((v for v in _SEVERITY if v in measured), Verdict.NOT_MEASURED)


def has_moved(verdict: Verdict | None, on_record: Verdict | None) -> bool:
    """Whether an aspect was decided, and otherwise than on record. An undecided or unmeasured one has not moved."""
    return on_record is not None and verdict in _DECIDED and verdict is not on_record


def as_far_as_decided(
    verdict: Verdict, on_record: Verdict | None, figures: Iterable[tuple[Verdict | None, Verdict | None]]
) -> Verdict:
    """The verdict, or UNRESOLVED if it is milder than the record only because the figure that made it was not decided.

    figures: pairs of (measured, on record). Worst is REFUTED, then CONDITIONAL; a decided figure speaks for itself.
    """
    both_decided = verdict in _DECIDED and on_record in _DECIDED
    milder = both_decided and _SEVERITY.index(verdict) > _SEVERITY.index(on_record or verdict)
    undecided = any(found is Verdict.UNRESOLVED and known is on_record for found, known in figures)
    return Verdict.UNRESOLVED if milder and undecided else verdict


def outcome_of(verdict: Verdict, on_record: Verdict | None, aspect_moved: bool = False) -> Outcome:
    """Compare a verdict with the record. What could not be decided is neither green nor red.

    A statement is no better than its worst aspect, so another could flip behind it: that is a change too, also where
    the statement as a whole could not be decided.
    """
    if verdict is Verdict.NOT_MEASURED:
        return Outcome.NOT_MEASURED
    if aspect_moved:
        return Outcome.CHANGED
    if verdict is Verdict.UNRESOLVED:
        return Outcome.UNRESOLVED
    if on_record is None:
        return Outcome.NEW
    return Outcome.AS_RECORDED if verdict is on_record else Outcome.CHANGED
