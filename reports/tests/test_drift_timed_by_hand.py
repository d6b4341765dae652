"""timed.py against sums done by hand: one series, its noise one unless it is the noise that is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from reports.drift import timed
from reports.drift.timed import Floats, Reference

LIMIT = 4.0892  # of Student's t for 19 degrees of freedom what 1 % / 16 / 2 of it exceeds
LIMIT_OF_FIVE = 4.7981  # a fifth of that
NAN = math.nan


def row(*values: float) -> Floats:
    return np.array([values])


def unit(repeats: int = 20) -> Reference:
    return Reference(np.zeros(1), np.ones(1), np.array([19.0]), repeats)


def test_nights_teach_the_noise_about_the_baselines_centre() -> None:
    """(4 * 2.5 + 2**2 / (1 + 1/5)) / (4 + 1): a variance of eight thirds with five degrees of freedom."""
    alone = timed.reference(row(1, 2, 3, 4, 5), np.empty((1, 0)))
    assert (alone.centre[0], alone.noise[0], alone.freedom[0], alone.repeats) == (3, pytest.approx(2.5**0.5), 4, 5)
    with_night = timed.reference(row(1, 2, 3, 4, 5), row(NAN, 5))
    assert (with_night.centre[0], with_night.freedom[0]) == (3, 5)
    assert with_night.noise[0] == pytest.approx((8 / 3) ** 0.5)


@pytest.mark.parametrize(("centre", "least"), [(250.0, 250e-6), (-250.0, 250e-6), (0.0, 1e-12)])
def test_no_noise_is_below_the_resolution(centre: float, least: float) -> None:
    assert timed.reference(row(*[centre] * 5), np.empty((1, 0))).noise[0] == pytest.approx(least)


def test_readings_are_off_by_their_own_series_noise() -> None:
    ref = Reference(np.array([1.0, 10.0]), np.array([1.0, 2.0]), np.ones(2), 5)
    assert ref.off(np.array([3.0, 3.0])).tolist() == [2.0, -3.5]
    assert ref.off(np.array([[3.0, 1.0], [14.0, 10.0]])).tolist() == [[2.0, 0.0], [2.0, 0.0]]


@pytest.mark.parametrize(
    ("window", "mean"),
    [((1,) * 5, 1.0), ((-1, -1, -1, -1, 1), -0.6), ((100, 0, 0, 0, 0), 0.6), ((-100, 0, 0, 0, 0), -0.6),
     ((NAN, 9, 9, 9, 9), 0.0)],
)  # fmt: skip
def test_a_score_is_the_clipped_mean_of_five_in_its_error(window: Sequence[float], mean: float) -> None:
    """Its variance is 1/5 of the nights' and 1/20 of the centre's: one half is its error."""
    assert timed.score(row(*window), unit())[0] == pytest.approx(mean / 0.5)


def test_one_night_alone_carries_the_centres_error_too() -> None:
    assert timed.alone(np.array([3.0]), unit(4))[0] == pytest.approx(3 / math.sqrt(1.25))


def test_the_limit_is_shared_among_looks_and_figures() -> None:
    assert timed.limit(unit())[0] == pytest.approx(LIMIT, abs=1e-4)
    assert timed.limit(unit(), 5.0)[0] == pytest.approx(LIMIT_OF_FIVE, abs=1e-4)


@pytest.mark.parametrize(
    ("nights", "again"),
    [
        ((NAN, NAN, NAN, NAN, 1.6), True),
        ((NAN, NAN, NAN, NAN, -1.6), True),
        ((0, 0, 0, 0, 1.4), False),
        ((0, 0, 0, 0.9, 1.2), True),  # with the night before 1.05
        ((0, 0, 0, -0.9, -1.2), True),
        ((0, 0, 0, 0.7, 1.2), False),
        ((0, 0, 0, 2.9, -1.0), False),  # the night before was read again then
        ((1.45, 1.45, 1.45, 0.6, 1.35), True),  # mean 1.26, score 2.52
        ((-1.45, -1.45, -1.45, -0.6, -1.35), True),
        ((1.4, 1.4, 1.4, 0.6, 1.3), False),
        ((NAN, 1.45, 1.45, 0.6, 1.35), False),  # four nights have no score
    ],
)
def test_a_night_is_read_again_when_it_or_the_pair_or_the_window_is_odd(nights: Sequence[float], again: bool) -> None:
    assert timed.wants_again(row(*nights[:4]), np.array(nights[4:]), unit())[0] == again


def test_a_nights_reading_is_the_median_of_its_run_and_its_reruns() -> None:
    assert timed.reading(np.array([9.0]), row(1, 2, 4, 5))[0] == 4.0


@pytest.mark.parametrize(
    ("before", "tonight", "again", "figures", "flag"),
    [
        ((2.2,) * 4, 2.2, 2.2, 1, True),  # a mean of LIMIT / 2 = 2.04 and more
        ((-2.2,) * 4, -2.2, -2.2, 1, True),
        ((2.0,) * 4, 2.0, 2.0, 1, False),
        ((2.2,) * 4, 2.2, 2.2, 5, False),
        ((2.5,) * 4, 2.5, 2.5, 5, True),
        ((3.0,) * 4, 2.2, 1.1, 1, True),
        ((3.0,) * 4, 2.2, 0.9, 1, False),  # the re-runs are not one noise off
        ((3.0,) * 4, 2.2, -1.1, 1, False),  # nor to the same side
        ((NAN,) * 4, 10.3, 10.3, 1, True),  # 10.3 / sqrt(1.05) = 10.05
        ((NAN,) * 4, -10.3, -10.3, 1, True),
        ((NAN,) * 4, 10.2, 10.2, 1, False),
        ((NAN,) * 4, 99.0, 0.0, 1, False),
    ],
)
def test_a_flag(before: Sequence[float], tonight: float, again: float, figures: float, flag: bool) -> None:
    given = row(*before), np.array([tonight]), row(*[again] * 5), unit(), figures
    assert timed.flagged(*given)[0] == flag


@pytest.mark.parametrize(
    ("mean", "figures", "out"), [(2.0, 1, False), (2.1, 1, True), (-2.1, 1, True), (2.1, 5, False)]
)
def test_five_nights_are_outside_together(mean: float, figures: float, out: bool) -> None:
    assert timed.outside(row(*[mean] * 4), np.array([mean]), unit(), figures)[0] == out


def test_a_claim_is_of_one_figure_unless_it_is_said() -> None:
    """A mean of 2.1 is a score of 4.2: beyond the limit of one figure, and not of two."""
    before, night, again = row(*[2.1] * 4), np.array([2.1]), row(*[2.1] * 5)
    assert timed.outside(before, night, unit())[0] and not timed.outside(before, night, unit(), 2.0)[0]
    assert timed.flagged(before, night, again, unit())[0]
    assert not timed.flagged(before, night, again, unit(), 2.0)[0]


def test_a_figure_that_never_moves_counts_for_none() -> None:
    one, other = [1.0, -1, 1, -1], [1.0, 1, -1, -1]
    assert timed.independent(np.array([one, other, [2.0] * 4])) == pytest.approx(2.0)
    assert timed.independent(np.array([one, [2.0] * 4])) == 1.0
    assert timed.independent(np.array([[2.0] * 4])) == 1.0


def test_ten_nights_in_order_are_a_trend_and_nine_are_not() -> None:
    assert timed.has_trend(range(10)) and timed.has_trend(range(10, 0, -1))
    assert not timed.has_trend(range(9))
    assert not timed.has_trend([0, 3, 1, 4, 2, 6, 5, 9, 7, 8, 3])  # chance does as much once in fifty times
