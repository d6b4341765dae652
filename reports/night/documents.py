"""The drift documents of a night's runs, read with distrust, and joined: a statement on a machine has one row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = 1
FLAGS = frozenset({"drifted", "missing", "damaged"})  # somebody has to look
SETTLED = frozenset({"steady", "annotated"})  # compared tonight, and where it was
UNCOMPARED = frozenset({"silent", "incomparable", "unknown", "suspected"})  # visible, and never green
# Of two runs that met the same statement on the same machine the later in this line is believed: a run that measured
# says more than one that did not, and of those that measured the worst counts.
ORDER = (
    "missing", "unmeasured", "silent", "steady", "annotated",
    "incomparable", "unknown", "suspected", "drifted", "damaged",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One statement on one subject (a model on a class of machines): its status, and the cell of the document."""

    claim: str
    subject: str
    status: str
    detail: str
    cell: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """What a row is about; its status may change from night to night."""
        return self.claim, self.subject


@dataclass(frozen=True)
class Reading:
    """The rows of one or more documents, and in `problems` one line for each that gave none."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """How many rows have each status, the known ones in their order."""
        found = Counter(row.status for row in self.rows)
        return {status: found[status] for status in ORDER if found[status]}

    def having(self, statuses: Iterable[str]) -> list[Row]:
        """The rows with one of these statuses."""
        wanted = set(statuses)
        return [row for row in self.rows if row.status in wanted]


def load_json(path: Path) -> object:
    """A JSON document, every way of being unreadable turned into a ValueError of one line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except RecursionError as nested:
        raise ValueError("nested too deeply") from nested
    except FileNotFoundError as missing:
        raise ValueError("missing") from missing
    except OSError as failed:
        raise ValueError(failed.strerror or "cannot be opened") from failed


def read_drift(path: Path, name: str) -> Reading:
    """The rows of one drift document; a malformed row is a damaged row, a malformed document a problem of `name`."""
    try:
        document = load_json(path)
    except ValueError as failed:
        return Reading((), (f"{name}: no readable drift document ({failed})",))
    rows = document.get("rows") if isinstance(document, dict) else None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or not isinstance(rows, dict):
        return Reading((), (f"{name}: the drift document is not one of schema {SCHEMA}",))
    return Reading(tuple(row for claim, cells in rows.items() for row in _rows(claim, cells)))


def read_joined(path: Path) -> Reading:
    """A document that `as_document` made, with the problems it carries."""
    reading = read_drift(path, "night")
    if reading.problems:
        return reading
    document = load_json(path)
    carried = document.get("problems", []) if isinstance(document, dict) else []
    return Reading(reading.rows, tuple(map(str, carried)) if isinstance(carried, list) else (str(carried),))


def join(readings: Iterable[Reading]) -> Reading:
    """One reading of several: where two have a row of the same statement and subject, `ORDER` says which is shown."""
    best: dict[tuple[str, str], Row] = {}
    problems: list[str] = []
    for reading in readings:
        problems += reading.problems
        for row in reading.rows:
            held = best.get(row.key)
            if held is None or ORDER.index(row.status) > ORDER.index(held.status):
                best[row.key] = row
    return Reading(tuple(best[key] for key in sorted(best)), tuple(problems))


def as_document(reading: Reading, baseline: str, evidence: str) -> dict[str, Any]:
    """A reading as a drift document, with the problems beside the rows."""
    rows: dict[str, dict[str, Any]] = {}
    for row in reading.rows:
        rows.setdefault(row.claim, {})[row.subject] = dict(row.cell) | {"status": row.status, "detail": row.detail}
    counts = reading.counts()
    facts = {"schema": SCHEMA, "baseline": baseline, "evidence": evidence, "rows": rows, "counts": counts}
    return facts | {"problems": list(reading.problems)}


def _rows(claim: str, cells: object) -> Iterable[Row]:
    if not isinstance(cells, dict) or not cells:
        return [Row(claim, "?", "damaged", "the row is malformed", {})]
    return [_row(claim, subject, cell) for subject, cell in cells.items()]


def _row(claim: str, subject: str, cell: object) -> Row:
    if not isinstance(cell, dict) or cell.get("status") not in ORDER:
        return Row(claim, subject, "damaged", "the row is malformed", {})
    detail = cell.get("detail")
    return Row(claim, subject, cell["status"], detail if isinstance(detail, str) else "", cell)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")
