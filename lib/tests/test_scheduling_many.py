"""The vectorised schedules against the step-by-step simulator, and the bounds against every schedule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.scheduling import bounds
from lib.scheduling.cost import StepCost, affine, constant, measured
from lib.scheduling.family import PUBLISHED, SHAPES, draw, poisson_arrivals
from lib.scheduling.latency import DEFINITIONS, mean_ratio
from lib.scheduling.many import Workloads, all_at_once, simulate_continuous, simulate_static
from lib.scheduling.policies import CONTINUOUS, STATIC, STATIC_FULL_GROUPS
from lib.scheduling.requests import Request, at_once
from lib.scheduling.simulate import simulate
from lib.scheduling.times import Times, throughput_ratio

MOMENTS = ("admitted_s", "first_token_s", "finished_s", "released_s")
# Times up to some 2,000 summed in steps of a few units: at most 2,000 additions, each off by half a unit in the last
# place of 2^53, where the vectorised form multiplies once.
SUMMATION = 2000 * 2.0**-53
SERVICE = DEFINITIONS["admission to answer, returned together"]


@st.composite
def workloads(draw_from: st.DrawFn) -> tuple[Workloads, StepCost, int]:
    """A few workloads whose times are multiples of 1/4, which floating point adds and multiplies exactly."""
    count, n = draw_from(st.integers(1, 3)), draw_from(st.integers(1, 14))
    table = st.lists(st.integers(1, 12), min_size=n, max_size=n)
    tables = [np.array(draw_from(st.lists(table, min_size=count, max_size=count))) for _ in range(3)]
    late = draw_from(st.integers(0, 3))
    arrival = np.sort(tables[0] * late, axis=1) / 4
    costs = draw_from(st.lists(st.integers(1, 9).map(lambda k: k / 4), min_size=4, max_size=4))
    cost = StepCost(tuple(costs), draw_from(st.sampled_from((0.0, 0.25))))
    return Workloads(arrival, tables[1], tables[2]), cost, draw_from(st.integers(1, 4))


def requests(many: Workloads, row: int) -> list[Request]:
    fields = zip(many.arrival_s[row], many.prompt_tokens[row], many.output_tokens[row], strict=True)
    return [Request(float(arrival), int(prompt), int(output)) for arrival, prompt, output in fields]


def same(one: Times, many: Times, row: int) -> bool:
    return all((getattr(one, moment) == getattr(many, moment)[row]).all() for moment in MOMENTS)


@settings(max_examples=120, deadline=None)
@given(workloads())
def test_continuous_against_the_simulator(case: tuple[Workloads, StepCost, int]) -> None:
    many, cost, slots = case
    fast = simulate_continuous(many, cost, slots)
    for row in range(len(many.arrival_s)):
        assert same(simulate(requests(many, row), CONTINUOUS, cost, slots).times, fast, row)


@settings(max_examples=120, deadline=None)
@given(workloads(), st.booleans(), st.booleans())
def test_static_against_the_simulator(case: tuple[Workloads, StepCost, int], padding: bool, full: bool) -> None:
    many, cost, slots = case
    fast = simulate_static(many, cost, slots, padding_computed=padding, full_groups=full)
    policy = STATIC_FULL_GROUPS if full else STATIC
    for row in range(len(many.arrival_s)):
        slow = simulate(requests(many, row), policy, cost, slots, padding_computed=padding)
        assert same(slow.times, fast, row)


@pytest.mark.parametrize("load", [0.2, 0.7, 1.2])
def test_poisson_workloads_of_64_against_the_simulator(load: float) -> None:
    cost = measured([1, 1.0, 1.07, 1.9, 2.0, 2.1, 2.2, 2.3])
    many = poisson_arrivals(draw("log-normal", 3, seed=5), load, 8 / 2.3, seed=6)
    for policy, fast in ((CONTINUOUS, simulate_continuous(many, cost)), (STATIC, simulate_static(many, cost))):
        for row in range(3):
            slow = simulate(requests(many, row), policy, cost).times
            for moment in MOMENTS:
                np.testing.assert_allclose(getattr(fast, moment)[row], getattr(slow, moment), rtol=SUMMATION)


def test_comparison_rejects_groups_that_are_not_held() -> None:
    many = all_at_once(np.array([[1, 3, 2, 1]]))
    static = simulate_static(many, constant(2), 2)
    assert not same(simulate(requests(many, 0), CONTINUOUS, constant(2), 2).times, static, 0)


@pytest.mark.parametrize(
    ("arrival", "tokens", "named"),
    [([[-1.0]], [[1]], "arrivals"), ([[np.nan]], [[1]], "arrivals"), ([[2.0, 1.0]], [[1, 1]], "arrivals"),
     ([[0.0]], [[0]], "at least one token"), ([[0.0, 0.0]], [[3, 0]], "at least one token"),
     ([[0.0]], [[1, 1]], "one shape"), ([0.0], [1], "one shape")],
)  # fmt: skip
def test_bad_workloads_are_named(arrival: list, tokens: list, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Workloads(np.array(arrival), np.array(tokens), np.zeros_like(tokens))


def test_a_server_without_costs_for_its_slots_is_refused() -> None:
    with pytest.raises(ValueError, match="9 slots"):
        simulate_continuous(all_at_once(np.array([[1]])), constant(8), 9)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=24), st.integers(1, 5))
def test_bounds_against_simulated_steps(lengths: list[int], slots: int) -> None:
    static, continuous = (simulate(at_once(lengths), p, constant(5), slots) for p in (STATIC, CONTINUOUS))
    assert len(static.steps) == sum(bounds.longest_of_groups(lengths, slots))
    assert bounds.fewest_static_steps(lengths, slots) <= len(static.steps) <= bounds.most_static_steps(lengths, slots)
    assert len(continuous.steps) <= bounds.most_continuous_steps(sum(lengths), max(lengths), slots)
    for run in (static, continuous):
        least = bounds.least_mean_completion(lengths, slots)
        assert np.mean(run.times.finished_s) >= least * (1 - SUMMATION)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=4, max_size=24).filter(lambda x: len(x) % 4 == 0))
def test_service_ratio_against_its_bounds(lengths: list[int]) -> None:
    static, continuous = (simulate(at_once(lengths), p, constant(4), 4).times for p in (STATIC, CONTINUOUS))
    ratio, faster = float(mean_ratio(SERVICE, static, continuous)), float(throughput_ratio(continuous, static))
    total, longest = sum(lengths), max(lengths)
    assert ratio <= bounds.most_service_ratio(len(lengths), total, longest) * (1 + SUMMATION)
    assert ratio <= bounds.most_service_ratio_at(faster, total, longest, 4) * (1 + SUMMATION)


@given(
    st.lists(st.integers(1, 60), min_size=8, max_size=24).filter(lambda x: len(x) % 4 == 0),
    st.lists(st.floats(0, 3), min_size=3, max_size=3),
)
def test_bound_at_a_throughput_against_any_growing_cost(lengths: list[int], growth: list[float]) -> None:
    """Full groups, all at once: whatever a step costs, as long as more rows do not cost less."""
    cost = measured([1.0, *(1 + sum(growth[: n + 1]) for n in range(3))])
    static, continuous = (simulate(at_once(lengths), p, cost, 4).times for p in (STATIC, CONTINUOUS))
    ratio, faster = float(mean_ratio(SERVICE, static, continuous)), float(throughput_ratio(continuous, static))
    assert ratio <= bounds.most_service_ratio_at(faster, sum(lengths), max(lengths), 4) * (1 + SUMMATION)


def test_bound_at_a_throughput_rejects_a_cost_that_falls() -> None:
    """The wrong variant: where a step of one row is the dear one, the tail is dear and keeps nobody waiting."""
    lengths, cost = [2, 40, 20, 5, 40, 40, 40, 2, 20, 20, 20, 40], measured([50.0, 1.0, 1.0, 1.0])
    static, continuous = (simulate(at_once(lengths), p, cost, 4).times for p in (STATIC, CONTINUOUS))
    ratio, faster = float(mean_ratio(SERVICE, static, continuous)), float(throughput_ratio(continuous, static))
    assert ratio > 2 * bounds.most_service_ratio_at(faster, sum(lengths), max(lengths), 4)


def test_published_figures_against_the_bounds() -> None:
    total, longest = PUBLISHED.total, PUBLISHED.longest
    assert bounds.most_service_ratio(64, total, longest) == pytest.approx(7.889, abs=5e-4)  # 231 · 64 / 1,874
    assert bounds.most_continuous_steps(total, longest, 8) == 436.375  # 1,643 / 8 + 231
    assert bounds.most_service_ratio_at(1.65, total, longest, 8) == pytest.approx(3.074, abs=5e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_bounds_against_the_published_family(shape: str) -> None:
    many = draw(shape, 200, seed=9)
    static, continuous = (
        simulate_static(all_at_once(many), constant(8)),
        simulate_continuous(all_at_once(many), constant(8)),
    )
    assert (mean_ratio(SERVICE, static, continuous) < bounds.most_service_ratio(64, 1874, 231)).all()
    assert (continuous.makespan_s <= bounds.most_continuous_steps(1874, 231, 8)).all()


def test_bounds_reject_a_cost_that_grows_with_rows() -> None:
    """The bound holds at a constant cost: a single slow request beside a free one breaks it otherwise."""
    lengths, cost = [1, 40], affine(2, 1.0, 9.0)
    static, continuous = (simulate(at_once(lengths), p, cost, 2).times for p in (STATIC, CONTINUOUS))
    assert float(static.makespan_s) > sum(bounds.longest_of_groups(lengths, 2)) * cost.of(1)
    assert mean_ratio(SERVICE, static, continuous) > bounds.most_service_ratio(2, 41, 40)
