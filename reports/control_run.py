"""`pytest claims/ --controls`: every claim once as it is, then once under each of its planted faults.

A control is passed when the claim goes red under it: another verdict than the one on record, or another figure. Claims'
own records are left alone; what the controls found stands in `controls.json` beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from reports.claim import Claim
from reports.controls import MARKER, NO_RECORD, Control, controls_of, misprinted, planted
from reports.ledger import GIVEN, Statement
from reports.sensitivity import smallest_change
from reports.verdict import Outcome

ARGUMENT = "planted"  # the parameter that tells one run of a test from the next
SOUND = "as it is"
Row = dict[str, Any]


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
    row = {
        "id": record["id"],
        "control": given and given.what,
        "verdict": record["verdict"],
        "reason": record["reason"],
    }
    row |= {"on_record": record["on_record"], "outcome": record["outcome"]}
    return row | ({"smallest_change": _smallest_changes(claim)} if given is None else {"seen": was_seen(row)})


def was_seen(row: Mapping[str, Any]) -> bool | None:
    """Whether the fault turned the claim red; None where nothing could be decided."""
    if row["outcome"] == Outcome.CHANGED:
        return True
    return False if row["outcome"] == Outcome.AS_RECORDED else None


def raise_control_outcome(row: Mapping[str, Any]) -> None:
    """Say it in pytest's terms: a fault that nobody noticed fails, an open question skips."""
    if row["outcome"] == Outcome.NEW:
        pytest.skip(f"{row['verdict']}, and {NO_RECORD}")
    if row["control"] is None:
        if row["outcome"] != Outcome.AS_RECORDED:
            pytest.skip(f"as it is: {row['outcome']}, {row['verdict']}. {row['reason']}")
        return
    if row["seen"] is None:
        pytest.skip(f"{row['outcome']} under the fault, {row['verdict']}: {row['reason']}")
    if not row["seen"]:
        pytest.fail(f"{row['id']}: still {row['verdict']}, as on record, although {row['control']}", pytrace=False)


def _smallest_changes(claim: Claim) -> dict[str, float]:
    cautious = claim.statement.warrant == "timed"
    figures = {n: f for n, f in claim.statement.figures.items() if n in claim.values and f.relation != GIVEN}
    judged = {name: f for name, f in figures.items() if claim.aspects[name].verdict != "NOT_MEASURED"}
    found = {name: smallest_change(f, claim.values[name], cautious) for name, f in judged.items()}
    return {name: size for name, size in found.items() if size is not None}


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
