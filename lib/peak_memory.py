"""The fullest moments of generating text, with and without a cache, and what is alive at them.

A generation is followed at the passes that can be the fullest: the prefill, and the last step, since nothing in a pass
gets smaller when the sequence gets longer (held against whole generations in the tests). Weights are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from transformers import PreTrainedModel

from lib.attention import attend
from lib.cache_bytes import cache_shape, filled_cache
from lib.decoding import ALL_POSITIONS, decode_step, forward, greedy_cached, greedy_uncached, prefill, random_tokens
from lib.live_bytes import Allocation, Peak, allocator_peak_bytes, peak_of
from lib.memory_kinds import CACHE, decoder_kinds

PREFILL_AS_PRINTED, PREFILL_ONE_ROW = "prefill with the logits of every position", "prefill with one row of logits"
REFERENCE_PROMPT = 64  # any length gives the same bytes per token (held in the tests)


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

    def prompt_for(self, ratio: float, prompt: int, reply: int) -> float:
        """The prompt length at which this program would show that ratio, were it the prefill that fills the memory.

        Both peaks are proportional to their positions then: (P + reply - 1)·a / (P·b) = ratio, solved for P.
        """
        per_position = self.uncached.live_bytes / (prompt + reply - 1)
        return (reply - 1) / (ratio * self.prefill.live_bytes / prompt / per_position - 1)


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
        with model.device:  # where the zeros are made
            cache = filled_cache(shape, batch, context - 1, model.dtype)
        return cache, decode_step(model, token, cache)

    return peak_of(step)[1]


def phase_peaks(model: PreTrainedModel, prompt: int, decode: Sequence[tuple[int, int]]) -> dict[str, Peak]:
    """The prefill with all logits and with one row of them, then decode steps at (rows, context)."""
    prefills = {
        f"{PREFILL_AS_PRINTED}, 1 x {prompt}": prefill_peak(model, prompt, logits_to_keep=ALL_POSITIONS),
        f"{PREFILL_ONE_ROW}, 1 x {prompt}": prefill_peak(model, prompt),
    }
    return prefills | {f"decode, {rows} x {context}": decode_peak(model, context, rows) for rows, context in decode}


def crossovers(model: PreTrainedModel) -> dict[str, float]:
    """Where the cache outweighs other things. All in tokens, but the last: total length over prompt length.

    Against the weights: resident tokens of all requests together. Against a row of logits: context per request, in
    decode. Against the peak of a prefill (one row of logits), which grows with the prompt just like the cache.
    """
    per_token = cache_shape(model.config).bytes_per_token(model.dtype.itemsize)
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    row_of_logits = model.config.get_text_config().vocab_size * model.dtype.itemsize
    prefill_bytes = prefill_peak(model, REFERENCE_PROMPT).live_bytes / REFERENCE_PROMPT
    return {
        "tokens_until_cache_outweighs_weights": weights / per_token,
        "context_until_cache_outweighs_logits": row_of_logits / per_token,
        "growth_until_cache_outweighs_prefill": prefill_bytes / per_token,
    }


def allocator_ratio(model: PreTrainedModel, prompt: int, reply: int, logits_to_keep: int) -> float:
    """Uncached over cached, whole generations, by the peaks of the model's CUDA allocator over what was resident.

    Raises ValueError on a device without one.
    """
    ids = random_tokens(prompt, model.config.get_text_config().vocab_size)
    peaks = [
        allocator_peak_bytes(partial(generate, model, ids, reply, logits_to_keep=logits_to_keep), model.device)
        for generate in (greedy_uncached, greedy_cached)
    ]
    if None in peaks:
        raise ValueError(f"no allocator to read on {model.device}")
    uncached, cached = (int(peak or 0) for peak in peaks)
    return uncached / cached


def described(model: PreTrainedModel, peak: Peak) -> dict[str, float]:
    """The peak's bytes, and its shares by kind."""
    return {"bytes": peak.live_bytes, **shares(model, peak)}


def shares(model: PreTrainedModel, peak: Peak) -> dict[str, float]:
    """The peak by kind of tensor, as fractions of it, largest first."""
    kinds = peak.by_kind(decoder_kinds(cache_shape(model.config).head_dim))
    return {kind: size / peak.live_bytes for kind, size in kinds.items()}


def cache_share(model: PreTrainedModel, peak: Peak) -> float:
    """The cache's part of the peak."""
    return shares(model, peak).get(CACHE, 0.0)


def largest_tensor(peak: Peak) -> Allocation:
    """The largest tensor alive at the peak."""
    return max(peak.alive, key=lambda allocation: allocation.storage_bytes)


def head_step_peak(rows: int, positions: int, head_dim: int) -> Peak:
    """One attention head, fp32: the last ``rows`` queries against all positions. Queries, keys, values not counted."""
    q, k, v = (torch.zeros(n, head_dim) for n in (rows, positions, positions))
    return peak_of(lambda: attend(q, k, v))[1]
