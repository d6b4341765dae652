"""Softened distributions, held against the identity p_i/p_j -> (p_i/p_j)^(1/T), autograd, their limits, wrong forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.distillation.temperature import (
    entropy,
    entropy_slope,
    expected_logit,
    ids_for_mass,
    log_soften,
    mass_of,
    order_reversals,
    rank_bands,
    ratio_between,
    share_bound,
    share_peak_temperature,
    soften,
    tempered_ratio,
)

# Exponentials and logarithms of numbers of order 10 in float64, a few dozen roundings relative to the result.
ROUNDED = 256 * 2.0**-53
# Temperatures by root finding: brentq stops at 2e-12 in log T; the peak of a share is flat, so its test is by sign.
STEP = 1e-3

temperatures = st.floats(0.05, 50)
logit_rows = st.lists(st.floats(-8, 8), min_size=2, max_size=12).map(lambda row: torch.tensor(row, dtype=torch.float64))


def long_tail(symbols: int = 2000, seed: int = 0) -> torch.Tensor:
    logits = torch.randn(symbols, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits[:3] = torch.tensor([7.0, 6.7, 6.2], dtype=torch.float64)
    return logits


@given(logit_rows, temperatures)
@settings(deadline=None, max_examples=30)
def test_ratio_against_the_root(logits: torch.Tensor, temperature: float) -> None:
    at_one = ratio_between(logits, 0, 1, 1.0)
    measured = ratio_between(logits, 0, 1, temperature)
    expected = tempered_ratio(at_one, temperature)
    assert math.isclose(math.log(measured), math.log(expected), rel_tol=ROUNDED, abs_tol=ROUNDED / temperature * 16)


def test_ratio_at_two_is_the_square_root() -> None:
    assert tempered_ratio(9.0, 2.0) == 3.0
    assert tempered_ratio(3.0, 1.0, at=2.0) == pytest.approx(9.0, rel=ROUNDED)


def test_ratio_rejects_tempering_probabilities_as_if_they_were_logits() -> None:
    """softmax(p / T) and p / T renormalized are the two usual wrong forms: neither gives the root."""
    probabilities = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    root = tempered_ratio(6.0, 2.0)
    assert ratio_between(probabilities.log(), 0, 2, 2.0) == pytest.approx(root, rel=ROUNDED)
    assert ratio_between(probabilities, 0, 2, 2.0) != pytest.approx(root, rel=0.1)
    assert ratio_between(probabilities.log(), 0, 2, 0.5) != pytest.approx(root, rel=0.1), "times T, not divided"


@given(st.lists(st.integers(-32, 32), min_size=2, max_size=40), temperatures)
@settings(deadline=None, max_examples=30)
def test_order_is_never_reversed(quarters: list[int], temperature: float) -> None:
    """Logits in quarters: tied, or further apart than rounding can swap."""
    logits = torch.tensor(quarters, dtype=torch.float64) / 4
    assert order_reversals(logits, soften(logits, temperature)) == 0


def test_order_rejects_a_swap_and_allows_a_tie() -> None:
    before = torch.tensor([0.5, 0.3, 0.2])
    assert order_reversals(before, torch.tensor([0.4, 0.25, 0.35])) == 1
    assert order_reversals(before, torch.tensor([0.4, 0.3, 0.3])) == 0
    assert order_reversals(torch.tensor([0.5, 0.25, 0.25]), before[[0, 2, 1]]) == 0


@given(logit_rows, temperatures)
@settings(deadline=None, max_examples=30)
def test_entropy_slope_against_autograd(logits: torch.Tensor, temperature: float) -> None:
    t = torch.tensor(temperature, dtype=torch.float64, requires_grad=True)
    logs = torch.log_softmax(logits / t, -1)
    (slope,) = torch.autograd.grad(-(logs.exp() * logs).sum(), t)
    closed = float(entropy_slope(logits, temperature))
    # logits up to 8 over temperatures from 0.05: intermediate terms reach (8/0.05)^2 / T
    assert math.isclose(closed, float(slope), rel_tol=1e-9, abs_tol=ROUNDED * (16 / temperature) ** 2 / temperature)
    assert closed >= 0


def test_limits_against_uniform_and_argmax() -> None:
    logits = torch.tensor([1.0, 3.0, 3.0, -2.0])
    assert float(entropy(soften(logits, 1e9))) == pytest.approx(math.log(4), rel=ROUNDED)
    for tiny in (1e-3, 1e-50, 5e-324):
        assert soften(logits, tiny).tolist() == [0.0, 0.5, 0.5, 0.0]


def test_forbidden_tokens_stay_forbidden() -> None:
    assert soften(torch.tensor([1.0, -math.inf, 0.0]), 100.0)[1] == 0
    assert entropy(torch.tensor([1.0, 0.0])) == 0


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_bad_temperatures_are_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        soften(torch.zeros(3), temperature)


@pytest.mark.parametrize("row", [[-math.inf, -math.inf], [math.nan, 1.0], [math.inf, 1.0]])
def test_rows_without_a_finite_maximum_are_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="finite largest"):
        log_soften(torch.tensor(row), 1.0)


def test_share_peak_against_neighbouring_temperatures() -> None:
    logits = long_tail()
    for token in (1, 2, int(logits.argsort(descending=True)[5])):
        peak = share_peak_temperature(logits, token)
        at_peak, below, above = (float(soften(logits, t)[token]) for t in (peak, peak * (1 - STEP), peak * (1 + STEP)))
        assert at_peak > below and at_peak > above
        assert float(expected_logit(logits, peak)) == pytest.approx(float(logits[token]), abs=1e-9)


def test_share_peak_at_both_ends() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -3.0])
    assert share_peak_temperature(logits, 0) == 0
    assert share_peak_temperature(logits, 2) == math.inf  # exactly the mean: never above what is expected
    assert share_peak_temperature(logits, 3) == math.inf


def test_a_near_miss_gains_on_the_top_and_yet_loses_share() -> None:
    """The wrong conclusion is "its weight rises": with a long tail only its ratio to the top does."""
    logits = long_tail()
    cold, hot = soften(logits, 1.0), soften(logits, 2.0)
    assert hot[1] / hot[0] > cold[1] / cold[0]
    assert hot[1] < cold[1]
    assert mass_of(hot, [1, 2]) < mass_of(cold, [1, 2])
    without_tail = logits[:3]
    assert soften(without_tail, 2.0)[2] > soften(without_tail, 1.0)[2]


@given(st.lists(st.floats(0.01, 1), min_size=6, max_size=60), st.integers(1, 5), st.floats(1, 8))
@settings(deadline=None, max_examples=30)
def test_share_bound_against_whole_distributions(masses: list[float], known: int, temperature: float) -> None:
    probabilities = torch.tensor(sorted(masses, reverse=True), dtype=torch.float64)
    probabilities /= probabilities.sum()
    hot = soften(probabilities.log(), temperature)
    top = probabilities[:known].tolist()
    for token in range(known):
        assert float(hot[token]) <= share_bound(top, token, temperature) * (1 + ROUNDED)


def test_share_bound_is_reached_when_the_rest_sits_at_the_cap() -> None:
    probabilities = torch.tensor([0.4, 0.2, 0.1, 0.1, 0.1, 0.1], dtype=torch.float64)
    reached = float(soften(probabilities.log(), 2.0)[1])
    assert share_bound([0.4, 0.2, 0.1], 1, 2.0) == pytest.approx(reached, rel=1e-6)  # 0.3 / 0.1 may round to 2


@pytest.mark.parametrize("top", [[0.1, 0.2], [0.9, 0.2], [0.5, 0.0]])
def test_share_bound_refuses_what_are_no_largest_probabilities(top: list[float]) -> None:
    with pytest.raises(ValueError, match="descending"):
        share_bound(top, 0, 2.0)
    with pytest.raises(ValueError, match="from 1 up"):
        share_bound([0.5, 0.2], 0, 0.5)


def test_rank_bands_against_hand_made_ranks() -> None:
    logits = torch.tensor([0.1, 3.0, 2.0, 5.0, 4.0])
    bands = {name: ids.tolist() for name, ids in rank_bands(logits, (1, 3)).items()}
    assert bands == {"1": [3], "2-3": [4, 1], "4-5": [2, 0]}
    assert sum(mass_of(soften(logits, 1.0), ids) for ids in rank_bands(logits, (1, 3)).values()) == pytest.approx(1)


@pytest.mark.parametrize("edges", [(3, 1), (5,), (0, 2)])
def test_rank_bands_refuse_edges_that_do_not_rise(edges: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must rise"):
        rank_bands(torch.zeros(5), edges)


def test_ids_for_mass_against_hand_counts() -> None:
    p = torch.tensor([0.125, 0.5, 0.25, 0.125])
    assert [ids_for_mass(p, share) for share in (0.4, 0.5, 0.51, 0.75, 0.8, 1.0)] == [1, 1, 2, 2, 3, 4]
