"""NF4 and other 16-entry code books for weights scaled into [-1, 1] by their block's largest magnitude.

The code book is derived here from normal quantiles the way its reference implementation does (QLoRA, Dettmers et al.
2023, arXiv:2305.14314, and the code published with it), beside the equally probable quantiles that the words
"quantiles of a normal" suggest and the code book of least error for given data.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from lib.quantization.absmax import divisor

Levels = NDArray[np.float64]

# The outermost quantile: the mean of 1 - 1/30 and 1 - 1/32, half a step of 15 and of 16 equal parts from the end.
NF4_OUTER_QUANTILE = 0.5 * ((1 - 1 / 30) + (1 - 1 / 32))

NF4_SIGMA = 1 / float(norm.ppf(NF4_OUTER_QUANTILE))
"""Standard deviation that NF4 assumes of weights scaled to [-1, 1]: the block's maximum lies at 1.85 of it."""

# Quantiles and back: some ten roundings of numbers below 1, far below the 1/240 by which uneven steps differ.
_ROUNDING = 32 * np.finfo(np.float64).eps

# Cells of the lookup table over [-1, 1]: 1/64 wide, a fifth of the smallest distance between two NF4 boundaries.
_CELLS = 128


@lru_cache(maxsize=4)
def nf4_levels(outer: float = NF4_OUTER_QUANTILE) -> Levels:
    """The sixteen NF4 levels, ascending, float64 in [-1, 1], read-only.

    Eight positive and seven negative quantiles, each half evenly spaced in probability between `outer` and one half,
    an exact zero, all divided by the largest.
    """
    positive = norm.ppf(np.linspace(outer, 0.5, 9)[:-1])
    negative = -norm.ppf(np.linspace(outer, 0.5, 8)[:-1])
    levels = np.sort(np.concatenate([negative, [0.0], positive]))
    levels /= levels.max()
    levels.flags.writeable = False  # shared by every caller
    return levels


@lru_cache(maxsize=1)
def even_levels() -> Levels:
    """Sixteen levels with NF4's ends, zero and halves (eight above, seven below) but evenly spaced in each half.

    Against NF4 at the same block it isolates *where* the levels lie; against symmetric INT4 it isolates the sixteenth.
    """
    levels = np.concatenate([np.arange(-7, 0) / 7, np.arange(9) / 8])
    levels.flags.writeable = False
    return levels


def equal_mass_levels(count: int = 16) -> Levels:
    """Medians of `count` equally probable slices of a normal, scaled so that the outermost are ±1."""
    levels = norm.ppf((np.arange(count) + 0.5) / count)
    return np.asarray(levels / levels.max())


def boundaries(levels: Levels) -> Levels:
    """Midpoints between neighbouring levels: where the nearest level changes."""
    return np.asarray((levels[1:] + levels[:-1]) / 2)


def gaps(levels: Levels) -> list[float]:
    """Distances between neighbouring levels, in order."""
    return [float(gap) for gap in np.diff(levels)]


def normal_mass(levels: Levels, sigma: float) -> Levels:
    """Probability that a normal weight of standard deviation `sigma` (in units of the level 1) takes each level."""
    edges = np.concatenate([[-np.inf], boundaries(levels), [np.inf]])
    return np.diff(norm.cdf(edges / sigma))


def probability_steps(levels: Levels, sigma: float) -> Levels:
    """Normal probability between neighbouring levels, for a standard deviation in units of the level 1."""
    return np.diff(norm.cdf(levels / sigma))


def is_evenly_probable(levels: Levels) -> bool:
    """Whether levels are quantiles at equal steps of probability, under the normal that NF4 assumes."""
    steps = probability_steps(levels, NF4_SIGMA)
    return bool(np.ptp(steps) <= _ROUNDING)


@lru_cache(maxsize=16)
def _table(levels: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Per cell of [-1, 1]: the code at its left end, and the one boundary inside it (2 where there is none)."""
    edges = boundaries(np.asarray(levels))
    left_ends = -1 + 2 * np.arange(_CELLS) / _CELLS
    first = np.searchsorted(edges, left_ends, side="left")
    per_cell = np.bincount(((edges + 1) * _CELLS / 2).astype(int), minlength=_CELLS)
    if per_cell.max() > 1:
        raise ValueError(f"code book too fine for a table of {_CELLS} cells: two boundaries share a cell")
    inside = np.where(per_cell == 1, np.append(edges, 2.0)[np.minimum(first, len(edges))], 2.0)
    return torch.from_numpy(first.astype(np.uint8)), torch.from_numpy(inside.astype(np.float32))


def encode(blocks: Tensor, scales: Tensor, levels: Levels) -> Tensor:
    """Index (uint8) of the nearest level for blocks (N, b) with scales (N, 1); a boundary goes to the lower level.

    A table lookup instead of a search in 15 boundaries (tested equal to it): a quarter of the time.
    """
    first, inside = _table(tuple(levels.tolist()))
    scaled = (blocks / divisor(scales)).reshape(-1)
    cells = scaled.add(1).mul_(_CELLS / 2).clamp_(0, _CELLS - 1).to(torch.int32)
    codes = first.to(blocks.device).index_select(0, cells)
    codes += scaled > inside.to(blocks.device).index_select(0, cells)
    return codes.view(blocks.shape)


def decode(codes: Tensor, scales: Tensor, levels: Levels) -> Tensor:
    """Weights (fp32) that the codes stand for: level times the block's scale."""
    book = torch.from_numpy(levels.astype(np.float32)).to(codes.device)
    return book.index_select(0, codes.reshape(-1).to(torch.int32)).view(codes.shape).mul_(scales)


def fitted_levels(centres: Levels, weights: Levels, start: Levels, rounds: int = 200) -> Levels:
    """A code book of least squared error for a weighted histogram (Lloyd 1982): the bound for any fixed code book.

    centres ascending (B,), weights (B,) the squared-error weight of each bin, start (K,) ascending. A level whose cell
    holds no weight stays where it is. The optimum is local; each round can only lower the error.
    """
    levels = start.astype(np.float64).copy()
    for _ in range(rounds):
        cell = np.searchsorted(boundaries(levels), centres)
        mass = np.bincount(cell, weights, len(levels))
        sums = np.bincount(cell, weights * centres, len(levels))
        levels = np.where(mass > 0, sums / np.maximum(mass, np.finfo(float).tiny), levels)
    return levels
