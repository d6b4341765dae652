"""What a reconstruction keeps of a matrix: relative error, size, direction, zeros.

The relative error is ||W - Ŵ|| / ||W|| in the Frobenius norm. With r = ||Ŵ|| / ||W|| and c the cosine between the
two, its square is 1 + r² - 2rc: an error alone does not say whether Ŵ is noise or nearly nothing, r and c do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from lib.parallel import map_on_cores
from lib.quantization.schemes import Quantized, Scheme
from lib.unmeasurable import Unmeasurable

Known = Mapping[Scheme, Mapping[str, float]]
"""Scheme → matrix → relative error."""

# Weights worked on at a time: 1 MiB of fp32, so that the passes over one piece stay in a core's second-level cache.
_PIECE = 2**18


@dataclass(frozen=True)
class Fidelity:
    """One matrix against its reconstruction; everything is a fraction of the original's norm or count."""

    relative_error: float
    norm_ratio: float
    cosine: float
    zero_fraction: float


@dataclass(frozen=True)
class ErrorTable:
    """Relative error of every matrix under every scheme: `errors[scheme][matrix]`."""

    errors: Mapping[str, Mapping[str, float]]

    def column(self, scheme: str, matrices: Iterable[str] | None = None) -> list[float]:
        """One scheme's errors, of these matrices or of all, in a fixed order: columns of two schemes are paired."""
        by_matrix = self.errors[scheme]
        return [by_matrix[name] for name in (by_matrix if matrices is None else matrices)]

    def mean(self, scheme: str, matrices: Iterable[str] | None = None) -> float:
        """Mean over matrices, each counting once whatever its size."""
        column = self.column(scheme, matrices)
        return sum(column) / len(column)

    def worst(self, scheme: str) -> tuple[str, float]:
        """The matrix with the largest error, and that error."""
        return max(self.errors[scheme].items(), key=lambda item: item[1])

    def wins(self, scheme: str, rival: str, matrices: Iterable[str] | None = None) -> int:
        """On how many matrices the scheme leaves less error than its rival."""
        names = list(self.errors[scheme] if matrices is None else matrices)
        return sum(a < b for a, b in zip(self.column(scheme, names), self.column(rival, names), strict=True))


def error_table(
    schemes: Iterable[Scheme], weights: Mapping[str, Tensor], known: Known = MappingProxyType({})
) -> ErrorTable:
    """One pass over all matrices (rows, columns) for every scheme not known, on every core this process uses.

    known: what `rebuild` returned for these very matrices, by scheme.
    """
    errors: dict[str, Mapping[str, float]] = {}
    for scheme in schemes:
        if (column := known.get(scheme)) is None:
            found = map_on_cores(partial(scheme_error, scheme), weights.values())
            column = dict(zip(weights, found, strict=True))
        errors[scheme.slug] = column
    return ErrorTable(errors)


def relative_error(weights: Tensor, reconstruction: Tensor) -> float:
    """||W - Ŵ|| / ||W||; 0 for a matrix of zeros rebuilt as zeros, infinite for one rebuilt as anything else."""
    lost = float(torch.linalg.vector_norm((weights - reconstruction).double()))
    norm = float(torch.linalg.vector_norm(weights.double()))
    return lost / norm if norm else (math.inf if lost else 0.0)


def scheme_error(scheme: Scheme, weights: Tensor) -> float:
    """The relative error a scheme leaves in a matrix (rows, columns), computed piece by piece without keeping Ŵ."""
    lost = kept = 0.0
    for groups, quantized in pieces(scheme, weights):
        rebuilt = scheme.dequantize(quantized)
        lost += _energy(rebuilt.sub_(groups))
        kept += _energy(groups)
    return _share(lost, kept)


def rebuild(scheme: Scheme, weights: Tensor, out: Tensor) -> float:
    """Write a scheme's reconstruction of a matrix to a buffer of its shape; the relative error, as `scheme_error`'s."""
    if isinstance(scheme.group, int) and weights.shape[1] % scheme.group:
        out.copy_(scheme.reconstruct(weights))  # the last group of each row is padded: pieces are not the matrix
        return scheme_error(scheme, weights)
    rows = out.view(-1, scheme.group if isinstance(scheme.group, int) else weights.shape[1])
    start, lost, kept = 0, 0.0, 0.0
    for groups, quantized in pieces(scheme, weights):
        rebuilt = scheme.dequantize(quantized)
        rows[start : start + len(groups)] = rebuilt
        start += len(groups)
        lost += _energy(rebuilt.sub_(groups))
        kept += _energy(groups)
    return _share(lost, kept)


def fidelity(scheme: Scheme, weights: Tensor) -> Fidelity:
    """Error, size, direction and zeros of a scheme's reconstruction. Raises Unmeasurable for a matrix of zeros."""
    lost = norm = rebuilt_norm = inner = 0.0
    zeros = weights.numel()
    for groups, quantized in pieces(scheme, weights):
        rebuilt = scheme.dequantize(quantized)
        norm += _energy(groups)
        rebuilt_norm += _energy(rebuilt)
        inner += float(torch.dot(groups.reshape(-1), rebuilt.reshape(-1)))
        zeros -= int(torch.count_nonzero(rebuilt))
        lost += _energy(rebuilt.sub_(groups))
    if norm == 0:
        raise Unmeasurable("a matrix of zeros has no direction")
    cosine = inner / math.sqrt(norm * rebuilt_norm) if rebuilt_norm else 0.0
    return Fidelity(_share(lost, norm), math.sqrt(rebuilt_norm / norm), cosine, zeros / weights.numel())


def error_of(norm_ratio: float, cosine: float) -> float:
    """The relative error of any replacement with this norm ratio and cosine to the original (law of cosines)."""
    return math.sqrt(max(0.0, 1 + norm_ratio**2 - 2 * norm_ratio * cosine))


def least_cosine(relative_error: float) -> float:
    """The smallest cosine to the original that a relative error below 1 allows, whatever the replacement's size.

    Minimising over the size gives error² = 1 - cosine². Raises ValueError from 1 on, where nothing is implied.
    """
    if not 0 <= relative_error < 1:
        raise ValueError(f"only an error below 1 bounds the cosine, got {relative_error}")
    return math.sqrt(1 - relative_error**2)


def pieces(scheme: Scheme, weights: Tensor) -> Iterator[tuple[Tensor, Quantized]]:
    """Groups (n, g) of a matrix a megabyte at a time, each with what the scheme stores for them."""
    groups = scheme.groups(weights)
    shared = scheme.shared_scale(groups)
    for piece in torch.split(groups, max(1, _PIECE // groups.shape[1])):
        yield piece, scheme.quantize_groups(piece, shared)


def _share(lost: float, kept: float) -> float:
    """The relative error of two sums of squares. Raises Unmeasurable where one is beyond its format."""
    if not math.isfinite(lost + kept):
        raise Unmeasurable("a matrix's weights are too large: their squares, or the scales as stored, are not finite")
    return math.sqrt(lost / kept) if kept else 0.0


def _energy(values: Tensor) -> float:
    flat = values.reshape(-1)
    return float(torch.dot(flat, flat))
