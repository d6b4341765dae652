"""Outliers in a tensor of activations: where they sit, and what one 8-bit scale leaves of everything else.

Tensors are magnitudes or signed activations of one layer, (T, D): T token positions, D dimensions.

Two published notions that are easily mixed up: an *outlier feature* (LLM.int8(), Dettmers et al., 2022) is a dimension
that is large (6 or more) at many positions, at least 6 % of them, and in at least a quarter of the layers; a *massive
activation* (Sun et al., 2024) is a single entry, 100 or more in magnitude and at least 1,000 times the median entry,
found at very few positions.

No torch at import time: tensors bring their own methods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lib.quantization.absmax import printed_formula
from lib.unmeasurable import Unmeasurable

if TYPE_CHECKING:
    from torch import Tensor

# The bins of the chapter's histogram: 0 to 1, octaves up to 1024, and a last bin of two octaves.
CHAPTER_EDGES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
CARRIER_SHARE = 0.1  # a position carries a dimension's outlier if it reaches a tenth of the largest position's value
OUTLIER_FEATURE_MAGNITUDE = 6.0  # LLM.int8()'s threshold
OUTLIER_FEATURE_POSITIONS = 0.06  # and its share of sequence positions
OUTLIER_FEATURE_LAYERS = 0.25  # and its share of layers


@dataclass(frozen=True)
class LayerPeak:
    """One layer in a line: its largest magnitude and where it is, beside what is typical.

    runner_up: largest magnitude of any other dimension. median_dimension: median over dimensions of their maxima over
    the positions. median_magnitude: median over all entries.
    """

    peak: float
    dimension: int
    position: int
    runner_up: float
    median_dimension: float
    median_magnitude: float


@dataclass(frozen=True)
class LevelUse:
    """What 8-bit codes with one scale for the whole tensor make of it.

    scale: the step. levels: different codes that occur. bits: entropy of the codes. zero_share: entries coded 0.
    one_level_share: dimensions that are a single code at every position.
    """

    scale: float
    levels: int
    bits: float
    zero_share: float
    one_level_share: float


def dimension_maxima(h: Tensor) -> Tensor:
    """The largest magnitude that each dimension of h (T, D) reaches at any position: (D,)."""
    return h.abs().amax(dim=0)


def largest(h: Tensor, dimension: int) -> float:
    """The largest magnitude of one dimension of h (T, D); zero where there is no position."""
    return float(h[:, dimension].abs().max()) if len(h) else 0.0


def layer_peak(h: Tensor) -> LayerPeak:
    """Summarise one layer h (T, D), D ≥ 2; medians are means of the two middle values where the count is even."""
    maxima = dimension_maxima(h)
    top = maxima.topk(2)
    dimension = int(top.indices[0])
    return LayerPeak(
        peak=float(top.values[0]),
        dimension=dimension,
        position=int(h[:, dimension].abs().argmax()),
        runner_up=float(top.values[1]),
        median_dimension=float(maxima.quantile(0.5)),
        median_magnitude=float(h.abs().quantile(0.5)),
    )


def dimension_at_quantile(h: Tensor, quantile: float) -> int:
    """The dimension of h (T, D) whose maximum has this rank among all maxima: 0 the smallest, 1 the largest."""
    order = dimension_maxima(h).argsort()
    return int(order[round(quantile * (len(order) - 1))])


def carriers(h: Tensor, dimension: int, share: float = CARRIER_SHARE) -> list[int]:
    """The positions of h (T, D) whose magnitude in this dimension is at least ``share`` of the largest one's."""
    column = h[:, dimension].abs()
    return (column >= share * column.max()).nonzero()[:, 0].tolist()


def octave_edges(top: float) -> tuple[int, ...]:
    """The chapter's edges, continued by whole octaves until ``top`` lies below the last; Unmeasurable if none is."""
    if not math.isfinite(top):
        raise Unmeasurable(f"no octave holds a largest value of {top}")
    edges = list(CHAPTER_EDGES)
    while edges[-1] <= top:
        edges.append(2 * edges[-1])
    return tuple(edges)


def octave_histogram(values: Tensor, edges: Sequence[int] = CHAPTER_EDGES) -> list[int]:
    """How many values fall in each bin [edge, next edge). Raises ValueError if one falls outside every bin."""
    import torch

    values = values.double()  # an edge may be beyond any integer of torch's
    inside = (values >= float(edges[0])) & (values < float(edges[-1]))
    if not bool(inside.all()):
        raise ValueError(f"{int((~inside).sum())} values lie outside [{edges[0]}, {edges[-1]})")
    bins = torch.bucketize(values, torch.tensor(edges, dtype=torch.float64), right=True) - 1
    return bins.bincount(minlength=len(edges) - 1).tolist()


def empty_bins_from(counts: Sequence[int], edges: Sequence[int], start: int) -> int:
    """How many bins in a row are empty, going up from the bin whose lower edge is ``start`` (ValueError if none is)."""
    first = list(edges).index(start)
    return next((i for i, count in enumerate(counts[first:]) if count), len(counts) - first)


def empty_octaves_below_top(values: Tensor) -> int:
    """Whole octaves [2^k, 2^(k+1)) without a value between the largest of the values (D,) and the second largest.

    Raises Unmeasurable where fewer than two are other than zero.
    """
    largest_two = values.topk(2).values.tolist()
    if not largest_two[1] > 0:
        raise Unmeasurable("fewer than two dimensions of this model's stream are ever other than zero")
    top, second = (math.floor(math.log2(value)) for value in largest_two)
    return max(top - second - 1, 0)


def distinct_levels(codes: Tensor) -> int:
    """How many different codes occur."""
    return len(_occurrences(codes))


def levels_per_dimension(codes: Tensor) -> Tensor:
    """How many different codes occur in each column of codes (T, D): (D,) int64."""
    ordered = codes.sort(dim=0).values
    return 1 + (ordered[1:] != ordered[:-1]).sum(dim=0)


def entropy_bits(codes: Tensor) -> float:
    """Shannon entropy of the codes' distribution in bits: what the allocated bits really carry."""
    counts = _occurrences(codes)
    shares = counts.double() / counts.sum()
    return float(-(shares * shares.log2()).sum()) + 0.0  # + 0.0: a single code gives 0, not -0


def level_use(h: Tensor) -> LevelUse:
    """Quantize h (T, D) by the chapter's formula, symmetric, 8 bits, one scale, and count. h must not be all zero."""
    codes, scale = printed_formula(h, bits=8)
    return LevelUse(
        scale=float(scale),
        levels=distinct_levels(codes),
        bits=entropy_bits(codes),
        zero_share=float((codes == 0).double().mean()),
        one_level_share=float((levels_per_dimension(codes) == 1).double().mean()),
    )


def levels_within(bound: float, scale: float) -> int:
    """How many codes of step ``scale`` a symmetric range of magnitudes up to ``bound`` can reach."""
    return 2 * round(bound / scale) + 1


def without_top_dimensions(h: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """h (T, D) without the k dimensions of largest maximum, and the indices of those kept: (T, D-k), (D-k,)."""
    order = dimension_maxima(h).argsort(descending=True)
    kept = order[k:].sort().values
    return h[:, kept], kept


def without_positions(h: Tensor, positions: Iterable[int]) -> Tensor:
    """h (T, D) without the rows at these positions."""
    mask = h.new_ones(len(h)).bool()
    mask[list(positions)] = False
    return h[mask]


def without_its_peak(h: Tensor) -> Tensor:
    """h (T, D), T ≥ 2, without the one position where its largest magnitude is: (T-1, D)."""
    return without_positions(h, [layer_peak(h).position])


def levels_of_dimension(h: Tensor, dimension: int, without_top: int = 0) -> int:
    """How many levels this dimension of h (T, D) takes under one 8-bit scale for the whole tensor.

    without_top: so many dimensions of largest maximum leave the tensor first, and with them the scale. Raises
    Unmeasurable if the dimension is among them, ValueError if there is no such dimension.
    """
    if not 0 <= dimension < h.shape[1]:
        raise ValueError(f"dimension {dimension} is not in a tensor of {h.shape[1]}")
    rest, kept = without_top_dimensions(h, without_top)
    place = (kept == dimension).nonzero()
    if len(place) == 0:
        raise Unmeasurable(f"dimension {dimension} is one of the top {without_top} of {h.shape[1]}")
    return int(levels_per_dimension(printed_formula(rest, bits=8)[0])[int(place[0, 0])])


def outlier_features(stream: Tensor) -> list[int]:
    """The dimensions of a stream (L, T, D) that LLM.int8() would call outlier features, in order."""
    large = stream.abs() >= OUTLIER_FEATURE_MAGNITUDE
    positions = large.double().mean(dim=(0, 1))  # over all positions of all layers
    layers = large.any(dim=1).double().mean(dim=0)
    wide = (positions >= OUTLIER_FEATURE_POSITIONS) & (layers >= OUTLIER_FEATURE_LAYERS)
    return wide.nonzero()[:, 0].tolist()


def position_share(stream: Tensor, dimension: int) -> float:
    """Share of all positions of all layers of a stream (L, T, D) at which this dimension is 6 or more in magnitude."""
    return float((stream[..., dimension].abs() >= OUTLIER_FEATURE_MAGNITUDE).double().mean())


def _occurrences(codes: Tensor) -> Tensor:
    """How often each different code occurs: int64, one entry per code."""
    import torch

    counts: Tensor = torch.unique(codes, return_counts=True)[1]
    return counts
