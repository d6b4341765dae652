"""The simulator against invariants, schedules written out by hand, and policies that break the rules."""

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.scheduling.cost import StepCost, affine, constant, measured
from lib.scheduling.policies import CONTINUOUS, STATIC, STATIC_FULL_GROUPS, Moment, Policy, fill_every_free_slot
from lib.scheduling.requests import MalformedRequest, Request, arrival_order, at_once
from lib.scheduling.simulate import Run, StuckSchedule, simulate
from lib.scheduling.times import throughput_ratio

POLICIES = (CONTINUOUS, STATIC, STATIC_FULL_GROUPS)
# Arrivals and costs are multiples of 1/4, sums of which floating point adds exactly: every comparison below is `==`.
QUARTERS = st.integers(0, 120).map(lambda n: n / 4)
REQUESTS = st.lists(st.builds(Request, QUARTERS, st.integers(0, 9), st.integers(0, 12)), min_size=1, max_size=20)
SLOTS = st.integers(1, 5)
COSTS = st.lists(st.integers(1, 9).map(lambda n: n / 4), min_size=5, max_size=5).map(measured)
UNIT = constant(8)
STAGGERED = [Request(0, 0, 3), Request(0, 0, 1), Request(0.5, 0, 2), Request(9, 0, 1)]


class RefillsOneStepLate:
    """A wrong policy: it fills only what was already free at its last look, so a freed slot idles for a step."""

    def __init__(self) -> None:
        self.free_before = math.inf

    def __call__(self, moment: Moment) -> int:
        count = int(min(moment.waiting, moment.free, self.free_before))
        self.free_before = moment.free - count
        return count


def idle_while_waiting(run: Run) -> bool:
    return any(step.held < run.slots and step.waiting for step in run.steps)


@settings(max_examples=150, deadline=None)
@given(REQUESTS, SLOTS, COSTS)
def test_no_slot_is_idle_while_a_request_waits(requests: list[Request], slots: int, cost: StepCost) -> None:
    assert not idle_while_waiting(simulate(requests, CONTINUOUS, cost, slots))


def test_idleness_finds_a_policy_that_refills_one_step_late() -> None:
    late = Policy("late", RefillsOneStepLate(), released_together=False)
    assert idle_while_waiting(simulate(at_once([1, 2, 3, 3]), late, UNIT, 2))


def test_idleness_finds_static_batching() -> None:
    staggered = [Request(float(arrival), 0, 3) for arrival in range(6)]
    assert idle_while_waiting(simulate(staggered, STATIC, UNIT, 2))


@settings(max_examples=150, deadline=None)
@given(REQUESTS, SLOTS, COSTS, st.sampled_from(POLICIES), st.booleans())
def test_every_request_is_served_exactly_its_tokens(
    requests: list[Request], slots: int, cost: StepCost, policy: Policy, padding: bool
) -> None:
    run = simulate(requests, policy, cost, slots, padding_computed=padding)
    times = run.times
    assert run.computed_rows == sum(request.output_tokens for request in requests)
    assert times.output_tokens.tolist() == [request.output_tokens for request in requests]
    moments = [times.arrival_s, times.admitted_s, times.first_token_s, times.finished_s, times.released_s]
    assert all((earlier <= later).all() for earlier, later in pairwise(moments))
    assert run.padding_rows == 0 or policy.released_together
    assert all(step.active <= step.held <= slots for step in run.steps)


@settings(max_examples=100, deadline=None)
@given(REQUESTS, SLOTS, COSTS, st.sampled_from(POLICIES))
def test_one_request_per_slot_at_a_time(requests: list[Request], slots: int, cost: StepCost, policy: Policy) -> None:
    run = simulate(requests, policy, cost, slots)
    for slot in range(slots):
        stays = sorted((run.times.admitted_s[i], run.times.released_s[i]) for i, s in enumerate(run.slot) if s == slot)
        assert all(left <= entered for (_, left), (entered, _) in pairwise(stays))
    assert Counter(run.slot)[-1] == sum(request.output_tokens == 0 for request in requests)


@settings(max_examples=100, deadline=None)
@given(REQUESTS, SLOTS, COSTS, st.sampled_from(POLICIES))
def test_first_come_is_first_served(requests: list[Request], slots: int, cost: StepCost, policy: Policy) -> None:
    admitted = simulate(requests, policy, cost, slots).times.admitted_s[arrival_order(requests)]
    assert (np.diff(admitted) >= 0).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), SLOTS)
def test_static_is_continuous_for_full_groups_of_one_length(groups: int, tokens: int, slots: int) -> None:
    requests = at_once([tokens] * groups * slots)
    first, second = (simulate(requests, policy, UNIT, slots) for policy in (CONTINUOUS, STATIC))
    assert first.steps == second.steps
    assert (first.times.released_s == second.times.released_s).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), SLOTS)
def test_continuous_is_never_slower_at_a_constant_cost(lengths: list[int], slots: int) -> None:
    requests = at_once(lengths)
    continuous, static = (simulate(requests, policy, UNIT, slots).times for policy in (CONTINUOUS, STATIC))
    assert throughput_ratio(continuous, static) >= 1
    assert (continuous.finished_s <= static.finished_s).all()


@settings(max_examples=100, deadline=None)
@given(REQUESTS, SLOTS, st.randoms(use_true_random=False), st.sampled_from(POLICIES))
def test_requests_given_in_another_order_fare_the_same(requests, slots, random, policy) -> None:
    apart = [Request(i / 4, r.prompt_tokens, r.output_tokens) for i, r in enumerate(requests)]  # no ties to break
    order = list(range(len(apart)))
    random.shuffle(order)
    plain = simulate(apart, policy, UNIT, slots).times
    shuffled = simulate([apart[i] for i in order], policy, UNIT, slots).times
    assert (plain.released_s[order] == shuffled.released_s).all()


def test_continuous_against_a_schedule_written_out() -> None:
    times = simulate(STAGGERED, CONTINUOUS, UNIT, 2).times
    assert times.admitted_s.tolist() == [0, 0, 1, 9]
    assert times.first_token_s.tolist() == [1, 1, 2, 10]
    assert times.finished_s.tolist() == times.released_s.tolist() == [3, 1, 3, 10]
    assert (float(times.makespan_s), float(times.throughput)) == (10, 7 / 10)


def test_static_against_a_schedule_written_out() -> None:
    run = simulate(STAGGERED, STATIC, UNIT, 2)
    assert run.times.admitted_s.tolist() == [0, 0, 3, 9]
    assert run.times.finished_s.tolist() == [3, 1, 5, 10]
    assert run.times.released_s.tolist() == [3, 3, 5, 10]
    assert [(step.active, step.held) for step in run.steps] == [(2, 2), (1, 2), (1, 2), (1, 1), (1, 1), (1, 1)]
    assert run.padding_rows == 2
    assert run.slot == (0, 1, 0, 0)


def test_static_waits_for_a_full_group_only_if_told_to() -> None:
    requests = [Request(0, 0, 1), Request(4, 0, 1), Request(8, 0, 1)]
    assert simulate(requests, STATIC, UNIT, 2).times.admitted_s.tolist() == [0, 4, 8]
    assert simulate(requests, STATIC_FULL_GROUPS, UNIT, 2).times.admitted_s.tolist() == [4, 4, 8]


def test_padding_costs_like_any_row_unless_it_is_left_out() -> None:
    cost = affine(2, 1.0, 0.5)
    padded, compact = (
        simulate(at_once([1, 3]), STATIC, cost, 2, padding_computed=padding) for padding in (True, False)
    )
    assert (float(padded.times.makespan_s), float(compact.times.makespan_s)) == (4.5, 3.5)


def test_throughput_counts_useful_tokens_only() -> None:
    run = simulate(at_once([1, 3]), STATIC, UNIT, 2)
    held_rows = run.computed_rows + run.padding_rows
    assert Fraction(float(run.times.throughput)) == Fraction(4 / 3)
    assert held_rows / float(run.times.makespan_s) == 2  # what a meter that counts padding would say


def test_prompts_add_to_the_step_of_their_admission() -> None:
    times = simulate([Request(0, 8, 2), Request(0, 4, 1)], CONTINUOUS, StepCost((1.0, 1.0), 0.25), 2).times
    assert times.finished_s.tolist() == [5, 4]


def test_a_request_for_no_tokens_is_done_at_admission_and_takes_no_slot() -> None:
    for policy in POLICIES:
        run = simulate(at_once([0, 0, 2, 0]), policy, UNIT, 2)
        assert run.slot[:2] == (-1, -1)
        assert len(run.steps) == 2
        assert run.times.released_s[0] == run.times.admitted_s[0] == 0
    assert simulate(at_once([0, 0]), CONTINUOUS, UNIT, 1).steps == ()


@pytest.mark.parametrize(
    ("fields", "named"),
    [((-1, 0, 1), "arrival_s is -1"), ((math.nan, 0, 1), "arrival_s is nan"), ((math.inf, 0, 1), "arrival_s is inf"),
     ((0, -3, 1), "prompt_tokens is -3"), ((0, 0, -2), "output_tokens is -2"), ((0, 0, 1.5), "output_tokens is 1.5"),
     ((0, True, 1), "prompt_tokens is True")],
)  # fmt: skip
def test_bad_requests_are_named(fields: tuple, named: str) -> None:
    with pytest.raises(MalformedRequest, match=named):
        Request(*fields)


def test_a_policy_that_never_admits_is_caught() -> None:
    with pytest.raises(StuckSchedule, match="'idle' leaves 2 requests"):
        simulate(at_once([1, 1]), Policy("idle", lambda moment: 0, released_together=False), UNIT)


def test_a_policy_that_admits_more_than_fit_is_caught() -> None:
    with pytest.raises(ValueError, match="'greedy' admits 3"):
        simulate(at_once([1, 1, 1]), Policy("greedy", lambda moment: moment.waiting, released_together=False), UNIT, 2)


def test_bad_servers_are_refused() -> None:
    for requests, slots in ((at_once([1]), 0), (at_once([1]), 9), ([], 2)):
        with pytest.raises(ValueError, match="slots"):
            simulate(requests, CONTINUOUS, UNIT, slots)
    for seconds in ((), (0.0,), (1.0, math.nan)):
        with pytest.raises(ValueError, match="positive and finite"):
            StepCost(seconds)
    with pytest.raises(ValueError, match="prompt token"):
        StepCost((1.0,), -1.0)
    with pytest.raises(ValueError, match="3 rows"):
        constant(2).of(3)


def test_policies_against_their_definitions() -> None:
    assert fill_every_free_slot(Moment(5, 3, 8, True)) == 3
    assert STATIC.admit(Moment(5, 7, 8, True)) == 0
    assert STATIC.admit(Moment(9, 8, 8, True)) == 8
    assert (STATIC_FULL_GROUPS.admit(Moment(5, 8, 8, True)), STATIC_FULL_GROUPS.admit(Moment(5, 8, 8, False))) == (0, 5)


def test_requests_without_more_words_come_at_zero_without_a_prompt() -> None:
    assert at_once([2, 3]) == [Request(0.0, 0, 2), Request(0.0, 0, 3)]


def test_the_makespan_begins_with_the_first_arrival() -> None:
    later = [Request(5.0, 0, 3), Request(6.0, 0, 2)]
    assert float(simulate(later, CONTINUOUS, constant(1), slots=1).times.makespan_s) == 5
