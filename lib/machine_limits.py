"""What this machine can do at most: bytes read from memory per second, products per second. The roofline's two lines.

A pass that must read so many bytes and do so many operations takes at least the longer of the two times (Williams,
Waterman & Patterson, 2009). Measured with the plainest operations that torch has, in a few seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from lib.timing.clock import Clock

READ_BYTES = 2**30  # beyond any cache that a process has to itself
REPEATS = 5  # of which the fastest counts
RATE_SHAPE = (1024, 2048, 4096)  # tokens × columns × rows: 17 GFLOP, large enough that packing is paid off
PRODUCT_FLOPS = 2 * RATE_SHAPE[0] * RATE_SHAPE[1] * RATE_SHAPE[2]
ROW = 4096  # of the matrix that is read


@dataclass(frozen=True)
class MachineLimits:
    """read: bytes per second. fp32, bf16: FLOP per second of matrix products, a multiply-accumulate being two."""

    read: float
    fp32: float
    bf16: float

    def seconds(self, read_bytes: float, flops: float, dtype: torch.dtype = torch.float32) -> float:
        """The least time for so much reading and arithmetic, both perfectly overlapped."""
        return max(read_bytes / self.read, flops / self.flops(dtype))

    def knee(self, weight_bytes: float, flops_per_row: float, dtype: torch.dtype = torch.float32) -> float:
        """At how many rows (requests, positions) arithmetic takes as long as one read of the weights."""
        return weight_bytes / self.read * self.flops(dtype) / flops_per_row

    def flops(self, dtype: torch.dtype) -> float:
        """FLOP per second in a format, fp16 at bf16's rate (a GPU has one for both); ValueError for any other."""
        rates = {torch.float32: self.fp32, torch.bfloat16: self.bf16, torch.float16: self.bf16}
        if dtype not in rates:
            raise ValueError(f"no rate was measured for {dtype}")
        return rates[dtype]

    def facts(self) -> dict[str, float]:
        """For the protocol of a claim."""
        return {
            "read_gb_per_s": self.read / 1e9,
            "fp32_gflop_per_s": self.fp32 / 1e9,
            "bf16_gflop_per_s": self.bf16 / 1e9,
        }


def machine_limits(device: torch.device, clock: Clock) -> MachineLimits:
    """Measure them, the best of a few tries each: a limit is what the machine can do, not what it usually does."""
    return MachineLimits(
        read=READ_BYTES / _best(clock, read_action(device)),
        fp32=PRODUCT_FLOPS / _best(clock, product_action(device, torch.float32)),
        bf16=PRODUCT_FLOPS / _best(clock, product_action(device, torch.bfloat16)),
    )


def read_action(device: torch.device) -> Callable[[], object]:
    """A matrix-vector product over READ_BYTES: every byte is read once, and little else happens."""
    matrix, vector = torch.ones(READ_BYTES // 4 // ROW, ROW, device=device), torch.ones(ROW, device=device)
    return lambda: torch.mv(matrix, vector)


def product_action(device: torch.device, dtype: torch.dtype = torch.float32) -> Callable[[], object]:
    """A matrix product of PRODUCT_FLOPS operations."""
    rows, inner, columns = RATE_SHAPE
    left, right = (torch.ones(shape, device=device, dtype=dtype) for shape in ((rows, inner), (inner, columns)))
    return lambda: torch.mm(left, right)


def _best(clock: Clock, action: Callable[[], object]) -> float:
    action()
    seconds = [clock.seconds(action) for _ in range(REPEATS)]
    return min((s for s in seconds if math.isfinite(s)), default=math.nan)  # a clock that jumped says NaN
