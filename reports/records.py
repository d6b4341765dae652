"""Turn what happened to a claim's test into its record, and a run's records into the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reports.claim import Claim, aspects_as_json
from reports.ledger import Ledger, Statement
from reports.plots import plot_as_json
from reports.subject import NOTHING, Subject
from reports.tables import table_as_json
from reports.verdict import Outcome, Verdict, as_far_as_decided, has_moved, outcome_of

SCHEMA = 1
Record = dict[str, Any]


def measured_record(claim: Claim, verdict: Verdict, subject: Subject) -> Record:
    """The record of a claim whose test ran to its end."""
    record = _blank(claim.statement, subject)
    on_record = _on_record(claim.statement, subject)
    expected = {} if on_record is None else _figure_records(claim, subject)
    verdict = as_far_as_decided(verdict, on_record, ((claim.aspects[n].verdict, v) for n, v in expected.items()))
    flipped = {name: _flipped_cases(claim, name, known) for name, known in expected.items()}
    moved = [n for n, known in expected.items() if flipped[n] or has_moved(claim.aspects[n].verdict, known)]
    record |= {
        "verdict": verdict.value,
        "on_record": on_record and on_record.value,
        "outcome": outcome_of(verdict, on_record, bool(moved)).value,
        "transferred": _transferred(claim, verdict, subject),
        "reason": "; ".join(
            [claim.reason(verdict)] * (not moved) + [_moved(claim, n, expected[n], flipped[n]) for n in moved]
        ),
        "aspects": aspects_as_json(claim.aspects, expected, flipped),
        "notes": list(claim.notes),
        "tables": [table_as_json(table) for table in claim.tables],
        "plots": [plot_as_json(plot) for plot in claim.plots],
        "condition": claim.condition_text,
        "protocol": dict(claim.protocol_facts),
    }
    return record


def unmeasured_record(statement: Statement, subject: Subject, reason: str) -> Record:
    """The record of a claim that this run could not measure."""
    return _blank(statement, subject) | {"outcome": Outcome.NOT_MEASURED.value, "reason": reason}


def error_record(statement: Statement, subject: Subject, error: str) -> Record:
    """The record of a claim whose test raised: an error is a row, never a verdict."""
    return _blank(statement, subject) | {"verdict": None, "outcome": Outcome.ERROR.value, "error": error}


def pending_record(statement: Statement) -> Record:
    """The record of a statement whose test comes with a later issue."""
    return _blank(statement, NOTHING) | {"outcome": Outcome.PENDING.value, "reason": "pending: no test yet"}


def build_summary(
    run: Mapping[str, Any], model: Mapping[str, Any] | None, ledger: Ledger, records: Iterable[Record]
) -> dict[str, Any]:
    """The whole run as one document, keyed by claim id; pending statements are rows too."""
    rows = {r["id"]: r for r in [*map(pending_record, ledger.pending), *records]}
    counts = Counter(_count_key(row) for row in rows.values())
    keys = [*(v.value for v in Verdict), "error", "pending"]
    return {
        "schema": SCHEMA,
        "run": dict(run),
        "model": None if model is None else dict(model),
        "counts": {key: counts[key] for key in keys},
        "claims": {key: rows[key] for key in sorted(rows)},
    }


def _on_record(statement: Statement, subject: Subject) -> Verdict | None:
    return statement.record_for(subject.slug, subject.device, usual=subject.usual_format)


def _figure_records(claim: Claim, subject: Subject) -> dict[str, Verdict]:
    figures = {name: claim.statement.figures[name] for name in claim.aspects if name in claim.statement.figures}
    records = {name: figure.record_for(subject.slug, subject.device) for name, figure in figures.items()}
    return {name: verdict for name, verdict in records.items() if verdict is not None}


def _flipped_cases(claim: Claim, name: str, on_record: Verdict) -> list[str]:
    """The decided cases of a conditional figure that are not as its record has them."""
    aspect, holds = claim.aspects[name], claim.statement.figures[name].true_at
    if not holds or {aspect.verdict, on_record} != {Verdict.CONDITIONAL}:
        return []
    against = {True: Verdict.REFUTED, False: Verdict.HOLDS}
    return [case for case, found in aspect.cases.items() if found is against[case in holds]]


def _moved(claim: Claim, name: str, on_record: Verdict, flipped: Sequence[str]) -> str:
    aspect = claim.aspects[name]
    if flipped:
        return f"{name} flipped at {', '.join(flipped)} ({aspect.reason})"
    return f"{name} is {aspect.verdict}, on record {on_record}" + f" ({aspect.reason})" * bool(aspect.reason)


def _count_key(row: Record) -> str:
    if row["outcome"] in {Outcome.PENDING, Outcome.ERROR}:
        return str(row["outcome"])
    return str(row["verdict"])


def _blank(statement: Statement, subject: Subject) -> Record:
    on_record = _on_record(statement, subject)
    return {
        "id": statement.id, "section": statement.section, "verdict": Verdict.NOT_MEASURED.value,
        "on_record": on_record and on_record.value, "outcome": "", "transferred": False,
        "standing": statement.standing, "says": statement.says, "says_id": statement.says_id,
        "where": statement.where, "warrant": statement.warrant, "needs": list(statement.needs), "reason": "",
        "error": "", "erratum": statement.erratum, "erratum_id": statement.erratum_id, "aspects": {}, "notes": [],
        "tables": [], "plots": [], "condition": "", "protocol": {}, "model": subject.model and dict(subject.model),
    }  # fmt: skip


def _transferred(claim: Claim, verdict: Verdict, subject: Subject) -> bool:
    if subject.is_chapter or verdict not in {Verdict.HOLDS, Verdict.CONDITIONAL}:
        return False
    return bool({"trained", "chapter"} & set(claim.statement.needs))
