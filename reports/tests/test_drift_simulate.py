"""The made-up nights are as they are said to be, and what is counted of them is what was asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reports.drift import timed
from reports.drift.simulate import (
    MONTH,
    SLOW,
    SPIKE,
    Series,
    World,
    at_least,
    at_most,
    by_the_rule,
    detections,
    draw,
    false_flags,
    noise,
)

NUM = 400  # series of a seed: shares and variances below are within what so many give
CLOSE = 0.06


def drawn(num: int = NUM, **world: float) -> Series:
    return draw(World(**world), num, np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("tails", ["gauss", "lognormal", "t4"])
def test_a_noise_has_variance_one_about_zero(tails: str) -> None:
    found = noise(np.random.default_rng(0), tails, (400, 1000))
    assert found.shape == (400, 1000)
    assert found.var() == pytest.approx(1.0, abs=CLOSE) and abs(found.mean()) < 0.01


@pytest.mark.parametrize("between", [0.0, 0.5, 0.9])
def test_a_run_is_its_nights_part_and_its_own(between: float) -> None:
    """Only the night's is what a night and its re-runs have in common."""
    found = drawn(between=between)
    assert found.repeats.shape == (NUM, 20) and found.nights.shape == (NUM, MONTH)
    assert found.again.shape == (NUM, MONTH, 5) and found.comparable.all()
    for runs in (found.repeats, found.nights, found.again):
        assert runs.var() == pytest.approx(1.0, abs=CLOSE)
    common = np.corrcoef(found.nights.ravel(), found.again[..., 0].ravel())[0, 1]
    assert common == pytest.approx(between, abs=CLOSE)


@pytest.mark.parametrize("memory", [0.0, 0.6])
def test_nights_remember_the_night_before(memory: float) -> None:
    nights = drawn(between=1.0, memory=memory).nights
    assert nights.var() == pytest.approx(1.0, abs=2 * CLOSE)
    assert np.corrcoef(nights[:, :-1].ravel(), nights[:, 1:].ravel())[0, 1] == pytest.approx(memory, abs=CLOSE)


@pytest.mark.parametrize("figures", [1, 2, 5])
def test_the_figures_of_a_claim_share_half_and_claims_nothing(figures: int) -> None:
    nights = drawn(400 * figures, figures=figures).nights.reshape(400, figures, MONTH)
    assert nights.var() == pytest.approx(1.0, abs=CLOSE)
    if figures > 1:
        assert np.corrcoef(nights[:, 0].ravel(), nights[:, 1].ravel())[0, 1] == pytest.approx(0.5, abs=CLOSE)
    assert np.corrcoef(nights[:-1, -1].ravel(), nights[1:, 0].ravel())[0, 1] == pytest.approx(0.0, abs=CLOSE)


def test_spikes_hit_single_runs_and_slow_nights_their_reruns_too() -> None:
    spiked, slow = drawn(spikes=0.1), drawn(slow=0.1, seen=0.8)
    for runs in (spiked.repeats, spiked.nights, spiked.again):
        assert runs.mean() == pytest.approx(0.1 * SPIKE, abs=CLOSE)
    assert abs(slow.repeats.mean()) < CLOSE and spiked.comparable.all()
    assert slow.nights.mean() == pytest.approx(0.1 * SLOW, abs=CLOSE)
    assert slow.again.mean() == pytest.approx(0.1 * SLOW, abs=CLOSE)
    assert (~slow.comparable).mean() == pytest.approx(0.1 * 0.8, abs=CLOSE / 4)
    assert slow.again[~slow.comparable].mean() == pytest.approx(SLOW, abs=CLOSE)


@pytest.mark.parametrize("steady", [0, 20])
def test_a_step_stays_and_its_five_nights_are_in_the_month(steady: int) -> None:
    found = drawn(step=30.0, steady=steady)
    after = np.arange(steady + MONTH) >= found.start[:, None]
    assert ((found.nights > 15) == after).all() and ((found.again > 15) == after[..., None]).all()
    assert set(found.start) == set(range(steady + timed.WINDOW, steady + MONTH - timed.WINDOW + 1))


def test_a_step_counts_as_found_from_its_own_night_to_the_fifth() -> None:
    for late, found in ((-1, 0), (0, 100), (4, 100), (5, 0)):
        assert detections(World(), 100, lambda s, _, n=late: np.arange(MONTH) == s.start[:, None] + n) == (found, 100)  # type: ignore[misc]


def test_a_claim_counts_once_and_only_in_the_month() -> None:
    def once(series: Series, _: timed.Floats) -> timed.Bools:
        """Of every claim of five two figures, and of the first claim none; the night before the month for all."""
        flags = np.zeros(series.nights.shape, dtype=bool)
        flags[5::5, 20] = flags[6::5, -1] = flags[:, 19] = True
        return flags

    assert false_flags(World(steady=20, figures=5), 53, once) == (9, 10)


def test_the_rule_is_told_how_many_independent_figures_a_claim_has() -> None:
    told = []

    def rule(series: Series, figures: timed.Floats) -> timed.Bools:
        told.append(figures)
        return np.zeros(series.nights.shape, dtype=bool)

    false_flags(World(figures=4), 40, rule)
    false_flags(World(), 40, rule)
    shared, single = told
    assert shared.shape == single.shape == (40,) and set(single) == {1.0}
    assert 1.5 < shared.mean() < 4 and all(len(set(claim)) == 1 for claim in shared.reshape(10, 4))


def test_a_night_that_is_not_comparable_is_no_flag_and_no_night_of_the_window() -> None:
    series = drawn(100, step=20.0)
    none = replace(series, comparable=np.zeros_like(series.comparable))
    assert by_the_rule(series, np.ones(100)).any(axis=1).all() and not by_the_rule(none, np.ones(100)).any()
    few = np.tile(np.arange(MONTH) % 10 == 9, (100, 1))  # three nights a month: never a window
    small = replace(series, comparable=few, nights=series.nights * 0 + 3.0, again=series.again * 0 + 3.0)
    assert not by_the_rule(small, np.ones(100)).any()


def test_an_unremarkable_night_is_no_flag_though_the_window_is_one() -> None:
    """Only what was read again can be a flag, and then its median is what is kept of the night."""
    flat = Series(
        np.array([[1.0, -1.0] * 10]), np.full((1, 5), 9.0), np.full((1, 5, 5), 0.5), np.ones((1, 5), bool), np.ones(1)
    )
    assert not by_the_rule(flat, np.ones(1)).any()
    assert by_the_rule(replace(flat, again=flat.again + 4), np.ones(1)).tolist() == [[False] * 4 + [True]]


def test_bounds_of_rates_are_clopper_and_pearsons() -> None:
    """Of none among n: 1 - 0.05 ** (1/n); of all of them 0.05 ** (1/n)."""
    assert at_most(0, 100) == pytest.approx(1 - 0.05**0.01) and at_least(100, 100) == pytest.approx(0.05**0.01)
    assert at_most(100, 100) == 1.0 and at_least(0, 100) == 0.0
    assert at_most(1, 2) == pytest.approx(0.95**0.5) and at_least(1, 2) == pytest.approx(1 - 0.95**0.5)
