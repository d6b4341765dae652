"""AWQ's scale search: against numpy's own search, plain rounding, and a search led by the weights instead."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.quantization.absmax import NotFiniteError
from lib.quantization.awq import (
    FLOOR,
    awq,
    awq_bits_per_weight,
    channel_scales,
    output_energy,
    scaled_reconstruction,
)
from lib.quantization.schemes import SCHEMES

SCHEME = SCHEMES["int4-g32"]
FP16_ROUNDING = 2.0**-11
# Two scales are rounded to fp16, and the fp32 powers before them add a few units that are a thousand times smaller.
RATIO_TOLERANCE = 2.02 * FP16_ROUNDING


def layer(seed: int = 0, columns: int = 96) -> tuple[Tensor, Tensor]:
    """Weights (24, K) and inputs (64, K); one channel in 32 is read at thirty times the others' size."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(64, columns, generator=generator)
    inputs[:, ::32] *= 30
    return torch.randn(24, columns, generator=generator) * 0.05, inputs


def magnitudes(inputs: Tensor) -> Tensor:
    return inputs.abs().mean(0)


def numpy_search(weights: Tensor, inputs: Tensor, steps: int) -> tuple[float, list[float]]:
    """The same search from the paper's formulas, INT4 in groups of 32 with fp16 scales: exponent and all errors."""
    w, x = weights.numpy(), inputs.numpy().astype(np.float64)
    m = np.abs(inputs.numpy()).mean(0)
    errors = []
    for step in range(steps + 1):
        s = m ** np.float32(step / steps)
        s = (s / np.sqrt(s.max() * s.min())).astype(np.float16).astype(np.float32)
        groups = (w * s).reshape(-1, 32)
        scales = (np.abs(groups).max(1, keepdims=True) / np.float32(7)).astype(np.float16).astype(np.float32)
        rebuilt = (np.rint(groups / scales).clip(-7, 7) * scales).reshape(w.shape) / s
        errors.append(float(((x @ (rebuilt - w).T.astype(np.float64)) ** 2).sum()))
    return int(np.argmin(errors)) / steps, errors


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exponent_and_error_against_numpy_search(seed: int) -> None:
    """Codes at ties may differ between the two, by far less than neighbouring exponents differ."""
    weights, inputs = layer(seed)
    fit = awq(weights, magnitudes(inputs), inputs, SCHEME, steps=10)
    exponent, errors = numpy_search(weights, inputs, 10)
    assert fit.exponent == exponent
    assert 0 < exponent < 1
    assert output_energy(fit.weights - weights, inputs) == pytest.approx(min(errors), rel=0.01)


def test_scales_against_the_closed_form() -> None:
    m = torch.tensor([0.5, 2.0, 8.0, 1.0])
    for exponent in (0.25, 0.5, 1.0):
        scales = channel_scales(m, exponent)
        expected = (m / m[0]) ** exponent
        torch.testing.assert_close(scales / scales[0], expected, rtol=RATIO_TOLERANCE, atol=0)
        assert float(scales.max() * scales.min()) == pytest.approx(1, rel=RATIO_TOLERANCE)


def test_exponent_zero_is_plain_rounding() -> None:
    weights, inputs = layer()
    ones = channel_scales(magnitudes(inputs), 0.0)
    assert ones.tolist() == [1.0] * 96
    assert torch.equal(scaled_reconstruction(weights, ones, SCHEME), SCHEME.reconstruct(weights))


@pytest.mark.parametrize("slug", ["int4-g32", "affine4-g32", "nf4-b32", "int4-row"])
@pytest.mark.parametrize("seed", [0, 1])
def test_error_against_plain_rounding(slug: str, seed: int) -> None:
    """On the rows it was fitted to never worse by construction; on others of the same kind clearly better."""
    weights, inputs = layer(seed)
    scheme, seen, held_out = SCHEMES[slug], inputs[:32], inputs[32:]
    fit = awq(weights, magnitudes(seen), seen, scheme)
    plain = scheme.reconstruct(weights) - weights
    assert output_energy(fit.weights - weights, seen) <= output_energy(plain, seen)
    assert output_energy(fit.weights - weights, held_out) < 0.7 * output_energy(plain, held_out)


def test_gain_rejects_scales_led_by_the_weights() -> None:
    """The wrong variant: weights alone do not show which channels are read loudly."""
    weights, inputs = layer()
    right = awq(weights, magnitudes(inputs), inputs, SCHEME)
    wrong = awq(weights, magnitudes(weights), inputs, SCHEME)
    energies = [output_energy(fit.weights - weights, inputs) for fit in (right, wrong)]
    assert energies[0] < 0.7 * energies[1]


def test_silent_and_constant_channels() -> None:
    weights, inputs = layer()
    inputs[:, 4], inputs[:, 5] = 0, 3.0
    fit = awq(weights, magnitudes(inputs), inputs, SCHEME)
    assert bool((torch.isfinite(fit.scales) & (fit.scales > 0)).all())
    assert bool(torch.isfinite(fit.weights).all())
    assert float(channel_scales(magnitudes(inputs), 1.0).min()) == pytest.approx(FLOOR**0.5, rel=RATIO_TOLERANCE)
    assert float((magnitudes(inputs) ** 0.5).min()) == 0  # unguarded, a division by zero


def test_inputs_of_zeros_change_nothing() -> None:
    weights, inputs = layer()
    fit = awq(weights, torch.zeros(96), torch.zeros_like(inputs), SCHEME)
    assert fit.exponent == 0
    assert torch.equal(fit.weights, SCHEME.reconstruct(weights))


def test_groups_of_zeros_stay_zeros() -> None:
    weights, inputs = layer()
    weights[3, 32:64] = 0
    weights[7] = 0
    rebuilt = awq(weights, magnitudes(inputs), inputs, SCHEME).weights
    assert not rebuilt[3, 32:64].any() and not rebuilt[7].any()
    assert bool(torch.isfinite(rebuilt).all())


@pytest.mark.parametrize("position", ["weights", "magnitudes", "inputs"])
def test_what_is_not_finite_is_refused_by_name(position: str) -> None:
    weights, inputs = layer()
    given = {"weights": weights, "magnitudes": magnitudes(inputs), "inputs": inputs}
    given[position].view(-1)[5] = float("nan")
    with pytest.raises(NotFiniteError, match=position):
        awq(**given, scheme=SCHEME)


def test_a_grid_without_steps_is_refused() -> None:
    weights, inputs = layer()
    with pytest.raises(ValueError, match="one step"):
        awq(weights, magnitudes(inputs), inputs, SCHEME, steps=0)


def test_bits_count_the_scales() -> None:
    assert awq_bits_per_weight(SCHEMES["int4-g128"], 896, 896) == 4.125 + 16 / 896


def test_channels_that_are_read_at_less_than_one_are_scaled_too() -> None:
    """The wrong variant takes whatever is small for silence."""
    assert channel_scales(torch.tensor([0.5, 0.125]), 1.0).tolist() == [2.0, 0.5]
    assert channel_scales(torch.zeros(2), 1.0).tolist() == [1.0, 1.0]
