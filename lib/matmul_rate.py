"""How fast this machine multiplies fp32 matrices: the yardstick for work that is made of such products."""

from __future__ import annotations

import statistics
import time

import torch

WARM_UP = 2  # the first products of a shape set up threads and packed copies


def matmul_rate(rows: int, inner: int, columns: int, device: torch.device, repeats: int = 7) -> float:
    """Median rate of (rows, inner) × (inner, columns) in fp32, in FLOP/s (a multiply-accumulate is two).

    Raises ValueError for an empty product.
    """
    if min(rows, inner, columns, repeats) < 1:
        raise ValueError(f"no product of {rows} × {inner} × {columns}, {repeats} times")
    left, right = torch.ones(rows, inner, device=device), torch.ones(inner, columns, device=device)
    seconds = [_product_seconds(left, right) for _ in range(WARM_UP + repeats)][WARM_UP:]
    return 2 * rows * inner * columns / statistics.median(seconds)


def _product_seconds(left: torch.Tensor, right: torch.Tensor) -> float:
    _settle(left)
    started = time.perf_counter()
    torch.mm(left, right)
    _settle(left)
    return time.perf_counter() - started


def _settle(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)
