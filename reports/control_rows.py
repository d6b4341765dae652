"""What one item of a run with `--controls` says: a row for the claim as it is, and one for each planted fault.

A fault is seen only against a claim that, as it is and in the same process, came out as recorded; a crash under the
fault is no verdict, so the fault was missed; a skipped one was not run. Each of them is a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from reports.controls import NO_RECORD, Control
from reports.pytest_terms import last_line, skip_reason
from reports.verdict import Outcome

Row = dict[str, Any]
NOT_BEFORE = "undecided: the claim as it is has not run before it in this process; select it too"
CRASHED, NOT_RUN, UNDECIDED = "crashed", "not run", "undecided"


def blank_row(statement_id: str, fault: str | None) -> Row:
    """A row without a finding; fault: in words, None for the claim as it is."""
    row: Row = {"id": statement_id, "control": fault, "verdict": None, "reason": "", "on_record": None, "outcome": ""}
    return row if fault is None else row | {"seen": None}


def judged_row(statement_id: str, given: Control | None, record: Mapping[str, Any]) -> Row:
    """The row of an item that ran to its end."""
    row = blank_row(statement_id, None if given is None else given.what)
    row |= {key: record[key] for key in ("verdict", "reason", "on_record", "outcome", "model")}
    return row if given is None else row | {"seen": was_seen(row)}


def ended_row(row: Row, report: pytest.TestReport) -> Row | None:
    """The row of an item that came to no verdict: crashed (a missed fault), or skipped; None for any other phase."""
    if report.failed:
        return row | {"outcome": CRASHED, "reason": f"crashed: {last_line(report)}"} | _missed(row)
    if report.skipped:
        return row | {"outcome": NOT_RUN, "reason": f"not run: {skip_reason(report)}"}
    return None


def lost_row(row: Row, why: str) -> Row:
    """The row of an item whose worker died under it."""
    return row | {"outcome": CRASHED, "reason": f"crashed: {why}"} | _missed(row)


def _missed(row: Row) -> Row:
    return {} if row["control"] is None else {"seen": False}


def was_seen(row: Mapping[str, Any]) -> bool | None:
    """Whether the fault turned the claim red; None where nothing could be decided."""
    if row["outcome"] == Outcome.CHANGED:
        return True
    return False if row["outcome"] == Outcome.AS_RECORDED else None


def undecided_because(sound: Mapping[str, Any] | None) -> str:
    """Why no fault can be seen against this run of the claim as it is; empty where one can."""
    if sound is None:
        return NOT_BEFORE
    if sound["outcome"] == Outcome.AS_RECORDED:
        return ""
    if sound["outcome"] == Outcome.NEW:
        return f"undecided: {sound['verdict']}, and {NO_RECORD}"
    return f"undecided: as it is, the claim is {sound['outcome']}. {sound['reason']}"


def raise_control_outcome(row: Mapping[str, Any]) -> None:
    """Say it in pytest's terms: a fault that nobody noticed fails, as a claim that is red by itself does."""
    if row["control"] is None:
        if row["outcome"] == Outcome.CHANGED:
            pytest.fail(f"{row['id']}: red as it is, {row['verdict']}: {row['reason']}", pytrace=False)
        if row["outcome"] != Outcome.AS_RECORDED:
            pytest.skip(undecided_because(row))
        return
    if row["seen"] is None:
        pytest.skip(f"{row['outcome']} under the fault, {row['verdict']}: {row['reason']}")
    if not row["seen"]:
        pytest.fail(f"{row['id']}: still {row['verdict']}, as on record, although {row['control']}", pytrace=False)
