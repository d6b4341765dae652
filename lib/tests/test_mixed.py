"""8-bit products and LLM.int8()'s decomposition: against numpy's integers, both extreme thresholds and error bounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from lib.quantization.absmax import NotFiniteError
from lib.quantization.mixed import (
    EXACT_COLUMNS,
    int8_product,
    mixed_bits_per_weight,
    mixed_product,
    outlier_columns,
    rounded,
)

EPS = float(torch.finfo(torch.float32).eps)
# Scale and quotient are rounded before a code is, the result once more: a few units of fp32 beside half a step.
SLACK = 1 + 512 * EPS
HALF_ULP = 2.0**-11  # relative rounding of an operand to fp16


def random(rows: int, columns: int, seed: int) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def with_outlier(column: int = 5, size: float = 200.0) -> tuple[Tensor, Tensor]:
    inputs = random(24, 96, 1)
    inputs[::2, column] = size
    return inputs, random(40, 96, 2)


def numpy_int8(inputs: Tensor, weights: Tensor) -> NDArray[np.float64]:
    """Codes and scales per row by numpy; the product in 64-bit integers."""
    coded = []
    for matrix in (inputs.numpy(), weights.numpy()):
        scales = np.abs(matrix).max(1, keepdims=True) / np.float32(127)
        coded.append((np.rint(matrix / scales).astype(np.int64), scales.astype(np.float64)))
    (a, a_scales), (b, b_scales) = coded
    return np.asarray((a @ b.T) * a_scales * b_scales.T)


def error_bound(inputs: Tensor, weights: Tensor, input_steps: Tensor) -> Tensor:
    """Of each output, (n, R): half a step on either side of every product."""
    x, w = inputs.double().abs(), weights.double().abs()
    weight_steps = w.amax(1, keepdim=True) / 127
    steps = input_steps.double().expand(len(x), 1)
    columns = inputs.shape[1]
    cross = columns * steps * weight_steps.T / 4
    return (x.sum(1, keepdim=True) * weight_steps.T / 2 + w.sum(1) * steps / 2 + cross) * SLACK


def test_int8_product_against_numpy_integers() -> None:
    inputs, weights = random(24, 96, 1), random(40, 96, 2)
    np.testing.assert_allclose(int8_product(inputs, weights).numpy(), numpy_int8(inputs, weights), rtol=2 * EPS)


def test_int8_product_is_exact_over_more_columns_than_fp32_can_sum() -> None:
    """Whole numbers up to 127 are their own codes. The wrong variant: all columns summed in fp32 at once."""
    generator = torch.Generator().manual_seed(0)
    inputs, weights = (torch.randint(64, 127, (16, 4 * EXACT_COLUMNS + 7), generator=generator).float() for _ in "xw")
    inputs[:, 0], weights[:, 0] = 127, 127
    exact = (inputs.double() @ weights.double().T).float()
    assert float(exact.min()) > 2**24
    assert torch.equal(int8_product(inputs, weights), exact)
    assert not torch.equal(inputs @ weights.T, exact)


def test_int8_product_rejects_one_scale_for_all_inputs() -> None:
    """The wrong variant: rows of very different size need scales of their own."""
    inputs, weights = random(24, 96, 1) * torch.logspace(-2, 1, 24)[:, None], random(40, 96, 2)
    shared = int8_product(inputs, weights, per_token=False)
    assert not np.allclose(shared.numpy(), numpy_int8(inputs, weights), rtol=2 * EPS)
    exact = linear(inputs.double(), weights.double())
    bound = error_bound(inputs, weights, inputs.abs().amax(1, keepdim=True) / 127)
    assert bool(((int8_product(inputs, weights) - exact).abs() <= bound).all())
    assert bool(((shared - exact).abs() > bound).any())


@pytest.mark.parametrize("per_token", [True, False])
def test_product_of_rounded_matrices_is_the_integer_product(per_token: bool) -> None:
    inputs, weights = random(24, 96, 1), random(40, 96, 2)
    ours = linear(rounded(inputs, shared=not per_token), rounded(weights))
    sizes = linear(inputs.double().abs(), weights.double().abs())
    margin = (96 + 4) * EPS * sizes * 1.1  # sums of 96, two roundings of each factor; rounded rows are a little longer
    assert bool(((ours - int8_product(inputs, weights, per_token)).abs() <= margin).all())
    other = int8_product(inputs, weights, not per_token)
    assert bool(((ours - other).abs() > margin).any())


def test_one_scale_for_all_inputs_against_the_scale_of_a_single_row() -> None:
    row, weights = random(1, 96, 3), random(40, 96, 2)
    assert torch.equal(int8_product(row, weights, per_token=False), int8_product(row, weights))


def test_infinite_threshold_is_the_plain_product() -> None:
    inputs, weights = with_outlier()
    assert torch.equal(mixed_product(inputs, weights, float("inf")), int8_product(inputs, weights))
    assert not torch.equal(mixed_product(inputs, weights), int8_product(inputs, weights))


def test_zero_threshold_is_the_exact_product() -> None:
    inputs, weights = with_outlier()
    assert torch.equal(mixed_product(inputs, weights, 0.0, torch.float32), linear(inputs, weights))


def test_zero_threshold_in_half_precision_is_within_two_roundings() -> None:
    inputs, weights = with_outlier()
    lost = (mixed_product(inputs, weights, 0.0) - linear(inputs.double(), weights.double())).abs()
    sizes = linear(inputs.double().abs(), weights.double().abs())
    assert bool((lost <= sizes * (2 * HALF_ULP + HALF_ULP**2 + inputs.shape[1] * EPS)).all())
    assert float(lost.max()) > 0


def test_decomposition_against_numpy_on_both_parts() -> None:
    inputs, weights = with_outlier()
    rest = torch.arange(96) != 5
    wide = np.outer(inputs[:, 5].half().double(), weights[:, 5].half().double())
    expected = numpy_int8(inputs[:, rest], weights[:, rest]) + wide
    # Five fp32 roundings, of half a unit each: three of the integers' part, one of the other, one of their sum.
    margin = 3 * EPS * (np.abs(wide) + np.abs(expected - wide))
    assert bool((np.abs(mixed_product(inputs, weights).numpy() - expected) <= margin).all())


def test_scales_leave_the_outliers_out() -> None:
    """Half a step of the other columns bounds the error; the wrong variant, outliers in the scale, breaks the bound."""
    inputs, weights = with_outlier()
    rest = torch.arange(96) != 5
    exact = linear(inputs.double(), weights.double())
    steps = inputs[:, rest].abs().amax(1, keepdim=True) / 127
    wide = 3 * HALF_ULP * (inputs[:, 5, None] * weights[:, 5]).abs()
    bound = error_bound(inputs[:, rest], weights[:, rest], steps) + wide
    assert bool(((mixed_product(inputs, weights) - exact).abs() <= bound).all())
    assert bool(((int8_product(inputs, weights) - exact).abs() > bound).any())


def test_outlier_columns_by_magnitude_anywhere_and_inclusive() -> None:
    inputs = torch.tensor([[6.0, 5.99, 0.0, 1.0], [0.0, -5.0, -7.0, 1.0]])
    assert outlier_columns(inputs).tolist() == [True, False, True, False]
    signed = (inputs >= 6.0).any(0)
    assert signed.tolist() != outlier_columns(inputs).tolist()


def test_zeros_stay_zeros() -> None:
    inputs, weights = random(4, 16, 0), random(6, 16, 1)
    inputs[1], weights[2] = 0, 0
    for product in (int8_product(inputs, weights), mixed_product(inputs, weights, 1.0)):
        assert bool(torch.isfinite(product).all())
        assert not product[1].any() and not product[:, 2].any()
    assert not int8_product(torch.zeros(4, 16), torch.zeros(6, 16)).any()


def test_constant_columns_are_columns_like_any_other() -> None:
    inputs, weights = random(24, 96, 1), random(40, 96, 2)
    inputs[:, 7], inputs[:, 8] = 50.0, 1.0
    assert outlier_columns(inputs)[7:9].tolist() == [True, False]
    exact = linear(inputs.double(), weights.double())
    error = [float((f(inputs, weights) - exact).norm() / exact.norm()) for f in (mixed_product, int8_product)]
    assert error[0] < error[1] / 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("product", [int8_product, mixed_product])
def test_what_is_not_finite_is_refused_on_either_side(bad: float, product: object) -> None:
    inputs, weights = random(4, 16, 0), random(6, 16, 1)
    inputs[2, 3] = bad
    with pytest.raises(NotFiniteError, match="inputs"):
        product(inputs, weights)  # type: ignore[operator]
    with pytest.raises(NotFiniteError, match="weights"):
        product(weights, inputs)  # type: ignore[operator]


def test_outliers_beyond_half_precision_are_refused() -> None:
    inputs, weights = with_outlier(size=7e4)
    with pytest.raises(NotFiniteError, match="float16"):
        mixed_product(inputs, weights)
    assert bool(torch.isfinite(mixed_product(inputs, weights, wide=torch.bfloat16)).all())


def test_bits_against_counted_ones() -> None:
    assert mixed_bits_per_weight(896, 896, 0) == 8 + 16 / 896
    assert mixed_bits_per_weight(2, 4, 4) == (8 * 16 + 2 * 16 + 4 * 16) / 8
    assert mixed_bits_per_weight(10, 4, 1) == (10 * (3 * 8 + 16) + 10 * 16 + 16) / 40
