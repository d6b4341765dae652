"""How far rounding may take an attention output from the exact function: a reference in float64, and a bound.

The bound is worst-case and a posteriori: computed in float64 from the very queries, keys and values, per output
element, from the roundings that a way of computing performs (Higham 2002, Accuracy and Stability, ch. 3). A measured
error above it means another function, not another order of summation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK_ROWS = 512  # reference rows at a time, so that long contexts need no float64 square either

UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""Unit roundoff: half the distance from 1 to the next number of the format."""

# Relative errors of torch's vectorised exponentials. exp_u20: 20 units in the last place, 40 unit roundoffs. Ahead of a
# 16-bit product it may be fexp_u20, a cubic in place of 2^x on [0, 1) whose error is 1.07e-4 at most, below 2^-13.
EXP_ROUNDINGS = 40
CUBIC_EXP = 2.0**-13


@dataclass(frozen=True)
class Rounding:
    """Relative errors of one way of computing: unit roundoffs of its sums and of what is stored in between.

    exp: of the exponential; scores: of the scores once they stand somewhere; weights: of the softmax weights; output:
    of the result.
    """

    exp: float
    sums: float
    scores: float
    weights: float
    output: float


def fused_rounding(dtype: torch.dtype) -> Rounding:
    """A fused kernel keeps scores, maxima and sums in float32; 16-bit weights feed the second product (torch's CPU)."""
    sums = min(UNIT[dtype], UNIT[torch.float32])
    exp = EXP_ROUNDINGS * sums if UNIT[dtype] <= sums else CUBIC_EXP
    return Rounding(exp, sums, sums, UNIT[dtype], UNIT[dtype])


def explicit_rounding(dtype: torch.dtype) -> Rounding:
    """Written out, scores and weights are stored in the dtype; products and the softmax still sum in float32."""
    sums = min(UNIT[dtype], UNIT[torch.float32])
    return Rounding(EXP_ROUNDINGS * sums, sums, UNIT[dtype], UNIT[dtype], UNIT[dtype])


@dataclass(frozen=True)
class Exact:
    """output and bound, float64 (B, H, m, d): the function itself, and how far this rounding may be from it."""

    output: Tensor
    bound: Tensor


def exact_attention(q: Tensor, k: Tensor, v: Tensor, rounding: Rounding, causal: bool = True) -> Exact:
    """softmax(q k^T / sqrt(d)) v in float64, the mask aligned to the end, with the error bound of a rounding.

    q (B, H, m, d); k (B, G, n, d), v (B, G, n, e) with H a multiple of G: query head h reads key head h // (H / G).
    The inputs are taken as exact numbers, whatever their dtype. Raises ValueError as `grouped`.
    """
    keys, values = (grouped(t, q.shape[1]).double() for t in (k, v))
    chunks = [_exact_rows(part, keys, values, hidden, rounding) for part, hidden in _chunks(q, k.shape[2], causal)]
    outputs, bounds = zip(*chunks, strict=True)
    return Exact(torch.cat(outputs, 2), torch.cat(bounds, 2))


def grouped(t: Tensor, heads: int) -> Tensor:
    """(B, G, n, d) repeated to (B, heads, n, d), each key-value head for its own run of query heads.

    Raises ValueError where heads is no multiple of G.
    """
    if heads % t.shape[1]:
        raise ValueError(f"{heads} query heads cannot share {t.shape[1]} key-value heads evenly")
    return t.repeat_interleave(heads // t.shape[1], 1)


def future(rows: int, columns: int, first: int = 0, of: int | None = None) -> Tensor:
    """(rows, columns) True where a key lies in a query's future; the last of `of` queries sees every key.

    rows are the queries from `first` on. Raises ValueError for more queries than keys: the first ones see nothing.
    """
    queries = rows if of is None else of
    if queries > columns:
        raise ValueError(f"{queries} queries over {columns} keys: the first would see none")
    last_visible = torch.arange(first, first + rows)[:, None] + columns - queries
    return torch.arange(columns)[None] > last_visible


def _chunks(q: Tensor, columns: int, causal: bool) -> Iterator[tuple[Tensor, Tensor]]:
    rows = q.shape[2]
    for first in range(0, rows, CHUNK_ROWS):
        part = q[:, :, first : first + CHUNK_ROWS].double()
        hidden = future(part.shape[2], columns, first, rows) if causal else torch.zeros(1, columns, dtype=torch.bool)
        yield part, hidden


def _exact_rows(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor, rounding: Rounding) -> tuple[Tensor, Tensor]:
    """The rows of one chunk and their bound.

    A score of true value s is off by at most E = gamma(d + 4) |q||k| / sqrt(d) + the roundings of scaling, storing it
    and subtracting the row's maximum; a weight then by a factor within e^(2E) (numerator and normalizer), times
    the exponential's and the sums' errors; the output by that times sum p |v|, and its own rounding.
    """
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
    roundings = q.shape[-1] + 4  # of the sum over d, and up to four where queries and keys are scaled ahead of it
    reach = q.abs() @ k.abs().mT / math.sqrt(q.shape[-1])
    shift = scores.amax(-1, keepdim=True) - scores
    off = _gamma(roundings, rounding.sums) * reach + 2 * rounding.scores * scores.abs() + rounding.sums * shift
    worst = off.masked_fill(hidden, 0).amax(-1, keepdim=True)  # (B, H, m, 1)
    weights = scores.softmax(-1)
    output = weights @ v
    summed = _gamma(2 * scores.shape[-1] + 1, rounding.sums)  # both sums over n, and the division
    exponential = (1 + rounding.exp) / (1 - rounding.exp)  # in the weight, and against it in the normalizer
    factor = torch.exp(2 * worst) * exponential * (1 + summed) * (1 + rounding.weights) - 1
    spread = factor * (weights @ v.abs())
    return output, spread + rounding.output * (output.abs() + spread)


def _gamma(count: int, unit: float) -> float:
    """n u / (1 - n u): the relative error of n roundings in a row at most."""
    return count * unit / (1 - count * unit)
