"""The comparison of both policies against the step-by-step simulator on the same workloads."""

from __future__ import annotations

import numpy as np
import pytest

from lib.scheduling import comparison
from lib.scheduling.comparison import SEED, SLOTS, Comparison, central, compare
from lib.scheduling.cost import StepCost, affine, constant
from lib.scheduling.family import PUBLISHED, SHAPES, draw, poisson_arrivals
from lib.scheduling.latency import DEFINITIONS, mean_ratio
from lib.scheduling.many import Workloads, all_at_once
from lib.scheduling.policies import CONTINUOUS, STATIC, Policy
from lib.scheduling.requests import Request
from lib.scheduling.simulate import simulate
from lib.scheduling.times import Times

PER_SHAPE = 2
ANSWER = DEFINITIONS["arrival to answer, returned together"]
# Times up to some 3,000 summed in steps of a few units: at most 3,000 additions, each off by half a unit in the last
# place of 2^53, above and below.
SUMMATION = 2 * 3000 * 2.0**-53
COSTS = {"constant": constant(SLOTS), "affine": affine(SLOTS, 1.0, 0.07)}


def workloads(cost: StepCost, load: float | None, count: int = PER_SHAPE) -> list[Workloads]:
    """What `compare` says it serves, drawn again: every shape, the same seed."""
    tokens = [draw(shape, count, SEED, PUBLISHED) for shape in SHAPES]
    full = SLOTS / cost.of(SLOTS)
    return [all_at_once(t) if load is None else poisson_arrivals(t, load, full, SEED) for t in tokens]


def one_by_one(many: list[Workloads], policy: Policy, cost: StepCost, padding: bool = True) -> list[Times]:
    served = []
    for work in many:
        for arrival, tokens in zip(work.arrival_s, work.output_tokens, strict=True):
            requests = [Request(float(a), 0, int(t)) for a, t in zip(arrival, tokens, strict=True)]
            served.append(simulate(requests, policy, cost, SLOTS, padding_computed=padding).times)
    return served


def expected(cost: StepCost, load: float | None, padding: bool = True) -> tuple[list[float], list[float]]:
    """Throughput and latency ratios, workload by workload."""
    many = workloads(cost, load)
    pairs = list(zip(one_by_one(many, STATIC, cost, padding), one_by_one(many, CONTINUOUS, cost), strict=True))
    return (
        [float(s.makespan_s / c.makespan_s) for s, c in pairs],
        [float(mean_ratio(ANSWER, s, c)) for s, c in pairs],
    )


def agrees(case: Comparison, throughput: list[float], latency: list[float]) -> bool:
    close = (np.allclose(a, b, rtol=SUMMATION, atol=0) for a, b in (
        (case.throughput(), throughput), (case.latency(ANSWER), latency)
    ))  # fmt: skip
    return all(close)


@pytest.mark.parametrize("load", [None, 0.6])
@pytest.mark.parametrize("cost", COSTS)
def test_ratios_against_the_simulator(cost: str, load: float | None) -> None:
    assert agrees(compare(COSTS[cost], PER_SHAPE, load), *expected(COSTS[cost], load))


def test_ratios_without_padding_against_the_simulator() -> None:
    cost = COSTS["affine"]
    assert agrees(compare(cost, PER_SHAPE, padding_computed=False), *expected(cost, None, padding=False))


def test_agreement_rejects_other_padding_arrivals_and_policies() -> None:
    cost = COSTS["affine"]
    right = expected(cost, None)
    assert not agrees(compare(cost, PER_SHAPE, padding_computed=False), *right)
    assert not agrees(compare(cost, PER_SHAPE, 0.6), *right)
    case = compare(cost, PER_SHAPE)
    assert not agrees(Comparison(case.continuous, case.static), *right)


def test_no_load_is_all_at_once() -> None:
    case = compare(COSTS["constant"], PER_SHAPE)
    assert all(not times.arrival_s.any() for times in (*case.static, *case.continuous))
    late = compare(COSTS["constant"], PER_SHAPE, 0.6)
    assert all((times.arrival_s > 0).all() for times in (*late.static, *late.continuous))


def test_load_against_the_tokens_offered_per_second() -> None:
    """The mean gap of 64 arrivals scatters by an eighth, over 50 workloads by a fiftieth: three of those."""
    cost, load = affine(SLOTS, 1.0, 0.07), 0.6
    times = compare(cost, 50, load).static[0]
    offered = times.useful_tokens.sum() / times.arrival_s.max(axis=1).sum()
    assert abs(offered / (SLOTS / cost.of(SLOTS)) / load - 1) < 3 / np.sqrt(50 * 64)


def test_every_shape_has_its_share_and_both_serve_the_same() -> None:
    case = compare(COSTS["constant"], PER_SHAPE)
    assert len(case.static) == len(case.continuous) == len(SHAPES)
    assert case.throughput().shape == case.latency(ANSWER).shape == (len(SHAPES) * PER_SHAPE,)
    for static, continuous, many in zip(case.static, case.continuous, workloads(constant(8), None), strict=True):
        assert (static.output_tokens == many.output_tokens).all() and (
            continuous.output_tokens == many.output_tokens
        ).all()


def test_central_against_order_statistics() -> None:
    found = central(np.random.default_rng(0).permutation(np.arange(101.0)))
    assert (found.low, found.value, found.high) == (5, 50, 95)


def test_central_rejects_the_mean_and_the_extremes() -> None:
    skewed = np.array([1.0] * 90 + [100.0] * 10)
    found = central(skewed)
    assert found.value == 1 != skewed.mean()
    assert central(np.arange(101.0)).high != 100


def test_bad_loads_and_costs_are_refused() -> None:
    with pytest.raises(ValueError, match="load of 0"):
        compare(constant(SLOTS), 1, 0)
    with pytest.raises(ValueError, match="a step of 8 rows"):
        compare(constant(SLOTS - 1), 1)
    assert comparison.CENTRAL == (5, 50, 95)
