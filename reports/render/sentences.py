"""Sentences that the page, the Markdown summaries and the terminal share."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import pairwise

from reports.render import figures
from reports.render.model import Aspect, Claim
from reports.render.page_model import ModelFacts, Page, Row, Subject
from reports.render.reading import finite, text
from reports.render.words import Words

_WEIGHTS = {"model", "shape", "trained", "chapter"}


def faults(claim: Claim, w: Words) -> list[str]:
    """The faults planted in a claim, each after the mark that says whether it was seen."""
    return [f"{fault.symbol} {fault.what}" + f" ({fault.why})" * bool(fault.why) for fault in claim.faults]


def sees(claim: Claim, w: Words) -> list[str]:
    """The smallest change of each figure that would turn its verdict."""
    return [f"{name}: {share(size, w)}" for name, size in claim.sees]


def finest(claim: Claim, w: Words) -> str:
    """The smallest of these changes."""
    return share(min(size for _, size in claim.sees), w) if claim.sees else "—"


def share(size: float, w: Words) -> str:
    """A relative change: percent below doubling, else how many times."""
    return f"{figures.number(float(f'{100 * size:.2g}'), w)} %" if size < 1 else w("ui.times", n=f"{1 + size:.2g}")


def controls_told(page: Page, w: Words) -> str:
    """How many faults were planted and seen."""
    found = [claim for row in page.rows for claim in [row.lead] if any(not f.stale for f in claim.faults)]
    planted = [fault for claim in found for fault in claim.faults if not fault.stale]
    seen, missed = (sum(fault.seen is answer for fault in planted) for answer in (True, False))
    counts = {"planted": len(planted), "claims": len(found), "seen": seen, "missed": missed}
    return w("ui.controls_told", **counts, undecided=len(planted) - seen - missed, total=len(page.rows))


def says(claim: Claim, w: Words) -> str:
    """Our paraphrase in the reader's language, in the other one where it is missing."""
    return w.pick(claim.says, claim.says_id)


def erratum(claim: Claim, w: Words) -> str:
    """What to write instead, in the reader's language where there is a translation."""
    return w.pick(claim.erratum, claim.erratum_id)


def model_line(model: ModelFacts | None, complete: bool, w: Words) -> str:
    """Name, size, number format and whose weights."""
    if model is None:
        return w("ui.no_model" if complete else "ui.model_unknown")
    whose = "own_weights" if model.is_chapter else "other_weights" if model.trained else "random_weights"
    size = finite(model.parameters)
    parts = [model.name, w("ui.parameters", n=figures.number(int(size), w)) if size else ""]
    return ", ".join(filter(None, [*parts, model.dtype, model.device, w(f"ui.{whose}")]))


def subject_name(subject: Subject, w: Words) -> str:
    """Model and machine of a column, short."""
    model = subject.model.name if subject.model else w("ui.no_model") if subject.runs else subject.key or "?"
    return f"{model} · {subject.machine or w('ui.machine_unknown')}"


def measured_on(claim: Claim, page: Page, w: Words) -> str:
    """On what a statement was settled: a model, and for what is timed a machine, or none at all."""
    subject = page.subject_of(claim)
    if not set(claim.needs) - {"lit"}:
        return w("ui.no_model_needed")
    timed = [subject.machine] if claim.warrant == "timed" and subject.machine else []
    return ", ".join([model_line(subject.model, page.complete, w), *timed])


def headline(page: Page, w: Words) -> str:
    """One sentence that sums the page up."""
    key = page.headline()[0]
    if key in ("red", "open"):
        found = page.alarms() if key == "red" else page.cautions()
        return w(f"headline.{key}", list="; ".join(w(f"alarm.{name}", n=n) for name, n in found.items() if n))
    unmeasured = len(page.claims) - page.num_measured
    return w("headline.part") if key == "partial" and not unmeasured else w(f"headline.{key}", n=unmeasured)


def lede(page: Page, w: Words) -> list[str]:
    """How many statements need a correction, and how many were in the run at all, and measured."""
    total, measured = len(page.claims), page.num_measured
    lines = [w("ui.lede_errata", wrong=page.num_errata, n=len(page.rows))] if page.num_errata else []
    told = {"measured": figures.number(measured, w), "unmeasured": figures.number(total - measured, w)}
    if len(page.subjects) > 1:
        return [*lines, w("ui.lede_subjects", n=len(page.subjects), **told)]
    return [*lines, w("ui.lede", n=total, **told)]


def to_look_at(page: Page, w: Words) -> list[tuple[Claim, str, str]]:
    """What makes the page red: a claim, the subjects that say the same of it, and what they say."""
    found: dict[tuple[str, str], list[Claim]] = {}
    for claim in (*page.with_outcome("changed"), *page.errors, *page.missing, *page.flagged):
        found.setdefault((claim.id, _to_look_at(claim, w)), []).append(claim)
    return [(claims[0], " ".join(map(page.letter, claims)), said) for (_, said), claims in found.items()]


def _to_look_at(claim: Claim, w: Words) -> str:
    if claim.is_news:
        return f"{record_line(claim, w)}, {w.name('verdict', claim.category)}"
    return drift_line(claim, w) if claim.is_flagged and claim.measured else why_not(claim, w)


def defects(claim: Claim, w: Words) -> list[str]:
    """What is wrong with the record itself."""
    return [w(f"defect.{key}", detail=detail).strip() for key, detail in claim.defects]


def why_not(claim: Claim, w: Words) -> str:
    """Why there is no verdict, or no settled one: the first of defect, error, reason, the aspects' reasons."""
    from_aspects = (a.reason for a in claim.aspects if a.reason)
    last_line = claim.error.strip().splitlines()[-1:]
    unsaid = [w("meaning.missing")] if claim.category == "missing" else []
    return next(filter(None, [*defects(claim, w), *last_line, claim.reason, *from_aspects, *unsaid]), "")


def reasons(page: Page) -> Counter[str]:
    """How many statements were not measured, by reason."""
    unmeasured = [c for c in page.claims if c.category == "NOT_MEASURED"]
    return Counter(c.reason or next((a.reason for a in c.aspects if a.reason), "?") for c in unmeasured)


def record_line(claim: Claim, w: Words) -> str:
    """The outcome, with the verdict on record where this one differs."""
    said = w.name("outcome", claim.outcome)
    if claim.outcome == "changed":
        return f"{said}: {w('ui.on_record')} {w.name('verdict', claim.on_record or '')}"
    return said


def drift_line(claim: Claim, w: Words) -> str:
    """What drift says of the claim, with its detail; empty where it says nothing."""
    if claim.drift is None:
        return ""
    return ": ".join(filter(None, [w.name("drift", claim.drift.status), claim.drift.detail]))


def decisive(claim: Claim, w: Words, most: int = 2, cases: int = figures.SHORT) -> list[str]:
    """The figures that make the verdict, one line per failing aspect."""
    return [figure_line(a, w, cases) for a in claim.failing[:most]]


def measured_briefly(claim: Claim, w: Words) -> list[str]:
    """The one figure that decides the claim, for a row."""
    return [figure_line(a, w) for a in claim.headline_figures[:1]]


def figure_line(aspect: Aspect, w: Words, cases: int = figures.SHORT) -> str:
    """One aspect on one line: what was measured beside what is published or expected."""
    line, stated = aspect.published, figures.published(aspect, w)
    beside = w("ui.published" if line and line.origin == "printed" else "ui.expected")
    tail = f", {beside} {stated}" if stated != "—" else ""
    return f"{aspect.name}: {w('ui.measured')} {figures.measured(aspect, w, cases)}{tail}"


def elsewhere(row: Row, page: Page, w: Words) -> list[tuple[str, Claim]]:
    """What the other subjects say of an erratum: their letters, and one of the claims that say it."""
    others = [cell for _, cell in row.present if cell is not row.lead]
    groups: dict[str, list[Claim]] = {}
    for cell in others:
        groups.setdefault(cell.category, []).append(cell)
    return [(" ".join(page.letter(c) for c in cells), cells[0]) for cells in groups.values()]


def reproduce(claim: Claim, page: Page) -> str:
    """The command that measures the claim again, quoted for a shell; with the model where the run was given one."""
    if not claim.test:
        return ""
    runs = page.subject_of(claim).runs if _WEIGHTS & set(claim.needs) else ()
    asked = {name: next(filter(None, (_asked(run, name) for run in runs)), "") for name in ("--model", "--dtype")}
    return shlex.join(["pytest", claim.test, *(word for pair in asked.items() if pair[1] for word in pair)])


def _asked(run: dict[str, object], option: str) -> str:
    """What the run's command gave as this option."""
    words = command_line(run.get("command")).split()
    given = [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
    given += [after for word, after in pairwise(words) if word == option]
    return next(iter(given), "")


def run_facts(subject: Subject, run: dict[str, object], w: Words) -> list[tuple[str, str]]:
    """A run's circumstances as rows; what was not recorded has no row."""
    versions = [f"{name} {text(run[name])}" for name in ("python", "torch", "transformers") if run.get(name)]
    commit = text(run.get("commit"))
    if commit and run.get("dirty"):
        commit = w("ui.dirty", commit=commit)
    seconds = finite(run.get("seconds"))
    rows = [
        ("started", text(run.get("started"))),
        ("duration", f"{figures.number(round(seconds, 1), w)} s" if seconds is not None else ""),
        ("commit", commit),
        ("versions", ", ".join(versions)),
        ("platform", subject.machine or text(run.get("platform"))),
        ("threads", text(run.get("threads"))),
        ("digest", subject.model.digest if subject.model else ""),
        ("command", command_line(run.get("command"))),
    ]
    return [(w(f"ui.{key}"), value) for key, value in rows if value]


def command_line(raw: object) -> str:
    """A command line as text, whether it was recorded as one string or as its words."""
    return " ".join(map(text, raw)) if isinstance(raw, list | tuple) else text(raw)
