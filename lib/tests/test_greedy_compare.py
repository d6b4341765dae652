"""Comparing generations, held against logits written by hand."""

import pytest
import torch

from lib.decoding import Generated, random_tokens
from lib.greedy_compare import (
    Comparison,
    Divergence,
    cached_against_uncached,
    compare,
    share_that_differs,
    top2_gap,
)
from lib.tests.tiny_qwen2 import tiny_qwen2


def generation(rows: list[list[list[float]]]) -> Generated:
    logits = torch.tensor(rows)
    return Generated(logits.argmax(-1), logits)


LEFT = [[[3.0, 1.0, 0.0], [0.0, 2.0, 1.5], [9.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 5.0, 0.0]]]


def test_equal_generations() -> None:
    same = compare(generation(LEFT), generation(LEFT))
    assert not same.divergences
    assert (same.tokens, same.logit_difference, same.largest_logit, same.smallest_gap) == (6, 0.0, 9.0, 0.5)


def test_divergence_against_a_hand_made_one() -> None:
    right = [[list(step) for step in row] for row in LEFT]
    right[0][1] = [0.0, 1.75, 2.0]  # the second token of the first prompt tips over
    right[0][2] = [0.0, 0.0, 500.0]  # after it nothing may be compared
    found = compare(generation(LEFT), generation(right))
    assert found.divergences
    assert found.tokens == 5
    (parting,) = found.divergences
    assert (parting.row, parting.step, parting.ids) == (0, 1, (1, 2))
    assert (parting.top2_gap, parting.logit_difference, found.logit_difference) == (0.25, 0.5, 0.5)


def test_comparison_rejects_generations_that_cannot_be_compared() -> None:
    whole = generation(LEFT)
    with pytest.raises(ValueError, match="with their logits"):
        compare(Generated(whole.tokens), whole)
    with pytest.raises(ValueError, match="one shape"):
        compare(generation(LEFT[:1]), whole)


def test_gap_against_sorted_logits() -> None:
    logits = torch.randn(4, 5, 50, generator=torch.Generator().manual_seed(0))
    ordered = logits.sort(-1, descending=True).values
    assert torch.equal(top2_gap(logits), ordered[..., 0] - ordered[..., 1])
    assert top2_gap(torch.tensor([1.0, 1.0, 0.0])) == 0  # a tie


def comparison(tokens, flips, gap=1.0, difference=0.1):
    divergences = tuple(Divergence(0, i, (0, 1), gap, difference) for i in range(flips))
    return Comparison(tokens, divergences, difference, 10.0, gap)


def test_no_difference_and_no_close_call_is_exactly_zero():
    share = share_that_differs([comparison(50, 0)])
    assert (share.low, share.high) == (0, 0)


def test_no_difference_but_a_close_call_leaves_it_open():
    """The wrong variant would call 4 equal choices at a near tie a proof that nothing ever differs."""
    share = share_that_differs([comparison(4, 0, gap=0.15)])
    assert share.low == 0 and share.high > 0.3


def test_one_difference_rules_zero_out():
    assert share_that_differs([comparison(2, 0), comparison(2, 1)]).low > 0


def test_both_loops_really_run_and_agree() -> None:
    model, prompts = tiny_qwen2(), random_tokens(5, 97, batch=3)
    found = cached_against_uncached(model, prompts, 4)
    assert (found.tokens, found.divergences) == (12, ())
    assert found.logit_difference < found.smallest_gap
    assert found.largest_logit > 0
