"""What a run of controls was to plant and what came of it, row by row, each fault held against the claim as it is.

A claim that is red, open or unmeasured without any fault cannot show that it sees one: its faults stay undecided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reports.verdict import Outcome

Row = dict[str, Any]
NOT_RUN = "the claim as it is was not run beside it"


class ControlTable:
    """Rows by the node id of their test; under xdist in the order in which workers report."""

    def __init__(self) -> None:
        self.planned: set[str] = set()
        self._rows: dict[str, Row] = {}

    def plan(self, nodeids: Iterable[str]) -> None:
        """These tests are about to run."""
        self.planned.update(nodeids)

    def add(self, nodeid: str, row: Row) -> None:
        """What a test came to."""
        self._rows[nodeid] = row

    def add_crash(self, nodeid: str, statement_id: str, reason: str) -> None:
        """A worker died in a test, which can say nothing of itself."""
        if nodeid in self.planned and nodeid not in self._rows:
            what = nodeid.partition("[")[2].removesuffix("]")
            self.add(nodeid, bare_row(statement_id, what, Outcome.ERROR, reason))

    @property
    def rows(self) -> list[Row]:
        """Every row so far; a fault is seen only where the claim without it was as recorded."""
        sound = {row["id"]: row for row in self._rows.values() if row["control"] is None}
        return [row if row["control"] is None else beside(row, sound.get(row["id"])) for row in self._rows.values()]

    @property
    def unreached(self) -> int:
        """How many tests have no row."""
        return len(self.planned.difference(self._rows))

    def parting_line(self) -> str:
        """How far a run got that did not get through; empty for any other."""
        ended = len(self.planned) - self.unreached
        return f"not finished: {ended} of {len(self.planned)} runs under --controls ended" if self.unreached else ""


def bare_row(statement_id: str, what: str | None, outcome: Outcome, reason: str) -> Row:
    """The row of a test that came to no verdict. One that fails has seen nothing: anything may stop it."""
    seen: Row = {} if what is None else {"seen": False if outcome == Outcome.ERROR else None}
    row = {"id": statement_id, "control": what, "verdict": None, "reason": reason, "on_record": None}
    return row | {"outcome": outcome.value} | seen


def beside(row: Row, sound: Row | None) -> Row:
    """A fault's row, undecided with the reason where the claim as it is was not as recorded."""
    why = why_undecided(None if sound is None else str(sound["outcome"]))
    return row | {"seen": None, "undecided": why} if why and row["outcome"] != Outcome.ERROR else row


def why_undecided(sound: str | None) -> str:
    """Why a fault shows nothing beside a claim with this outcome (None: none yet); empty where it can."""
    if sound is None:
        return NOT_RUN
    return "" if sound == Outcome.AS_RECORDED else f"the claim as it is: {sound}"
