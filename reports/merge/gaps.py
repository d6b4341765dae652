"""What is missing: collected claims that never ended, statements that nobody collected, a GPU that did nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from reports.ledger import Ledger
from reports.merge.parts import Part
from reports.merge.problems import Problem
from reports.merge.strict import shown
from reports.records import Record
from reports.subject_key import NO_MODEL, machine_of

_LISTED = 12  # ids of a section that are listed before they are only counted
Ended = Mapping[str, set[str]]  # claim id → the subjects that have a sound record of it


def gaps(parts: Sequence[Part], ended: Ended) -> Iterator[Problem]:
    """A collected claim without a record, in the column of the run that lost it."""
    found = {}
    for part in parts:
        damaged = {what for what, _ in part.damage}
        for claim_id in part.collected or ():
            if claim_id not in damaged and not _ended_for(part, ended.get(claim_id, set())):
                subject = min(part.subjects)
                found[claim_id, subject] = Problem("gap", claim_id, subject, "collected, and no record of how it ended")
    yield from (found[place] for place in sorted(found))


def _ended_for(part: Part, subjects: set[str]) -> bool:
    """Whether one of these is a column of the run; of a run that never named its model, its machine's will do."""
    if part.subjects & subjects:
        return True
    unnamed = {machine_of(s) for s in part.subjects if s.startswith(f"{NO_MODEL}@")}
    return any(machine_of(subject) in unnamed for subject in subjects)


def not_collected(parts: Sequence[Part], ended: Ended, ledger: Ledger) -> Iterator[Problem]:
    """One line for all statements that no part was about to test."""
    known = {claim_id for part in parts for claim_id in part.collected or ()} | set(ended)
    missing: dict[str, list[str]] = defaultdict(list)
    for statement in ledger.statements.values():
        if statement.id not in known and not statement.pending:
            missing[statement.section].append(statement.id.partition(".")[2])
    if missing:
        number = sum(map(len, missing.values()))
        sections = "; ".join(f"{name}: {_listed(ids)}" for name, ids in missing.items())
        yield Problem("gap", "", "", f"{number} statements of the ledger collected nowhere: {sections}")


def _listed(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= _LISTED else f"{len(ids)} statements"


def unknown(ids: Sequence[str], ledger: Ledger) -> Iterator[Problem]:
    """Claims that the ledger does not have."""
    yield from (Problem("unknown", i, "", "no such statement in the ledger") for i in ids if i not in ledger.statements)


def without_gpu(parts: Sequence[Part], ledger: Ledger) -> Iterator[Problem]:
    """A night that was to run on a GPU, and did not; or ran there, and could not measure what needs one."""
    records = [record for part in parts for record in part.records.values()]
    on_cuda = [r for r in records if r["outcome"] not in {"not-measured", "pending", "error"} and _is_cuda(r)]
    if not on_cuda and not any(part.cuda_benchmarks for part in parts):
        yield Problem("no-gpu", "", "", "a GPU was expected, and no claim and no benchmark ran on cuda")
    needing = [r for r in records if "gpu" in _needs(r, ledger)]
    if needing and all(r["outcome"] in {"not-measured", "error"} for r in needing):
        names = ", ".join(sorted({r["id"] for r in needing}))
        reasons = sorted({shown(r.get("reason")) for r in needing if r.get("reason")})
        yield Problem("no-gpu", "", "", f"no claim that needs a GPU was measured: {names} ({'; '.join(reasons)})")


def _is_cuda(record: Record) -> bool:
    return str((record.get("model") or {}).get("device")).startswith("cuda")


def _needs(record: Record, ledger: Ledger) -> Sequence[str]:
    statement = ledger.statements.get(record["id"])
    return statement.needs if statement is not None else record.get("needs", [])
