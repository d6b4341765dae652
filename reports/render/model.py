"""What a page shows: typed, language-neutral, and cautious. Colour is decided here, once, by `Claim.tone`."""

from __future__ import annotations

from dataclasses import dataclass, field

from reports.plots import Plot
from reports.tables import Table
from reports.verdict import Outcome, Verdict, has_moved

VERDICTS = tuple(v.value for v in Verdict)
OUTCOMES = tuple(o.value for o in Outcome)
CATEGORIES = (*VERDICTS, "error", "pending")
STANDINGS = ("proven", "likely", "does-not-transfer")
FAILING = ("REFUTED", "CONDITIONAL")
# From best to worst: a statement is never better than its worst aspect.
SEVERITY = {"HOLDS": 0, "UNRESOLVED": 1, "CONDITIONAL": 2, "REFUTED": 3}
SYMBOLS = {
    "HOLDS": "✓",
    "CONDITIONAL": "◐",
    "REFUTED": "✗",
    "UNRESOLVED": "?",
    "NOT_MEASURED": "–",
    "error": "!",
    "pending": "…",
    "context": "·",
}
FLIP_ORDER = (
    "conclusion",
    "conclusion_conditional",
    "explanation",
    "explanation_conditional",
    "number_stands",
    "number",
    "unnamed",
)

Note = tuple[str, str]  # a key of words.toml and the detail that fills it


@dataclass(frozen=True)
class Published:
    """A figure as printed, or a line that we declared, with the interval it stands for (None: open end)."""

    value: str
    unit: str
    low: float | None
    high: float | None
    origin: str
    why: str


@dataclass(frozen=True)
class Aspect:
    """One measured thing. `measured` is plain JSON: scalar, estimate, list, or cases."""

    name: str
    verdict: str | None
    bears: str
    relation: str
    measured: object
    published: Published | None
    reason: str
    unit: str
    on_record: str | None = None

    @property
    def moved(self) -> bool:
        """Whether it was decided otherwise than on record."""
        if self.verdict not in VERDICTS or self.on_record not in VERDICTS:
            return False
        return has_moved(Verdict(self.verdict), Verdict(self.on_record))

    @property
    def category(self) -> str:
        """The verdict, or `context` for what decides nothing."""
        return self.verdict or "context"


@dataclass(frozen=True)
class Claim:
    """One statement of the chapter and what this run says about it. Defects make it an error, whatever it claims."""

    id: str
    section: str
    verdict: str | None = None
    on_record: str | None = None
    outcome: str = "error"
    transferred: bool = False
    standing: str | None = None
    says: str = ""
    says_id: str = ""
    where: str = ""
    warrant: str = ""
    needs: tuple[str, ...] = ()
    reason: str = ""
    error: str = ""
    erratum: str = ""
    erratum_id: str = ""
    condition: str = ""
    test: str = ""
    seconds: float | None = None
    aspects: tuple[Aspect, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    protocol: tuple[tuple[str, object], ...] = ()
    defects: tuple[Note, ...] = ()

    @property
    def category(self) -> str:
        """The one box in which this statement is counted."""
        if self.defects or self.outcome == "error":
            return "error"
        return "pending" if self.outcome == "pending" else self.verdict or "NOT_MEASURED"

    @property
    def tone(self) -> str:
        """The colour. `good` takes a measured HOLDS that is also on record: any other outcome is news or a defect."""
        if self.category == "error" or self.outcome == "changed":
            return "bad"
        if self.outcome == "new":
            return "new"
        tones = {"HOLDS": "good", "CONDITIONAL": "erratum", "REFUTED": "erratum", "UNRESOLVED": "warn"}
        return tones.get(self.category, "mute")

    @property
    def measured(self) -> bool:
        """Whether this run came to a verdict, settled or not."""
        return self.category in SEVERITY

    @property
    def is_news(self) -> bool:
        """Whether a verdict that can be believed differs from the record, or has none."""
        return self.outcome in ("changed", "new") and self.category != "error"

    @property
    def carried_over(self) -> bool:
        """Whether what was stated of the chapter's model was found true on another one."""
        return self.transferred and self.category in ("HOLDS", "CONDITIONAL")

    @property
    def failing(self) -> tuple[Aspect, ...]:
        """The aspects that make the verdict, the refuted ones and the weightier ones first."""
        weight = {"conclusion": 0, "explanation": 1, "number": 2}
        found = [a for a in self.aspects if a.verdict in FAILING]
        return tuple(sorted(found, key=lambda a: (FAILING.index(a.verdict or ""), weight.get(a.bears, 3))))

    @property
    def erratum_kind(self) -> str | None:
        """Which erratum this is. A standing was judged for the verdict on record: another verdict has none."""
        if self.category in FAILING:
            judged = self.outcome == "as-recorded" and self.standing in STANDINGS
            return self.standing if judged else "unjudged"
        return "unseen" if self.erratum or self.on_record in FAILING else None

    @property
    def flip(self) -> str:
        """What falls with the statement: its conclusion, its explanation, or a number only."""
        failed = {(a.bears, a.verdict) for a in self.failing}
        for bears in ("conclusion", "explanation"):
            if (bears, "REFUTED") in failed:
                return bears
            if (bears, "CONDITIONAL") in failed:
                return f"{bears}_conditional"
        if not failed:
            return "unnamed"
        stands = any(a.bears == "conclusion" and a.verdict == "HOLDS" for a in self.aspects)
        return "number_stands" if stands else "number"


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


@dataclass(frozen=True)
class Page:
    """A whole run, ready to be shown."""

    claims: tuple[Claim, ...]
    run: dict[str, object] = field(default_factory=dict)
    model: ModelFacts | None = None
    complete: bool = True
    warnings: tuple[Note, ...] = ()

    def counts(self) -> dict[str, int]:
        """Statements per category, counted here and not taken over from the file."""
        return {name: sum(c.category == name for c in self.claims) for name in CATEGORIES}

    def with_outcome(self, outcome: str) -> list[Claim]:
        """Sound claims of one outcome."""
        return [c for c in self.claims if c.outcome == outcome and c.category != "error"]

    @property
    def errors(self) -> list[Claim]:
        """Claims without a verdict that can be believed."""
        return [c for c in self.claims if c.category == "error"]

    @property
    def num_measured(self) -> int:
        """How many claims came to a verdict."""
        return sum(c.measured for c in self.claims)

    def errata(self, kind: str) -> list[Claim]:
        """The errata of one kind, those that flip a conclusion first."""
        found = [c for c in self.claims if c.erratum_kind == kind]
        return sorted(found, key=lambda c: FLIP_ORDER.index(c.flip))

    def sections(self, order: list[str]) -> list[tuple[str, list[Claim]]]:
        """Claims by section: the sections of `order` first, unknown ones after, as they come."""
        present = list(dict.fromkeys(c.section for c in self.claims))
        known = [s for s in order if s in present] + [s for s in present if s not in order]
        return [(s, [c for c in self.claims if c.section == s]) for s in known]

    def headline(self) -> tuple[str, str]:
        """The key of the sentence that sums the run up, and its tone."""
        if not self.num_measured:
            return "nothing", "bad"
        if self.errors or self.with_outcome("changed"):
            return "red", "bad"
        if not self.complete:
            return "incomplete", "bad"
        if self.counts()["UNRESOLVED"] or self.with_outcome("new"):
            return "open", "warn"
        partial = self.num_measured < len(self.claims) or bool(self.warnings)
        return ("partial", "mute") if partial else ("good", "good")

    @property
    def has_findings(self) -> bool:
        """Whether somebody should look before believing this page."""
        return self.headline()[1] == "bad" or any(key != "part" for key, _ in self.warnings)
