"""Faults to plant in what the timed claims read off their rounds; what was timed stays as it is for the next claim.

On a machine that is not quiet most readings stay open, and a fault in them with it. Where a fault comes down to
equality, its reading says so outright.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lib.intervals import Estimate
from reports.plants import Real, result

if TYPE_CHECKING:
    from lib.step_actions import PassCost
    from lib.timing.rounds import Rounds

RATIO = "lib.timing.rounds.Rounds.ratio"  # where every timed claim reads
ALIKE = Estimate(1.0, 0.98, 1.02)  # two times that are the same


def turned_round(ratio: Real) -> Real:
    """The two times are compared the other way round."""

    def wrong(self: Rounds, name: str, over: str) -> Estimate:
        found: Estimate = ratio(self, over, over=name)
        return found

    return wrong


def mistaken(other: Mapping[str, str]) -> Callable[[Real], Real]:
    """One action's time is read where another's is meant."""

    def plant(ratio: Real) -> Real:
        def wrong(self: Rounds, name: str, over: str) -> Estimate:
            found: Estimate = ratio(self, other.get(name, name), over=other.get(over, over))
            return found

        return wrong

    return plant


def longer(factor: float, *actions: str) -> Callable[[Real], Real]:
    """These actions (beginnings of their names) seem to take that many times as long over others."""

    def plant(ratio: Real) -> Real:
        def wrong(self: Rounds, name: str, over: str) -> Estimate:
            found: Estimate = ratio(self, name, over=over)
            return found * factor if name.startswith(actions) and not over.startswith(actions) else found

        return wrong

    return plant


def taken_as(name: str, over: str, told: Estimate) -> Callable[[Real], Real]:
    """One of the ratios is what somebody has been told, not what was timed."""

    def plant(ratio: Real) -> Real:
        def wrong(self: Rounds, one: str, over: str) -> Estimate:
            found: Estimate = told if (one, over) == pair else ratio(self, one, over=over)
            return found

        return wrong

    pair = name, over
    return plant


def per_step(ratio: Real) -> Real:
    """A step's time is divided by the rows or tokens in it, as if they came one after another."""

    def wrong(self: Rounds, name: str, over: str) -> Estimate:
        found: Estimate = ratio(self, name, over=over)
        return found / int(name)

    return wrong


def of_one(ratio: Real) -> Real:
    """What many rows or tokens took together is counted as if it had brought one."""

    def wrong(self: Rounds, name: str, over: str) -> Estimate:
        found: Estimate = ratio(self, name, over=over)
        return found / int(over) if over.isdecimal() and int(over) > 1 else found

    return wrong


never_longer = result(lambda found: dict.fromkeys(found, ALIKE))  # a step that sees the shortest context only


def in_halves(weight_reads: Real) -> Real:
    """A batch is computed as two smaller ones."""
    return lambda model, program: weight_reads(model, lambda: (program(), program()))


def costs_of(batch: int) -> Callable[[Real], Real]:
    """The cost of a pass over so many requests is taken for that of one."""

    def plant(pass_cost: Real) -> Real:
        def wrong(*args: Any, **sizes: Any) -> PassCost:
            found: PassCost = pass_cost(*args, **{"batch": batch, **sizes})
            return found

        return wrong

    return plant


def bytes_thrice(pass_cost: Real) -> Real:
    """A pass is said to read everything three times."""
    return result(lambda cost: replace(cost, read_bytes=3 * cost.read_bytes))(pass_cost)


def as_long_as_one(turn: Real) -> Real:
    """The larger batch's step is taken to last as long as a single request's."""
    return lambda batch, _seconds: turn(batch, Estimate(1, 1, 1))
