"""Both policies on many workloads of the published summary: what comes out typically, and what can come out at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from lib.intervals import Estimate
from lib.scheduling.cost import StepCost
from lib.scheduling.family import PUBLISHED, SHAPES, draw, poisson_arrivals
from lib.scheduling.latency import Latency, mean_ratio
from lib.scheduling.many import Workloads, all_at_once, simulate_continuous, simulate_static
from lib.scheduling.times import Seconds, Times, throughput_ratio

CENTRAL = (5, 50, 95)  # percent: nine workloads in ten lie between the outer two
SEED = 2024
SLOTS = 8  # as in the published simulation


@dataclass(frozen=True)
class Comparison:
    """The same workloads under both policies, one after another of each shape of skew."""

    static: tuple[Times, ...]
    continuous: tuple[Times, ...]

    def throughput(self) -> Seconds:
        """Useful tokens per second, continuous over static, by workload."""
        return np.concatenate([throughput_ratio(c, s) for s, c in zip(self.static, self.continuous, strict=True)])

    def latency(self, definition: Latency) -> Seconds:
        """Mean latency, static over continuous, by workload."""
        return np.concatenate([mean_ratio(definition, s, c) for s, c in zip(self.static, self.continuous, strict=True)])


def compare(cost: StepCost, workloads: int, load: float | None = None, *, padding_computed: bool = True) -> Comparison:
    """So many workloads of every shape, all there at once or arriving at random with this load.

    load: offered useful tokens over those of a server whose slots are always full. Raises ValueError for a load that is
    not positive, or a cost that is not given for all slots.
    """

    def both(shape: str) -> tuple[Times, Times]:
        return _both(_arriving(shape, workloads, cost, load), cost, padding_computed)

    with ThreadPoolExecutor(len(SHAPES)) as pool:  # numpy lets go of the interpreter within its loops
        pairs = list(pool.map(both, SHAPES))
    return Comparison(tuple(static for static, _ in pairs), tuple(continuous for _, continuous in pairs))


def central(ratios: Seconds) -> Estimate:
    """Median, with the range that holds nine workloads in ten."""
    low, middle, high = np.percentile(ratios, CENTRAL)
    return Estimate(float(middle), float(low), float(high))


def _arriving(shape: str, count: int, cost: StepCost, load: float | None) -> Workloads:
    tokens = draw(shape, count, SEED, PUBLISHED)
    full = SLOTS / cost.of(SLOTS)
    return all_at_once(tokens) if load is None else poisson_arrivals(tokens, load, full, SEED)


def _both(work: Workloads, cost: StepCost, padding_computed: bool) -> tuple[Times, Times]:
    static = simulate_static(work, cost, SLOTS, padding_computed=padding_computed)
    return static, simulate_continuous(work, cost, SLOTS)
