"""Intervals of a middle, held against integer arithmetic, scipy's quantile test, Student's t and simulated noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, norm, quantile_test, ttest_1samp, wilcoxon

from lib.timing.intervals import (
    CONFIDENCE,
    FEWEST,
    fewest_ordered,
    middle_interval,
    ranks,
    ratio_interval,
    signed_rank_cut,
)

SIZES = (9, 14, 21, 31)
FEW = (4, 6, 8)
TRIALS = 40_000
FEW_TRIALS = 1500  # each a call of the instrument itself
SIGMAS = 4  # of a simulated share; seeded, so it passes or fails for good
# Two values apart by one rounding: sqrt(x²) and exp(log x) are right to a few units of 2^-53, logs reach some 10.
ROUNDING = 100 * 2.0**-53

times = st.floats(min_value=1e-6, max_value=1e4)
Values = NDArray[np.float64]


def covering(n: int, low: int) -> float:
    """Chance that the median lies between order statistics low and n - 1 - low: heads between them, in integers."""
    return 1 - sum(2 * math.comb(n, heads) for heads in range(low + 1)) / 2**n


@pytest.mark.parametrize("confidence", [0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999])
def test_ranks_against_binomial_coefficients(confidence: float) -> None:
    """They cover enough, and the next pair inwards does not: the shortest interval that is honest."""
    for n in range(1, 80):
        pair = ranks(n, confidence)
        if pair is None:
            assert covering(n, 0) < confidence
        else:
            low, high = pair
            assert low + high == n - 1 and low < high
            assert covering(n, low) >= confidence
            assert low + 1 >= high or covering(n, low + 1) < confidence


@pytest.mark.parametrize("n", SIZES)
def test_ends_against_scipys_quantile_test(n: int) -> None:
    values = np.random.default_rng(n).lognormal(size=n)
    theirs = quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    ours = middle_interval(values.tolist())
    assert (ours.low, ours.high) == (theirs.low, theirs.high)
    assert ours.value == pytest.approx(float(np.median(values)), rel=0) or n % 2 == 0


def test_fewest_is_where_order_statistics_begin() -> None:
    assert fewest_ordered() == 9
    for confidence in (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1 - 2.0**-9):
        n = fewest_ordered(confidence)
        assert ranks(n, confidence) is not None and ranks(n - 1, confidence) is None


def lognormal(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Values, float]:
    return rng.lognormal(0, 1, shape), 1.0


def pareto(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Values, float]:
    """No variance at all: the tail falls with power 1.2."""
    return 1 + rng.pareto(1.2, shape), 2 ** (1 / 1.2)


def two_humped(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Values, float]:
    """Two in five take three times as long; the median is the first hump's quantile at 0.5 / 0.6."""
    slow = rng.random(shape) < 0.4
    return rng.lognormal(0, 0.05, shape) * np.where(slow, 3, 1), math.exp(0.05 * norm.ppf(0.5 / 0.6))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("noise", [lognormal, pareto, two_humped])
def test_coverage_by_simulation_against_the_binomial(noise, n: int) -> None:  # type: ignore[no-untyped-def]
    """Whatever the shape of the noise, the median is covered as often as the coefficients say, and that is enough."""
    values, median = noise(np.random.default_rng(n), (TRIALS, n))
    low, high = ranks(n) or (0, 0)
    ordered = np.sort(values, axis=1)
    covered = np.mean((ordered[:, low] <= median) & (median <= ordered[:, high]))
    expected = float(binom.cdf(high, n, 0.5) - binom.cdf(low, n, 0.5))
    assert abs(covered - expected) <= SIGMAS * math.sqrt(expected * (1 - expected) / TRIALS)
    assert covered >= CONFIDENCE - SIGMAS * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / TRIALS)


def test_a_percentile_bootstrap_of_nine_would_undercover() -> None:
    """The tempting wrong variant at 99.5 %: its ends are the second values from outside, and cover 96.1 %."""
    rng, trials = np.random.default_rng(3), 1000
    values, median = lognormal(rng, (trials, 9))
    picks = rng.integers(0, 9, (trials, 1000, 9))
    medians = np.median(np.take_along_axis(values[:, None], picks, axis=2), axis=2)
    ends = np.quantile(medians, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=1, method="inverted_cdf")
    covered = float(np.mean((ends[0] <= median) & (median <= ends[1])))
    assert covered < CONFIDENCE - SIGMAS * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / trials)
    assert abs(covered - covering(9, 1)) < SIGMAS * math.sqrt(0.04 * 0.96 / trials)
    ordered = np.sort(values, axis=1)
    ours = float(np.mean((ordered[:, 0] <= median) & (median <= ordered[:, -1])))
    assert ours >= CONFIDENCE - SIGMAS * math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / trials)


@pytest.mark.parametrize("n", SIZES)
def test_ratio_ends_against_scipys_signed_rank_test(n: int) -> None:
    """The interval holds exactly the middles that the exact test at this confidence does not reject."""
    ratios = np.random.default_rng(n).lognormal(0.1, 0.3, n)
    ours = ratio_interval(ratios.tolist())
    for end, inwards in ((ours.low, 1.0), (ours.high, -1.0)):
        kept, rejected = (wilcoxon(np.log(ratios / end) - side * inwards * 1e-9, method="exact") for side in (1, -1))
        assert kept.pvalue > 1 - CONFIDENCE >= rejected.pvalue


def test_signed_ranks_begin_where_order_statistics_do() -> None:
    assert [signed_rank_cut(n) is not None for n in (8, 9)] == [False, True] and signed_rank_cut(9) == 0


@pytest.mark.parametrize("n", [9, 14])
@pytest.mark.parametrize("noise", [lognormal, pareto, two_humped])
def test_ratios_of_like_noise_are_covered_whatever_its_shape(noise, n: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(n)
    ratios = noise(rng, (FEW_TRIALS, n))[0] / noise(rng, (FEW_TRIALS, n))[0]
    missed = 1 - float(np.mean([ratio_interval(row).contains(1) for row in ratios.tolist()]))
    nominal = 1 - CONFIDENCE
    assert missed <= nominal + SIGMAS * math.sqrt(nominal * (1 - nominal) / FEW_TRIALS)


def test_one_cut_further_in_would_not_cover() -> None:
    """The wrong variant, of nine ratios: the second pairwise mean from either end covers 99.2 %, not 99.5."""
    assert 2 * 2 / 2**9 > 1 - CONFIDENCE >= 2 * 1 / 2**9


def test_ratios_of_unlike_noise_are_covered_less() -> None:
    """The price, on record: a hump that only one of the two meets makes the middle of ratios another one."""
    rng = np.random.default_rng(1)
    ratios = two_humped(rng, (FEW_TRIALS, 14))[0] / lognormal(rng, (FEW_TRIALS, 14))[0] ** 0.05
    median = float(np.median(ratios))
    assert 1 - float(np.mean([ratio_interval(row).contains(median) for row in ratios.tolist()])) > 2 * (1 - CONFIDENCE)


@pytest.mark.parametrize("middle", [middle_interval, ratio_interval])
@pytest.mark.parametrize("n", FEW)
def test_few_values_against_scipys_t_interval(middle, n: int) -> None:  # type: ignore[no-untyped-def]
    values = np.random.default_rng(n).lognormal(-3, 0.2, n)
    theirs = ttest_1samp(np.log(values), 0).confidence_interval(CONFIDENCE)
    ours = middle(values.tolist())
    assert (math.log(ours.low), math.log(ours.high)) == pytest.approx((theirs.low, theirs.high), abs=10 * ROUNDING)
    assert math.log(ours.value) == pytest.approx(float(np.log(values).mean()), abs=10 * ROUNDING)


def miss_of_few(n: int, noise, trials: int = FEW_TRIALS) -> float:  # type: ignore[no-untyped-def]
    values, median = noise(np.random.default_rng(n), (trials, n))
    return 1 - float(np.mean([middle_interval(row).contains(median) for row in values.tolist()]))


@pytest.mark.parametrize("n", FEW)
def test_few_values_of_lognormal_noise_are_covered(n: int) -> None:
    nominal = 1 - CONFIDENCE
    assert abs(miss_of_few(n, lognormal) - nominal) <= SIGMAS * math.sqrt(nominal * (1 - nominal) / FEW_TRIALS)


def test_few_values_are_not_covered_whatever_the_noise() -> None:
    """The price of deciding early, on record: t misses the median of lopsided noise more often than it says."""
    assert miss_of_few(4, two_humped) > 2 * (1 - CONFIDENCE)
    assert miss_of_few(9, two_humped) < 1.5 * (1 - CONFIDENCE)


@pytest.mark.parametrize("n", range(1, FEWEST))
def test_too_few_values_say_nothing(n: int) -> None:
    for interval in (middle_interval([0.3] * n), ratio_interval([0.3] * n)):
        assert (interval.low, interval.high) == (0, math.inf)


@pytest.mark.parametrize("middle", [middle_interval, ratio_interval])
@given(values=st.lists(times, min_size=FEWEST, max_size=40))
def test_interval_of_the_inverses_is_the_inverse_interval(middle, values: list[float]) -> None:  # type: ignore[no-untyped-def]
    """a/b and b/a must tell the same story, or the choice of the denominator would decide."""
    ours, inverse = middle(values), middle([1 / value for value in values])
    for a, b in ((ours.value, inverse.value), (ours.low, inverse.high), (ours.high, inverse.low)):
        assert math.log(a) == pytest.approx(-math.log(b), abs=100 * ROUNDING)


def test_a_plain_mean_would_not_be_invariant() -> None:
    values = [1.0, 1.0, 1.0, 8.0]
    assert np.mean(values) * np.mean(1 / np.array(values)) > 1.5
    assert middle_interval(values).value * middle_interval([1 / v for v in values]).value == pytest.approx(1)


@given(times, st.integers(1, 40))
def test_equal_values_keep_their_value_inside(value: float, n: int) -> None:
    """A coarse clock gives the same number again and again: no rounding may push it out of its own interval."""
    for interval in (middle_interval([value] * n), ratio_interval([value] * n)):
        assert interval.value == pytest.approx(value, rel=ROUNDING)


@pytest.mark.parametrize("wrong", [[], [0.0], [-1.0] * 9, [1.0] * 8 + [math.nan], [1.0] * 3 + [math.inf]])
def test_what_is_no_time_is_refused(wrong: list[float]) -> None:
    for middle in (middle_interval, ratio_interval):
        with pytest.raises(ValueError, match="positive finite"):
            middle(wrong)
