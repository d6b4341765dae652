"""SmoothQuant (Xiao et al. 2023, arXiv:2211.10438): part of the inputs' range is moved into the weights.

Channel j of the inputs is divided by s_j and column j of the weights multiplied by it, which changes nothing in the
product but its rounding: s_j = max|X_j|^α / max|W_j|^(1-α). At α = 1/2 both get the range √(max|X_j| max|W_j|), at 1
all inputs get the same, at 0 all weights. In use the division is folded into whatever computes X, at no cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lib.quantization.calibration import require_finite
from lib.quantization.mixed import int8_product

STRENGTH = 0.5  # α, the paper's choice for most models


def column_max(*weights: Tensor) -> Tensor:
    """Largest magnitude in every column of matrices (R, K) that read the same inputs, taken together: (K,).

    Queries, keys and values can only be given one division of their common input, and so can gate and up.
    """
    return torch.stack([matrix.abs().amax(0) for matrix in weights]).amax(0)


def migration_factors(input_max: Tensor, weight_max: Tensor, strength: float = STRENGTH) -> Tensor:
    """s (K,) for the channels' largest inputs and weights (K,), found on a corpus and in the matrix.

    A channel that is zero in one of the two has no range to move: its factor is 1. Raises ValueError, NotFiniteError.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"the strength of the migration lies in [0, 1], got {strength}")
    require_finite("largest inputs", input_max)
    require_finite("largest weights", weight_max)
    live = (input_max > 0) & (weight_max > 0)
    one = torch.ones_like(input_max)
    inputs, weights = torch.where(live, input_max, one), torch.where(live, weight_max, one)
    return inputs**strength / weights ** (1 - strength)


def smooth(inputs: Tensor, weights: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """inputs (n, K) divided and weights (R, K) multiplied by the factors (K,): their product is what it was."""
    return inputs / factors, weights * factors


def smooth_product(inputs: Tensor, weights: Tensor, factors: Tensor, per_token: bool = True) -> Tensor:
    """The 8-bit product of the smoothed pair, (n, R) fp32. Raises NotFiniteError."""
    return int8_product(*smooth(inputs, weights, factors), per_token)
