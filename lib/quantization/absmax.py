"""Symmetric absolute-maximum quantization with one scale per group of weights.

A *group* is a row of a matrix of shape (N, g): all weights that share a scale. One scale for a whole matrix is the
same thing with the scales' first dimension equal to 1. Codes are signed integers in [-qmax, qmax] with
qmax = 2^(bits-1) - 1, so one of the 2^bits codes is never produced (unless the scale is a subnormal number, whose
rounding error has no relative bound: below 1e-37 in fp32).

No torch at import time: tensors bring their own methods, and plain arithmetic starts at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lib.unmeasurable import Unmeasurable

if TYPE_CHECKING:
    from torch import Tensor


class NotFiniteError(Unmeasurable):
    """A weight is infinite or not a number, so no scale exists."""


def largest_code(bits: int) -> int:
    """qmax, the largest magnitude a symmetric code of so many bits takes: 7 at 4 bits, 127 at 8."""
    if not 2 <= bits <= 8:
        raise ValueError(f"symmetric codes need 2 to 8 bits, got {bits}")
    return int(2 ** (bits - 1) - 1)


def reachable_codes(bits: int) -> int:
    """How many different codes can occur, 2^bits - 1: |w| / scale never exceeds qmax, so -2^(bits-1) stays unused."""
    return 2 * largest_code(bits) + 1


def printed_formula(weights: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Codes and scale as the chapter's snippet computes them, one scale per tensor, nothing guarded.

    weights: any shape; returns float codes of that shape and a scalar scale. An all-zero tensor gives 0/0 = NaN codes;
    half-way cases round to the even integer, as torch.round does.
    """
    qmax = largest_code(bits)
    scale = weights.abs().max() / qmax
    return (weights / scale).round().clamp(-qmax - 1, qmax), scale


@dataclass(frozen=True)
class CodeRange:
    """The codes that the printed formula gave for several tensors, and whether each largest magnitude got ±qmax."""

    lowest: int
    highest: int
    always_reaches_qmax: bool


def printed_range(tensors: Iterable[Tensor], bits: int) -> CodeRange:
    """Run the printed formula on every tensor (none all zero) and see which codes occur."""
    codes = [printed_formula(tensor, bits)[0] for tensor in tensors]
    reached = all(int(c.abs().max()) == largest_code(bits) for c in codes)
    return CodeRange(min(int(c.min()) for c in codes), max(int(c.max()) for c in codes), reached)


def reconstructs(weights: Tensor, bits: int) -> bool:
    """Whether the printed formula gives numbers at all for these weights."""
    codes, scale = printed_formula(weights, bits)
    return bool((codes * scale).isfinite().all())


def all_finite(values: Tensor) -> bool:
    """Whether no value, of any shape, is infinite or NaN: one look at the extremes, which both would show in.

    A mask of all values and its reduction take ten times as long, and as much memory as the values.
    """
    return values.numel() == 0 or all(bool(extreme.isfinite()) for extreme in values.aminmax())


def absmax(groups: Tensor, shared: bool = False) -> Tensor:
    """Largest magnitude of every group, (N, g) → (N, 1), or of the whole tensor, (1, 1), when the scale is shared.

    Raises NotFiniteError when a weight is infinite or NaN.
    """
    sizes = groups.abs()
    largest = sizes.max().reshape(1, 1) if shared else sizes.amax(1, keepdim=True)
    if not bool(largest.isfinite().all()):
        raise NotFiniteError("weights contain infinities or NaN; absmax has no scale for them")
    return largest


def divisor(scales: Tensor) -> Tensor:
    """The scales, with 1 in place of 0: a group of zeros then encodes and decodes as zeros, where 0/0 would be NaN."""
    return scales.where(scales > 0, 1)


def encode(groups: Tensor, scales: Tensor, bits: int) -> Tensor:
    """Integer codes (int8, shape of groups) for scales of shape (N, 1) or (1, 1).

    The clamp matters only where a scale was rounded down when it was stored; with exact scales it never acts.
    """
    import torch

    qmax = largest_code(bits)
    return (groups / divisor(scales)).round_().clamp_(-qmax, qmax).to(torch.int8)


def decode(codes: Tensor, scales: Tensor) -> Tensor:
    """Weights (fp32) that the codes stand for: code times scale."""
    return codes.float().mul_(scales)
