"""Languages whose next-token distribution is known exactly: random Markov chains of order two over V symbols.

The truth that a real teacher only approximates is here a table, so a student's held-out loss is an exact expectation
over every context rather than an average over a sample, and the best loss possible is the chain's entropy rate.

Several chains are held together, one per seed, in tensors with a leading dimension S: what is trained on them is
paired by seed. A context (a, b) has the index a * V + b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.distillation.students import DRAWN_AT_ONCE, Evaluate, Lessons, Student, draw, gather_rows, student_logits
from lib.distillation.temperature import entropy

# Power iteration stops when a step moves less mass than this: 2^10 roundings of a mass of 1 in float64.
_SETTLED = 2.0**-43
_MAX_STEPS = 10_000  # of the iteration: a chain that is unsettled after them is refused


@dataclass(frozen=True)
class Chains:
    """log_probs: (S, V², V) nats, float64. stationary: (S, V²), how often each context occurs in the long run."""

    log_probs: Tensor
    stationary: Tensor

    @property
    def symbols(self) -> int:
        """V."""
        return self.log_probs.shape[-1]

    def contexts(self) -> Tensor:
        """(V², 2) the two symbols of every context."""
        return torch.cartesian_prod(torch.arange(self.symbols), torch.arange(self.symbols))

    def entropy_rate(self) -> Tensor:
        """(S,) nats per symbol: no predictor of these chains has a lower expected loss."""
        return (self.stationary * entropy(self.log_probs.exp())).sum(-1)

    def expected_loss(self, predicted: Tensor) -> Tensor:
        """(S,) nats: exact cross-entropy of predicted log probabilities (S, V², V) over all contexts and successors."""
        per_context = -(self.log_probs.exp() * predicted.double()).sum(-1)
        return (self.stationary * per_context).sum(-1)


def random_chains(seeds: Sequence[int], symbols: int, rank: int = 16, sharpness: float = 2.0) -> Chains:
    """One chain per seed: logits = sharpness * tanh(A[a] + B[b]) @ O / sqrt(rank), with A, B, O standard normal.

    The rank makes contexts resemble one another, so that there is something to generalize; sharpness is roughly the
    standard deviation of the logits over its 0.8. Every successor is possible, so the chain settles.
    Raises ValueError on fewer than two symbols or no seeds.
    """
    if symbols < 2 or not seeds:
        raise ValueError(f"needs at least two symbols and one seed, got {symbols} and {list(seeds)}")
    logits = torch.stack([_random_logits(seed, symbols, rank, sharpness) for seed in seeds])
    return chains_of(logits)


def chains_of(logits: Tensor) -> Chains:
    """Chains with these logits (S, V², V). Raises ValueError on another shape."""
    if logits.ndim != 3 or logits.shape[1] != logits.shape[2] ** 2:
        raise ValueError(f"needs logits of shape (S, V * V, V), got {tuple(logits.shape)}")
    log_probs = logits.double().log_softmax(-1)
    return Chains(log_probs, _stationary(log_probs.exp()))


def misjudged(chains: Chains, spread: float, seed: int = 0) -> Tensor:
    """A teacher who errs: log probabilities (S, V², V) of the chains with normal noise of this spread on each logit."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(chains.log_probs.shape, generator=generator, dtype=torch.float64)
    return (chains.log_probs + spread * noise).log_softmax(-1)


def lessons_of(chains: Chains, teacher: Tensor, tokens: int, seed: int = 0) -> Lessons:
    """Lessons on contexts drawn independently, as often as they occur; equal seeds share contexts and true symbols.

    teacher: log probabilities (S, V², V), `chains.log_probs` for one who knows the truth. ValueError on no tokens.
    """
    if tokens < 1:
        raise ValueError(f"a student without data learns nothing: {tokens} tokens")
    generator = torch.Generator().manual_seed(seed)
    rows = torch.multinomial(chains.stationary, tokens, replacement=True, generator=generator)
    parts: tuple[Tensor, ...] = rows.split(DRAWN_AT_ONCE, 1)  # type: ignore[no-untyped-call]
    true = torch.cat([draw(gather_rows(chains.log_probs, part), generator) for part in parts], 1)
    return Lessons(chains.contexts(), teacher, rows, true)


def held_out(chains: Chains) -> Evaluate:
    """Students' exact expected loss over every context of their chains, (S, 1) nats."""
    every = chains.contexts().expand(len(chains.log_probs), -1, -1)

    def loss(student: Student) -> Tensor:
        return chains.expected_loss(student_logits(student, every).double().log_softmax(-1)).unsqueeze(-1)

    return loss


def _random_logits(seed: int, symbols: int, rank: int, sharpness: float) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(symbols, rank, generator=generator, dtype=torch.float64) for _ in range(2))
    out = torch.randn(rank, symbols, generator=generator, dtype=torch.float64)
    features = torch.tanh(first[:, None] + second[None]).view(symbols * symbols, rank)
    logits: Tensor = features @ out * (sharpness / rank**0.5)
    return logits


def _stationary(probs: Tensor) -> Tensor:
    """(S, V²) by power iteration over pairs: (a, b) goes to (b, c) with P(c | a, b)."""
    chains, contexts, symbols = probs.shape
    successors = probs.view(chains, symbols, symbols, symbols)  # (S, a, b, c)
    mass = torch.full((chains, symbols, symbols), 1 / contexts, dtype=torch.float64)
    for _ in range(_MAX_STEPS):
        moved = torch.einsum("sab,sabc->sbc", mass, successors)
        if float((moved - mass).abs().sum(dim=(1, 2)).max()) < _SETTLED:
            return moved.view(chains, contexts)
        mass = moved
    raise ValueError("the chain does not settle: some symbol may never be reached")
