"""How much context a card really has room for, beside what the sum of weights and cache predicts.

One request's keys and values are really allocated, all layers, and one token is really decoded at their end; the
longest context with which that works is found by bisection. A large card plays a small one: torch's allocator is held
to the small card's bytes, which `mem_get_info` does not know of, so the room is counted from that limit, and from the
driver's free bytes where those are fewer. What the driver and other processes hold lies outside of the limit.
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from lib.budget import Exact, resident_tokens
from lib.cache_bytes import cache_shape, filled_cache
from lib.decoding import decode_step, random_tokens
from lib.live_bytes import allocator_peak_bytes
from lib.slim_models import cast_copy

WHOLE = 1.0  # the fraction of a card's memory that torch's allocator may have when nobody limits it


class Request(Protocol):
    """One request on a card. `hold` and `step` raise torch.OutOfMemoryError where there is no room."""

    def hold(self, tokens: int) -> None:
        """Allocate the keys and values of so many tokens."""

    def step(self) -> None:
        """Decode one token at their end."""

    def release(self) -> None:
        """Give everything back, also after a failure."""


@dataclass(frozen=True)
class ReachedContext:
    """What one request got on a card.

    room_bytes: for weights and everything else. weights_bytes: as the allocator counts them. tokens: the longest
    context from which a token could still be decoded. step_bytes: peak of that step over what was resident.
    outside_bytes: the card's memory that neither torch nor anybody else could have had (driver, other processes).
    """

    room_bytes: int
    weights_bytes: int
    bytes_per_token: int
    tokens: int
    step_bytes: int
    outside_bytes: int

    def predicted(self, reserve: Exact = 0) -> int:
        """Tokens by the sum, with so many bytes set aside."""
        return resident_tokens(self.room_bytes, self.weights_bytes, self.bytes_per_token, reserve)


class CachedRequest:
    """A request on a real model and device. cuda: the module torch.cuda, or something with its functions used here."""

    def __init__(self, model: PreTrainedModel, cuda: Any = torch.cuda) -> None:
        self._model, self._cuda = model, cuda
        self._token = random_tokens(1, model.config.get_text_config().vocab_size).to(model.device)
        self._cache: Cache | None = None

    def hold(self, tokens: int) -> None:
        """Zeros, as large as any others; filling them needs no more than a step (held in the tests)."""
        with self._model.device:
            self._cache = filled_cache(cache_shape(self._model.config), 1, tokens, self._model.dtype)

    def step(self) -> None:
        """One token through all layers, as in any generation: each layer's keys are copied to one place longer."""
        if self._cache is None:
            raise RuntimeError("a step needs a cache to stand on")
        decode_step(self._model, self._token, self._cache)
        self._cuda.synchronize(self._model.device)

    def release(self) -> None:
        """Drop the cache, and what the allocator kept of it."""
        self._cache = None
        self._cuda.empty_cache()


def reached_context(
    model: PreTrainedModel, dtype: torch.dtype, card_bytes: int, cuda: Any = torch.cuda
) -> ReachedContext:
    """Put a copy of the model in this format on a card of so many bytes, and see how long one request can get.

    What is on the device already (the model itself, other claims' tables) is not charged to the card, which is no
    larger than the device's free memory. Raises torch.OutOfMemoryError when not even the weights fit.
    """
    device = model.device
    cuda.empty_cache()
    free, total = cuda.mem_get_info(device)
    reserved, before = int(cuda.memory_reserved(device)), int(cuda.memory_allocated(device))
    room = min(card_bytes, free)
    with limited_to(reserved + room, device, cuda):
        twin = cast_copy(model, dtype)
        weights = int(cuda.memory_allocated(device)) - before
        per_token = cache_shape(twin.config).bytes_per_token(dtype.itemsize)
        request = CachedRequest(twin, cuda)
        fits(request, 1)  # workspaces and kernels are there before anything is measured, as in a server
        tokens = longest(request, resident_tokens(room, weights, per_token))
        step = step_bytes(request, tokens, device, cuda)
    return ReachedContext(room, weights, per_token, tokens, step, total - free - reserved)


def longest(request: Request, guess: int) -> int:
    """The largest number of tokens that fits, to the token, where fewer always fit too; 0 when none does.

    guess: where to look first; a wrong one costs probes, nothing else.
    """
    low, high = 0, max(1, guess)
    while fits(request, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(request, middle) else (low, middle)
    return low


def fits(request: Request, tokens: int) -> bool:
    """Whether so many tokens can be held and one more be decoded; everything is given back either way."""
    try:
        request.hold(tokens)
        request.step()
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # they hold the tensors of a pass that ended halfway
        gc.collect()
        return False
    finally:
        request.release()
    return True


def step_bytes(request: Request, tokens: int, device: torch.device, cuda: Any = torch.cuda) -> int:
    """What one step at the end of so many tokens needs over what was resident, at its peak."""
    try:
        request.hold(tokens)
        return allocator_peak_bytes(request.step, device, cuda) or 0
    finally:
        request.release()


@contextmanager
def limited_to(limit_bytes: int, device: torch.device, cuda: Any = torch.cuda) -> Iterator[None]:
    """Let torch's allocator have no more than so many bytes of the device, until the end, however it comes."""
    total = cuda.mem_get_info(device)[1]
    cuda.set_per_process_memory_fraction(min(WHOLE, limit_bytes / total), device)
    try:
        yield
    finally:
        cuda.set_per_process_memory_fraction(WHOLE, device)
