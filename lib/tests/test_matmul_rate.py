"""The matmul rate: a positive rate of a real product, and nothing else."""

from __future__ import annotations

import time

import pytest
import torch

from lib.matmul_rate import matmul_rate


def test_rate_against_a_clock_around_the_same_products() -> None:
    """What it says one product takes is at most what all of them took, and not a hundredth of that."""
    started = time.perf_counter()
    rate = matmul_rate(64, 128, 256, torch.device("cpu"), repeats=5)
    elapsed = time.perf_counter() - started
    one = 2 * 64 * 128 * 256 / rate
    assert 0 < one <= elapsed


def test_an_empty_product_is_refused() -> None:
    with pytest.raises(ValueError, match="no product"):
        matmul_rate(0, 1, 1, torch.device("cpu"))
