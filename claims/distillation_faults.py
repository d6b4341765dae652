"""Faults to plant under the distillation claims: labels that say less than they should, and slips in the gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reports.plants import Real

if TYPE_CHECKING:
    from torch import Tensor

    from fixtures.lessons import School
    from lib.distillation.students import Labels
    from lib.intervals import Estimate

LOSSES = "fixtures.lessons.School.losses"
SOFT_GRADIENT = "lib.distillation.gradients.soft_gradient"


def in_single_precision(real: Real) -> Real:
    """Computed with 24 bits instead of 53."""
    return lambda *args: real(*args).float().double()


def first_two_exchanged(soften: Real) -> Real:
    """The two likeliest tokens have one another's probability."""

    def wrong(logits: Tensor, temperature: float) -> Tensor:
        found: Tensor = soften(logits, temperature).clone()
        first, second = found.topk(2).indices.tolist()
        found[[first, second]] = found[[second, first]]
        return found

    return wrong


def turned_round(gain: Real) -> Real:
    """The first loss is subtracted from the second."""
    return lambda judged, split, first, second: gain(judged, split, second, first)


def told_the_choice(losses: Real) -> Real:
    """Who should be shown the distribution is told its first symbol; kept among those who are meant to be."""

    def wrong(self: School, labels: Labels, **case: Any) -> Tensor:
        from lib.distillation.students import Labels

        found: Tensor = losses(self, Labels.ARGMAX if labels == Labels.SOFT else labels, **case)
        return found

    return wrong


def always_at_one(losses: Real) -> Real:
    """Whatever temperature is asked for, students are taught at 1."""
    return lambda self, labels, **case: losses(self, labels, **case | {"temperature": 1.0})


def without_its_temperature(gradient: Real) -> Real:
    """The 1/T in front is forgotten."""
    return lambda student, teacher, temperature: temperature * gradient(student, teacher, temperature)


def of_the_choice(gradient: Real) -> Real:
    """The teacher's first token stands for its whole distribution."""

    def wrong(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
        certain = teacher.masked_fill(teacher < teacher.max(), -1e9)
        found: Tensor = gradient(student, certain, temperature)
        return found

    return wrong


def drawn_blindly(expected: Real) -> Real:
    """Labels are drawn from all tokens alike, not from the teacher."""
    return lambda student, teacher: expected(student, 0 * teacher)


def all_over_the_first(gains: Real) -> Real:
    """Every share is taken of the first token's, whatever it is said to be of."""

    def wrong(*args: Any) -> Mapping[str, Estimate | float]:
        found: dict[str, Estimate | float] = gains(*args)
        return dict.fromkeys(found, found["over the first token"])

    return wrong
