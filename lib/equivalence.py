"""Equivalence, and what a sample could have detected: what "no difference" may be said to mean.

Failing to find a difference shows nothing. Two one-sided tests at 5 % (Schuirmann, 1987) find equivalence within a
margin exactly when the 90 % interval lies inside it, so the interval is all that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from scipy.optimize import brentq
from scipy.stats import ncf, t

from lib.clusters import Values, cluster_mean
from lib.intervals import Estimate

ONE_SIDED_PAIR = 0.90  # two one-sided tests at 5 % each leave 90 % between them


def equivalence_interval(values: Sequence[float] | Values, confidence: float = ONE_SIDED_PAIR) -> Estimate:
    """Mean of the values with the interval that must lie inside a margin for equivalence at (1 - confidence) / 2.

    values: independent differences, or one sequence of them per cluster (then as `cluster_mean`). Student's t with
    one degree of freedom fewer than there are independent pieces. Raises ValueError on fewer than two pieces and on
    values that are not finite.
    """
    if len(values) and np.ndim(values[0]) == 0:
        return cluster_mean([[float(value)] for value in cast(Sequence[float], values)], confidence)
    return cluster_mean(cast(Values, values), confidence)


def minimum_detectable_effect(
    standard_error: float, degrees_of_freedom: float, power: float = 0.8, alpha: float = 0.05
) -> float:
    """The smallest true mean that a two-sided t test finds with this power, in the standard error's unit.

    By the noncentral F distribution of t squared, which counts both rejection tails. Raises ValueError on a standard
    error that is negative or not finite, on degrees of freedom that are not positive, and on power outside (alpha, 1).
    """
    if not 0 <= standard_error < np.inf or not 0 < degrees_of_freedom < np.inf:
        raise ValueError(f"needs a finite standard error and df > 0, got {standard_error} and {degrees_of_freedom}")
    if not 0 < alpha < power < 1:
        raise ValueError(f"needs 0 < alpha < power < 1, got alpha {alpha} and power {power}")
    critical = float(t.ppf(1 - alpha / 2, degrees_of_freedom))

    def missing(effect: float) -> float:
        return power - float(ncf.sf(critical**2, 1, degrees_of_freedom, effect**2))

    largest = 2 * (critical + abs(float(t.ppf(power, degrees_of_freedom))) + 1)  # well over the usual approximation
    return standard_error * float(brentq(missing, 0.0, largest))
