"""Everything that chance could have done, one after another: the exact distribution of what a run comes to.

The run itself is not rewritten for it. It is run again and again with ``Draws`` that follow a script; each draw of the
script is one of those with a chance above zero, and the script is advanced like the wheels of a counter until every
combination was there once. Only for small vocabularies and short replies: the number of runs is a product.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

from lib.speculative.sampling import Draws

Outcome = TypeVar("Outcome", bound=Hashable)


@dataclass
class ScriptedDraws:
    """Draws that take the alternatives of a script, and the first possible one where the script is at its end."""

    script: list[int]
    probability: float = 1.0
    taken: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)

    def token(self, chances: Tensor) -> int:
        """The scripted one among the ids that have a chance, lowest first."""
        ids: list[int] = chances.nonzero()[:, 0].tolist()
        at = self._next(len(ids))
        self.probability *= float(chances[ids[at]])
        return ids[at]

    def accepts(self, chance: float) -> bool:
        """Both outcomes, or the only one there is."""
        outcomes = [(True, chance), (False, 1 - chance)]
        possible = [outcome for outcome in outcomes if outcome[1] > 0]
        outcome, its_chance = possible[self._next(len(possible))]
        self.probability *= its_chance
        return outcome

    def following(self) -> list[int] | None:
        """The script of the next run: the last draw that has an alternative left takes it; None when there is none."""
        for i in reversed(range(len(self.taken))):
            if self.taken[i] + 1 < self.open[i]:
                return [*self.taken[:i], self.taken[i] + 1]
        return None

    def _next(self, alternatives: int) -> int:
        depth = len(self.taken)
        self.taken.append(self.script[depth] if depth < len(self.script) else 0)
        self.open.append(alternatives)
        return self.taken[-1]


def law(run: Callable[[Draws], Outcome], most: int = 200_000) -> dict[Outcome, float]:
    """Every outcome of a run with its probability; run must leave everything but its draws to no chance at all.

    Raises RuntimeError after ``most`` runs: the tree of draws is too large for this.
    """
    found: dict[Outcome, float] = {}
    script: list[int] = []
    for _ in range(most):
        draws = ScriptedDraws(script)
        outcome = run(draws)
        found[outcome] = found.get(outcome, 0.0) + draws.probability
        following = draws.following()
        if following is None:
            return found
        script = following
    raise RuntimeError(f"more than {most} ways for the draws to fall")


def distance(one: dict[Outcome, float], other: dict[Outcome, float]) -> float:
    """The largest difference of the two probabilities of any outcome."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())
