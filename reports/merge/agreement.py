"""Whether the parts of one matrix belong together: one code, one set of versions, one text of each statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports.merge.parts import Part, canonical
from reports.merge.problems import Problem
from reports.merge.strict import shown
from reports.provenance import PACKAGES
from reports.records import Record
from reports.subject_key import machine_class, machine_name, machine_of

_OF_RUNS = ("commit", "python", *PACKAGES)
_OF_MODELS = ("digest", "device")


def mixed(subject: str, parts: Sequence[Part]) -> Iterator[Problem]:
    """What differs between the runs of one subject although it must not."""
    facts = [found for part in parts for found in facts_on(part, subject)]
    records = [r for part in parts for r in part.records.values() if part.subject_of(r) == subject]
    models = [r["model"] for r in records if r.get("model")]
    differing = [*_differing(facts, _OF_RUNS), *_differing(models, _OF_MODELS), *_sources(records)]
    num_dirty = sum(found.get("dirty") is True for found in facts)
    if num_dirty and len(facts) > 1:
        differing.append(f"uncommitted changes in {num_dirty} of {len(facts)} runs")
    if differing:
        yield Problem("mixed", "", subject, "mixed code: " + "; ".join(differing))


def facts_on(part: Part, subject: str) -> list[Mapping[str, Any]]:
    """The facts of the processes that measured this subject: the run's own, or its workers' on that machine."""
    if not part.workers:
        return [part.run]
    machine = machine_of(subject)
    there = [w for w in part.workers if machine_name(machine_class(w.get("machine"))) == machine]
    return there or [part.run]


def differing_statements(records: Sequence[Record]) -> Iterator[Problem]:
    """Statements and printed figures that are not the same in all parts."""
    said: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for record in records:
        said[record["id"]]["the statement"].add(str(record.get("says")))
        for name, aspect in record["aspects"].items():
            if aspect.get("verdict") is not None:
                said[record["id"]][name].add(canonical([aspect.get("published"), aspect.get("relation")]))
    for claim_id, parts in sorted(said.items()):
        differing = [shown(name) for name, versions in sorted(parts.items()) if len(versions) > 1]
        if differing:
            yield Problem("ledger", claim_id, "", f"versions of the ledger differ: {', '.join(differing)}")


def _differing(facts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[str]:
    for name in names:
        values = sorted({shown(found[name]) for found in facts if found.get(name) is not None})
        if len(values) > 1:
            yield f"{name} {' / '.join(values)}"


def _sources(records: Sequence[Record]) -> Iterator[str]:
    """Claims of one file have one digest of the code that measured them."""
    digests: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.get("source") and record.get("test"):
            digests[record["test"].partition("::")[0]].add(record["source"])
    files = [shown(file) for file, found in sorted(digests.items()) if len(found) > 1]
    if files:
        yield f"another source of {', '.join(files)}"
