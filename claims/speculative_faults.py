"""Faults to plant under the speculative claims: rules of acceptance that are too kind, and counts that are off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from claims.speculative_tables import DRAFTED, JUDGED
from reports.plants import Real

if TYPE_CHECKING:
    from torch import Tensor

    from fixtures.speculation import DraftRun, Speculations
    from lib.speculative.decoding import Round
    from lib.speculative.sampling import Proposal, Verdict
    from reports.judge import Scalar

NET_SPEEDUP = "lib.speculative.formulas.net_speedup"


def keeps_among_best(count: int) -> Callable[[Real], Real]:
    """A drafted token is kept if it is among so many best ones of the target."""

    def plant(_judge: Real) -> Real:
        def wrong(_self: Any, proposal: Proposal, logits: Tensor) -> Verdict:
            from lib.speculative.sampling import Verdict

            best: list[list[int]] = logits.topk(min(count, logits.shape[-1])).indices.tolist()
            kept = [token in among for token, among in zip(proposal.tokens, best, strict=False)]
            accepted = next((i for i, good in enumerate(kept) if not good), len(kept))
            return Verdict(accepted, best[accepted][0])

        return wrong

    return plant


def run_with_second_best(*drafts: str) -> Callable[[Real], Real]:
    """Runs of these drafts are made anew, the target's second best kept as well; the session's stay as they are."""

    def plant(run: Real) -> Real:
        known: dict[str, DraftRun] = {}

        def wrong(self: Speculations, draft: str) -> DraftRun:
            if draft in drafts and draft not in known:
                known[draft] = _made_by(keeps_among_best(2), self, draft)
            found: DraftRun = known[draft] if draft in known else run(self, draft)
            return found

        return wrong

    return plant


def _made_by(rule: Callable[[Real], Real], speculations: Speculations, draft: str) -> DraftRun:
    import pytest

    from lib.speculative.sampling import Greedy

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Greedy, "judge", rule(Greedy.judge))
        return speculations._quantized(draft)


def in_single_precision(acceptance: Real) -> Real:
    """A chance is rounded to 24 bits."""

    def wrong(*args: Any) -> float:
        import torch

        return float(torch.tensor(acceptance(*args), dtype=torch.float32))

    return wrong


def from_the_target(_residual: Real) -> Real:
    """A refused token is replaced by a draw from p, not from what p has over q."""
    return lambda target, _drafted: target


def the_right_one(_wrong_rule: type) -> type:
    """A rule that should be wrong is the right one."""
    from lib.speculative.sampling import Sampled

    return Sampled


def only_what_was_judged(rates: Real) -> Real:
    """What follows a refused token does not count as drafted."""

    def wrong(*args: Any) -> dict[str, Scalar]:
        found: dict[str, Scalar] = rates(*args)
        return found | {DRAFTED: found[JUDGED]}

    return wrong


def a_position_late(replayed: Real) -> Real:
    """The agreement of the next position is read."""

    def wrong(agrees: Sequence[bool], draft_tokens: int) -> tuple[Round, ...]:
        found: tuple[Round, ...] = replayed([*agrees[1:], agrees[0]], draft_tokens)
        return found

    return wrong


def one_pass_more(net_speedup: Real) -> Real:
    """The draft runs once more than it has tokens."""
    return lambda a, draft, cost, verification=1: net_speedup(a, draft, cost, verification + cost)


def one_pass_in_all(net_speedup: Real) -> Real:
    """A draft of any length is paid for once."""
    return lambda a, draft, cost, verification=1: net_speedup(a, draft, cost / max(draft, 1), verification)


def looked_at_and_refused(reached: Real) -> Real:
    """The chance that a token is looked at and refused is taken for the chance that it is looked at."""
    return lambda a, position: reached(a, position) * (1 - a)
