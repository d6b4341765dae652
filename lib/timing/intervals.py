"""The middle of a few times, or of ratios of times, with an interval that holds for more than one kind of noise.

Times, from nine values on: the interval between two order statistics, which covers the median with a probability that
is a sum of binomial coefficients and nothing else (Thompson, 1936; David & Nagaraja, Order Statistics, section 7.1). A
percentile bootstrap of nine values, nominally 99.5 %, covers it 96.1 % of the time.

Ratios, from nine values on: the Hodges-Lehmann estimate and the interval of the signed ranks, both of the logarithms
(Hodges & Lehmann, 1963; Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, section 3.3). It is exact where
the logarithm of a ratio scatters symmetrically, as it does when both times met the same noise, whatever its shape; and
a third narrower than that of order statistics.

With four to eight values neither reaches the confidence; Student's t on the logarithms does, with an interval so wide
(7.5 standard errors at four values) that only differences far beyond the noise are decided by it, and an outlier widens
it further.

All need values that do not depend on one another. Simulated for ratios, over all looks, with the truth on the line:
2.4 % decided wrongly under lognormal noise, 1.7 % under Pareto's, 2.2 % where four passes in ten hit a slow hump, 4 to
5 % where the two times met different noise, 13 % where only one of them met the hump; and 32 % where rounds are
correlated by 0.6 (5 % by 0.2), which is why times are compared within a round and never across rounds. Measured between
rounds of decode steps: -0.04 to -0.10.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.stats import binom, t

from lib.intervals import Estimate

# Looks are taken at 4, 6, 9, 14, 21, 31 rounds (lib/timing/rounds.py): at 99.5 % each, all hold together at 97 %.
CONFIDENCE = 0.995
UNKNOWN = Estimate(1.0, 0.0, math.inf)  # of a ratio or a time of which nothing is known
FEWEST = 4  # below, t needs 14 standard errors and more: nothing would be decided


def ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """The innermost pair of order statistics (from 0) that covers the median at this confidence; None if none does."""
    best = None
    for low in range(n // 2):
        if 1 - 2 * binom.cdf(low, n, 0.5) >= confidence:
            best = low, n - 1 - low
    return best


def fewest_ordered(confidence: float = CONFIDENCE) -> int:
    """The smallest n from which order statistics reach this confidence: 9 at 99.5 %."""
    return 1 + math.ceil(-math.log2(1 - confidence))


def middle_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Median of times with its interval, or the geometric mean with one where there are too few values for that.

    values: positive, independent. Fewer than FEWEST give an interval from 0 to infinity: nothing is known. Raises
    ValueError on an empty sequence and on values that are not positive numbers.
    """
    pair = ranks(len(values), confidence)
    return _of_few(values, confidence) if pair is None else _ordered(sorted(_times(values)), pair)


def ratio_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Middle of ratios of two times that were taken together, with its interval; a ratio's inverse has the inverse one.

    values, errors and what few of them give: as for `middle_interval`.
    """
    cut = signed_rank_cut(len(values), confidence)
    if cut is None:
        return _of_few(values, confidence)
    logs = np.log(_times(values))
    walsh = np.sort((logs[:, None] + logs)[np.triu_indices(len(logs))] / 2)
    ends = np.median(walsh), walsh[cut], walsh[-1 - cut]
    return Estimate(*(float(np.exp(end)) for end in ends))


@cache
def signed_rank_cut(n: int, confidence: float = CONFIDENCE) -> int | None:
    """How many of the n (n + 1) / 2 pairwise means to leave out at either end; None if even all of them cover less.

    From the exact null distribution of Wilcoxon's signed-rank sum: of the 2^n subsets of 1..n, how many have each sum.
    """
    subsets = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        subsets = [count + (subsets[i - rank] if i >= rank else 0) for i, count in enumerate(subsets)]
    tail, cut = 0, 0
    while 2 * (tail := tail + subsets[cut]) <= (1 - confidence) * 2**n:
        cut += 1
    return cut - 1 if cut else None


def _times(values: Sequence[float]) -> Sequence[float]:
    if not values or not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError("the middle of times needs positive finite values")
    return values


def _of_few(values: Sequence[float], confidence: float) -> Estimate:
    if len(_times(values)) < FEWEST:
        return Estimate(float(np.exp(np.mean(np.log(values)))), 0.0, math.inf)
    return _student(values, confidence)


def _ordered(ordered: Sequence[float], pair: tuple[int, int]) -> Estimate:
    middle = (ordered[(len(ordered) - 1) // 2] * ordered[len(ordered) // 2]) ** 0.5  # as good for 1/x as for x
    return Estimate(middle, ordered[pair[0]], ordered[pair[1]])


def _student(values: Sequence[float], confidence: float) -> Estimate:
    logs = np.log(values)
    centre, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(len(logs))
    reach = float(t.ppf((1 + confidence) / 2, len(logs) - 1)) * error
    return Estimate(*(math.exp(centre + side * reach) for side in (0, -1, 1)))
