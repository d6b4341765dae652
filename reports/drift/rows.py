"""The rows of a drift document: one status for a statement on a subject, one for each of its figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """What is known of a row or a figure since the baseline, from good to bad: of several the last one counts."""

    STEADY = "steady"
    ANNOTATED = "annotated"  # moved inside its noise, or a trend: no flag
    UNMEASURED = "unmeasured"  # no verdict tonight: never a flag and never green
    SILENT = "silent"  # no verdict where the baseline has one: tonight where no clock is read, else for a week
    INCOMPARABLE = "incomparable"  # another machine, model or protocol
    UNKNOWN = "unknown"  # in the run, not in the baseline
    SUSPECTED = "suspected"  # a clock says so, and nothing has confirmed it
    DRIFTED = "drifted"
    MISSING = "missing"  # in the baseline, not in the run
    DAMAGED = "damaged"  # unreadable, contradictory, or an error


FLAGS = frozenset({Status.DRIFTED, Status.MISSING, Status.DAMAGED})
COMPARED = frozenset({Status.STEADY, Status.ANNOTATED, Status.SUSPECTED, Status.DRIFTED})
FINDINGS = FLAGS | {Status.SILENT, Status.SUSPECTED, Status.INCOMPARABLE, Status.UNKNOWN}
_ORDER = {status: place for place, status in enumerate(Status)}


@dataclass(frozen=True)
class FigureRow:
    """A figure: what the baseline has, what tonight has, and in words why the status is what it is."""

    status: Status
    was: Any = None
    now: Any = None
    detail: str = ""

    def as_context(self) -> FigureRow:
        """The same of a figure that decides nothing: it is told, and no more."""
        tame = self.status in {Status.STEADY, Status.ANNOTATED}
        return self if tame else FigureRow(Status.ANNOTATED, self.was, self.now, f"context: {self.detail}")


@dataclass(frozen=True)
class Row:
    """A statement. `odd`: a clock should read it again. `readings`: of re-run figures the night's median, by label."""

    status: Status
    detail: str = ""
    figures: Mapping[str, FigureRow] = field(default_factory=dict)
    odd: bool = False
    readings: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The cell of `drift.json`; figures that are steady are left to the counts."""
        told = {n: f for n, f in self.figures.items() if f.status is not Status.STEADY}
        figures = {n: {"status": f.status, "was": f.was, "now": f.now, "detail": f.detail} for n, f in told.items()}
        readings = {"readings": dict(self.readings)} if self.readings else {}
        return {"status": self.status, "detail": self.detail, "figures": figures, **readings}


def worst(statuses: Iterable[Status], otherwise: Status = Status.STEADY) -> Status:
    """The status that counts."""
    return max(statuses, key=_ORDER.__getitem__, default=otherwise)


def worst_row(rows: Mapping[str, FigureRow]) -> FigureRow:
    """One row for the cases of a figure: the worst one's, its case named, and how many more there are like it."""
    place, found = max(rows.items(), key=lambda item: _ORDER[item[1].status])
    alike = sum(row.status is found.status for row in rows.values()) - 1
    if found.status is Status.STEADY:
        return found if len(rows) == 1 else FigureRow(Status.STEADY)
    more = f" (and {alike} more)" if alike else ""
    return FigureRow(found.status, found.was, found.now, f"{place}: {found.detail}{more}" if place else found.detail)
