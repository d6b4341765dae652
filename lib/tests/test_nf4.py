"""NF4: the derived code book against the published table, the lookup against a search, and fitted code books."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from lib.quantization.nf4 import (
    NF4_SIGMA,
    boundaries,
    decode,
    encode,
    equal_mass_levels,
    even_levels,
    fitted_levels,
    gaps,
    is_evenly_probable,
    nf4_levels,
    normal_mass,
)

# QLoRA (arXiv:2305.14314), appendix E; the same sixteen numbers stand in bitsandbytes.
PUBLISHED = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
# The published numbers went through fp32 probabilities near 1/2 and above: an error of one unit there, 2^-24, becomes
# at most 2^-24 / density(1.85) / 1.85 in a level.
PUBLISHED_ROUNDING = 2**-24 / float(norm.pdf(1 / NF4_SIGMA)) * NF4_SIGMA
# bitsandbytes multiplies by a rounded reciprocal: two fp32 roundings of numbers up to 1, one of the boundary.
BOUNDARY_ROUNDING = 3 * 2**-24
# Levels of least squared error for a unit normal, two and four of them (Max 1960, table I), printed to four decimals.
MAX_1960 = {2: (-0.7980, 0.7980), 4: (-1.510, -0.4528, 0.4528, 1.510)}
MAX_ROUNDING = 0.5e-3  # half a unit of 1.510's last digit; the histogram below is finer than that


def blocks(seed: int = 0) -> Tensor:
    return torch.randn(512, 64, generator=torch.Generator().manual_seed(seed))


def scales_of(weights: Tensor) -> Tensor:
    return weights.abs().amax(1, keepdim=True)


def searched(weights: Tensor, scales: Tensor, levels: np.ndarray) -> Tensor:
    edges = torch.from_numpy(boundaries(levels).astype(np.float32))
    return torch.bucketize((weights / scales).contiguous(), edges).to(torch.uint8)


def test_levels_against_the_published_table() -> None:
    assert np.abs(nf4_levels() - PUBLISHED).max() <= PUBLISHED_ROUNDING


@pytest.mark.parametrize("outer", [1 - 1 / 32, 1 - 1 / 30])
def test_published_table_rejects_another_outer_quantile(outer: float) -> None:
    assert np.abs(nf4_levels(outer) - PUBLISHED).max() > 1000 * PUBLISHED_ROUNDING


def test_published_table_rejects_equally_probable_quantiles() -> None:
    assert np.abs(equal_mass_levels() - PUBLISHED).max() > 0.02
    assert 0.0 not in equal_mass_levels()


@pytest.mark.parametrize("levels", [nf4_levels(), even_levels(), equal_mass_levels()], ids=["nf4", "even", "mass"])
def test_lookup_against_a_search_in_the_boundaries(levels: np.ndarray) -> None:
    edges = boundaries(levels).astype(np.float32)
    near = np.concatenate([edges, np.nextafter(edges, np.float32(2)), np.nextafter(edges, np.float32(-2)), [-1, 1, 0]])
    weights = torch.cat([blocks(), torch.from_numpy(np.resize(near.astype(np.float32), (1, 64)))])
    scales = scales_of(weights)
    assert torch.equal(encode(weights, scales, levels), searched(weights, scales, levels))


def test_lookup_refuses_a_code_book_with_two_boundaries_in_a_cell() -> None:
    with pytest.raises(ValueError, match="too fine"):
        encode(blocks(), scales_of(blocks()), np.array([-1.0, 0.0, 0.001, 0.002, 1.0]))


def test_nearest_level_is_chosen_and_decoded() -> None:
    weights = blocks()
    scales = scales_of(weights)
    rebuilt = decode(encode(weights, scales, nf4_levels()), scales, nf4_levels())
    book = torch.from_numpy(nf4_levels().astype(np.float32))
    best = ((weights / scales).unsqueeze(-1) - book).abs().amin(-1)
    assert torch.allclose((rebuilt - weights).abs() / scales, best, rtol=0, atol=4 * float(torch.finfo().eps))


def test_a_block_of_zeros_stays_zeros() -> None:
    zeros = torch.zeros(1, 64)
    assert torch.equal(decode(encode(zeros, scales_of(zeros), nf4_levels()), scales_of(zeros), nf4_levels()), zeros)


def test_each_half_is_evenly_probable_but_not_the_whole() -> None:
    levels = nf4_levels()
    assert is_evenly_probable(levels[levels <= 0])
    assert is_evenly_probable(levels[levels >= 0])
    assert not is_evenly_probable(levels)
    assert not is_evenly_probable(even_levels()[7:])


def test_normal_mass_sums_to_one_and_is_equal_for_boundaries_at_quantiles() -> None:
    assert normal_mass(nf4_levels(), NF4_SIGMA).sum() == pytest.approx(1, abs=1e-15)
    assert np.ptp(normal_mass(equal_mass_levels(4), 1 / float(norm.ppf(7 / 8)))) < 0.05


def test_gaps_are_the_distances() -> None:
    assert gaps(np.array([-1.0, 0.0, 0.5])) == [1.0, 0.5]


@pytest.mark.parametrize("count", [2, 4])
def test_fitted_levels_against_the_optimal_quantizer_of_a_normal(count: int) -> None:
    centres = np.linspace(-6, 6, 24_001)
    fitted = fitted_levels(centres, norm.pdf(centres), np.linspace(-1, 1, count))
    assert fitted == pytest.approx(MAX_1960[count], abs=MAX_ROUNDING)
    assert norm.ppf((np.arange(count) + 0.5) / count) != pytest.approx(MAX_1960[count], abs=MAX_ROUNDING)


def test_fitted_levels_leave_an_empty_cell_alone() -> None:
    assert fitted_levels(np.array([0.0]), np.array([1.0]), np.array([-1.0, 0.2, 1.0])).tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize("block", [32, 64, 128, 256, 512, 1024, 2048, 4096])
def test_codes_and_scales_against_bitsandbytes(block: int) -> None:
    functional = pytest.importorskip("bitsandbytes.functional", exc_type=ImportError)
    weights = torch.randn(8, 4096, generator=torch.Generator().manual_seed(block))
    packed, state = functional.quantize_4bit(weights, blocksize=block, quant_type="nf4")
    ours = weights.reshape(-1, block)
    codes = encode(ours, scales_of(ours), nf4_levels()).reshape(-1)
    theirs = torch.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 0xF], dim=1).reshape(-1)
    scaled = (ours.double() / scales_of(ours)).reshape(-1)[codes != theirs]
    from_boundary = (scaled[:, None] - torch.from_numpy(boundaries(nf4_levels()))).abs().amin(1)
    assert bool((from_boundary <= BOUNDARY_ROUNDING).all())
    assert torch.equal(scales_of(ours).reshape(-1), state.absmax)
    assert state.absmax.dtype == torch.float32  # 32 bits per block, not 16
