"""Greedy replies to many prompts at once, under several repetition penalties, each as if it were alone.

Rows are padded on the left, hidden by the attention mask, and carry their own positions, so models with absolute
positions are right too. Penalties share a row until their choices part. What a batch changes is the order of
summation: tokens equal those of a solo run except where two logits are closer than rounding.

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
from lib.unmeasurable import Unmeasurable

# A pass over one position already reads all the weights, which costs as much as the arithmetic of some 16 positions on
# the CPUs this was measured on; a pass of its own for the common prefix must save clearly more than that.
WORTH_A_PASS = 32


class BrokenLogits(Unmeasurable):
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
    """The rows still being written, R of them; a row serves every penalty whose choices have been the same so far.

    logits: (R, vocab) of the next token. history: (R, n) ids so far. mask: (R, n), 0 for padding.
    """

    cache: Cache
    logits: Tensor
    history: Tensor
    mask: Tensor

    def raw_choices(self) -> Tensor:
        """(R,) ids of the highest logits. Raises BrokenLogits."""
        raw = greedy_choice(self.logits[:, None])
        if not self.logits.gather(1, raw).isfinite().all():  # argmax takes NaN for the largest
            raise BrokenLogits("the model's logits are not numbers (NaN or infinite)")
        return raw[:, 0]

    def choices(self, penalty: float) -> Tensor:
        """(R,) ids chosen under a penalty."""
        per_row = self.logits.new_full((len(self.logits), 1), penalty)
        return greedy_choice(penalised(self.logits, self.history, per_row)[:, None])[:, 0]

    def take(self, rows: Sequence[int]) -> None:
        """Go on with these rows only; a row named twice goes on as two."""
        if list(rows) == list(range(len(self.history))):
            return
        index = torch.tensor(rows, device=self.history.device)
        self.cache.batch_select_indices(index)
        self.logits, self.history, self.mask = (t[index] for t in (self.logits, self.history, self.mask))

    def advance(self, model: PreTrainedModel, tokens: Sequence[int]) -> None:
        """Append one token to every row and compute the logits after it."""
        column = torch.tensor(tokens, device=self.history.device)[:, None]
        self.history = torch.cat([self.history, column], dim=1)
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], dim=1)
        positions = self.mask.sum(1, keepdim=True) - 1
        logits = decode_step(model, column, self.cache, attention_mask=self.mask, position_ids=positions)
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
    written = [[_Draft(penalty) for penalty in penalties] for _ in prompts]
    for start in range(0, len(order) if max_new_tokens and penalties else 0, batch):
        members = order[start : start + batch]
        rows = prefilled(model, [prompts[i] for i in members], share_prefix)
        _write(model, rows, [written[i] for i in members], max_new_tokens, frozenset(end_ids))
    return [[written[i][k].reply() for i in range(len(prompts))] for k in range(len(penalties))]


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
    return _Batch(cache, logits[:, -1].float(), history, mask)


class _Draft:
    """A reply in the making, under one penalty."""

    def __init__(self, penalty: float) -> None:
        self.penalty = penalty
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
    model: PreTrainedModel, rows: _Batch, written: Sequence[list[_Draft]], limit: int, end_ids: Collection[int]
) -> None:
    """Fill the drafts; written: those of each row. A row parts where they do, and leaves the batch when all ended."""
    alive = list(written)
    for step in range(limit):
        raw = rows.raw_choices().tolist()
        chosen = {p: rows.choices(p).tolist() for p in {draft.penalty for drafts in alive for draft in drafts}}
        parted = []
        for row, drafts in enumerate(alive):
            for draft in drafts:
                token = chosen[draft.penalty][row]
                draft.add(token, token != raw[row], end_ids)
            parted += [(row, *part) for part in _by_last_token(drafts).items()]
        if not parted or step == limit - 1:
            return
        kept, tokens, alive = (list(column) for column in zip(*parted, strict=True))
        rows.take(kept)
        rows.advance(model, tokens)


def _by_last_token(drafts: Sequence[_Draft]) -> dict[int, list[_Draft]]:
    """The drafts that go on, together where they ended in the same token."""
    parts: dict[int, list[_Draft]] = {}
    for draft in drafts:
        if not draft.ended:
            parts.setdefault(draft.tokens[-1], []).append(draft)
    return parts


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
