"""The roofline's two lines, held against a scripted clock and against hand-worked rooflines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from lib import machine_limits as module
from lib.machine_limits import REPEATS, MachineLimits, machine_limits
from lib.timing.clock import WallClock

CPU = torch.device("cpu")
LIMITS = MachineLimits(read=100.0, fp32=1000.0, bf16=4000.0)
# One division and one product of floats: a few units of 2^-53.
ROUNDING = 8 * 2.0**-53


class ScriptedClock:
    """Runs the action and says the next scripted duration."""

    def __init__(self, *durations: float) -> None:
        self._script: Iterator[float] = iter(durations)

    def seconds(self, action: Callable[[], object]) -> float:
        action()
        return next(self._script)


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_BYTES", 2**20)
    monkeypatch.setattr(module, "RATE_SHAPE", (16, 32, 64))
    monkeypatch.setattr(module, "PRODUCT_FLOPS", 2 * 16 * 32 * 64)


@pytest.mark.usefixtures("little_work")
def test_rates_against_a_scripted_clock() -> None:
    """The best of five: reading, then fp32, then bf16."""
    tries = [[5, 2, 5, 5, 5], [3, 3, 3, 1, 3], [0.5, 2, 2, 2, 2]]
    limits = machine_limits(CPU, ScriptedClock(*(s for five in tries for s in five)))
    assert limits == MachineLimits(read=2**20 / 2, fp32=2 * 16 * 32 * 64 / 1, bf16=2 * 16 * 32 * 64 / 0.5)


@pytest.mark.usefixtures("little_work")
def test_a_clock_that_jumps_spoils_a_try_and_not_the_limit() -> None:
    tries = [math.nan, 4.0, math.nan, 2.0, 4.0]
    assert machine_limits(CPU, ScriptedClock(*tries * 3)).read == 2**20 / 2
    assert math.isnan(min(tries)), "a bare minimum would have been spoilt"


@pytest.mark.usefixtures("little_work")
def test_a_clock_without_any_sense_gives_no_limit() -> None:
    limits = machine_limits(CPU, ScriptedClock(*[math.nan] * 3 * REPEATS))
    assert all(math.isnan(rate) for rate in (limits.read, limits.fp32, limits.bf16))


@pytest.mark.parametrize(
    ("read_bytes", "flops", "seconds"), [(500, 1000, 5), (100, 7000, 7), (300, 3000, 3), (0, 0, 0)]
)
def test_least_time_is_the_longer_of_the_two(read_bytes: float, flops: float, seconds: float) -> None:
    assert LIMITS.seconds(read_bytes, flops) == seconds


def test_the_sum_of_the_two_would_be_too_long() -> None:
    assert LIMITS.seconds(300, 3000) < 300 / LIMITS.read + 3000 / LIMITS.fp32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_at_the_knee_reading_takes_as_long_as_arithmetic(dtype: torch.dtype) -> None:
    weights, per_row = 1234.0, 77.0
    knee = LIMITS.knee(weights, per_row, dtype)
    assert weights / LIMITS.read == pytest.approx(knee * per_row / LIMITS.flops(dtype), rel=ROUNDING)
    least = LIMITS.seconds(weights, 0, dtype)
    assert LIMITS.seconds(weights, 0.9 * knee * per_row, dtype) == least < LIMITS.seconds(weights, 1.1 * knee * per_row)


def test_another_format_has_another_knee() -> None:
    assert LIMITS.knee(1000, 10, torch.bfloat16) == 4 * LIMITS.knee(1000, 10)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float64])
def test_a_format_that_was_not_measured_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match="no rate"):
        LIMITS.seconds(1, 1, dtype)


def test_the_counted_operations_are_those_of_the_product() -> None:
    rows, inner, columns = module.RATE_SHAPE
    assert 2 * rows * inner * columns == module.PRODUCT_FLOPS


def test_facts_are_the_rates() -> None:
    assert MachineLimits(2e9, 3e9, 4e9).facts() == {
        "read_gb_per_s": 2.0, "fp32_gflop_per_s": 3.0, "bf16_gflop_per_s": 4.0,
    }  # fmt: skip


def test_this_machine_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the size, so that the suite stays quick; no bound on speed."""
    monkeypatch.setattr(module, "READ_BYTES", 2**28)
    monkeypatch.setattr(module, "RATE_SHAPE", (256, 2048, 2048))
    monkeypatch.setattr(module, "PRODUCT_FLOPS", 2 * 256 * 2048 * 2048)
    limits = machine_limits(CPU, WallClock())
    assert min(limits.read, limits.fp32, limits.bf16) > 0
