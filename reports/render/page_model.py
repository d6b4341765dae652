"""The whole page: statements, each on every subject, and the one sentence and colour that sum them up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from reports.merge.problems import is_harmless
from reports.render.model import CATEGORIES, CAUTIONS, FAILING, MISSING, STANDINGS, Claim, Note
from reports.render.order import weightiest_first

KINDS = (*STANDINGS, "unjudged", "unseen")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class ModelFacts:
    """The model a run measured."""

    name: str
    digest: str
    parameters: object
    dtype: str
    device: str
    trained: bool
    is_chapter: bool
    note: str
    slug: str = ""


@dataclass(frozen=True)
class Subject:
    """What was measured on what: a column of the matrix. `machine` is its class, empty where none was recorded."""

    key: str
    model: ModelFacts | None = None
    machine: str = ""
    runs: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True)
class Problem:
    """Something that merging could not put right: its kind, and what it concerns (empty: the whole)."""

    kind: str
    claim: str
    subject: str
    detail: str

    @property
    def harmless(self) -> bool:
        """Whether it is only a note, as merging has it."""
        return is_harmless(self.kind)


@dataclass(frozen=True)
class Row:
    """A statement on every subject, in the order of the page's subjects; None where a run did not ask for it."""

    id: str
    cells: tuple[Claim | None, ...]
    lead: Claim

    @property
    def present(self) -> list[tuple[int, Claim]]:
        """The cells that are there, with the number of their subject."""
        return [(place, cell) for place, cell in enumerate(self.cells) if cell is not None]


@dataclass(frozen=True)
class Page:
    """One or several runs, ready to be shown: `claims` has one entry for each statement and subject."""

    claims: tuple[Claim, ...]
    subjects: tuple[Subject, ...] = (Subject(""),)
    complete: bool = True
    warnings: tuple[Note, ...] = ()
    problems: tuple[Problem, ...] = ()
    has_drift: bool = False
    has_controls: bool = False

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """One row for each statement."""
        places = {subject.key: place for place, subject in enumerate(self.subjects)}
        found: dict[str, list[Claim | None]] = {}
        for claim in self.claims:
            found.setdefault(claim.id, [None] * len(places))[places[claim.subject]] = claim
        return tuple(Row(key, tuple(cells), _lead(cells)) for key, cells in found.items())

    def subject_of(self, claim: Claim) -> Subject:
        """What a claim was measured on."""
        return next(subject for subject in self.subjects if subject.key == claim.subject)

    def letter(self, claim: Claim) -> str:
        """The short name of a claim's subject on this page; empty where there is only one."""
        return letter(self.subjects.index(self.subject_of(claim))) if len(self.subjects) > 1 else ""

    def counts(self) -> dict[str, int]:
        """Verdicts per category over all subjects, counted here and not taken over from the file."""
        found = Counter(c.category for c in self.claims)
        return {name: found[name] for name in CATEGORIES}

    def drift_counts(self) -> Counter[str]:
        """Verdicts by what drift says of them."""
        return Counter(c.drift.status for c in self.claims if c.drift)

    def with_outcome(self, outcome: str) -> list[Claim]:
        """Sound claims of one outcome."""
        return [c for c in self.claims if c.outcome == outcome and c.category != "error"]

    @property
    def errors(self) -> list[Claim]:
        """Claims without a verdict that can be believed."""
        return [c for c in self.claims if c.category == "error"]

    @property
    def missing(self) -> list[Claim]:
        """Claims without a record."""
        return [c for c in self.claims if c.category == MISSING]

    @property
    def flagged(self) -> list[Claim]:
        """Claims that drift flags, and that are not named for another reason already."""
        named = {*map(id, self.errors), *map(id, self.missing), *map(id, self.with_outcome("changed"))}
        return [c for c in self.claims if c.is_flagged and id(c) not in named]

    @property
    def troubles(self) -> list[Problem]:
        """What merging found and nobody should overlook."""
        return [p for p in self.problems if not p.harmless]

    @property
    def num_measured(self) -> int:
        """How many verdicts there are."""
        return sum(c.measured for c in self.claims)

    def errata(self, kind: str) -> list[Claim]:
        """The errata of one kind, a statement once, those that flip a conclusion first."""
        found = [row.lead for row in self.rows if row.lead.erratum_kind == kind]
        return weightiest_first(found)

    @property
    def num_errata(self) -> int:
        """How many statements need a correction by what these runs saw."""
        return sum(len(self.errata(kind)) for kind in KINDS if kind != "unseen")

    def sections(self, order: list[str]) -> list[tuple[str, list[Row]]]:
        """Rows by section: the sections of `order` first, unknown ones after, as they come."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.lead.section, []).append(row)
        known = [s for s in order if s in found] + [s for s in found if s not in order]
        return [(s, found[s]) for s in known]

    def alarms(self) -> dict[str, int]:
        """How many there are of everything that makes the page red."""
        statuses = Counter(c.drift.status for c in self.flagged if c.drift)
        return {
            "changed": len(self.with_outcome("changed")),
            "error": len(self.errors),
            "missing": len(self.missing) + statuses["missing"],
            "drifted": statuses["drifted"],
            "damaged": statuses["damaged"],
            "problem": len(self.troubles),
        }

    def cautions(self) -> dict[str, int]:
        """How many there are of everything that is neither red nor green."""
        drift = self.drift_counts()
        return {
            "unresolved": sum(c.category == "UNRESOLVED" for c in self.claims),
            "new": len(self.with_outcome("new")),
            **{status: drift[status] for status in CAUTIONS},
            "duplicate": len(self.problems) - len(self.troubles),
        }

    def headline(self) -> tuple[str, str]:
        """The key of the sentence that sums the page up, and its tone. Green takes everything, measured, undoubted."""
        if not self.num_measured:
            return "nothing", "bad"
        alarms = self.alarms()
        if not self.complete:
            alarms["missing"] = 0  # a run that was cut off says so, and its rows what it never reached
        if any(alarms.values()):
            return "red", "bad"
        if not self.complete:
            return "incomplete", "bad"
        if any(self.cautions().values()):
            return "open", "warn"
        partial = self.num_measured < len(self.claims) or bool(self.warnings) or self.has_gaps
        return ("partial", "mute") if partial else ("good", "good")

    @property
    def has_gaps(self) -> bool:
        """Whether a subject was not asked for a statement that another one was."""
        return any(cell is None for row in self.rows for cell in row.cells)

    @property
    def has_findings(self) -> bool:
        """Whether somebody should look before believing this page."""
        return self.headline()[1] == "bad" or any(key != "part" for key, _ in self.warnings)


def letter(place: int) -> str:
    """A short name for a subject: A, B, …, Z, A2, B2, …"""
    turn, rest = divmod(place, len(LETTERS))
    return LETTERS[rest] + (str(turn + 1) if turn else "")


def _lead(cells: list[Claim | None]) -> Claim:
    """The cell that tells the statement's story: its erratum as far as it reaches, else the first verdict."""
    present = [cell for cell in cells if cell is not None]
    return min(present, key=_leading)


def _leading(claim: Claim) -> tuple[bool, int, bool]:
    kind = claim.erratum_kind
    seen = claim.category in FAILING
    return not seen, KINDS.index(kind) if kind and seen else 0, not claim.measured
