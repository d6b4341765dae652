"""Waste and fragmentation over workloads against small cases counted by hand; then the bounds on all drawn ones."""

from __future__ import annotations

import numpy as np
import pytest

from lib import reservation_study
from lib.reservation import exactly, full_length, in_blocks, the_maximum
from lib.reservation_study import (
    MEMORY_DRAWS,
    SLOTS,
    drawn_requests,
    kept_out,
    memory,
    spread,
    waste_in_blocks,
    wasted,
)
from lib.scheduling.family import PUBLISHED, SHAPES, Summary
from lib.scheduling.requests import Request

LONGEST = PUBLISHED.longest
# Two requests, steps of equal cost: 4 + 2 positions in use, then 5, then 6.
BY_HAND = [Request(0.0, 4, 3), Request(0.0, 2, 1)]
# Shares are ratios of sums of whole numbers: a few roundings of 2^-53.
ARITHMETIC = 8 * 2.0**-53


@pytest.fixture
def one_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_study, "drawn_requests", lambda _: iter([BY_HAND]))


def close(share: float) -> object:
    return pytest.approx(share, rel=ARITHMETIC, abs=ARITHMETIC)


@pytest.mark.usefixtures("one_workload")
def test_wasted_share_by_scheme_against_counting() -> None:
    used = 6 + 5 + 6
    assert wasted([(2, 4)], 3, in_blocks(4)).value == close(1 - used / (8 + 8 + 8))
    assert wasted([(2, 4)], 3, exactly).value == close(1 - used / (8 + 6 + 6))
    assert wasted([(2, 4)], 3, the_maximum(10)).value == close(1 - used / (20 + 10 + 10))
    assert wasted([(2, 4)], 3, the_maximum(10), 10).value == close(1 - used / (3 * SLOTS * 10))


@pytest.mark.usefixtures("one_workload")
def test_equal_slots_are_as_small_as_the_longest_prompt_and_answer_allow() -> None:
    assert wasted([(2, 4)], 3).value == close(1 - 17 / (3 * SLOTS * (4 + 3)))


@pytest.mark.usefixtures("one_workload")
def test_waste_in_blocks_against_counting() -> None:
    """Of blocks of 4: 2 of 8 positions over two sequences, then 3 of 8, then 2 of 8 over one."""
    assert waste_in_blocks([(2, 4)], 4).value == 3 / 4


def test_waste_stays_below_a_block_per_sequence() -> None:
    found = waste_in_blocks([(40, 40), (16, 512)], 16)
    assert 0 < found.low <= found.value <= found.high < 1
    assert found.high == 15 / 16, "somebody has just begun a block, alone"


def test_blocks_of_one_position_waste_nothing() -> None:
    for found in (waste_in_blocks([(16, 64)], 1), wasted([(16, 64)], LONGEST, in_blocks(1))):
        assert (found.low, found.value, found.high) == (0, 0, 0)


def test_the_bound_rejects_a_table_that_takes_a_block_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    def ahead(size: int):
        return lambda request, held: (held // size + 1) * size

    monkeypatch.setattr(reservation_study, "in_blocks", ahead)
    assert waste_in_blocks([(16, 64)], 16).high >= 1
    assert waste_in_blocks([(16, 64)], 1).low > 0


@pytest.mark.usefixtures("one_workload")
def test_counting_rejects_a_scheme_off_by_one() -> None:
    def one_more(request: Request, held: int) -> int:
        return in_blocks(4)(request, held + 1)  # the room for the token that is never fed back

    assert wasted([(2, 4)], 3, one_more).value == close(1 - 17 / (12 + 8 + 8)) != close(1 - 17 / 24)


def test_memory_is_of_continuous_batching_on_eight_slots() -> None:
    found = memory([Request(0.0, 1, 2)] * (SLOTS + 1), exactly, 0)
    assert found.served.tolist() == [SLOTS, SLOTS, 1, 1]
    assert found.seconds.tolist() == [1] * 4


EACH, ONE = "pieces of the size that each request needs", "pieces of one size"
# Three slots, a prompt of 3 on average and 3 // 3 tokens more: 12 positions. They take 4, 2 and 4, and both fours go
# after a step. Free are then 4 and 6 apart, 10 in all, and the last one's 7 find no place for the two further steps in
# which the two stay; then it comes in for three.
HOLES = [Request(0.0, 4, 1), Request(0.0, 0, 3), Request(0.0, 4, 1), Request(0.0, 5, 3)]


def kept_out_of(monkeypatch: pytest.MonkeyPatch, requests: list[Request]) -> dict[str, float]:
    monkeypatch.setattr(reservation_study, "drawn_requests", lambda _: iter([requests]))
    return {name: float(found.value) for name, found in kept_out([(2, 4)], longest=3, slots=3).items()}


def test_kept_out_against_an_arena_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [full_length(request) for request in HOLES] == [4, 2, 4, 7]
    assert kept_out_of(monkeypatch, HOLES) == {EACH: 2 / 6, ONE: 0}


def test_nobody_is_kept_out_where_the_holes_would_not_do_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_out_of(monkeypatch, [Request(0.0, 9, 2), *HOLES[3:]]) == {EACH: 0, ONE: 0}


def test_kept_out_rejects_one_size_for_all_taken_for_each_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation_study, "_always", lambda _: full_length)
    assert kept_out_of(monkeypatch, HOLES)[ONE] != 0


def test_drawn_requests_have_the_published_lengths_and_these_prompts() -> None:
    drawn = list(drawn_requests((5, 9)))
    assert len(drawn) == len(SHAPES) * MEMORY_DRAWS
    for requests in drawn:
        assert Summary.of(np.array([request.output_tokens for request in requests])) == PUBLISHED
        assert {request.prompt_tokens for request in requests} == {5, 6, 7, 8, 9}
        assert not any(request.arrival_s for request in requests)


def test_spread_against_a_mean_and_its_extremes() -> None:
    found = spread([0.25, 1.0, 0.25])
    assert (found.value, found.low, found.high) == (0.5, 0.25, 1.0)
