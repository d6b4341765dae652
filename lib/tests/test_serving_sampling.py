"""Choices, held against softmax probabilities and transformers' own top-k and top-p filters."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor
from transformers import TopKLogitsWarper, TopPLogitsWarper

from lib.serving.requests import Sampling
from lib.serving.sampling import Chooser, choice, choose, filtered

DRAWS = 4000
UNLIKELY = 1e-3  # seeded, so it passes or fails for good
LOGITS = torch.tensor([2.0, 1.0, 0.0, 1.5, -1.0, 0.5])


def counts(sampling: Sampling, logits: Tensor = LOGITS) -> Tensor:
    chooser = Chooser(sampling)
    return torch.bincount(torch.tensor([choice(chooser.scores(logits)) for _ in range(DRAWS)]), minlength=len(logits))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_against_the_softmax(temperature: float) -> None:
    seen = counts(Sampling(1, temperature))
    assert chisquare(seen, (LOGITS.double() / temperature).softmax(0) * DRAWS).pvalue > UNLIKELY


def test_draws_reject_another_temperature() -> None:
    assert chisquare(counts(Sampling(1, 1.0)), (LOGITS.double() / 1.2).softmax(0) * DRAWS).pvalue < UNLIKELY


def test_draws_under_filters_against_the_renormalised_softmax() -> None:
    seen = counts(Sampling(2, 1.0, top_k=4, top_p=0.8))
    kept = filtered(LOGITS.double(), 4, 0.8).softmax(0)
    assert not seen[kept == 0].any()
    assert chisquare(seen[kept > 0], kept[kept > 0] * DRAWS).pvalue > UNLIKELY


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 3, 40, 90])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.95, 1.0])
def test_filters_against_transformers(seed: int, k: int, p: float) -> None:
    logits = torch.randn(90, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    theirs = TopKLogitsWarper(k)(None, logits[None])
    theirs = TopPLogitsWarper(p)(None, theirs)[0] if p < 1 else theirs[0]
    assert torch.equal(filtered(logits, k, p), theirs)


def test_filters_keep_the_best_and_the_lowest_of_equals() -> None:
    assert filtered(torch.tensor([1.0, 5.0, 2.0]), None, 1e-9).isfinite().tolist() == [False, True, False]
    assert filtered(torch.ones(4), 2, None).isfinite().tolist() == [True, True, False, False]
    assert filtered(LOGITS, None, None) is LOGITS


def test_one_draw_per_choice_whoever_else_draws() -> None:
    """The wrong variant is a generator that the batch shares."""
    alone = [choice(scores) for scores in map(Chooser(Sampling(3)).scores, [LOGITS] * 20)]
    ours, others = Chooser(Sampling(3)), Chooser(Sampling(4))
    beside = []
    for _ in range(20):
        others.scores(LOGITS)
        torch.rand(7)
        beside.append(choice(ours.scores(LOGITS)))
    assert beside == alone
    shared = Chooser(Sampling(3))
    mixed = []
    for _ in range(20):
        shared.scores(LOGITS)
        mixed.append(choice(shared.scores(LOGITS)))
    assert mixed != alone


def test_greedy_takes_the_lowest_of_equals_and_draws_nothing() -> None:
    state = torch.get_rng_state()
    assert choice(Chooser(None).scores(torch.tensor([0.0, 3.0, 3.0]))) == 1
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("sampling", [None, Sampling(1), Sampling(1, top_k=2, top_p=0.5)])
def test_logits_that_are_not_numbers_are_refused(poison: float, sampling: Sampling | None) -> None:
    with pytest.raises(ValueError, match="not numbers"):
        choice(Chooser(sampling).scores(torch.tensor([0.0, poison, 1.0])))


def test_rows_chosen_together_against_each_alone() -> None:
    logits = torch.randn(5, 60, generator=torch.Generator().manual_seed(9))
    logits[2, 7] = float("nan")
    ways = (None, Sampling(1), None, Sampling(2, 0.5, top_k=9), None)
    alone = [choice(Chooser(way).scores(row)) for way, row in zip(ways, logits, strict=True) if not row.isnan().any()]
    alone.insert(2, None)
    assert choose([Chooser(way) for way in ways], logits) == alone
    assert choose([], logits[:0]) == []


def test_limits_of_a_sampling_belong_to_its_range() -> None:
    assert Sampling(0, top_k=1, top_p=1.0) == Sampling(0, 1.0, 1, 1.0)
    for wrong in ({"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"temperature": 0.0}, {"temperature": float("inf")}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Sampling(0, **wrong)  # type: ignore[arg-type]
