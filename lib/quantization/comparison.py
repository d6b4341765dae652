"""Schemes against one another on the same matrices: paired intervals over an error table."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from lib.intervals import Estimate
from lib.quantization.errors import ErrorTable
from lib.quantization.schemes import SCHEMES
from lib.resampling import Statistic, log_share, mean_difference, paired_interval, relative_drop
from lib.unmeasurable import Unmeasurable


def paired(table: ErrorTable, statistic: Statistic, *schemes: str, matrices: Iterable[str] | None = None) -> Estimate:
    """A statistic of these schemes' errors with its bootstrap interval; the matrices are drawn, in pairs (or triples).

    The matrices of one model are all there are of it: the interval says how far the figure hangs on a few of them.
    """
    names = None if matrices is None else list(matrices)
    return paired_interval([table.column(scheme, names) for scheme in schemes], statistic)


def advantage(table: ErrorTable, scheme: str, rival: str, matrices: Iterable[str] | None = None) -> Estimate:
    """How much less error the scheme leaves than its rival, mean over matrices; negative when it leaves more."""
    return paired(table, mean_difference, rival, scheme, matrices=matrices)


def drop(table: ErrorTable, start: str, end: str) -> Estimate:
    """By which fraction the mean error falls from one scheme to another."""
    return paired(table, relative_drop, start, end)


def step_share(table: ErrorTable, start: str, step: str, end: str) -> Estimate:
    """Which share of the fall from `start` to `end`, in logarithms of the mean error, is done at `step`."""
    return paired(table, log_share, start, step, end)


def bought_back(table: ErrorTable, start: str, scheme: str, goal: str) -> float:
    """Which share of the way from the error of `start` down to that of `goal` the scheme has come, in mean errors."""
    return (table.mean(start) - table.mean(scheme)) / (table.mean(start) - table.mean(goal))


def out_of_order(table: ErrorTable, ladder: Iterable[str]) -> int:
    """How many matrices have, at some step of the ladder, no less error than at the step before."""
    steps = [table.column(scheme) for scheme in ladder]
    return sum(any(b >= a for a, b in pairwise(errors)) for errors in zip(*steps, strict=True))


def ladder_summary(table: ErrorTable, rows: int, columns: int) -> dict[str, dict[str, float]]:
    """Mean and worst error and bits per weight (of a matrix of this shape) by scheme, and what a scale per row does.

    Needs the schemes "int4-tensor", "int4-row" and "int8-row" in the table. Raises Unmeasurable for a matrix without
    error, as one of zeros is.
    """
    if not all(table.column("int4-row")):
        raise Unmeasurable("a matrix of this model loses nothing to int4-row, as one of zeros does: no ratio of errors")
    ratios = [a / b for a, b in zip(table.column("int4-tensor"), table.column("int4-row"), strict=True)]
    worst = table.worst("int4-tensor")[1] / table.worst("int4-row")[1]
    return {
        "mean_by_scheme": {s: table.mean(s) for s in table.errors},
        "worst_by_scheme": {s: table.worst(s)[1] for s in table.errors},
        "bits_by_scheme": {s: SCHEMES[s].bits_per_weight(rows, columns) for s in table.errors},
        "row_divides_single_matrix_by": {"least": min(ratios), "most": max(ratios), "of the worst matrices": worst},
        "bought_back_by_rows": {"from one scale per matrix": bought_back(table, "int4-tensor", "int4-row", "int8-row")},
    }
