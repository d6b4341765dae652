"""Cache bytes: the formula against real tensors of small models, and storage against views."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import DeepseekV2Config, DynamicCache, LlamaConfig, Qwen2Config, StaticCache

from lib.cache_bytes import (
    CacheShape,
    UnknownCacheShape,
    cache_shape,
    filled_cache,
    kv_bytes_per_token,
    occupancy,
    storage_bytes,
    tensor_shapes,
    view_bytes,
)
from lib.decoding import decode_step, forward, prefill, random_tokens, rollback
from lib.slim_models import SLIM_VOCABULARY, cache_only

TINY = Qwen2Config(hidden_size=32, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=8)
DTYPES = {torch.float32: 4, torch.float16: 2, torch.bfloat16: 2}


def tokens(n: int, batch: int = 1) -> torch.Tensor:
    return random_tokens(n, SLIM_VOCABULARY, batch=batch)


def test_formula_against_the_product_written_out() -> None:
    assert kv_bytes_per_token(3, 2, 8, 2) == 2 * 3 * 2 * 8 * 2 == cache_shape(TINY).bytes_per_token(2)


def test_formula_rejects_an_impossible_shape() -> None:
    with pytest.raises(ValueError, match="0 heads"):
        kv_bytes_per_token(3, 0, 8, 2)


def test_shape_takes_the_explicit_head_dimension_not_width_over_heads() -> None:
    explicit = LlamaConfig(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=24)
    assert cache_shape(explicit) == CacheShape(32, 2, 24)
    assert cache_shape(LlamaConfig(hidden_size=64, num_attention_heads=4)) == CacheShape(32, 4, 16)


def test_shape_refuses_a_latent_cache() -> None:
    with pytest.raises(UnknownCacheShape, match="latent"):
        cache_shape(DeepseekV2Config())


@settings(max_examples=25, deadline=None)
@given(batch=st.integers(1, 4), n=st.integers(1, 40), steps=st.integers(0, 3), dtype=st.sampled_from(list(DTYPES)))
def test_formula_against_real_tensors(batch: int, n: int, steps: int, dtype: torch.dtype) -> None:
    model = cache_only(TINY, dtype)
    cache = prefill(model, tokens(n, batch)).cache
    for _ in range(steps):
        decode_step(model, tokens(1, batch), cache)
    expected = batch * (n + steps) * cache_shape(TINY).bytes_per_token(DTYPES[dtype])
    assert storage_bytes(cache) == view_bytes(cache) == expected
    assert tensor_shapes(cache) == {(batch, 2, n + steps, 8)}


def test_formula_rejects_query_heads_in_place_of_key_value_heads() -> None:
    cache = prefill(cache_only(TINY), tokens(5)).cache
    assert storage_bytes(cache) != 5 * kv_bytes_per_token(3, 6, 8, 4)


def test_storage_sees_what_views_hide() -> None:
    cache = prefill(cache_only(TINY), tokens(10)).cache
    whole = storage_bytes(cache)
    rollback(cache, 4)
    assert (storage_bytes(cache), view_bytes(cache)) == (whole, whole * 4 // 10)


def test_filled_cache_against_a_prefilled_one() -> None:
    model = cache_only(TINY, torch.float16)
    ours, theirs = filled_cache(cache_shape(TINY), 2, 9, torch.float16), prefill(model, tokens(9, batch=2)).cache
    assert (storage_bytes(ours), tensor_shapes(ours)) == (storage_bytes(theirs), tensor_shapes(theirs))


def test_formula_against_the_tensors_of_a_seven_billion_shape() -> None:
    """32 layers, 8 of 32 heads cached, 128 dimensions: 128 KiB a token in 16 bits."""
    config = LlamaConfig(num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    cache = prefill(cache_only(config, torch.float16), tokens(3)).cache
    assert storage_bytes(cache) == 3 * 128 * 1024


def test_shared_storage_counts_once() -> None:
    shared = torch.zeros(1, 2, 6, 8)
    cache = DynamicCache([(shared, shared)])
    cache.layers[0].keys = cache.layers[0].values = shared
    assert (storage_bytes(cache), view_bytes(cache)) == (shared.nbytes, 2 * shared.nbytes)


def test_meta_tensors_have_no_storage() -> None:
    cache = DynamicCache([(torch.zeros(1, 2, 6, 8, device="meta"), torch.zeros(1, 2, 6, 8, device="meta"))])
    with pytest.raises(ValueError, match="meta"):
        storage_bytes(cache)


def test_static_cache_allocates_its_maximum() -> None:
    model = cache_only(TINY)
    with warnings.catch_warnings():
        cache = StaticCache(config=model.config, max_cache_len=64)
        forward(model, tokens(10), cache=cache, use_cache=True)
    held = occupancy(cache, [10], cache_shape(TINY).bytes_per_token(4))
    assert held.allocated_bytes == 64 * cache_shape(TINY).bytes_per_token(4)
    assert held.wasted_share == 1 - 10 / 64


def test_padding_is_paid_for() -> None:
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, :6] = 0  # the second request has three real tokens
    cache = prefill(cache_only(TINY), tokens(9, batch=2), attention_mask=mask).cache
    assert occupancy(cache, [9, 3], cache_shape(TINY).bytes_per_token(4)).wasted_share == 1 - 12 / 18
