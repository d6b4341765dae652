"""The quantization schemes by name: code, group and scale format, with the bits per weight that all of it costs.

A scheme is a frozen record; `SCHEMES` lists the chapter's ladder and the rows that separate its explanations. Scales
are stored in the format the scheme names (fp16 unless said otherwise) and codes are computed against the *stored*
scale, so that what is measured is what would be written to a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import torch
from torch import Tensor

from lib.quantization import absmax, affine, nf4

Code = Literal["absmax", "affine", "nf4", "even"]
Group = Literal["tensor", "row"] | int

_ZERO_POINT_BITS = 4
_BOOKS = MappingProxyType({"nf4": nf4.nf4_levels, "even": nf4.even_levels})


@dataclass(frozen=True)
class Quantized:
    """Codes (int8 or uint8, (N, g)), scales (N, 1) or (1, 1) in their stored format, zero points (uint8) or None."""

    codes: Tensor
    scales: Tensor
    zeros: Tensor | None


@dataclass(frozen=True)
class Scheme:
    """How a matrix of shape (rows, columns) is quantized.

    group: "tensor", "row" (one scale per output row) or a number of consecutive weights of a row; where it does not
    divide the columns the last group of each row is shorter. Raises ValueError on an impossible combination.
    """

    slug: str
    title: str
    code: Code
    bits: int
    group: Group
    scale_dtype: torch.dtype = torch.float16

    def __post_init__(self) -> None:
        if self.code != "absmax" and (self.bits != 4 or self.group == "tensor"):
            raise ValueError(f"{self.slug}: {self.code} is implemented at 4 bits with a scale per row or group")
        if isinstance(self.group, int) and self.group < 1:
            raise ValueError(f"{self.slug}: a group holds at least one weight")

    @property
    def scale_bits(self) -> int:
        """Bits of one stored scale, without a zero point."""
        return torch.finfo(self.scale_dtype).bits

    def scale_count(self, rows: int, columns: int) -> int:
        """How many scales a matrix of this shape stores."""
        if self.group == "tensor":
            return 1
        return rows if self.group == "row" else rows * -(-columns // self.group)

    def bits_per_weight(self, rows: int, columns: int) -> float:
        """Stored bits per weight, scales and zero points included."""
        extra = self.scale_bits + (_ZERO_POINT_BITS if self.code == "affine" else 0)
        return self.bits + extra * self.scale_count(rows, columns) / (rows * columns)

    def groups(self, weights: Tensor) -> Tensor:
        """Weights (rows, columns) as fp32 groups (N, g); short last groups are filled up with zeros."""
        if weights.ndim != 2:
            raise ValueError(f"expected a matrix, got shape {tuple(weights.shape)}")
        weights = weights.detach().to(torch.float32)
        if not isinstance(self.group, int):
            return weights
        short = -weights.shape[1] % self.group
        padded = torch.nn.functional.pad(weights, (0, short)) if short else weights
        return padded.reshape(-1, self.group)

    def quantize(self, weights: Tensor) -> Quantized:
        """Codes and stored scales of a whole matrix (rows, columns)."""
        groups = self.groups(weights)
        return self.quantize_groups(groups, self.shared_scale(groups))

    def shared_scale(self, groups: Tensor) -> Tensor | None:
        """The one scale of a per-tensor scheme, (1, 1), found over the whole matrix; None for the others."""
        if self.group != "tensor":
            return None
        return self._stored(absmax.absmax(groups, shared=True) / absmax.largest_code(self.bits))

    def quantize_groups(self, groups: Tensor, shared: Tensor | None = None) -> Quantized:
        """Codes and stored scales of groups (N, g), which may be a part of a matrix."""
        if self.code == "affine":
            width, low = affine.affine_range(groups, self.bits)
            scales = self._stored(width)
            zeros = affine.zero_points(scales.float(), low, self.bits)
            return Quantized(affine.encode(groups, scales.float(), zeros, self.bits), scales, zeros)
        if self.code in _BOOKS:
            scales = self._stored(absmax.absmax(groups))
            return Quantized(nf4.encode(groups, scales.float(), _BOOKS[self.code]()), scales, None)
        scales = self._stored(absmax.absmax(groups) / absmax.largest_code(self.bits)) if shared is None else shared
        return Quantized(absmax.encode(groups, scales.float(), self.bits), scales, None)

    def dequantize(self, quantized: Quantized) -> Tensor:
        """Groups (N, g) in fp32 that the codes stand for."""
        scales = quantized.scales.float()
        if self.code == "affine" and quantized.zeros is not None:
            return affine.decode(quantized.codes, scales, quantized.zeros)
        if self.code in _BOOKS:
            return nf4.decode(quantized.codes, scales, _BOOKS[self.code]())
        return absmax.decode(quantized.codes, scales)

    def reconstruct(self, weights: Tensor) -> Tensor:
        """The matrix (rows, columns) after quantizing and dequantizing it, fp32."""
        rows, columns = weights.shape
        return self.dequantize(self.quantize(weights)).reshape(rows, -1)[:, :columns]

    def _stored(self, scales: Tensor) -> Tensor:
        return scales.to(self.scale_dtype)


def _ladder() -> list[Scheme]:
    symmetric = [Scheme(f"int4-g{g}", f"INT4, group of {g}", "absmax", 4, g) for g in (128, 64, 32)]
    affines = [Scheme(f"affine4-g{g}", f"affine INT4, group of {g}", "affine", 4, g) for g in (128, 64, 32)]
    books = [Scheme(f"nf4-b{g}", f"NF4, block of {g}", "nf4", 4, g) for g in (128, 64, 32)]
    return [
        Scheme("int8-tensor", "INT8, one scale per matrix", "absmax", 8, "tensor"),
        Scheme("int8-row", "INT8, one scale per output row", "absmax", 8, "row"),
        Scheme("int4-tensor", "INT4, one scale per matrix", "absmax", 4, "tensor"),
        Scheme("int4-row", "INT4, one scale per output row", "absmax", 4, "row"),
        *symmetric, *affines, *books,
        Scheme("even4-b64", "16 evenly spaced levels, block of 64", "even", 4, 64),
    ]  # fmt: skip


SCHEMES = MappingProxyType({scheme.slug: scheme for scheme in _ladder()})
"""By slug: INT8 and INT4 per tensor and row; INT4, affine INT4 and NF4 in groups of 128, 64, 32; even levels at 64."""
