"""How the time of one attention head's step grows with the context: slopes between two lengths, on a log-log plot.

A slope is the logarithm of the ratio of two times over that of the lengths. It is read off ratios within a round, so
its interval is the ratio's, and it says *where* a law holds, which one slope fitted through all lengths would hide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from lib.attention import attend, macs_cached_step, macs_uncached_step
from lib.intervals import Estimate
from lib.timing.clock import MS_PER_S
from lib.timing.rounds import Rounds

Action = Callable[[], object]
Range = tuple[int, int]
# A short range, where the fixed cost of a call is most of the time, and a long one; 4,096² scores take 67 MB in fp32.
RECOMPUTED: tuple[Range, ...] = ((16, 64), (256, 4096))
CACHED: tuple[Range, ...] = ((16, 256), (8192, 262_144))
SAMPLE_MACS, MOST_CALLS = 2**25, 64  # a sample of few products is repeated: a clock's tick and a call cost microseconds


def step_macs(n: int, d: int, cached: bool) -> int:
    """Multiply-accumulates of one step at context n."""
    return macs_cached_step(n, d) if cached else macs_uncached_step(n, d)


def calls(n: int, d: int, cached: bool) -> int:
    """How often the step is done in one sample; from n alone, never from a time."""
    return max(1, min(MOST_CALLS, SAMPLE_MACS // step_macs(n, d, cached)))


def head_actions(sizes: Sequence[int], d: int, cached: bool, device: torch.device) -> dict[str, Action]:
    """The step at each context n, `calls` times: one query against n keys if cached, otherwise all n of them again.

    fp32, seeded normal queries, keys and values of d dimensions. Scores are written out.
    """
    generator = torch.Generator().manual_seed(0)
    longest = (torch.randn(max(sizes), d, generator=generator).to(device) for _ in range(3))
    queries, keys, values = longest

    def action(n: int) -> Action:
        rows = queries[n - 1 : n] if cached else queries[:n]

        def run() -> None:
            for _ in range(calls(n, d, cached)):
                attend(rows, keys[:n], values[:n])

        return run

    return {str(n): action(n) for n in sizes}


def sizes_of(ranges: Sequence[Range]) -> list[int]:
    """All contexts that occur in the ranges, ascending."""
    return sorted({n for pair in ranges for n in pair})


def slopes_over(
    ranges: Sequence[Range], ratio: Callable[[int, int], Estimate], repeats: Mapping[int, int]
) -> dict[str, Estimate]:
    """Slope over each range n to m, by "n to m"; ratio(m, n): of the samples' times; repeats: steps per sample.

    An interval that reaches zero or infinity gives one without ends: nothing is known.
    """
    return {f"{n:,} to {m:,}": slope(ratio(m, n) * (repeats[n] / repeats[m]), m / n) for n, m in ranges}


def slope(ratio: Estimate, over: float = 2.0) -> Estimate:
    """The power of n that multiplies the time by this ratio where n is multiplied by `over`."""
    if ratio.low <= 0 or math.isinf(ratio.high):
        return Estimate(math.log(ratio.value, over), -math.inf, math.inf)
    return Estimate(*(math.log(end, over) for end in (ratio.value, ratio.low, ratio.high)))


def measured_slopes(rounds: Rounds, ranges: Sequence[Range], d: int, cached: bool) -> dict[str, Estimate]:
    """The slopes of timed `head_actions`."""
    repeats = {n: calls(n, d, cached) for n in sizes_of(ranges)}
    return slopes_over(ranges, lambda m, n: rounds.ratio(str(m), over=str(n)), repeats)


def operation_slope(sizes: Sequence[int], d: int, cached: bool) -> float:
    """The slope of the counted multiply-accumulates, from the shortest context to the longest."""
    first, last = sizes[0], sizes[-1]
    return math.log(step_macs(last, d, cached) / step_macs(first, d, cached), last / first)


def step_ms(rounds: Rounds, sizes: Sequence[int], d: int, cached: bool) -> dict[int, Estimate]:
    """Milliseconds of one step at each context."""
    return {n: rounds.seconds(str(n)) * (MS_PER_S / calls(n, d, cached)) for n in sizes}
