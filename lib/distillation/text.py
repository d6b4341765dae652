"""Lessons from real text and a real teacher: what a language model, or its first blocks alone, expects at each token.

A small student cannot hold a vocabulary of 150,000 ids, so all are asked about the same few symbols: the ids that
occur at least twice in these texts. The teacher's distribution is renormalized over them (its softmax over their
logits alone), tokens whose successor is another id are left out, and the student reads the two last tokens, with one
extra symbol for every other id.

A teacher that is worse in earnest comes free of charge: the final norm and output matrix read the stream after any
block (the "logit lens"; the last block's is the model itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.activations import residual_stream
from lib.clusters import cluster_mean
from lib.distillation.students import Evaluate, Lessons, Student, student_logits, symbol_losses
from lib.intervals import Estimate
from lib.unmeasurable import Unmeasurable


@dataclass(frozen=True)
class Judged:
    """R tokens of text, each with what came before and after, and with what teachers of several depths expect.

    inputs: (R, 2) symbols. true: (R,) the symbol that came next. piece: (R,) which text. teachers: blocks → (R, V).
    """

    inputs: Tensor
    true: Tensor
    piece: Tensor
    teachers: dict[int, Tensor]

    def teacher_loss(self, blocks: int) -> float:
        """Mean loss of a teacher on these tokens, nats."""
        return float(-self.teachers[blocks].gather(1, self.true.unsqueeze(1)).mean())


def read_out(model: PreTrainedModel, stream: Tensor, ids: Tensor | None = None) -> Tensor:
    """(…, V) logits that the final norm and the output matrix give a residual stream (…, D), of some ids (V,) or all.

    Raises Unmeasurable for an architecture that keeps its final norm elsewhere than at `.norm`.
    """
    norm, head = getattr(model.base_model, "norm", None), model.get_output_embeddings()
    if norm is None or head is None:
        raise Unmeasurable(f"{type(model).__name__} has no norm and output matrix where this looks for them")
    rows: Tensor = head.weight if ids is None else head.weight[ids.to(head.weight.device)]
    with torch.no_grad():
        logits: Tensor = norm(stream.to(rows.device, rows.dtype)) @ rows.T
    return logits.float().cpu()


def judge(model: PreTrainedModel, ids: Tensor, depths: Sequence[int], least: int = 2) -> Judged:
    """Ask the model after each of `depths` blocks (its number of blocks: the model itself) about texts (P, N + 1).

    least: how often an id must occur to become a symbol. Raises Unmeasurable where fewer than two do.
    """
    symbols = frequent(ids, least)
    known = as_symbols(ids, symbols)
    before = torch.cat([torch.full_like(known[:, :1], len(symbols)), known[:, :-2]], 1)
    kept = known[:, 1:] < len(symbols)  # (P, N)
    stream = residual_stream(model, ids[:, :-1], last_block=max(depths) - 1)  # (L, P, N, D)
    teachers = {d: read_out(model, stream[d - 1][kept], symbols).log_softmax(-1) for d in depths}
    piece = torch.arange(len(ids)).unsqueeze(1).expand_as(kept)
    return Judged(torch.stack([before, known[:, :-1]], -1)[kept], known[:, 1:][kept], piece[kept], teachers)


def frequent(ids: Tensor, least: int) -> Tensor:
    """The ids that occur at least so often, ascending. Raises Unmeasurable where fewer than two do."""
    found, counts = torch.unique(ids, return_counts=True)
    symbols: Tensor = found[counts >= least]
    if len(symbols) < 2:
        raise Unmeasurable(f"only {len(symbols)} ids occur {least} times: no distribution to learn")
    return symbols


def as_symbols(ids: Tensor, symbols: Tensor) -> Tensor:
    """Places of ids among ascending symbols (V,); V for an id that is none of them."""
    places = torch.searchsorted(symbols, ids).clamp_max(len(symbols) - 1)
    return torch.where(symbols[places] == ids, places, len(symbols))


@dataclass(frozen=True)
class Split:
    """S ways to divide the texts: lesson rows (S, N) and held-out rows (S, M); every text is held out by one student.

    Cut to the shortest, so that all students have equally many.
    """

    train: Tensor
    held: Tensor


def split_by_text(judged: Judged, ways: int, share: float = 1.0, seed: int = 0) -> Split:
    """Text p is held out by student p mod `ways`. share: of the other texts' tokens that are taught, drawn at random.

    Raises ValueError where a student would be left with no lesson or nothing to be examined on.
    """
    generator = torch.Generator().manual_seed(seed)
    held = [(judged.piece % ways == s).nonzero().squeeze(1) for s in range(ways)]
    rest = [(judged.piece % ways != s).nonzero().squeeze(1) for s in range(ways)]
    shuffled = [rows[torch.randperm(len(rows), generator=generator)] for rows in rest]
    lessons, exam = int(share * min(map(len, rest))), min(map(len, held))
    if lessons < 1 or exam < 1:
        raise ValueError(f"{ways} ways leave {lessons} lessons and {exam} tokens to be examined on")
    return Split(torch.stack([rows[:lessons] for rows in shuffled]), torch.stack([rows[:exam] for rows in held]))


def text_lessons(judged: Judged, split: Split, teacher: Tensor) -> Lessons:
    """The lessons of a split by one teacher (R, V) of log probabilities."""
    return Lessons(judged.inputs, teacher.unsqueeze(0), split.train, judged.true[split.train])


def examiner(judged: Judged, split: Split) -> Evaluate:
    """Losses (S, M) in nats on each student's held-out texts, against the tokens that really came."""

    def losses(student: Student) -> Tensor:
        return symbol_losses(student_logits(student, judged.inputs[split.held]), judged.true[split.held])

    return losses


def only_top(teacher: Tensor, k: int) -> Tensor:
    """The teacher's k most probable symbols, renormalized; log probabilities (R, V), the rest far below any other."""
    least = teacher.topk(k).values[..., -1:]
    return teacher.masked_fill(teacher < least, -1e4).log_softmax(-1)


def gain(judged: Judged, split: Split, first: Tensor, second: Tensor) -> Estimate:
    """Mean of first - second, held-out losses (S, M), in nats per token: positive where the second learned more.

    With the interval over texts (`lib.clusters`): tokens of one text are not independent. Students share lessons, so
    that it says how much depends on the texts that are read, not on the ones that are taught.
    """
    pieces, differences = judged.piece[split.held].flatten(), (first - second).flatten()
    return cluster_mean([differences[pieces == p].tolist() for p in torch.unique(pieces)])
