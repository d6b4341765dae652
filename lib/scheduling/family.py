"""Workloads with exactly the published summary: 64 requests, median 18, longest 231, total 1,874 output tokens.

Very different workloads share these four figures, so a result must hold over shapes of skew, not for one generator's
taste. A draw keeps its shape's proportions and is moved onto the figures: half of the requests lie below the median,
the longest is set, and what the others exceed the median by is scaled until the total is right, capped at the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from lib.scheduling.many import Workloads
from lib.scheduling.times import Counts, Seconds

Random = np.random.Generator
Shape = Callable[[Random, tuple[int, int]], Seconds]


@dataclass(frozen=True)
class Summary:
    """What is known of a workload; the median is the mean of the two middle lengths of an even number of requests."""

    requests: int = 64
    median: int = 18
    longest: int = 231
    total: int = 1874

    @classmethod
    def of(cls, output_tokens: Counts) -> Summary:
        """The summary of one workload (n,); ValueError where its median is not a whole number of tokens."""
        median = float(np.median(output_tokens))
        if median != int(median):
            raise ValueError(f"the median is {median}, which no figure in whole tokens can be")
        return cls(len(output_tokens), int(median), int(output_tokens.max()), int(output_tokens.sum()))


PUBLISHED = Summary()
# ln(mean / median) = sigma² / 2 for a log-normal: the sigma at which 1,874 / 64 lies over a median of 18.
LOG_NORMAL_SIGMA = float(np.sqrt(2 * np.log(PUBLISHED.total / PUBLISHED.requests / PUBLISHED.median)))
MIDDLE_GAPS = (0, 1, 2)  # how far the two middle lengths lie from the median
MIDDLE_CHANCES = (0.6, 0.3, 0.1)  # of each of these gaps
SNAP = 1e-9  # shares are sums of some thirty numbers below 2,000: their rounding error is below 64 · 2,000 · 2^-53
CAP_ROUNDS = 60  # each round caps at least one more value or ends; fewer than 32 values can be capped


def log_normal(random: Random, shape: tuple[int, int]) -> Seconds:
    """Lengths over the median, log-normal with the sigma that the published mean and median imply."""
    return random.lognormal(0.0, LOG_NORMAL_SIGMA, shape)


def exponential(random: Random, shape: tuple[int, int]) -> Seconds:
    """Below the median uniform, above it exponential excess: every split of the total nearly equally likely."""
    return np.where(_lower_half(shape), random.random(shape), 1 + random.exponential(1.0, shape))


def few_giants(random: Random, shape: tuple[int, int]) -> Seconds:
    """Most requests alike; about one in twelve many times as long."""
    giant = random.random(shape) < 1 / 12
    return np.where(giant, random.uniform(8, 13, shape), random.uniform(0.5, 1.6, shape))


def plateau(random: Random, shape: tuple[int, int]) -> Seconds:
    """As little skew as the figures allow: short below the median, nearly alike above it."""
    return np.where(_lower_half(shape), random.uniform(0.3, 1, shape), random.uniform(2, 2.5, shape))


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {"log-normal": log_normal, "exponential": exponential, "few giants": few_giants, "plateau": plateau}
)


def draw(shape: str, count: int, seed: int, summary: Summary = PUBLISHED) -> Counts:
    """`count` workloads of the shape, (count, requests), each in a random order and with exactly the summary.

    Raises ValueError for a summary with an odd or too small number of requests, or one that no lengths can have.
    """
    half = summary.requests // 2
    if summary.requests % 2 or half < 2:
        raise ValueError(f"the two middle lengths are set, so an even number of at least 4, not {summary.requests}")
    random = np.random.default_rng([seed, *shape.encode()])
    drawn = np.sort(SHAPES[shape](random, (count, summary.requests)), axis=1)
    gap = np.minimum(random.choice(MIDDLE_GAPS, count, p=MIDDLE_CHANCES), summary.median - 1)
    middle = np.stack((summary.median - gap, summary.median + gap), axis=1)
    lower = np.rint(drawn[:, : half - 1] / drawn[:, half - 1, None] * middle[:, :1]).astype(np.int64)
    lower = np.clip(lower, 1, middle[:, :1])
    excess = drawn[:, half + 1 : -1] - drawn[:, half - 1, None]
    left = summary.total - summary.longest - lower.sum(axis=1) - middle.sum(axis=1) - excess.shape[1] * middle[:, 1]
    upper = middle[:, 1:] + shared_out(excess, left, summary.longest - middle[:, 1])
    longest = np.full((count, 1), summary.longest)
    return random.permuted(np.concatenate((lower, middle, upper, longest), axis=1), axis=1)


def shared_out(weights: Seconds, total: Counts, cap: Counts) -> Counts:
    """Whole numbers (W, m) in proportion to the weights, none above `cap` (W,), each row adding up to `total` (W,).

    What a capped value cannot take, the others share; rounding goes to the largest remainders. ValueError where the
    total is negative or more than all caps together.
    """
    if (total < 0).any() or (total > cap * weights.shape[1]).any():
        raise ValueError("no lengths add up to this total between the median and the longest")
    weights = np.maximum(weights, 1e-9)  # a weight of zero could take nothing when all others are capped
    shares = np.zeros_like(weights)
    capped = np.zeros(weights.shape, dtype=bool)
    for _ in range(CAP_ROUNDS):
        left = total - (capped * cap[:, None]).sum(axis=1)
        open_weight = np.where(capped, 0.0, weights).sum(axis=1)
        scale = np.divide(left, open_weight, out=np.zeros(len(left)), where=open_weight > 0)
        shares = np.where(capped, cap[:, None], weights * scale[:, None])
        if not (over := shares > cap[:, None]).any():
            break
        capped |= over
    return _rounded(shares, total, cap)


def _lower_half(shape: tuple[int, int]) -> NDArray[np.bool_]:
    return np.broadcast_to(np.arange(shape[1]) < shape[1] // 2, shape)


def _rounded(shares: Seconds, total: Counts, cap: Counts) -> Counts:
    """Down to whole numbers, then one more for the largest remainders below the cap until the total is right."""
    whole = np.minimum(np.floor(shares + SNAP).astype(np.int64), cap[:, None])
    remainder = np.where(whole < cap[:, None], shares - whole, -np.inf)
    place = np.argsort(np.argsort(-remainder, axis=1, kind="stable"), axis=1)
    return np.asarray(whole + (place < (total - whole.sum(axis=1))[:, None]))


def poisson_arrivals(output_tokens: Counts, load: float, capacity: float, seed: int) -> Workloads:
    """The workloads (W, n) with requests arriving at random at a constant rate.

    `load` is the offered rate of useful tokens over `capacity`, the tokens per second of a server whose slots are
    always full. Raises ValueError unless both are positive and finite.
    """
    if not (0 < load < np.inf and 0 < capacity < np.inf):
        raise ValueError(f"a load of {load} on a capacity of {capacity} tokens per second")
    random = np.random.default_rng(seed)
    mean_gap_s = output_tokens.mean(axis=1, keepdims=True) / (load * capacity)
    arrival_s = np.cumsum(random.exponential(1.0, output_tokens.shape) * mean_gap_s, axis=1)
    return Workloads(arrival_s, output_tokens, np.zeros_like(output_tokens))


def one_giant_per_group(output_tokens: NDArray[np.int64], slots: int) -> Counts:
    """One workload (n,) in the order that static batching likes least: every group headed by one of the longest."""
    descending = np.sort(output_tokens)[::-1]
    groups = -(-len(descending) // slots)
    heads, others = descending[:groups], descending[groups:]
    parts = np.array_split(others, groups)
    return np.concatenate([np.append(head, part) for head, part in zip(heads, parts, strict=True)])
