"""One scale per matrix: profiles and outliers against plain computations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lib.quantization.errors import relative_error
from lib.quantization.schemes import SCHEMES
from lib.tensor_scale import closed_gap, errors_without_largest, largest_positions, largest_taken_out, profile

SUMS = 1e-5  # fp32 sums of squares, as in test_quantization_errors
INT4 = SCHEMES["int4-tensor"]


def with_outliers() -> Tensor:
    weights = torch.randn(60, 200, generator=torch.Generator().manual_seed(0))
    weights[0, :3] = torch.tensor([30.0, -60.0, 45.0])
    return weights


def test_profile_against_the_whole_reconstruction() -> None:
    weights, rebuilt = with_outliers(), INT4.reconstruct(with_outliers())
    found = profile(weights)
    assert found.zero_share(4) == found.int4.zero_fraction == float((rebuilt == 0).double().mean())
    assert found.outermost_share(4) == 1 / weights.numel()
    assert found.levels_holding(4, 1.0) == len(set(rebuilt.reshape(-1).tolist()))
    assert found.typical_steps(8) == pytest.approx(float(weights.abs().mean() / 60 * 127))
    assert found.levels[8].sum() == weights.numel()


def test_errors_without_outliers_against_a_plain_loop() -> None:
    weights = with_outliers()
    found = errors_without_largest(INT4, weights, [0, 1, 3])
    plain = []
    for kept in ([], [1], [0, 1, 2]):
        rest = weights.clone()
        rest[0, kept] = 0
        rebuilt = INT4.reconstruct(rest)
        rebuilt[0, kept] = weights[0, kept]
        plain.append(relative_error(weights, rebuilt))
    assert found == pytest.approx(plain, rel=SUMS)
    assert found[0] > 2 * found[2]
    assert torch.equal(weights, with_outliers())


def test_plain_loop_rejects_clipping_instead_of_taking_out() -> None:
    clipped = INT4.reconstruct(with_outliers().clamp(-5, 5))
    assert relative_error(with_outliers(), clipped) > 2 * errors_without_largest(INT4, with_outliers(), [3])[0]


@pytest.mark.parametrize("count", [0, 1, 7])
def test_largest_positions_against_topk_with_ties(count: int) -> None:
    weights = (with_outliers() * 2).round()
    found = largest_positions(weights, count)
    sizes = weights.abs().reshape(-1)
    assert len(set(found.tolist())) == count
    assert torch.equal(sizes[found], sizes.topk(count).values)


def test_counts_of_small_matrices_still_ascend() -> None:
    errors = largest_taken_out(with_outliers())
    assert len(errors) == 5
    assert errors[1] < errors[0]


def test_counts_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="ascend"):
        errors_without_largest(INT4, with_outliers(), [3, 1])


def test_closed_gap_shares() -> None:
    assert closed_gap([0.9, 0.9, 0.5, 0.1, 0.0], 0.1) == pytest.approx([0, 0, 0.5, 1, 1.125])
    with pytest.raises(ValueError, match="no gap"):
        closed_gap([0.1], 0.1)
