"""Tonight, or a repeat: every statement that an evidence folder has, beside the facts of the run that measured it.

Reading, and taking out what is unsound, is the part of `reports.merge`; here its parts become readings by subject.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from reports.drift.files import Refused
from reports.drift.fingerprint import Fingerprint, fingerprint, is_clocked
from reports.drift.leaves import Leaf, leaves
from reports.merge.agreement import facts_on
from reports.merge.cells import Entry, settle
from reports.merge.parts import Part
from reports.merge.shards import read_folder
from reports.merge.strict import shown
from reports.moments import is_ahead
from reports.records import Record
from reports.subject_key import machine_of

DECIDED = frozenset({"HOLDS", "CONDITIONAL", "REFUTED"})


@dataclass(frozen=True)
class Figure:
    """What a record says of one figure; the verdict is None for context, which decides nothing."""

    verdict: str | None
    leaves: Mapping[str, Leaf]


@dataclass(frozen=True)
class Reading:
    """One statement as one run measured it."""

    record: Record
    run: Mapping[str, Any]
    subject: str

    @property
    def verdict(self) -> str:
        """The verdict; empty for an error, which is none."""
        return "" if self.record["outcome"] == "error" else str(self.record["verdict"] or "")

    @property
    def clocked(self) -> bool:
        """Whether a clock measured some of it."""
        return is_clocked(self.record)

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Its figures by name."""
        aspects = self.record.get("aspects") or {}
        return {shown(n): Figure(_verdict(a), leaves(a.get("measured"))) for n, a in aspects.items()}

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """What it may be compared with."""
        return fingerprint(self.record, self.run.get("torch"), machine_of(self.subject))

    @property
    def facts(self) -> dict[str, Any]:
        """The run's facts with the digest of this record's source."""
        return {**self.run, "source": self.record.get("source")}


@dataclass
class Evidence:
    """Readings by subject and id; beside them what is damaged or was lost, and when the runs started."""

    readings: dict[str, dict[str, Reading]] = field(default_factory=lambda: defaultdict(dict))
    damage: dict[tuple[str, str], str] = field(default_factory=dict)  # (subject, id or file) → how
    lost: dict[tuple[str, str], str] = field(default_factory=dict)  # collected, and no record
    parts: tuple[Part, ...] = ()

    @property
    def subjects(self) -> list[str]:
        """Every subject that anything is known of."""
        return sorted({*self.readings, *(s for s, _ in self.damage), *(s for s, _ in self.lost)})

    def started(self, subject: str) -> str:
        """When the latest run of a subject started."""
        return max((part.started for part in self.parts if subject in part.subjects), default="")


def unfit(evidence: Evidence, seen: Callable[[str, str], bool], now: datetime) -> dict[str, str]:
    """The subjects whose run says nothing of tonight, and why: it was seen on an earlier night, or is yet to come."""
    found = {}
    for subject in evidence.subjects:
        started = evidence.started(subject)
        if is_ahead(started, now):
            found[subject] = f"dated in the future: {shown(started)}"
        elif seen(subject, started):
            found[subject] = f"the run of {shown(started)} was seen before: it is no new night"
    return found


def read_evidence(folder: Path) -> Evidence:
    """A run's folder, a killed run's, or a merged one. Raises Refused where there is no evidence in it at all."""
    parts = tuple(read_folder(folder))
    if all(part.empty for part in parts):
        raise Refused("; ".join(part.empty for part in parts))
    return evidence_of(part for part in parts if not part.empty)


def evidence_of(parts: Iterable[Part]) -> Evidence:
    """The readings of these runs; of two that measured one thing on one subject the one that `merge` would show."""
    found = Evidence(parts=tuple(parts))
    entries: dict[tuple[str, str], list[tuple[Part, Record]]] = defaultdict(list)
    for part in found.parts:
        for claim_id, record in part.records.items():
            if record["outcome"] != "pending":
                entries[part.subject_of(record), claim_id].append((part, record))
        found.damage |= {(min(part.subjects), what): how for what, how in part.damage}
    for (subject, claim_id), measured in entries.items():
        record = settle([Entry(part.started, record) for part, record in measured])[0]
        part = next((part for part, one in measured if one is record), measured[-1][0])
        found.readings[subject][claim_id] = Reading(record, facts_on(part, subject)[0], subject)
    _note_lost(found)
    return found


def _verdict(aspect: Mapping[str, Any]) -> str | None:
    verdict = aspect.get("verdict")
    return None if verdict is None else shown(verdict)


def _note_lost(found: Evidence) -> None:
    """Claims that a run was about to test and that no record tells of."""
    ended = {claim_id for by_id in found.readings.values() for claim_id in by_id} | {what for _, what in found.damage}
    for part in found.parts:
        for claim_id in set(part.collected or ()) - ended:
            found.lost[min(part.subjects), claim_id] = "collected, and no record of how it ended"
