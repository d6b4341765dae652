"""What a model makes of given text: the loss of every token, its own choice there, and how far it is from another's.

One forward pass over the body, then the output embedding block by block (lib/streamed_logits.py): the logits of a
text never exist at once. The two are run apart, so `open_head` checks once, on a few tokens, that head(body(ids)) is
what the model itself computes.

Protocol of every figure made here: a window is a row of token ids; its first token is context only, every other is
scored once given all tokens before it in the window; loss in nats, logits in fp32, sums in fp64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lib.streamed_logits import read_logits
from lib.unmeasurable import Unmeasurable

ROWS_TOGETHER = 1024  # tokens in one pass of the body: every pass reads all weights once, and by then that is 3 % of it
PROBE_TOKENS = 4  # on which the two ways to logits are compared
# Two orders of the same fp32 products: a few thousand roundings of 2^-24 each, on logits of the size of the largest.
SAME_LOGITS = 1e-4


class UnusualHead(Unmeasurable):
    """The model does something to its logits besides multiplying the last hidden state by the output embedding."""


@dataclass(frozen=True)
class Scores:
    """Per scored position, each (B, n): loss in nats, the highest logit's id, its lead over the second in logits.

    divergence: KL(reference ‖ this) in nats where a reference was given. hidden: (B, n, D) where asked for. lead is
    None unless asked for.
    """

    loss: Tensor
    top: Tensor
    lead: Tensor | None = None
    divergence: Tensor | None = None
    hidden: Tensor | None = None

    @property
    def finite(self) -> bool:
        """Whether every loss is a number."""
        return bool(torch.isfinite(self.loss).all())


@torch.no_grad()
def score(  # noqa: PLR0913 (a pass, and what to keep of it)
    model: PreTrainedModel,
    head: Tensor,
    ids: Tensor,
    *,
    reference: Tensor | None = None,
    keep_hidden: bool = False,
    keep_lead: bool = False,
) -> Scores:
    """Score windows ids (B, n + 1) of equal length, each row a window of its own; head (V, D) is `open_head`'s.

    reference: the hidden states (B, n, D) that another model with the same output embedding gave for the same ids,
    from an earlier call with keep_hidden; its distribution is then compared position by position.
    Raises ValueError on windows of fewer than two tokens.
    """
    if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise ValueError(f"windows are (at least one, at least two tokens), not {tuple(ids.shape)}")
    hidden = torch.cat([_hidden(model, rows[:, :-1]) for rows in _batches(ids)])  # (B, n, D)
    targets = ids[:, 1:].to(hidden.device)
    flat = None if reference is None else reference.flatten(0, 1)
    read = read_logits(hidden.flatten(0, 1), head, targets.flatten(), reference=flat, with_lead=keep_lead)
    kept = {name: _like(getattr(read, name), targets) for name in ("lead", "divergence")}
    loss, top = read.loss.reshape(targets.shape), read.top.reshape(targets.shape)
    return Scores(loss, top, hidden=hidden if keep_hidden else None, **kept)


@torch.no_grad()
def open_head(model: PreTrainedModel) -> Tensor:
    """The output embedding (V, D), after a check that the model's logits are exactly its products.

    Raises UnusualHead for a bias, a scale, a soft cap, or anything else in between.
    """
    layer = model.get_output_embeddings()
    if not isinstance(layer, nn.Linear) or layer.bias is not None:
        raise UnusualHead(f"{type(model).__name__} has no plain output embedding")
    probe = torch.arange(PROBE_TOKENS, device=model.device)[None]
    ours = _hidden(model, probe) @ layer.weight.T
    theirs = model(probe, use_cache=False).logits
    finite = torch.isfinite(theirs).all()  # a model broken by its weights has nothing to compare; its losses tell
    if finite and (ours - theirs).abs().max() > SAME_LOGITS * max(1.0, float(theirs.abs().max())):
        raise UnusualHead(f"{type(model).__name__} changes its logits after the output embedding")
    weight: Tensor = layer.weight
    return weight


def perplexity(loss: Tensor) -> float:
    """exp of the mean loss (nats) over all scored tokens, infinity where that overflows; NaN stays NaN."""
    mean = float(loss.double().mean())
    return math.inf if mean >= math.log(torch.finfo(torch.float64).max) else math.exp(mean)


def bits_per_byte(loss: Tensor, scored_bytes: int) -> float:
    """Total loss over the UTF-8 bytes that the scored tokens stand for: comparable across tokenizers."""
    if scored_bytes < 1:
        raise ValueError("bits per byte needs at least one byte of scored text")
    return float(loss.double().sum()) / math.log(2) / scored_bytes


def _hidden(model: PreTrainedModel, ids: Tensor) -> Tensor:
    output: Tensor = model.base_model(ids.to(model.device), use_cache=False).last_hidden_state
    return output


def _batches(ids: Tensor) -> tuple[Tensor, ...]:
    return torch.split(ids, max(1, ROWS_TOGETHER // (ids.shape[1] - 1)))


def _like(column: Tensor | None, targets: Tensor) -> Tensor | None:
    return None if column is None else column.reshape(targets.shape)
