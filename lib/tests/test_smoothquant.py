"""SmoothQuant: against the unchanged product, the ranges its formula promises, and plain 8-bit rounding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from lib.quantization.absmax import NotFiniteError
from lib.quantization.mixed import int8_product
from lib.quantization.smoothquant import column_max, migration_factors, smooth, smooth_product

EPS = float(torch.finfo(torch.float32).eps)
COLUMNS = 64
# Either operand is rounded once when it is scaled, and the sum of products as often as there are columns, twice.
PRODUCT_ULPS = 2 + 2 * COLUMNS
# A power, a root or a quotient may be off by a few units, the product of three of them by some more.
RANGE_TOLERANCE = 16 * EPS


def outlying(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Inputs (48, 64) with two channels a hundred times the others, weights (32, 64)."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(48, COLUMNS, generator=generator)
    inputs[:, [3, 40]] *= 100
    return inputs, torch.randn(32, COLUMNS, generator=generator) * 0.05


def factors_of(inputs: Tensor, weights: Tensor, strength: float = 0.5) -> Tensor:
    return migration_factors(inputs.abs().amax(0), column_max(weights), strength)


def relative(outputs: Tensor, exact: Tensor) -> float:
    return float((outputs - exact).norm() / exact.norm())


@pytest.mark.parametrize("strength", [0.0, 0.3, 0.5, 1.0])
def test_product_before_rounding_is_unchanged(strength: float) -> None:
    inputs, weights = outlying()
    smoothed = smooth(inputs, weights, factors_of(inputs, weights, strength))
    sizes = linear(inputs.double().abs(), weights.double().abs())
    assert bool(((linear(*smoothed) - linear(inputs, weights)).abs() <= PRODUCT_ULPS * EPS * sizes).all())


def test_product_is_unchanged_bit_for_bit_by_powers_of_two() -> None:
    inputs, weights = outlying()
    factors = 2.0 ** torch.randint(-4, 5, (COLUMNS,), generator=torch.Generator().manual_seed(1)).float()
    assert torch.equal(linear(*smooth(inputs, weights, factors)), linear(inputs, weights))


def test_unchanged_product_rejects_factors_on_the_wrong_side() -> None:
    inputs, weights = outlying()
    factors = factors_of(inputs, weights)
    assert relative(linear(inputs / factors, weights / factors), linear(inputs, weights)) > 0.1
    assert relative(linear(inputs * factors, weights), linear(inputs, weights)) > 0.1


def test_ranges_against_the_closed_form() -> None:
    inputs, weights = outlying()
    x, w = inputs.abs().amax(0), column_max(weights)
    for strength in (0.0, 0.25, 0.5, 1.0):
        scaled_inputs, scaled_weights = smooth(inputs, weights, migration_factors(x, w, strength))
        expected = (x.double() * w.double()) ** (1 - strength), (x.double() * w.double()) ** strength
        torch.testing.assert_close(scaled_inputs.abs().amax(0).double(), expected[0], rtol=RANGE_TOLERANCE, atol=0)
        torch.testing.assert_close(column_max(scaled_weights).double(), expected[1], rtol=RANGE_TOLERANCE, atol=0)


def test_ranges_reject_exchanged_exponents() -> None:
    """The wrong variant: α on the weights and 1-α on the inputs makes inputs even at α = 0, not at 1."""
    inputs, weights = outlying()
    x, w = inputs.abs().amax(0), column_max(weights)
    exchanged = inputs / (x**0.0 / w**1.0)
    right = smooth(inputs, weights, migration_factors(x, w, 1.0))[0]
    assert float(right.abs().amax(0).std()) < RANGE_TOLERANCE
    assert float(exchanged.abs().amax(0).std()) > 0.1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_error_against_plain_rounding_with_outlying_channels(seed: int) -> None:
    """Factors from one half of the rows, the error on the other; one scale for all inputs, the paper's hard case."""
    inputs, weights = outlying(seed)
    factors, held_out = factors_of(inputs[:24], weights), inputs[24:]
    exact = linear(held_out.double(), weights.double())
    for per_token in (False, True):
        plain = relative(int8_product(held_out, weights, per_token), exact)
        assert relative(smooth_product(held_out, weights, factors, per_token), exact) < plain
    backwards = relative(smooth_product(held_out, weights, 1 / factors, per_token=False), exact)
    assert backwards > relative(int8_product(held_out, weights, per_token=False), exact)


def test_channels_without_a_range_are_left_alone() -> None:
    inputs, weights = outlying()
    inputs[:, 5], weights[:, 6], inputs[:, 7] = 0, 0, 2.5  # silent, unread, constant
    factors = factors_of(inputs, weights)
    assert factors[[5, 6]].tolist() == [1.0, 1.0]
    assert bool((torch.isfinite(factors) & (factors > 0)).all())
    assert bool(torch.isfinite(smooth_product(inputs, weights, factors)).all())
    assert not bool(torch.isfinite(inputs.abs().amax(0) ** 0.5 / column_max(weights) ** 0.5).all())


def test_nothing_but_zeros() -> None:
    zeros = torch.zeros(4, 8)
    factors = migration_factors(zeros.amax(0), zeros.amax(0))
    assert factors.tolist() == [1.0] * 8
    assert not smooth_product(zeros, zeros, factors).any()


def test_bad_input_is_refused() -> None:
    good, bad = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
    with pytest.raises(NotFiniteError, match="largest inputs"):
        migration_factors(bad, good)
    with pytest.raises(NotFiniteError, match="largest weights"):
        migration_factors(good, bad)
    with pytest.raises(NotFiniteError, match="inputs"):
        smooth_product(bad[None], good[None], good)
    with pytest.raises(ValueError, match="strength"):
        migration_factors(good, good, 1.5)
