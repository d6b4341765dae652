"""Really packed weights: two 4-bit codes per byte, scales in their stored format, and the bytes of it all.

Signed codes are stored in two's complement. The low half of a byte holds the even position.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file
from torch import Tensor

from lib.parallel import map_on_cores
from lib.quantization.schemes import Quantized, Scheme


def pack_nibbles(codes: Tensor) -> Tensor:
    """Codes of any shape (int8 in [-8, 7] or uint8 in [0, 15]) as ceil(n/2) bytes; an odd end is filled with 0.

    Raises ValueError when a code needs more than four bits.
    """
    flat = codes.reshape(-1)
    low, high = (-8, 7) if codes.dtype == torch.int8 else (0, 15)
    if flat.numel() and not low <= int(flat.min()) <= int(flat.max()) <= high:
        raise ValueError(f"codes outside [{low}, {high}] do not fit four bits")
    filled = torch.nn.functional.pad(flat, (0, flat.numel() % 2)) if flat.numel() % 2 else flat
    even, odd = filled.view(torch.uint8).reshape(-1, 2).unbind(1)
    return (even & 0xF) | (odd << 4)


def unpack_nibbles(packed: Tensor, count: int, signed: bool) -> Tensor:
    """The first `count` codes of packed bytes, (count,), int8 if signed and uint8 otherwise."""
    codes = torch.stack([packed & 0xF, packed >> 4], dim=1).reshape(-1)[:count]
    return ((codes ^ 8).to(torch.int8) - 8) if signed else codes


def pack(scheme: Scheme, weights: Tensor) -> dict[str, Tensor]:
    """The tensors that a file stores for one matrix: "codes", "scales" and, for affine codes, "zeros"."""
    quantized = scheme.quantize(weights)
    # Filler that rounds a short last group up to g is never stored.
    real = quantized.codes.reshape(weights.shape[0], -1)[:, : weights.shape[1]]
    packed = {"codes": pack_nibbles(real) if scheme.bits == 4 else real.contiguous(), "scales": quantized.scales}
    if quantized.zeros is not None:
        packed["zeros"] = pack_nibbles(quantized.zeros)
    return packed


def unpack(scheme: Scheme, packed: Mapping[str, Tensor], rows: int, columns: int) -> Tensor:
    """The matrix (rows, columns), fp32, rebuilt from nothing but the stored tensors."""
    codes = packed["codes"]
    if scheme.bits == 4:
        codes = unpack_nibbles(codes, rows * columns, signed=scheme.code == "absmax")
    matrix = codes.reshape(rows, columns)
    if isinstance(scheme.group, int):
        matrix = torch.nn.functional.pad(matrix, (0, -columns % scheme.group)).reshape(-1, scheme.group)
    zeros = packed.get("zeros")
    if zeros is not None:
        zeros = unpack_nibbles(zeros, scheme.scale_count(rows, columns), signed=False).reshape(-1, 1)
    return scheme.dequantize(Quantized(matrix, packed["scales"], zeros)).reshape(rows, -1)[:, :columns]


def packed_model(
    scheme: Scheme, projections: Mapping[str, Tensor], parameters: Mapping[str, Tensor], rest: torch.dtype
) -> dict[str, Tensor]:
    """Everything a file of the model stores: each projection packed, every other parameter cast to the dtype `rest`.

    projections: matrices by module name, the same tensors that `parameters` holds under that name plus ".weight".
    """
    stored = {n: p.detach().to(rest) for n, p in parameters.items() if n.removesuffix(".weight") not in projections}
    for name, packed in zip(projections, map_on_cores(partial(pack, scheme), projections.values()), strict=True):
        stored |= {f"{name}.{part}": tensor for part, tensor in packed.items()}
    return stored


def stored_bits(scheme: Scheme, rows: int, columns: int) -> Fraction:
    """Bits per weight of the packed tensors of a real matrix of this shape, counted on random weights."""
    weights = torch.randn(rows, columns, generator=torch.Generator().manual_seed(0))
    return Fraction(8 * tensor_bytes(pack(scheme, weights)), rows * columns)


def double_quantized_bits(block: int, scales_per_second_scale: int = 256) -> Fraction:
    """Bits per weight of 4-bit codes whose scales are stored in 8 bits, with an fp32 scale for every 256 of those.

    QLoRA's double quantization (arXiv:2305.14314, section 3); by arithmetic, nothing is packed.
    """
    return 4 + Fraction(8, block) + Fraction(32, block * scales_per_second_scale)


def resident_bytes(
    scheme: Scheme, projections: Mapping[str, Tensor], parameters: Mapping[str, Tensor], width: int
) -> dict[str, tuple[int, int]]:
    """Bytes with the scheme and without it, where everything else takes `width` bytes a number; by what is counted.

    Arithmetic on the shapes; `projections` and `parameters` as in `packed_model`.
    """
    after = sum(int(scheme.bits_per_weight(*w.shape) * w.numel() / 8) for w in projections.values())
    before = sum(w.numel() for w in projections.values()) * width
    everything = sum(p.numel() for p in parameters.values()) * width
    return {"the quantized matrices": (after, before), "all weights": (everything - before + after, everything)}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Bytes of the stored tensors themselves, without any file header."""
    return sum(t.numel() * t.element_size() for t in tensors.values())


def written_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Write the tensors as one safetensors file, header included, and return its size in bytes; it is removed."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "packed.safetensors"
        save_file(dict(tensors), str(path))
        return path.stat().st_size
