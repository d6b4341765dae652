"""One quantization scheme measured three ways in one visit: loss, choice of the next token, answers to questions.

A scheme is visited once: its matrices are swapped in, every text is scored and every question answered, and they are
swapped out. Each text takes one pass, which yields its loss, its choices and its distance from the reference at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor
from transformers import PreTrainedModel

from lib.batched_decoding import BrokenLogits, Reply, greedy_replies
from lib.battery import Question
from lib.quantization.schemes import Scheme
from lib.quantization.swap import WeightSwap
from lib.scoring import Scores, open_head, score
from lib.token_flops import TokenFlops
from lib.unmeasurable import Unmeasurable

REFERENCE = "reference"
OWN = "own"  # the text that the unquantized model wrote itself


class NotANumber(Unmeasurable):
    """A broken model's loss is not a number: nothing can be compared with it."""


@dataclass(frozen=True)
class Quiz:
    """Questions with their prompts as token ids (T,), and how they are answered."""

    questions: tuple[Question, ...]
    prompts: tuple[Tensor, ...]
    penalties: tuple[float, ...]
    max_new_tokens: int


@dataclass(frozen=True)
class Workload:
    """What a scheme is put through.

    windows: text name → ids (B, n + 1), one window per row. divergence: the texts for which the whole distribution is
    compared with the reference's, not only the choice.
    """

    windows: Mapping[str, Tensor]
    divergence: frozenset[str]
    quizzes: Mapping[str, Quiz]


@dataclass(frozen=True)
class Row:
    """One scheme measured. replies: quiz → penalty → the replies in the order of its questions."""

    scheme: str
    scores: Mapping[str, Scores]
    replies: Mapping[str, Mapping[float, list[Reply]]]
    seconds: float
    flops: int
    broken: str = ""

    def of(self, text: str) -> Scores:
        """The scores of one text. Raises NotANumber where a loss is none."""
        found = self.scores[text]
        if not found.finite:
            raise NotANumber(f"{self.scheme} on {text}: the loss is not a number")
        return found


def visit(  # noqa: PLR0913 (the model, what is done to it, what it is put through)
    model: PreTrainedModel,
    swap: WeightSwap,
    scheme: Scheme | None,
    workload: Workload,
    end_ids: frozenset[int],
    *,
    reference: Row | None = None,
    head: Tensor | None = None,
) -> Row:
    """Measure one scheme (None: the unquantized model, which keeps its hidden states for the others to be held to).

    head: what `open_head` returned for this model, which does not depend on the scheme; None looks anew.
    """
    head, started = open_head(model) if head is None else head, time.perf_counter()
    with swap.quantized(scheme), TokenFlops(model) as flops:
        scores = {name: _score(model, head, name, workload, reference) for name in workload.windows}
        replies, broken = _replies(model, workload.quizzes, end_ids)
    seconds = time.perf_counter() - started
    compared = [s.loss.numel() * (1 if s.divergence is None else 2) for s in scores.values()]
    return Row(scheme.slug if scheme else REFERENCE, scores, replies, seconds, flops.total(sum(compared)), broken)


def _score(model: PreTrainedModel, head: Tensor, name: str, workload: Workload, reference: Row | None) -> Scores:
    compared = name in workload.divergence
    hidden = reference.scores[name].hidden if reference is not None and compared else None
    first = reference is None
    windows = workload.windows[name]
    return score(model, head, windows, reference=hidden, keep_hidden=first and compared, keep_lead=first)


def _replies(
    model: PreTrainedModel, quizzes: Mapping[str, Quiz], end_ids: frozenset[int]
) -> tuple[dict[str, dict[float, list[Reply]]], str]:
    """Every quiz answered; a model whose logits are not numbers answers nothing, and the reason is kept."""
    found: dict[str, dict[float, list[Reply]]] = {}
    broken = ""
    for name, quiz in quizzes.items():
        try:
            by_penalty = greedy_replies(
                model, quiz.prompts, penalties=quiz.penalties, max_new_tokens=quiz.max_new_tokens, end_ids=end_ids
            )
        except BrokenLogits as error:
            broken = str(error)
            by_penalty = [[Reply((), False, 0) for _ in quiz.prompts] for _ in quiz.penalties]
        found[name] = dict(zip(quiz.penalties, by_penalty, strict=True))
    return found, broken
