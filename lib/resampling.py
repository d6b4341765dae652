"""Bootstrap intervals with their seeds: of one column, and of several that are paired.

Pairs stay together: the same units are drawn for both columns. Two identical columns give exactly their value with
an interval of width zero, never NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal
from warnings import catch_warnings, simplefilter

import numpy as np
from numpy.typing import NDArray
from scipy.stats import DegenerateDataWarning, bootstrap

from lib.intervals import Estimate

Column = NDArray[np.float64]
Statistic = Callable[..., Column]
Method = Literal["BCa", "percentile"]

DEFAULT_SEED = 20240
DEFAULT_RESAMPLES = 2000


def mean(column: Column, axis: int = -1) -> Column:
    """Mean of one column, in its unit."""
    return np.asarray(np.mean(column, axis=axis))


def mean_difference(first: Column, second: Column, axis: int = -1) -> Column:
    """Mean of first - second, in the columns' unit."""
    return np.asarray(np.mean(first - second, axis=axis))


def relative_drop(first: Column, second: Column, axis: int = -1) -> Column:
    """1 - mean(second) / mean(first): by which fraction the mean falls from the first column to the second."""
    return np.asarray(1 - np.mean(second, axis=axis) / np.mean(first, axis=axis))


def log_share(first: Column, middle: Column, last: Column, axis: int = -1) -> Column:
    """How much of the fall of the mean from `first` to `last` lies between `first` and `middle`, in logarithms.

    Errors divide one another step by step, so their logarithms add up: shares of consecutive steps sum to 1.
    """
    a, b, c = (np.log(np.mean(column, axis=axis)) for column in (first, middle, last))
    return np.asarray((a - b) / (a - c))


def percentile_interval(
    column: Sequence[float] | Column,
    statistic: Statistic = mean,
    confidence: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """The textbook's percentile bootstrap of one column: quantiles of the statistic over resamples (Efron, 1979).

    A column of equal values gives width zero, however short it is, and few values give too narrow an interval:
    lib/coverage.py has its exact coverage for proportions. Raises ValueError as `paired_interval` does.
    """
    return paired_interval([column], statistic, confidence, resamples, seed, method="percentile")


def paired_interval(  # noqa: PLR0913 (what, how often, from which seed and how it is read off are all the caller's)
    columns: Sequence[Sequence[float] | Column],
    statistic: Statistic = mean_difference,
    confidence: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    *,
    method: Method = "BCa",
) -> Estimate:
    """Bootstrap interval of a statistic of paired columns (each of length n); by default BCa (Efron, 1987).

    "BCa" is bias-corrected and accelerated; "percentile" reads the quantiles of the resamples as they are. Raises
    ValueError on columns of unequal length, on fewer than two units, and on values that are not finite. Where leaving
    out a unit makes no difference BCa is not defined, and the quantiles are read as they are.
    """
    data = [np.asarray(column, dtype=float) for column in columns]
    if len({len(column) for column in data}) != 1 or len(data[0]) < 2:
        raise ValueError(f"paired columns need one common length of at least 2, got {[len(c) for c in data]}")
    if not all(np.isfinite(column).all() for column in data):
        raise ValueError("a column contains a value that is not finite")
    value = float(statistic(*data))
    if _same_in_every_resample(data, statistic, value):
        return Estimate(value, value, value)
    low, high = _interval(data, statistic, confidence, resamples, seed, method)
    if not np.isfinite([low, high]).all():
        low, high = _interval(data, statistic, confidence, resamples, seed, "percentile")
    # BCa may put the point estimate outside its own interval in extreme skew; an Estimate must contain it.
    return Estimate(value, min(low, value), max(high, value))


def _interval(  # noqa: PLR0913, PLR0917 (as above)
    data: Sequence[Column], statistic: Statistic, confidence: float, resamples: int, seed: int, method: Method
) -> tuple[float, float]:
    """Both ends; NaN where BCa has no acceleration: leaving out one unit or another makes no difference (0/0)."""
    with np.errstate(invalid="ignore"), catch_warnings():
        simplefilter("ignore", DegenerateDataWarning)
        result = bootstrap(
            data, statistic, paired=True, vectorized=True, confidence_level=confidence, n_resamples=resamples,
            method=method, rng=np.random.default_rng(seed),
        )  # fmt: skip
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _same_in_every_resample(data: Sequence[Column], statistic: Statistic, value: float) -> bool:
    """Whether leaving out any one unit changes nothing: BCa has no acceleration then and would answer NaN."""
    n = len(data[0])
    left_out = np.array([np.delete(np.arange(n), i) for i in range(n)])
    return bool(np.all(statistic(*(column[left_out] for column in data)) == value))
