"""Where a step turns compute-bound, held against rooflines made by hand."""

from __future__ import annotations

import pytest

from lib.batching import turn_if_in_turn, turn_if_overlapped
from lib.intervals import Estimate, as_estimate, printed

MEMORY_S, ARITHMETIC_S = 6.0, 0.5  # of a step, and per request: the two are equal at 12 requests


def test_overlapped_turn_against_a_roofline() -> None:
    times = {b: as_estimate(max(MEMORY_S, ARITHMETIC_S * b)) for b in (1, 16, 32)}
    assert turn_if_overlapped(32, times[32], time_of_one=MEMORY_S).value == pytest.approx(12)


def test_turn_by_turn_against_a_sum() -> None:
    times = {b: as_estimate(MEMORY_S + ARITHMETIC_S * b) for b in (16, 32)}
    assert turn_if_in_turn((16, times[16]), (32, times[32])).value == pytest.approx(12)


def test_each_reading_rejects_the_others_machine() -> None:
    summed = {b: as_estimate(MEMORY_S + ARITHMETIC_S * b) for b in (1, 16, 32)}
    assert turn_if_overlapped(32, summed[32], float(summed[1].value)).value != pytest.approx(12, rel=0.1)
    longer = {b: as_estimate(max(MEMORY_S, ARITHMETIC_S * b)) for b in (16, 32)}
    assert turn_if_in_turn((16, longer[16]), (32, longer[32])).value != pytest.approx(12, rel=0.1)


def test_the_printed_figures_put_the_turn_below_sixteen() -> None:
    latency = printed("2.67")
    at_32 = latency * 2 / (1 + printed("9") / 100)
    assert float(at_32.value) == pytest.approx(4.899, abs=0.001)
    for turn in (turn_if_overlapped(32, at_32), turn_if_in_turn((16, latency), (32, at_32))):
        assert isinstance(turn, Estimate) and turn.high < 7
