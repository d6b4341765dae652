"""Prefix comparison, held against caches that must agree and caches that must not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedModel, Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.decoding import decode_step, prefill, random_tokens
from lib.kv_prefix import bit_equal, largest, prefix_differences, rounding_bound, study_prefix

VOCAB = 61
TOKENS = 14
LAYERS = 3


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    torch.manual_seed(3)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCAB, num_hidden_layers=LAYERS, **sizes)).eval()


@given(seed=st.integers(0, 2**31), cut=st.integers(1, TOKENS - 1))
@settings(deadline=None, max_examples=25)
def test_later_tokens_against_an_untouched_prefix(tiny: PreTrainedModel, seed: int, cut: int) -> None:
    ids = random_tokens(TOKENS, VOCAB, seed)
    changed = torch.cat([ids[:, :cut], random_tokens(TOKENS - cut, VOCAB, seed + 1)], dim=1)
    whole = prefill(tiny, ids).cache
    same_shape = prefix_differences(prefill(tiny, changed).cache, whole, cut)
    shorter = prefix_differences(prefill(tiny, ids[:, :cut]).cache, whole, cut)
    assert all(layer.bit_equal and layer.relative == 0 for layer in same_shape)
    assert all(layer.relative <= rounding_bound(tiny.config, torch.float32) for layer in shorter)


@given(seed=st.integers(0, 2**31), cut=st.integers(1, TOKENS - 1))
@settings(deadline=None, max_examples=15)
def test_appending_one_by_one_against_one_pass(tiny: PreTrainedModel, seed: int, cut: int) -> None:
    ids = random_tokens(TOKENS, VOCAB, seed)
    stepped = prefill(tiny, ids[:, :cut]).cache
    for position in range(cut, TOKENS):
        decode_step(tiny, ids[:, position : position + 1], stepped)
    for layer in prefix_differences(stepped, prefill(tiny, ids).cache, TOKENS):
        assert layer.relative <= rounding_bound(tiny.config, torch.float32)


def test_bound_rejects_a_prefix_that_sees_another_past(tiny: PreTrainedModel) -> None:
    ids = random_tokens(TOKENS, VOCAB)
    other = ids.clone()
    other[0, 0] = (ids[0, 0] + 1) % VOCAB  # an *earlier* token: everything after it must move, from the second layer on
    layers = prefix_differences(prefill(tiny, other).cache, prefill(tiny, ids).cache, TOKENS)
    assert all(layer.relative > rounding_bound(tiny.config, torch.float32) for layer in layers)
    assert not any(layer.bit_equal for layer in layers)


def test_too_short_a_cache_is_refused(tiny: PreTrainedModel) -> None:
    short, long = prefill(tiny, random_tokens(4, VOCAB)).cache, prefill(tiny, random_tokens(9, VOCAB)).cache
    with pytest.raises(ValueError, match="fewer than 5"):
        prefix_differences(short, long, 5)


def test_rounding_bound_against_its_formula(tiny: PreTrainedModel) -> None:
    assert rounding_bound(tiny.config, torch.float32) == LAYERS * 8 * 2.0**-24  # sqrt(64) = 8
    assert rounding_bound(tiny.config, torch.bfloat16) == LAYERS * 8 * 2.0**-8
    assert rounding_bound(tiny.config, torch.float16) == LAYERS * 8 * 2.0**-11


def test_study_against_what_may_and_what_may_not_change_a_prefix(tiny: PreTrainedModel) -> None:
    bound = rounding_bound(tiny.config, torch.float32)
    study = study_prefix(tiny, random_tokens(TOKENS, VOCAB), 9)
    assert bit_equal(study.same_shape) and len(study.ways) == 3
    assert all(largest(way) <= bound for way in study.ways.values())
    moved = [layer.relative for layer in study.other_past]
    assert largest(study.other_past) == max(moved) > min(moved) > bound
    assert not bit_equal(study.other_past)
