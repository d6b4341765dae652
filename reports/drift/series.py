"""A statement over the nights, as text: a sparkline per subject and a line per night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.drift.history import each_night
from reports.merge.strict import finite, shown

_BARS = "▁▂▃▄▅▆▇█"
_DATE = 16  # characters of an ISO time that are date and minute


@dataclass(frozen=True)
class Point:
    """One night of one subject: what its file says of the statement."""

    night: str
    said: Mapping[str, Any]


def series_of(store: Path, claim_id: str) -> tuple[dict[str, list[Point]], int]:
    """The nights that know the statement, by subject, oldest first; how many files were damaged."""
    found: dict[str, list[Point]] = {}
    damaged = 0
    for night in each_night(store):
        damaged += night is None
        said = night.claims.get(claim_id) if night else None
        if night and isinstance(said, dict):
            found.setdefault(night.subject, []).append(Point(night.started, said))
    return {subject: sorted(points, key=lambda p: p.night) for subject, points in sorted(found.items())}, damaged


def lines_of(series: Mapping[str, Sequence[Point]], figure: str | None) -> Iterator[str]:
    """Text for a terminal: a head with the sparkline, then the nights."""
    for subject, points in series.items():
        labels = list(dict.fromkeys(name for point in points for name in _figures(point)))
        bounded = [label for label in labels if _figure(points[-1], label)[1] is not None]
        name = figure or next(iter(bounded or labels), "")
        values = [finite(_figure(point, name)[0]) for point in points]
        yield f"{subject}  {shown(name) or 'no figure'}  {sparkline(values)}"
        for point in points:
            yield "  ".join(_cells(point, name)).rstrip()
        others = [shown(label) for label in labels if label != name]
        if others:
            yield f"  other figures: {', '.join(others)}"


def sparkline(values: Sequence[float | None]) -> str:
    """One bar per night, a dot where there is no figure; level bars where all are the same."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join("·" if v is None else _BARS[round((v - low) * scale)] for v in values)


def _cells(point: Point, name: str) -> Iterator[str]:
    value, low, high = _figure(point, name)
    yield f"  {shown(point.night)[:_DATE]}"
    yield f"{'–' if value is None else shown(value):>12}"
    yield f"{'' if low is None or high is None else f'[{shown(low)}, {shown(high)}]':24}"
    yield f"{shown(point.said.get('v') or point.said.get('o')):13}"
    yield shown(point.said.get("d") or "not compared")


def _figures(point: Point) -> Mapping[str, Any]:
    found = point.said.get("f")
    return found if isinstance(found, dict) else {}


def _figure(point: Point, name: str) -> tuple[Any, Any, Any]:
    found = _figures(point).get(name)
    return tuple(found) if isinstance(found, list) and len(found) == 3 else (None, None, None)
