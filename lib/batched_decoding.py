"""Greedy replies to many prompts at once, under several repetition penalties, each as if it were alone.

Rows are padded on the left, hidden by the attention mask, and carry their own positions, so models with absolute
positions are right too. One prefill serves every penalty. What a batch changes is the order of summation: tokens equal
those of a solo run except where two logits are closer than rounding.

The penalty is the one transformers applies (Keskar et al., 2019, arXiv:1909.05858, over prompt and reply): the logit of
an id seen before is divided by it when positive and multiplied when negative, once however often it was seen. Padding
is filled with the row's own first token, so no padding id exists that could count as seen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from lib.decoding import decode_step, greedy_choice, prefill

# A pass over one position already reads all the weights, which costs as much as the arithmetic of some 16 positions on
# the CPUs this was measured on; a pass of its own for the common prefix must save clearly more than that.
WORTH_A_PASS = 32


class BrokenLogits(ValueError):
    """The model answered with logits that have no largest finite value; nothing can be chosen from them."""


@dataclass(frozen=True)
class Reply:
    """tokens: ids, without the one that ended it. ended: by such an id, not by the limit.

    penalty_changed: how many choices, the ending one included, were another id than the highest raw logit's. Zero
    without a penalty, so a positive count proves that one was active.
    """

    tokens: tuple[int, ...]
    ended: bool
    penalty_changed: int


@dataclass
class _Batch:
    """The rows still being written, R of them, each one prompt under one penalty.

    logits: (R, vocab) of the next token. history: (R, n) ids so far. mask: (R, n), 0 for padding. penalties: (R, 1).
    """

    cache: Cache
    logits: Tensor
    history: Tensor
    mask: Tensor
    penalties: Tensor

    def repeated(self, penalties: Sequence[float]) -> _Batch:
        """Every row once per penalty: row i becomes rows i·k … i·k + k - 1."""
        times, rows = len(penalties), len(self.history)
        self.cache.batch_repeat_interleave(times)
        logits, history, mask = (t.repeat_interleave(times, 0) for t in (self.logits, self.history, self.mask))
        return _Batch(self.cache, logits, history, mask, logits.new_tensor(penalties).repeat(rows)[:, None])

    def choices(self) -> tuple[Tensor, Tensor]:
        """(R,) ids chosen under the penalty, (R,) whether the raw logits would have chosen another."""
        raw = greedy_choice(self.logits[:, None])
        if not self.logits.gather(1, raw).isfinite().all():  # argmax takes NaN for the largest
            raise BrokenLogits("the model's logits are not numbers (NaN or infinite)")
        chosen = greedy_choice(penalised(self.logits, self.history, self.penalties)[:, None])
        return chosen[:, 0], (chosen != raw)[:, 0]

    def keep(self, rows: Tensor) -> None:
        """Drop every row but these (indices)."""
        self.cache.batch_select_indices(rows)
        self.logits, self.history = self.logits[rows], self.history[rows]
        self.mask, self.penalties = self.mask[rows], self.penalties[rows]

    def advance(self, model: PreTrainedModel, tokens: Tensor) -> None:
        """Append one token (R,) to every row and compute the logits after it."""
        self.history = torch.cat([self.history, tokens[:, None]], dim=1)
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        positions = self.mask.sum(1, keepdim=True) - 1
        logits = decode_step(
            model, tokens[:, None], self.cache, attention_mask=self.mask, position_ids=positions
        )  # fmt: skip
        self.logits = logits[:, -1].float()


def greedy_replies(  # noqa: PLR0913 (each is a fact of the protocol that a caller must state)
    model: PreTrainedModel,
    prompts: Sequence[Tensor],
    *,
    penalties: Sequence[float],
    max_new_tokens: int,
    end_ids: Collection[int],
    batch: int = 64,
    share_prefix: bool = True,
) -> list[list[Reply]]:
    """Greedy replies, first index the penalty, second the prompt; prompts are (T,) int64, of any lengths.

    batch: prompts per pass (times the penalties once replies are written); prompts of similar length go together.
    share_prefix: compute a common beginning of a batch's prompts once. max_new_tokens counts the ending id.
    Raises ValueError for an empty prompt, a penalty that is not positive, or a negative limit; BrokenLogits.
    """
    _refuse_bad_input(prompts, penalties, max_new_tokens, batch)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    replies: dict[int, list[Reply]] = {}
    for start in range(0, len(order), batch):
        members = order[start : start + batch]
        written = [_Draft() for _ in range(len(members) * len(penalties))]
        if max_new_tokens and written:
            rows = prefilled(model, [prompts[i] for i in members], share_prefix).repeated(penalties)
            _write(model, rows, written, max_new_tokens, frozenset(end_ids))
        done = [draft.reply() for draft in written]
        replies |= {i: done[n * len(penalties) : (n + 1) * len(penalties)] for n, i in enumerate(members)}
    return [[replies[i][k] for i in range(len(prompts))] for k in range(len(penalties))]


def penalised(logits: Tensor, history: Tensor, penalties: Tensor) -> Tensor:
    """A copy of the logits (R, vocab) with each row's penalty (R, 1) on the ids of its history (R, n).

    A penalty of exactly 1 leaves every bit as it was.
    """
    seen = logits.gather(1, history)
    return logits.scatter(1, history, torch.where(seen < 0, seen * penalties, seen / penalties))


def common_prefix(prompts: Sequence[Tensor]) -> int:
    """How many leading ids all prompts share, at most all but the last of the shortest; 0 where sharing cannot pay."""
    shortest = min(len(prompt) for prompt in prompts)
    heads = torch.stack([prompt[: shortest - 1] for prompt in prompts])
    length = int((heads == heads[0]).all(0).long().cumprod(0).sum())
    return length if length * (len(prompts) - 1) >= WORTH_A_PASS else 0


def prefilled(model: PreTrainedModel, prompts: Sequence[Tensor], share_prefix: bool = True) -> _Batch:
    """One pass over all prompts; with a common prefix, one over the prefix and one over the rest.

    The padding lies between prefix and rest, so that the prefix is at the same place in every row.
    """
    prompts = [prompt.to(model.device) for prompt in prompts]
    shared, width = common_prefix(prompts) if share_prefix else 0, max(len(prompt) for prompt in prompts)
    history = torch.stack([_padded(p, p[:1], shared, width) for p in prompts])
    mask = torch.stack([_padded(torch.ones_like(p), torch.zeros_like(p[:1]), shared, width) for p in prompts])
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    if shared:
        cache = prefill(model, history[:1, :shared]).cache
        cache.batch_repeat_interleave(len(prompts))
        logits = decode_step(
            model, history[:, shared:], cache, attention_mask=mask, position_ids=positions[:, shared:]
        )  # fmt: skip
    else:
        filled = prefill(model, history, attention_mask=mask, position_ids=positions)
        cache, logits = filled.cache, filled.logits
    rows = logits[:, -1].float()
    return _Batch(cache, rows, history, mask, torch.ones_like(rows[:, :1]))


class _Draft:
    """A reply in the making."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ended = False
        self.changed = 0

    def add(self, token: int, changed: bool, end_ids: Collection[int]) -> None:
        self.changed += changed
        self.ended = token in end_ids
        self.tokens += [] if self.ended else [token]

    def reply(self) -> Reply:
        return Reply(tuple(self.tokens), self.ended, self.changed)


def _write(
    model: PreTrainedModel, rows: _Batch, written: Sequence[_Draft], limit: int, end_ids: Collection[int]
) -> None:
    """Fill the drafts, one per row; a row that has ended leaves the batch at once."""
    alive = list(written)
    for step in range(limit):
        chosen, changed = rows.choices()
        for draft, token, differs in zip(alive, chosen.tolist(), changed.tolist(), strict=True):
            draft.add(token, differs, end_ids)
        on = [row for row, draft in enumerate(alive) if not draft.ended]
        if not on or step == limit - 1:
            return
        if len(on) < len(alive):
            kept = torch.tensor(on, device=chosen.device)
            rows.keep(kept)
            alive, chosen = [alive[row] for row in on], chosen[kept]
        rows.advance(model, chosen)


def _padded(row: Tensor, filler: Tensor, shared: int, width: int) -> Tensor:
    return torch.cat([row[:shared], filler.expand(width - len(row)), row[shared:]])


def _refuse_bad_input(prompts: Sequence[Tensor], penalties: Sequence[float], limit: int, batch: int) -> None:
    for number, prompt in enumerate(prompts):
        if prompt.ndim != 1 or not len(prompt):
            raise ValueError(f"prompt {number} is {tuple(prompt.shape)}, not (at least one token,)")
    if not all(0 < penalty < float("inf") for penalty in penalties):
        raise ValueError(f"a repetition penalty is a positive number, 1 for none; got {list(penalties)}")
    if limit < 0 or batch < 1:
        raise ValueError(f"cannot write {limit} tokens in batches of {batch}")
