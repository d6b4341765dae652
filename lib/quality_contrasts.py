"""Rows of the quality table against one another: on the same tokens and questions, with intervals that know of pieces.

Tokens of one piece of text are one cluster: they are drawn together, or the intervals would be too narrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import torch
from torch import Tensor

from lib.battery import Grade, grade
from lib.clusters import cluster_mean, cluster_share
from lib.intervals import Estimate
from lib.proportions import mcnemar_exact, paired_difference_interval
from lib.quality import OWN, Quiz, Row
from lib.scoring import Scores, perplexity

Decode = Callable[[Sequence[int]], str]


def perplexity_of(row: Row, text: str) -> Estimate:
    """Perplexity per token: exp of the mean loss and of its interval's ends."""
    found = cluster_mean(row.of(text).loss.tolist())
    return Estimate(
        *(perplexity(torch.tensor(float(end), dtype=torch.float64)) for end in (found.value, found.low, found.high))
    )


def cost(row: Row, rival: Row, text: str) -> Estimate:
    """How much more loss (nats per token) than the rival, on the same tokens: the logarithm of the perplexity ratio."""
    return cluster_mean((row.of(text).loss - rival.of(text).loss).tolist())


def same_choice(row: Row, reference: Row, text: str, own_tokens: int) -> Tensor:
    """Where both choose the same next token in the same context: (B, n) of 0.0 and 1.0.

    Of the text that the reference wrote itself only the last `own_tokens` of each row are its own.
    """
    same = (row.of(text).top == reference.of(text).top).double()
    return same[:, -own_tokens:] if text == OWN else same


def share(same: Tensor) -> Estimate:
    """The share of equal choices (B, n), with its interval over rows."""
    return cluster_share(same.tolist())


def first_divergences(same: Tensor) -> list[int | None]:
    """Per row of (B, n) the first position with another choice, None where there is none."""
    return [next((i for i, equal in enumerate(row) if not equal), None) for row in same.bool().tolist()]


def divergence_summary(scores: Scores) -> dict[str, float]:
    """KL(reference ‖ scheme) in nats over positions: mean, median and 99th percentile, the figures llama.cpp prints."""
    if scores.divergence is None:
        raise ValueError("the distributions of this text were not compared")
    flat = scores.divergence.flatten()
    median, high = torch.quantile(flat, torch.tensor([0.5, 0.99], dtype=flat.dtype)).tolist()
    return {"mean": float(flat.mean()), "median": median, "99th percentile": high}


def near_ties(same: Tensor, lead: Tensor) -> dict[str, float]:
    """Median lead (logits) of the reference's choice where the other agrees and where it does not; both (B, n)."""
    groups = {"where they agree": lead[same > 0], "where they differ": lead[same == 0]}
    return {name: float(values.median()) for name, values in groups.items() if values.numel()}


def grades(row: Row, name: str, quiz: Quiz, penalty: float, decode: Decode) -> list[Grade]:
    """The grade of every reply of one quiz, in the order of its questions."""
    replies = row.replies[name][penalty]
    return [grade(decode(r.tokens), question) for r, question in zip(replies, quiz.questions, strict=True)]


def right(found: Sequence[Grade]) -> list[bool]:
    """Which of the grades are right."""
    return [g is Grade.RIGHT for g in found]


@dataclass(frozen=True)
class Duel:
    """Two rows on the same questions: how many both got right, only the first, only the second, neither."""

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def questions(self) -> int:
        """How many there were."""
        return self.both + self.first_only + self.second_only + self.neither

    @property
    def lead(self) -> int:
        """By how many questions the first is ahead."""
        return self.first_only - self.second_only

    @property
    def p_value(self) -> float:
        """Of the exact McNemar test, two-sided."""
        return mcnemar_exact(self.first_only, self.second_only)

    @property
    def difference(self) -> Estimate:
        """Share right of the first minus that of the second, with the paired score interval."""
        return paired_difference_interval(self.both, self.first_only, self.second_only, self.neither)

    @property
    def discordance(self) -> float:
        """The share of questions that the two answer apart."""
        return (self.first_only + self.second_only) / self.questions


def duel(first: Sequence[bool], second: Sequence[bool]) -> Duel:
    """Count the four outcomes of two columns of right (True) and not, question by question."""
    pairs = Counter(zip(first, second, strict=True))
    return Duel(pairs[True, True], pairs[True, False], pairs[False, True], pairs[False, False])


def pairs_told_apart(names: Sequence[str], difference: Callable[[str, str], Estimate]) -> int:
    """How many of all pairs of rows differ by an interval that excludes zero."""
    return sum(not difference(a, b).contains(0) for a, b in combinations(names, 2))


def largest_step(values: Sequence[float]) -> float:
    """The largest single fall along a sequence as a share of the fall from its first to its last value.

    Raises ValueError when the sequence does not fall from end to end.
    """
    whole = values[0] - values[-1]
    if whole <= 0:
        raise ValueError(f"no fall from {values[0]} to {values[-1]}")
    return max(a - b for a, b in pairwise(values)) / whole


def shares_of_gain(start: float, middle: float, end: float) -> dict[str, float]:
    """Which share of the way from `start` to `end` is done at `middle`, and which after it; they sum to 1."""
    return {"first": (start - middle) / (start - end), "second": (middle - end) / (start - end)}


def order_of(values: Mapping[str, float]) -> list[str]:
    """The names from the smallest value to the largest."""
    return sorted(values, key=lambda name: values[name])
