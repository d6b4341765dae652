"""Parts → the matrix of `merged.json`: statement × model × machine, and every problem beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from reports.ledger import Ledger
from reports.merge.agreement import differing_statements, facts_on, mixed
from reports.merge.cells import Entry, settle
from reports.merge.gaps import gaps, not_collected, unknown, without_gpu
from reports.merge.parts import Part, canonical
from reports.merge.problems import Problem
from reports.merge.strict import shown
from reports.moments import is_ahead
from reports.records import SCHEMA, Record, error_record
from reports.subject import NOTHING
from reports.subject_key import machine_class, machine_name, machine_of, model_name

Claims = dict[str, dict[str, Record]]  # claim id → subject → row


def matrix(
    parts: Iterable[Part],
    ledger: Ledger,
    expect_gpu: bool = False,
    part_only: bool = False,
    now: datetime | None = None,
) -> dict[str, Any]:
    """The document of a merge. It depends on nothing but the set of parts, the ledger and what was expected.

    part_only: only some statements were asked for, so that what nobody collected is not missing. now: what no run can
    have started after; None where that is not asked.
    """
    by_digest = {part.digest: part for part in parts}
    own = [by_digest[digest] for digest in sorted(by_digest)]
    claims, said = _settled(own)
    ended = {claim_id: set(row) for claim_id, row in claims.items()}
    beside = [p for p in _beside(own, ended, ledger) if not (part_only and p.kind == "gap" and not p.id)]
    found = [*said, *beside, *(without_gpu(own, ledger) if expect_gpu else ()), *(_ahead(own, now) if now else ())]
    _fill_in(claims, found, own, ledger)
    subjects = sorted({subject for part in own for subject in part.subjects if not part.empty})
    return {
        "schema": SCHEMA,
        "subjects": {subject: _subject(subject, own) for subject in subjects},
        "claims": {key: {s: claims[key][s] for s in sorted(claims[key])} for key in sorted(claims)},
        "problems": [problem.as_json() for problem in sorted(set(found))],
        "parts": [part.digest for part in own],
    }


def _settled(parts: Sequence[Part]) -> tuple[Claims, list[Problem]]:
    """Every cell that somebody measured, and what must be said of it."""
    entries: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for part in parts:
        for claim_id, record in part.records.items():
            for subject in _columns(part, record):
                entries[claim_id, subject].append(Entry(part.started, record))
    claims: Claims = defaultdict(dict)
    said = []
    for (claim_id, subject), found in sorted(entries.items()):
        claims[claim_id][subject], kind, words = settle(found)
        said += [Problem(kind, claim_id, subject, words)] if kind else []
    return claims, said


def _columns(part: Part, record: Record) -> Iterable[str]:
    """One column; a statement without a test belongs in all that the run reached."""
    return part.subjects if record["outcome"] == "pending" else [part.subject_of(record)]


def _beside(parts: Sequence[Part], ended: Mapping[str, set[str]], ledger: Ledger) -> Iterator[Problem]:
    yield from gaps(parts, ended)
    yield from not_collected(parts, ended, ledger)
    yield from unknown(sorted(ended), ledger)
    yield from differing_statements([record for part in parts for record in part.records.values()])
    for subject in sorted({subject for part in parts for subject in part.subjects}):
        yield from mixed(subject, [part for part in parts if subject in part.subjects])
    for part in parts:
        yield from _of_part(part)


def _of_part(part: Part) -> Iterator[Problem]:
    """What is to be said of one run whatever the others hold."""
    if part.empty:
        yield Problem("empty", "", "", part.empty)
        return
    subject = min(part.subjects)
    yield from (Problem("damaged", what, subject, how) for what, how in part.damage)
    told = {"what it collected": part.collected is not None, "its machine": bool(part.machines())}
    lacking = [what for what, there in told.items() if not there]
    if part.records and lacking:
        yield Problem("old", "", subject, f"does not say {' or '.join(lacking)}{_at(part)}")
    if part.records and (not part.finished or part.run.get("interrupted") is True):
        yield Problem("unfinished", "", subject, f"was {'killed' if not part.finished else 'interrupted'}{_at(part)}")


def _ahead(parts: Sequence[Part], now: datetime) -> Iterator[Problem]:
    for part in parts:
        if not part.empty and is_ahead(part.started, now):
            yield Problem("future", "", min(part.subjects), f"dated in the future: {shown(part.started)}")


def _at(part: Part) -> str:
    return f" (the run of {part.started[:40]})" if part.started else ""


def _fill_in(claims: Claims, found: Sequence[Problem], parts: Sequence[Part], ledger: Ledger) -> None:
    """A red cell where a claim was lost or damaged, unless another run has it."""
    for problem in found:
        lost = problem.kind in {"gap", "damaged"} and problem.id
        if lost and problem.subject not in claims.get(problem.id, {}) and _is_claim(problem.id, parts, ledger):
            claims.setdefault(problem.id, {})[problem.subject] = _lost(problem, ledger)


def _is_claim(claim_id: str, parts: Sequence[Part], ledger: Ledger) -> bool:
    return claim_id in ledger.statements or any(claim_id in (part.collected or ()) for part in parts)


def _lost(problem: Problem, ledger: Ledger) -> Record:
    statement = ledger.statements.get(problem.id)
    words = f"{problem.kind}: {problem.detail}"
    if statement is not None:
        return error_record(statement, NOTHING, words)
    section = problem.id.partition(".")[0]
    return {"id": problem.id, "section": section, "verdict": None, "outcome": "error", "error": words, "warrant": ""}


def _subject(subject: str, parts: Sequence[Part]) -> dict[str, Any]:
    there = [part for part in parts if subject in part.subjects and not part.empty]
    models = [m for part in there for m in _models(part) if model_name(m) == subject.partition("@")[0]]
    machines = [m for part in there for m in part.machines() if machine_name(machine_class(m)) == machine_of(subject)]
    runs = {canonical(facts): facts for part in there for facts in _runs(part, subject)}
    return {
        "model": max(models, key=lambda m: (m.get("parameters") is not None, canonical(m)), default=None),
        "machine": max(machines, key=canonical, default=None),
        "runs": [dict(runs[key]) for key in sorted(runs, key=lambda k: (str(runs[k].get("started")), k))],
    }


def _models(part: Part) -> list[Mapping[str, Any]]:
    return [m for m in (part.model, *(record.get("model") for record in part.records.values())) if m]


def _runs(part: Part, subject: str) -> list[Mapping[str, Any]]:
    """The run's facts as this column saw them; lists that the parts hold anyway stay there."""
    own = {key: value for key, value in part.run.items() if key not in {"collected", "workers"}}
    measured = sum(part.subject_of(record) == subject for record in part.records.values())
    return [own | dict(facts_on(part, subject)[0] if part.workers else {}) | {"records": measured, "part": part.digest}]
