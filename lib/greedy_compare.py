"""Two greedy generations of the same prompts, compared token by token up to where they part.

After the first divergence the two continue different texts and nothing there can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.decoding import Generated, greedy_cached, greedy_uncached
from lib.intervals import Estimate, as_estimate
from lib.proportions import wilson_interval
from lib.unmeasurable import Unmeasurable


@dataclass(frozen=True)
class Divergence:
    """Where one prompt's generations part: prompt row, token number (0 the first), the two ids, and how close it was.

    top2_gap: the reference's best logit minus its second best. logit_difference: largest distance between the two
    logit rows there.
    """

    row: int
    step: int
    ids: tuple[int, ...]
    top2_gap: float
    logit_difference: float


@dataclass(frozen=True)
class Comparison:
    """tokens: how many choices were compared (all, up to and including a divergence).

    logit_difference and largest_logit: over the compared rows, in logits.
    """

    tokens: int
    divergences: tuple[Divergence, ...]
    logit_difference: float
    largest_logit: float
    smallest_gap: float


def share_that_differs(runs: Sequence[Comparison]) -> Estimate:
    """Which share of the compared choices came out differently, with an interval.

    Exactly zero when no choice was close: every best logit ahead by more than twice the largest difference between the
    runs, so that no rounding of this size can turn one. Otherwise a Wilson interval, which contains zero only if none
    differed and cannot rule out that others would.
    """
    differing, compared = sum(len(run.divergences) for run in runs), sum(run.tokens for run in runs)
    if not differing and all(run.smallest_gap > 2 * run.logit_difference for run in runs):
        return as_estimate(0)
    return wilson_interval(differing, compared)


def compare(generated: Generated, reference: Generated) -> Comparison:
    """Compare two generations of equal shape that kept their logits; raises ValueError if they did not.

    Raises Unmeasurable where the logits are not finite, or all of them zero.
    """
    if generated.logits is None or reference.logits is None or generated.tokens.shape != reference.tokens.shape:
        raise ValueError("compare needs two generations of one shape, both with their logits")
    ours, theirs = generated.logits.float(), reference.logits.float()
    same = generated.tokens == reference.tokens  # (B, n)
    comparable = torch.cat([torch.ones_like(same[:, :1]), same[:, :-1]], dim=1).cumprod(1).bool()
    distance = (ours - theirs).abs().amax(-1)
    gap = top2_gap(theirs)
    parting = (comparable & ~same).nonzero().tolist()
    ids = torch.stack([generated.tokens, reference.tokens], dim=-1)  # (B, n, 2)
    found = [Divergence(r, s, tuple(ids[r, s].tolist()), float(gap[r, s]), float(distance[r, s])) for r, s in parting]
    largest = float(theirs[comparable].abs().max())
    if not math.isfinite(largest) or not bool(distance[comparable].isfinite().all()):
        raise Unmeasurable("this model's logits on these prompts are not finite: there is nothing to compare")
    if not largest:
        raise Unmeasurable("this model's logits on these prompts are all zero: there is nothing to compare")
    return Comparison(
        tokens=int(comparable.sum()),
        divergences=tuple(found),
        logit_difference=float(distance[comparable].max()),
        largest_logit=largest,
        smallest_gap=float(gap[comparable].min()),
    )


def top2_gap(logits: Tensor) -> Tensor:
    """(..., vocab) → (...): how far the best logit is ahead of the second best; 0 for a tie."""
    best = logits.float().topk(2, dim=-1).values
    return best[..., 0] - best[..., 1]


def cached_against_uncached(model: PreTrainedModel, prompts: Tensor, n: int) -> Comparison:
    """Both greedy loops, really run, on the same prompts (B, P) in one batch; the uncached one is the reference."""
    cached = greedy_cached(model, prompts, n, keep_logits=True)
    return compare(cached, greedy_uncached(model, prompts, n, keep_logits=True))
