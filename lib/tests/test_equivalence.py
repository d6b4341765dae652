"""Equivalence intervals and detectable effects, against scipy's one-sided tests and against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, chi, norm, t, ttest_1samp

from lib.equivalence import equivalence_interval, minimum_detectable_effect

SAMPLES = 20_000
# Double arithmetic over a dozen values: relative error well under 1e-9 in a t quantile or a power.
NUMERICAL = 1e-9
QUADRATURE = 1e-6  # quad's own default accuracy is 1.5e-8; scipy's noncentral F is a truncated series


@given(values=st.lists(st.floats(-1, 1), min_size=3, max_size=12), margin=st.floats(0.01, 2))
@settings(max_examples=60, deadline=None)
def test_interval_inside_the_margin_against_two_one_sided_tests(values, margin):
    if np.ptp(values) < 1e-3:
        return  # scipy's t is 0/0 there
    found = equivalence_interval(values)
    above = ttest_1samp(values, -margin, alternative="greater").pvalue
    below = ttest_1samp(values, margin, alternative="less").pvalue
    if abs(max(above, below) - 0.05) > NUMERICAL:
        assert (-margin < found.low and found.high < margin) == (max(above, below) < 0.05)


def test_false_equivalence_is_rare_and_the_wrong_interval_makes_it_common():
    """Truth on the margin: 5 % are wrongly called equivalent; by "no significant difference" nearly all are."""
    rng, margin, repeats = np.random.default_rng(3), 0.8, 2000
    samples = rng.normal(margin, 1, (repeats, 12))
    intervals = [equivalence_interval(sample) for sample in samples]
    wrong = sum(-margin < i.low and i.high < margin for i in intervals)
    assert wrong <= binom.ppf(1 - 1e-4, repeats, 0.05)
    small = rng.normal(margin, 1, (repeats, 4))
    not_significant = np.mean(ttest_1samp(small, 0, axis=1).pvalue > 0.05)
    assert not_significant > 0.5, "absence of evidence is no test of equivalence"


def test_clusters_are_the_pieces_that_count():
    rng = np.random.default_rng(1)
    clusters = [list(rng.normal(centre, 0.1, 50)) for centre in rng.normal(0, 1, 8)]
    together = equivalence_interval([value for cluster in clusters for value in cluster])
    by_cluster = equivalence_interval(clusters)
    assert by_cluster.value == pytest.approx(together.value)
    assert by_cluster.high - by_cluster.low > 4 * (together.high - together.low)


def test_identical_columns_are_equivalent_at_any_margin():
    found = equivalence_interval([0.0] * 5)
    assert (found.value, found.low, found.high) == (0, 0, 0)


@pytest.mark.parametrize("df", [1, 7, 15, 500])
@pytest.mark.parametrize("power", [0.1, 0.8, 0.99])
def test_detectable_effect_against_integration_over_the_estimated_spread(df, power):
    """Both tails of a normal, given the estimated standard error s, averaged over the distribution of s."""
    critical = t.ppf(0.975, df)
    effect = minimum_detectable_effect(1.0, df, power)

    def rejected(root: float) -> float:
        s = root / np.sqrt(df)
        return float((norm.sf(critical * s - effect) + norm.cdf(-critical * s - effect)) * chi.pdf(root, df))

    spread = chi.ppf([1e-12, 1 - 1e-12], df)
    assert quad(rejected, *spread)[0] == pytest.approx(power, abs=QUADRATURE)


def test_detectable_effect_is_found_that_often_in_simulation():
    n = 8
    effect = minimum_detectable_effect(1 / np.sqrt(n), n - 1)  # the true standard error; each test estimates its own
    samples = np.random.default_rng(4).normal(effect, 1, (SAMPLES, n))
    found = int(np.sum(ttest_1samp(samples, 0, axis=1).pvalue < 0.05))
    assert binom.ppf(5e-5, SAMPLES, 0.8) <= found <= binom.ppf(1 - 5e-5, SAMPLES, 0.8)


def test_detectable_effect_rejects_normal_quantiles_at_few_degrees_of_freedom():
    assert minimum_detectable_effect(1.0, 7) > 1.15 * 2.8016  # z(0.975) + z(0.8), as if the spread were known
    assert minimum_detectable_effect(1.0, 100_000) == pytest.approx(2.8016, rel=1e-4)


def test_detectable_effect_scales_with_the_standard_error():
    assert minimum_detectable_effect(0.0, 7) == 0
    assert minimum_detectable_effect(0.5, 7) == pytest.approx(0.5 * minimum_detectable_effect(1.0, 7))


@pytest.mark.parametrize("arguments", [(-1, 7), (float("nan"), 7), (1, 0), (1, float("nan")), (1, 7, 0.04), (1, 7, 1)])
def test_what_has_no_answer_is_refused(arguments):
    with pytest.raises(ValueError, match="needs"):
        minimum_detectable_effect(*arguments)


@pytest.mark.parametrize("values", [[], [1.0], [[1.0, 2.0]], [1.0, float("nan")], [[1.0], []]])
def test_too_few_pieces_and_nan_are_refused(values):
    with pytest.raises(ValueError, match="cluster"):
        equivalence_interval(values)
