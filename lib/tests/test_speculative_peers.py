"""Ours against transformers' assisted generation and its prompt lookup: the same tokens in as many passes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from transformers import GenerationConfig, PreTrainedModel

from lib.serving.reference import solo
from lib.serving.requests import GenerationRequest
from lib.speculative.decoding import speculate
from lib.speculative.drafts import ModelDraft, PromptLookup, twin
from lib.tests.tiny_serving import ROUNDING, VOCAB, tiny
from lib.tests.tiny_speculative import near, requests

DRAFT_TOKENS, LONGEST = 4, 3
NO_ID = VOCAB  # their draft is not shown prompt tokens that equal the padding id, so it must be none that occurs


@contextmanager
def passes_of(model: PreTrainedModel) -> Iterator[list[None]]:
    """One entry for each pass of the model."""
    passes: list[None] = []
    handle = model.register_forward_pre_hook(lambda *_: passes.append(None))
    try:
        yield passes
    finally:
        handle.remove()


def theirs(request: GenerationRequest, assistant: PreTrainedModel | None = None, **how: int) -> tuple[list[int], int]:
    """Greedy tokens by transformers' generate, and how many passes its target took."""
    target = twin(tiny("qwen2"))
    config = GenerationConfig(max_new_tokens=request.max_new_tokens, do_sample=False, pad_token_id=NO_ID, **how)
    ids = torch.tensor([request.prompt])
    with passes_of(target) as passes:
        out = target.generate(
            ids, attention_mask=torch.ones_like(ids), generation_config=config, assistant_model=assistant
        )
    return out[0, ids.shape[1] :].tolist(), len(passes)


def assistant(noise: float) -> PreTrainedModel:
    draft = twin(near("qwen2", noise))
    draft.generation_config.num_assistant_tokens = DRAFT_TOKENS
    draft.generation_config.num_assistant_tokens_schedule = "constant"
    draft.generation_config.assistant_confidence_threshold = 0.0
    return draft


@pytest.mark.parametrize("noise", [0.0, 0.02, 1.0])
def test_a_model_as_draft_against_transformers_assisted_generation(noise: float) -> None:
    """Always right, often, hardly ever: the same tokens in as many passes."""
    for request in requests(8):
        ours = speculate(tiny("qwen2"), ModelDraft(near("qwen2", noise), tiny("qwen2")), request, DRAFT_TOKENS)
        tokens, passes = theirs(request, assistant(noise))
        assert tokens == list(ours.tokens)
        assert passes == len(ours.rounds)
        assert solo(tiny("qwen2"), request).equals(tokens, ROUNDING)


def test_assisted_generations_passes_reject_drafts_of_another_length() -> None:
    request = requests(6)[5]
    ours = speculate(tiny("qwen2"), ModelDraft(near("qwen2", 0.0), tiny("qwen2")), request, DRAFT_TOKENS - 1)
    assert theirs(request, assistant(0.0))[1] != len(ours.rounds)


def test_prompt_lookup_against_transformers() -> None:
    guessed = 0
    for request in requests(9):
        ours = speculate(tiny("qwen2"), PromptLookup(LONGEST), request, DRAFT_TOKENS)
        tokens, passes = theirs(request, prompt_lookup_num_tokens=DRAFT_TOKENS, max_matching_ngram_size=LONGEST)
        assert tokens == list(ours.tokens)
        assert passes == len(ours.rounds)
        guessed += sum(each.proposed for each in ours.rounds)
    assert guessed, "nothing was ever found in a text"
