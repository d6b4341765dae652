"""Schemes: bits per weight, groups that do not divide the columns, stored scales, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.quantization import nf4
from lib.quantization.schemes import SCHEMES, Scheme

# A scale stored in fp16 is off by at most 2^-11 of itself (round to nearest, normal numbers).
FP16_ROUNDING = 2**-11


def matrix(rows: int = 24, columns: int = 256, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 0.02


@pytest.mark.parametrize(
    ("slug", "bits"),
    [("int8-row", 8 + 16 / 256), ("int4-tensor", 4 + 16 / (24 * 256)), ("int4-g128", 4.125), ("nf4-b64", 4.25),
     ("affine4-g32", 4 + 20 / 32)],
)  # fmt: skip
def test_bits_per_weight_count_scales_and_zero_points(slug: str, bits: float) -> None:
    assert SCHEMES[slug].bits_per_weight(24, 256) == pytest.approx(bits, rel=1e-12)


def test_bits_per_weight_of_groups_that_do_not_divide_the_columns() -> None:
    assert SCHEMES["int4-g128"].bits_per_weight(1, 576) == 4 + 5 * 16 / 576  # five scales, the last for 64 weights
    assert SCHEMES["int4-g128"].bits_per_weight(1, 576) != 4.125


def test_fp32_scales_cost_sixteen_bits_more_per_group() -> None:
    assert Scheme("x", "x", "nf4", 4, 64, torch.float32).bits_per_weight(24, 256) == 4.5


@pytest.mark.parametrize("slug", ["int4-g128", "affine4-g64", "nf4-b64"])
def test_a_short_last_group_is_quantized_by_itself(slug: str) -> None:
    scheme, weights = SCHEMES[slug], matrix(columns=192 + 32)
    tail = scheme.reconstruct(weights[:, 192:]) if scheme.group == 64 else scheme.reconstruct(weights[:, 128:])
    assert torch.equal(scheme.reconstruct(weights)[:, -tail.shape[1] :], tail)


@pytest.mark.parametrize("slug", list(SCHEMES))
def test_zeros_reconstruct_as_zeros(slug: str) -> None:
    weights = matrix()
    weights[:, :128] = 0
    rebuilt = SCHEMES[slug].reconstruct(weights)
    assert bool(torch.isfinite(rebuilt).all())
    assert torch.equal(rebuilt[:, :128], weights[:, :128])


@pytest.mark.parametrize("slug", ["int8-row", "int4-g64", "nf4-b64"])
def test_codes_are_computed_against_the_stored_scale(slug: str) -> None:
    scheme, weights = SCHEMES[slug], matrix()
    quantized = scheme.quantize(weights)
    assert quantized.scales.dtype == torch.float16
    exact = Scheme("x", "x", scheme.code, scheme.bits, scheme.group, torch.float32).quantize(weights)
    error = (quantized.scales.float() / exact.scales - 1).abs().max()
    assert 0 < float(error) <= FP16_ROUNDING or slug == "int8-row"  # rows of 0.02 / 127 are subnormal in fp16
    assert torch.equal(scheme.dequantize(quantized).reshape(weights.shape), scheme.reconstruct(weights))


def test_per_tensor_and_per_row_agree_on_one_row() -> None:
    row = matrix(rows=1)
    assert torch.equal(SCHEMES["int4-tensor"].reconstruct(row), SCHEMES["int4-row"].reconstruct(row))
    two = matrix(rows=2)
    assert not torch.equal(SCHEMES["int4-tensor"].reconstruct(two), SCHEMES["int4-row"].reconstruct(two))


def test_half_precision_weights_are_quantized_in_fp32() -> None:
    weights = matrix().half()
    assert torch.equal(SCHEMES["int4-g64"].reconstruct(weights), SCHEMES["int4-g64"].reconstruct(weights.float()))


def test_impossible_schemes_are_refused() -> None:
    with pytest.raises(ValueError, match="4 bits"):
        Scheme("x", "x", "nf4", 8, 64)
    with pytest.raises(ValueError, match="row or group"):
        Scheme("x", "x", "affine", 4, "tensor")
    with pytest.raises(ValueError, match="at least one weight"):
        Scheme("x", "x", "absmax", 4, 0)
    with pytest.raises(ValueError, match="expected a matrix"):
        SCHEMES["int4-row"].quantize(torch.zeros(3))


def test_registry_is_read_only_and_keyed_by_slug() -> None:
    assert all(slug == scheme.slug for slug, scheme in SCHEMES.items())
    with pytest.raises(TypeError):
        SCHEMES["x"] = SCHEMES["int4-row"]  # type: ignore[index]
    assert math.isclose(SCHEMES["nf4-b64"].bits_per_weight(896, 4864), 4.25)


@pytest.mark.parametrize(("slug", "levels"), [("nf4-b64", nf4.nf4_levels()), ("even4-b64", nf4.even_levels())])
def test_schemes_by_levels_against_the_nearest_level(slug: str, levels: np.ndarray) -> None:
    """Each weight over its block's stored absmax goes to the nearest level, found here by trying all sixteen."""
    weights = torch.randn(4, 128, generator=torch.Generator().manual_seed(3))
    blocks = weights.reshape(-1, 64)
    scale = blocks.abs().amax(1, keepdim=True).half().float()
    book = torch.tensor(levels, dtype=torch.float32)
    nearest = (blocks[..., None] / scale[..., None] - book).abs().argmin(-1)
    assert torch.allclose(SCHEMES[slug].reconstruct(weights), (book[nearest] * scale).reshape(4, 128))
