"""Choosing the next token, greedily or by a generator that belongs to the request alone.

Sampling takes the highest of log-probability plus Gumbel noise, which draws from exactly that distribution (Maddison et
al., A* Sampling, 2014, arXiv:1411.0030). So greedy and sampled choices are both the highest of some scores, and a
choice can differ from the solo run's only where its two highest scores are closer than rounding (or, with top_k or
top_p, where an id is kept or not by less than rounding).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lib.serving.requests import Sampling
from lib.unmeasurable import Unmeasurable


class Chooser:
    """Chooses a request's tokens one after another; each choice draws once, whoever else is in the batch."""

    def __init__(self, sampling: Sampling | None) -> None:
        self.sampling = sampling
        self._generator = None if sampling is None else torch.Generator().manual_seed(sampling.seed)

    def scores(self, logits: Tensor) -> Tensor:
        """(vocab,) logits → (vocab,) scores whose highest is the choice; advances the generator.

        Sampled ones are on the CPU, where the generator is, so that every device draws the same.
        """
        if self.sampling is None or self._generator is None:
            return logits.float()
        kept = filtered(logits.cpu().double() / self.sampling.temperature, self.sampling.top_k, self.sampling.top_p)
        noise = torch.empty_like(kept).exponential_(generator=self._generator).log_().neg_()
        return kept + noise


def choose(choosers: Sequence[Chooser], logits: Tensor) -> list[int | None]:
    """An id for each row of logits (n, vocab), None where they are not numbers. The greedy ones in one go."""
    best = logits.argmax(-1, keepdim=True)  # the first of equals, as torch documents; NaN counts as the largest
    numbers = logits.gather(1, best).isfinite()[:, 0].tolist()
    rows = zip(choosers, logits, best[:, 0].tolist(), numbers, strict=True)
    return [_one(chooser, row, token) if number else None for chooser, row, token, number in rows]


def _one(chooser: Chooser, logits: Tensor, highest: int) -> int | None:
    if chooser.sampling is None:
        return highest
    scores = chooser.scores(logits)
    return choice(scores) if scores.max().isfinite() else None


def choice(scores: Tensor) -> int:
    """The id of the highest score, the lowest id among equals. Raises Unmeasurable unless it is a finite number."""
    best = int(scores.argmax())
    if not scores[best].isfinite():  # argmax takes NaN for the largest
        raise Unmeasurable("logits that are not numbers (NaN or infinite)")
    return best


def filtered(logits: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Logits (vocab,) with -inf wherever an id is not kept; at least the highest always is.

    top_k first, then top_p of what is left, renormalised. Ids of equal logits are kept from the lowest.
    """
    if top_k is None and top_p is None:
        return logits
    ordered, ids = logits.sort(descending=True, stable=True)
    kept = len(ids) if top_k is None else min(top_k, len(ids))
    if top_p is not None:
        before = ordered[:kept].softmax(0).cumsum(0).roll(1)
        before[0] = 0
        kept = int((before < top_p).sum())
    return torch.full_like(logits, float("-inf")).scatter(0, ids[:kept], ordered[:kept])
