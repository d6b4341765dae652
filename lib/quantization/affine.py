"""Asymmetric (affine) quantization: evenly spaced levels between a group's smallest and largest weight.

Code q stands for (q - zero) * scale with q in [0, 2^bits - 1] and an integer zero point, so zero is a level of every
group and all 2^bits codes can occur. It is the fair even-spaced rival of a 16-entry code book at small groups.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lib.quantization.absmax import NotFiniteError, divisor


def affine_range(groups: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Scale (N, 1) and the range's lower end (N, 1) of groups (N, g); the range is widened to contain zero."""
    low, high = groups.amin(1, keepdim=True).clamp(max=0), groups.amax(1, keepdim=True).clamp(min=0)
    if not bool(torch.isfinite(high - low).all()):
        raise NotFiniteError("weights contain infinities or NaN; an affine range has no scale for them")
    return (high - low) / (2**bits - 1), low


def zero_points(scales: Tensor, low: Tensor, bits: int) -> Tensor:
    """Integer zero points (uint8, (N, 1)), computed from the scale as it is stored."""
    return (-low / divisor(scales)).round_().clamp_(0, 2**bits - 1).to(torch.uint8)


def encode(groups: Tensor, scales: Tensor, zeros: Tensor, bits: int) -> Tensor:
    """Codes (uint8, shape of groups)."""
    return (groups / divisor(scales)).round_().add_(zeros.float()).clamp_(0, 2**bits - 1).to(torch.uint8)


def decode(codes: Tensor, scales: Tensor, zeros: Tensor) -> Tensor:
    """Weights (fp32) that the codes stand for."""
    return codes.to(torch.float32).sub_(zeros.float()).mul_(scales)
