"""The cache adapter, held against transformers' own generate and against a loop that caches nothing."""

import pytest
import torch
from transformers import GenerationConfig, GPT2Config, LlamaConfig, MistralConfig, PreTrainedModel, Qwen2Config
from transformers.models.gpt2 import GPT2LMHeadModel
from transformers.models.llama import LlamaForCausalLM
from transformers.models.mistral import MistralForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.decoding import (
    ALL_POSITIONS,
    cached_tokens,
    decode_step,
    greedy_cached,
    greedy_choice,
    greedy_generate,
    greedy_uncached,
    layer_tensors,
    prefill,
    random_tokens,
    refuse_beyond,
    rollback,
    sliding_window,
)
from lib.unmeasurable import Unmeasurable

VOCAB = 97
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}
# logits of the tiny models are O(1) sums over 48 terms in fp32: 48 · 2^-24 ≈ 3e-6, times 3 layers of headroom
LOGIT_TOLERANCE = 3 * 48 * 2.0**-24


@pytest.fixture(params=["qwen2", "llama"])
def tiny(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(7)
    if request.param == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**SIZES)).eval()
    return LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16)).eval()  # head_dim that is not hidden / heads


def test_random_tokens_are_reproducible_and_in_range() -> None:
    first, again, other = random_tokens(50, VOCAB), random_tokens(50, VOCAB), random_tokens(50, VOCAB, seed=1)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (first.shape, first.dtype) == ((1, 50), torch.int64)
    assert all(0 <= token < VOCAB for token in first.flatten().tolist())
    assert random_tokens(5, VOCAB, batch=3).shape == (3, 5)


def test_prefill_shapes_against_config(tiny: PreTrainedModel) -> None:
    filled = prefill(tiny, random_tokens(11, VOCAB, batch=2))
    assert filled.logits.shape == (2, 1, VOCAB)
    assert cached_tokens(filled.cache) == 11
    head_dim = getattr(tiny.config, "head_dim", None) or 48 // 6
    assert [k.shape for k, _ in layer_tensors(filled.cache)] == [(2, 2, 11, head_dim)] * 3
    assert [v.shape for _, v in layer_tensors(filled.cache)] == [(2, 2, 11, head_dim)] * 3
    assert prefill(tiny, random_tokens(11, VOCAB), ALL_POSITIONS).logits.shape == (1, 11, VOCAB)


def test_prefill_rejects_an_empty_prompt(tiny: PreTrainedModel) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        prefill(tiny, torch.empty(1, 0, dtype=torch.int64))


def test_greedy_cached_against_generate(tiny: PreTrainedModel) -> None:
    ids = random_tokens(9, VOCAB, batch=2)
    config = GenerationConfig(
        max_new_tokens=12, min_new_tokens=12, do_sample=False, repetition_penalty=1.0, pad_token_id=0
    )
    theirs = tiny.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)
    assert torch.equal(greedy_cached(tiny, ids, 12).tokens, theirs[:, 9:])


def test_greedy_cached_ignores_a_repetition_penalty_of_the_model(tiny: PreTrainedModel) -> None:
    ids = random_tokens(9, VOCAB)
    plain = greedy_cached(tiny, ids, 12).tokens
    tiny.generation_config.repetition_penalty = 5.0
    penalised = tiny.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
    assert torch.equal(greedy_cached(tiny, ids, 12).tokens, plain)
    assert not torch.equal(penalised[:, 9:], plain), "the control must see the penalty, or the test proves nothing"


def test_cached_logits_against_uncached(tiny: PreTrainedModel) -> None:
    ids = random_tokens(9, VOCAB, batch=2)
    cached = greedy_cached(tiny, ids, 10, keep_logits=True)
    uncached = greedy_uncached(tiny, ids, 10, keep_logits=True)
    naive = greedy_uncached(tiny, ids, 10, logits_to_keep=ALL_POSITIONS)
    assert torch.equal(cached.tokens, uncached.tokens)
    assert torch.equal(naive.tokens, cached.tokens)
    assert naive.logits is None
    assert cached.logits is not None
    assert uncached.logits is not None
    assert cached.logits.shape == (2, 10, VOCAB)
    assert (cached.logits - uncached.logits).abs().max() <= LOGIT_TOLERANCE


def test_logits_tolerance_rejects_a_stale_cache(tiny: PreTrainedModel) -> None:
    ids = random_tokens(9, VOCAB)
    reused = prefill(tiny, ids).cache
    decode_step(tiny, ids[:, :1], reused)  # a measurement that forgot to roll back
    dirty = decode_step(tiny, ids[:, -1:], reused)
    clean = decode_step(tiny, ids[:, -1:], prefill(tiny, ids).cache)
    assert (dirty - clean).abs().max() > LOGIT_TOLERANCE


def test_rollback_restores_the_cache_bit_for_bit(tiny: PreTrainedModel) -> None:
    ids = random_tokens(9, VOCAB)
    filled = prefill(tiny, ids)
    before = [(k.clone(), v.clone()) for k, v in layer_tensors(filled.cache)]
    decode_step(tiny, random_tokens(4, VOCAB, seed=3), filled.cache)
    rollback(filled.cache, 9)
    after = layer_tensors(filled.cache)
    assert cached_tokens(filled.cache) == 9
    assert all(torch.equal(k, a) and torch.equal(v, b) for (k, v), (a, b) in zip(before, after, strict=True))
    with pytest.raises(ValueError, match="back to 10"):
        rollback(filled.cache, 10)


def test_ties_go_to_the_lowest_id() -> None:
    logits = torch.zeros(2, 3, 50_000)
    logits[0, -1, [41, 7, 49_999]] = 1.0
    assert greedy_choice(logits).tolist() == [[7], [0]]


def test_padded_batch_against_solo_runs(tiny: PreTrainedModel) -> None:
    long, short = random_tokens(8, VOCAB), random_tokens(5, VOCAB, seed=1)
    batch = torch.cat([long, torch.cat([torch.zeros(1, 3, dtype=torch.int64), short], dim=1)])
    mask = (torch.arange(8) >= torch.tensor([[0], [3]])).long()
    padded = prefill(tiny, batch, attention_mask=mask).logits
    solo = torch.cat([prefill(tiny, long).logits, prefill(tiny, short).logits])
    assert (padded - solo).abs().max() <= LOGIT_TOLERANCE  # rotary positions are relative: the shift cancels
    assert (prefill(tiny, batch).logits[1] - solo[1]).abs().max() > LOGIT_TOLERANCE  # without the mask it is wrong


def test_own_loop_against_generate_with_the_penalty_spelled_out(tiny: PreTrainedModel) -> None:
    ids = random_tokens(9, VOCAB, batch=2)
    tiny.generation_config.repetition_penalty = 5.0  # what the model would do if nobody said otherwise
    tiny.generation_config.eos_token_id = int(greedy_cached(tiny, ids, 3).tokens[0, -1])  # … and where it would stop
    assert torch.equal(greedy_generate(tiny, ids, 12, 1.0), greedy_cached(tiny, ids, 12).tokens)
    assert not torch.equal(greedy_generate(tiny, ids, 12, 5.0), greedy_cached(tiny, ids, 12).tokens)


def test_a_window_is_no_longer_than_what_its_layers_keep() -> None:
    """With one position fewer the cache is whole; with the window's own number the first position is gone."""
    torch.manual_seed(7)
    model = MistralForCausalLM(MistralConfig(**SIZES, head_dim=8, sliding_window=8)).eval()
    cache = prefill(model, random_tokens(6, VOCAB)).cache
    decode_step(model, random_tokens(1, VOCAB), cache)
    assert {keys.shape[2] for keys, _ in layer_tensors(cache)} == {7}
    with pytest.raises(Unmeasurable, match="layers keep 7 positions at most, 8 are needed"):
        decode_step(model, random_tokens(1, VOCAB), cache)
    with pytest.raises(Unmeasurable, match="layers keep 7 positions at most, 9 are needed"):
        prefill(model, random_tokens(9, VOCAB))
    kept = model(random_tokens(9, VOCAB), use_cache=True).cache
    assert {keys.shape[2] for keys, _ in layer_tensors(kept)} == {7}  # what would have been measured instead


def test_which_models_slide() -> None:
    qwen2 = {"sliding_window": 8, "max_window_layers": 1}
    assert sliding_window(MistralConfig(**SIZES, sliding_window=8)) == 8
    assert sliding_window(MistralConfig(**SIZES, sliding_window=None)) is None
    assert sliding_window(Qwen2Config(**SIZES, **qwen2, use_sliding_window=True)) == 8
    assert sliding_window(Qwen2Config(**SIZES, **qwen2)) is None
    assert sliding_window(LlamaConfig(**SIZES)) is None


def test_a_table_of_positions_ends(tiny: PreTrainedModel) -> None:
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=8, n_layer=1, n_head=2, n_positions=16)).eval()
    refuse_beyond(model, 16)
    with pytest.raises(Unmeasurable, match="16 positions, 17 are needed"):
        prefill(model, random_tokens(17, VOCAB))
    refuse_beyond(tiny, 10**6, kept=True)
