"""From measurement to verdict: each relation, each kind of value, and what cannot be decided."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from lib.intervals import Estimate
from reports.judge import MeasurementError, as_json, judge
from reports.ledger import Figure
from reports.verdict import Outcome, Verdict, as_far_as_decided, combine, has_moved, outcome_of


def figure(relation="equal", value="10", **more):
    return Figure(name="x", origin=more.pop("origin", "printed"), relation=relation, value=value, **more)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (10, Verdict.HOLDS),
        (10.4, Verdict.HOLDS),
        (11, Verdict.REFUTED),
        (Estimate(10.4, 10.2, 10.6), Verdict.UNRESOLVED),
        (math.nan, Verdict.UNRESOLVED),
        (math.inf, Verdict.UNRESOLVED),
        (Fraction(10), Verdict.HOLDS),
    ],
)
def test_equal_against_the_rounding_interval(measured, verdict):
    assert judge(figure(), measured).verdict is verdict


def test_within_rounding_only_is_said():
    measured = Estimate(Fraction("10.6"), Fraction("10.1"), Fraction(11))
    assert judge(figure("consistent"), measured).reason == "consistent only within rounding"
    assert judge(figure(), 10).reason == ""


def test_cases_decide_by_whether_a_condition_was_declared():
    cases = {"short": 9, "long": 12}
    assert judge(figure("greater", "10", origin="declared"), cases).verdict is Verdict.REFUTED
    mixed = judge(figure("greater", "10", origin="declared", over="context"), cases)
    assert mixed.verdict is Verdict.CONDITIONAL
    assert mixed.reason == "true at context long; not at context short"
    assert judge(figure("greater", "10", origin="declared", over="context"), {"short": 9}).verdict is Verdict.REFUTED


def test_false_here_and_open_there_is_undecided_for_whoever_is_cautious():
    swept = figure("greater", "10", origin="declared", over="context")
    cases = {"short": 9, "long": Estimate(10, 9, 11)}
    assert judge(swept, cases).verdict is Verdict.REFUTED
    assert judge(swept, cases, cautious=True).verdict is Verdict.UNRESOLVED
    assert judge(swept, cases | {"longest": 12}, cautious=True).verdict is Verdict.CONDITIONAL
    assert judge(swept, {"short": 9, "long": 8}, cautious=True).verdict is Verdict.REFUTED


def test_trends_take_sequences_and_mappings():
    assert judge(figure("increasing", None), [1, 2, 3]).verdict is Verdict.HOLDS
    assert judge(figure("decreasing", None), {"a": 1, "b": 2}).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("relation", "value", "measured"),
    [("true", None, 1), ("equal", "10", True), ("equal", "10", [1, 2]), ("equal", "10", {}), ("increasing", None, 3)],
)
def test_a_value_that_does_not_fit_its_relation_is_an_error_not_a_verdict(relation, value, measured):
    with pytest.raises(MeasurementError):
        judge(figure(relation, value), measured)


def test_records_are_strict_json():
    value = {"a": Estimate(Fraction(1, 2), 0, 1), "b": math.nan, "c": [Fraction(3), True]}
    text = json.dumps(as_json(value), allow_nan=False)
    assert json.loads(text) == {"a": {"value": 0.5, "low": 0, "high": 1}, "b": "nan", "c": [3, True]}
    with pytest.raises(MeasurementError):
        as_json({1, 2})


def test_a_statement_is_no_better_than_its_worst_aspect():
    assert combine([Verdict.HOLDS, Verdict.REFUTED, Verdict.UNRESOLVED]) is Verdict.REFUTED
    assert combine([Verdict.HOLDS, Verdict.CONDITIONAL]) is Verdict.CONDITIONAL
    assert combine([Verdict.HOLDS, Verdict.NOT_MEASURED]) is Verdict.HOLDS
    assert combine([]) is Verdict.NOT_MEASURED


def test_only_equality_with_the_record_is_green():
    assert outcome_of(Verdict.REFUTED, Verdict.REFUTED) is Outcome.AS_RECORDED
    assert outcome_of(Verdict.HOLDS, Verdict.REFUTED) is Outcome.CHANGED
    assert outcome_of(Verdict.REFUTED, Verdict.HOLDS) is Outcome.CHANGED
    assert outcome_of(Verdict.HOLDS, None) is Outcome.NEW
    assert outcome_of(Verdict.UNRESOLVED, Verdict.HOLDS) is Outcome.UNRESOLVED
    assert outcome_of(Verdict.NOT_MEASURED, Verdict.HOLDS) is Outcome.NOT_MEASURED


def test_numpy_numbers_are_recorded_as_plain_ones() -> None:
    found = as_json({"share": np.float64(0.5), "gap": Estimate(np.float64(1), 0, 2)})
    assert [type(found["share"]), type(found["gap"]["value"])] == [float, float]


@pytest.mark.parametrize(("cautious", "words"), [(True, "the machine was busy"), (False, "not a finite number")])
def test_a_timed_figure_without_an_interval_says_that_the_machine_was_busy(cautious, words):
    aspect = judge(figure("less", "1"), Estimate(1.0, 0.0, math.inf), cautious=cautious)
    assert aspect.verdict is Verdict.UNRESOLVED and words in aspect.reason


H, C, R, U = Verdict.HOLDS, Verdict.CONDITIONAL, Verdict.REFUTED, Verdict.UNRESOLVED


@pytest.mark.parametrize(
    ("verdict", "on_record", "figures", "found"),
    [
        (C, R, [(C, C), (U, R)], U),  # what refuted it could not be decided this time: no change, no confirmation
        (H, R, [(U, R), (H, H)], U),
        (H, C, [(U, C)], U),
        (R, C, [(R, C), (U, C)], R),  # worse than on record: that was decided
        (C, R, [(C, R), (H, H)], C),  # the figure itself came out milder: a change
        (C, R, [(C, C), (U, H)], C),  # another figure is open, not the one that refuted it
        (R, R, [(R, R), (U, C)], R),
        (R, R, [(R, R), (U, R)], R),
        (C, None, [(U, None)], C),
    ],
)
def test_a_milder_verdict_needs_the_figure_that_made_the_record(verdict, on_record, figures, found):
    assert as_far_as_decided(verdict, on_record, figures) is found


def test_an_open_figure_is_no_change():
    """The wrong variant calls it one: a nightly false alarm."""
    found = as_far_as_decided(C, R, [(C, C), (U, R)])
    assert outcome_of(found, R) is Outcome.UNRESOLVED and outcome_of(C, R) is Outcome.CHANGED


@pytest.mark.parametrize(
    ("combined", "on_record", "figures"),
    [
        (C, R, [(C, H), (U, R)]),
        (U, C, [(H, C), (U, H)]),
        (C, R, [(C, R), (U, R)]),
        (U, R, [(H, R), (U, H)]),
    ],
)
def test_a_figure_that_moved_is_not_hidden_behind_an_open_one(combined, on_record, figures):
    """The wrong variant reports them as undecided: a real change that nobody would look at."""
    moved = any(has_moved(found, known) for found, known in figures)
    found = as_far_as_decided(combined, on_record, figures)
    assert outcome_of(found, on_record, moved) is Outcome.CHANGED
    assert outcome_of(found, on_record) is not Outcome.AS_RECORDED
