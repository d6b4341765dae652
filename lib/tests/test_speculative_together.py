"""Speculating for several texts in one pass against each of them alone, and the replay against rounds that were run."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from lib.decoding import ALL_POSITIONS, forward
from lib.serving.reference import solo
from lib.serving.requests import GenerationRequest, Sampling
from lib.speculative.agreement import choices_along, overlaps
from lib.speculative.decoding import Round, Speculated, Unfinished, replayed, rule_of, speculate
from lib.speculative.drafts import DraftRefused, ModelDraft, PromptLookup
from lib.speculative.sampling import Watched, distribution, overlap
from lib.speculative.together import Asked, Drafters, OneByOne, PackedDraft, PackedTexts, run_together
from lib.tests.tiny_serving import NEW, ROUNDING, tiny
from lib.tests.tiny_speculative import near, requests, three_ids

pytestmark = pytest.mark.usefixtures("one_thread")

LONGEST = 20 + NEW  # tokens of a prompt of tiny_speculative and of its reply
TEXTS = [[(5, 6, 7, 8), (9, 8)], [(5, 6, 7, 8, 9, 10), (9, 8, 7)], [(5, 6, 1), (9, 8, 7, 1, 2)], [(5, 6, 1, 2), (3,)]]


def packed_draft(asked: list[GenerationRequest], noise: float = 0.02) -> PackedDraft:
    return PackedDraft(PackedTexts(near("qwen2", noise), len(asked), LONGEST), tiny("qwen2"))


def together_by(asked: list[GenerationRequest], drafters: Drafters, draft_tokens: int) -> list[Speculated]:
    replies = [Unfinished(request, draft_tokens, rule_of(request)) for request in asked]
    run_together(PackedTexts(tiny("qwen2"), len(asked), LONGEST), drafters, replies)
    return [reply.result() for reply in replies]


@pytest.mark.parametrize("draft_tokens", [0, 1, 4, 20])
def test_replies_together_against_each_alone(draft_tokens: int) -> None:
    """Prompts of different lengths, replies that end at different rounds; the rounds are the same too."""
    asked = requests(9)
    for request, reply in zip(asked, together_by(asked, packed_draft(asked), draft_tokens), strict=True):
        alone = speculate(tiny("qwen2"), ModelDraft(near("qwen2", 0.02), tiny("qwen2")), request, draft_tokens)
        assert solo(tiny("qwen2"), request).equals(reply.tokens, ROUNDING)
        assert reply == alone or reply.tokens != alone.tokens  # which only a choice within rounding allows


def test_sampled_replies_together_against_each_alone() -> None:
    """Every reply draws from its own seed, whoever else is there: the tokens that it draws alone."""
    asked = [replace(request, sampling=Sampling(i, top_k=20)) for i, request in enumerate(requests(6))]
    for request, reply in zip(asked, together_by(asked, packed_draft(asked), 3), strict=True):
        assert reply == speculate(tiny("qwen2"), ModelDraft(near("qwen2", 0.02), tiny("qwen2")), request, 3)


def test_lookups_together_against_each_alone() -> None:
    asked = requests(9)
    for request, reply in zip(asked, together_by(asked, OneByOne(PromptLookup()), 3), strict=True):
        assert reply == speculate(tiny("qwen2"), PromptLookup(), request, 3)


class OneRoomForAll(PackedTexts):
    """Wrong: every text writes its keys and values where the first one has its own."""

    def _slots(self, one: Asked) -> torch.Tensor:
        return super()._slots(replace(one, number=0))


def test_replies_together_reject_texts_that_share_their_keys() -> None:
    asked = requests(4)
    replies = [Unfinished(request, 4, rule_of(request)) for request in asked]
    run_together(OneRoomForAll(tiny("qwen2"), len(asked), LONGEST), packed_draft(asked), replies)
    right = [solo(tiny("qwen2"), reply.request).equals(reply.reply, ROUNDING) for reply in replies]
    assert not all(right)


def test_packed_texts_against_passes_without_a_cache() -> None:
    packed = PackedTexts(tiny("qwen2"), 2, 6)
    for texts in TEXTS:
        asked = [Asked(i, text, min(2, len(text))) for i, text in enumerate(texts)]
        for one, found in zip(asked, packed.logits(asked), strict=True):
            plain = forward(tiny("qwen2"), torch.tensor([one.text]), logits_to_keep=ALL_POSITIONS).logits[
                0, -one.keep :
            ]
            assert (found - plain).abs().max() <= ROUNDING
    assert packed.passes == len(TEXTS)


@pytest.mark.parametrize(("text", "keep"), [((1, 2, 3), 0), ((1, 2, 3), 4), ((1,) * 7, 1)])
def test_packed_texts_refuse_what_has_no_room_or_no_logits(text: tuple[int, ...], keep: int) -> None:
    with pytest.raises(ValueError, match=f"{keep} logits of {len(text)} tokens, where at most 6"):
        PackedTexts(tiny("qwen2"), 1, 6).logits([Asked(0, text, keep)])


def test_a_pass_that_fails_leaves_nothing_to_go_on_from() -> None:
    """Keys and values of the failed text lie where the old one's were: the old text must be read anew."""
    model, old, new = tiny("qwen2"), (1, 2, 3, 4, 5), (1, 9, 8, 7, 6)
    packed = PackedTexts(model, 1, 6)
    before = packed.logits([Asked(0, old, 2)])[0]

    def fail(*_: object) -> None:
        raise RuntimeError("in the last layer")

    hook = model.model.layers[-1].register_forward_hook(fail)
    try:
        with pytest.raises(RuntimeError, match="last layer"):
            packed.logits([Asked(0, new, 2)])
    finally:
        hook.remove()
    assert (packed.logits([Asked(0, old, 2)])[0] - before).abs().max() <= ROUNDING


def test_a_packed_draft_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(DraftRefused, match="vocabularies of different size"):
        PackedDraft(PackedTexts(copy.deepcopy(three_ids(1)).float(), 1, 8), tiny("qwen2"))


@pytest.mark.parametrize("draft_tokens", [1, 3, 8])
def test_replayed_rounds_against_rounds_that_were_run(draft_tokens: int) -> None:
    """Greedy: one pass of the draft over the reply says which rounds there were, also where a guess is cut short."""
    parted = 0
    for request in requests(10):
        ran = speculate(tiny("qwen2"), ModelDraft(near("qwen2", 0.02), tiny("qwen2")), request, draft_tokens)
        text = torch.tensor([[*request.prompt, *ran.tokens]])
        agrees = choices_along(near("qwen2", 0.02), text, NEW).ids[0] == text[0, -NEW:]
        assert replayed(agrees.tolist(), draft_tokens) == ran.rounds
        parted += replayed((~agrees).tolist(), draft_tokens) != ran.rounds
    assert parted, "the wrong variant: agreements read as misses"


def test_replayed_rounds_against_hand_counting() -> None:
    agrees = [True, True, True, False, False, True, True]
    assert replayed(agrees, 2) == (Round(0, 2, 2, 3), Round(3, 2, 0, 1), Round(4, 2, 0, 1), Round(5, 1, 1, 2))
    assert replayed(agrees, 0) == tuple(Round(i, 0, 0, 1) for i in range(7))
    assert replayed([], 4) == ()


def test_watched_choices_against_the_solo_runs_gaps() -> None:
    request = requests(4)[3]
    rule = Watched()
    reply = speculate(tiny("qwen2"), ModelDraft(near("qwen2", 0.02), tiny("qwen2")), request, 3, rule)
    expected = solo(tiny("qwen2"), request)
    assert reply.tokens == expected.tokens
    assert rule.gaps == pytest.approx(expected.gaps, abs=2 * ROUNDING)


def test_overlaps_against_the_rules_own() -> None:
    text = torch.tensor([requests(3)[2].prompt])
    p, q = (choices_along(model, text, 2).logits for model in (tiny("qwen2"), near("qwen2", 1.0)))
    expected = [overlap(distribution(p[0, i], Sampling(0)), distribution(q[0, i], Sampling(0))) for i in range(2)]
    assert overlaps(p, q)[0].tolist() == pytest.approx(expected, abs=ROUNDING)
    assert overlaps(p, p)[0].tolist() == pytest.approx([1, 1])
