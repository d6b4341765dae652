"""AWQ (Lin et al. 2023, arXiv:2306.00978): columns that meet large inputs are scaled up before weights are rounded.

The weights become Q(W diag(s)) diag(s)^-1 with s = m^α, m the mean magnitude of each input channel; α is searched on
a grid from 0, plain rounding, to 1, for the least output error on some rows of inputs. The division by s belongs into
whatever computes the inputs; where that cannot take it, s is stored, which is what the bits here count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from lib.quantization.calibration import require_finite
from lib.quantization.schemes import Scheme

STEPS = 20  # of the grid, the paper's
FLOOR = 1e-6  # of the largest magnitude: channels below it are treated as if at it, or silent ones would get s = 0
SCALE_BITS = 16  # fp16, one per column


@dataclass(frozen=True)
class AwqFit:
    """exponent: the α found. scales: s (K,), as stored in fp16. weights: the reconstruction (R, K), fp32."""

    exponent: float
    scales: Tensor
    weights: Tensor


def channel_scales(magnitudes: Tensor, exponent: float) -> Tensor:
    """s (K,) = m^α for magnitudes m (K,) ≥ 0, its largest and smallest value reciprocal, rounded to fp16."""
    largest = magnitudes.max()
    floored = magnitudes.clamp(min=float(largest) * FLOOR) if largest > 0 else torch.ones_like(magnitudes)
    powers = (floored / floored.max()) ** exponent
    return (powers / (powers.max() * powers.min()).sqrt()).half().float()


def scaled_reconstruction(weights: Tensor, scales: Tensor, scheme: Scheme) -> Tensor:
    """Q(W diag(s)) diag(s)^-1 of weights (R, K)."""
    return scheme.reconstruct(weights * scales) / scales


def output_energy(difference: Tensor, inputs: Tensor) -> float:
    """||X D^T||², what a change D (R, K) of the weights does to the outputs of inputs X (n, K)."""
    return float(linear(inputs, difference).square().sum(dtype=torch.float64))


def awq(weights: Tensor, magnitudes: Tensor, inputs: Tensor, scheme: Scheme, steps: int = STEPS) -> AwqFit:
    """The best of α = 0, 1/steps, …, 1 for weights (R, K), channel magnitudes (K,) and rows of inputs (n, K).

    Never worse on these rows than α = 0, which is plain rounding. Raises NotFiniteError and ValueError (no steps).
    """
    if steps < 1:
        raise ValueError(f"the grid needs at least one step, got {steps}")
    for what, values in (("weights", weights), ("magnitudes", magnitudes), ("inputs", inputs)):
        require_finite(what, values)
    best, least = 0.0, math.inf
    for exponent in (step / steps for step in range(steps + 1)):
        rebuilt = scaled_reconstruction(weights, channel_scales(magnitudes, exponent), scheme)
        energy = output_energy(rebuilt.sub_(weights), inputs)
        if energy < least:  # never true of NaN, which a scale beyond fp16 would give
            best, least = exponent, energy
    scales = channel_scales(magnitudes, best)
    return AwqFit(best, scales, scaled_reconstruction(weights, scales, scheme))


def awq_bits_per_weight(scheme: Scheme, rows: int, columns: int) -> float:
    """The scheme's own bits and one stored scale per column."""
    return scheme.bits_per_weight(rows, columns) + SCALE_BITS / rows
