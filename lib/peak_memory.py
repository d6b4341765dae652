"""The fullest moments of generating text, with and without a cache, and what is alive at them.

A generation is followed at the passes that can be the fullest: the prefill, and the last step, since nothing in a pass
gets smaller when the sequence gets longer (held against whole generations in the tests). Weights are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from lib.attention import attend
from lib.cache_bytes import cache_shape, filled_cache
from lib.decoding import decode_step, forward, prefill, random_tokens
from lib.live_bytes import Peak, peak_of
from lib.memory_kinds import CACHE, decoder_kinds


@dataclass(frozen=True)
class GenerationPeaks:
    """uncached: its last pass, over the whole sequence. prefill, last_step: the two of the cached program."""

    uncached: Peak
    prefill: Peak
    last_step: Peak

    @property
    def cached(self) -> Peak:
        """The fuller of the cached program's two."""
        return max(self.prefill, self.last_step, key=lambda peak: peak.live_bytes)

    @property
    def ratio(self) -> float:
        """How many times the cached program's peak the uncached one needs."""
        return self.uncached.live_bytes / self.cached.live_bytes


def generation_peaks(model: PreTrainedModel, prompt: int, reply: int, logits_to_keep: int) -> GenerationPeaks:
    """Generate ``reply`` tokens after ``prompt`` random ones, batch 1. logits_to_keep: 1, or 0 for every position.

    The last token chosen is fed to no pass, so the longest pass sees prompt + reply - 1 positions.
    """
    positions = prompt + reply - 1
    ids = random_tokens(positions, model.config.get_text_config().vocab_size)
    return GenerationPeaks(
        uncached=peak_of(lambda: forward(model, ids, logits_to_keep=logits_to_keep).logits)[1],
        prefill=prefill_peak(model, prompt, logits_to_keep=logits_to_keep),
        last_step=decode_peak(model, positions),
    )


def prefill_peak(model: PreTrainedModel, tokens: int, batch: int = 1, logits_to_keep: int = 1) -> Peak:
    """One prefill of ``batch`` rows of random tokens; the cache it builds is counted."""
    ids = random_tokens(tokens, model.config.get_text_config().vocab_size, batch=batch)
    return peak_of(lambda: prefill(model, ids, logits_to_keep))[1]


def decode_peak(model: PreTrainedModel, context: int, batch: int = 1) -> Peak:
    """One decode step that ends with ``context`` positions per row in the cache; the whole cache is counted."""
    shape = cache_shape(model.config)
    token = random_tokens(1, model.config.get_text_config().vocab_size, batch=batch)

    def step() -> object:
        cache = filled_cache(shape, batch, context - 1, model.dtype)
        return cache, decode_step(model, token, cache)

    return peak_of(step)[1]


def shares(model: PreTrainedModel, peak: Peak) -> dict[str, float]:
    """The peak by kind of tensor, as fractions of it, largest first."""
    kinds = peak.by_kind(decoder_kinds(cache_shape(model.config).head_dim))
    return {kind: size / peak.live_bytes for kind, size in kinds.items()}


def cache_share(model: PreTrainedModel, peak: Peak) -> float:
    """The cache's part of the peak."""
    return shares(model, peak).get(CACHE, 0.0)


def head_step_peak(rows: int, positions: int, head_dim: int) -> Peak:
    """One attention head, fp32: the last ``rows`` queries against all positions. Queries, keys, values not counted."""
    q, k, v = (torch.zeros(n, head_dim) for n in (rows, positions, positions))
    return peak_of(lambda: attend(q, k, v))[1]
