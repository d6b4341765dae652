"""The paired bootstrap: coverage over known truths, degenerate columns, and the unpaired mistake."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import DegenerateDataWarning, binom, bootstrap

from lib.resampling import (
    DEFAULT_RESAMPLES,
    DEFAULT_SEED,
    log_share,
    mean,
    mean_difference,
    paired_interval,
    percentile_interval,
    relative_drop,
)

DATASETS, UNITS, RESAMPLES = 150, 60, 400
# An interval that covers 95 % misses up to this many of the datasets in all but one of 10,000 repetitions.
MOST_MISSES = int(binom.ppf(1 - 1e-4, DATASETS, 0.05)) + 1
COLUMNS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12)


def columns(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Skewed columns that share most of their spread; the true mean difference is 0.1, the true ratio of means 0.9."""
    shared = rng.lognormal(0, 0.5, UNITS)
    shared_mean = np.exp(0.125)
    return shared / shared_mean, 0.9 * shared / shared_mean * rng.lognormal(-0.005, 0.1, UNITS)


def of_means(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
    """The same value as mean_difference, for columns that are not paired."""
    return np.asarray(first.mean(axis=axis) - second.mean(axis=axis))


@pytest.mark.parametrize("method", ["BCa", "percentile"])
@pytest.mark.parametrize(("statistic", "truth"), [(mean_difference, 0.1), (relative_drop, 0.1)])
def test_coverage_over_known_truth(statistic, truth, method):
    rng = np.random.default_rng(7)
    found = [paired_interval(columns(rng), statistic, resamples=RESAMPLES, method=method) for _ in range(DATASETS)]
    missed = sum(not interval.contains(truth) for interval in found)
    assert 0 < missed <= MOST_MISSES


def test_paired_interval_rejects_unpaired_resampling():
    """Resampling each column by itself over-covers: intervals three times as wide, and none of them ever misses."""
    rng, missed = np.random.default_rng(7), 0
    for _ in range(40):
        first, second = columns(rng)
        paired = paired_interval([first, second], resamples=RESAMPLES)
        unpaired = bootstrap((first, second), of_means, paired=False, n_resamples=RESAMPLES, method="percentile", rng=1)
        low, high = unpaired.confidence_interval
        missed += not low <= 0.1 <= high
        assert high - low > 3 * (paired.high - paired.low)
    assert missed == 0


@given(column=COLUMNS)
@settings(max_examples=30, deadline=None)
def test_identical_columns_give_exactly_zero(column):
    for method in ("BCa", "percentile"):
        found = paired_interval([column, column], method=method)
        assert (found.value, found.low, found.high) == (0, 0, 0)


def test_percentile_interval_against_quantiles_of_explicit_resamples():
    column = np.random.default_rng(5).lognormal(0, 1, 20)
    draws = np.random.default_rng(DEFAULT_SEED).integers(0, 20, (DEFAULT_RESAMPLES, 20))
    low, high = np.quantile(column[draws].mean(axis=1), [0.025, 0.975])
    found = percentile_interval(column)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.value == pytest.approx(float(mean(column)))
    assert paired_interval([column], mean).low > found.low, "BCa shifts towards the long tail and must not be meant"


def test_percentile_interval_of_equal_values_has_no_width():
    found = percentile_interval([1.0] * 16)
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_a_statistic_of_ones_own():
    column = [1.0, 2.0, 3.0, 10.0, 11.0]
    assert percentile_interval(column, np.median).value == 3


def test_the_seed_decides_and_is_repeatable():
    data = columns(np.random.default_rng(3))
    assert paired_interval(data) == paired_interval(data)
    assert paired_interval(data, seed=1) != paired_interval(data, seed=2)
    assert percentile_interval(data[0]) == percentile_interval(data[0])
    assert percentile_interval(data[0], seed=1) != percentile_interval(data[0], seed=2)


def test_log_shares_of_consecutive_steps_sum_to_one():
    a, b, c = np.array([4.0, 4.4]), np.array([2.0, 2.4]), np.array([1.0, 1.2])
    back = log_share(c, b, a)
    assert float(log_share(a, b, c) + back) == pytest.approx(1)


@pytest.mark.parametrize("data", [[[1.0], [2.0]], [[1.0, 2.0], [1.0]], [[1.0, float("nan")], [1.0, 2.0]]])
def test_columns_that_cannot_be_resampled_are_refused(data):
    with pytest.raises(ValueError, match="column"):
        paired_interval(data)


def test_statistics_of_constant_columns() -> None:
    two, one = np.full((3, 4), 2.0), np.ones((3, 4))
    assert relative_drop(two, one).tolist() == [0.5] * 3 and relative_drop(one, two).tolist() == [-1.0] * 3
    assert mean_difference(two, one).tolist() == [1.0] * 3
    assert log_share(4 * two, two, one / 2).tolist() == pytest.approx([0.5] * 3)


@pytest.mark.parametrize("pair", [([1.0] * 3, [0.7] * 3), ([3.0] * 7, [0.1] * 7)])
def test_columns_equal_but_for_a_rounding_are_intervals_too(pair: tuple[list[float], list[float]]) -> None:
    """Leaving out a unit gives one value, not quite the whole's: 0/0 in BCa, which scipy answers with NaN."""
    value = float(relative_drop(*map(np.asarray, pair)))
    found = paired_interval(pair, relative_drop)
    assert found.low <= found.value == value <= found.high
    assert found.high - found.low < 8 * np.finfo(float).eps


def test_bca_rejects_no_acceleration() -> None:
    """The wrong variant: scipy's answer as it comes. Of this statistic every leave-one-out value is the same."""
    data, rng = (np.array([0.0, 0.0, 1.0, 1.0]),), np.random.default_rng(0)

    def spread(column: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.where(column.shape[axis] < 4, 0.4, np.mean(column, axis=axis))

    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        assert np.isnan(bootstrap(data, spread, n_resamples=99, rng=rng).confidence_interval.low)
    found = paired_interval(data, spread)
    assert found.low < found.value < found.high
