"""Slopes between doublings against power laws and a scripted clock; the head's steps against counted products."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from lib.attention import MacCounter, counted_row, counted_square
from lib.head_scaling import CACHED, RECOMPUTED, calls, head_actions, sizes_of, slope, slopes_over, step_macs
from lib.intervals import Estimate
from lib.tests.scripted_machine import ScriptedMachine, never

SIZES = (1024, 2048, 4096, 8192)
ONCE = dict.fromkeys(SIZES, 1)
ROUNDING = 1e-9  # logarithms of sums of some dozens of doubles near 10^4
D = 4


def sure(value: float) -> Estimate:
    return Estimate(value, value, value)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 3.0])
def test_slopes_against_power_laws(power: float) -> None:
    found = slopes_over(list(pairwise(SIZES)), lambda m, n: sure((m / n) ** power), ONCE)
    assert all(abs(float(s.value) - power) < ROUNDING for s in found.values())


def test_slopes_with_repeated_calls_against_a_scripted_clock() -> None:
    """A fixed cost of 2048 units hides the slope of 1 at first: log2 of (2048 + 2n) / (2048 + n)."""
    machine, repeats = ScriptedMachine(), {1024: 8, 2048: 4, 4096: 2, 8192: 1}
    actions = {str(n): machine.action(str(n), lambda _, n=n: repeats[n] * (2048.0 + n)) for n in SIZES}
    rounds = machine.rounds(actions).until(never, 1e6)
    found = slopes_over(list(pairwise(SIZES)), lambda m, n: rounds.ratio(str(m), over=str(n)), repeats)
    for n, one in zip(SIZES, found.values(), strict=False):
        assert one.value == pytest.approx(math.log2((2048 + 2 * n) / (2048 + n)), abs=ROUNDING)
    assert not found["1,024 to 2,048"].contains(1)


def test_a_slope_that_forgets_the_repeats_is_wrong() -> None:
    right = slopes_over([SIZES[:2]], lambda *_: sure(1.0), {1024: 2, 2048: 1})["1,024 to 2,048"]
    wrong = slopes_over([SIZES[:2]], lambda *_: sure(1.0), ONCE)["1,024 to 2,048"]
    assert (right.value, wrong.value) == (1, 0)


def test_nothing_known_stays_nothing_known() -> None:
    assert slope(Estimate(1.0, 0.0, math.inf)) == Estimate(0.0, -math.inf, math.inf)
    assert slope(Estimate(4.0, 2.0, 8.0)) == Estimate(2.0, 1.0, 3.0)


def test_sizes_of_overlapping_ranges() -> None:
    assert sizes_of([(4, 16), (1, 4)]) == [1, 4, 16]


@pytest.mark.parametrize("n", [1, 3, 8])
def test_counts_against_executed_products(n: int) -> None:
    rows, counter, square = [[1.0] * D] * n, MacCounter(), MacCounter()
    counted_row(rows[0], rows, rows, counter)
    counted_square(rows, rows, rows, square)
    assert (counter.macs, square.macs) == (step_macs(n, D, True), step_macs(n, D, False))


def test_a_sample_repeats_what_is_short_and_nothing_else() -> None:
    assert calls(sizes_of(RECOMPUTED)[-1], 64, cached=False) == calls(sizes_of(CACHED)[-1], 64, cached=True) == 1
    assert calls(sizes_of(CACHED)[0], 64, cached=True) == 64


@pytest.mark.parametrize("cached", [True, False])
def test_actions_do_the_rows_they_say(cached: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, int]] = []
    monkeypatch.setattr("lib.head_scaling.attend", lambda q, k, v: shapes.append((q.shape[0], k.shape[0])))
    monkeypatch.setattr("lib.head_scaling.calls", lambda *_: 2)
    for action in head_actions((2, 4), D, cached, torch.device("cpu")).values():
        action()
    assert shapes == [(1 if cached else n, n) for n in (2, 2, 4, 4)]
