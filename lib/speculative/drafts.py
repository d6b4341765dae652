"""Where guesses come from: another model with its own cache, or the text itself; and which models cannot be a draft."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from lib.decoding import decode_step, prefill, rollback
from lib.speculative.sampling import Proposal, Rule

# Runs of spaces and digits, accents, an emoji, code: where tokenizers with like vocabularies part.
PROBE = "Harga  Rp 12.345,67 — naïve café 🙂\n\tdef f(x): return x**2"


class DraftRefused(ValueError):
    """This model cannot draft for this target."""


class Scorer(Protocol):
    """What gives logits for a text that grows and may lose its end again."""

    def logits(self, text: Sequence[int], keep: int) -> Tensor:
        """(keep, vocab): the logits after each of the last ``keep`` tokens of the text."""


class Drafter(Protocol):
    """What guesses how a text goes on."""

    def propose(self, text: Sequence[int], count: int, rule: Rule) -> Proposal:
        """At most ``count`` tokens after the text, drawn by the rule; fewer or none if it has no guess."""


class CachedModel:
    """A model and the keys and values of what it last read, rolled back to where a text parts from that.

    passes and positions: how many forward passes were run and how many positions they computed, prefill included.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.passes = self.positions = 0
        self._cache: Cache | None = None
        self._read: list[int] = []

    @property
    def cached(self) -> int:
        """Positions whose keys and values are held."""
        return len(self._read)

    def logits(self, text: Sequence[int], keep: int) -> Tensor:
        """(keep, vocab) after each of the last ``keep`` tokens; computes only positions that are not cached.

        Raises ValueError unless the text has that many tokens, and at least one is asked for.
        """
        if not 1 <= keep <= len(text):
            raise ValueError(f"logits of {keep} positions of a text of {len(text)} tokens")
        start = min(common(self._read, text), len(text) - keep)
        fed = torch.tensor([list(text[start:])])
        cache, self._cache, self._read = self._cache, None, []  # a pass that fails leaves nothing to go on from
        if cache is None or start == 0:
            filled = prefill(self.model, fed, keep)
            cache, logits = filled.cache, filled.logits
        else:
            rollback(cache, start)
            logits = decode_step(self.model, fed, cache, keep)
        self._cache, self._read = cache, list(text)
        self.passes, self.positions = self.passes + 1, self.positions + fed.shape[1]
        return logits[0]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two texts have in common at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


class ModelDraft:
    """A smaller or coarser model that guesses token after token, with a cache of its own.

    around: entered while the draft runs, for a draft that borrows the target's modules (a quantized self whose weights
    are put in place and taken out again). Raises DraftRefused by way of ``check_models``; whoever has the tokenizers
    asks ``check_tokenizers`` too.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        target: PreTrainedModel,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        check_models(target, model)
        self.scorer = CachedModel(model)
        self._around = around

    def propose(self, text: Sequence[int], count: int, rule: Rule) -> Proposal:
        """Exactly ``count`` tokens, each drawn after those before it."""
        with self._around():
            return drawn(self.scorer, text, count, rule)


@dataclass(frozen=True)
class ScorerDraft:
    """Guesses by whatever scores the target's own ids; nothing is checked."""

    scorer: Scorer

    def propose(self, text: Sequence[int], count: int, rule: Rule) -> Proposal:
        """Exactly ``count`` tokens, each drawn after those before it."""
        return drawn(self.scorer, text, count, rule)


def drawn(scorer: Scorer, text: Sequence[int], count: int, rule: Rule) -> Proposal:
    """``count`` tokens drawn one after another, each with the chances that it really was drawn from."""
    guessed: list[int] = []
    chances: list[Tensor] = []
    for _ in range(count):
        token, drawn_from = rule.draw(scorer.logits([*text, *guessed], 1)[0])
        guessed.append(token)
        chances += [] if drawn_from is None else [drawn_from]
    return Proposal(tuple(guessed), tuple(chances) if chances else None)


class PromptLookup:
    """Guesses that the text goes on as it did when its last tokens stood in it before; costs no pass of any model.

    The longest run of last tokens, from ``longest`` down to ``shortest``, that stood earlier; its earliest place, as
    in the code of Saxena (Prompt Lookup Decoding, 2023, github.com/apoorvumang/prompt-lookup-decoding). Raises
    ValueError unless 1 <= shortest <= longest.
    """

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"runs of {shortest} to {longest} tokens")
        self.lengths = range(longest, shortest - 1, -1)

    def propose(self, text: Sequence[int], count: int, rule: Rule) -> Proposal:
        """What followed there, at most ``count`` tokens and up to the text's end; nothing if they never stood there."""
        held = list(text)
        for length in self.lengths:
            tail = held[-length:]
            for start in range(len(held) - length):  # the last place is the tail itself
                if held[start : start + length] == tail:
                    return Proposal(tuple(held[start + length : start + length + count]))
        return Proposal()


def twin(model: PreTrainedModel) -> PreTrainedModel:
    """A second model over the same numbers, which takes no memory for them: the draft a quantized self is made of.

    Its parameters are objects of their own (tied ones stay tied) that point at the model's storage. Pointing one at
    other numbers, as ``lib.quantization.swap`` does, leaves the model as it was; writing into one would not.
    """
    parameters = {id(p): nn.Parameter(p.data, requires_grad=p.requires_grad) for p in model.parameters()}
    buffers = {id(buffer): buffer for buffer in model.buffers()}
    return copy.deepcopy(model, {**parameters, **buffers})


def check_models(target: PreTrainedModel, draft: PreTrainedModel) -> None:
    """Raises DraftRefused if their logits are of different vocabularies or the two are on different devices."""
    ours, theirs = (model.config.get_text_config().vocab_size for model in (target, draft))
    if ours != theirs:
        raise DraftRefused(
            f"vocabularies of different size: the target scores {ours} ids, the draft {theirs}; p/q has no meaning"
        )
    if target.device != draft.device:
        raise DraftRefused(f"the target is on {target.device}, the draft on {draft.device}; put both on one device")


def check_tokenizers(target: PreTrainedTokenizerBase, draft: PreTrainedTokenizerBase) -> None:
    """Raises DraftRefused unless an id means the same text to both and both cut a text into the same ids."""
    ours, theirs = ({i: token for token, i in each.get_vocab().items()} for each in (target, draft))
    if ours != theirs:
        i = min(i for i in ours.keys() | theirs.keys() if ours.get(i) != theirs.get(i))
        raise DraftRefused(
            f"different tokenizers: id {i} is {ours.get(i)!r} to the target, {theirs.get(i)!r} to the draft"
        )
    if target.encode(PROBE) != draft.encode(PROBE):
        raise DraftRefused(f"different tokenizers: of one vocabulary, but they cut {PROBE!r} into different ids")
