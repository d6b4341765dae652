"""How much of the cache memory set aside for requests holds nothing: reserved in advance, or block by block.

Memory is counted in positions (one key and value per layer and head); lib/cache_bytes turns them into bytes. In its
k-th step a request holds its prompt and the k - 1 tokens it was given and fed back; the last token is never fed back.
Terms as in Kwon et al. (SOSP 2023): what lies inside a reservation unused is internal waste, whether it will be used
later or never; what lies between reservations, too small for the next one, is external (lib/contiguous_arena).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lib.scheduling.requests import Request
from lib.scheduling.simulate import Run
from lib.scheduling.times import Seconds

Positions = NDArray[np.int64]
# What a scheme sets aside for a request that holds so many positions now.
Scheme = Callable[[Request, int], int]


class TooLong(ValueError):
    """A request that does not fit what would be set aside for it."""


@dataclass(frozen=True)
class Memory:
    """Positions in use and set aside, step by step (steps,), with each step's seconds and requests served."""

    seconds: Seconds
    used: Positions
    reserved: Positions
    served: Positions

    @property
    def wasted_share(self) -> float:
        """Share of what is set aside that holds nothing, averaged over time."""
        return 1 - float(self.used @ self.seconds) / float(self.reserved @ self.seconds)

    @property
    def wasted_share_at_peak(self) -> float:
        """The same in the step in which most positions are in use."""
        peak = int(self.used.argmax())
        return 1 - int(self.used[peak]) / int(self.reserved[peak])


def full_length(request: Request) -> int:
    """The most positions a request ever holds: its prompt and all its tokens but the last."""
    return request.prompt_tokens + max(request.output_tokens - 1, 0)


def the_maximum(context: int) -> Scheme:
    """Set `context` positions aside for whoever comes; TooLong for a request that needs more."""

    def reserve(request: Request, held: int) -> int:
        if full_length(request) > context:
            raise TooLong(f"{request} needs {full_length(request)} positions of a context of {context}")
        return context

    return reserve


def output_up_to(tokens: int) -> Scheme:
    """Set aside the prompt and the longest answer allowed: a server that knows a limit, not the length."""

    def reserve(request: Request, held: int) -> int:
        if request.output_tokens > tokens:
            raise TooLong(f"{request} asks for more than {tokens} tokens")
        return request.prompt_tokens + tokens

    return reserve


def exactly(request: Request, held: int) -> int:
    """Set aside what the request will need in the end: only an oracle knows."""
    return full_length(request)


def in_blocks(size: int) -> Scheme:
    """Set aside whole blocks as they are needed: paging. ValueError for a block without positions."""
    if size < 1:
        raise ValueError(f"a block of {size} positions")

    def reserve(request: Request, held: int) -> int:
        return -(-held // size) * size

    return reserve


def memory_over_time(run: Run, requests: Sequence[Request], scheme: Scheme, *, empty_slot_positions: int = 0) -> Memory:
    """Positions used and set aside in every step of a run of these requests.

    `empty_slot_positions` is what stays set aside for a slot that nobody holds: the maximum where slots are
    fixed pieces of memory, zero where a reservation begins and ends with its request.
    """
    used, reserved = (np.zeros(len(run.steps), dtype=np.int64) for _ in range(2))
    starts = np.array([step.start_s for step in run.steps])
    for i, request in enumerate(requests):
        first, end = np.searchsorted(starts, (run.times.admitted_s[i], run.times.released_s[i]))
        for place in range(first, end if run.slot[i] >= 0 else first):
            held = request.prompt_tokens + min(place - first, request.output_tokens - 1)
            used[place] += held
            reserved[place] += scheme(request, held)
    reserved += np.array([empty_slot_positions * (run.slots - step.held) for step in run.steps], dtype=np.int64)
    served = np.array([step.held for step in run.steps], dtype=np.int64)
    return Memory(np.array([step.seconds for step in run.steps]), used, reserved, served)
