"""Affine quantization against torch's per-channel fake quantization, and at the edges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lib.quantization.absmax import NotFiniteError
from lib.quantization.affine import affine_range, decode, encode, zero_points

EPS = float(torch.finfo(torch.float32).eps)
# w / scale + zero stays below 16; two roundings here and three in torch.
TIE = 5 * EPS * 16


def groups() -> Tensor:
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(0)) + 0.3


def through(weights: Tensor, zero_shift: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    scales, low = affine_range(weights, 4)
    zeros = zero_points(scales, low, 4) + zero_shift
    return decode(encode(weights, scales, zeros, 4), scales, zeros), scales, zeros


def differing_off_ties(ours: Tensor, weights: Tensor, scales: Tensor, zeros: Tensor) -> int:
    theirs = torch.fake_quantize_per_channel_affine(weights, scales[:, 0], zeros[:, 0].int(), 0, 0, 15)
    from_tie = ((weights / scales).abs() % 1 - 0.5).abs()
    return int((((ours - theirs).abs() > scales / 2) & (from_tie > TIE)).sum())


def test_reconstruction_against_torch_fake_quantize_per_channel() -> None:
    ours, scales, zeros = through(groups())
    assert differing_off_ties(ours, groups(), scales, zeros) == 0


def test_torch_comparison_rejects_a_wrong_zero_point() -> None:
    ours, scales, zeros = through(groups(), zero_shift=1)
    assert differing_off_ties(ours, groups(), scales, zeros - 1) > 0


def test_both_ends_and_zero_are_levels() -> None:
    weights = torch.tensor([[-1.0, 0.0, 0.4, 2.0]])
    ours, _, _ = through(weights)
    assert ours[0, 1] == 0
    assert ours[0, [0, 3]].tolist() == pytest.approx([-1.0, 2.0], rel=4 * EPS)


@pytest.mark.parametrize("row", [[1.0, 2.0, 3.0], [-3.0, -2.0, -1.0], [0.0, 0.0, 0.0], [5.0, 5.0, 5.0]])
def test_one_sided_and_constant_groups_keep_their_range(row: list[float]) -> None:
    weights = torch.tensor([row])
    ours, scales, _ = through(weights)
    assert bool(((ours - weights).abs() <= scales / 2 * (1 + TIE)).all())


def test_weights_that_are_not_finite_are_refused() -> None:
    with pytest.raises(NotFiniteError):
        affine_range(torch.tensor([[1.0, float("nan")]]), 4)
