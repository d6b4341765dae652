"""What a merge has to say beside the matrix: problems, which are never green, and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Notes: to be read, nothing to be mended. Every other kind is a problem.
NOTES = frozenset({"duplicate", "old", "unfinished"})
KINDS: Mapping[str, str] = {
    "conflict": "two runs disagree on one statement, on one subject",
    "gap": "collected and never ended, or collected nowhere",
    "damaged": "cannot be read, or contradicts itself",
    "unknown": "an id that the ledger does not have",
    "mixed": "parts of one subject were measured by different code, versions or weights",
    "ledger": "parts were made from different versions of a statement",
    "no-gpu": "a GPU was expected and nothing ran on one",
    "empty": "an input without evidence",
    "future": "a run that says it started later than now, by more than clocks differ",
    "duplicate": "one statement measured twice on one subject, without contradiction",
    "unfinished": "a run that was killed or interrupted; what it lost is listed as gaps",
    "old": "evidence from before runs said what they collect and on which machine",
}


def is_harmless(kind: object) -> bool:
    """Whether what a merge says by this kind is only a note: by the kind alone, whatever a document says of it."""
    return isinstance(kind, str) and kind in NOTES


@dataclass(frozen=True, order=True)
class Problem:
    """One line under the matrix; `id` and `subject` are empty where it is about more than one."""

    kind: str
    id: str
    subject: str
    detail: str

    @property
    def harmless(self) -> bool:
        """Whether it is only a note."""
        return is_harmless(self.kind)

    def as_json(self) -> dict[str, Any]:
        """The row of `merged.json`."""
        return asdict(self) | {"harmless": self.harmless}

    def __str__(self) -> str:
        place = " on ".join(part for part in (self.id, self.subject) if part)
        return ": ".join(part for part in (self.kind, place, self.detail) if part)
