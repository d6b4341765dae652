"""Products with 8-bit inputs and weights, and the mixed decomposition that keeps outlier columns in 16 bits.

LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339): an input channel with a magnitude of 6 or more anywhere in the
batch is multiplied in 16 bits, the others as 8-bit integers with one scale per row of inputs and per row of weights.
As in the paper the 16-bit part reads original weights and both scales are taken over the other columns only.
(Its library stores all columns in 8 bits and widens the outliers' again; there outlier columns carry rounding, too.)
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from lib.quantization.absmax import NotFiniteError, absmax, all_finite, decode, encode, largest_code
from lib.quantization.calibration import require_finite

THRESHOLD = 6.0  # magnitude from which an input is an outlier: the paper's
INDEX_BITS = 16  # of an outlier column's number
SCALE_BITS = 16  # fp16, one per row
EXACT_COLUMNS = 2**24 // largest_code(8) ** 2  # so many products of two codes sum to an integer that fp32 holds


def int8_product(inputs: Tensor, weights: Tensor, per_token: bool = True) -> Tensor:
    """inputs (n, K) times weights (R, K) transposed, (n, R) fp32, both rounded to 8-bit integers first.

    One scale per row of weights and per row of inputs, or one for all inputs. The integer product is exact: it is
    summed in fp32 over as many columns as that holds, and over those parts in fp64; three roundings to fp32 follow.
    Raises NotFiniteError.
    """
    require_finite("inputs", inputs)
    require_finite("weights", weights)
    if inputs.shape[1] == 0:
        return torch.zeros(len(inputs), len(weights), device=inputs.device)
    input_codes, input_scales = _codes(inputs, shared=not per_token)
    weight_codes, weight_scales = _codes(weights, shared=False)
    parts = zip(*(torch.split(codes, EXACT_COLUMNS, 1) for codes in (input_codes, weight_codes)), strict=True)
    exact = [a.float() @ b.float().T for a, b in parts]
    sums = exact[0] if len(exact) == 1 else torch.stack(exact).sum(0, dtype=torch.float64).float()
    return sums.mul_(input_scales).mul_(weight_scales.T)


def rounded(values: Tensor, shared: bool = False) -> Tensor:
    """What 8-bit codes make of values (n, K), fp32, with one scale per row or one shared by all.

    A product of two such matrices is `int8_product` but for the rounding of fp32 sums. Raises NotFiniteError.
    """
    require_finite("values", values)
    return decode(*_codes(values, shared))


def outlier_columns(inputs: Tensor, threshold: float = THRESHOLD) -> Tensor:
    """Which channels of inputs (n, K) reach the threshold in magnitude in some row: (K,) bool."""
    return (inputs.abs() >= threshold).any(0)


def mixed_product(
    inputs: Tensor, weights: Tensor, threshold: float = THRESHOLD, wide: torch.dtype = torch.float16
) -> Tensor:
    """LLM.int8()'s product of inputs (n, K) and weights (R, K): (n, R) fp32.

    wide: the format of the outlier columns' operands; their products are summed in fp32. Threshold 0 takes every
    column, an infinite one none. Raises NotFiniteError, also where an outlier does not fit the wide format.
    """
    require_finite("inputs", inputs)
    require_finite("weights", weights)
    outlier = outlier_columns(inputs, threshold)
    rest = int8_product(inputs[:, ~outlier], weights[:, ~outlier])
    wide_inputs, wide_weights = inputs[:, outlier].to(wide), weights[:, outlier].to(wide)
    if not (all_finite(wide_inputs) and all_finite(wide_weights)):
        raise NotFiniteError(f"an outlier is too large for {wide}")
    return rest + linear(wide_inputs.float(), wide_weights.float())


def mixed_bits_per_weight(rows: int, columns: int, outliers: int) -> float:
    """Stored bits per weight: 8, or 16 in the outlier columns with their numbers, and a scale per row."""
    codes = rows * (8 * (columns - outliers) + 16 * outliers)
    return (codes + SCALE_BITS * rows + INDEX_BITS * outliers) / (rows * columns)


def _codes(groups: Tensor, shared: bool) -> tuple[Tensor, Tensor]:
    groups = groups.to(torch.float32)
    scales = absmax(groups, shared) / largest_code(8)
    return encode(groups, scales, 8), scales
