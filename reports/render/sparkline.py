"""A claim's nights as a small picture: the course of one figure, gaps, and marks where the verdict changed.

The course is one letter for each night, drawn by page.js: 90 nights of 300 claims on five machines are 135,000 points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_letters

from reports.render import figures
from reports.render.model import Nights
from reports.render.words import Words

LEVELS = ascii_letters[:23]  # "a" for the lowest value, "w" for the highest: 22 pixels, from row 25 to row 3
GAP = "-"  # a night without a value
MIDDLE = LEVELS[len(LEVELS) // 2]  # where a figure that never moves is drawn
MOST_CHANGES = 4  # named in words; a claim that changes oftener is told by their number

Change = tuple[int, str, str]  # the number of the night, the verdict before it, and its own


@dataclass(frozen=True)
class Sparkline:
    """A letter for each night (empty without any value), the nights of changed verdicts, and the whole in words."""

    course: str
    changes: tuple[int, ...]
    says: str


def sparkline(nights: Nights, w: Words) -> Sparkline:
    """The picture of these nights in the language of the page."""
    known = [value for value in nights.values if value is not None]
    changes = _changes(nights)
    course = _course(nights.values, known) if known else ""
    return Sparkline(course, tuple(night for night, _, _ in changes), _says(nights, known, changes, w))


def _changes(nights: Nights) -> list[Change]:
    said = [(night, verdict) for night, verdict in enumerate(nights.verdicts) if verdict]
    return [(night, was, now) for (_, was), (night, now) in pairwise(said) if was != now]


def _course(values: tuple[float | None, ...], known: list[float]) -> str:
    low, span = min(known), max(known) - min(known)
    if not 0 < span < math.inf:
        return "".join(GAP if value is None else MIDDLE for value in values)
    scale = (len(LEVELS) - 1) / span if span > len(LEVELS) / 1e300 else 0.0
    return "".join(GAP if value is None else LEVELS[round((value - low) * scale)] for value in values)


def _says(nights: Nights, known: list[float], changes: list[Change], w: Words) -> str:
    parts = [w("history.says", n=len(nights.dates), first=nights.dates[0], last=nights.dates[-1])]
    if known:
        ends = {"low": min(known), "high": max(known), "latest": known[-1]}
        told = {name: figures.number(value, w, 4) for name, value in ends.items()}
        parts.append(f"{nights.figure}: {w('history.range', **told)}")
    latest = next((verdict for verdict in reversed(nights.verdicts) if verdict), "")
    named = [
        w("history.change", night=nights.dates[night], was=w.name("verdict", was), now=w.name("verdict", now))
        for night, was, now in changes[-MOST_CHANGES:]
    ]
    if changes:
        parts.append(w("history.changes", n=len(changes), list="; ".join(named)))
    elif latest:
        parts.append(w("history.steady", verdict=w.name("verdict", latest)))
    return "; ".join(parts)
