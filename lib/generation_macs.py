"""Multiply-accumulates of generating T tokens with a whole decoder, products with weights and attention kept apart.

The head of ``lib.attention`` grows with the square and the cube of T. A model also multiplies every token with all of
its weights, which grows with T (cached) and T² (uncached), so which power one *sees* depends on T. Closed forms,
held against counted runs in the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from transformers import PretrainedConfig

from lib.layer_macs import closed_form_macs


@dataclass(frozen=True)
class GenerationMacs:
    """linear: products with weights, the output head included. attention: scores and weighted sums of values."""

    linear: int
    attention: int

    @property
    def total(self) -> int:
        """All multiply-accumulates."""
        return self.linear + self.attention

    @property
    def attention_share(self) -> float:
        """The part of the total that grows with the higher power of T."""
        return self.attention / self.total


def macs_of_generation(config: PretrainedConfig, tokens: int, cached: bool) -> GenerationMacs:
    """T = tokens greedy steps; step n sees n positions, its own included, and computes one row of logits.

    Cached, step n feeds one position; uncached, all n, with full n × n squares of scores.
    """
    text = config.get_text_config()
    one = closed_form_macs(config, text.num_key_value_heads, new_tokens=1, context=1)
    through_layers = text.num_hidden_layers * (one.layer - one.scores_and_mix)
    positions = tokens if cached else tokens * (tokens + 1) // 2  # fed, over all steps
    pairs = tokens * (tokens + 1) // 2 if cached else tokens * (tokens + 1) * (2 * tokens + 1) // 6
    return GenerationMacs(
        linear=positions * through_layers + tokens * text.hidden_size * text.vocab_size,
        attention=pairs * text.num_hidden_layers * one.scores_and_mix,
    )


def growth_exponent(config: PretrainedConfig, tokens: int, cached: bool) -> float:
    """The power of T that the total really grows with around T: log2 of what doubling T multiplies it by."""
    twice = macs_of_generation(config, 2 * tokens, cached).total
    return math.log2(twice / macs_of_generation(config, tokens, cached).total)


def tokens_until_attention_dominates(config: PretrainedConfig, cached: bool) -> int:
    """The smallest T at which attention is more than half of all multiply-accumulates; by bisection, it is monotone."""
    low, high = 0, 1
    while macs_of_generation(config, high, cached).attention_share <= 1 / 2:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        dominated = macs_of_generation(config, middle, cached).attention_share > 1 / 2
        low, high = (low, middle) if dominated else (middle, high)
    return high
