"""Sentences that the page, the Markdown summary and the terminal share."""

from __future__ import annotations

from collections import Counter

from reports.render import figures
from reports.render.model import STANDINGS, Aspect, Claim, ModelFacts, Page
from reports.render.reading import finite, text
from reports.render.words import Words

KINDS = (*STANDINGS, "unjudged", "unseen")
_WEIGHTS = {"model", "shape", "trained", "chapter"}


def says(claim: Claim, w: Words) -> str:
    """Our paraphrase in the reader's language, in the other one where it is missing."""
    return (claim.says_id or claim.says) if w.lang == "id" else (claim.says or claim.says_id)


def erratum(claim: Claim, w: Words) -> str:
    """What to write instead, in the reader's language where there is a translation."""
    return (claim.erratum_id or claim.erratum) if w.lang == "id" else (claim.erratum or claim.erratum_id)


def model_line(model: ModelFacts | None, complete: bool, w: Words) -> str:
    """Name, size, number format and whose weights."""
    if model is None:
        return w("ui.no_model" if complete else "ui.model_unknown")
    whose = "own_weights" if model.is_chapter else "other_weights" if model.trained else "random_weights"
    size = finite(model.parameters)
    parts = [model.name, w("ui.parameters", n=figures.number(int(size), w.lang)) if size else ""]
    return ", ".join(filter(None, [*parts, model.dtype, model.device, w(f"ui.{whose}")]))


def measured_on(claim: Claim, page: Page, w: Words) -> str:
    """On what a statement was settled: a model, or none at all."""
    if not _WEIGHTS & set(claim.needs):
        return w("ui.no_model_needed")
    return model_line(page.model, page.complete, w)


def headline(page: Page, w: Words) -> str:
    """One sentence that sums the run up."""
    counts = page.counts()
    return w(
        f"headline.{page.headline()[0]}",
        changed=len(page.with_outcome("changed")),
        errors=counts["error"],
        unresolved=counts["UNRESOLVED"],
        new=len(page.with_outcome("new")),
        unmeasured=len(page.claims) - page.num_measured,
    )


def lede(page: Page, w: Words) -> str:
    """How many statements were in the run, and how many of them were measured."""
    total = len(page.claims)
    return w("ui.lede", total=total, measured=page.num_measured, unmeasured=total - page.num_measured)


def defects(claim: Claim, w: Words) -> list[str]:
    """What is wrong with the record itself."""
    return [w(f"defect.{key}", detail=detail).strip() for key, detail in claim.defects]


def why_not(claim: Claim, w: Words) -> str:
    """Why there is no verdict, or no settled one: the first of defect, error, reason, the aspects' reasons."""
    from_aspects = (a.reason for a in claim.aspects if a.reason)
    last_line = claim.error.strip().splitlines()[-1:]
    return next(filter(None, [*defects(claim, w), *last_line, claim.reason, *from_aspects]), "")


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


def decisive(claim: Claim, w: Words, most: int = 2) -> list[str]:
    """The figures that make the verdict, one line per failing aspect."""
    return [figure_line(a, w) for a in claim.failing[:most]]


def measured_briefly(claim: Claim, w: Words) -> list[str]:
    """One figure of the claim's own verdict, for a row that has no failing one."""
    found = [a for a in claim.aspects if a.verdict == claim.category][:1]
    return [figure_line(a, w) for a in found]


def figure_line(aspect: Aspect, w: Words) -> str:
    """One aspect on one line: what was measured beside what is published or expected."""
    line, stated = aspect.published, figures.published(aspect, w)
    beside = w("ui.published" if line and line.origin == "printed" else "ui.expected")
    tail = f", {beside} {stated}" if stated != "—" else ""
    return f"{aspect.name}: {w('ui.measured')} {figures.measured(aspect, w)}{tail}"


def run_facts(page: Page, w: Words) -> list[tuple[str, str]]:
    """The run's circumstances as rows; what was not recorded has no row."""
    run, versions = page.run, []
    for name in ("python", "torch", "transformers"):
        versions += [f"{name} {text(run[name])}"] if run.get(name) else []
    commit = text(run.get("commit"))
    if commit and run.get("dirty"):
        commit = w("ui.dirty", commit=commit)
    seconds = finite(run.get("seconds"))
    rows = [
        ("started", text(run.get("started"))),
        ("duration", f"{figures.number(round(seconds, 1), w.lang)} s" if seconds is not None else ""),
        ("commit", commit),
        ("versions", ", ".join(versions)),
        ("platform", text(run.get("platform"))),
        ("threads", text(run.get("threads"))),
        ("digest", page.model.digest if page.model else ""),
        ("command", _command(run.get("command"))),
    ]
    return [(w(f"ui.{key}"), value) for key, value in rows if value]


def _command(raw: object) -> str:
    """A command line as text, whether it was recorded as one string or as its words."""
    return " ".join(map(text, raw)) if isinstance(raw, list | tuple) else text(raw)
