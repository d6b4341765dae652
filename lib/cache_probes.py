"""Probes of real caches: what an architecture stores per token, at which shapes the formula is exact, and where not.

Every number is read off the storages of tensors that a forward pass left behind; weights do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from transformers import DynamicCache, PretrainedConfig, PreTrainedModel, StaticCache

from lib.cache_bytes import Occupancy, cache_shape, occupancy, storage_bytes
from lib.decoding import forward, prefill, random_tokens
from lib.slim_models import HEADS_FOLLOW, SLIM_VOCABULARY, cache_only
from lib.unmeasurable import Unmeasurable

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
PROBE_TOKENS = 10  # any number gives the same bytes per token
WINDOW = 16  # positions that a sliding layer sees, far below PROMPT so that it is full
PROMPT = 64  # tokens
RESERVED = 2 * PROMPT  # positions that a static cache has from the start


@dataclass(frozen=True)
class Held:
    """Bytes that a cache holds against those that the formula gives for its tokens."""

    actual_bytes: int
    formula_bytes: int

    @property
    def exact(self) -> bool:
        """Whether they are the same."""
        return self.actual_bytes == self.formula_bytes

    @property
    def ratio(self) -> Fraction:
        """Held over formula."""
        return Fraction(self.actual_bytes, self.formula_bytes)


def bytes_per_token_with(config: PretrainedConfig, kv_heads: int) -> Fraction:
    """Storage per token of a real fp16 cache of this architecture with another number of key-value heads.

    Raises ValueError when query heads do not divide into that many equal groups.
    """
    slim = cache_only(config, torch.float16, num_key_value_heads=kv_heads)
    ids = random_tokens(PROBE_TOKENS, SLIM_VOCABULARY)
    try:
        cache = prefill(slim, ids).cache
    except RuntimeError as error:  # the attention product's shapes do not match
        raise ValueError(f"{config.num_attention_heads} query heads in {kv_heads} groups: {error}") from None
    return Fraction(storage_bytes(cache), PROBE_TOKENS)


def possible_kv_heads(config: PretrainedConfig) -> dict[int, Fraction]:
    """Every number of key-value heads with which this architecture runs, and its fp16 bytes per token."""
    found = {}
    for kv_heads in range(1, config.num_attention_heads + 1):
        try:
            found[kv_heads] = bytes_per_token_with(config, kv_heads)
        except Unmeasurable:
            raise
        except ValueError:
            continue
    if not found:
        raise Unmeasurable(f"{config.model_type} {HEADS_FOLLOW}")
    return found


def held_at(model: PreTrainedModel, batch: int, tokens: int) -> Held:
    """One prefill of random tokens on this model against the formula for its own dtype."""
    ids = random_tokens(tokens, model.config.vocab_size, batch=batch)
    formula = batch * tokens * cache_shape(model.config).bytes_per_token(model.dtype.itemsize)
    return Held(storage_bytes(prefill(model, ids).cache), formula)


def held_on_grid(config: PretrainedConfig, shapes: Iterable[tuple[int, int]]) -> dict[str, Held]:
    """Every (batch, tokens) in three dtypes, on a model with this configuration's cache."""
    listed = list(shapes)
    models = {dtype: cache_only(config, dtype) for dtype in DTYPES}
    return {f"{dtype}, {b} × {n}": held_at(slim, b, n) for dtype, slim in models.items() for b, n in listed}


def held_by_kind(config: PretrainedConfig) -> dict[str, Held]:
    """PROMPT tokens and one decoded token in three kinds of cache of this architecture.

    A sliding layer drops what left its window (its tensors keep the prompt's storage alive until the first step);
    a reserved cache has all of its RESERVED slots from the start.
    """
    full = cache_only(config)
    windowed = ["sliding_attention"] * config.num_hidden_layers
    sliding = cache_only(config, layer_types=windowed, sliding_window=WINDOW, use_sliding_window=True)
    return {
        "growing, whole context": _held_after_step(full, DynamicCache(config=full.config)),
        "growing, sliding window": _held_after_step(sliding, DynamicCache(config=sliding.config)),
        "reserved in advance": _held_after_step(full, StaticCache(config=full.config, max_cache_len=RESERVED)),
    }


def padded_batch(model: PreTrainedModel, lengths: Sequence[int]) -> Occupancy:
    """One real prefill of rows with these many tokens, padded on the left to the longest."""
    longest = max(lengths)
    mask = torch.tensor([[0] * (longest - n) + [1] * n for n in lengths])
    ids = random_tokens(longest, model.config.vocab_size, batch=len(lengths))
    cache = prefill(model, ids, attention_mask=mask).cache
    return occupancy(cache, lengths, cache_shape(model.config).bytes_per_token(model.dtype.itemsize))


def _held_after_step(model: PreTrainedModel, cache: DynamicCache | StaticCache) -> Held:
    forward(model, random_tokens(PROMPT, SLIM_VOCABULARY), cache=cache, use_cache=True)
    forward(model, random_tokens(1, SLIM_VOCABULARY), cache=cache, use_cache=True)  # no decode_step: layers may forget
    formula = (PROMPT + 1) * cache_shape(model.config).bytes_per_token(model.dtype.itemsize)
    return Held(storage_bytes(cache), formula)
