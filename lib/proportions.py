"""Proportions at small n: intervals, the exact paired test, and what a sample of a given size could have found.

In a paired comparison of two columns of right and wrong, only the discordant pairs speak: ``first_only`` counts the
items that only the first got right, ``second_only`` those that only the second did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, binomtest, norm

from lib.intervals import Estimate

# Root finding stops here: four units in the last place of a proportion near 1, far below any count's 1/n.
ROOT_TOLERANCE = 4 * float(np.finfo(float).eps)
# Scores beyond this many standard deviations are all the same to root finding, which cannot use infinities.
SCORE_BOUND = 1e6


def wilson_interval(hits: int, trials: int, confidence: float = 0.95) -> Estimate:
    """A proportion with its Wilson score interval (Wilson, 1927). Raises ValueError when there were no trials."""
    return _proportion(hits, trials, confidence, "wilson")


def exact_interval(hits: int, trials: int, confidence: float = 0.95) -> Estimate:
    """A proportion with its Clopper-Pearson interval (1934), which covers at least as promised whatever the truth.

    Raises ValueError when there were no trials.
    """
    return _proportion(hits, trials, confidence, "exact")


def mcnemar_exact(first_only: int, second_only: int) -> float:
    """Two-sided p-value of the exact McNemar test: are the discordant pairs a fair coin's (McNemar, 1947)?

    1 without discordant pairs. The concordant pairs, however many, have no say.
    """
    _refuse_negative(first_only, second_only)
    if first_only + second_only == 0:
        return 1.0
    return float(binomtest(first_only, first_only + second_only, 0.5).pvalue)


def paired_difference_interval(
    both: int, first_only: int, second_only: int, neither: int, confidence: float = 0.95
) -> Estimate:
    """Share right in the first column minus share right in the second, with Tango's score interval (1998).

    Two columns that agree everywhere give a difference of 0 with an interval around it, because n items cannot
    exclude a small difference. Coverage at 95 % by enumeration over a grid of truths: n=16 92.3 to 100, mean 95.9 %;
    n=144 93.9 to 100, mean 95.0 %. Raises ValueError on negative counts and without items.
    """
    _refuse_negative(both, first_only, second_only, neither)
    n = both + first_only + second_only + neither
    if n == 0:
        raise ValueError("a difference of proportions needs at least one pair")
    difference, z = (first_only - second_only) / n, float(norm.ppf((1 + confidence) / 2))

    def score(delta: float) -> float:
        return _tango_score(first_only, second_only, n, delta)

    low = _crossing(lambda delta: score(delta) - z, -1.0, difference)
    high = _crossing(lambda delta: score(delta) + z, difference, 1.0)
    return Estimate(difference, min(low, difference), max(high, difference))


def fewest_discordant(alpha: float = 0.05) -> int:
    """How many discordant pairs, all pointing one way, the exact McNemar test needs to reach p <= alpha."""
    if not 0 < alpha <= 1:
        raise ValueError(f"alpha must lie in (0, 1], got {alpha}")
    pairs = 0
    while mcnemar_exact(pairs, 0) > alpha:
        pairs += 1
    return pairs


def power_mcnemar(n: int, first_only_share: float, second_only_share: float, alpha: float = 0.05) -> float:
    """Probability that exact McNemar on n pairs reaches p <= alpha, by enumeration of every pair of counts.

    The shares are the true probabilities that a pair is discordant one way and the other. Raises ValueError when they
    are no probabilities.
    """
    discordance = first_only_share + second_only_share
    if min(first_only_share, second_only_share) < 0 or discordance > 1 + ROOT_TOLERANCE:
        raise ValueError(f"shares of pairs must be probabilities, got {first_only_share} and {second_only_share}")
    if discordance == 0:
        return float(alpha >= 1)
    pairs = np.arange(n + 1)  # how many of the n are discordant
    most = _most_of_the_fewer(pairs, alpha)  # (n+1,): rejected when the fewer are at most this many
    first = first_only_share / discordance
    rejected = binom.cdf(most, pairs, first) + binom.cdf(most, pairs, 1 - first)
    # alpha 1 rejects even an even split, which both tails then count
    return float(np.sum(binom.pmf(pairs, n, min(discordance, 1.0)) * np.minimum(rejected, 1)))


def detectable_difference(n: int, discordance: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest true difference of paired proportions that exact McNemar on n pairs finds with this power.

    discordance: the share of pairs in which the two columns differ. A difference cannot be larger than that: beyond
    it every discordant pair points one way and their share is the difference itself. Raises ValueError when n pairs
    cannot reach p <= alpha at all.
    """
    if not 0 <= discordance <= 1 or not 0 < power < 1:
        raise ValueError(f"discordance and power must be probabilities, got {discordance} and {power}")
    if n < fewest_discordant(alpha):
        raise ValueError(f"{n} pairs cannot reach p <= {alpha}: it takes {fewest_discordant(alpha)} discordant ones")

    def missing(difference: float) -> float:
        total = max(discordance, difference)
        return power - power_mcnemar(n, (total + difference) / 2, (total - difference) / 2, alpha)

    return 0.0 if missing(0.0) <= 0 else float(brentq(missing, 0.0, 1.0, xtol=ROOT_TOLERANCE))


def _proportion(hits: int, trials: int, confidence: float, method: Literal["wilson", "exact"]) -> Estimate:
    low, high = binomtest(hits, trials).proportion_ci(confidence_level=confidence, method=method)
    return Estimate(hits / trials, min(float(low), hits / trials), max(float(high), hits / trials))


def _refuse_negative(*counts: int) -> None:
    if min(counts) < 0:
        raise ValueError(f"counts of pairs cannot be negative, got {counts}")


def _tango_score(first_only: int, second_only: int, n: int, delta: float) -> float:
    """Standardised distance of the observed difference from delta; the variance is the likeliest one under delta."""
    distance = first_only - second_only - n * delta
    linear = (2 * n - first_only + second_only) * delta - first_only - second_only
    root = np.sqrt(max(linear**2 + 8 * n * second_only * delta * (1 - delta), 0.0))
    second_share = (root - linear) / (4 * n)
    variance = n * (2 * second_share + delta * (1 - delta))
    if variance <= 0:  # delta = ±1, or no discordance at all at delta = 0
        return 0.0 if distance == 0 else float(np.copysign(np.inf, distance))
    return float(distance / np.sqrt(variance))


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Where the falling function, infinite at some ends, crosses zero in [low, high]; the nearer end if it does not."""

    def bounded(x: float) -> float:
        return min(max(function(x), -SCORE_BOUND), SCORE_BOUND)

    if function(low) <= 0 or function(high) >= 0:
        return low if function(low) <= 0 else high
    return float(brentq(bounded, low, high, xtol=ROOT_TOLERANCE))


def _most_of_the_fewer(pairs: NDArray[np.int64], alpha: float) -> NDArray[np.float64]:
    """For m discordant pairs, the largest count of the fewer kind at which 2 P(at most it) <= alpha; -1 for none."""
    candidate = binom.ppf(alpha / 2, pairs, 0.5)  # smallest count whose tail reaches alpha / 2
    return np.asarray(np.where(2 * binom.cdf(candidate, pairs, 0.5) <= alpha, candidate, candidate - 1), dtype=float)
