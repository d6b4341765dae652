"""The stream held against greedy decoding, and the first item against a prefill alone."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lib.decoding import greedy_cached, prefill, random_tokens
from lib.streaming import resumed, stream

VOCABULARY = 61


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCABULARY, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(3)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(5)
    return model


def test_stream_against_greedy_decoding(tiny: PreTrainedModel) -> None:
    ids = random_tokens(7, VOCABULARY, seed=1)
    assert list(islice(stream(tiny, ids, int), 9)) == greedy_cached(tiny, ids, 9).tokens[0].tolist()


def test_resumed_against_reading_everything_anew(tiny: PreTrainedModel) -> None:
    ids = random_tokens(12, VOCABULARY, seed=2)
    cache = prefill(tiny, ids[:, :8]).cache
    assert list(islice(resumed(tiny, cache, ids[:, 8:], int), 5)) == list(islice(stream(tiny, ids, int), 5))


def test_resumed_rejects_a_cache_that_already_holds_the_question(tiny: PreTrainedModel) -> None:
    ids = random_tokens(12, VOCABULARY, seed=2)
    twice = list(islice(resumed(tiny, prefill(tiny, ids).cache, ids[:, 8:], int), 5))
    assert twice != list(islice(stream(tiny, ids, int), 5))


def test_the_first_item_comes_before_any_decode_step(tiny: PreTrainedModel) -> None:
    passes: list[int] = []
    hook = tiny.model.register_forward_pre_hook(lambda _, args, kwargs: passes.append(1), with_kwargs=True)
    reply = stream(tiny, random_tokens(7, VOCABULARY, seed=1), str)
    assert isinstance(next(reply), str) and len(passes) == 1
    next(reply)
    assert len(passes) == 2
    hook.remove()
