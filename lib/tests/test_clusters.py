"""Clustered values: documented coverage reproduced over known truths, and what ignoring the clusters would do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import beta, binom, chi2, f_oneway, t

from lib.clusters import (
    autocorrelation_sample_size,
    cluster_bootstrap,
    cluster_interval,
    cluster_mean,
    cluster_share,
    design_effect,
    effective_sample_size,
    pooled_mean,
)
from lib.intervals import Estimate

DATASETS = 500
SURE = 1e-4  # one seeded simulation in 10,000 may fall outside by chance
ROUNDING = 1e-9  # sums of a few hundred doubles of order 1


def covers(found: list[Estimate], truth: float) -> int:
    return sum(interval.low - ROUNDING <= truth <= interval.high + ROUNDING for interval in found)


def agrees_with(covered: int, nominal: float, datasets: int = DATASETS) -> bool:
    """Whether this many of the datasets can come from coverage `nominal`, by the simulation's own binomial error."""
    low, high = binom.ppf([SURE / 2, 1 - SURE / 2], datasets, nominal)
    return bool(low <= covered <= high)


def lengths(rng: np.random.Generator, g: int) -> list[int]:
    return [int(n) for n in np.maximum(8, np.rint(64 * rng.lognormal(-0.18, 0.6, g)))]


def normal(rng: np.random.Generator, g: int, icc: float, sizes: list[int] | None = None) -> list[np.ndarray]:
    """Clusters of 64 around 0 with variance 1, of which `icc` lies between clusters."""
    return [np.sqrt(icc) * rng.normal() + np.sqrt(1 - icc) * rng.normal(size=n) for n in sizes or [64] * g]  # each (n,)


def zero_one(rng: np.random.Generator, sizes: list[int], share: float, icc: float) -> list[np.ndarray]:
    """Beta-binomial clusters: 0/1 values with this share of ones and this intra-cluster correlation."""
    weight = 1 / icc - 1
    return [(rng.random(n) < rng.beta(share * weight, (1 - share) * weight)).astype(float) for n in sizes]


def ignoring_clusters(data: list[np.ndarray]) -> Estimate:
    """The mistake: Student's interval of all values as if independent."""
    x = np.concatenate(data)
    half = float(t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return Estimate(float(x.mean()), float(x.mean()) - half, float(x.mean()) + half)


@pytest.mark.parametrize("g", [8, 16])
def test_cluster_mean_covers_as_documented_with_normal_equal_clusters(g):
    """Equal clusters of normal values: Student's t on the cluster means, which is exact."""
    rng = np.random.default_rng(g)
    data = [normal(rng, g, 0.1) for _ in range(DATASETS)]
    assert agrees_with(covers([cluster_mean(d) for d in data], 0.0), 0.95)
    # A design effect of 1 + 63 x 0.1 leaves 95 % intervals 1.96 / 2.7 standard errors: 53 %.
    assert agrees_with(covers([ignoring_clusters(d) for d in data], 0.0), 0.532), "ignoring clusters must under-cover"


@pytest.mark.parametrize(("g", "documented"), [(8, 0.910), (16, 0.918)])
def test_cluster_mean_covers_as_documented_on_shares(g, documented):
    rng = np.random.default_rng(g)
    found = [cluster_mean(zero_one(rng, lengths(rng, g), 0.9, 0.05)) for _ in range(DATASETS)]
    assert agrees_with(covers(found, 0.9), documented)


def test_percentile_bootstrap_of_eight_clusters_under_covers_as_documented():
    rng, datasets = np.random.default_rng(1), 300
    data = [normal(rng, 8, 0.1) for _ in range(datasets)]
    covered = covers([cluster_bootstrap([d], pooled_mean, resamples=500, seed=i) for i, d in enumerate(data)], 0.0)
    assert agrees_with(covered, 0.886, datasets)
    assert not agrees_with(covered, 0.95, datasets)


def test_equal_clusters_against_students_t_on_their_means():
    data = normal(np.random.default_rng(1), 10, 0.2)
    means = np.array([cluster.mean() for cluster in data])
    half = t.ppf(0.975, 9) * means.std(ddof=1) / np.sqrt(10)
    found = cluster_mean(data)
    assert (found.low, found.high) == (pytest.approx(means.mean() - half), pytest.approx(means.mean() + half))


def test_unequal_clusters_are_weighted_by_tokens():
    data = [[1.0], [0.0, 0.0, 0.0], [1.0, 1.0]]
    assert cluster_mean(data).value == pytest.approx(0.5)
    assert np.mean([np.mean(cluster) for cluster in data]) == pytest.approx(2 / 3), "the mean of means is not it"


def test_jackknife_interval_against_leaving_out_by_hand():
    rng = np.random.default_rng(2)
    first = [rng.normal(3, 1, n) for n in (5, 9, 4, 12)]
    second = [rng.normal(2, 1, len(cluster)) for cluster in first]
    keep = [[i for i in range(4) if i != c] for c in range(4)]

    def ratio(rows: list[int]) -> float:
        return float(np.concatenate([first[i] for i in rows]).mean() / np.concatenate([second[i] for i in rows]).mean())

    value = ratio([0, 1, 2, 3])
    half = t.ppf(0.975, 3) * np.sqrt(3 / 4 * sum((ratio(rows) - value) ** 2 for rows in keep))
    found = cluster_interval([first, second], lambda a, b: a / b)
    assert found.value == pytest.approx(value)
    assert (found.low, found.high) == (pytest.approx(value - half), pytest.approx(value + half))


def test_cluster_bootstrap_against_explicit_draws():
    rng = np.random.default_rng(3)
    data = [list(rng.normal(0, 1, n)) for n in (3, 8, 5, 9, 4)]
    draws = np.random.default_rng(7).integers(0, 5, (500, 5))
    drawn = [np.concatenate([data[i] for i in row]).mean() for row in draws]
    found = cluster_bootstrap([data], pooled_mean, resamples=500, seed=7)
    assert (found.low, found.high) == (
        pytest.approx(np.quantile(drawn, 0.025)),
        pytest.approx(np.quantile(drawn, 0.975)),
    )


CLUSTERED = st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6), min_size=3, max_size=7)


@given(data=CLUSTERED)
@settings(max_examples=25, deadline=None)
def test_identical_columns_give_exactly_zero(data):
    for rule in (cluster_interval, cluster_bootstrap):
        found = rule([data, data])
        assert (found.value, found.low, found.high) == (0, 0, 0)


@given(data=CLUSTERED, seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_order_of_clusters_and_of_their_values_does_not_matter(data, seed):
    rng = np.random.default_rng(seed)
    mixed = [list(rng.permutation(data[i])) for i in rng.permutation(len(data))]
    scale = 1e3  # the values' bound: rounding is relative to it
    found, again = cluster_mean(data), cluster_mean(mixed)
    for name in ("value", "low", "high"):
        assert getattr(again, name) == pytest.approx(getattr(found, name), rel=1e-6, abs=ROUNDING * scale)


def test_pairing_is_what_makes_a_difference_narrow():
    rng = np.random.default_rng(4)
    first = normal(rng, 12, 0.3)
    second = [cluster + 0.05 * rng.normal(size=64) - 0.02 for cluster in first]
    paired = cluster_interval([first, second])
    shuffled = cluster_interval([first, second[1:] + second[:1]])
    assert shuffled.high - shuffled.low > 10 * (paired.high - paired.low)
    differences = cluster_mean([a - b for a, b in zip(first, second, strict=True)])
    assert differences.low == pytest.approx(paired.low, abs=ROUNDING)


@pytest.mark.parametrize(("share", "icc", "least"), [(0.9, 0.05, 0.93), (0.98, 0.05, 0.92)])
def test_cluster_share_covers_better_than_the_mean(share, icc, least):
    """`least` is what 6,000 samples found, rounded down (95.4 and 92.0 % at equal lengths)."""
    rng = np.random.default_rng(5)
    data = [zero_one(rng, [64] * 8, share, icc) for _ in range(400)]
    ours, plain = (covers([rule(d) for d in data], share) for rule in (cluster_share, cluster_mean))
    assert ours >= binom.ppf(SURE, 400, least)
    assert plain < ours


def test_cluster_share_against_clopper_pearson_on_single_values():
    """Clusters of one: the jackknife's variance is n/(n-1) times the binomial's, and so much smaller are the trials."""
    found = cluster_share([[1.0]] * 13 + [[0.0]] * 3)
    trials = 15.0  # 16 values, variance estimated with 15
    ones, zeros = trials * 13 / 16, trials * 3 / 16
    assert found.low == pytest.approx(beta.ppf(0.025, ones, zeros + 1))
    assert found.high == pytest.approx(beta.ppf(0.975, ones + 1, zeros))


def test_cluster_share_where_all_are_alike_counts_clusters():
    found = cluster_share([[1.0] * 9] * 16)
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(0.025 ** (1 / 16))
    assert cluster_mean([[1.0] * 9] * 16).low == 1, "the plain interval would be certain"


def test_design_effect_against_variance_of_the_mean_by_hand():
    """Equal clusters: with scipy's F, the correlation is (F - 1) / (F + n - 1) and the effect 1 + (n - 1) of it."""
    data = normal(np.random.default_rng(6), 9, 0.3, [12] * 9)
    ratio = float(f_oneway(*data).statistic)
    assert design_effect(data) == pytest.approx(1 + 11 * (ratio - 1) / (ratio + 11))
    assert effective_sample_size(data).value == pytest.approx(108 / design_effect(data))


def test_design_effect_finds_the_correlation_of_many_unequal_clusters():
    rng = np.random.default_rng(7)
    sizes = lengths(rng, 3000)
    weighted = sum(n * n for n in sizes) / sum(sizes)
    expected = 1 + (weighted - 1) * 0.2
    error = np.sqrt(2 / 3000)  # of a variance between 3,000 clusters; unequal lengths double it at most
    assert design_effect(normal(rng, 3000, 0.2, sizes)) == pytest.approx(expected, rel=2 * 4 * error)


@pytest.mark.parametrize(("icc", "least"), [(0.0, 0.97), (0.05, 0.95), (0.3, 0.95)])
def test_effective_sample_size_covers_for_normal_values(icc, least):
    rng, datasets = np.random.default_rng(8), 200
    found = [effective_sample_size(normal(rng, 16, icc, [9] * 16)) for _ in range(datasets)]
    truth = 144 / (1 + 8 * icc)
    assert covers(found, truth) >= binom.ppf(SURE, datasets, least)
    assert all(16 - ROUNDING <= interval.low <= interval.high <= 144 for interval in found)
    assert icc < 0.3 or covers(found, 144.0) < 0.1 * datasets, "calling the 144 independent must be found out"


def test_effective_sample_size_covers_for_zero_one_values_and_chi_square_does_not_when_lengths_differ():
    """Against the simpler rule: variance of the mean over the independent one, times chi-square with G - 1."""
    rng, datasets = np.random.default_rng(9), 200
    sizes = [4, 5, 5, 6, 6, 7, 8, 8, 9, 9, 10, 12, 15, 20, 30, 55]
    tokens, weighted = sum(sizes), sum(n * n for n in sizes) / sum(sizes)
    truth = tokens / (1 + (weighted - 1) * 0.3)
    data = [zero_one(rng, sizes, 0.7, 0.3) for _ in range(datasets)]
    assert covers([effective_sample_size(d) for d in data], truth) >= binom.ppf(SURE, datasets, 0.93)
    assert covers([by_chi_square(d) for d in data], truth) < binom.ppf(SURE, datasets, 0.93)


def by_chi_square(data: list[np.ndarray]) -> Estimate:
    x, g = np.concatenate(data), len(data)
    mean = x.mean()
    robust = g / (g - 1) * sum((cluster.sum() - mean * len(cluster)) ** 2 for cluster in data) / len(x) ** 2
    value = min(x.var() / len(x) / robust * len(x), len(x))
    low, high = (value * chi2.ppf(q, g - 1) / (g - 1) for q in (0.025, 0.975))
    return Estimate(float(value), float(low), float(max(high, value)))


def test_effective_sample_size_at_the_extremes():
    assert effective_sample_size([[float(c)] * 5 for c in range(6)]).value == pytest.approx(6), "one value per cluster"
    assert effective_sample_size([[1.0]] * 4) == Estimate(4, 4, 4)
    opposed = effective_sample_size([[0.0, 1.0]] * 8)
    assert opposed.value == opposed.high == 16, "a negative correlation is clipped to n"
    assert design_effect([[0.0, 1.0]] * 8) == 0


@pytest.mark.parametrize("ones", [0, 1])
def test_values_that_are_all_alike_or_nearly_say_nothing(ones):
    data = [[1.0] * 9 for _ in range(16)]
    data[3][:ones] = [0.0] * ones
    found = effective_sample_size(data)
    assert (found.low, found.high) == (16, 144)


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    """x[i] = phi x[i - 1] + noise, with variance 1 after a start that is forgotten."""
    return lfilter([np.sqrt(1 - phi**2)], [1, -phi], rng.normal(size=n + 200))[200:]


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_autocorrelation_sample_size_against_the_autoregressive_formula(phi):
    n = 20_000
    found = [autocorrelation_sample_size(autoregressive(np.random.default_rng(i), n, phi)) for i in range(3)]
    # The sum runs to a few times the correlation length tau; its relative error is about 2 sqrt(5 tau / n), here 8 %.
    assert np.mean(found) == pytest.approx(n * (1 - phi) / (1 + phi), rel=0.1)
    assert max(found) <= n


def test_autocorrelation_sample_size_against_a_plain_loop():
    x = autoregressive(np.random.default_rng(3), 201, 0.6)
    d = x - x.mean()
    gamma = [sum(d[i] * d[i + k] for i in range(len(d) - k)) for k in range(len(d))] + [0.0]
    total, m = 0.0, 0
    while gamma[2 * m] + gamma[2 * m + 1] > 0:
        total, m = total + gamma[2 * m] + gamma[2 * m + 1], m + 1
    assert autocorrelation_sample_size(x) == pytest.approx(201 / (2 * total / gamma[0] - 1))
    everything = 2 * sum(gamma) / gamma[0] - 1
    assert abs(everything) < ROUNDING, "summing every lag gives zero by construction: the sum must be cut"


def test_autocorrelation_sample_size_at_the_extremes():
    assert autocorrelation_sample_size([1.0, 1.0, 1.0]) == 1
    assert autocorrelation_sample_size([5.0]) == 1
    assert autocorrelation_sample_size([0.0, 1.0] * 20) == 40, "anti-correlation is clipped to n"


@pytest.mark.parametrize("data", [[[1.0, 2.0]], [[1.0], []], [[1.0], [float("nan")]], [[1.0], [2.0, float("inf")]]])
@pytest.mark.parametrize("rule", [cluster_mean, cluster_share, design_effect, effective_sample_size])
def test_what_is_no_sample_of_clusters_is_refused(rule, data):
    with pytest.raises(ValueError, match="cluster"):
        rule(data)


def test_misuse_is_refused():
    with pytest.raises(ValueError, match="same lengths"):
        cluster_interval([[[1.0], [2.0, 3.0]], [[1.0, 2.0], [3.0]]])
    with pytest.raises(ValueError, match="at least three"):
        effective_sample_size([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match="0 and 1"):
        cluster_share([[0.5], [1.0]])
    with pytest.raises(ValueError, match="finite"):
        cluster_interval([[[1.0], [2.0]]], lambda a: np.full_like(a, np.nan))
    for series in ([], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="series"):
            autocorrelation_sample_size(series)
