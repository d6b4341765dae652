"""What one scale for a whole matrix does to it: the levels in use, what is kept, and which weights are to blame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lib.quantization.absmax import largest_code
from lib.quantization.errors import Fidelity, fidelity, pieces, scheme_error
from lib.quantization.schemes import SCHEMES, Scheme
from lib.unmeasurable import Unmeasurable
from lib.weight_stats import WeightSummary, level_histogram, levels_holding, summarize


@dataclass(frozen=True)
class TensorScaleProfile:
    """One matrix under INT4 and INT8 with a single scale each. levels[bits]: weights per code, int64 (2^bits,)."""

    summary: WeightSummary
    int4: Fidelity
    levels: dict[int, NDArray[np.int64]]

    def zero_share(self, bits: int) -> float:
        """Fraction of the weights that become exactly zero."""
        histogram = self.levels[bits]
        return float(histogram[len(histogram) // 2] / histogram.sum())

    def outermost_share(self, bits: int) -> float:
        """Fraction of the weights on the two outermost codes, ±qmax."""
        histogram = self.levels[bits]
        return float((histogram[1] + histogram[-1]) / histogram.sum())

    def levels_holding(self, bits: int, share: float) -> int:
        """The fewest levels that together hold at least this share of the weights."""
        return levels_holding(self.levels[bits], share)

    def typical_steps(self, bits: int) -> float:
        """The mean magnitude of a weight, in steps of the scale."""
        return self.summary.mean_abs * largest_code(bits) / self.summary.max_abs


def profile(weights: Tensor) -> TensorScaleProfile:
    """Profile of a matrix (rows, columns) that is not all zeros."""
    levels = {}
    for bits in (4, 8):
        found = pieces(SCHEMES[f"int{bits}-tensor"], weights)
        levels[bits] = np.sum([level_histogram(quantized.codes, bits) for _, quantized in found], axis=0)
    return TensorScaleProfile(summarize(weights), fidelity(SCHEMES["int4-tensor"], weights), levels)


def errors_without_largest(scheme: Scheme, weights: Tensor, counts: Sequence[int]) -> list[float]:
    """||W - Ŵ|| / ||W|| when the `count` weights of largest magnitude are kept exactly and only the rest is quantized.

    One error per count, counts ascending from 0 or more. The rest gets scales of its own: this is what the scheme would
    do had those weights never been there. weights: (rows, columns), left unchanged. Raises
    ValueError, and Unmeasurable for a matrix of zeros.
    """
    if sorted(counts) != list(counts) or counts[0] < 0:
        raise ValueError(f"counts must ascend from 0 or more, got {list(counts)}")
    rest = weights.detach().clone()
    norm = float(torch.linalg.vector_norm(rest))
    if not norm:
        raise Unmeasurable("a matrix of zeros has no relative error")
    largest = largest_positions(rest, counts[-1])
    errors = []
    for count in counts:
        rest.view(-1)[largest[:count]] = 0
        errors.append(scheme_error(scheme, rest) * float(torch.linalg.vector_norm(rest)) / norm)
    return errors


def largest_positions(weights: Tensor, count: int) -> Tensor:
    """Flat positions of the `count` weights of largest magnitude, largest first (count,).

    A partition finds the candidates, among which equal magnitudes are told apart: a seventh of the time of a top-k.
    """
    sizes = weights.abs().reshape(-1)
    line = np.partition(sizes.numpy(), sizes.numel() - max(1, count))[sizes.numel() - max(1, count)]
    candidates = torch.nonzero(sizes >= float(line)).reshape(-1)
    return candidates[sizes[candidates].topk(count).indices]


def largest_taken_out(weights: Tensor) -> list[float]:
    """INT4 errors of a matrix with one scale, without its 0, 1 and 10 largest weights, 1 in 10,000 and 1 in 1,000."""
    counts = [0, 1, 10, max(10, weights.numel() // 10_000), max(10, weights.numel() // 1_000)]
    return errors_without_largest(SCHEMES["int4-tensor"], weights, counts)


def closed_gap(errors: Sequence[float], target: float) -> list[float]:
    """How far each error has come from the first one towards a target: 0 not at all, 1 reached, above 1 passed.

    Raises Unmeasurable when the first error is not above the target: there is no gap.
    """
    gap = errors[0] - target
    if gap <= 0 or not math.isfinite(gap):
        raise Unmeasurable(f"no gap from {errors[0]} down to {target}")
    return [(errors[0] - error) / gap for error in errors]
