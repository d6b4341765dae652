"""A figure as its leaves: the single numbers, words and truth values that two runs are compared by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reports.merge.strict import finite

Plain = bool | int | float | str | None
_ENDS = frozenset({"value", "low", "high"})


@dataclass(frozen=True)
class Leaf:
    """One value; `low` and `high` are None where it has no interval, or one with an open end."""

    value: Plain
    low: float | None = None
    high: float | None = None

    @property
    def number(self) -> float | None:
        """The value as a float; None for a word or a truth value."""
        return finite(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether the interval has a width: one without is an exact figure in an interval's clothes."""
        return self.low is not None and self.high is not None and self.low < self.high

    def as_json(self) -> Any:
        """A scalar, or value with interval, as evidence writes them."""
        bounded = self.low is not None or self.high is not None
        return {"value": self.value, "low": self.low, "high": self.high} if bounded else self.value


def leaves(measured: object) -> dict[str, Leaf]:
    """Every leaf under its place: empty for a scalar, a case's name, a number in a list; nested by " / "."""
    return dict(_walk(measured, ()))


def leaf_of(raw: object) -> Leaf | None:
    """A scalar or an estimate; None for anything else, and for an interval that does not contain its value."""
    if isinstance(raw, Mapping):
        if raw.keys() != _ENDS or finite(raw["value"]) is None:
            return None
        found = Leaf(raw["value"], finite(raw["low"]), finite(raw["high"]))
        return found if _contains(found) else None
    return Leaf(raw) if raw is None or isinstance(raw, bool | int | float | str) else None


def label(figure: str, place: str) -> str:
    """A leaf's name in a history file: the figure's, and which of its cases."""
    return f"{figure}[{place}]" if place else figure


def _walk(measured: object, place: tuple[str, ...]) -> Iterator[tuple[str, Leaf]]:
    found = leaf_of(measured)
    if found is not None:
        yield " / ".join(place), found
    elif isinstance(measured, Mapping) and measured.keys() != _ENDS:
        for name, part in measured.items():
            yield from _walk(part, (*place, str(name)))
    elif isinstance(measured, list):
        for index, part in enumerate(measured):
            yield from _walk(part, (*place, str(index)))
    else:  # an interval that makes no sense: a word that equals no figure
        yield " / ".join(place), Leaf("not a figure")


def _contains(found: Leaf) -> bool:
    low, high = (-math.inf if found.low is None else found.low), (math.inf if found.high is None else found.high)
    return low <= (found.number or 0.0) <= high
