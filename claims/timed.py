"""What the timed claims share: cases read off interleaved rounds, budgets, and how close a pass came to the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from lib.intervals import Estimate
from reports.claim import Claim
from reports.judge import Measured

if TYPE_CHECKING:
    from fixtures.timing import Timings
    from lib.step_actions import PassCost
    from lib.timing.rounds import Rounds

BUDGET_S = 20.0  # per group of actions; on a quiet machine most claims are decided after four to nine rounds


def until_settled(
    claim: Claim, rounds: Rounds, figures: Mapping[str, Callable[[], Measured]], budget_s: float = BUDGET_S
) -> None:
    """Time on until every one of these figures is decided or the budget is spent; hand them over."""
    rounds.until(lambda: all(claim.settles(name, value()) for name, value in figures.items()), budget_s)
    for name, value in figures.items():
        claim.measured(name, value())
    claim.protocol(**rounds.facts())


def over_first(rounds: Rounds, first: str, others: Sequence[str]) -> dict[str, Estimate]:
    """Each of the others relative to the first."""
    return {name: rounds.ratio(name, over=first) for name in others}


def step_by_step(rounds: Rounds, names: Sequence[str], per: bool = False) -> dict[str, Estimate]:
    """Each action relative to the one before it; names are numbers. per: also divided by the ratio of the numbers."""
    return {f"{a} to {b}": rounds.ratio(b, over=a) * (int(a) / int(b) if per else 1) for a, b in pairwise(names)}


def share_added(over_base: Estimate) -> Estimate:
    """Which part of a time is more than the base's, from the two times' ratio; anything where nothing is known."""
    return 1 - 1 / over_base if over_base.low > 0 else Estimate(0.0, -math.inf, math.inf)


def roofline(claim: Claim, timings: Timings, rounds: Rounds, **costs: tuple[str, PassCost]) -> None:
    """Record how close passes came to this machine's limits; costs: what to call it = (the action, its cost)."""
    limits = timings.limits
    products = limits.flops(timings.model.dtype)
    for name, (action, cost) in costs.items():
        claim.measured(f"{name}_ms", rounds.seconds(action) * 1000, unit="ms")
        claim.measured(f"{name}_share_of_read_limit", rounds.rate(action, cost.read_bytes / limits.read), unit="1")
        claim.measured(f"{name}_share_of_product_limit", rounds.rate(action, cost.flops / products), unit="1")
    claim.protocol(**{name: round(value, 1) for name, value in limits.facts().items()})
