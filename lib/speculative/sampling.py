"""What becomes of a drafted token: kept or replaced, in such a way that the target's distribution stays what it is.

The rule is that of Leviathan, Kalman and Matias (Fast Inference from Transformers via Speculative Decoding, 2023,
arXiv:2211.17192): a token x drawn from the draft's q is kept with chance min(1, p(x)/q(x)), p being the target's; the
first that is not kept is replaced by a draw from (p - q)+, normalised; if all are kept, the target adds one of its own.
p and q are what sampling really draws from: temperature, top_k and top_p come before the ratio, on both sides.

Everything here that is left to chance goes through ``Draws``, so that ``lib.speculative.enumeration`` can put every
outcome in its place and add up what the rule makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from lib.greedy_compare import top2_gap
from lib.serving.requests import Sampling
from lib.serving.sampling import Chooser, choice, choose, filtered
from lib.unmeasurable import Unmeasurable

NOT_NUMBERS = "logits that are not numbers (NaN or infinite)"


class Draws(Protocol):
    """Where chance comes from."""

    def token(self, chances: Tensor) -> int:
        """An id drawn from these chances, (vocab,)."""

    def accepts(self, chance: float) -> bool:
        """True with this chance."""


class SeededDraws:
    """Draws by a generator of its own, in the way of ``lib.serving.sampling``.

    Each draw of a token takes as much noise as a Chooser of this seed does for one choice. So a run in which nothing
    is drafted draws the tokens that plain sampling with the seed draws.
    """

    def __init__(self, seed: int) -> None:
        self._chooser = Chooser(Sampling(seed))

    def token(self, chances: Tensor) -> int:
        """An id drawn from these chances, (vocab,) float64. Raises ValueError if they are not numbers."""
        return choice(self._chooser.scores(chances.log()))

    def accepts(self, chance: float) -> bool:
        """True with this chance; what is certain takes no noise."""
        if chance >= 1 or chance <= 0:
            return chance >= 1
        return self.token(torch.tensor([chance, 1 - chance], dtype=torch.float64)) == 0


@dataclass(frozen=True)
class Proposal:
    """tokens: what the draft guesses comes next. chances: the q that each was drawn from, (vocab,) float64 on the CPU.

    chances None: nothing was drawn, each token was certain to be proposed (a greedy draft, prompt lookup).
    """

    tokens: tuple[int, ...] = ()
    chances: tuple[Tensor, ...] | None = None

    def __post_init__(self) -> None:
        if self.chances is not None and len(self.chances) != len(self.tokens):
            raise ValueError(f"{len(self.tokens)} drafted tokens with the chances of {len(self.chances)}")

    def first(self, count: int) -> Proposal:
        """No more than the first ``count`` of it."""
        return Proposal(self.tokens[:count], None if self.chances is None else self.chances[:count])


@dataclass(frozen=True)
class Verdict:
    """accepted: how many drafted tokens are kept, from the first on. token: the target's own after them."""

    accepted: int
    token: int


class Rule(Protocol):
    """How tokens are drawn, and which drafted ones are kept."""

    def draw(self, logits: Tensor) -> tuple[int, Tensor | None]:
        """A token from the draft's logits (vocab,), and the chances it was drawn from (None: it was certain)."""

    def judge(self, proposal: Proposal, logits: Tensor) -> Verdict:
        """Hold g drafted tokens against the target's logits (g + 1, vocab): before each of them, and after the last."""


class Greedy:
    """The highest logit wins, the lowest id among equals; a drafted token is kept if the target would choose it."""

    def draw(self, logits: Tensor) -> tuple[int, Tensor | None]:
        """The draft's own best. Raises Unmeasurable for logits that are not numbers."""
        return _best(logits[None])[0], None

    def judge(self, proposal: Proposal, logits: Tensor) -> Verdict:
        """Keep what the target would have chosen. Raises Unmeasurable for logits that are not numbers."""
        best = _best(logits)
        pairs = zip(proposal.tokens, best, strict=False)
        accepted = next((i for i, (drafted, own) in enumerate(pairs) if drafted != own), len(proposal.tokens))
        return Verdict(accepted, best[accepted])


class Watched(Greedy):
    """Greedy; notes how far each choice of the target was ahead of its next best, in logits, for each token emitted."""

    def __init__(self) -> None:
        self.gaps: list[float] = []

    def judge(self, proposal: Proposal, logits: Tensor) -> Verdict:
        """As Greedy does."""
        verdict = super().judge(proposal, logits)
        self.gaps += top2_gap(logits[: verdict.accepted + 1]).tolist()
        return verdict


class Sampled:
    """Exact sampling from the target's filtered distribution, whatever the draft proposes."""

    def __init__(self, sampling: Sampling, draws: Draws | None = None) -> None:
        self.sampling = sampling
        self.draws = SeededDraws(sampling.seed) if draws is None else draws

    def draw(self, logits: Tensor) -> tuple[int, Tensor | None]:
        """A draw from the draft's distribution under the same temperature and filters as the target's."""
        chances = distribution(logits, self.sampling)
        return self.draws.token(chances), chances

    def judge(self, proposal: Proposal, logits: Tensor) -> Verdict:
        """Keep with chance min(1, p/q), else replace by a draw from what p has over q. Raises ValueError as they do."""
        for i, token in enumerate(proposal.tokens):
            target = distribution(logits[i], self.sampling)
            drafted = certain(token, len(target)) if proposal.chances is None else proposal.chances[i]
            if not self.draws.accepts(acceptance(target, drafted, token)):
                return Verdict(i, self.draws.token(residual(target, drafted)))
        return Verdict(len(proposal.tokens), self.draws.token(distribution(logits[-1], self.sampling)))


def distribution(logits: Tensor, sampling: Sampling | None) -> Tensor:
    """What a token is drawn from: (vocab,) logits → (vocab,) float64 chances on the CPU, filters and all.

    sampling None is greedy: all on the highest logit, the lowest id among equals. A small temperature comes near that,
    but shares the chance among equals. Raises Unmeasurable for logits that are not numbers.
    """
    if sampling is None:
        return certain(_best(logits[None])[0], len(logits))
    chances = filtered(logits.cpu().double() / sampling.temperature, sampling.top_k, sampling.top_p).softmax(0)
    if not chances.isfinite().all():
        raise Unmeasurable(NOT_NUMBERS)
    return chances


def certain(token: int, vocab: int) -> Tensor:
    """The (vocab,) chances of a token that was not drawn: one for it, zero for the rest."""
    chances = torch.zeros(vocab, dtype=torch.float64)
    chances[token] = 1
    return chances


def acceptance(target: Tensor, drafted: Tensor, token: int) -> float:
    """The chance min(1, p/q) that a token drawn from q = drafted is kept; both (vocab,).

    Raises ValueError for a token that q could not have drawn: it is not the q that this token came from.
    """
    if not drafted[token] > 0:
        raise ValueError(f"token {token} has no chance in the distribution it is said to be drawn from")
    return min(1.0, float(target[token] / drafted[token]))


def residual(target: Tensor, drafted: Tensor) -> Tensor:
    """What a token that was not kept is replaced from: (p - q)+, normalised, (vocab,).

    Where p has nothing over q the two are equal and nothing is ever refused, but for rounding; then it is p.
    """
    over = (target - drafted).clamp(min=0)
    total = over.sum()
    return over / total if total > 0 else target


def overlap(target: Tensor, drafted: Tensor) -> float:
    """The chance that a drafted token is kept: sum of min(p, q), one less their total variation distance."""
    return float(torch.minimum(target, drafted).sum())


def _best(logits: Tensor) -> list[int]:
    """(n, vocab) → the n best ids. Raises Unmeasurable where a row's are not numbers."""
    found: list[int] = [token for token in choose([Chooser(None)] * len(logits), logits) if token is not None]
    if len(found) < len(logits):
        raise Unmeasurable(NOT_NUMBERS)
    return found


def ended(tokens: Sequence[int], end_ids: frozenset[int]) -> int:
    """How many of the tokens there are up to the first that ends a reply, that one included; all if none does."""
    return next((i + 1 for i, token in enumerate(tokens) if token in end_ids), len(tokens))
