"""What is read off the logits of many positions without ever holding them: loss, choice, lead, divergence.

The vocabulary is walked in blocks, each multiplied with a thousand positions at once, and sums of exponentials are
carried from block to block relative to the highest logit so far (the online softmax of Milakov & Gimelshein, 2018,
arXiv:1805.02867). All logits of a vocabulary of 151,936 take 0.6 MB per position, which is written and read several
times; a block of them stays in the cache, and the output embedding is read once per thousand positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

POSITIONS, VOCABULARY = 1024, 2048  # of one block: 8 MB; the fastest of 4 × 5 sizes that were tried on two cores


@dataclass(frozen=True)
class Reading:
    """Per position, each (N,): loss in nats (fp64), the highest logit's id, its lead over the second in logits.

    lead: None unless asked for. divergence: KL(reference ‖ this) in nats where a reference was given.
    """

    loss: Tensor
    top: Tensor
    lead: Tensor | None
    divergence: Tensor | None


def read_logits(  # noqa: PLR0913 (what is multiplied, what is read, in which blocks)
    hidden: Tensor,
    head: Tensor,
    targets: Tensor,
    *,
    reference: Tensor | None = None,
    with_lead: bool = False,
    block: tuple[int, int] = (POSITIONS, VOCABULARY),
) -> Reading:
    """Read the logits hidden (N, D) × head (V, D)ᵀ for the targets (N,); reference: (N, D), other hidden states."""
    parts = []
    for start in range(0, len(hidden), block[0]):
        part = slice(start, start + block[0])
        other = None if reference is None else reference[part]
        parts.append(_read(hidden[part], head, targets[part], other, with_lead, block[1]))
    columns = (_joined([getattr(part, field.name) for part in parts]) for field in fields(Reading))
    return Reading(*columns)  # type: ignore[arg-type]  # the first two are never None


class _Softmax:
    """Of positions (n,): the highest logit so far, whose it is, and the sum of exponentials relative to it."""

    def __init__(self, like: Tensor) -> None:
        self.best = like.new_full((len(like),), -torch.inf)
        self.top = torch.zeros(len(like), dtype=torch.long, device=like.device)
        self.total = like.new_zeros(len(like))

    def raised_to(self, logits: Tensor, start: int) -> Tensor:
        """Take in the maxima of a block that starts at id `start`; returns what earlier sums are to be scaled by."""
        highest, where = logits.max(1)  # the first of several maxima, and of several blocks the first
        self.top = torch.where(highest > self.best, where + start, self.top)
        best = torch.maximum(self.best, highest)
        factor = (self.best - best).exp()
        self.best = best
        return factor

    def weights(self, logits: Tensor, factor: Tensor) -> Tensor:
        """Add a block to the sum; its exponentials, which overwrite it."""
        exponentials = logits.sub_(self.best[:, None]).exp_()
        self.total = self.total * factor + exponentials.sum(1)
        return exponentials

    @property
    def log_total(self) -> Tensor:
        """log of the sum of the exponentials of all logits."""
        return self.total.log() + self.best


class _Lead:
    """The two highest logits of each position (n,)."""

    def __init__(self, like: Tensor) -> None:
        self.two = like.new_full((len(like), 2), -torch.inf)

    def add(self, logits: Tensor) -> None:
        self.two = torch.cat([self.two, logits.topk(min(2, logits.shape[1]), dim=1).values], 1).topk(2, dim=1).values

    @property
    def lead(self) -> Tensor:
        return self.two[:, 0] - self.two[:, 1]


def _read(  # noqa: PLR0913, PLR0917 (one block of positions of the above)
    hidden: Tensor, head: Tensor, targets: Tensor, reference: Tensor | None, with_lead: bool, width: int
) -> Reading:
    ours, theirs, lead = _Softmax(hidden), _Softmax(hidden), _Lead(hidden)
    chosen, expected = hidden.new_zeros(len(hidden)), hidden.new_zeros(len(hidden))
    products = _products(hidden, head, width)
    other_products = None if reference is None else _products(reference, head, width)
    for start, logits in products:
        chosen = _picked(logits, targets - start, chosen)
        if with_lead:
            lead.add(logits)
        factor = ours.raised_to(logits, start)
        if other_products is not None:
            _, other = next(other_products)
            their_factor, gap = theirs.raised_to(other, start), other - logits
            expected = expected * their_factor + torch.linalg.vecdot(theirs.weights(other, their_factor), gap)
        ours.weights(logits, factor)
    divergence = None if reference is None else expected / theirs.total - theirs.log_total + ours.log_total
    return Reading(
        (ours.log_total - chosen).double(),
        ours.top,
        lead.lead if with_lead else None,
        None if divergence is None else divergence.clamp_min(0).double(),  # rounding below zero is cut off
    )


def _products(hidden: Tensor, head: Tensor, width: int) -> Iterator[tuple[int, Tensor]]:
    """Logits block by block with the first id of each, all in one buffer: fresh memory costs as much as a product."""
    buffer = hidden.new_empty(len(hidden) * min(width, len(head)))
    for start in range(0, len(head), width):
        block = head[start : start + width]
        out = buffer[: len(hidden) * len(block)].view(len(hidden), len(block))
        yield start, torch.mm(hidden, block.T, out=out)


def _picked(logits: Tensor, ids: Tensor, so_far: Tensor) -> Tensor:
    """The logit of each position's id (n,) where this block (n, W) holds it, what was known before where not."""
    inside = (ids >= 0) & (ids < logits.shape[1])
    found = logits.gather(1, ids.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
    return torch.where(inside, found, so_far)


def _joined(parts: list[Tensor | None]) -> Tensor | None:
    there = [part for part in parts if part is not None]
    return torch.cat(there) if there else None
