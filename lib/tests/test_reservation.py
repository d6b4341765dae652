"""Memory set aside against memory used: paging's bound, reservations by hand, and holes in a contiguous arena."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.contiguous_arena import Arena, NoHole, serve
from lib.reservation import TooLong, exactly, full_length, in_blocks, memory_over_time, output_up_to, the_maximum
from lib.scheduling.cost import constant
from lib.scheduling.policies import CONTINUOUS, STATIC
from lib.scheduling.requests import Request, at_once
from lib.scheduling.simulate import simulate

REQUESTS = st.lists(
    st.builds(Request, st.integers(0, 9).map(float), st.integers(1, 20), st.integers(0, 12)), min_size=1, max_size=12
).filter(lambda requests: any(request.output_tokens for request in requests))


def run_of(requests, policy=CONTINUOUS):
    return simulate(requests, policy, constant(3), 3)


def test_memory_against_a_schedule_written_out() -> None:
    requests = [Request(0, 4, 3), Request(0, 2, 1)]
    memory = memory_over_time(run_of(requests), requests, in_blocks(4))
    assert memory.used.tolist() == [4 + 2, 5, 6]
    assert memory.reserved.tolist() == [4 + 4, 8, 8]
    assert memory.wasted_share == 1 - 17 / 24
    assert memory.wasted_share_at_peak == 1 - 6 / 8


@settings(max_examples=100, deadline=None)
@given(REQUESTS, st.integers(1, 256))
def test_paging_wastes_less_than_one_block_per_sequence(requests: list[Request], size: int) -> None:
    run = run_of(requests)
    memory = memory_over_time(run, requests, in_blocks(size))
    sequences = np.array([step.held for step in run.steps])
    assert (memory.reserved - memory.used >= 0).all()
    assert (memory.reserved - memory.used < np.maximum(size * sequences, 1)).all()


def test_the_bound_rejects_a_table_that_takes_a_block_in_advance() -> None:
    requests = [Request(0, 4, 2)]
    memory = memory_over_time(run_of(requests), requests, lambda request, held: (held // 4 + 1) * 4)
    assert not (memory.reserved - memory.used < 4).all()


@settings(max_examples=60, deadline=None)
@given(REQUESTS)
def test_blocks_of_one_position_waste_nothing(requests: list[Request]) -> None:
    assert memory_over_time(run_of(requests), requests, in_blocks(1)).wasted_share == 0


@settings(max_examples=60, deadline=None)
@given(REQUESTS)
def test_less_knowledge_reserves_more(requests: list[Request]) -> None:
    longest = max(request.output_tokens for request in requests)
    schemes = [in_blocks(1), exactly, output_up_to(longest), the_maximum(20 + longest)]
    reserved = [memory_over_time(run_of(requests), requests, scheme).reserved for scheme in schemes]
    assert all((less <= more).all() for less, more in pairwise(reserved))


def test_a_finished_request_holds_its_memory_until_its_group_is_done() -> None:
    requests = at_once([1, 3], prompt_tokens=5)
    assert memory_over_time(run_of(requests, STATIC), requests, exactly).used.tolist() == [10, 11, 12]
    assert memory_over_time(run_of(requests), requests, exactly).used.tolist() == [10, 6, 7]


def test_fixed_slots_stay_set_aside_while_empty() -> None:
    requests = at_once([1, 3], prompt_tokens=5)
    memory = memory_over_time(run_of(requests), requests, the_maximum(16), empty_slot_positions=16)
    assert memory.reserved.tolist() == [48, 48, 48]


def test_requests_that_do_not_fit_are_named() -> None:
    requests = at_once([9], prompt_tokens=5)
    assert full_length(requests[0]) == 13
    for scheme in (the_maximum(12), output_up_to(8)):
        with pytest.raises(TooLong, match="output_tokens=9"):
            memory_over_time(run_of(requests), requests, scheme)
    with pytest.raises(ValueError, match="block of 0"):
        in_blocks(0)


OPERATIONS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 30)), max_size=40)


@settings(max_examples=150, deadline=None)
@given(OPERATIONS, st.sampled_from(("first", "best")))
def test_arena_against_a_map_of_every_position(operations: list[tuple[int, int]], fit: str) -> None:
    arena, owner = Arena(60, fit), np.full(60, -1)
    for name, size in operations:
        if (owner == name).any():
            arena.remove(name)
            owner[owner == name] = -1
            continue
        longest = max(map(len, "".join("." if who < 0 else "#" for who in owner).split("#")))
        if longest < size:
            with pytest.raises(NoHole, match=f"although {(owner < 0).sum()} are free"):
                arena.place(name, size)
            continue
        offset = arena.place(name, size)
        assert (owner[offset : offset + size] < 0).all()
        owner[offset : offset + size] = name
        assert arena.free == (owner < 0).sum()


def test_first_and_best_fit_against_a_case_written_out() -> None:
    for fit, offset in (("first", 0), ("best", 6)):
        arena = Arena(10, fit)
        for name, size in (("a", 5), ("b", 1), ("c", 2), ("d", 2)):
            arena.place(name, size)
        arena.remove("a")
        arena.remove("c")
        assert (arena.holes, arena.free, arena.largest_hole) == ([(0, 5), (6, 2)], 7, 5)
        assert arena.place("e", 2) == offset


def test_holes_that_would_do_together_keep_a_request_out() -> None:
    requests = [Request(0, 4, 1), Request(0, 2, 9), Request(0, 4, 1), Request(0, 6, 2)]
    moments = serve(requests, Arena(10), lambda request: request.prompt_tokens, slots=8)
    assert [moment.kept_out for moment in moments[:3]] == [False, True, True]
    assert (moments[1].free, moments[1].largest_hole) == (8, 4)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=20), st.integers(1, 9), st.integers(1, 60), st.integers(1, 8))
def test_reservations_of_one_size_never_keep_a_request_out(lengths, size, spare, slots) -> None:
    moments = serve(at_once(lengths), Arena(size + spare), lambda request: size, slots)
    assert not any(moment.kept_out for moment in moments)


def test_serving_against_the_scheduler_where_memory_is_plenty() -> None:
    requests = at_once([3, 1, 4, 1, 5, 2, 6], prompt_tokens=2)
    moments = serve(requests, Arena(10_000), full_length, slots=3)
    assert [moment.served for moment in moments] == [step.held for step in run_of(requests).steps]


def test_bad_arenas_and_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="capacity of 0"):
        Arena(0)
    arena = Arena(5)
    arena.place("a", 2)
    for name, size in (("a", 1), ("b", 0)):
        with pytest.raises(ValueError, match="placed already"):
            arena.place(name, size)
    with pytest.raises(KeyError):
        arena.remove("z")
    with pytest.raises(TooLong, match="13 positions of 12"):
        serve(at_once([9], prompt_tokens=5), Arena(12), full_length, 2)


def test_a_request_as_large_as_the_arena_is_served_and_nothing_is_kept_out() -> None:
    requests = at_once([2], prompt_tokens=5)
    moments = serve(requests, Arena(full_length(requests[0])), full_length, slots=1)
    assert [(moment.served, moment.kept_out) for moment in moments] == [(1, False), (1, False)]
