"""The nights before this one, from a history folder: one small file for each night and subject.

A file: {"schema": 1, "night": ISO time, "subject": key, "claims": {id: {"v": verdict, "o": outcome, "d": drift,
"f": {figure: [value, low, high]}}}}. Of each claim one figure is followed, so that 90 nights of five machines fit in
memory: each file is read, drawn from and dropped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from reports.render.model import Nights
from reports.render.page_model import Page
from reports.render.reading import finite, text

SCHEMA = 1
MOST_NIGHTS = 90  # the latest ones
DATE = 10  # characters of an ISO time that are its date


@dataclass
class _Series:
    """What is kept of one claim on one subject: by the number of the night, and the figure that is followed."""

    figure: str = ""
    verdicts: dict[int, str] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)

    def add(self, night: int, said: object, candidates: list[str]) -> None:
        """Keep what a night says of the claim; the first candidate that any night has a number of is followed."""
        if not isinstance(said, dict):
            return
        self.verdicts[night] = text(said.get("v"))
        figures = said.get("f")
        if not isinstance(figures, dict):
            return
        self.figure = self.figure or next((name for name in candidates if _value(figures.get(name)) is not None), "")
        value = _value(figures.get(self.figure))
        if value is not None:
            self.values[night] = value


def with_history(page: Page, folder: Path) -> Page:
    """The page with the nights of each claim. A folder that is not there has no nights; damaged files are counted."""
    candidates = {(c.id, c.subject): [a.name for a in (*c.headline_figures, *c.aspects)] for c in page.claims}
    series: dict[tuple[str, str], _Series] = {}
    dates: dict[str, list[str]] = {subject.key: [] for subject in page.subjects}
    damaged = 0
    for path in _latest(folder):
        night = _night(path)
        damaged += night is None
        if night is None or night[1] not in dates:
            continue
        date, subject, claims = night
        dates[subject].append(date)
        for key in ((claim_id, subject) for claim_id in claims):
            if key in candidates:
                series.setdefault(key, _Series()).add(len(dates[subject]) - 1, claims[key[0]], candidates[key])
    claims_then = tuple(
        replace(c, nights=_nights(series.get((c.id, c.subject)), dates[c.subject])) for c in page.claims
    )
    told = (("history", str(damaged)),) if damaged else ()
    return replace(page, claims=claims_then, warnings=(*page.warnings, *told))


def _latest(folder: Path) -> list[Path]:
    """The latest files of each subject, oldest first: a name begins with its night."""
    by_subject: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.json")):
        by_subject.setdefault(path.name.partition("-")[2], []).append(path)
    return [path for paths in by_subject.values() for path in paths[-MOST_NIGHTS:]]


def _night(path: Path) -> tuple[str, str, dict[str, object]] | None:
    """When, on what, and the claims; None for a file that cannot be read as one."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("claims"), dict):
        return None
    return text(found.get("night"))[:DATE], text(found.get("subject")), found["claims"]


def _value(raw: object) -> float | None:
    """The middle of a stored [value, low, high]."""
    return finite(raw[0]) if isinstance(raw, list) and raw else None


def _nights(found: _Series | None, dates: list[str]) -> Nights | None:
    if found is None:
        return None
    places = range(len(dates))
    verdicts = tuple(map(found.verdicts.get, places))
    return Nights(tuple(dates), verdicts, found.figure, tuple(map(found.values.get, places)))
