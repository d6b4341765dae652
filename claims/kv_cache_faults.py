"""Faults to plant in the claims on the key-value cache. Torch is imported where a tensor is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from lib.intervals import Estimate
from reports.plants import Real, result

if TYPE_CHECKING:
    from torch import Tensor

    from lib.live_bytes import Peak

PENALTY = 1.1
PARAMETERS, LAYERS = 494_032_768, 24  # of the chapter's model


def looks_ahead(real: Real) -> Real:
    """The causal mask is off by one: a pass over a whole text shows each position the next one."""
    import torch

    @wraps(real)
    def wrong(model: Any, ids: Tensor, *, cache: Any = None, attention_mask: Any = None, **choices: Any) -> Any:
        if cache is None and attention_mask is None:
            rows, n = ids.shape
            attention_mask = torch.ones(n, n, dtype=torch.bool).tril(1).expand(rows, 1, n, n)
        return real(model, ids, cache=cache, attention_mask=attention_mask, **choices)

    return wrong


def a_position_late(real: Real) -> Real:
    """The new token is rotated as if it stood one place further on."""
    import torch

    from lib.decoding import cached_tokens

    @wraps(real)
    def wrong(model: Any, tokens: Tensor, cache: Any, *rest: Any) -> Any:
        first = cached_tokens(cache) + 1
        positions = torch.arange(first, first + tokens.shape[1]).expand(tokens.shape)
        return real(model, tokens, cache, *rest, position_ids=positions)

    return wrong


def with_itself(real: Real) -> Real:
    """Both sides of a comparison are the same cache."""
    return lambda _cache, reference, positions: real(reference, reference, positions)


def rereading_loop(_real: Real) -> Real:
    """A loop with a cache that it never uses: every pass is fed the whole text so far."""
    import torch

    def wrong(model: Any, ids: Tensor, n: int) -> tuple[Tensor, list[int]]:
        text, fed = ids, []
        for _ in range(n):
            fed.append(text.shape[1])
            text = torch.cat([text, model(text, use_cache=True).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
        return text[:, ids.shape[1] :], fed

    return wrong


def forgetful_loop(_real: Real) -> Real:
    """A loop that feeds one token per step and leaves the cache behind."""
    import torch

    def wrong(model: Any, ids: Tensor, n: int) -> tuple[Tensor, list[int]]:
        fed, tokens = [], [ids]
        for _ in range(n):
            fed.append(tokens[-1].shape[1])
            tokens.append(model(tokens[-1], use_cache=True).logits[:, -1].argmax(-1, keepdim=True))
        return torch.cat(tokens[1:], dim=1), fed

    return wrong


def penalized(real: Real) -> Real:
    """The penalty is always on."""
    return lambda model, ids, n, _penalty: real(model, ids, n, PENALTY)


def recomputing(real: Real) -> Real:
    """Every cached step takes as long as a pass over the whole text."""
    return result(lambda passes: replace(passes, cached=passes.uncached))(real)


def inverse(real: Real) -> Real:
    """A ratio turned round, where it is known at all."""

    def turned(ratio: Any) -> Any:
        return ratio if isinstance(ratio, Estimate) and ratio.low <= 0 else 1 / ratio

    return result(turned)(real)


def a_position_more(real: Real) -> Real:
    """The context has one position more than it was asked to have."""
    return lambda rows, positions, head_dim: real(rows, positions + 1, head_dim)


def two_rows(real: Real) -> Real:
    """A single query comes with its predecessor."""
    return lambda rows, positions, head_dim: real(max(rows, 2), positions, head_dim)


def half_as_large(real: Real) -> Real:
    """Two bytes per number where four are stored."""
    return result(lambda tensor: replace(tensor, storage_bytes=tensor.storage_bytes // 2))(real)


def binary(real: Real) -> Real:
    """KB and MB are powers of 1024 whatever is asked for."""
    return lambda count, unit, _convention="": real(count, unit, "binary")


def one_step_a_sample(real: Real) -> Real:
    """Every sample counts as one step, however many it holds."""

    def wrong(ranges: Sequence[tuple[int, int]], ratio: Any, repeats: Mapping[int, int]) -> dict[str, Estimate]:
        slopes: dict[str, Estimate] = real(ranges, ratio, dict.fromkeys(repeats, 1))
        return slopes

    return wrong


def last_row_only(_real: Real) -> Real:
    """Without a cache, too, only the last query is computed."""
    from lib.attention import counted_row

    return lambda queries, keys, values, counter: [counted_row(queries[-1], keys, values, counter)]


def attention_alone(real: Real) -> Real:
    """Products with weights are not counted."""
    return result(lambda macs: replace(macs, linear=0))(real)


def scores_alone(real: Real) -> Real:
    """Of attention's two products, which are equally large, one is counted."""
    return result(lambda macs: replace(macs, attention=macs.attention // 2))(real)


def every_logit(real: Real) -> Real:
    """Whatever is asked for, all rows of logits are computed."""
    from lib.decoding import ALL_POSITIONS

    return lambda model, prompt, reply, _kept: real(model, prompt, reply, ALL_POSITIONS)


def with_weights(width: int) -> Any:
    """The model's weights, of so many bytes each, are counted in every peak."""

    def heavier(peak: Peak) -> Peak:
        return replace(peak, live_bytes=peak.live_bytes + width * PARAMETERS)

    def change(found: Any) -> Any:
        if isinstance(found, Mapping):
            return {name: heavier(peak) for name, peak in found.items()}
        return replace(
            found,
            uncached=heavier(found.uncached),
            prefill=heavier(found.prefill),
            last_step=heavier(found.last_step),
        )

    return result(change)


def without_gradients(real: Real) -> Real:
    """Gradients are off whatever is asked for, by name or as the last argument."""

    def wrong(*given: Any, gradients: bool | None = None) -> Any:
        others = given[:-1] if gradients is None else given
        return real(*others, gradients=False)

    return wrong


def plain_twice(real: Real) -> Real:
    """The model that should recompute is the plain one."""
    return result(lambda schemes: (schemes[0], schemes[0]))(real)


def of_one_layer(real: Real) -> Real:
    """What a pass keeps is counted in one layer of all."""
    return result(lambda found: replace(found, kept_bytes={n: kept // LAYERS for n, kept in found.kept_bytes.items()}))(
        real
    )
