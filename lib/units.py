"""KB, MB and GB as texts print them: powers of 1000 or of 1024, found out and not assumed.

A text that prints "GB" seldom says which of the two it means. Here a printed byte figure is set against the bytes
it stands for, and the answer is the set of conventions under which the digits are right: both (the figure is too
coarse to tell), one, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from lib.intervals import Estimate, Number, as_estimate, printed

Convention = Literal["decimal", "binary"]

CONVENTIONS: tuple[Convention, ...] = ("decimal", "binary")
_BASE: Mapping[Convention, int] = {"decimal": 1000, "binary": 1024}
_POWER = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4}
_IEC = {"KiB": "KB", "MiB": "MB", "GiB": "GB", "TiB": "TB"}  # IEC 80000-13: these can only be binary


class UnknownUnit(ValueError):
    """Not a unit of bytes that this module knows."""


@dataclass(frozen=True)
class ByteFigure:
    """A byte figure as a text prints it (`text`, `unit`) and the bytes it stands for, from another source."""

    label: str
    text: str
    unit: str
    actual_bytes: Estimate | Number

    def conventions(self) -> frozenset[Convention]:
        """The conventions under which the printed digits are right for these bytes."""
        return conventions(self.text, self.unit, self.actual_bytes)


def unit_bytes(unit: str, convention: Convention) -> int:
    """How many bytes one KB, MB, GB or TB is. KiB … TiB are binary whatever the convention. Raises UnknownUnit."""
    if unit in _IEC:
        return unit_bytes(_IEC[unit], "binary")
    if unit not in _POWER:
        raise UnknownUnit(f"{unit!r} is not among {[*_POWER, *_IEC]}")
    return int(_BASE[convention] ** _POWER[unit])


def in_unit(count: Number, unit: str, convention: Convention = "decimal") -> Fraction:
    """Bytes expressed in a unit, exactly: in_unit(86_016, "KiB") is 84."""
    return Fraction(count) / unit_bytes(unit, convention)


def stated_bytes(text: str, unit: str, convention: Convention) -> Estimate:
    """The interval of bytes that a printed figure stands for under one convention."""
    return printed(text) * unit_bytes(unit, convention)


def conventions(text: str, unit: str, actual_bytes: Estimate | Number) -> frozenset[Convention]:
    """The conventions under which `text` `unit` can be a rounding of the bytes; empty if neither fits."""
    known = as_estimate(actual_bytes)
    return frozenset(c for c in CONVENTIONS if stated_bytes(text, unit, c).overlaps(known))


def common_conventions(figures: Iterable[ByteFigure]) -> frozenset[Convention]:
    """The conventions that reproduce every one of the figures; empty means that the text mixes units."""
    common = frozenset(CONVENTIONS)
    for figure in figures:
        common &= figure.conventions()
    return common


def fitting_conventions(figures: Iterable[ByteFigure]) -> dict[str, str]:
    """For each figure, by label: ``decimal``, ``binary``, ``either`` or ``neither``."""
    names = {frozenset(CONVENTIONS): "either", frozenset(): "neither"}
    return {f.label: names.get(f.conventions()) or next(iter(f.conventions())) for f in figures}
