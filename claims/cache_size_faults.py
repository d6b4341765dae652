"""Faults to plant in the claims on the cache's size. Transformers is imported where it is needed, as in the claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from lib.units import in_unit
from reports.plants import Real, result


def without_last(real: Real) -> Real:
    """The last tensor is overlooked: the values of the last layer."""
    return lambda cache: list(real(cache))[:-1]


def a_position_less_per_row(real: Real) -> Real:
    """Each row of a batch after the first lacks one position."""

    def wrong(cache: Any) -> int:
        keys = cache.layers[0].keys
        per_row = 2 * len(cache.layers) * keys.shape[1] * keys.shape[3] * keys.element_size()
        held: int = real(cache)
        return held - (keys.shape[0] - 1) * per_row

    return wrong


def heads_and_positions_exchanged(real: Real) -> Real:
    """(B, n, H, d) is read where the cache is (B, H, n, d)."""
    return result(lambda shapes: frozenset((b, n, h, d) for b, h, n, d in shapes))(real)


def not_cast(real: Real) -> Real:
    """The copy keeps the model's own format."""
    return lambda model, _dtype: real(model, model.dtype)


def in_a_growing_cache(real: Real) -> Real:
    """Whatever cache was asked for, the pass gets one that grows and looks at everything."""
    from transformers import DynamicCache

    return lambda model, _cache: real(model, DynamicCache())


def padding_as_tokens(real: Real) -> Real:
    """All rows count as long as the longest."""

    def wrong(cache: object, lengths: Sequence[int], per_token: int) -> Any:
        return real(cache, [max(lengths)] * len(lengths), per_token)

    return wrong


def one_slot_more(real: Real) -> Real:
    """Each row keeps a free slot."""
    return lambda shape, batch, tokens, dtype: real(shape, batch, tokens + 1, dtype)


def shared_anyway(real: Real) -> Real:
    """The number of key-value heads that is asked for is ignored."""
    return lambda config, _kv_heads: real(config, config.num_key_value_heads)


def decimal(_real: Real) -> Real:
    """Every unit is a power of 1000."""
    return lambda count, unit, _convention="": in_unit(count, unit.replace("i", ""), "decimal")


def three_heads_run(real: Real) -> Real:
    """A number of heads that does not divide the query heads is taken for possible."""
    return result(lambda runs: {**runs, 3: 3 * runs[1]})(real)


def single_head_twice(real: Real) -> Real:
    """The smallest cache is counted as two."""
    return result(lambda runs: {**runs, 1: 2 * runs[1]})(real)


def no_projections(real: Real) -> Real:
    """The maps that make keys and values are left out of the count."""
    return result(lambda macs: replace(macs, key_and_value=0))(real)


def once_per_shared_head(real: Real) -> Real:
    """Scores and weighted sums are counted per key-value head, not per query head."""

    def wrong(config: Any, kv_heads: int, context: int) -> Any:
        macs = real(config, kv_heads, context)
        shared = Fraction(kv_heads, config.num_attention_heads)
        return replace(macs, scores_and_mix=macs.scores_and_mix * shared)

    return wrong
