"""What one step costs, by how many rows it computes: measured, constant or a straight line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class StepCost:
    """Seconds (or any unit of time) of a step that computes 1, 2, … rows, and of each prompt token admitted with it.

    `prompt_token_s` is added to the step in which a request is admitted; zero, the default, leaves prompts out, as a
    simulation in decode steps does. Raises ValueError unless every step takes a positive, finite time.
    """

    seconds: tuple[float, ...]
    prompt_token_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.seconds or not all(math.isfinite(s) and s > 0 for s in self.seconds):
            raise ValueError(f"a step's cost for 1, 2, … rows must be positive and finite, got {self.seconds}")
        if not math.isfinite(self.prompt_token_s) or self.prompt_token_s < 0:
            raise ValueError(f"a prompt token's cost must be finite and not negative, got {self.prompt_token_s}")

    @property
    def most_rows(self) -> int:
        """The largest batch whose cost is given."""
        return len(self.seconds)

    def of(self, rows: int, prompt_tokens: int = 0) -> float:
        """Time of one step with that many rows; ValueError for a batch whose cost is not given."""
        if not 1 <= rows <= self.most_rows:
            raise ValueError(f"no cost is given for a step of {rows} rows, only for 1 … {self.most_rows}")
        return self.seconds[rows - 1] + self.prompt_token_s * prompt_tokens

    def table(self) -> NDArray[np.float64]:
        """Cost by number of rows, (most_rows + 1,): zero rows cost nothing."""
        return np.array((0.0, *self.seconds))


def measured(seconds: Sequence[float]) -> StepCost:
    """From a measurement at 1, 2, … rows."""
    return StepCost(tuple(float(s) for s in seconds))


def constant(slots: int, seconds: float = 1.0) -> StepCost:
    """Every step takes the same time, however many rows it computes."""
    return StepCost((seconds,) * slots)


def affine(slots: int, first: float, each_further: float) -> StepCost:
    """The first row costs `first`, each further row `each_further` more."""
    return StepCost(tuple(first + each_further * further for further in range(slots)))
