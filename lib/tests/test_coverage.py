"""Coverage by enumeration, held against simulation, and the chapter's bootstrap at n=16 put to the question."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, norm

from lib.coverage import binomial_coverage, bootstrap_binomial_interval
from lib.intervals import Estimate
from lib.proportions import exact_interval, wilson_interval
from lib.resampling import percentile_interval

ITEMS = 16
# Cached, because coverage at every p asks for the same 17 intervals.
RULES = {
    "bootstrap": cache(bootstrap_binomial_interval),
    "wilson": cache(wilson_interval),
    "exact": cache(exact_interval),
}
HALF_A_PRINTED_DIGIT = 0.05 + 1e-9  # of a coverage in per cent with one decimal
SAMPLES = 20_000


def documented() -> list[tuple[str, float, float]]:
    """(rule, p, coverage in %) from the table in the docstring."""
    lines = [line.split() for line in (bootstrap_binomial_interval.__doc__ or "").splitlines()]
    shares = next([float(p) for p in words[1:]] for words in lines if words[:1] == ["p"])
    tables = [words for words in lines if words and words[0] in RULES and len(words) == len(shares) + 1]
    return [(name, p, float(c)) for name, *row in tables for p, c in zip(shares, row, strict=True)]


def test_documented_table_is_complete():
    assert len(documented()) == 18


@pytest.mark.parametrize(("rule", "p", "percent"), documented())
def test_coverage_against_documented_table(rule, p, percent):
    assert 100 * binomial_coverage(RULES[rule], ITEMS, p) == pytest.approx(percent, abs=HALF_A_PRINTED_DIGIT)


def test_clopper_pearson_never_covers_less_than_promised_and_the_bootstrap_does():
    truths = np.linspace(0.01, 0.99, 99)
    found = {name: [binomial_coverage(rule, ITEMS, p) for p in truths] for name, rule in RULES.items()}
    assert min(found["exact"]) >= 0.95
    assert min(found["bootstrap"]) < 0.2
    assert np.mean(found["bootstrap"]) < 0.90
    assert np.mean(found["wilson"]) > 0.95


@pytest.mark.parametrize("p", [0.55, 0.93])
def test_enumerated_coverage_against_simulation(p):
    hits = np.random.default_rng(2).binomial(ITEMS, p, SAMPLES)
    intervals = [bootstrap_binomial_interval(k, ITEMS) for k in range(ITEMS + 1)]
    covered = sum(intervals[k].contains(p) for k in hits)
    expected = binomial_coverage(bootstrap_binomial_interval, ITEMS, p)
    assert binom.ppf(5e-5, SAMPLES, expected) <= covered <= binom.ppf(1 - 5e-5, SAMPLES, expected)


def test_enumerated_coverage_by_hand():
    """Two trials, a rule that says [0, 1/2] after no hit and [1/2, 1] otherwise: p = 0.4 is missed by any hit."""

    def rule(hits: int, trials: int) -> Estimate:
        return Estimate(0, 0, 0.5) if hits == 0 else Estimate(0.5, 0.5, 1)

    assert binomial_coverage(rule, 2, 0.4) == pytest.approx(0.36)
    assert binomial_coverage(rule, 2, 0.5) == pytest.approx(1), "ends belong to the interval"


@pytest.mark.parametrize("hits", range(ITEMS + 1))
def test_exact_bootstrap_against_resampling(hits):
    """20,000 resamples find the same quantiles, or the neighbouring count where the quantile lies on a step."""
    exact = bootstrap_binomial_interval(hits, ITEMS)
    drawn = percentile_interval([1.0] * hits + [0.0] * (ITEMS - hits), resamples=20_000)
    distribution = binom(ITEMS, hits / ITEMS)
    for end, found, level in ((exact.low, drawn.low, 0.025), (exact.high, drawn.high, 0.975)):
        count = round(end * ITEMS)
        noise = 4 * math.sqrt(level * (1 - level) / 20_000)  # of the level, four standard deviations
        on_a_step = min(abs(distribution.cdf(count) - level), abs(distribution.cdf(count - 1) - level)) < noise
        assert found == pytest.approx(end, abs=(1 / ITEMS if on_a_step else 0) + 1e-12)


def test_exact_bootstrap_rejects_the_normal_approximation():
    """Wald's interval, which is not a bootstrap, leaves [0, 1] at 15 of 16; the quantiles of resamples cannot."""
    wald = 15 / 16 + norm.ppf(0.975) * math.sqrt(15 / 16 / 16 / 16)
    assert wald > 1 >= bootstrap_binomial_interval(15, ITEMS).high


@pytest.mark.parametrize("hits", [0, ITEMS])
def test_all_alike_give_the_bootstrap_no_width(hits):
    found = bootstrap_binomial_interval(hits, ITEMS)
    assert found.low == found.high == hits / ITEMS


@pytest.mark.parametrize("arguments", [(1, 0), (3, 2), (-1, 2)])
def test_impossible_counts_are_refused(arguments):
    with pytest.raises(ValueError, match="hits"):
        bootstrap_binomial_interval(*arguments)


@pytest.mark.parametrize("arguments", [(0, 0.5), (4, 1.5), (4, float("nan"))])
def test_impossible_truths_are_refused(arguments):
    with pytest.raises(ValueError, match="probability"):
        binomial_coverage(wilson_interval, *arguments)
