"""Real runs beside the formula: runs made of independent coins must agree with it, runs in clusters must not."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from lib.speculative.clustering import measured_over_formula, tokens_per_pass, whole_guesses
from lib.speculative.decoding import Round, replayed

DRAFT, TOKENS, REPLIES = 4, 400, 40


def _rounds(agrees: NDArray[np.bool_]) -> list[tuple[Round, ...]]:
    return [replayed(row.tolist(), DRAFT) for row in agrees]


def test_independent_coins_against_the_formula() -> None:
    for chance in (0.3, 0.8):
        coins = np.random.default_rng(1).random((REPLIES, TOKENS)) < chance
        assert measured_over_formula(_rounds(coins), DRAFT).contains(1)


def test_the_formula_rejects_agreement_that_comes_in_runs() -> None:
    """Half of the text is easy and half is hard, in stretches far longer than a guess: fewer tokens than it says.

    Much fewer than from the share of all positions, since a hard stretch takes more passes than an easy one.
    """
    easy = np.random.default_rng(1).random((REPLIES, TOKENS // 20)) < 0.5
    chances = np.repeat(np.where(easy, 0.95, 0.2), 20, axis=1)
    agrees = np.random.default_rng(2).random((REPLIES, TOKENS)) < chances
    by_rate, by_share = (measured_over_formula(_rounds(agrees), DRAFT, of) for of in (None, agrees.tolist()))
    assert by_share.high < by_rate.low
    assert by_rate.high < 1


@pytest.mark.parametrize("draft", [1, 60])
def test_the_formula_is_exact_for_guesses_of_one_token_and_of_no_end(draft: int) -> None:
    """Whatever depends on what: accepted over judged is then a matter of counting."""
    agrees = np.random.default_rng(3).random((REPLIES, TOKENS)) < np.repeat([[0.9, 0.1]], TOKENS // 2, axis=1)
    found = measured_over_formula([replayed(row.tolist(), draft) for row in agrees], draft)
    assert found.value == pytest.approx(1, abs=1e-2)


def test_drafts_that_are_always_or_never_right_leave_nothing_to_chance() -> None:
    for agrees in (True, False):
        found = measured_over_formula(_rounds(np.full((3, 20), agrees)), DRAFT)
        assert found.low == found.value == found.high == pytest.approx(1)


def test_only_whole_guesses_count() -> None:
    rounds = [[Round(0, 4, 4, 5), Round(5, 1, 0, 1)], [Round(0, 2, 2, 3)]]
    assert whole_guesses(rounds, 4) == [[Round(0, 4, 4, 5)], []]
    assert tokens_per_pass(rounds, 4) == 5 != (5 + 1 + 3) / 3
    with pytest.raises(ValueError, match="no guess of 3 tokens"):
        tokens_per_pass(rounds, 3)
