"""Rules of acceptance that look right and are not: whatever finds the right one exact must find these wrong."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from lib.serving.requests import Sampling
from lib.speculative.sampling import Proposal, Sampled, Verdict, acceptance, distribution, residual


class WrongRule(Sampled):
    """Goes through a guess as the right rule does; what becomes of each token is a variant's own."""

    @abstractmethod
    def replaced(self, token: int, drafted: Tensor, first: Tensor, logits: Tensor) -> int | None:
        """What a drafted token is replaced by, None if it is kept. drafted: its q; first: that of the guess's first."""

    def judge(self, proposal: Proposal, logits: Tensor) -> Verdict:
        """Hold g drafted tokens with their chances against the target's logits (g + 1, vocab)."""
        chances = proposal.chances or ()
        for i, token in enumerate(proposal.tokens):
            other = self.replaced(token, chances[i], chances[0], logits[i])
            if other is not None:
                return Verdict(i, other)
        return Verdict(len(proposal.tokens), self.draws.token(distribution(logits[-1], self.sampling)))


class ArgmaxMatch(WrongRule):
    """Keeps a drafted token if it is the target's most likely one."""

    def replaced(self, token: int, drafted: Tensor, first: Tensor, logits: Tensor) -> int | None:
        """The right replacement after the wrong test."""
        target = distribution(logits, self.sampling)
        return None if token == int(target.argmax()) else self.draws.token(residual(target, drafted))


class NoResidual(WrongRule):
    """Replaces what is not kept by a draw from p itself."""

    def replaced(self, token: int, drafted: Tensor, first: Tensor, logits: Tensor) -> int | None:
        """The wrong replacement after the right test."""
        target = distribution(logits, self.sampling)
        return None if self.draws.accepts(acceptance(target, drafted, token)) else self.draws.token(target)


class StaleQ(WrongRule):
    """Takes every ratio with the q of the guess's first token; what that q could not draw is kept, as for p/0."""

    def replaced(self, token: int, drafted: Tensor, first: Tensor, logits: Tensor) -> int | None:
        """The right rule on a q that the later tokens were not drawn from."""
        target = distribution(logits, self.sampling)
        if not first[token] > 0 or self.draws.accepts(acceptance(target, first, token)):
            return None
        return self.draws.token(residual(target, first))


class FiltersAfterwards(WrongRule):
    """Compares p and q as they are before top_k and top_p, which then apply to what is drawn."""

    def draw(self, logits: Tensor) -> tuple[int, Tensor | None]:
        """A token by the filtered chances, passed on with the bare ones."""
        return self.draws.token(distribution(logits, self.sampling)), distribution(logits, self._bare())

    def replaced(self, token: int, drafted: Tensor, first: Tensor, logits: Tensor) -> int | None:
        """The right rule on the wrong p and q."""
        target, kept = distribution(logits, self._bare()), distribution(logits, self.sampling) > 0
        if self.draws.accepts(acceptance(target, drafted, token)):
            return None
        left = residual(target, drafted) * kept
        left = left if left.sum() > 0 else distribution(logits, self.sampling)
        return self.draws.token(left / left.sum())

    def _bare(self) -> Sampling:
        return Sampling(0, self.sampling.temperature)
