"""Small students of the same lessons, told different things about what follows.

soft      the teacher's whole distribution                  sampled   one symbol drawn from the teacher
argmax    the teacher's most probable symbol, every time    true      the symbol that really came next

Everything else is equal within a student: lessons, initial weights, order of batches, steps. So differences are
paired. All S students train at once in batched matrix products; Adam is elementwise, so they do not see one another.
Every student reads two symbols, and has fewer hidden units than it would need to become its teacher.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from lib.unmeasurable import Unmeasurable

Student = tuple[Tensor, ...]
Evaluate = Callable[[Student], Tensor]  # (S, M) nats: held-out losses, each counting alike within a student

DRAWN_AT_ONCE = 4096  # lessons, so that many of them do not take V float64 numbers each at once


class Labels(StrEnum):
    """What a student is told about each lesson."""

    SOFT = "soft"
    SAMPLED = "sampled"
    ARGMAX = "argmax"
    TRUE = "true"


@dataclass(frozen=True)
class Lessons:
    """What S students are taught, N lessons each, out of R situations that a teacher has judged.

    inputs: (R, 2) the two symbols read. teacher: log probabilities (S, R, V), or (1, R, V) for one teacher of all.
    rows: (S, N) the situation of every lesson. true: (S, N) the symbol that really came next.
    """

    inputs: Tensor
    teacher: Tensor
    rows: Tensor
    true: Tensor

    def __post_init__(self) -> None:
        if self.rows.shape != self.true.shape or self.rows.ndim != 2 or 0 in self.rows.shape:
            raise ValueError(f"lessons are (students, at least one), got {tuple(self.rows.shape)} {self.true.shape}")
        if len(self.teacher) not in {1, len(self.rows)} or self.teacher.shape[1] != len(self.inputs):
            raise ValueError(f"a teacher of {tuple(self.teacher.shape)} cannot judge {len(self.inputs)} situations")
        sums = self.teacher.exp().sum(-1)
        if bool(sums.isnan().any()):
            raise Unmeasurable("the teacher's chances are no numbers: some situation is without a distribution")
        if not bool((sums > 0.5).all()):  # an empty row sums to 0
            raise ValueError("the teacher leaves some situation without a distribution")

    def told(self, picks: Tensor) -> Tensor:
        """(S, N', V) the teacher's log probabilities for the lessons at positions (N',)."""
        return gather_rows(self.teacher.expand(len(self.rows), -1, -1), self.rows[:, picks])


@dataclass(frozen=True)
class Recipe:
    """How to train. Lessons are revisited until `steps` batches are through; the rate falls to 0.

    temperature: of both distributions under soft labels, with T² on the loss; hard labels ignore it.
    """

    steps: int = 600
    batch: int = 256
    hidden: int = 8
    rate: float = 0.02
    temperature: float = 1.0
    checkpoints: int = 20

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.hidden, self.checkpoints) < 1 or not 0 < self.temperature < float("inf"):
            raise ValueError(f"needs steps, batch, hidden, checkpoints and a positive finite temperature, got {self}")


@dataclass(frozen=True)
class Trained:
    """Held-out losses (S, M): after the last step, and at each student's best checkpoint (an oracle's early stop).

    The best is generous to labels that can be overfitted: no real run could stop there without the held-out text.
    """

    final: Tensor
    best: Tensor
    student: Student


def new_students(students: int, inputs: int, outputs: int, hidden: int, seed: int = 0) -> Student:
    """Weights for S students: two embeddings (S, inputs, h), hidden bias (S, 1, h), output (S, h, V) and its bias."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(students, inputs, hidden, generator=generator) / 2 for _ in range(2))
    out = torch.randn(students, hidden, outputs, generator=generator) / hidden**0.5
    biases = torch.zeros(students, 1, hidden), torch.zeros(students, 1, outputs)
    return tuple(w.requires_grad_() for w in (first, second, biases[0], out, biases[1]))


def student_logits(student: Student, pairs: Tensor) -> Tensor:
    """(S, N, V) logits for pairs of symbols (S, N, 2): tanh of the sum of both embeddings, then one linear layer."""
    first, second, bias, out, out_bias = student
    hidden = torch.tanh(gather_rows(first, pairs[..., 0]) + gather_rows(second, pairs[..., 1]) + bias)
    return torch.baddbmm(out_bias, hidden, out)


def soft_loss(logits: Tensor, told: Tensor, temperature: float) -> Tensor:
    """T² times the soft cross-entropy, (S,) means over lessons; logits and log probabilities (S, N, V)."""
    target = (told / temperature).softmax(-1)
    return -(target * (logits / temperature).log_softmax(-1)).sum(-1).mean(-1) * temperature**2


def symbol_losses(logits: Tensor, symbols: Tensor) -> Tensor:
    """Cross-entropy of hard labels (S, N) in nats, one each, for logits (S, N, V)."""
    return -logits.log_softmax(-1).gather(-1, symbols.unsqueeze(-1)).squeeze(-1)


def hard_labels(lessons: Lessons, labels: Labels, generator: torch.Generator) -> Tensor:
    """(S, N) one symbol per lesson, the same at every visit. Raises ValueError for soft labels."""
    if labels == Labels.SOFT:
        raise ValueError("a soft label is a distribution, no symbol")
    if labels == Labels.TRUE:
        return lessons.true
    if labels == Labels.ARGMAX:
        return lessons.teacher.argmax(-1).expand(len(lessons.rows), -1).gather(1, lessons.rows)
    every = torch.arange(lessons.rows.shape[1])
    return torch.cat([draw(lessons.told(part), generator) for part in every.split(DRAWN_AT_ONCE)], 1)  # type: ignore[no-untyped-call]


def train(lessons: Lessons, labels: Labels, recipe: Recipe, evaluate: Evaluate, seed: int = 0) -> Trained:
    """Train one student per row of lessons; equal seeds share initial weights and batches across kinds of labels."""
    draws = torch.Generator().manual_seed(seed)
    order = torch.randint(lessons.rows.shape[1], (recipe.steps, recipe.batch), generator=draws)
    known = None if labels == Labels.SOFT else hard_labels(lessons, labels, draws)  # drawn last
    symbols = int(lessons.inputs.max()) + 1
    student = new_students(len(lessons.rows), symbols, lessons.teacher.shape[-1], recipe.hidden, seed)
    optimizer = torch.optim.Adam(student, lr=recipe.rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=recipe.steps)
    losses = [_evaluated(evaluate, student)]
    for step, picks in enumerate(order, start=1):
        logits = student_logits(student, lessons.inputs[lessons.rows[:, picks]])
        if known is None:
            loss = soft_loss(logits, lessons.told(picks).float(), recipe.temperature)
        else:
            loss = symbol_losses(logits, known[:, picks]).mean(-1)
        _step(optimizer, loss.sum())
        schedule.step()
        if step in _checkpoints(recipe):
            losses.append(_evaluated(evaluate, student))
    return Trained(losses[-1], _best(torch.stack(losses)), tuple(w.detach() for w in student))


def gather_rows(table: Tensor, rows: Tensor) -> Tensor:
    """(S, N, V) rows of a table (S, R, V) at indices (S, N)."""
    return table.gather(1, rows.unsqueeze(-1).expand(-1, -1, table.shape[-1]))


def draw(log_probs: Tensor, generator: torch.Generator) -> Tensor:
    """(…) one symbol per row of log probabilities (…, V), by the Gumbel maximum; a uniform of 0 becomes the least."""
    uniform = torch.rand(log_probs.shape, generator=generator, dtype=torch.float64)
    noise = -(-uniform.clamp_min(torch.finfo(torch.float64).tiny).log()).log()
    return (log_probs + noise).argmax(-1)


def _checkpoints(recipe: Recipe) -> range:
    return range(recipe.steps, 0, -max(1, recipe.steps // recipe.checkpoints))


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


@torch.no_grad()
def _evaluated(evaluate: Evaluate, student: Student) -> Tensor:
    return evaluate(student)


def _best(losses: Tensor) -> Tensor:
    """(S, M) out of (checkpoints, S, M): of every student the checkpoint with the lowest mean."""
    chosen = losses.mean(-1).argmin(0)
    return losses[chosen, torch.arange(losses.shape[1])]
