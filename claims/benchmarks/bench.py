"""One benchmark of a pass: rounds by count, synchronised, and set against what the machine can do at most."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture
    from transformers import PreTrainedModel

    from lib.machine_limits import MachineLimits
    from lib.step_actions import PassCost
    from lib.timing.clock import Clock

WARM_UP = 2  # by count: the first pass of a shape makes buffers, packed copies and, on a GPU, kernels
# Rounds: as many as fit in so many seconds by the last warm-up, within these bounds; all twelve then take a minute.
SECONDS, FEWEST, MOST = 1.0, 3, 30


@dataclass
class Bench:
    """What a benchmark has at hand: pytest-benchmark's fixture, a model on some device, its limits and clock."""

    benchmark: BenchmarkFixture
    model: PreTrainedModel
    limits: MachineLimits
    clock: Clock

    def run(self, action: Callable[[], object], cost: PassCost, **amounts: int) -> float:
        """Time the action, and put its rates and `amounts` beside the times; the median in seconds."""
        warm_s = [self.clock.seconds(action) for _ in range(WARM_UP)][-1]
        rounds = min(MOST, max(FEWEST, int(SECONDS / warm_s))) if warm_s > 0 else FEWEST  # NaN: the clock was set back
        self.benchmark.pedantic(self._finished(action), setup=self._settle, rounds=rounds)
        median = float(self.benchmark.stats.stats.median)
        self.benchmark.extra_info |= self._where() | self._rates(cost, median) | amounts
        return median

    def run_pass(self, action: Callable[[], object], cost: PassCost, context: int, batch: int, positions: int) -> None:
        """Time a pass of `positions` new tokens for each of `batch` rows on top of `context` cached ones."""
        median = self.run(action, cost, context=context, batch=batch, positions=positions)
        self.benchmark.extra_info["tokens_per_s"] = batch * positions / median

    @property
    def _dtype(self) -> torch.dtype:
        return self.model.dtype

    def _finished(self, action: Callable[[], object]) -> Callable[[], None]:
        def whole() -> None:
            action()
            self._settle()

        return whole

    def _settle(self) -> None:
        """Wait for everything that was launched; on a CPU nothing is outstanding when a call returns."""
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)

    def _rates(self, cost: PassCost, seconds: float) -> dict[str, float]:
        """Bytes and FLOP that the work needs at least, per second, and as shares of the machine's limits.

        The limit is that of memory: what fits in a processor's own cache, a single matrix say, may read faster.
        """
        bytes_per_s, flop_per_s = cost.read_bytes / seconds, cost.flops / seconds
        rates = {"bytes_per_s": bytes_per_s, "share_of_read_limit": bytes_per_s / self.limits.read}
        if cost.flops:  # quantizing is no matrix product: that limit does not concern it
            rates |= {"flop_per_s": flop_per_s, "share_of_flop_limit": flop_per_s / self.limits.flops(self._dtype)}
        return rates | self.limits.facts()

    def _where(self) -> dict[str, str | int]:
        device = self.model.device
        on_gpu = device.type == "cuda"
        return {
            "device": device.type,
            "device_name": torch.cuda.get_device_name(device) if on_gpu else platform.processor() or platform.machine(),
            "dtype": str(self._dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "parameters": sum(p.numel() for p in self.model.parameters()),
        }
