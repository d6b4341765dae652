"""The rule of acceptance against the target's law, by enumerating everything that chance can do; wrong rules must fail.

Tables of random logits stand for the models, so nothing but the rule and the loop around it is on trial.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from lib.serving.requests import COLDEST, GenerationRequest, Sampling
from lib.speculative.decoding import run
from lib.speculative.drafts import PromptLookup, ScorerDraft
from lib.speculative.enumeration import ScriptedDraws, distance, law
from lib.speculative.sampling import (
    Greedy,
    Proposal,
    Sampled,
    SeededDraws,
    Watched,
    acceptance,
    certain,
    distribution,
    overlap,
    residual,
)
from lib.speculative.wrong_rules import ArgmaxMatch, FiltersAfterwards, NoResidual, StaleQ
from lib.tests.tiny_speculative import EXACT, WRONG, Fixed, Table, chances, plain_law, speculative_law

UNLIKELY = 1e-3  # seeded, so it passes or fails for good
TARGET, DRAFT = Table(3, seed=1), Table(3, seed=2)
FILTERS = [(None, None), (2, None), (None, 0.7), (2, 0.9)]
P = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
Q = torch.tensor([0.1, 0.6, 0.1, 0.2], dtype=torch.float64)


def asked(sampling: Sampling, new: int = 3, end_ids: frozenset[int] = frozenset()) -> GenerationRequest:
    return GenerationRequest("asked", (0, 1), new, sampling, end_ids)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize(("top_k", "top_p"), FILTERS)
def test_law_against_plain_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    request = asked(Sampling(0, temperature, top_k, top_p))
    found = speculative_law(TARGET, ScorerDraft(DRAFT), request, 2)
    assert sum(found.values()) == pytest.approx(1, abs=EXACT)
    assert distance(found, plain_law(TARGET, request)) <= EXACT


@pytest.mark.parametrize("draft_tokens", [0, 1, 3, 9])
def test_law_for_every_draft_length(draft_tokens: int) -> None:
    request = asked(Sampling(0, 1.3, top_k=2))
    assert (
        distance(speculative_law(TARGET, ScorerDraft(DRAFT), request, draft_tokens), plain_law(TARGET, request))
        <= EXACT
    )


def test_law_on_a_larger_vocabulary_and_with_a_token_that_ends_the_reply() -> None:
    target, draft = Table(5, seed=3), Table(5, seed=4)
    request = asked(Sampling(0, top_k=3), end_ids=frozenset({1, 3}))
    expected = plain_law(target, request)
    assert len({len(reply) for reply in expected}) == 3, "replies must end at every length, or the test shows nothing"
    assert distance(speculative_law(target, ScorerDraft(draft), request, 2), expected) <= EXACT


@pytest.mark.parametrize("drafter", [Fixed((1, 1)), Fixed((0, 2)), PromptLookup()])
def test_law_with_guesses_that_were_not_drawn(drafter: Fixed | PromptLookup) -> None:
    request = replace(asked(Sampling(0, 0.8, top_p=0.9)), prompt=(0, 1, 2, 0, 1))
    assert distance(speculative_law(TARGET, drafter, request, 2), plain_law(TARGET, request)) <= EXACT


class WarmerDraft(Sampled):
    """Right too: the draft may draw from whatever it likes, as long as that is the q of the ratio."""

    def draw(self, logits: Tensor) -> tuple[int, Tensor | None]:
        drawn_from = distribution(logits, Sampling(0, 3.0))
        return self.draws.token(drawn_from), drawn_from


def test_law_with_a_draft_of_another_temperature() -> None:
    request = asked(Sampling(0, 0.7, top_k=2))
    assert (
        distance(speculative_law(TARGET, ScorerDraft(DRAFT), request, 2, WarmerDraft), plain_law(TARGET, request))
        <= EXACT
    )


@pytest.mark.parametrize("rule", [ArgmaxMatch, NoResidual, StaleQ])
def test_law_rejects_wrong_rules(rule: type[Sampled]) -> None:
    request = asked(Sampling(0))
    assert distance(speculative_law(TARGET, ScorerDraft(DRAFT), request, 2, rule), plain_law(TARGET, request)) > WRONG


@pytest.mark.parametrize(("top_k", "top_p"), FILTERS)
def test_law_rejects_filters_after_the_ratio(top_k: int | None, top_p: float | None) -> None:
    request = asked(Sampling(0, 1.0, top_k, top_p))
    off = distance(
        speculative_law(TARGET, ScorerDraft(DRAFT), request, 2, FiltersAfterwards), plain_law(TARGET, request)
    )
    if top_k is None and top_p is None:
        assert off <= EXACT, "without filters there is no before and after"
    else:
        assert off > WRONG


@pytest.mark.parametrize("temperature", [0.5, 1.0])
@pytest.mark.parametrize(("top_k", "top_p"), FILTERS)
def test_distribution_against_transformers_warpers(temperature: float, top_k: int | None, top_p: float | None) -> None:
    sampling = Sampling(0, temperature, top_k, top_p)
    logits = Table(50, seed=5).logits((0,), 1)[0]
    assert (distribution(logits, sampling) - chances(logits, sampling)).abs().max() <= EXACT


def test_temperature_zero_is_greedy_and_is_asked_for_as_such() -> None:
    with pytest.raises(ValueError, match="greedy is None"):
        Sampling(0, 0.0)
    tied = torch.tensor([1.0, 3.0, 3.0, 0.0])
    assert distribution(tied, None).tolist() == [0, 1, 0, 0]
    assert distribution(tied, Sampling(0, COLDEST)).tolist() == [0, 0.5, 0.5, 0]


def test_coldest_temperature_against_greedy() -> None:
    """All on one reply, the greedy one; no chance underflows into something that is no number."""
    request = asked(Sampling(0, COLDEST))
    greedy = run(TARGET, ScorerDraft(DRAFT), replace(request, sampling=None), 2, Greedy()).tokens
    assert speculative_law(TARGET, ScorerDraft(DRAFT), request, 2) == {greedy: 1.0}


def test_residual_acceptance_and_overlap_against_arithmetic() -> None:
    assert residual(P, Q).tolist() == pytest.approx([0.8, 0.0, 0.2, 0.0])
    assert [acceptance(P, Q, token) for token in range(4)] == pytest.approx([1, 0.5, 1, 0])
    assert overlap(P, Q) == pytest.approx(0.5)
    assert overlap(P, Q) == pytest.approx(sum(float(Q[t]) * acceptance(P, Q, t) for t in range(4)))
    assert torch.equal(residual(P, P), P)
    assert [acceptance(P, P, token) for token in range(3)] == [1, 1, 1]


def test_a_token_that_q_cannot_have_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="token 0 has no chance"):
        acceptance(P, certain(1, 4), 0)
    with pytest.raises(ValueError, match="2 drafted tokens with the chances of 1"):
        Proposal((1, 2), (P,))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_logits_that_are_not_numbers_are_refused(poison: float) -> None:
    logits = torch.tensor([0.0, poison, 1.0])
    for sampling in (None, Sampling(0), Sampling(0, top_k=2)):
        with pytest.raises(ValueError, match="not numbers"):
            distribution(logits, sampling)


def test_seeded_draws_against_the_enumerated_law() -> None:
    """The generator behind the coins and tokens, not only the rule: frequencies of whole replies."""
    request, draws = asked(Sampling(0, 1.2), new=2), 1500
    expected = speculative_law(TARGET, ScorerDraft(DRAFT), request, 1)
    rule, seen = Sampled(Sampling(0, 1.2), SeededDraws(5)), dict.fromkeys(expected, 0)
    for _ in range(draws):
        seen[run(TARGET, ScorerDraft(DRAFT), request, 1, rule).tokens] += 1
    assert chisquare(list(seen.values()), [p * draws for p in expected.values()]).pvalue > UNLIKELY
    other = plain_law(DRAFT, request)
    assert chisquare(list(seen.values()), [other[reply] * draws for reply in seen]).pvalue < UNLIKELY


def test_law_against_counting() -> None:
    """Two coins and a die, and a tree that is too large."""

    def throw(draws: ScriptedDraws) -> int:
        heads = draws.accepts(0.25) + draws.accepts(1.0) + draws.accepts(0.0)
        return heads + draws.token(torch.full((6,), 1 / 6, dtype=torch.float64)) if heads == 2 else 0

    found = law(throw)
    assert found[0] == pytest.approx(0.75)
    assert [found[n] for n in range(2, 8)] == pytest.approx([0.25 / 6] * 6)
    with pytest.raises(RuntimeError, match="more than 3 ways"):
        law(throw, most=3)


def test_watched_notes_a_lead_for_every_token_emitted_and_no_other() -> None:
    rule = Watched()
    logits = torch.tensor([[1.0, 3.0, 0.0], [2.0, 1.5, 0.0], [0.0, 9.0, 0.0]])
    assert rule.judge(Proposal((1, 2)), logits).accepted == 1
    assert rule.gaps == [2.0, 0.5]
