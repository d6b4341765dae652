"""Shapes of blocks: against scipy, on distributions whose answer is known, and against real quantization."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from lib.block_shape import (
    blocks_of,
    excess_over_fitted,
    kurtosis,
    max_in_sigmas,
    normal_blocks,
    normal_kurtosis_band,
    rejected_share,
    scaled_histogram,
    with_equal_columns,
)
from lib.quantization.errors import scheme_error
from lib.quantization.nf4 import even_levels, nf4_levels
from lib.quantization.schemes import Scheme

BLOCK, COUNT = 64, 20_000
# A rejection rate of 0.05 among 20,000 blocks has a deviation of 0.0015, the simulated band adds less: four of both.
RATE_MARGIN = 4 * (0.05 * 0.95 / COUNT) ** 0.5 * 2**0.5
# Bins of 1/1024: a weight is off by at most half of it, 1 % of NF4's typical error of 0.05, and quadratically less.
BINNING = 1e-3
FP32_MOMENTS = 1e-5  # fourth moments of 64 fp32 numbers: some hundred roundings of 6e-8, in two factors


def test_kurtosis_against_scipy() -> None:
    blocks = normal_blocks(BLOCK, 100, seed=0)
    theirs = scipy.stats.kurtosis(blocks.double().numpy(), axis=1, fisher=False)
    assert kurtosis(blocks).numpy() == pytest.approx(theirs, rel=FP32_MOMENTS)


def test_normal_blocks_are_rejected_at_the_level_of_the_test() -> None:
    band = normal_kurtosis_band(BLOCK, 0.05)
    assert rejected_share(normal_blocks(BLOCK, COUNT, seed=9), band) == pytest.approx(0.05, abs=RATE_MARGIN)


@pytest.mark.parametrize("name", ["laplace", "uniform"])
def test_band_rejects_blocks_that_are_not_normal(name: str) -> None:
    draw = getattr(np.random.default_rng(0), name)
    blocks = torch.from_numpy(draw(size=(2000, BLOCK)))
    assert rejected_share(blocks, normal_kurtosis_band(BLOCK, 0.05)) > 0.4


def test_band_does_not_mind_scales_or_a_lattice_of_five_bits() -> None:
    band = normal_kurtosis_band(BLOCK, 0.05)
    blocks = normal_blocks(BLOCK, COUNT, seed=3) * torch.logspace(-3, 3, COUNT)[:, None]
    step = blocks.abs().amax(1, keepdim=True) / 16
    assert rejected_share((blocks / step).round() * step, band) == pytest.approx(0.05, abs=2 * RATE_MARGIN)


def test_equal_columns_undo_a_scale_per_input_channel() -> None:
    weights = normal_blocks(BLOCK * 4, 1000, seed=5)
    scaled = weights * torch.logspace(0, 1, BLOCK * 4)
    scaled[:, 9] = 0
    band = normal_kurtosis_band(BLOCK, 0.05)
    shuffled = scaled[:, torch.randperm(BLOCK * 4, generator=torch.Generator().manual_seed(0))]
    assert rejected_share(blocks_of(shuffled, BLOCK), band) > 0.3
    equal = with_equal_columns(shuffled)
    assert rejected_share(blocks_of(equal, BLOCK), band) < 0.07
    assert bool(torch.isfinite(equal).all())


def test_blocks_leave_out_zeros_and_short_ends() -> None:
    weights = torch.ones(4, 70)
    weights[2, :32] = 0
    assert blocks_of(weights, 32).shape == (7, 32)
    assert blocks_of(weights, 32, every=2).shape == (3, 32)


def test_max_in_sigmas_of_a_known_block() -> None:
    assert max_in_sigmas(torch.tensor([[3.0, 0.0, 0.0, 0.0]])) == pytest.approx(2)


@pytest.mark.parametrize(("code", "levels"), [("nf4", nf4_levels()), ("even", even_levels())])
def test_histogram_error_against_real_quantization(code: str, levels: np.ndarray) -> None:
    weights = normal_blocks(BLOCK * 8, 400, seed=1)
    pooled = scaled_histogram([blocks_of(weights, BLOCK)])
    real = scheme_error(Scheme("x", "x", code, 4, BLOCK, torch.float32), weights)  # type: ignore[arg-type]
    assert pooled.relative_error(levels) == pytest.approx(real, rel=BINNING)


def test_level_shares_sum_to_one_and_favour_the_middle() -> None:
    shares = scaled_histogram([normal_blocks(BLOCK, 2000, seed=1)]).level_shares(nf4_levels())
    assert shares.sum() == pytest.approx(1)
    assert shares[7] > 3 * shares[0]


def test_no_code_book_beats_the_fitted_one() -> None:
    pooled = scaled_histogram([normal_blocks(BLOCK, 2000, seed=1)])
    assert 0.02 < excess_over_fitted(pooled, nf4_levels()) < excess_over_fitted(pooled, even_levels())


def test_band_cuts_the_same_share_off_either_end() -> None:
    low, high = normal_kurtosis_band(BLOCK, 0.1, count=1000)
    values = kurtosis(normal_blocks(BLOCK, 1000, seed=0))
    assert (int((values < low).sum()), int((values > high).sum())) == (50, 50)


def test_matrices_enter_a_histogram_with_equal_energy_whatever_their_norm() -> None:
    one, other = normal_blocks(BLOCK, 50, seed=1), normal_blocks(BLOCK, 50, seed=2) ** 3
    alike, unlike = scaled_histogram([one, other]), scaled_histogram([one, 64 * other])
    assert unlike.energy == pytest.approx(alike.energy)
