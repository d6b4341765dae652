"""Linear layers that really hold their weights in 8 or 4 bits, and copies of a model made of them.

Two ways to multiply with such weights: a kernel that reads the codes and widens them in registers, so that a step moves
only the stored bytes, or a program that first writes the widened matrix to memory and then multiplies with it, so that
it moves more bytes than the 16-bit model does. torch 2.13 carries kernels of the first kind for symmetric 8-bit codes
per row and for evenly spaced 4-bit codes in groups of 32 to 256; none for a code book such as NF4's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear
from transformers import PreTrainedModel

from lib.parallel import map_on_cores
from lib.quantization.absmax import divisor, largest_code
from lib.slim_models import cast_copy

GROUPS = (128, 64, 32)  # what torch's 4-bit kernel takes, the fewest scales first
ACTIVATIONS = torch.bfloat16  # the format in which the low-bit kernels are fast
ROWS = 8192  # of a matrix that are widened at a time: the output embedding is never there as a whole
PIECE = 2**18  # weights quantized at a time: a megabyte of fp32, which stays in a core's own cache
PACKED_ROWS = 1024  # packed at a time, a multiple of the kernel's blocks of 16 to 64 rows
ROW_BLOCK = 16  # the 4-bit kernel wants whole blocks of rows
INT4_OFFSET = 8  # its codes are 0..15 and stand for -8..7
EVEN_LEVELS = tuple(float(code) for code in range(-INT4_OFFSET, INT4_OFFSET))


class NoKernel(ValueError):
    """torch has no kernel for this format on this device or for this shape."""


class LowBitLinear(nn.Module):
    """A linear layer over stored codes; subclasses multiply. bias: (N,) or None, in the activations' format."""

    bias: Tensor | None
    scales: Tensor

    def __init__(self, bias: Tensor | None, **stored: Tensor) -> None:
        super().__init__()
        for name, tensor in stored.items():
            self.register_buffer(name, tensor)
        self.register_buffer("bias", None if bias is None else bias.detach().to(ACTIVATIONS))

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: (..., K); returns (..., N) in the same format."""
        rows = self.product(hidden.reshape(-1, hidden.shape[-1]))
        rows = rows if self.bias is None else rows + self.bias
        return rows.reshape(*hidden.shape[:-1], -1)

    def product(self, rows: Tensor) -> Tensor:
        """rows: (M, K); returns (M, N)."""
        raise NotImplementedError


class Int8Linear(LowBitLinear):
    """8-bit codes (N, K), one scale per output row (N, 1); activations stay in 16 bits."""

    codes: Tensor

    def product(self, rows: Tensor) -> Tensor:
        """One kernel that reads the codes."""
        out: Tensor = torch.ops.aten._weight_int8pack_mm(rows, self.codes, self.scales[:, 0])
        return out


class Int8BothLinear(LowBitLinear):
    """The same weights, and activations rounded to 8 bits as well, one scale per row of them: an integer product."""

    codes: Tensor

    def product(self, rows: Tensor) -> Tensor:
        """Quantize the activations, multiply integers exactly, scale."""
        scales = rows.abs().amax(1, keepdim=True).float() / largest_code(8)
        codes = (rows / divisor(scales)).round_().to(torch.int8)
        return (torch._int_mm(codes, self.codes.T) * scales * self.scales.T.float()).to(rows.dtype)


class Int4Linear(LowBitLinear):
    """Evenly spaced 4-bit codes in the kernel's own order, scale and offset per group of consecutive weights."""

    packed: Tensor

    def product(self, rows: Tensor) -> Tensor:
        """One kernel that reads the packed codes."""
        group = 2 * self.packed.shape[1] // self.scales.shape[0]
        out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, group, self.scales)
        return out


class TableLinear(LowBitLinear):
    """4-bit codes of any code book, two per byte, widened to 16 bits in memory before the product.

    packed: (N, K / 2) bytes, the even position in the low half; scales: (N, K / g); table: (256, 2), by byte.
    """

    packed: Tensor
    table: Tensor

    def product(self, rows: Tensor) -> Tensor:
        """Piece by piece: look up, scale, multiply."""
        pieces = zip(torch.split(self.packed, ROWS), torch.split(self.scales, ROWS), strict=True)
        return torch.cat([linear(rows, self.widened(packed, scales)) for packed, scales in pieces], dim=1)

    def widened(self, packed: Tensor, scales: Tensor) -> Tensor:
        """The 16-bit weights (rows, K) that some rows of codes stand for."""
        levels = embedding(packed.int(), self.table).reshape(*scales.shape, -1)  # (rows, groups, g)
        return levels.mul_(scales[:, :, None]).reshape(len(packed), -1)


class WideEmbedding(nn.Module):
    """The original's input embedding, not copied; what is looked up is cast. A step reads one row of it."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self._original = (weight.detach(),)  # in a tuple, so that it does not count as a parameter of the copy

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, n); returns (B, n, hidden)."""
        return embedding(ids, self._original[0]).to(ACTIVATIONS)


def quantized_rows(weight: Tensor, bits: int, group: int) -> tuple[Tensor, Tensor]:
    """Symmetric codes (N, K) int8 and scales (N, K / group) of a matrix (N, K), against the scales as stored."""

    codes = torch.empty(weight.shape, dtype=torch.int8, device=weight.device)
    scales = torch.empty(len(weight), weight.shape[1] // group, dtype=ACTIVATIONS, device=weight.device)
    rows = max(1, PIECE // weight.shape[1])

    def piece(start: int) -> None:
        part = slice(start, start + rows)
        grouped = weight[part].detach().float().reshape(-1, scales.shape[1], group)
        scales[part] = grouped.abs().amax(2) / largest_code(bits)
        steps = divisor(scales[part].float())[:, :, None]
        codes[part] = (grouped / steps).round_().clamp_(-largest_code(bits), largest_code(bits)).flatten(1)

    map_on_cores(piece, range(0, len(weight), rows))
    return codes, scales


def int8_layers(weight: Tensor, bias: Tensor | None) -> dict[str, LowBitLinear]:
    """The two layers over 8-bit codes of a matrix (N, K), sharing their storage."""
    codes, scales = quantized_rows(weight, 8, weight.shape[1])
    kinds: dict[str, Callable[..., LowBitLinear]] = {"int8": Int8Linear, "int8 times int8": Int8BothLinear}
    return {name: kind(bias, codes=codes, scales=scales) for name, kind in kinds.items()}


def int4_layers(weight: Tensor, bias: Tensor | None) -> dict[str, LowBitLinear]:
    """The same 4-bit codes of a matrix (N, K) for the kernel and for the program that widens them first."""
    codes, scales = quantized_rows(weight, 4, int4_group(weight))
    with_offsets = torch.stack([scales.T, torch.zeros_like(scales.T)], dim=2).contiguous()  # (K / g, N, 2)
    return {
        "int4": Int4Linear(bias, packed=kernel_packed(codes), scales=with_offsets),
        "int4, dequantized first": table_layer(codes + INT4_OFFSET, scales, EVEN_LEVELS, bias),
    }


def table_layer(codes: Tensor, scales: Tensor, levels: Iterable[float], bias: Tensor | None) -> TableLinear:
    """A layer over codes (N, K) in 0..15 of a book of sixteen levels, with scales (N, K / g)."""
    low, high = codes.to(torch.uint8).reshape(len(codes), -1, 2).unbind(2)
    book = torch.tensor(list(levels), dtype=ACTIVATIONS, device=codes.device)
    table = torch.stack([book.repeat(len(book)), book.repeat_interleave(len(book))], dim=1)  # (256, 2)
    return TableLinear(bias, packed=low | (high << 4), scales=scales.to(ACTIVATIONS), table=table)


def kernel_packed(codes: Tensor) -> Tensor:
    """Codes (N, K) in -8..7 in the order of torch's 4-bit kernel for CPUs, (N, K / 2) bytes."""
    packed = torch.empty(len(codes), codes.shape[1] // 2, dtype=torch.uint8, device=codes.device)

    def piece(start: int) -> None:
        part = slice(start, start + PACKED_ROWS)
        packed[part] = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes[part].int() + INT4_OFFSET, 1)

    map_on_cores(piece, range(0, len(codes), PACKED_ROWS))
    return packed


def int4_group(weight: Tensor) -> int:
    """The largest group that the 4-bit kernel takes for this matrix; NoKernel where none fits or on another device."""
    rows, columns = weight.shape
    fitting = [group for group in GROUPS if columns % group == 0]
    if weight.device.type != "cpu" or rows % ROW_BLOCK or not fitting:
        raise NoKernel(f"no 4-bit kernel is used here for {rows} x {columns} on {weight.device.type}")
    return fitting[0]


def low_bit_copies(model: PreTrainedModel) -> dict[str, PreTrainedModel]:
    """Copies of the model by format, every linear layer replaced, the output embedding included.

    Copies of one width share what is the same. Formats without a kernel for some layer are left out; the model itself
    is not touched. About 1.6 bytes per weight in all.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    copies: dict[str, PreTrainedModel] = {}
    for make in (int8_layers, int4_layers):
        try:
            made = [make(layer.weight, layer.bias) for layer in layers]
        except NoKernel:
            continue
        for name in made[0]:
            copies[name] = _assembled(model, {id(old): new[name] for old, new in zip(layers, made, strict=True)})
    return copies


def weight_formats(model: PreTrainedModel) -> dict[str, PreTrainedModel]:
    """The model itself, its 16-bit copies and its low-bit ones, by format; from many bits per weight to few."""
    casts = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return {"fp32": model, **{n: cast_copy(model, dtype) for n, dtype in casts.items()}, **low_bit_copies(model)}


def step_bytes(model: PreTrainedModel) -> int:
    """Bytes of weights, codes and scales that a decode step reads: all that is held, but not the input embedding.

    A tied embedding is read as the output embedding. Each storage counts once.
    """
    lookup = model.get_input_embeddings()
    modules = [module for module in model.modules() if module is not lookup]
    tensors = [t for m in modules for t in (*m.parameters(recurse=False), *m.buffers(recurse=False))]
    return sum({t.data_ptr(): t.numel() * t.element_size() for t in tensors}.values())


def _assembled(model: PreTrainedModel, replacements: Mapping[int, nn.Module]) -> PreTrainedModel:
    """A deep copy in 16 bits with the linear layers of these ids replaced and the input embedding shared."""
    lookup: Any = model.get_input_embeddings()
    memo: dict[int, Any] = {**replacements, id(lookup): WideEmbedding(lookup.weight)}
    replaced = {id(p) for m in model.modules() if id(m) in memo for p in m.parameters(recurse=False)}
    for parameter in model.parameters():
        if id(parameter) not in replaced:
            memo[id(parameter)] = nn.Parameter(parameter.detach().to(ACTIVATIONS, copy=True), requires_grad=False)
    twin: PreTrainedModel = copy.deepcopy(model, memo)
    return twin
