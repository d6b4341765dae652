"""The rule for clocks keeps both budgets on made-up nights, and the rule that one would write first does not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reports.drift import simulate, timed
from reports.drift.clocks import other_speed
from reports.drift.simulate import (
    QUIET,
    World,
    at_least,
    at_most,
    by_the_rule,
    detections,
    draw,
    false_flags,
    two_sigma,
)

MANY = 6000  # series: an upper bound of 1 % then leaves room for a rate of 0.8 %
FALSE, FOUND, STEP = 0.01, 0.9, 2.5  # the budgets of the issue


@pytest.mark.parametrize("name", QUIET)
def test_nights_in_which_nothing_moves_are_flagged_for_one_claim_in_a_hundred_at_most(name: str) -> None:
    assert at_most(*false_flags(QUIET[name], MANY)) <= FALSE


@pytest.mark.parametrize("steady", [0, 20])
def test_a_step_of_two_and_a_half_noises_is_found_within_five_nights(steady: int) -> None:
    assert at_least(*detections(World(step=STEP, steady=steady), MANY)) >= FOUND


def test_one_night_outside_two_sigma_is_no_rule() -> None:
    assert at_least(*false_flags(World(), MANY, two_sigma)) > 50 * FALSE


def unconfirmed(series: simulate.Series, figures: timed.Floats) -> timed.Bools:
    """The window alone, and neither a clip nor a re-run."""
    ref = timed.reference(series.repeats, np.full((len(series.nights), 0), np.nan))
    off = ref.off(series.nights)
    window = np.lib.stride_tricks.sliding_window_view(off, timed.WINDOW, axis=1).mean(axis=2)
    score = window / np.sqrt(timed.CORRECTION + 1 / ref.repeats)
    out = np.abs(score) > timed.limit(ref)[:, None]
    return np.pad(out, ((0, 0), (timed.WINDOW - 1, 0)))


def test_neither_the_clip_nor_the_rerun_can_be_left_out() -> None:
    world = World(spikes=0.05, slow=0.05, seen=0.8)
    assert at_most(*false_flags(world, MANY)) <= FALSE
    assert at_least(*false_flags(world, MANY, unconfirmed)) > FALSE


def test_few_repeats_find_less_and_flag_no_more() -> None:
    few = World(repeats=5)
    assert at_most(*false_flags(few, MANY)) <= FALSE
    assert detections(replace(few, step=STEP), MANY)[0] < 0.6 * detections(World(step=STEP), MANY)[0]


def test_no_flag_before_five_nights_but_for_what_no_slow_host_does() -> None:
    for step, found in ((5.0, False), (20.0, True)):
        series = draw(World(step=step), 500, np.random.default_rng(1))
        series = replace(series, nights=series.nights[:, :4] + step, again=series.again[:, :4] + step)
        flags = by_the_rule(replace(series, comparable=series.comparable[:, :4]), np.ones(500))
        assert flags.mean() > 0.8 if found else flags.mean() < 0.01


def test_figures_that_move_together_count_as_one() -> None:
    rng = np.random.default_rng(0)
    one = rng.standard_normal((1, 50))
    assert timed.independent(np.repeat(one, 4, axis=0)) == pytest.approx(1.0)
    assert timed.independent(rng.standard_normal((4, 5000))) == pytest.approx(4.0, abs=0.05)


def test_a_trend_takes_more_than_a_lucky_order() -> None:
    rng = np.random.default_rng(0)
    quiet = [timed.has_trend(rng.standard_normal(30)) for _ in range(500)]
    assert sum(quiet) < 5
    assert timed.has_trend(np.arange(20) * 0.3 + rng.standard_normal(20))
    assert not timed.has_trend(range(9))


def test_a_machine_of_the_usual_speed_is_not_another_one() -> None:
    was = {"read_gb_per_s": (29.9, 28.9, 28.9, 29.5, 28.3, 27.0, 27.7, 29.7, 29.0, 27.0)}
    assert not other_speed(was, {"read_gb_per_s": [30.5]})
    assert not other_speed(was, {"fp32_gflop_per_s": [3.0]})
    assert "28.59 → 20" in other_speed(was, {"read_gb_per_s": [20.0]})


def test_the_readmes_table_is_what_the_simulation_gives() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- drift table -->\n(.*?)<!-- /drift table -->", text, re.DOTALL)
    if shown is None:
        pytest.skip("README has no drift table")
    told, computed = (_numbers(table) for table in (shown[1], simulate.markdown_table()))
    assert told.keys() == computed.keys()
    # Same seed, same table; another numpy may draw other numbers: four standard errors of a rate over 2,500 series.
    for row, rates in computed.items():
        assert told[row] == pytest.approx(rates, abs=0.04 if len(rates) > 1 else 0.9)


def _numbers(table: str) -> dict[str, list[float]]:
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return {name: [float(n) for n in re.findall(r"[\d.]+", " ".join(cells))] for name, *cells in rows}
