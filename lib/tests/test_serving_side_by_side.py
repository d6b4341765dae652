"""Two policies in turn: their ratio against Student's t and seeded noise, the simulator's against counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lib.intervals import Estimate
from lib.scheduling.cost import affine, constant, measured
from lib.serving import side_by_side
from lib.serving.engine import Engine, Settings, Step
from lib.serving.requests import GenerationRequest
from lib.serving.scheduler import Policy
from lib.serving.side_by_side import (
    UNKNOWN,
    SideBySide,
    TurnClock,
    occupancy,
    run_in_turn,
    simulated_ratio,
    step_cost,
    total_ratio,
    waits,
)
from lib.tests.tiny_serving import ROUNDING, counting_clock, expected, limited, tiny
from lib.timing.sample import WAITED_AT_MOST

SLOTS, BLOCK, BLOCKS = 3, 4, 60  # of blocks, room for all requests at once
LIMITS = {0: 2, 1: 14, 2: 5, 3: 1, 4: 9, 5: 3, 6: 12, 8: 4, 9: 7, 10: 1}
# Sums of a few dozen numbers near 1 and their logarithms: far below a thousand roundings of 2^-53.
ARITHMETIC = 1000 * 2.0**-53
RUNS, NINE_IN_TEN = 1500, 0.9
# Three standard errors of a share of nine in ten over so many runs; t on a mean of lognormal steps is a little short of
# its name besides (skewness 0.6, some forty steps: by less than a hundredth).
SCATTER = 3 * math.sqrt(0.9 * 0.1 / RUNS) + 0.01


pytestmark = pytest.mark.usefixtures("one_thread")


def a_step(seconds: float, *, prefill: int = 0, decode: int = 0, padding: int = 0, new: int | None = None) -> Step:
    working = (True,) * decode + (False,) * padding
    return Step(
        seconds, ("somebody",) * len(working), working, prefill, decode, padding, decode if new is None else new
    )


def ran(static: list[Step], continuous: list[Step], waited: float = 0.0) -> SideBySide:
    return SideBySide({}, {Policy.STATIC: static, Policy.CONTINUOUS: continuous}, waited)


def asked(*tokens: int, prompt: int = 1) -> list[GenerationRequest]:
    return [GenerationRequest(i, (0,) * prompt, count) for i, count in enumerate(tokens)]


def test_total_ratio_against_a_case_by_hand() -> None:
    """Means 3 and 1, standard error 1 of the first; one degree of freedom, whose upper quartile is 1."""
    found = total_ratio([2, 4], [1, 1], confidence=0.5)
    assert found.value == 3
    assert found.low == pytest.approx(3 * math.exp(-1 / 3), rel=ARITHMETIC)
    assert found.high == pytest.approx(3 * math.exp(1 / 3), rel=ARITHMETIC)


def test_total_ratio_against_scipys_t_interval_where_one_side_does_not_vary() -> None:
    above = np.random.default_rng(3).lognormal(0, 0.05, 30)
    low, high = stats.t.interval(0.995, 29, above.mean(), stats.sem(above))
    found = total_ratio(above.tolist(), [2.0] * 40)
    assert found.value == pytest.approx(above.sum() / 80, rel=ARITHMETIC)
    assert math.log(found.high / found.low) == pytest.approx((high - low) / above.mean(), rel=1e-6)


def coverage(narrower: float = 1.0) -> float:
    """How often the interval holds the ratio of 45 static and 30 continuous steps that cost the same but for noise."""
    random, held = np.random.default_rng(11), 0
    for above, below in zip(
        random.lognormal(0, 0.2, (RUNS, 45)).tolist(), random.lognormal(0, 0.2, (RUNS, 30)).tolist(), strict=True
    ):
        found = total_ratio(above, below, NINE_IN_TEN)
        reach = math.log(found.high / found.value) / narrower
        held += abs(math.log(found.value / 1.5)) <= reach
    return held / RUNS


def test_total_ratio_covers_the_truth_as_often_as_it_says() -> None:
    assert NINE_IN_TEN - SCATTER <= coverage() <= NINE_IN_TEN + SCATTER + 0.02  # fewer degrees than there are: wider


def test_coverage_rejects_an_interval_half_as_wide() -> None:
    assert coverage(narrower=2) < NINE_IN_TEN - SCATTER


def test_steps_that_differ_by_nature_make_the_interval_wider_not_narrower() -> None:
    same = total_ratio([1.0, 1.1] * 10, [1.0, 1.1] * 10)
    mixed = total_ratio([1.0, 1.1] * 8 + [3.0] * 4, [1.0, 1.1] * 8 + [3.0] * 4)
    assert same.value == mixed.value == 1
    assert mixed.low < same.low and mixed.high > same.high


MADE_UP = ran(
    static=[
        a_step(9.0, prefill=20, new=4),  # 20 prompt tokens and four rows: 3 + 20 · 0.3
        a_step(3.0, decode=4),
        a_step(3.2, decode=1, padding=3),
        a_step(2.8, decode=2, padding=2),
    ],
    continuous=[
        a_step(4.0, prefill=10, new=2),  # two rows: 1.5 + 10 · 0.25
        a_step(1.4, decode=2),
        a_step(1.6, decode=2),
    ],
)


def test_step_cost_against_steps_written_out() -> None:
    cost = step_cost(MADE_UP, slots=5)
    assert cost.seconds == (1.5, 1.5, 3.0, 3.0, 3.0)  # medians of 2 and 4 rows; 1 and 3 as the next, 5 as the last
    assert cost.prompt_token_s == pytest.approx((6.0 + 2.5) / 30, rel=ARITHMETIC)


def test_step_cost_rejects_padding_that_is_not_counted() -> None:
    unpadded = [
        a_step(step.seconds, prefill=step.prefill, decode=step.decode, new=step.new)
        for step in MADE_UP.steps[Policy.STATIC]
    ]
    assert step_cost(ran(unpadded, [*MADE_UP.steps[Policy.CONTINUOUS]]), 5) != step_cost(MADE_UP, 5)


def test_a_chunk_that_decodes_nothing_is_all_prompt() -> None:
    run = ran([a_step(5.0, prefill=10, new=0), a_step(2.0, decode=2)], [])
    assert step_cost(run, 2).prompt_token_s == 0.5


def test_prompt_steps_that_took_less_than_their_rows_cost_nothing_more() -> None:
    assert step_cost(ran([a_step(1.0, prefill=3, new=1), a_step(2.0, decode=1)], []), 1).prompt_token_s == 0


def test_no_cost_without_a_step_that_only_decodes() -> None:
    with pytest.raises(ValueError, match="none of 1 steps"):
        step_cost(ran([a_step(1.0, prefill=3, new=1)], []), 1)


@pytest.mark.parametrize(
    ("cost", "static", "continuous"),
    [
        (constant(2), 3 + 2, 3),  # 3 and 1, then 2 alone; continuous: 2 follows 1
        (measured([1, 3]), 3 * 3 + 2 * 1, 3 * 3),  # the padding row of the first group is computed
        (affine(2, 2.0, 0.5), 3 * 2.5 + 2 * 2.0, 3 * 2.5),
    ],
)
def test_simulated_ratio_against_counting(cost, static: float, continuous: float) -> None:
    assert simulated_ratio(asked(3, 1, 2), cost, 2) == pytest.approx(static / continuous, rel=ARITHMETIC)


def test_simulated_ratio_counts_prompts_under_both() -> None:
    cost = step_cost(ran([a_step(3.0, prefill=4, new=2), a_step(1.0, decode=2)], []), 2)
    assert (cost.seconds, cost.prompt_token_s) == ((1.0, 1.0), 0.5)
    assert simulated_ratio(asked(3, 1, 2, prompt=4), cost, 2) == (5 + 12 * 0.5) / (3 + 12 * 0.5)


def test_counting_rejects_another_order() -> None:
    assert simulated_ratio(asked(3, 2, 1), constant(2), 2) != 5 / 3


@pytest.fixture(scope="module")
def run() -> SideBySide:
    return run_in_turn(tiny("qwen2"), limited(LIMITS), Settings(SLOTS, BLOCKS, BLOCK), threads=1)


@pytest.mark.parametrize("policy", Policy)
def test_tokens_against_solo_runs(run: SideBySide, policy: Policy) -> None:
    records = run.engines[policy].records
    assert len(records) == len(LIMITS)
    for record in records.values():
        assert expected("qwen2", record.request).equals(record.tokens, ROUNDING)
    assert sum(step.new for step in run.steps[policy]) == sum(LIMITS.values())


def test_steps_against_the_simulator_with_equal_costs(run: SideBySide) -> None:
    requests = limited(LIMITS)
    assert run.step_ratio == simulated_ratio(requests, constant(SLOTS), SLOTS) > 1
    assert run.step_ratio != simulated_ratio(requests, constant(SLOTS), SLOTS - 1), "another server is noticed"
    assert run.step_ratio != simulated_ratio(requests[::-1], constant(SLOTS), SLOTS), "another order is noticed"


def test_costs_of_a_real_run_are_usable(run: SideBySide) -> None:
    assert simulated_ratio(limited(LIMITS), step_cost(run, SLOTS), SLOTS) > 1


def test_occupancy_against_steps_written_out() -> None:
    steps = [a_step(0.5, decode=1, padding=1), a_step(1.0, decode=2)]
    assert occupancy(steps) == [(0.0, 1), (0.5, 1), (0.5, 2), (1.5, 2)]


def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[SideBySide, dict[Policy, float]]:
    """A run on a clock of one second per look at it, and the time of each engine's own turns."""
    monkeypatch.setattr(side_by_side, "perf_counter", counting_clock())
    found = run_in_turn(tiny("qwen2"), limited(LIMITS), Settings(SLOTS, BLOCKS, BLOCK), threads=1)
    edges = 2  # a turn begins one look before its step and ends one after
    return found, {policy: sum(step.seconds + edges for step in steps) for policy, steps in found.steps.items()}


def test_waits_are_within_an_engines_own_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    found, own = counted(monkeypatch)
    for policy, engine in found.engines.items():
        heard = waits(engine)
        assert len(heard) == len(LIMITS) and heard == sorted(heard) and heard[0] > 0
        assert own[policy] - found.steps[policy][-1].seconds - 2 < heard[-1] <= own[policy]
    means = {policy: sum(waits(engine)) for policy, engine in found.engines.items()}
    assert means[Policy.STATIC] > means[Policy.CONTINUOUS]


def test_waits_reject_a_clock_that_runs_in_the_other_ones_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TurnClock, "__call__", lambda _: side_by_side.perf_counter())
    found, own = counted(monkeypatch)
    assert waits(found.engines[Policy.CONTINUOUS])[-1] > own[Policy.CONTINUOUS]


def test_a_turn_clock_against_a_clock_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([10.0, 11.0, 13.0, 20.0, 24.0])
    monkeypatch.setattr(side_by_side, "perf_counter", lambda: next(looks))
    clock = TurnClock()
    assert clock() == 0
    with clock:
        assert clock() == 1
    assert clock() == 3
    with clock:
        pass
    assert clock() == 3 + 4


def test_requests_without_an_answer_wait_for_none() -> None:
    engine = Engine(tiny("qwen2"), Settings(1, BLOCKS, BLOCK), counting_clock())
    for request in limited({0: 2, 1: 2}):
        engine.submit(request)
    engine.cancel(1)
    engine.run()
    assert len(waits(engine)) == 1


STATIC_STEPS, CONTINUOUS_STEPS = ([a_step(s, decode=1) for s in (1.0, 1.01) * n] for n in (16, 10))


@pytest.mark.parametrize("waited", [2 * WAITED_AT_MOST, math.inf, math.nan])
def test_a_busy_machine_decides_nothing(waited: float) -> None:
    assert ran(STATIC_STEPS, CONTINUOUS_STEPS, waited).time_ratio == UNKNOWN == Estimate(1.0, 0.0, math.inf)


@pytest.mark.parametrize("waited", [0.0, WAITED_AT_MOST])
def test_a_quiet_machine_decides(waited: float) -> None:
    run = ran(STATIC_STEPS, CONTINUOUS_STEPS, waited)
    assert run.time_ratio.value == pytest.approx(1.6, rel=ARITHMETIC) and run.time_ratio.low > 1.5
    assert run.step_ratio == 1.6


@pytest.mark.parametrize(
    ("before", "after", "decided"),
    [
        (1.0, 1.0, True),
        (None, None, True),
        (1.0, 1e6, False),
        (2.0, 1.0, False),
        (1.0, None, False),
        (None, 1.0, False),
    ],
)  # a thread that ended took its count with it
def test_what_was_waited_comes_from_the_machines_count(
    monkeypatch: pytest.MonkeyPatch, before: float | None, after: float | None, decided: bool
) -> None:
    counts = iter([before, after])
    monkeypatch.setattr(side_by_side, "waited_seconds", lambda: next(counts))
    run = run_in_turn(tiny("qwen2"), limited({0: 6, 1: 8}), Settings(1, BLOCKS, BLOCK), threads=1)
    assert (run.time_ratio != UNKNOWN) == decided
