"""Proportions: intervals against closed forms and by exact coverage, McNemar and its power by hand enumeration."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, multinomial, norm

from lib.coverage import binomial_coverage
from lib.intervals import Estimate
from lib.proportions import (
    detectable_difference,
    exact_interval,
    fewest_discordant,
    mcnemar_exact,
    paired_difference_interval,
    power_mcnemar,
    wilson_interval,
)

Z = float(norm.ppf(0.975))
# Root finding and sums over a few hundred binomial terms in doubles stay well inside this.
NUMERICAL = 1e-10
# Tango's interval is approximate: by enumeration at n=16 its coverage falls to 92.3 % at shares of a half each.
LEAST_TANGO_AT_16, MEAN_TANGO_AT_16 = 0.923, (0.95, 0.97)
# Pairs of true discordant shares, from hardly any to all.
TRUTHS = [(x, y) for x, y in product(np.linspace(0, 0.5, 6), repeat=2) if x + y <= 1]


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (1, 2)])
def test_wilson_interval_against_its_closed_form(hits, trials):
    p = hits / trials
    centre = (p + Z * Z / (2 * trials)) / (1 + Z * Z / trials)
    half = Z * np.sqrt(p * (1 - p) / trials + Z * Z / (4 * trials**2)) / (1 + Z * Z / trials)
    interval = wilson_interval(hits, trials)
    assert interval.low == pytest.approx(max(0, centre - half), abs=1e-12)
    assert interval.high == pytest.approx(min(1, centre + half), abs=1e-12)
    wald = Z * np.sqrt(p * (1 - p) / trials)
    assert hits not in {0, trials} or wald == 0 < interval.high - interval.low, "Wald's has no width at the ends"


@pytest.mark.parametrize(("hits", "trials"), [(0, 16), (1, 16), (13, 16), (16, 16), (142, 144)])
def test_exact_interval_against_beta_quantiles(hits, trials):
    interval = exact_interval(hits, trials)
    low = 0 if hits == 0 else beta.ppf(0.025, hits, trials - hits + 1)
    high = 1 if hits == trials else beta.ppf(0.975, hits + 1, trials - hits)
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))
    assert hits in {0, trials} or wilson_interval(hits, trials).low > interval.low


def test_exact_interval_rejects_one_sided_levels():
    """The whole 5 % on one side would be too narrow: it covers less than promised somewhere."""

    @cache
    def promised(hits: int, trials: int) -> Estimate:
        return exact_interval(hits, trials)

    @cache
    def too_narrow(hits: int, trials: int) -> Estimate:
        return exact_interval(hits, trials, confidence=0.90)

    truths = np.linspace(0.05, 0.95, 37)
    assert min(binomial_coverage(promised, 16, p) for p in truths) >= 0.95
    assert min(binomial_coverage(too_narrow, 16, p) for p in truths) < 0.95


@given(first=st.integers(0, 12), second=st.integers(0, 12))
def test_mcnemar_against_enumeration_of_every_outcome(first, second):
    """Every assignment of the discordant pairs to a side is equally likely: those as uneven as this one or more."""
    n = first + second
    extreme = sum(comb(n, k) for k in range(n + 1) if abs(2 * k - n) >= abs(first - second))
    assert mcnemar_exact(first, second) == pytest.approx(extreme / 2**n, rel=NUMERICAL)
    assert mcnemar_exact(first, second) == pytest.approx(mcnemar_exact(second, first), rel=NUMERICAL)


def test_mcnemar_rejects_concordant_counts():
    """13 against 12 of 16 right: the counts of right answers look like 25 coin throws and are not what is tested."""
    assert mcnemar_exact(1, 0) == 1
    assert mcnemar_exact(6, 0) == pytest.approx(2 / 64)
    assert mcnemar_exact(16, 10) != pytest.approx(mcnemar_exact(6, 0), rel=0.1), (
        "ten concordant pairs must not be added"
    )


def test_one_item_of_sixteen_is_nothing():
    assert mcnemar_exact(0, 0) == mcnemar_exact(1, 0) == mcnemar_exact(4, 3) == 1


@pytest.mark.parametrize(("alpha", "pairs"), [(0.05, 6), (0.01, 8), (0.5, 2), (1.0, 0)])
def test_fewest_discordant_pairs_by_powers_of_two(alpha, pairs):
    assert fewest_discordant(alpha) == pairs
    assert pairs == 0 or 2 * 0.5**pairs <= alpha < 2 * 0.5 ** (pairs - 1)


def tango_by_brute_force(first: int, second: int, n: int) -> tuple[float, float]:
    """Every delta of a fine grid that the score test keeps, its variance by maximising the likelihood on a grid."""
    shares = np.linspace(1e-9, 1 - 1e-9, 20_001)
    kept = []
    for delta in np.linspace(-0.99, 0.99, 397):
        second_share = shares[(shares + delta > 0) & (2 * shares + delta < 1)]
        rest = 1 - delta - 2 * second_share
        likelihood = (
            first * np.log(second_share + delta) + second * np.log(second_share) + (n - first - second) * np.log(rest)
        )
        best = second_share[np.argmax(likelihood)]
        variance = n * (2 * best + delta - delta**2)
        if abs(first - second - n * delta) <= Z * np.sqrt(variance):
            kept.append(delta)
    return min(kept), max(kept)


@pytest.mark.parametrize(("first", "second", "n"), [(3, 1, 16), (0, 4, 16), (9, 2, 40)])
def test_tango_interval_against_brute_force(first, second, n):
    found = paired_difference_interval(n - first - second, first, second, 0)
    low, high = tango_by_brute_force(first, second, n)
    step = 0.005 + 1e-4  # the grid of differences, and of shares under it
    assert (found.low, found.high) == (pytest.approx(low, abs=step), pytest.approx(high, abs=step))


def coverage_of_difference(interval, n: int) -> list[float]:
    """Exact coverage over TRUTHS; interval(first_only, second_only) -> (low, high)."""
    counts = np.array([(b, c) for b in range(n + 1) for c in range(n + 1 - b)])
    ends = np.array([interval(int(b), int(c)) for b, c in counts])
    outcomes = np.column_stack([counts, n - counts.sum(axis=1)])
    found = []
    for x, y in TRUTHS:
        weight = multinomial.pmf(outcomes, n, [x, y, max(1 - x - y, 0.0)])
        inside = (ends[:, 0] <= x - y + NUMERICAL) & (ends[:, 1] >= x - y - NUMERICAL)
        found.append(float(weight[inside].sum()))
    return found


def tango(first: int, second: int, n: int = 16) -> tuple[float, float]:
    found = paired_difference_interval(n - first - second, first, second, 0)
    return float(found.low), float(found.high)


def wald(first: int, second: int, n: int = 16) -> tuple[float, float]:
    difference = (first - second) / n
    half = Z * np.sqrt(first + second - n * difference**2) / n
    return difference - float(half), difference + float(half)


def test_tango_interval_covers_by_enumeration():
    found = coverage_of_difference(tango, 16)
    assert min(found) > LEAST_TANGO_AT_16
    assert MEAN_TANGO_AT_16[0] < np.mean(found) < MEAN_TANGO_AT_16[1]


def test_tango_interval_rejects_wald():
    assert min(coverage_of_difference(wald, 16)) < 0.85


def as_if_unpaired(both: int, first_only: int, second_only: int, neither: int) -> Estimate:
    """Newcombe's interval for the difference of two independent proportions (1998, method 10)."""
    n = both + first_only + second_only + neither
    one, two = wilson_interval(both + first_only, n), wilson_interval(both + second_only, n)
    difference = one.value - two.value
    below = np.hypot(one.value - one.low, two.high - two.value)
    above = np.hypot(one.high - one.value, two.value - two.low)
    return Estimate(difference, difference - float(below), difference + float(above))


def test_unpaired_interval_over_covers_where_pairs_mostly_agree():
    """Half of the items right, one in twenty discordant each way: as if unpaired, 400 samples never miss the truth."""
    shares = (0.45, 0.05, 0.05, 0.45)  # both, first only, second only, neither
    counts = np.random.default_rng(8).multinomial(40, shares, 400).tolist()
    paired = [paired_difference_interval(*row) for row in counts]
    apart = [as_if_unpaired(*row) for row in counts]
    assert all(interval.contains(0) for interval in apart)
    missed = sum(not interval.contains(0) for interval in paired)
    assert 0 < missed <= binom.ppf(1 - 1e-4, 400, 0.05)
    widths = [np.mean([interval.high - interval.low for interval in rule]) for rule in (apart, paired)]
    # Variances 2 x 1/4 and 1/10 make the widths differ by the root of 5 at large n; at 40 by somewhat less.
    assert 1.5 < widths[0] / widths[1] < np.sqrt(5)


def test_columns_that_agree_everywhere_still_leave_room():
    found = paired_difference_interval(13, 0, 0, 3)
    assert found.value == 0
    assert found.high == pytest.approx(Z**2 / (16 + Z**2), abs=NUMERICAL)
    assert found.low == pytest.approx(-found.high, abs=NUMERICAL)


@given(counts=st.tuples(*[st.integers(0, 30)] * 4).filter(any))
@settings(max_examples=60, deadline=None)
def test_swapping_the_columns_mirrors_the_interval(counts):
    both, first, second, neither = counts
    found, back = paired_difference_interval(*counts), paired_difference_interval(both, second, first, neither)
    assert (found.low, found.high) == (pytest.approx(-back.high, abs=1e-9), pytest.approx(-back.low, abs=1e-9))
    assert -1 <= found.low <= found.high <= 1


def test_more_confidence_is_wider():
    assert paired_difference_interval(9, 4, 1, 2, 0.9).within(paired_difference_interval(9, 4, 1, 2, 0.99))


def power_by_hand(n: int, x: float, y: float, alpha: float) -> float:
    outcomes = [(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)]
    rejected = [o for o in outcomes if mcnemar_exact(o[0], o[1]) <= alpha]
    return float(sum(multinomial.pmf(o, n, [x, y, 1 - x - y]) for o in rejected))


@pytest.mark.parametrize(("x", "y"), [(0.3, 0.1), (0.5, 0.0), (0.2, 0.2), (0.6, 0.4)])
def test_power_against_enumeration_of_the_trinomial(x, y):
    assert power_mcnemar(16, x, y) == pytest.approx(power_by_hand(16, x, y, 0.05), abs=NUMERICAL)


def test_power_rejects_the_count_of_pairs_as_trials():
    """A sign test on all n pairs would find a difference of 0.2 far more often than the discordant ones can."""
    assert power_mcnemar(16, 0.2, 0.0) < 0.1
    assert power_mcnemar(16, 0.0, 0.0) == 0
    assert power_mcnemar(16, 1.0, 0.0) == pytest.approx(1)


@pytest.mark.parametrize(("n", "discordance"), [(16, 0.2), (16, 0.0), (144, 0.2), (200, 0.5)])
def test_detectable_difference_has_exactly_the_power(n, discordance):
    found = detectable_difference(n, discordance)
    total = max(discordance, found)
    for nudge, at_least in ((1e-6, True), (-1e-6, False)):
        first, second = (total + found + nudge) / 2, (total - found - nudge) / 2
        assert (power_mcnemar(n, max(first, 0), max(second, 0)) >= 0.8) == at_least or second < 0


def test_sixteen_items_detect_no_less_than_seven_questions():
    """At n=16 a true difference under 0.44 is found less often than four times in five; one question is 0.0625."""
    found = detectable_difference(16, 0.2)
    assert 7 / 16 < found < 8 / 16
    assert power_mcnemar(16, 1 / 16, 0) < 1e-3


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (mcnemar_exact, (-1, 2)),
        (paired_difference_interval, (0, 0, 0, 0)),
        (paired_difference_interval, (1, -1, 0, 0)),
        (fewest_discordant, (0.0,)),
        (power_mcnemar, (16, 0.9, 0.2)),
        (power_mcnemar, (16, -0.1, 0.2)),
        (detectable_difference, (5, 0.2)),
        (detectable_difference, (16, 1.2)),
        (wilson_interval, (0, 0)),
        (exact_interval, (3, 2)),
    ],
)
def test_impossible_arguments_are_refused(function, arguments):
    with pytest.raises(ValueError, match=r"."):
        function(*arguments)
