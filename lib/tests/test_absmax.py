"""Symmetric absmax: against the printed formula, torch's fake quantization, and its own bounds."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import arrays
from torch import Tensor

from lib.quantization.absmax import (
    NotFiniteError,
    absmax,
    all_finite,
    decode,
    divisor,
    encode,
    largest_code,
    printed_formula,
    printed_range,
    reachable_codes,
    reconstructs,
)

EPS = float(torch.finfo(torch.float32).eps)
# A code's argument w / scale passes two roundings (scale, quotient) here and three in torch (reciprocal, product).
TIE_ULPS = 5
# Reconstruction: half a step, plus those roundings and one of the product, each relative to at most qmax steps.
BITS = st.sampled_from([2, 4, 8])
NORMAL_FLOATS = st.floats(-1e4, 1e4, width=32).filter(lambda v: v == 0 or abs(v) > 1e-30)
ROWS = arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=NORMAL_FLOATS)


def random_groups(seed: int = 0) -> Tensor:
    return torch.randn(64, 96, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bits", [4, 8])
def test_codes_against_the_printed_formula(bits: int) -> None:
    for row in random_groups():
        codes, scale = printed_formula(row, bits)
        assert torch.equal(encode(row[None], scale.reshape(1, 1), bits)[0].float(), codes)


@pytest.mark.parametrize("bits", [4, 8])
def test_codes_against_torch_fake_quantize_except_at_ties(bits: int) -> None:
    groups = random_groups()
    scale = float(absmax(groups, shared=True)) / largest_code(bits)
    ours = decode(encode(groups, torch.tensor([[scale]]), bits), torch.tensor([[scale]]))
    theirs = torch.fake_quantize_per_tensor_affine(groups, scale, 0, -largest_code(bits) - 1, largest_code(bits))
    differ = (ours - theirs).abs() > scale / 2
    from_tie = ((groups / scale).abs() % 1 - 0.5).abs()
    assert bool((from_tie[differ] <= TIE_ULPS * EPS * largest_code(bits)).all())


def test_torch_fake_quantize_comparison_rejects_rounding_down() -> None:
    groups, scale = random_groups(), torch.tensor([[0.5]])
    floored = torch.floor(groups / scale).clamp_(-7, 7) * scale
    theirs = torch.fake_quantize_per_tensor_affine(groups, 0.5, 0, -8, 7)
    assert int(((floored - theirs).abs() > 0.25).sum()) > groups.numel() // 4


def test_half_way_cases_round_to_even() -> None:
    codes = encode(torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 7.0]]), torch.ones(1, 1), 4)
    assert codes.tolist() == [[0, 2, 2, 0, -2, -2, 7]]
    half_up = torch.floor(torch.tensor([0.5, 1.5, 2.5]) + 0.5)
    assert half_up.tolist() != codes[0, :3].tolist()


@given(ROWS, BITS)
def test_lowest_code_never_occurs_and_the_largest_weight_reaches_the_end(rows: np.ndarray, bits: int) -> None:
    groups = torch.from_numpy(rows)
    codes = encode(groups, absmax(groups) / largest_code(bits), bits).to(torch.int32)
    assert int(codes.min()) >= -largest_code(bits)
    live = groups.abs().amax(1) > 0
    assert bool((codes[live].abs().amax(1) == largest_code(bits)).all())


@given(ROWS, BITS)
def test_error_is_at_most_half_a_step(rows: np.ndarray, bits: int) -> None:
    groups = torch.from_numpy(rows)
    scales = absmax(groups) / largest_code(bits)
    error = (decode(encode(groups, scales, bits), scales) - groups).abs()
    assert bool((error <= scales * (0.5 + TIE_ULPS * EPS * largest_code(bits))).all())


def test_every_other_code_occurs() -> None:
    ramp = torch.linspace(-1, 1, 2**14)
    for bits in (4, 8):
        codes, _ = printed_formula(ramp, bits)
        assert len(set(codes.tolist())) == reachable_codes(bits) == 2**bits - 1


def test_printed_formula_uses_the_lowest_code_only_for_subnormal_weights() -> None:
    unit = 2.0**-149  # the smallest positive fp32
    codes, scale = printed_formula(torch.tensor([-10 * unit]), 4)
    assert (float(scale), codes.tolist()) == (unit, [-8.0])


def test_largest_weight_of_negative_sign_goes_to_minus_qmax() -> None:
    assert printed_formula(torch.tensor([-3.0, 1.0]), 4)[0].tolist() == [-7.0, 2.0]
    assert printed_range([torch.tensor([-3.0, 1.0])], 4).highest == 2


def test_zeros_stay_zeros_where_the_printed_formula_gives_nan() -> None:
    zeros = torch.zeros(2, 8)
    scales = absmax(zeros) / 7
    assert not reconstructs(zeros, 4)
    assert torch.equal(decode(encode(zeros, scales, 4), scales), zeros)
    assert divisor(scales).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("shared", [False, True])
def test_weights_that_are_not_finite_are_refused(bad: float, shared: bool) -> None:
    with pytest.raises(NotFiniteError):
        absmax(torch.tensor([[1.0, bad], [1.0, 2.0]]), shared)


@pytest.mark.parametrize("bits", [1, 9])
def test_impossible_bit_widths_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="2 to 8 bits"):
        largest_code(bits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_all_finite_against_a_mask_of_every_value(bad: float, dtype: torch.dtype) -> None:
    """At every place, so in every lane and in the rest behind the last full vector."""
    values = torch.linspace(-3, 3, 83).to(dtype)
    assert all_finite(values)
    assert all_finite(values[:0])
    for place in range(len(values)):
        spoiled = values.clone()
        spoiled[place] = bad
        assert not all_finite(spoiled)
        assert not bool(torch.isfinite(spoiled).all())


def test_all_finite_rejects_looking_at_the_largest_alone() -> None:
    """The wrong variant: an infinity below everything is not the largest value."""
    values = torch.tensor([1.0, -float("inf"), 2.0])
    assert bool(values.max().isfinite())
    assert not all_finite(values)
