"""`pytest claims/ --controls`: every claim once as it is, then once under each of its planted faults.

A control is passed when the claim goes red under it: another verdict than the one on record, or another figure. Claims'
own records are left alone; what the controls found stands in `controls.json` beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from reports.claim import Claim
from reports.control_rows import UNDECIDED, Row, blank_row, ended_row, judged_row, undecided_because
from reports.control_table import SOUND
from reports.controls import MARKER, Control, controls_of, misprinted, planted
from reports.ledger import GIVEN, Statement
from reports.sensitivity import smallest_change
from reports.verdict import Outcome

ARGUMENT = "planted"  # the parameter that tells one run of a test from the next
SOUND_RUNS = pytest.StashKey[dict[str, Row]]()


def parametrize(metafunc: pytest.Metafunc, with_slow: bool) -> None:
    """One item for the claim as it is, and one for each of its controls (the slow ones only if asked for)."""
    given = controls_of(metafunc.definition.iter_markers(MARKER))
    chosen = [c for c in given if with_slow or not c.slow]
    if metafunc.definition.get_closest_marker("claim") and chosen:
        metafunc.fixturenames.append(ARGUMENT)
        metafunc.parametrize(ARGUMENT, [None, *chosen], ids=[SOUND, *(c.what for c in chosen)])


def deselect_others(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run of controls tests nothing else: neither claims without a control that was asked for, nor other tests."""
    others = [item for item in items if not is_control(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if is_control(item)]


def is_control(item: pytest.Item) -> bool:
    """Whether the item belongs to a run of controls, the claim as it is included."""
    return ARGUMENT in _parameters(item)


def control_in(item: pytest.Item) -> Control | None:
    """The fault that this item plants."""
    found: Control | None = _parameters(item).get(ARGUMENT)
    return found


def as_printed(item: pytest.Item, statement: Statement) -> Statement:
    """The statement as this item's text has it."""
    return misprinted(statement, control_in(item))


def left_out(items: Iterable[pytest.Item]) -> dict[str, str]:
    """Claims of which this run plants nothing, by id, and why."""
    found: dict[str, str] = {}
    for item in items:
        mark, none = item.get_closest_marker("claim"), item.get_closest_marker("uncontrolled")
        if mark is not None and not is_control(item):
            found[mark.args[0]] = str(none.args[0]) if none else "it has slow faults only, or none"
    return found


@contextmanager
def faults_of(item: pytest.Item) -> Iterator[None]:
    """The item's fault in place while its test runs."""
    given = control_in(item)
    if given is None:
        yield
        return
    with planted(given, item.module):  # type: ignore[attr-defined]
        yield


def row_of(item: pytest.Item, claim: Claim, record: Mapping[str, Any]) -> Row:
    """What this item says about its control; of the claim as it is, how small a change each figure would see."""
    given = control_in(item)
    row = judged_row(record["id"], given, record)
    return row | ({"smallest_change": _smallest_changes(claim)} if given is None else {})


def keep_sound(item: pytest.Item, row: Row) -> None:
    """Remember how the claim as it is came out in this process: its faults are held against it."""
    if row["control"] is None:
        item.config.stash.setdefault(SOUND_RUNS, {})[row["id"]] = row


def refuse_without_sound(item: pytest.Item, statement_id: str) -> Row | None:
    """The row of a fault that cannot be decided, since the claim is not as recorded without it; else None."""
    given = control_in(item)
    if given is None:
        return None
    sound = item.config.stash.setdefault(SOUND_RUNS, {}).get(statement_id)
    why = undecided_because(sound)
    is_new = sound is not None and sound["outcome"] == Outcome.NEW
    known = {"outcome": Outcome.NEW.value if is_new else UNDECIDED, "reason": why}
    return blank_row(statement_id, given.what) | known if why else None


def report_row(item: pytest.Item, report: pytest.TestReport, row: Row | None, statement_id: str) -> Row | None:
    """The row that this phase of the item settles; None for one that settles nothing."""
    given = control_in(item)
    crashed = report.failed and (row is None or report.when == "teardown")
    if row is None or crashed:
        return ended_row(blank_row(statement_id, None if given is None else given.what), report)
    settles = "setup" if row["reason"].startswith("undecided: ") and given is not None else "call"
    return row if report.when == settles else None


def _smallest_changes(claim: Claim) -> dict[str, float]:
    cautious = claim.statement.warrant == "timed"
    figures = {n: f for n, f in claim.statement.figures.items() if n in claim.values and f.relation != GIVEN}
    judged = {name: f for name, f in figures.items() if claim.aspects[name].verdict != "NOT_MEASURED"}
    found = {name: smallest_change(f, claim.values[name], cautious) for name, f in judged.items()}
    return {name: size for name, size in found.items() if size is not None}


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
