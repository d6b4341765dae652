"""Cache memory as one stretch in which every reservation must lie in one piece: where fragmentation comes from.

Reservations of different sizes that come and go leave holes between them, and a new one may fit into none although they
would do together: external fragmentation. Reservations of one size cannot do this: a hole is a whole number of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lib.reservation import TooLong
from lib.scheduling.requests import Request

Fit = Literal["first", "best"]


class NoHole(MemoryError):
    """No hole is long enough; `free` says how many positions all holes have together."""

    def __init__(self, size: int, free: int) -> None:
        super().__init__(f"no hole of {size} positions, although {free} are free in all")
        self.free = free


class Arena:
    """A stretch of `capacity` positions; reservations by name, placed in the first or the tightest hole that fits."""

    def __init__(self, capacity: int, fit: Fit = "first") -> None:
        if capacity < 1:
            raise ValueError(f"a capacity of {capacity} positions")
        self.capacity, self.fit = capacity, fit
        self._placed: dict[Hashable, tuple[int, int]] = {}  # name: (offset, end)

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Free stretches (offset, length) in order, none touching another."""
        edges = [(0, 0), *sorted(self._placed.values()), (self.capacity, self.capacity)]
        return [(end, start - end) for (_, end), (start, _) in pairwise(edges) if start > end]

    @property
    def free(self) -> int:
        """Free positions in all."""
        return sum(length for _, length in self.holes)

    @property
    def largest_hole(self) -> int:
        """The longest reservation that would fit now."""
        return max((length for _, length in self.holes), default=0)

    def place(self, name: Hashable, size: int) -> int:
        """Reserve `size` positions in one piece and return their offset; NoHole or, for a name in use, ValueError."""
        if name in self._placed or size < 1:
            raise ValueError(f"{name!r} is placed already, or {size} positions are none")
        fitting = [hole for hole in self.holes if hole[1] >= size]
        if not fitting:
            raise NoHole(size, self.free)
        offset, _ = fitting[0] if self.fit == "first" else min(fitting, key=lambda hole: hole[1])
        self._placed[name] = (offset, offset + size)
        return offset

    def remove(self, name: Hashable) -> None:
        """Give a reservation back; KeyError for an unknown name."""
        del self._placed[name]


@dataclass(frozen=True)
class Moment:
    """The arena in one step: requests served and waiting, positions free, the longest hole, was the next kept out.

    `kept_out` is external fragmentation doing harm: a request waits, a slot is free, and the free positions would do.
    """

    served: int
    waiting: int
    free: int
    largest_hole: int
    kept_out: bool


def serve(requests: Sequence[Request], arena: Arena, size: Callable[[Request], int], slots: int) -> list[Moment]:
    """Serve a queue by continuous batching, each request reserving `size` positions in one piece as long as it stays.

    All requests wait from the start; first come, first served, one token per request and step. Raises TooLong, before
    anything is served, for a request that the empty arena could not hold.
    """
    for request in requests:
        if size(request) > arena.capacity:
            raise TooLong(f"{request} reserves {size(request)} positions of {arena.capacity}")
    queue = deque(i for i, request in enumerate(requests) if request.output_tokens)
    left: dict[int, int] = {}
    moments = []
    while queue or left:
        kept_out = _admit(requests, queue, left, arena, size, slots)
        moments.append(Moment(len(left), len(queue), arena.free, arena.largest_hole, kept_out))
        for i in list(left):
            left[i] -= 1
            if not left[i]:
                del left[i]
                arena.remove(i)
    return moments


def _admit(  # noqa: PLR0913, PLR0917 (the state of one loop, handed over by name)
    requests: Sequence[Request],
    queue: deque[int],
    left: dict[int, int],
    arena: Arena,
    size: Callable[[Request], int],
    slots: int,
) -> bool:
    """Admit from the head as far as slots and holes allow; whether it ended for want of one piece, not of memory."""
    while queue and len(left) < slots:
        wanted = size(requests[queue[0]])
        try:
            arena.place(queue[0], wanted)
        except NoHole as error:
            return error.free >= wanted
        admitted = queue.popleft()
        left[admitted] = requests[admitted].output_tokens
    return False
