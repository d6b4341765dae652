"""What two instruments may cost. `pytest lib/benchmarks --benchmark-only`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lib.scheduling.cost import constant
from lib.scheduling.family import draw, poisson_arrivals
from lib.scheduling.many import Workloads, simulate_continuous, simulate_static

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

BUDGET_S = 10.0  # for ten thousand drawn workloads; for the limits of a machine


def held(benchmark: BenchmarkFixture) -> None:
    if benchmark.stats is None or benchmark.stats.stats.min > BUDGET_S:
        pytest.fail(f"more than {BUDGET_S} s: {benchmark.stats}")


@pytest.mark.parametrize("simulate", [simulate_continuous, simulate_static])
def test_ten_thousand_workloads(benchmark: BenchmarkFixture, simulate: Callable[[Workloads, object], object]) -> None:
    many = poisson_arrivals(draw("log-normal", 10_000, seed=1), 0.8, 8.0, seed=2)
    benchmark.pedantic(simulate, args=(many, constant(8)), rounds=1)
    held(benchmark)


def test_limits_of_this_machine(benchmark: BenchmarkFixture) -> None:
    import torch

    from lib.machine_limits import machine_limits
    from lib.timing.clock import WallClock

    benchmark.pedantic(lambda: machine_limits(torch.device("cpu"), WallClock()), rounds=1)
    held(benchmark)
