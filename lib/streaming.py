"""A reply as its reader gets it: token after token, each handed over as soon as it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from lib.decoding import decode_step, greedy_choice, prefill

T = TypeVar("T")


def stream(model: PreTrainedModel, ids: Tensor, shown: Callable[[int], T]) -> Iterator[T]:
    """Greedy reply to one prompt ids (1, P), endless: yields what `shown` makes of each id, usually its text.

    The first item comes after the prefill, every further one after a decode step.
    """
    start = prefill(model, ids)
    yield from _continued(model, start.logits, start.cache, shown)


def resumed(model: PreTrainedModel, cache: Cache, ids: Tensor, shown: Callable[[int], T]) -> Iterator[T]:
    """The same after the ids (1, n) are added to a cache that holds everything before them; the cache grows."""
    yield from _continued(model, decode_step(model, ids, cache), cache, shown)


def _continued(model: PreTrainedModel, logits: Tensor, cache: Cache, shown: Callable[[int], T]) -> Iterator[T]:
    while True:
        token = greedy_choice(logits)
        yield shown(int(token))
        logits = decode_step(model, token, cache)
