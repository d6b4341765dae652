"""Statistics of weight matrices: which ones count as projections, how far their tails reach, which levels they use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor, nn

from lib.unmeasurable import Unmeasurable


@dataclass(frozen=True)
class WeightSummary:
    """One matrix: shape, mean |w|, standard deviation (n - 1), largest |w| and how many lie beyond 6 deviations."""

    rows: int
    columns: int
    mean_abs: float
    std: float
    max_abs: float
    beyond_6_sigma: int

    @property
    def count(self) -> int:
        """How many weights there are."""
        return self.rows * self.columns

    @property
    def max_over_std(self) -> float:
        """How many standard deviations away the largest weight is."""
        return self.max_abs / self.std


def projection_weights(model: nn.Module) -> dict[str, Tensor]:
    """The weight matrices of all linear layers by name, the output embedding excepted; (out, in) each, not copied.

    Raises Unmeasurable when the model has none.
    """
    find_output = getattr(model, "get_output_embeddings", None)
    output = find_output() if callable(find_output) else None
    weights = {
        name: module.weight.detach()
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not output
    }
    if not weights:
        raise Unmeasurable(f"{type(model).__name__} has no linear layers of its own for its projections")
    return weights


def summarize(weights: Tensor) -> WeightSummary:
    """Size and tail of one matrix (rows, columns). The tail is |w| against the deviation: the mean is not removed."""
    std = float(weights.std())
    sizes = weights.abs()
    beyond = int(torch.count_nonzero(sizes > 6 * std))
    rows, columns = weights.shape
    return WeightSummary(rows, columns, float(sizes.mean()), std, float(sizes.max()), beyond)


def normal_tail(sigmas: float) -> float:
    """Two-sided probability that a normal variable lies beyond so many standard deviations."""
    return float(2 * norm.sf(sigmas))


def level_histogram(codes: Tensor, bits: int) -> NDArray[np.int64]:
    """How many weights take each code, -2^(bits-1) … 2^(bits-1) - 1, int64 (2^bits,). Codes are int8 of any shape."""
    offset = 2 ** (bits - 1)
    counts = torch.bincount(codes.reshape(-1).to(torch.int32) + offset, minlength=2**bits)
    return np.asarray(counts.cpu().numpy())


def levels_holding(histogram: NDArray[np.int64], share: float) -> int:
    """The fewest levels that together hold at least this share of the weights."""
    if not 0 < share <= 1:
        raise ValueError(f"a share lies in (0, 1], got {share}")
    cumulative = np.cumsum(np.sort(histogram)[::-1])
    return int(np.searchsorted(cumulative, share * cumulative[-1])) + 1


def distinct_per_block(weights: Tensor, block: int = 32) -> float:
    """Mean number of different values among `block` consecutive weights of a row (rows, columns).

    Weights that were never quantized give nearly `block`; 4- and 5-bit block formats leave at most 16 and 32, in
    practice some 13 and 18 of 32. Row ends shorter than a block are left out; Unmeasurable if that leaves nothing.
    """
    whole = weights[:, : weights.shape[1] // block * block].reshape(-1, block)
    if not len(whole):
        raise Unmeasurable(f"{weights.shape[1]} columns are shorter than a block of {block}")
    ordered = whole.sort(dim=1).values
    return 1 + float(torch.count_nonzero(ordered[:, 1:] != ordered[:, :-1])) / ordered.shape[0]
