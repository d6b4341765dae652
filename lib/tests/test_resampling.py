"""The paired bootstrap: coverage over known truths, degenerate columns, and the unpaired mistake."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, bootstrap, norm

from lib.resampling import log_share, mean_difference, paired_interval, relative_drop, wilson_interval

DATASETS, UNITS, RESAMPLES = 150, 60, 400
# An interval that covers 95 % misses up to this many of the datasets in all but one of 10,000 repetitions.
MOST_MISSES = int(binom.ppf(1 - 1e-4, DATASETS, 0.05)) + 1


def columns(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Skewed columns that share most of their spread; the true mean difference is 0.1, the true ratio of means 0.9."""
    shared = rng.lognormal(0, 0.5, UNITS)
    shared_mean = np.exp(0.125)
    return shared / shared_mean, 0.9 * shared / shared_mean * rng.lognormal(-0.005, 0.1, UNITS)


def of_means(first: np.ndarray, second: np.ndarray, axis: int = -1) -> np.ndarray:
    """The same value as mean_difference, for columns that are not paired."""
    return np.asarray(first.mean(axis=axis) - second.mean(axis=axis))


@pytest.mark.parametrize(("statistic", "truth"), [(mean_difference, 0.1), (relative_drop, 0.1)])
def test_coverage_over_known_truth(statistic: object, truth: float) -> None:
    rng = np.random.default_rng(7)
    found = [paired_interval(columns(rng), statistic, resamples=RESAMPLES) for _ in range(DATASETS)]  # type: ignore[arg-type]
    missed = sum(not interval.contains(truth) for interval in found)
    assert 0 < missed <= MOST_MISSES


def test_paired_interval_rejects_unpaired_resampling() -> None:
    first, second = columns(np.random.default_rng(1))
    paired = paired_interval([first, second])
    low, high = bootstrap((first, second), of_means, paired=False, rng=np.random.default_rng(1)).confidence_interval
    assert high - low > 3 * (paired.high - paired.low)


def test_identical_columns_give_exactly_zero() -> None:
    column = [0.1, 0.7, 0.3]
    found = paired_interval([column, column])
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_the_seed_decides_and_is_repeatable() -> None:
    data = columns(np.random.default_rng(3))
    assert paired_interval(data) == paired_interval(data)
    assert paired_interval(data, seed=1) != paired_interval(data, seed=2)


def test_log_shares_of_consecutive_steps_sum_to_one() -> None:
    a, b, c = np.array([4.0, 4.4]), np.array([2.0, 2.4]), np.array([1.0, 1.2])
    back = log_share(c, b, a)
    assert float(log_share(a, b, c) + back) == pytest.approx(1)


@pytest.mark.parametrize("data", [[[1.0], [2.0]], [[1.0, 2.0], [1.0]], [[1.0, float("nan")], [1.0, 2.0]]])
def test_columns_that_cannot_be_resampled_are_refused(data: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="column"):
        paired_interval(data)


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (1, 2)])
def test_wilson_interval_against_its_closed_form(hits, trials):
    z, p = norm.ppf(0.975), hits / trials
    centre = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * np.sqrt(p * (1 - p) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    interval = wilson_interval(hits, trials)
    assert interval.low == pytest.approx(max(0, centre - half), abs=1e-12)
    assert interval.high == pytest.approx(min(1, centre + half), abs=1e-12)
    wald = z * np.sqrt(p * (1 - p) / trials)
    assert hits not in {0, trials} or wald == 0 < interval.high - interval.low, "Wald's has no width at the ends"
