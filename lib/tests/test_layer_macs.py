"""Counted operations against the closed form, and models that shrink what does not matter against the full ones."""

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.cache_bytes import cache_shape, storage_bytes
from lib.decoding import prefill, random_tokens
from lib.layer_macs import closed_form_macs, decode_step_macs
from lib.slim_models import SLIM_VOCABULARY, cache_only, cast_copy

SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6, "vocab_size": 97}


@pytest.mark.parametrize("config", [Qwen2Config(**SIZES), LlamaConfig(**SIZES, head_dim=16)], ids=["qwen2", "llama"])
@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("context", [2, 17])
def test_counted_macs_against_closed_form(config: Qwen2Config, kv_heads: int, context: int) -> None:
    assert decode_step_macs(config, kv_heads, context) == closed_form_macs(config, kv_heads, 1, context)


def test_counted_macs_reject_the_wrong_number_of_heads() -> None:
    counted = decode_step_macs(Qwen2Config(**SIZES), 2, 5)
    wrong = closed_form_macs(Qwen2Config(**SIZES), 6, 1, 5)
    assert counted.key_and_value * 3 == wrong.key_and_value
    assert counted.layer < wrong.layer


def test_cache_only_model_has_the_full_models_cache() -> None:
    torch.manual_seed(0)
    config = Qwen2Config(**SIZES, num_key_value_heads=2)
    full, slim = Qwen2ForCausalLM(config).eval(), cache_only(config)
    ids = random_tokens(7, SLIM_VOCABULARY, batch=2)
    assert storage_bytes(prefill(full, ids).cache) == storage_bytes(prefill(slim, ids).cache)
    assert cache_shape(slim.config) == cache_shape(config)
    assert slim.num_parameters() < full.num_parameters() / 4


def test_cache_only_model_leaves_the_random_stream_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    cache_only(Qwen2Config(**SIZES))
    assert torch.equal(torch.rand(1), expected)


def test_cast_copy_keeps_ties_and_leaves_the_model_unchanged() -> None:
    model = Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)).eval()
    before = {name: p.clone() for name, p in model.named_parameters()}
    half = cast_copy(model, torch.float16)
    assert half.get_output_embeddings().weight is half.get_input_embeddings().weight
    assert {p.dtype for p in half.parameters()} == {torch.float16}
    assert half.num_parameters() == model.num_parameters()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
