"""Attention in one fused operation beside attention written out: is it the same function, and what does it never write?

FlashAttention (Dao et al. 2022, arXiv:2205.14135) computes softmax(q k^T / sqrt(d)) v block by block with a running
maximum and sum, so that the m x n scores never exist as a whole. ``fused`` is torch's scaled_dot_product_attention,
which picks a backend; which one is read off the operations that really ran, not off a setting. ``explicit`` writes
scores and weights out. Both mask causally, aligned to the end, and share key-value heads between query heads.

"Never writes n x n" has conditions, each an option here: a backend that is fused (not ``MATH``), and no mask tensor,
which is itself m x n, and which a bool mask becomes in the scores' dtype on top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from lib.flash_error import Exact, exact_attention, explicit_rounding, fused_rounding, future, grouped
from lib.live_bytes import Peak, peak_of

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


class Backend(StrEnum):
    """What computed an attention, by the operations that ran. MATH writes the scores out; the others do not."""

    FLASH_CPU = "flash on the CPU"
    FLASH = "flash"
    EFFICIENT = "memory-efficient"
    CUDNN = "cuDNN"
    MATH = "math"


_OPERATIONS = {
    "_scaled_dot_product_flash_attention_for_cpu": Backend.FLASH_CPU,
    "_scaled_dot_product_flash_attention": Backend.FLASH,
    "_scaled_dot_product_efficient_attention": Backend.EFFICIENT,
    "_scaled_dot_product_cudnn_attention": Backend.CUDNN,
}


@dataclass(frozen=True)
class Case:
    """Shapes of one attention: the last `queries` positions over `keys` positions, d = e = width."""

    queries: int
    keys: int
    heads: int = 1
    kv_heads: int = 1
    width: int = 64
    batch: int = 1


def draw(case: Case, dtype: torch.dtype, seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """q (B, H, m, d), k and v (B, G, n, d), normal of standard deviation `scale` (v: 1), rounded to the dtype."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(case.heads, case.queries), (case.kv_heads, case.keys), (case.kv_heads, case.keys)]
    q, k, v = (torch.randn(case.batch, h, n, case.width, generator=generator) for h, n in shapes)
    return (q * scale).to(dtype), (k * scale).to(dtype), v.to(dtype)


def explicit(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention with its m x n scores as a tensor of their own, all in the inputs' dtype; (B, H, m, d)."""
    keys, values = grouped(k, q.shape[1]), grouped(v, q.shape[1])
    scores = q @ keys.mT / math.sqrt(q.shape[-1])
    if q.shape[2] > 1:
        hidden = future(q.shape[2], k.shape[2]).to(q.device)
        scores = scores.masked_fill_(hidden, -math.inf)
    return scores.softmax(-1) @ values


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same by torch's fused operation. No flag for one query: ``is_causal`` would show it only the first key.

    Neither fits several queries over more keys (a prompt in chunks): a mask is then unavoidable, see `fused_masked`.
    """
    if 1 < q.shape[2] < k.shape[2]:
        return fused_masked(q, k, v)
    return scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1, enable_gqa=q.shape[1] != k.shape[1])


def fused_masked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The fused operation given the causal mask as a bool tensor (m, n), as padded batches and chunks need it."""
    visible = ~future(q.shape[2], k.shape[2]).to(q.device)
    return scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=q.shape[1] != k.shape[1])


def math_only(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`fused` with every backend but the written-out one forbidden: what a fallback would do."""
    with sdpa_kernel(SDPBackend.MATH):
        return fused(q, k, v)


def backend_of(program: Callable[[], object]) -> Backend:
    """Which backend the program's attention ran on. Raises ValueError where several did, so that none is hidden."""
    with _Calls() as seen:
        program()
    found = {backend for backend, _ in seen.calls}
    if len(found) > 1:
        raise ValueError(f"several backends ran: {sorted(found)}")
    return found.pop() if found else Backend.MATH


@dataclass(frozen=True)
class Reading:
    """One attention against the exact function. worst, rms: of the error, in units of the largest |value|.

    share_of_bound: the largest error over its own bound; above 1, or not a number, it is another function.
    """

    worst: float
    rms: float
    share_of_bound: float


def read(attention: Attention, q: Tensor, k: Tensor, v: Tensor, exact: Exact) -> Reading:
    """Run an attention once for its errors."""
    error = (attention(q, k, v).double() - exact.output).abs()
    share = (error / exact.bound.clamp_min(torch.finfo(torch.float64).tiny)).max()  # 0 of 0 where v is 0
    largest = v.double().abs().max()
    return Reading(float(error.max() / largest), float(error.square().mean().sqrt() / largest), float(share))


def compare(case: Case, dtype: torch.dtype, seed: int = 0) -> dict[str, Reading]:
    """`fused` and `explicit` on the same drawn inputs, each against the exact function and its own bound."""
    q, k, v = draw(case, dtype, seed)
    readings = {}
    for attention, rounding in ((fused, fused_rounding(dtype)), (explicit, explicit_rounding(dtype))):
        readings[attention.__name__] = read(attention, q, k, v, exact_attention(q, k, v, rounding))
    return readings


def share_of_other_bits(case: Case, dtype: torch.dtype, seed: int = 0) -> float:
    """Of all output numbers, those that `fused` and `explicit` do not agree on to the last bit."""
    q, k, v = draw(case, dtype, seed)
    return float((fused(q, k, v) != explicit(q, k, v)).double().mean())


def spoiled_rows(attention: Attention, case: Case, last_value: float) -> int:
    """Query rows that are not finite after the last value vector's first number, which only the last may see, is set.

    A mask should keep it from all others; but a weight of 0 times NaN or infinity is NaN.
    """
    q, k, v = draw(case, torch.float32)
    v[..., -1, 0] = last_value
    return int((~attention(q, k, v)[0, 0].isfinite()).any(-1).sum())


def blind_row(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """What a query that may see no key gets: the fused operation's row (d,), and softmax's over nothing but -inf."""
    q, k, v = draw(Case(2, 2), dtype)
    visible = torch.tensor([[False, False], [True, True]])
    scores = (q @ k.mT).masked_fill(~visible, -math.inf)
    outputs = {"fused": scaled_dot_product_attention(q, k, v, attn_mask=visible), "explicit": scores.softmax(-1) @ v}
    return {name: output[0, 0, 0] for name, output in outputs.items()}


def attention_peak(attention: Attention, case: Case, dtype: torch.dtype = torch.float32) -> Peak:
    """Live tensors of one attention over drawn inputs (not counted), at the fullest moment."""
    q, k, v = draw(case, dtype)
    return peak_of(lambda: attention(q, k, v))[1]


def square_bytes(peak: Peak, case: Case) -> int:
    """Of a peak, the bytes of tensors that end in queries x keys: scores, weights, masks. width must be another."""
    return sum(a.storage_bytes for a in peak.alive if a.shape[-2:] == (case.queries, case.keys))


@dataclass(frozen=True)
class Handed:
    """What one fused attention was given: query and key-value heads, and its mask's bytes (0 without one)."""

    heads: int
    kv_heads: int
    queries: int
    keys: int
    mask_bytes: int


def handed_over(program: Callable[[], object]) -> list[Handed]:
    """What each fused attention inside a program received, in order; one written out (``MATH``) leaves nothing."""
    with _Calls() as seen:
        program()
    return [handed for _, handed in seen.calls]


def _handed(args: Any, kwargs: Any) -> Handed:
    """Of the operations' common beginning (query, key, value); a mask is a keyword, or the efficient one's fourth."""
    query, key = args[:2]
    mask = kwargs.get("attn_mask", kwargs.get("attn_bias"))
    if mask is None and len(args) > 3 and isinstance(args[3], Tensor):
        mask = args[3]
    size = 0 if mask is None else mask.untyped_storage().nbytes()
    return Handed(query.shape[1], key.shape[1], query.shape[2], key.shape[2], size)


def profiled_peak_bytes(program: Callable[[], object]) -> int:
    """Most bytes the CPU allocator had out at once while the program ran: sees a kernel's own scratch space too.

    Once before, unmeasured: first calls allocate what stays. Only allocations on the CPU are counted.
    """
    program()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        result = program()
        del result
    profiler: Any = recording.profiler
    events = [e for e in profiler.kineto_results.events() if e.name() == "[memory]"]
    running = highest = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        running += event.nbytes()
        highest = max(highest, running)
    return highest


class _Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Collects which attention operations run, composite ones already taken apart, and what they are given."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Backend, Handed]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in _OPERATIONS:
            self.calls.append((_OPERATIONS[name], _handed(args, kwargs or {})))
        return func(*args, **(kwargs or {}))
