"""What speculation is worth by the formulas of Leviathan et al. (2023, arXiv:2211.17192), and by experiment.

Their one assumption is that every drafted token whose turn comes is kept with the same chance a, whatever became of
the others. With drafts of g tokens a pass of the target then brings 1 + a + ... + a^g tokens. That counts the token
that the target adds itself: of the drafted ones, one less is kept on average.

Chances and costs are arrays or numbers, and broadcast; a ``Fraction`` in their place gives an exact ``Fraction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from lib.intervals import Estimate, as_estimate

Floats = NDArray[np.float64]
ROOT_TOLERANCE = 4 * float(np.finfo(float).eps)  # of a chance: four units in the last place of a number near 1


@overload
def expected_tokens(acceptance: Fraction, draft: int) -> Fraction: ...
@overload
def expected_tokens(acceptance: ArrayLike, draft: ArrayLike) -> Floats: ...
def expected_tokens(acceptance: Fraction | ArrayLike, draft: int | ArrayLike) -> Fraction | Floats:
    """Tokens per pass of the target: (1 - a^(g+1)) / (1 - a), which is g + 1 at a = 1; drafted and own ones together.

    Accurate to a few units in the last place also near 1, where the quotient as it is written cancels. Raises
    ValueError unless 0 <= a <= 1 and g is a whole number >= 0.
    """
    _check(acceptance, draft)
    if isinstance(acceptance, Fraction):
        powers: list[Fraction] = [acceptance**i for i in range(_whole(draft) + 1)]
        return sum(powers, Fraction(0))
    a, n = np.broadcast_arrays(np.asarray(acceptance, float), np.asarray(draft, float) + 1)
    miss = 1 - a
    with np.errstate(divide="ignore"):  # log of a = 0 is -inf, and expm1 of that is -1: right
        gone = -np.expm1(n * np.log1p(-miss))
    return np.asarray(np.divide(gone, miss, out=n.copy(), where=miss > 0))


@overload
def net_speedup(acceptance: Fraction, draft: int, cost: Fraction, verification: Fraction = ...) -> Fraction: ...
@overload
def net_speedup(acceptance: ArrayLike, draft: ArrayLike, cost: ArrayLike, verification: ArrayLike = ...) -> Floats: ...
def net_speedup(
    acceptance: Fraction | ArrayLike,
    draft: int | ArrayLike,
    cost: Fraction | ArrayLike,
    verification: Fraction | ArrayLike = 1,
) -> Fraction | Floats:
    """Tokens per unit of time against plain decoding: the expected tokens over ``verification`` + g·c.

    cost: c, a pass of the draft over a pass of the target for one position. verification: a pass over the g + 1
    positions over the same; the formula in print takes 1. Raises ValueError for a cost below 0 or a verification <= 0.
    """
    if np.any(np.asarray(cost, float) < 0) or np.any(np.asarray(verification, float) <= 0):
        raise ValueError("a draft costs nothing at the least, a verification more than that")
    if isinstance(acceptance, Fraction) and isinstance(cost, Fraction):
        g = _whole(draft)
        return expected_tokens(acceptance, g) / (Fraction(verification) + g * cost)  # type: ignore[arg-type]
    tokens = expected_tokens(np.asarray(acceptance, float), draft)
    time = np.asarray(verification, float) + np.asarray(draft, float) * np.asarray(cost, float)
    return np.asarray(tokens / time)


def optimal_draft(acceptance: float | Fraction, cost: float | Fraction, longest: int = 64) -> int:
    """The draft length of the highest net speed-up, the shortest of equals; 0 where plain decoding is fastest.

    One more token pays while a^(g+1)·(1 + g·c) > c·E(g). The left side less the right falls by a^(g+1)·(1-a)·(1+(g+1)c)
    from g to g + 1, so the first g where it does not pay is the best, and some draft pays exactly if a > c. With
    Fractions nothing is rounded. At c = 0, and at a = 1 > c, there is no best: every longer one is better, and the
    answer is ``longest``.
    """
    _check(acceptance, 0)
    if cost < 0:
        raise ValueError(f"a draft that costs {cost}")
    power, tokens = acceptance, type(acceptance)(1)
    for draft in range(longest):
        if not power * (1 + draft * cost) > cost * tokens:
            return draft
        tokens, power = tokens + power, power * acceptance
    return longest


def reached(acceptance: ArrayLike, position: ArrayLike) -> Floats:
    """The chance that the drafted token at ``position`` (1 the first) is looked at: all before it were kept."""
    _check(acceptance, np.asarray(position) - 1)
    return np.asarray(np.asarray(acceptance, float) ** (np.asarray(position, float) - 1))


def kept_whole(acceptance: ArrayLike, draft: ArrayLike) -> Floats:
    """The chance that a guess of g tokens is kept to its end."""
    _check(acceptance, draft)
    return np.asarray(np.asarray(acceptance, float) ** np.asarray(draft, float))


def draft_cost(acceptance: Fraction, draft: int, speedup: Estimate) -> Estimate:
    """The cost c behind a printed net speed-up: (E/S - 1)/g, exact at both ends of what the printed digits mean.

    Raises ValueError for an empty draft, whose speed-up says nothing about its cost.
    """
    if draft < 1:
        raise ValueError("the speed-up of an empty draft is 1 whatever it costs")
    return (expected_tokens(acceptance, draft) / speedup - 1) / as_estimate(draft)


def common_cost(cells: Sequence[tuple[Fraction, int, Estimate]]) -> Estimate | None:
    """The costs that explain every printed cell (acceptance, draft, speed-up) at once; None if no single one does."""
    costs = [draft_cost(*cell) for cell in cells]
    low, high = max(cost.low for cost in costs), min(cost.high for cost in costs)
    return Estimate((low + high) / 2, low, high) if low <= high else None


def break_even(draft: int, cost: float, verification: float = 1.0) -> float | None:
    """The acceptance at which drafts of this length are just as fast as none; above it they gain.

    None if even a guess that is always kept loses. Raises ValueError for an empty draft.
    """
    if draft < 1:
        raise ValueError("an empty draft is always as fast as none")

    def gain(acceptance: float) -> float:
        return float(net_speedup(acceptance, draft, cost, verification)) - 1

    if gain(1.0) < 0:
        return None
    return 0.0 if gain(0.0) >= 0 else float(brentq(gain, 0.0, 1.0, xtol=ROOT_TOLERANCE))


def overtaking(short: int, long: int, cost: float) -> float | None:
    """The acceptance from which the longer of two drafts gives the higher net speed-up; None if none does below 1.

    There is one such point at the most: what the longer one brings more over what it brings at all rises with it.
    Raises ValueError unless 0 < short < long.
    """
    if not 0 < short < long:
        raise ValueError(f"drafts of {short} and {long} tokens")

    def lead(acceptance: float) -> float:
        return float(net_speedup(acceptance, long, cost) - net_speedup(acceptance, short, cost))

    if cost == 0 or lead(1.0) <= 0:
        return 0.0 if cost == 0 else None
    return float(brentq(lead, 0.0, 1.0, xtol=ROOT_TOLERANCE))


def tokens_by_position(acceptance: Sequence[float] | Sequence[Fraction]) -> float | Fraction:
    """Tokens per pass when each position of the guess has a chance of its own, given that all before it were kept.

    With the measured accepted/judged of full guesses it is their measured mean, whatever depends on what.
    """
    total: float | Fraction = 1
    chance: float | Fraction = 1
    for own in acceptance:
        _check(own, 0)
        chance = chance * own
        total = total + chance
    return total


def simulated_tokens(acceptance: float, draft: int, passes: int, seed: int = 0) -> NDArray[np.int64]:
    """Tokens of each of so many passes, (passes,), drawn coin by coin: drafted ones are kept up to the first tails."""
    _check(acceptance, draft)
    coins = np.random.default_rng(seed).random((passes, draft)) < acceptance
    return np.asarray(1 + np.cumprod(coins, axis=1, dtype=np.int64).sum(axis=1), dtype=np.int64)


def _check(acceptance: Fraction | ArrayLike, draft: ArrayLike) -> None:
    a, g = np.asarray(acceptance, float), np.asarray(draft, float)
    if not ((a >= 0) & (a <= 1)).all():
        raise ValueError(f"an acceptance rate is between 0 and 1, not {a}")
    if not ((g >= 0) & (g == np.floor(g)) & np.isfinite(g)).all():
        raise ValueError(f"a draft is a whole number of tokens, not {g}")


def _whole(draft: ArrayLike) -> int:
    return int(np.asarray(draft).item())
