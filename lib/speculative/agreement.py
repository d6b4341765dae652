"""What a draft would choose along a text that the target wrote, and how likely sampling would be to keep its guess."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.decoding import forward
from lib.greedy_compare import top2_gap

POSITIONS_TOGETHER = 48  # of two whole distributions at a time: 150,000 ids each, some 60 MB


@dataclass(frozen=True)
class Choices:
    """Per position of the replies, (B, n): the id chosen, and by how many logits. logits: (B, n, vocab)."""

    ids: Tensor
    gaps: Tensor
    logits: Tensor


def choices_along(model: PreTrainedModel, text: Tensor, reply: int) -> Choices:
    """What the model chooses for each of the last ``reply`` tokens of every text (B, T), given those before it."""
    logits = forward(model, text[:, :-1], logits_to_keep=reply).logits
    return Choices(logits.argmax(-1).cpu(), top2_gap(logits).cpu(), logits)


def overlaps(target: Tensor, draft: Tensor) -> Tensor:
    """The chance that a token drawn from the draft is kept, sum of min(p, q): logits (B, n, vocab) twice → (B, n).

    At temperature 1 and without filters. Leviathan et al., 2023, corollary 3.6.
    """
    ours, theirs = (torch.split(logits.flatten(0, 1), POSITIONS_TOGETHER) for logits in (target, draft))
    kept = [torch.minimum(p.softmax(-1), q.softmax(-1)).sum(-1) for p, q in zip(ours, theirs, strict=True)]
    return torch.cat(kept).reshape(target.shape[:2]).cpu()
