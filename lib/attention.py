"""One attention head, written out, and the multiply-accumulates it takes with and without a cache.

Three views of the same head that check each other: ``counted_*`` performs every multiply-accumulate one by one and
counts as it goes; ``macs_*`` are the closed forms of those counts; ``attend`` is the head in tensor operations (queries
against keys, softmax, weighted sum of values; Vaswani et al. 2017, eq. 1), with its scores as a tensor of their own.

A multiply-accumulate (MAC) is one ``a * b + c``. Exponentials, divisions and the scaling are not counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import torch
from torch import Tensor

Row = Sequence[float]
MACS_PER_SCORE = 2  # d for the score and d for its share of the output: each costs d MACs


@dataclass
class MacCounter:
    """Counts the multiply-accumulates that go through ``dot``."""

    macs: int = 0

    def dot(self, left: Row, right: Row) -> float:
        """The inner product, one counted multiply-accumulate per element."""
        total = 0.0
        for a, b in zip(left, right, strict=True):
            total += a * b
            self.macs += 1
        return total


def counted_row(query: Row, keys: Sequence[Row], values: Sequence[Row], counter: MacCounter) -> list[float]:
    """One query against n keys: the cached step's 1 x n row. Lists of d floats; returns d floats."""
    scale = 1 / math.sqrt(len(query))
    scores = [counter.dot(query, key) * scale for key in keys]
    highest = max(scores)
    weights = [math.exp(score - highest) for score in scores]
    total = sum(weights)
    shares = [weight / total for weight in weights]
    return [counter.dot(shares, column) for column in zip(*values, strict=True)]


def counted_square(
    queries: Sequence[Row], keys: Sequence[Row], values: Sequence[Row], counter: MacCounter
) -> list[list[float]]:
    """n queries against n keys, causal by masking: the whole n x n square is computed, the future then discarded.

    A masked score weighs exactly zero, so the output rows are those of ``counted_row`` on the visible prefix.
    """
    outputs = []
    scale = 1 / math.sqrt(len(queries[0]))
    for row, query in enumerate(queries):
        scores = [counter.dot(query, key) * scale for key in keys]
        highest = max(scores[: row + 1])
        weights = [math.exp(s - highest) if column <= row else 0.0 for column, s in enumerate(scores)]
        total = sum(weights)
        outputs.append([counter.dot([w / total for w in weights], column) for column in zip(*values, strict=True)])
    return outputs


def counted_generation(tokens: int, d: int, cached: bool) -> list[int]:
    """Generate from an empty context, executing and counting every product; totals after 1, 2, … T = tokens tokens."""
    counter, totals = MacCounter(), []
    q, k, v = ([[math.sin(i + j + side) for j in range(d)] for i in range(tokens)] for side in range(3))
    for n in range(1, tokens + 1):
        if cached:
            counted_row(q[n - 1], k[:n], v[:n], counter)
        else:
            counted_square(q[:n], k[:n], v[:n], counter)
        totals.append(counter.macs)
    return totals


def macs_cached_step(n: int, d: int) -> int:
    """One new query against n keys (itself included): 2·n·d."""
    return MACS_PER_SCORE * n * d


def macs_uncached_step(n: int, d: int, causal: bool = False) -> int:
    """All n queries again: 2·n²·d for the full square, n(n+1)·d when the masked half is never computed."""
    return n * (n + 1) * d if causal else MACS_PER_SCORE * n * n * d


def macs_cached(tokens: int, d: int) -> int:
    """Generating T tokens from an empty context with a cache: the sum of 2·n·d over n = 1..T, T(T+1)·d."""
    return tokens * (tokens + 1) * d


def macs_uncached(tokens: int, d: int, causal: bool = False) -> int:
    """The same without a cache: T(T+1)(2T+1)·d/3 for full squares, T(T+1)(T+2)·d/3 with the masked half skipped."""
    last = tokens + 2 if causal else 2 * tokens + 1
    return tokens * (tokens + 1) * last * d // 3


def macs_ratio(tokens: int, causal: bool = False) -> Fraction:
    """Uncached over cached: (2T+1)/3, or (T+2)/3 with the masked half skipped. Independent of d."""
    return Fraction(tokens + 2 if causal else 2 * tokens + 1, 3)


def polynomial_degree(values: Sequence[int]) -> int:
    """Degree of the polynomial that the values at consecutive integers follow, by exact finite differences.

    Raises ValueError if the differences never vanish: the values then follow no polynomial of that low a degree.
    """
    differences, degree = list(values), -1
    while any(differences):
        differences = [b - a for a, b in pairwise(differences)]
        degree += 1
    if len(differences) < 2:  # one vanished difference is a coincidence that any data allow
        raise ValueError(f"{len(values)} values are too few to see the degree of what they follow")
    return degree


def score_bytes(rows: int, columns: int, element_bytes: int) -> int:
    """Bytes of a rows x columns matrix of scores."""
    return rows * columns * element_bytes


def attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal attention of the last r positions over all n, the r x n scores written out.

    queries: (r, d); keys, values: (n, d), r <= n; returns (r, d). r = n is a recomputation, r = 1 a cached step. The
    mask is explicit and aligned to the end: a lone query sees every key (``is_causal`` would show it only the first).
    """
    rows, columns = queries.shape[0], keys.shape[0]
    scores = queries @ keys.T / math.sqrt(queries.shape[1])  # (r, n)
    if rows > 1:
        future = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).triu(columns - rows + 1)
        scores = scores.masked_fill_(future, -math.inf)
    return scores.softmax(-1) @ values
