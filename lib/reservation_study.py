"""Waste and fragmentation of the cache's memory over drawn workloads: ranges, not one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lib.contiguous_arena import Arena, serve
from lib.intervals import Estimate
from lib.reservation import Memory, Scheme, full_length, in_blocks, memory_over_time, the_maximum
from lib.scheduling.cost import constant
from lib.scheduling.family import SHAPES, draw
from lib.scheduling.policies import CONTINUOUS
from lib.scheduling.requests import Request
from lib.scheduling.simulate import simulate

SLOTS = 8  # as in the published simulation
MEMORY_DRAWS = 5  # workloads per shape and prompt range whose memory is followed step by step

Ranges = Sequence[tuple[int, int]]  # of prompt lengths, from … to, in tokens


def drawn_requests(prompts: tuple[int, int]) -> Iterator[list[Request]]:
    """Some workloads of every shape, all there at once, with prompts of so many tokens."""
    random = np.random.default_rng(5)
    for shape in SHAPES:
        for lengths in draw(shape, MEMORY_DRAWS, seed=1).tolist():
            drawn = random.integers(prompts[0], prompts[1] + 1, len(lengths)).tolist()
            yield [Request(0.0, prompt, output) for prompt, output in zip(drawn, lengths, strict=True)]


def wasted(prompts: Ranges, longest: int, scheme: Scheme | None = None, empty_slot: int = 0) -> Estimate:
    """Share of what is set aside that holds nothing, time-averaged; None: equal slots as small as they can be."""
    shares = []
    for span in prompts:
        tightest = span[1] + longest
        chosen, empty = (the_maximum(tightest), tightest) if scheme is None else (scheme, empty_slot)
        shares += [memory(requests, chosen, empty).wasted_share for requests in drawn_requests(span)]
    return spread(shares)


def waste_in_blocks(prompts: Ranges, size: int) -> Estimate:
    """Positions set aside for nothing, over one block for every sequence that is served; at the worst moment."""
    worst = []
    for span in prompts:
        for requests in drawn_requests(span):
            found = memory(requests, in_blocks(size), 0)
            worst.append(float(((found.reserved - found.used) / found.served / size).max()))
    return spread(worst)


def memory(requests: list[Request], scheme: Scheme, empty_slot: int) -> Memory:
    """Of a run of continuous batching with steps of equal cost."""
    run = simulate(requests, CONTINUOUS, constant(SLOTS), SLOTS)
    return memory_over_time(run, requests, scheme, empty_slot_positions=empty_slot)


def kept_out(prompts: Ranges, longest: int, slots: int) -> dict[str, Estimate]:
    """A request waits, a slot is free, and the free positions would do if they lay in one piece: share of the steps."""
    shares: dict[str, list[float]] = {"pieces of the size that each request needs": [], "pieces of one size": []}
    for span in prompts:
        most, typical = span[1] + longest, sum(span) // 2 + longest // slots
        for requests in drawn_requests(span):
            for name, size in zip(shares, (full_length, _always(most)), strict=True):
                moments = serve(requests, Arena(max(slots * typical, most)), size, slots)
                shares[name].append(sum(m.kept_out for m in moments) / len(moments))
    return {name: spread(found) for name, found in shares.items()}


def spread(values: Sequence[float]) -> Estimate:
    """Mean, with the least and the most of all workloads."""
    return Estimate(sum(values) / len(values), min(values), max(values))


def _always(size: int) -> Callable[[Request], int]:
    return lambda _: size
