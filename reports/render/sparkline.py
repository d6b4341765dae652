"""A claim's nights as a small picture: the course of one figure, gaps, and marks where the verdict changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from reports.render import figures
from reports.render.model import Nights
from reports.render.words import Words

WIDTH, HEIGHT, PAD = 180, 28, 3  # pixels
LEVEL = 0.5  # where a figure that never moves is drawn
MOST_CHANGES = 4  # named in words; a claim that changes oftener is told by their number


@dataclass(frozen=True)
class Sparkline:
    """The path through the values (empty without any), the places of changed verdicts, and the whole in words."""

    path: str
    marks: tuple[int, ...]
    last: tuple[int, int] | None
    says: str


def sparkline(nights: Nights, w: Words) -> Sparkline:
    """The picture of these nights in the language of the page."""
    known = [value for value in nights.values if value is not None]
    changes = _changes(nights)
    places = _places(nights.values)
    last = next((place for place in reversed(places) if place), None)
    marks = tuple(_x(night, len(nights.dates)) for night, _, _ in changes)
    return Sparkline(_path(places), marks, last, _says(nights, known, changes, w))


def _changes(nights: Nights) -> list[tuple[int, str, str]]:
    """Each change of the verdict: the night, what it was before, and what it became."""
    said = [(night, verdict) for night, verdict in enumerate(nights.verdicts) if verdict]
    return [(night, was, now) for (_, was), (night, now) in pairwise(said) if was != now]


def _x(night: int, num_nights: int) -> int:
    return PAD + round(night * (WIDTH - 2 * PAD) / max(num_nights - 1, 1))


def _places(values: tuple[float | None, ...]) -> list[tuple[int, int] | None]:
    """Whole pixels: 90 nights stand two apart, and a tenth of one is not seen."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    span = high - low if 0 < high - low < math.inf else 0.0
    return [
        None if value is None else (_x(night, len(values)), _y((value - low) / span if span else LEVEL))
        for night, value in enumerate(values)
    ]


def _y(share: float) -> int:
    return round(HEIGHT - PAD - share * (HEIGHT - 2 * PAD))


def _path(places: list[tuple[int, int] | None]) -> str:
    """Relative steps, lifted over nights without a value."""
    parts, before = [], None
    for place in places:
        if place is not None:
            step = (place[0] - before[0], place[1] - before[1]) if before else None
            parts.append(f"l{step[0]} {step[1]}" if step else f"M{place[0]} {place[1]}l0 0")
        before = place
    return "".join(parts)


def _says(nights: Nights, known: list[float], changes: list[tuple[int, str, str]], w: Words) -> str:
    parts = [w("history.says", n=len(nights.dates), first=nights.dates[0], last=nights.dates[-1])]
    if known:
        ends = {"low": min(known), "high": max(known), "latest": known[-1]}
        told = {name: figures.number(value, w.lang, 4) for name, value in ends.items()}
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
