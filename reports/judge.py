"""Join a measured value with one figure of the ledger: the verdict on one aspect, with its reason in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from lib.intervals import Estimate, Number, as_estimate, rounds_to
from lib.relations import SCALAR_RELATIONS, TREND_RELATIONS, Decision, trend
from reports.ledger import GIVEN, Figure
from reports.verdict import Verdict

Scalar = bool | int | float | Fraction | Estimate
Measured = Scalar | Sequence[Scalar] | Mapping[Any, Scalar]

_VERDICTS = {
    Decision.TRUE: Verdict.HOLDS,
    Decision.FALSE: Verdict.REFUTED,
    Decision.UNDECIDED: Verdict.UNRESOLVED,
}


class MeasurementError(TypeError):
    """A test handed over something that the figure's relation cannot be decided on."""


@dataclass(frozen=True)
class Aspect:
    """One measured thing, beside what is stated of it; verdict None for context that decides nothing."""

    name: str
    verdict: Verdict | None
    bears: str
    relation: str | None
    measured: Any
    published: dict[str, Any] | None
    reason: str
    unit: str
    cases: Mapping[str, Verdict] = field(default_factory=dict)  # of a figure that is measured over several


def judge(figure: Figure, measured: Measured, cautious: bool = False) -> Aspect:
    """The verdict of one figure. Raises MeasurementError when the value does not fit the relation.

    cautious: where a figure fails at some cases and the others are open, refuted and conditional are both possible;
    then it is unresolved. For what is measured anew each time and must not come out now as the one, now as the other.
    """
    verdict, reason = _decide(figure, measured, cautious)
    cases = case_verdicts(figure, measured) if figure.over and isinstance(measured, Mapping) else {}
    return replace(aspect_of(figure, verdict, reason, measured), cases=cases)


def aspect_of(figure: Figure, verdict: Verdict, reason: str = "", measured: Measured | None = None) -> Aspect:
    """An aspect of this figure with a given verdict."""
    return Aspect(
        name=figure.name, verdict=verdict, bears=figure.bears, relation=figure.relation,
        measured=None if measured is None else as_json(measured), published=_published(figure),
        reason=reason, unit=figure.unit,
    )  # fmt: skip


def context(name: str, measured: Any, unit: str) -> Aspect:
    """A value recorded for the reader that decides nothing."""
    return Aspect(name, None, "context", None, as_json(measured), None, "", unit)


def _decide(figure: Figure, measured: Measured, cautious: bool) -> tuple[Verdict, str]:
    if not all(is_finite(value) for value in _scalars(measured)):
        busy = "too few quiet passes: the machine was busy; run it again with nothing beside it"
        return Verdict.UNRESOLVED, busy if cautious else "the measured value is not a finite number"
    if figure.relation == GIVEN:
        raise MeasurementError(f"{figure.name!r} is given, a premise: it is not measured")
    if figure.relation in TREND_RELATIONS:
        return _judge_trend(figure, measured)
    if isinstance(measured, Mapping):
        return _judge_cases(figure, measured, cautious)
    if not isinstance(measured, Scalar):
        raise MeasurementError(f"{figure.name!r}: relation {figure.relation!r} cannot take {type(measured).__name__}")
    return _judge_scalar(figure, measured)


def _judge_scalar(figure: Figure, measured: Scalar) -> tuple[Verdict, str]:
    if figure.relation == "true":
        if not isinstance(measured, bool):
            raise MeasurementError(f"{figure.name!r}: relation 'true' takes a bool, got {measured!r}")
        return (Verdict.HOLDS, "") if measured else (Verdict.REFUTED, "not so")
    stated = figure.interval()
    if stated is None or isinstance(measured, bool):
        raise MeasurementError(f"{figure.name!r}: relation {figure.relation!r} takes a number, got {measured!r}")
    estimate = as_estimate(measured)
    verdict = _VERDICTS[SCALAR_RELATIONS[figure.relation](estimate, stated)]
    return verdict, _explain(figure, estimate, stated, verdict)


def _explain(figure: Figure, measured: Estimate, stated: Estimate, verdict: Verdict) -> str:
    if verdict is Verdict.HOLDS:
        tight = figure.relation in {"equal", "consistent"} and figure.origin == "printed" and figure.value
        return "consistent only within rounding" if tight and not rounds_to(measured.value, tight) else ""
    words = {"equal": "not", "about": "not about", "consistent": "cannot be", "equivalent": "not equivalent to"}
    phrase = words.get(figure.relation, f"not {figure.relation.replace('_', ' ')}")
    if verdict is Verdict.UNRESOLVED:
        phrase = f"straddles the line of {figure.relation.replace('_', ' ')}"
    unit = "" if figure.unit in {"", "1"} else f" {figure.unit}"
    bounds = f" (interval {show(stated)})" if stated.low != stated.high else ""
    return f"{show(measured)}{unit} {phrase} {figure.value}{bounds}"


def _judge_trend(figure: Figure, measured: Measured) -> tuple[Verdict, str]:
    if not isinstance(measured, Mapping | Sequence):
        raise MeasurementError(f"{figure.name!r}: relation {figure.relation!r} takes a sequence or a mapping")
    verdict = _VERDICTS[trend(figure.relation, [as_estimate(v) for v in _scalars(measured)])]
    return verdict, "" if verdict is Verdict.HOLDS else f"not {figure.relation} at every step"


def _judge_cases(figure: Figure, cases: Mapping[Any, Scalar], cautious: bool) -> tuple[Verdict, str]:
    if not cases:
        raise MeasurementError(f"{figure.name!r}: no cases were measured")
    verdicts = case_verdicts(figure, cases)
    groups = {v: [case for case, got in verdicts.items() if got is v] for v in Verdict}
    reason = "; ".join(
        f"{words} {figure.over or 'case'} {', '.join(groups[v])}"
        for v, words in ((Verdict.HOLDS, "true at"), (Verdict.REFUTED, "not at"), (Verdict.UNRESOLVED, "undecided at"))
        if groups[v]
    )
    if not groups[Verdict.REFUTED]:
        return (Verdict.UNRESOLVED, reason) if groups[Verdict.UNRESOLVED] else (Verdict.HOLDS, "")
    if figure.over is None:
        return Verdict.REFUTED, reason
    if groups[Verdict.HOLDS]:
        return Verdict.CONDITIONAL, reason
    return (Verdict.UNRESOLVED if cautious and groups[Verdict.UNRESOLVED] else Verdict.REFUTED), reason


def case_verdicts(figure: Figure, cases: Mapping[Any, Scalar]) -> dict[str, Verdict]:
    """Each case by itself; none for a trend, whose cases are judged together, and none that is not a number."""
    if figure.relation in TREND_RELATIONS:
        return {}
    return {str(case): _judge_scalar(figure, value)[0] for case, value in cases.items() if is_finite(value)}


def _published(figure: Figure) -> dict[str, Any]:
    stated = figure.interval()
    bounds = None if stated is None else [as_json(stated.low), as_json(stated.high)]
    return {
        "value": figure.value, "unit": figure.unit, "interval": bounds, "origin": figure.origin, "why": figure.why,
    }  # fmt: skip


def _scalars(measured: Any) -> list[Any]:
    if isinstance(measured, Mapping):
        return list(measured.values())
    return list(measured) if isinstance(measured, Sequence) else [measured]


def is_finite(value: Any) -> bool:
    """Whether a scalar (or every end of an interval) is an ordinary number."""
    if isinstance(value, Estimate):
        return all(math.isfinite(v) for v in (value.value, value.low, value.high))
    return not isinstance(value, float) or math.isfinite(value)


def as_json(value: Any) -> Any:
    """The value as strict JSON: exact integers stay integers, other rationals become floats, NaN becomes a word."""
    if isinstance(value, Estimate):
        return {"value": as_json(value.value), "low": as_json(value.low), "high": as_json(value.high)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float | Fraction):
        return _plain(value)
    raise MeasurementError(f"cannot record a {type(value).__name__}: hand over plain numbers")


def _plain(number: int | float | Fraction) -> int | float | str:
    """Of exactly these types: numpy's float64 is a float too, but one that xdist cannot send."""
    if isinstance(number, float):
        return float(number) if math.isfinite(number) else str(float(number))
    return int(number) if number == int(number) else float(number)


def show(number: Estimate | Number) -> str:
    """A number or an interval in a few digits, for a sentence."""
    if isinstance(number, Estimate):
        low, high = show(number.low), show(number.high)
        return show(number.value) if low == high else f"{show(number.value)} [{low}, {high}]"
    as_float = float(number)
    if as_float.is_integer() and abs(as_float) < 1e15:
        return f"{int(as_float):,}"
    four_digits_say_it = abs(as_float) < 9999.5  # from there on they would be 1e+04
    return f"{as_float:,.4g}" if four_digits_say_it else f"{as_float:,.1f}"
