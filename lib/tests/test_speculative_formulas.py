"""The formulas against exact sums, coins, an enumerated run, and a search; and where they stop being true."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.intervals import as_estimate, printed, rounds_to
from lib.serving.requests import GenerationRequest, Sampling
from lib.speculative.decoding import Round, counts, run
from lib.speculative.drafts import ScorerDraft
from lib.speculative.enumeration import law
from lib.speculative.formulas import (
    break_even,
    common_cost,
    draft_cost,
    expected_tokens,
    kept_whole,
    net_speedup,
    optimal_draft,
    overtaking,
    reached,
    simulated_tokens,
    tokens_by_position,
)
from lib.speculative.sampling import Draws, Sampled, distribution, overlap
from lib.tests.tiny_speculative import EXACT, Table

# The quotient is made of four roundings, each of half a unit in the last place, and log1p and expm1 are good to two.
RELATIVE = 16 * 2.0**-53
PASSES = 40_000
STANDARD_ERRORS = 4  # seeded, so it passes or fails for good; by chance one seed in 16,000 fails
CHANCES = st.fractions(0, 1, max_denominator=1000)


@given(CHANCES, st.integers(0, 40))
def test_expected_tokens_against_the_exact_sum(acceptance: Fraction, draft: int) -> None:
    exact = expected_tokens(acceptance, draft)
    assert exact == sum((acceptance**i for i in range(draft + 1)), Fraction(0))
    conditioned = (1 + draft) * RELATIVE  # the chance's own rounding counts up to g times
    assert float(expected_tokens(float(acceptance), draft)) == pytest.approx(float(exact), rel=conditioned)


@pytest.mark.parametrize("miss", [2.0**-53, 1e-15, 1e-12, 1e-8, 1e-3])
def test_expected_tokens_near_one_where_the_printed_quotient_cancels(miss: float) -> None:
    a = 1 - miss
    exact = float(expected_tokens(Fraction(a), 8))
    assert float(expected_tokens(a, 8)) == pytest.approx(exact, rel=RELATIVE)
    if miss == 1e-8:
        assert (1 - a**9) / (1 - a) != pytest.approx(exact, rel=1000 * RELATIVE)


def test_expected_tokens_at_the_ends_and_over_a_table() -> None:
    table = expected_tokens(np.array([[0.0], [0.3], [1.0]]), np.array([0, 4, 8]))
    assert table.shape == (3, 3)
    assert table[0].tolist() == [1, 1, 1]
    assert table[2].tolist() == [1, 5, 9]
    assert expected_tokens(Fraction(1), 4) == 5
    assert expected_tokens(Fraction(3, 10), 4) == Fraction(14251, 10_000)


@pytest.mark.parametrize("acceptance", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("draft", [0, 1, 4, 8])
def test_expected_tokens_against_coins(acceptance: float, draft: int) -> None:
    tokens = simulated_tokens(acceptance, draft, PASSES)
    margin = STANDARD_ERRORS * tokens.std() / PASSES**0.5
    assert abs(tokens.mean() - expected_tokens(acceptance, draft)) <= margin
    if acceptance == 0.3 and draft == 4:  # the wrong variants: forget the target's own token, or draft one more
        assert abs(tokens.mean() - (expected_tokens(acceptance, draft) - 1)) > margin
        assert abs(tokens.mean() - expected_tokens(acceptance, 1)) > margin


def _first_round(target: Table, draft: Table, draft_tokens: int) -> dict[int, float]:
    request = GenerationRequest("asked", (0,), draft_tokens + 1, Sampling(0))

    def accepted(draws: Draws) -> int:
        return run(target, ScorerDraft(draft), request, draft_tokens, Sampled(Sampling(0), draws)).rounds[0].accepted

    return law(accepted)


def test_expected_tokens_against_an_enumerated_round() -> None:
    """Where p and q never change, what is kept is one coin after another, and the formula is exact."""
    target, draft = Table(3, seed=1, constant=True), Table(3, seed=2, constant=True)
    p, q = (distribution(table.logits((0,), 1)[0], Sampling(0)) for table in (target, draft))
    tokens = sum((1 + kept) * chance for kept, chance in _first_round(target, draft, 2).items())
    assert tokens == pytest.approx(float(expected_tokens(overlap(p, q), 2)), abs=EXACT)


def test_expected_tokens_rejects_a_round_whose_chances_depend_on_the_text() -> None:
    """Position by position it is exact; with the one rate accepted/judged of the same round it is not."""
    kept = _first_round(Table(3, seed=1, spread=2), Table(3, seed=2, spread=2), 2)
    still = [sum(chance for n, chance in kept.items() if n >= i) for i in range(3)]
    tokens = sum((1 + n) * chance for n, chance in kept.items())
    assert tokens_by_position([still[1] / still[0], still[2] / still[1]]) == pytest.approx(tokens, abs=EXACT)
    rate = (still[1] + still[2]) / (still[0] + still[1])
    assert abs(float(expected_tokens(rate, 2)) - tokens) > 1e-3


def test_tokens_by_position_against_counted_rounds() -> None:
    rounds = [Round(0, 4, kept, kept + 1) for kept in (0, 4, 1, 4, 0, 2, 4)]
    found = counts(rounds)
    rates = [Fraction(a, j) for a, j in zip(found.accepted, found.judged, strict=True)]
    assert tokens_by_position(rates) == Fraction(sum(r.emitted for r in rounds), len(rounds))
    assert tokens_by_position([Fraction(3, 10)] * 4) == expected_tokens(Fraction(3, 10), 4)


def test_published_cells_have_one_cost_and_it_is_a_tenth() -> None:
    cells = [(Fraction(9, 10), 8, printed("3.40")), (Fraction(3, 10), 8, printed("0.79"))]
    cost = common_cost(cells)
    assert cost is not None
    assert cost.contains(Fraction(1, 10)) and not cost.contains(Fraction(1, 5))
    assert rounds_to(net_speedup(Fraction(9, 10), 8, Fraction(1, 10)), "3.40")
    assert rounds_to(net_speedup(Fraction(3, 10), 8, Fraction(1, 10)), "0.79")
    assert common_cost([*cells, (Fraction(3, 10), 8, printed("0.70"))]) is None


@given(CHANCES, st.integers(1, 20), st.fractions(0, 1, max_denominator=100))
def test_draft_cost_against_the_speedup_it_came_from(acceptance: Fraction, draft: int, cost: Fraction) -> None:
    speedup = net_speedup(acceptance, draft, cost)
    assert draft_cost(acceptance, draft, as_estimate(speedup)).value == cost


def test_net_speedup_charges_the_verification_as_measured() -> None:
    tokens = expected_tokens(Fraction(9, 10), 4)
    assert net_speedup(Fraction(9, 10), 4, Fraction(1, 10), Fraction(2)) == tokens / (2 + Fraction(4, 10))
    assert net_speedup(0.9, 4, 0.1, 2.0) == pytest.approx(float(tokens) / 2.4, rel=RELATIVE)
    assert net_speedup(0.3, [0, 4], 0.2).tolist() == pytest.approx([1, 1.42510 / 1.8])


GRID = [Fraction(n, 20) for n in range(21)]


def test_optimal_draft_against_a_search() -> None:
    for acceptance, cost in product(GRID[:-1:3], [Fraction(1, n) for n in (40, 20, 10, 5, 2, 1)]):
        speedups = [net_speedup(acceptance, g, cost) for g in range(40)]
        assert optimal_draft(acceptance, cost) == speedups.index(max(speedups)), (acceptance, cost)


def test_some_draft_pays_exactly_if_acceptance_is_above_its_cost() -> None:
    for acceptance, cost in product(GRID, GRID):
        assert (optimal_draft(acceptance, cost) > 0) == (acceptance > cost)


def test_optimal_draft_without_an_optimum_is_the_longest_asked_for() -> None:
    assert optimal_draft(Fraction(1), Fraction(1, 10), longest=30) == 30
    assert optimal_draft(Fraction(1, 2), Fraction(0), longest=30) == 30
    assert optimal_draft(Fraction(0), Fraction(0)) == 0
    assert optimal_draft(Fraction(1), Fraction(1)) == 0
    assert optimal_draft(0.3, 0.2) == optimal_draft(Fraction(3, 10), Fraction(1, 5)) == 1


@pytest.mark.parametrize("acceptance", [0.3, 0.9])
def test_tail_against_coins(acceptance: float) -> None:
    kept = simulated_tokens(acceptance, 8, PASSES) - 1
    for position in range(1, 9):
        expected = float(reached(acceptance, position))
        margin = STANDARD_ERRORS * (expected * (1 - expected) / PASSES) ** 0.5
        assert abs((kept >= position - 1).mean() - expected) <= margin
    whole = float(kept_whole(acceptance, 8))
    assert abs((kept == 8).mean() - whole) <= STANDARD_ERRORS * (whole * (1 - whole) / PASSES) ** 0.5 + 1 / PASSES
    assert whole == pytest.approx(acceptance * float(reached(acceptance, 8)))


@pytest.mark.parametrize(
    ("draft", "cost", "verification"), [(4, 0.2, 1.0), (8, 0.1, 1.0), (4, 0.1, 1.5), (1, 0.9, 1.0)]
)
def test_break_even_against_the_speedup_there(draft: int, cost: float, verification: float) -> None:
    rate = break_even(draft, cost, verification)
    assert rate is not None
    assert float(net_speedup(rate, draft, cost, verification)) == pytest.approx(1, abs=1e-12)
    assert float(net_speedup(rate + 0.01, draft, cost, verification)) > 1


def test_break_even_where_there_is_none() -> None:
    assert break_even(4, 1.1) is None
    assert break_even(4, 0.5, 3.5) is None
    assert break_even(4, 0.0) == 0
    with pytest.raises(ValueError, match="empty draft"):
        break_even(0, 0.1)


@pytest.mark.parametrize("cost", [0.01, 0.1, 0.2, 0.5])
def test_overtaking_against_a_search(cost: float) -> None:
    point = overtaking(4, 8, cost)
    assert point is not None
    longer_pays = net_speedup(np.linspace(0, 1, 1001), 8, cost) > net_speedup(np.linspace(0, 1, 1001), 4, cost)
    assert abs(longer_pays.argmax() / 1000 - point) <= 1e-3, "the first of the grid at which it pays"
    assert longer_pays[longer_pays.argmax() :].all()


def test_overtaking_where_it_always_or_never_happens() -> None:
    assert overtaking(4, 8, 0) == 0
    assert overtaking(4, 8, 1) is None
    with pytest.raises(ValueError, match="drafts of 8 and 4"):
        overtaking(8, 4, 0.1)


@pytest.mark.parametrize("acceptance", [-0.1, 1.1, float("nan")])
def test_bad_rates_are_refused(acceptance: float) -> None:
    for formula in (expected_tokens, reached, kept_whole):
        with pytest.raises(ValueError, match="between 0 and 1"):
            formula(acceptance, 4)
    with pytest.raises(ValueError, match="between 0 and 1"):
        optimal_draft(acceptance, 0.1)


@pytest.mark.parametrize("draft", [-1, 1.5, float("inf")])
def test_bad_drafts_and_costs_are_refused(draft: float) -> None:
    with pytest.raises(ValueError, match="whole number"):
        expected_tokens(0.5, draft)
    with pytest.raises(ValueError, match="at the least"):
        net_speedup(0.5, 4, -0.1)
    with pytest.raises(ValueError, match="at the least"):
        net_speedup(0.5, 4, 0.1, 0)
    with pytest.raises(ValueError, match="costs -1"):
        optimal_draft(0.5, -1)
    with pytest.raises(ValueError, match="empty draft"):
        draft_cost(Fraction(1, 2), 0, printed("1.0"))
