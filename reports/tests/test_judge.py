"""From measurement to verdict: each relation, each kind of value, and what cannot be decided."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from lib.intervals import Estimate
from reports.judge import MeasurementError, as_json, aspect_of, context, is_finite, judge, show
from reports.ledger import GIVEN, Figure
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


@pytest.mark.parametrize(
    ("stated", "measured", "reason"),
    [
        (figure(unit="MB"), 11, "11 MB not 10 (interval 10 [9.5, 10.5])"),
        (
            figure(unit="1"),
            Estimate(10.4, 10.2, 10.6),
            "10.4 [10.2, 10.6] straddles the line of equal 10 (interval 10 [9.5, 10.5])",
        ),
        (figure("greater", origin="declared"), 9, "9 not greater 10"),
        (figure("consistent"), Estimate(12, 11, 13), "12 [11, 13] cannot be 10 (interval 10 [9.5, 10.5])"),
        (figure("true", None, origin="declared"), False, "not so"),
        (figure("true", None, origin="declared"), True, ""),
        (figure("decreasing", None, origin="declared"), [1, 2], "not decreasing at every step"),
        (figure("increasing", None, origin="declared"), [1, 2], ""),
        (
            figure("greater", origin="declared", over="n"),
            {1: 12, 2: Estimate(10, 9, 11)},
            "true at n 1; undecided at n 2",
        ),
        (figure("greater", origin="declared"), {1: 9, 2: 9}, "not at case 1, 2"),
    ],
)
def test_reasons_in_words(stated, measured, reason):
    assert judge(stated, measured).reason == reason


def test_an_aspect_carries_what_was_stated_and_every_case():
    found = judge(figure("greater", "10", origin="declared", over="n", unit="ms"), {1: 12, 2: math.nan, 4: 9})
    assert (found.verdict, found.unit, found.bears, found.relation) == (Verdict.UNRESOLVED, "ms", "number", "greater")
    assert found.cases == {"1": Verdict.HOLDS, "4": Verdict.REFUTED}
    assert found.measured == {"1": 12, "2": "nan", "4": 9}
    assert found.published == {"value": "10", "unit": "ms", "interval": [10, 10], "origin": "declared", "why": ""}
    assert judge(figure("increasing", None, over="n"), {1: 1, 2: 2}).cases == {}
    assert judge(figure("true", None), True).published["interval"] is None
    assert aspect_of(figure(), Verdict.HOLDS).measured is None
    told = context("threads", (1, Fraction(1, 4)), "1")
    assert (told.verdict, told.bears, told.measured, told.published) == (None, "context", [1, 0.25], None)


def test_a_given_figure_is_not_measured():
    with pytest.raises(MeasurementError, match="a premise"):
        judge(figure(GIVEN), 10)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (12288, "12,288"),
        (1234.5678, "1,235"),
        (0.012345678, "0.01235"),
        (9999.4, "9,999"),
        (9999.5, "9,999.5"),  # not 1e+04
        (12345.67, "12,345.7"),
        (-20_000.25, "-20,000.2"),
        (999_999_999_999_999, "999,999,999,999,999"),
        (1e15, "1,000,000,000,000,000.0"),
        (Fraction(1, 3), "0.3333"),
        (Estimate(2, 2, 2), "2"),
        (Estimate(2, 1, 4), "2 [1, 4]"),
    ],
)
def test_numbers_for_a_sentence(number, words):
    assert show(number) == words


@pytest.mark.parametrize("ends", [(1, -math.inf, 2), (1, 0, math.inf), (math.inf, 0, math.inf)])
def test_an_interval_with_an_open_end_is_not_finite(ends):
    assert not is_finite(Estimate(*ends)) and is_finite(Estimate(1, 0, 2))
    assert not is_finite(math.nan) and is_finite(3) and is_finite(Fraction(1, 3)) and is_finite(True)


def test_exact_numbers_stay_whole_in_a_record():
    found = as_json([Fraction(4, 2), Fraction(1, 2), True, None, "x", -math.inf, 2.0])
    assert found == [2, 0.5, True, None, "x", "-inf", 2.0]
    assert [type(value) for value in found] == [int, float, bool, type(None), str, str, float]


def test_what_was_not_decided_has_not_moved():
    assert has_moved(Verdict.HOLDS, Verdict.REFUTED) and has_moved(Verdict.CONDITIONAL, Verdict.HOLDS)
    assert not has_moved(Verdict.HOLDS, Verdict.HOLDS) and not has_moved(Verdict.HOLDS, None)
    assert not has_moved(Verdict.UNRESOLVED, Verdict.HOLDS) and not has_moved(None, Verdict.HOLDS)
    assert outcome_of(Verdict.NOT_MEASURED, Verdict.HOLDS, aspect_moved=True) is Outcome.NOT_MEASURED
    assert outcome_of(Verdict.UNRESOLVED, Verdict.HOLDS, aspect_moved=True) is Outcome.CHANGED
