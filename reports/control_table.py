"""The table of planted faults (`controls.json`): what was to be planted, what each fault did, and what is not known.

A narrower run replaces the rows of the faults that it plants, and keeps the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reports.control_rows import Row, blank_row, lost_row

SCHEMA = 1
SOUND = "as it is"


class ControlTable:
    """Faults of a run by node id; tests: ("test_x.py::test_y") → statement id."""

    def __init__(self, tests: Mapping[str, str], path: Path) -> None:
        self.tests, self.path = tests, path
        self.planned: dict[str, Row] = {}  # a blank row by node id
        self.rows: dict[str, Row] = {}
        self._kept: list[Row] | None = None

    def plan(self, nodeids: Iterable[str]) -> None:
        """These items are about to run."""
        for nodeid in nodeids:
            blank = self._blank(nodeid)
            if blank is not None:
                self.planned.setdefault(nodeid, blank)

    def is_one(self, nodeid: str) -> bool:
        """Whether a node id is that of a control, the claim as it is included."""
        return self._blank(nodeid) is not None

    def add(self, nodeid: str, row: Row) -> None:
        """What an item said; a later phase of it (a teardown that fails) has the last word."""
        self.rows[nodeid] = row

    def add_crash(self, nodeid: str, why: str) -> None:
        """A worker died under this item."""
        blank = self._blank(nodeid)
        if blank is not None:
            self.planned.setdefault(nodeid, blank)
            self.rows[nodeid] = lost_row(blank, " ".join(why.split()))

    def unfinished(self) -> str:
        """How far a run got that did not get through; empty for any other."""
        faults = [nodeid for nodeid, row in self.planned.items() if row["control"] is not None]
        done = sum(nodeid in self.rows for nodeid in faults)
        whole = all(nodeid in self.rows for nodeid in self.planned)
        return "" if whole else f"{done} of {len(faults)} faults planted; not finished"

    def document(self, run: Mapping[str, Any], statements: int) -> dict[str, Any]:
        """The table as stored: kept rows first, `claims` says how many faults of each are planned and have a row."""
        own = {(row["id"], row["control"]) for row in self.planned.values()}
        facts = {key: run.get(key) for key in ("commit", "dirty", "started")}
        rows = [row for row in self._earlier() if (row.get("id"), row.get("control")) not in own]
        rows += [{**row, **facts} for row in self.rows.values()]
        planned = [row for row in self._earlier_plan() if tuple(row) not in own]
        planned += [[row["id"], row["control"]] for row in self.planned.values()]
        return {
            "schema": SCHEMA, "run": dict(run), "statements": statements,
            "claims": _counts(planned, rows), "planned": planned, "controls": rows,
        }  # fmt: skip

    def _earlier(self) -> list[Row]:
        found = self._stored().get("controls")
        return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []

    def _earlier_plan(self) -> list[list[Any]]:
        found = self._stored().get("planned")
        if not isinstance(found, list):  # an older table: what it has was all
            return [[row.get("id"), row.get("control")] for row in self._earlier()]
        return [pair for pair in found if isinstance(pair, list) and len(pair) == 2]

    def _stored(self) -> dict[str, Any]:
        """What lay there before the run; older rows say what they are of by their document."""
        if self._kept is None:
            self._kept = [_read(self.path)]
        return self._kept[0]

    def _blank(self, nodeid: str) -> Row | None:
        place, _, fault = nodeid.partition("[")
        statement_id = self.tests.get(place.rpartition("/")[2]) if fault else None
        if statement_id is None:
            return None
        told = fault.removesuffix("]").encode("ascii", "backslashreplace").decode("unicode_escape")
        return blank_row(statement_id, None if told == SOUND else told)


def _counts(planned: Iterable[list[Any]], rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for claim_id, fault in planned:
        counts.setdefault(claim_id, {"planned": 0, "rows": 0})["planned"] += fault is not None
    for row in rows:
        if row.get("control") is not None and row.get("id") in counts:
            counts[row["id"]]["rows"] += 1
    return counts


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return {}
    run: Any = found.get("run")
    run = run if isinstance(run, dict) else {}
    facts = {key: run.get(key) for key in ("commit", "dirty", "started")}
    rows = found.get("controls")
    rows = [{**facts, **row} for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {**found, "controls": rows}
