"""Peaks of a generation, held against whole generations and against bytes known from the shapes."""

import pytest
import torch
from transformers import PreTrainedModel, Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.cache_bytes import cache_shape, filled_cache, storage_bytes
from lib.decoding import ALL_POSITIONS, greedy_cached, greedy_uncached, random_tokens
from lib.live_bytes import peak_of
from lib.memory_kinds import LOGITS
from lib.peak_memory import (
    REFERENCE_PROMPT,
    allocator_ratio,
    cache_share,
    crossovers,
    decode_peak,
    generation_peaks,
    head_step_peak,
    prefill_peak,
    shares,
)

VOCAB, PROMPT, REPLY = 700, 9, 18
SLACK = 8 * 4 * (PROMPT + REPLY)  # a whole generation also holds its tokens so far, a few copies of 8-byte ids


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCAB, num_hidden_layers=3, **sizes)).eval()


@pytest.mark.parametrize("keep", [1, ALL_POSITIONS])
def test_followed_passes_against_whole_generations(tiny: PreTrainedModel, keep: int) -> None:
    peaks, ids = generation_peaks(tiny, PROMPT, REPLY, keep), random_tokens(PROMPT, VOCAB)
    uncached = peak_of(lambda: greedy_uncached(tiny, ids, REPLY, logits_to_keep=keep))[1].live_bytes
    cached = peak_of(lambda: greedy_cached(tiny, ids, REPLY, logits_to_keep=keep))[1].live_bytes
    assert 0 <= uncached - peaks.uncached.live_bytes <= SLACK
    assert 0 <= cached - peaks.cached.live_bytes <= SLACK


def test_whole_generation_rejects_another_length(tiny: PreTrainedModel) -> None:
    shorter = generation_peaks(tiny, PROMPT, REPLY - 5, 1)
    whole = peak_of(lambda: greedy_uncached(tiny, random_tokens(PROMPT, VOCAB), REPLY))[1].live_bytes
    assert whole - shorter.uncached.live_bytes > SLACK


def test_shares_against_known_bytes(tiny: PreTrainedModel) -> None:
    peak = prefill_peak(tiny, 50, batch=2, logits_to_keep=ALL_POSITIONS)
    assert shares(tiny, peak)[LOGITS] == pytest.approx(2 * 50 * VOCAB * 4 / peak.live_bytes)
    assert sum(shares(tiny, peak).values()) == pytest.approx(1)
    step = decode_peak(tiny, 200, batch=2)
    cache_bytes = 2 * 3 * 2 * 16 * 4 * 2 * 200
    assert cache_share(tiny, step) * step.live_bytes >= cache_bytes
    assert cache_share(tiny, step) < 1


def test_prefill_is_proportional_to_its_prompt(tiny: PreTrainedModel) -> None:
    short, long = (prefill_peak(tiny, n).live_bytes / n for n in (REFERENCE_PROMPT, 3 * REFERENCE_PROMPT))
    assert short == pytest.approx(long, rel=0.01)  # but for one row of logits


def test_prompt_for_a_ratio_against_a_measured_one(tiny: PreTrainedModel) -> None:
    there = generation_peaks(tiny, 20, REPLY, ALL_POSITIONS)
    from_elsewhere = generation_peaks(tiny, 30, REPLY, ALL_POSITIONS).prompt_for(there.ratio, 30, REPLY)
    assert from_elsewhere == pytest.approx(20, abs=0.2)


def test_crossovers_against_a_cache_of_that_length(tiny: PreTrainedModel) -> None:
    weights = sum(p.numel() for p in tiny.parameters()) * 4
    tokens = crossovers(tiny)["tokens_until_cache_outweighs_weights"]
    assert storage_bytes(filled_cache(cache_shape(tiny.config), 1, int(tokens), torch.float32)) <= weights
    assert storage_bytes(filled_cache(cache_shape(tiny.config), 1, int(tokens) + 1, torch.float32)) > weights


def test_no_allocator_is_an_error_and_no_number(tiny: PreTrainedModel) -> None:
    with pytest.raises(ValueError, match="no allocator"):
        allocator_ratio(tiny, PROMPT, 2, 1)


def test_head_against_known_bytes() -> None:
    row, square = head_step_peak(1, 300, 16), head_step_peak(300, 300, 16)
    assert row.live_bytes == 2 * 300 * 4 + 16 * 4
    assert square.live_bytes >= 2 * 300 * 300 * 4
    assert {a.shape for a in square.alive} >= {(300, 300)}
    assert all(a.shape[0] == 1 for a in row.alive)
