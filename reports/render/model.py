"""What a page shows of one statement on one subject: typed, language-neutral, and cautious.

Colour is decided here, once, by `Claim.tone`; that of the whole page by `Page.headline` in `page_model`.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.plots import Plot
from reports.tables import Table
from reports.verdict import Outcome, Verdict, has_moved

VERDICTS = tuple(v.value for v in Verdict)
OUTCOMES = tuple(o.value for o in Outcome)
MISSING = "missing"  # collected, or in the baseline, and without a record
CATEGORIES = (*VERDICTS, "error", MISSING, "pending")
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
    MISSING: "∅",
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

# What drift says of a claim, and the mark beside its verdict. `drifted`, `missing` and `damaged` are flags: red. The
# next four are visible and never green; the rest is as it should be.
DRIFT_MARKS = {
    "drifted": "▲",
    "missing": "∅",
    "damaged": "!",
    "suspected": "△",
    "incomparable": "≠",
    "unknown": "∗",
    "annotated": "~",
    "silent": "∘",
    "unmeasured": "–",
    "steady": "=",
}
FLAGS = ("drifted", "missing", "damaged")
CAUTIONS = ("suspected", "silent", "incomparable", "unknown")

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
    flipped_cases: tuple[str, ...] = ()

    @property
    def moved(self) -> bool:
        """Whether it, or one of its cases, was decided otherwise than on record."""
        if self.flipped_cases:
            return True
        if self.verdict not in VERDICTS or self.on_record not in VERDICTS:
            return False
        return has_moved(Verdict(self.verdict), Verdict(self.on_record))

    @property
    def category(self) -> str:
        """The verdict, or `context` for what decides nothing."""
        return self.verdict or "context"


@dataclass(frozen=True)
class FigureDrift:
    """How one figure stands beside its baseline; `was` and `now` are plain JSON."""

    name: str
    status: str
    was: object
    now: object
    detail: str


@dataclass(frozen=True)
class Drift:
    """How a claim stands beside its baseline, as `python -m reports compare` found."""

    status: str
    detail: str
    figures: tuple[FigureDrift, ...] = ()

    @property
    def tone(self) -> str:
        """The colour of its mark."""
        return "bad" if self.status in FLAGS else "warn" if self.status in CAUTIONS else "mute"


@dataclass(frozen=True)
class Nights:
    """One subject's history of a claim: what each night said, oldest first; None where a night has nothing of it."""

    dates: tuple[str, ...]
    verdicts: tuple[str | None, ...]
    figure: str
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class Fault:
    """A fault that was planted in what a claim measures; `seen` is None where it could not be decided."""

    what: str
    seen: bool | None
    stale: bool = False  # planted in other code, or on another model, than the page's verdict is of
    why: str = ""  # it crashed, was not run, or could not be decided

    @property
    def symbol(self) -> str:
        """How its line begins."""
        return "–" if self.stale else {True: "✓", False: "✗", None: "?"}[self.seen]


@dataclass(frozen=True)
class Claim:
    """One statement of the chapter and what one run says about it. Defects make it an error, whatever it claims."""

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
    fault_source: str = ""  # digest of the code that plants its faults and judges them
    seconds: float | None = None
    aspects: tuple[Aspect, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    protocol: tuple[tuple[str, object], ...] = ()
    defects: tuple[Note, ...] = ()
    subject: str = ""
    drift: Drift | None = None
    nights: Nights | None = None
    faults: tuple[Fault, ...] = ()
    sees: tuple[tuple[str, float], ...] = ()  # figure, and the smallest relative change that would decide it otherwise

    @property
    def category(self) -> str:
        """The one box in which this statement is counted."""
        if self.defects or self.outcome == "error":
            return "error"
        return self.outcome if self.outcome in ("pending", MISSING) else self.verdict or "NOT_MEASURED"

    @property
    def tone(self) -> str:
        """The colour. `good` takes a measured HOLDS that is also on record: any other outcome is news or a defect."""
        if self.category in ("error", MISSING) or self.outcome == "changed" or self.is_flagged:
            return "bad"
        if self.outcome == "new":
            return "new"
        if self.category == "HOLDS":
            return "warn" if self.drift and self.drift.status in CAUTIONS else "good"
        return {"CONDITIONAL": "erratum", "REFUTED": "erratum", "UNRESOLVED": "warn"}.get(self.category, "mute")

    @property
    def is_flagged(self) -> bool:
        """Whether drift raised its flag."""
        return self.drift is not None and self.drift.status in FLAGS

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
        """The aspects that make the verdict: what bears the conclusion first, as `flip` does; then the refuted ones."""
        found = [a for a in self.aspects if a.verdict in FAILING]
        return tuple(sorted(found, key=lambda a: (_weight(a), FAILING.index(a.verdict or ""))))

    @property
    def headline_figures(self) -> tuple[Aspect, ...]:
        """The figures to show of the claim, the one that decides it first: what fails, else what has its verdict."""
        rest = sorted((a for a in self.aspects if a.verdict == self.category), key=_weight)
        return self.failing or tuple(rest)

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


def _weight(aspect: Aspect) -> int:
    return {"conclusion": 0, "explanation": 1, "number": 2}.get(aspect.bears, 3)
