"""Single passes of a model as things to be timed: a prefill, a decode step, a verification of several positions.

Each starts from the same state every time: a cache is filled once and rolled back after each pass. Its numbers are
zeros, which cost as much to read and multiply as any others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from lib.cache_bytes import cache_shape, filled_cache
from lib.decoding import decode_step, prefill, random_tokens, rollback
from lib.streaming import resumed, stream
from lib.weight_stats import projection_weights

Shown = Callable[[int], object]  # what a reader gets for a token id


def decode_action(model: PreTrainedModel, context: int, batch: int = 1, positions: int = 1) -> Callable[[], object]:
    """One pass of `positions` new tokens per row over caches of `context` tokens each; one row of logits per position.

    One position is a decode step, several are the verification of a draft: all their logits are needed.
    """
    cache, tokens = _filled(model, context, batch), _tokens(model, positions, batch)

    def step() -> None:
        decode_step(model, tokens, cache, logits_to_keep=positions)
        rollback(cache, context)

    return step


def prefill_action(model: PreTrainedModel, prompt: int, batch: int = 1) -> Callable[[], object]:
    """One pass over a prompt of so many random tokens into a fresh cache, with one row of logits."""
    ids = _tokens(model, prompt, batch)
    return lambda: prefill(model, ids)


def first_token_action(model: PreTrainedModel, prompt: int, shown: Shown) -> Callable[[], object]:
    """From a prompt of so many random tokens to the first item of the reply's stream."""
    ids = _tokens(model, prompt, 1)
    return lambda: next(stream(model, ids, shown))


def resumed_action(model: PreTrainedModel, cached: int, new: int, shown: Shown) -> Callable[[], object]:
    """The same for `new` tokens that follow `cached` ones whose keys and values were kept."""
    cache, ids = _filled(model, cached), _tokens(model, new, 1)

    def first() -> None:
        next(resumed(model, cache, ids, shown))
        rollback(cache, cached)

    return first


def streaming_action(model: PreTrainedModel, context: int, count: int, shown: Shown) -> Callable[[], object]:
    """`count` items of a reply's stream after so many cached tokens, the first of them after one decode step."""
    cache, ids = _filled(model, context), _tokens(model, 1, 1)

    def some() -> None:
        for _ in islice(resumed(model, cache, ids, shown), count):
            pass
        rollback(cache, context)

    return some


@dataclass(frozen=True)
class PassCost:
    """What a pass must at least read from memory (bytes) and compute (FLOP, a multiply-accumulate being two)."""

    read_bytes: float
    flops: float


def pass_cost(model: PreTrainedModel, context: int, batch: int = 1, positions: int = 1, logits: int = 1) -> PassCost:
    """Of `positions` new tokens per row on top of `context` cached ones, `logits` of them with logits.

    Every weight that takes part is read once, keys and values once; activations are left out. Products: each new token
    with every layer's projections, each logit row with the output embedding, each query with keys and values (causal).
    """
    shape = cache_shape(model.config)
    body, head = _layer_weights(model), _head_weights(model)
    resident = batch * (context + positions)
    read = (body + head) * model.dtype.itemsize + resident * shape.bytes_per_token(model.dtype.itemsize)
    attended = batch * positions * (context + (positions + 1) / 2)
    heads = model.config.get_text_config().num_attention_heads
    attention = 4 * attended * heads * shape.head_dim * shape.layers
    return PassCost(read, 2 * batch * (positions * body + logits * head) + attention)


def _filled(model: PreTrainedModel, context: int, batch: int = 1) -> Cache:
    with model.device:  # where the zeros are made
        return filled_cache(cache_shape(model.config), batch, context, model.dtype)


def _tokens(model: PreTrainedModel, count: int, batch: int) -> Tensor:
    ids = random_tokens(count, model.config.get_text_config().vocab_size, batch=batch)
    return ids.to(model.device)


def _layer_weights(model: PreTrainedModel) -> int:
    """How many weights all projections have, the two embeddings left out."""
    return sum(weights.numel() for weights in projection_weights(model).values())


def _head_weights(model: PreTrainedModel) -> int:
    return int(model.get_output_embeddings().weight.numel())
