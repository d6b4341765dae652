"""Speculative decoding on tiny models against their solo runs, and on one of three ids against its whole law."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from lib.decoding import ALL_POSITIONS, forward
from lib.serving.reference import Solo, solo
from lib.serving.requests import GenerationRequest, Sampling
from lib.speculative import drafts
from lib.speculative.decoding import Round, Speculated, Speculation, counts, run, speculate
from lib.speculative.drafts import CachedModel, Drafter, ModelDraft, PromptLookup, ScorerDraft
from lib.speculative.enumeration import distance
from lib.speculative.sampling import Greedy, Proposal, Sampled, SeededDraws, Verdict
from lib.tests.tiny_serving import NEW, ROUNDING, tiny
from lib.tests.tiny_speculative import Fixed, Nothing, near, plain_law, requests, speculative_law, three_ids

pytestmark = pytest.mark.usefixtures("one_thread")

DRAFT_TOKENS = (1, 2, 3, 5, 8, 20)
# Chances of a tiny fp64 model: logits of about 5 in a few dozen terms, 5 · 32 · 2^-53, times the factors of a reply
DOUBLE = 1e-12
WRONG = 1e-3


@cache
def expected(family: str, request: GenerationRequest) -> Solo:
    return solo(tiny(family), request)


def drafter(kind: str, family: str) -> Drafter:
    if kind == "lookup":
        return PromptLookup()
    noise = {"itself": 0.0, "near": 0.02, "far": 1.0}[kind]
    return ModelDraft(tiny(family) if kind == "itself" else near(family, noise), tiny(family))


def unequal(family: str, kind: str, asked: list[GenerationRequest], rule: type[Greedy] = Greedy) -> list[object]:
    """Requests whose speculated reply is not the solo run's, or parts from it at more than rounding."""
    found = []
    for i, request in enumerate(asked):
        reply = speculate(tiny(family), drafter(kind, family), request, DRAFT_TOKENS[i % 6], rule())
        if not expected(family, request).equals(reply.tokens, ROUNDING):
            found.append(request.id)
    return found


@pytest.mark.parametrize(("kind", "prompts"), [("itself", 18), ("near", 54), ("lookup", 54), ("far", 6)])
def test_greedy_replies_against_solo_runs(kind: str, prompts: int) -> None:
    assert unequal("qwen2", kind, requests(prompts)) == []


@pytest.mark.parametrize("kind", ["itself", "near", "lookup"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_greedy_replies_of_other_families_against_solo_runs(family: str, kind: str) -> None:
    assert unequal(family, kind, requests(12)) == []


class KeepsLaterOnes(Greedy):
    """Wrong: counts what matches anywhere in the guess, not its leading run."""

    def judge(self, proposal: Proposal, logits: torch.Tensor) -> Verdict:
        own = logits.argmax(-1).tolist()
        matches = sum(a == b for a, b in zip(proposal.tokens, own, strict=False))
        return Verdict(matches, own[matches])


def test_solo_runs_reject_a_rule_that_keeps_tokens_after_a_refused_one() -> None:
    assert unequal("qwen2", "near", requests(18), KeepsLaterOnes)


def test_solo_runs_reject_a_cache_that_is_not_rolled_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "rollback", lambda cache, length: None)
    assert unequal("qwen2", "near", requests(18))


@pytest.mark.parametrize("kind", ["near", "lookup"])
def test_draft_lengths_of_one_prompt_against_each_other(kind: str) -> None:
    request = requests(4)[3]
    for draft_tokens in range(NEW + 3):
        reply = speculate(tiny("qwen2"), drafter(kind, "qwen2"), request, draft_tokens)
        assert expected("qwen2", request).equals(reply.tokens, ROUNDING), draft_tokens


@pytest.mark.parametrize("sampling", [None, Sampling(3), Sampling(4, 0.7, top_k=20, top_p=0.9)])
def test_nothing_drafted_against_the_solo_run(sampling: Sampling | None) -> None:
    """Sampled too: the same seed draws the same tokens as plain sampling."""
    for request in requests(8, sampling):
        for reply in (
            speculate(tiny("qwen2"), drafter("near", "qwen2"), request, 0),
            speculate(tiny("qwen2"), Nothing(), request, 5),
        ):
            assert expected("qwen2", request).equals(reply.tokens, ROUNDING)
            assert {(r.proposed, r.accepted, r.emitted) for r in reply.rounds} == {(0, 0, 1)}
            assert counts(reply.rounds) == counts([])


@pytest.mark.parametrize("sampling", [None, Sampling(3), Sampling(4, 0.7, top_k=20, top_p=0.9)])
def test_a_draft_equal_to_the_target_is_always_kept(sampling: Sampling | None) -> None:
    rounds = [
        each
        for request in requests(14, sampling)
        for each in speculate(tiny("qwen2"), drafter("itself", "qwen2"), request, 3).rounds
    ]
    assert len(rounds) >= 50
    assert all(each.accepted == each.proposed for each in rounds)
    assert counts(rounds).acceptance == 1


def test_another_draft_is_not_always_kept_nor_never() -> None:
    rounds = [r for q in requests(12) for r in speculate(tiny("qwen2"), drafter("near", "qwen2"), q, 4).rounds]
    assert 0.3 < counts(rounds).acceptance < 1


def test_one_pass_per_round_over_one_position_more_than_the_draft() -> None:
    target, request = CachedModel(tiny("qwen2")), requests(3)[2]
    speculation = Speculation(target, drafter("near", "qwen2"), request, 4, Greedy())
    speculation.read_prompt()
    assert (target.passes, target.positions) == (1, len(request.prompt) - 1)
    while not speculation.done:
        before = target.passes, target.positions
        done = speculation.round()
        assert (target.passes - before[0], target.positions - before[1]) == (1, done.proposed + 1)
    assert any(r.accepted < r.proposed for r in speculation.rounds), "no rollback was needed, so none was tested"
    with pytest.raises(RuntimeError, match="complete"):
        speculation.round()


@pytest.mark.parametrize("new", [0, 1, 2, 5])
def test_a_draft_beyond_the_remaining_tokens(new: int) -> None:
    """No position is computed that plain decoding could not reach, and the reply is as long as asked."""
    for request in requests(6, new=new):
        target = CachedModel(tiny("qwen2"))
        reply = run(target, drafter("itself", "qwen2"), request, 20)
        assert len(reply.tokens) == new == sum(each.emitted for each in reply.rounds)
        assert expected("qwen2", request).equals(reply.tokens, ROUNDING)
        assert target.cached == (request.positions if new else 0)
        assert [each.proposed for each in reply.rounds] == ([new - 1] if new else [])


def test_a_reply_that_ends_inside_an_accepted_run() -> None:
    request = requests(2)[1]
    whole = expected("qwen2", request).tokens
    end = next(i for i in range(3, NEW - 2) if whole[i] not in whole[:i])
    ending = replace(request, end_ids=frozenset({whole[end]}))
    for guess in (drafter("itself", "qwen2"), Fixed(whole)):
        reply = speculate(tiny("qwen2"), guess, ending, 20)
        assert reply.tokens == whole[: end + 1]
        assert reply.rounds == (Round(0, end + 1, end + 1, end + 1),), "what comes after the end counts nowhere"
    ends_by_own = speculate(tiny("qwen2"), Fixed(whole[:end]), ending, 20)
    assert ends_by_own.tokens == whole[: end + 1]
    assert ends_by_own.rounds == (Round(0, end, end, end + 1),)


def test_an_end_that_was_only_guessed_does_not_end_the_reply() -> None:
    request = requests(2)[1]
    whole = expected("qwen2", request).tokens
    never = next(i for i in range(90) if i not in whole)
    reply = speculate(
        tiny("qwen2"), Fixed((whole[0], never, whole[2])), replace(request, end_ids=frozenset({never})), 3
    )
    assert reply.tokens == whole
    assert reply.rounds[0] == Round(0, 2, 1, 2)


def test_counts_by_position_against_hand_counting() -> None:
    rounds = [Round(0, 3, 3, 4), Round(4, 3, 0, 1), Round(5, 3, 1, 2), Round(7, 1, 1, 2), Round(9, 0, 0, 1)]
    found = counts(rounds)
    assert found.proposed == (4, 3, 3)
    assert found.judged == (4, 2, 1)
    assert found.accepted == (3, 1, 1)
    assert found.acceptance == 5 / 7
    assert found.acceptance != 5 / 10, "over all proposed it would count as refused what nobody looked at"
    assert Speculated(tuple(range(10)), tuple(rounds)).tokens_per_pass == 2
    with pytest.raises(ValueError, match="no drafted token"):
        _ = counts(rounds[-1:]).acceptance
    with pytest.raises(ValueError, match="no tokens"):
        _ = Speculated((), ()).tokens_per_pass


def test_judged_positions_against_teacher_forced_agreement() -> None:
    """Under greedy decoding a judged token is kept exactly where the draft agrees on the target's own text.

    The positions the target adds after a guess that was kept whole are agreed or not, but never judged.
    """
    family, target, draft = "qwen2", tiny("qwen2"), near("qwen2", 0.02)
    for request in requests(10):
        reply = speculate(target, drafter("near", family), request, 3)
        text = torch.tensor([[*request.prompt, *reply.tokens]])
        best = forward(draft, text, logits_to_keep=ALL_POSITIONS).logits[0].argmax(-1).tolist()
        agrees = [best[len(request.prompt) + i - 1] == token for i, token in enumerate(reply.tokens)]
        for each in reply.rounds:
            verdicts = [True] * each.accepted + [False] * (each.judged - each.accepted)
            assert agrees[each.start : each.start + each.judged] == verdicts


@pytest.mark.parametrize("draft_tokens", [-1, -5])
def test_a_negative_draft_is_refused(draft_tokens: int) -> None:
    with pytest.raises(ValueError, match=f"a draft of {draft_tokens} tokens"):
        speculate(tiny("qwen2"), Nothing(), requests(1)[0], draft_tokens)


class RedrawsRefused(Sampled):
    """Wrong: a refused token is drawn again from p."""

    def judge(self, proposal: Proposal, logits: torch.Tensor) -> Verdict:
        verdict = super().judge(proposal, logits)
        if verdict.accepted == len(proposal.tokens):
            return verdict
        own = (logits[verdict.accepted].double() / self.sampling.temperature).softmax(0)
        return Verdict(verdict.accepted, self.draws.token(own))


@pytest.mark.parametrize("sampling", [Sampling(0, 0.8), Sampling(0, 1.5, top_k=2), Sampling(0, 1.0, top_p=0.8)])
def test_law_of_a_model_with_a_draft_against_plain_sampling(sampling: Sampling) -> None:
    """Both caches are rolled back from every guess to every other; the law comes out of all of them together."""
    request = GenerationRequest("asked", (0, 2, 1), 3, sampling)
    target, draft = CachedModel(three_ids(1)), ScorerDraft(CachedModel(three_ids(2)))
    plain = plain_law(CachedModel(three_ids(1)), request)
    assert distance(speculative_law(target, draft, request, 2), plain) <= DOUBLE


def test_law_of_a_model_rejects_a_refused_token_drawn_again() -> None:
    request = GenerationRequest("asked", (0, 2, 1), 2, Sampling(0, 0.8))
    target, draft = CachedModel(three_ids(1)), ScorerDraft(CachedModel(three_ids(2)))
    plain = plain_law(CachedModel(three_ids(1)), request)
    assert distance(speculative_law(target, draft, request, 1), plain) <= DOUBLE
    assert distance(speculative_law(target, draft, request, 1, RedrawsRefused), plain) > WRONG


def test_two_replies_in_turn_do_not_disturb_each_other() -> None:
    """One scorer for several texts: it goes back to what they share, here nothing."""
    target = CachedModel(tiny("qwen2"))
    for request in requests(5):
        assert expected("qwen2", request).equals(run(target, drafter("near", "qwen2"), request, 3).tokens, ROUNDING)


def test_sampled_replies_repeat_by_their_seed() -> None:
    request = requests(2, Sampling(7))[1]
    once, again, other = (
        speculate(tiny("qwen2"), drafter("near", "qwen2"), request, 3, Sampled(Sampling(7), SeededDraws(seed))).tokens
        for seed in (7, 7, 8)
    )
    assert once == again != other
