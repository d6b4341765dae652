"""The classes of memory, held against tensors whose size and place are known."""

import pytest
from transformers import LlamaConfig, PreTrainedModel, Qwen2Config
from transformers.models.llama import LlamaForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.cache_bytes import cache_shape, storage_bytes
from lib.decoding import ALL_POSITIONS, prefill, random_tokens
from lib.live_bytes import Allocation, Peak, peak_of
from lib.memory_kinds import ATTENTION, CACHE, LOGITS, MLP, OTHER, SCORES, decoder_kinds

VOCAB, TOKENS, MLP_WIDTH = 8000, 90, 1000  # every row of logits outweighs an MLP, one row does not
SIZES = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}


@pytest.fixture(params=[(Qwen2ForCausalLM, Qwen2Config), (LlamaForCausalLM, LlamaConfig)], ids=["qwen2", "llama"])
def tiny(request: pytest.FixtureRequest) -> PreTrainedModel:
    model_class, config_class = request.param
    model: PreTrainedModel = model_class(config_class(vocab_size=VOCAB, intermediate_size=MLP_WIDTH, **SIZES))
    return model.eval()


def peak_with_kinds(model: PreTrainedModel, keep: int) -> tuple[Peak, dict[str, int], int]:
    filled, peak = peak_of(lambda: prefill(model, random_tokens(TOKENS, VOCAB), keep))
    return peak, peak.by_kind(decoder_kinds(cache_shape(model.config).head_dim)), storage_bytes(filled.cache)


def test_logits_and_cache_against_their_known_bytes(tiny: PreTrainedModel) -> None:
    peak, kinds, cache_bytes = peak_with_kinds(tiny, ALL_POSITIONS)
    assert kinds[LOGITS] == TOKENS * VOCAB * 4
    assert kinds[CACHE] == cache_bytes
    assert sum(kinds.values()) == peak.live_bytes


def test_mlp_dominates_without_surplus_logits(tiny: PreTrainedModel) -> None:
    peak, kinds, _ = peak_with_kinds(tiny, 1)
    assert kinds[MLP] == 3 * TOKENS * MLP_WIDTH * 4  # gate, up and their product
    assert kinds.get(OTHER, 0) < peak.live_bytes // 100


def test_written_out_scores_against_their_known_bytes(tiny: PreTrainedModel) -> None:
    tiny.set_attn_implementation("eager")
    tokens = 1100  # now the scores are the largest thing
    _, peak = peak_of(lambda: prefill(tiny, random_tokens(tokens, VOCAB)))
    scores = peak.by_kind(decoder_kinds(16))[SCORES]
    one_matrix = 4 * tokens * tokens * 4  # heads, n x n, float32
    assert scores >= 2 * one_matrix  # scores and their softmax
    assert scores % one_matrix == 0


def test_fused_attention_rejects_any_scores(tiny: PreTrainedModel) -> None:
    tiny.set_attn_implementation("sdpa")
    assert SCORES not in peak_with_kinds(tiny, 1)[1]


def test_scores_and_output_of_one_function_are_told_apart_by_the_last_dimension() -> None:
    kind = decoder_kinds(16)
    for shape, found in (((1, 4, 90, 90), SCORES), ((1, 4, 90, 16), ATTENTION), ((1, 4, 16, 90), SCORES)):
        assert kind(Allocation("aten.bmm", "modeling.eager_attention_forward", shape, "float32", 4)) == found
