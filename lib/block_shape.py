"""Are the weights of one block normal, and what does a fixed code book see of them once its maximum has scaled them?

Single blocks are held against simulated normal ones by their kurtosis: it does not mind that blocks differ in scale,
and a lattice of 16 or more levels (weights that have been through block quantization) barely moves it, where a test on
the distribution function would reject on ties alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.quantization.absmax import divisor
from lib.quantization.nf4 import boundaries, fitted_levels
from lib.unmeasurable import Unmeasurable

# 2048 bins over [-1, 1]: each a twentieth of the smallest NF4 gap, so placing a bin's weight at its centre moves a
# code book's error by less than (1/20)²/4 of itself.
_BINS = 2048


@dataclass(frozen=True)
class ScaledWeights:
    """Histogram of weights divided by their block's largest magnitude, over bin centres in [-1, 1].

    counts: weights per bin. energy: the same, each counted with its block's squared scale, so that energy-weighted
    squared distances are squared errors of the real weights.
    """

    centres: NDArray[np.float64]
    counts: NDArray[np.float64]
    energy: NDArray[np.float64]

    def relative_error(self, levels: NDArray[np.float64]) -> float:
        """||W - Ŵ|| / ||W|| that these levels (ascending) leave."""
        nearest = levels[np.searchsorted(boundaries(levels), self.centres)]
        lost = float(np.sum(self.energy * (nearest - self.centres) ** 2))
        return float(np.sqrt(lost / np.sum(self.energy * self.centres**2)))

    def level_shares(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fraction of the weights nearest to each level."""
        cell = np.searchsorted(boundaries(levels), self.centres)
        return np.asarray(np.bincount(cell, self.counts, len(levels)) / self.counts.sum())


def blocks_of(weights: Tensor, block: int, every: int = 1) -> Tensor:
    """Blocks (N, block) of consecutive weights of every `every`-th row; all-zero blocks and short row ends left out."""
    rows = weights.detach()[::every].float()
    whole = rows[:, : rows.shape[1] // block * block].reshape(-1, block)
    return whole[whole.abs().amax(1) > 0]


def with_equal_columns(weights: Tensor) -> Tensor:
    """The matrix (rows, columns) with every input column divided by its norm; columns of zeros stay zeros."""
    norms = torch.linalg.vector_norm(weights.float(), dim=0)
    return weights / divisor(norms)


def kurtosis(blocks: Tensor) -> Tensor:
    """Fourth over squared second central moment of each block, (N, block) → (N,). A normal's is 3 for large blocks."""
    squared = (blocks - blocks.mean(1, keepdim=True)).square_()
    return squared.square().mean(1) / squared.mean(1).square()


def max_in_sigmas(blocks: Tensor) -> float:
    """Mean over blocks of largest magnitude over root mean square."""
    return float((blocks.abs().amax(1) / blocks.square().mean(1).sqrt()).mean())


def normal_blocks(block: int, count: int, seed: int) -> Tensor:
    """Blocks (count, block) of independent standard normal numbers: the reference for every statistic here."""
    return torch.randn(count, block, generator=torch.Generator().manual_seed(seed))


def normal_kurtosis_band(block: int, level: float, count: int = 100_000, seed: int = 0) -> tuple[float, float]:
    """The kurtosis range that a fraction 1 - level of normal blocks of this size falls in, by simulation."""
    values = kurtosis(normal_blocks(block, count, seed)).numpy()
    return float(np.quantile(values, level / 2)), float(np.quantile(values, 1 - level / 2))


def rejected_share(blocks: Tensor, band: tuple[float, float]) -> float:
    """Fraction of blocks whose kurtosis lies outside the band of normal blocks; the band's level, if all are normal.

    Raises Unmeasurable where there is no block.
    """
    if not len(blocks):
        raise Unmeasurable(f"a matrix has no block of {blocks.shape[1]} weights of a row that are not all zero")
    values = kurtosis(blocks)
    return float(((values < band[0]) | (values > band[1])).float().mean())


def rejected_shares(weights: Mapping[str, Tensor], block: int, every: int, level: float = 0.05) -> dict[str, float]:
    """For each matrix (rows, columns), the fraction of its blocks whose kurtosis no normal blocks would show."""
    band = normal_kurtosis_band(block, level)
    return {name: rejected_share(blocks_of(matrix, block, every), band) for name, matrix in weights.items()}


def scaled_histogram(pieces: Iterable[Tensor]) -> ScaledWeights:
    """Pool blocks (N, block) of any number of matrices, each scaled by its block's largest magnitude.

    Matrices enter with equal total energy, whatever their norm and size. Raises Unmeasurable for no block at all.
    """
    counts, energy = np.zeros(_BINS), np.zeros(_BINS)
    for blocks in pieces:
        scale = blocks.abs().amax(1, keepdim=True)
        cell = ((blocks / scale + 1) * (_BINS / 2)).clamp_(0, _BINS - 1).to(torch.int32).reshape(-1)
        counts += torch.bincount(cell, minlength=_BINS).numpy()
        share = (scale.double().square() / blocks.double().square().sum()).expand_as(blocks).reshape(-1)
        energy += torch.bincount(cell, share, _BINS).numpy()
    if not counts.any():
        raise Unmeasurable("no matrix has a whole block of weights that are not all zero")
    return ScaledWeights(np.linspace(-1, 1, 2 * _BINS + 1)[1::2], counts, energy)


def excess_over_fitted(pooled: ScaledWeights, levels: NDArray[np.float64]) -> float:
    """By which fraction a code book's error exceeds that of the best one for the same weights and block scaling."""
    best = fitted_levels(pooled.centres, pooled.energy, levels)
    return pooled.relative_error(levels) / pooled.relative_error(best) - 1
