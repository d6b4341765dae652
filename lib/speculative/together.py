"""Several replies speculated at once: every pass of the target, and of the draft, serves all that are still unfinished.

The tokens of all texts lie in one row (lib/serving/attention.py), each text with keys and values of its own, so
nothing is padded and nobody sees a neighbour. What a guess leaves behind its kept part is overwritten by what comes
next: the rollback is that nobody reads past a text's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.paged_cache.storage import PagedStorage
from lib.serving.attention import PackedRow, Span, packed_forward
from lib.serving.models import served_shape
from lib.speculative.decoding import Unfinished
from lib.speculative.drafts import Drafter, check_models, common
from lib.speculative.sampling import Proposal, Rule


@dataclass(frozen=True)
class Asked:
    """A text, by its number and its tokens; the logits after each of its last ``keep`` tokens are wanted."""

    number: int
    text: Sequence[int]
    keep: int


class PackedTexts:
    """A model that goes on with several texts in one pass, and goes back where one of them parts from what it read.

    texts: how many. longest: tokens that any of them may have. passes and positions: how many were computed. Raises
    UnsupportedModel for a model whose attention cannot be done per text.
    """

    def __init__(self, model: PreTrainedModel, texts: int, longest: int) -> None:
        self.model = model
        self.passes = self.positions = 0
        self._storage = PagedStorage(served_shape(model), texts, longest, model.dtype, model.device)
        self._groups = model.config.get_text_config().num_attention_heads // self._storage.shape.kv_heads
        self._read: list[list[int]] = [[] for _ in range(texts)]

    def logits(self, asked: Sequence[Asked]) -> list[Tensor]:
        """(keep, vocab) for each, in order; computes only what is not cached. Raises ValueError for a longer text."""
        spans, ids, places, wanted = list[Span](), list[int](), list[int](), list[int]()
        for one in asked:
            first = min(common(self._read[one.number], one.text), len(one.text) - one.keep)
            spans.append(Span(len(ids), len(one.text) - first, first, self._slots(one)))
            del self._read[one.number][first:]  # what lies there is overwritten, also by a pass that fails
            ids += one.text[first:]
            places += range(first, len(one.text))
            wanted += range(len(ids) - one.keep, len(ids))
        row, positions, kept = (torch.tensor(column, device=self.model.device) for column in (ids, places, wanted))
        packed = PackedRow(self._storage, spans, self._groups)
        found = packed_forward(self.model, row, positions, packed, kept)
        for one in asked:
            self._read[one.number] = list(one.text)
        self.passes, self.positions = self.passes + 1, self.positions + len(ids)
        return list(torch.split(found, [one.keep for one in asked]))

    def _slots(self, one: Asked) -> Tensor:
        size = self._storage.block_size
        if not 1 <= one.keep <= len(one.text) <= size:
            raise ValueError(f"{one.keep} logits of {len(one.text)} tokens, where at most {size} have room")
        return torch.arange(len(one.text), device=self.model.device) + one.number * size


@dataclass(frozen=True)
class Wanted:
    """A guess of at most ``count`` tokens after text ``number``, drawn by the reply's own rule."""

    number: int
    text: Sequence[int]
    count: int
    rule: Rule


class Drafters(Protocol):
    """What guesses for several texts at once."""

    def propose(self, wanted: Sequence[Wanted]) -> list[Proposal]:
        """A guess for each, in order."""


@dataclass(frozen=True)
class OneByOne:
    """A drafter that costs no pass, asked for each text in turn."""

    drafter: Drafter

    def propose(self, wanted: Sequence[Wanted]) -> list[Proposal]:
        """Each text's own guess."""
        return [self.drafter.propose(w.text, w.count, w.rule) if w.count else Proposal() for w in wanted]


class PackedDraft:
    """A model that guesses for all texts at once, token after token. Raises DraftRefused by way of ``check_models``."""

    def __init__(self, scorer: PackedTexts, target: PreTrainedModel) -> None:
        check_models(target, scorer.model)
        self.scorer = scorer

    def propose(self, wanted: Sequence[Wanted]) -> list[Proposal]:
        """Exactly as many tokens as are wanted."""
        tokens: list[list[int]] = [[] for _ in wanted]
        chances: list[list[Tensor]] = [[] for _ in wanted]
        for step in range(max((w.count for w in wanted), default=0)):
            going = [i for i, w in enumerate(wanted) if step < w.count]
            asked = [Asked(wanted[i].number, [*wanted[i].text, *tokens[i]], 1) for i in going]
            for i, logits in zip(going, self.scorer.logits(asked), strict=True):
                token, drawn_from = wanted[i].rule.draw(logits[0])
                tokens[i].append(token)
                chances[i] += [] if drawn_from is None else [drawn_from]
        return [Proposal(tuple(t), tuple(c) if c else None) for t, c in zip(tokens, chances, strict=True)]


def run_together(target: PackedTexts, drafters: Drafters, replies: Sequence[Unfinished]) -> None:
    """Bring replies to their end in rounds that all unfinished ones take part in; reply i is text i of the target."""
    while going := [(i, reply) for i, reply in enumerate(replies) if not reply.done]:
        wanted = [Wanted(i, *reply.wanted(), reply.rule) for i, reply in going]
        proposed = drafters.propose(wanted)
        guesses = [reply.cut(guess) for (_, reply), guess in zip(going, proposed, strict=True)]
        asked = [
            Asked(w.number, [*w.text, *guess.tokens], len(guess.tokens) + 1)
            for w, guess in zip(wanted, guesses, strict=True)
        ]
        for (_, reply), guess, logits in zip(going, guesses, target.logits(asked), strict=True):
            reply.keep(guess, reply.rule.judge(guess, logits))
