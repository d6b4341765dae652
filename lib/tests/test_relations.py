"""Three-way decisions held against the definition: every value of the interval, none of them, or some."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.intervals import Estimate, as_estimate, printed
from lib.relations import SCALAR_RELATIONS, Decision, above, at_least, at_most, below, consistent, inside, trend

numbers = st.integers(-20, 20)


@given(numbers, numbers, numbers)
def test_below_against_brute_force_over_the_interval(a, b, line):
    low, high = min(a, b), max(a, b)
    answers = {x < line for x in range(low, high + 1)}
    expected = Decision.UNDECIDED if len(answers) == 2 else Decision.TRUE if answers == {True} else Decision.FALSE
    assert below(Estimate(low, low, high), as_estimate(line)) is expected


@given(numbers, numbers, numbers)
def test_strict_and_weak_relations_are_opposites(a, b, line):
    measured, stated = Estimate(min(a, b), min(a, b), max(a, b)), as_estimate(line)
    opposite = {Decision.TRUE: Decision.FALSE, Decision.FALSE: Decision.TRUE, Decision.UNDECIDED: Decision.UNDECIDED}
    assert at_least(measured, stated) is opposite[below(measured, stated)]
    assert at_most(measured, stated) is opposite[above(measured, stated)]


def test_rounding_counts_in_the_statements_favour():
    """ "At most 1.6" as printed is not refuted by 1.64; as an exact threshold of ours it is."""
    assert at_most(as_estimate(1.64), printed("1.6")) is Decision.TRUE
    assert at_most(as_estimate(1.64), as_estimate(1.6)) is Decision.FALSE


def test_inside_needs_the_whole_interval():
    stated = printed("0.0952")
    assert inside(Estimate(0.0952, 0.09516, 0.09524), stated) is Decision.TRUE
    assert inside(Estimate(0.0952, 0.0940, 0.0960), stated) is Decision.UNDECIDED
    assert inside(Estimate(0.0960, 0.0955, 0.0965), stated) is Decision.FALSE


def test_consistent_needs_one_common_number():
    assert consistent(Estimate(6.49, 6.48, 6.51), printed("6")) is Decision.TRUE
    assert consistent(Estimate(6.52, 6.51, 6.53), printed("6")) is Decision.FALSE


def test_trend_sees_one_reversed_pair():
    assert trend("increasing", [as_estimate(x) for x in (1, 2, 3)]) is Decision.TRUE
    assert trend("decreasing", [as_estimate(x) for x in (3, 2, 1)]) is Decision.TRUE
    assert trend("increasing", [as_estimate(x) for x in (1, 3, 2, 4)]) is Decision.FALSE
    assert trend("increasing", [as_estimate(1), as_estimate(1)]) is Decision.FALSE
    assert trend("increasing", [Estimate(1, 0, 2), Estimate(2, 1, 3)]) is Decision.UNDECIDED


def test_one_value_has_no_trend():
    with pytest.raises(ValueError, match="at least two"):
        trend("increasing", [as_estimate(1)])


def test_every_relation_decides_a_point():
    for relation in SCALAR_RELATIONS.values():
        assert relation(as_estimate(1), as_estimate(2)) is not Decision.UNDECIDED
