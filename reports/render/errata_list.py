"""The errata on record as a file for the chapter's author, in the page's order, made of the ledgers and nothing else.

No run is needed, so that the file can be tested to be current. What was measured stands in the words of each erratum;
the figures beside it are the chapter's, each with the verdict on record.
"""

from __future__ import annotations

from collections.abc import Iterator

from reports.ledger import GIVEN, Figure, Ledger, Statement
from reports.render import figures, sentences
from reports.render.markdown import code, escape
from reports.render.model import FAILING, STANDINGS, SYMBOLS, Aspect, Claim, Published
from reports.render.order import weightiest_first
from reports.render.words import Words
from reports.verdict import Verdict

NAMES = {"en": "ERRATA.md", "id": "ERRATA.id.md"}
ANY = "default"  # the ledger's key for a record that no model changes


def render_errata(ledger: Ledger, lang: str) -> str:
    """The whole file as text, in one language."""
    w = Words(lang)
    found = [claim for s in ledger.statements.values() if (claim := _claim(s)) is not None]
    counts = {kind: [c for c in found if c.standing == kind] for kind in STANDINGS}
    told = ", ".join(f"{len(claims)} {w('standing_lower.' + kind)}" for kind, claims in counts.items())
    lines = [
        f"# {w('errata.title')}", "",
        w("errata.head"), "",
        w("errata.counts", wrong=len(found), n=len(ledger.statements), kinds=told), "",
    ]  # fmt: skip
    for kind, claims in counts.items():
        lines += [f"## {w('standing.' + kind)} ({len(claims)})", "", w(f"standing_meaning.{kind}"), ""] * bool(claims)
        lines += [line for claim in weightiest_first(claims) for line in _told(claim, ledger.statements[claim.id], w)]
    return "\n".join(lines)


def _claim(statement: Statement) -> Claim | None:
    """The statement as the page knows it, by the worst verdict on record; None where nothing is wrong with it."""
    failing = [key for key, verdict in statement.on_record.items() if verdict in FAILING]
    if not failing:
        return None
    key = min(failing, key=lambda key: FAILING.index(statement.on_record[key]))
    slug, _, device = key.partition("@")
    verdict = statement.on_record[key].value
    return Claim(
        id=statement.id, section=statement.section, verdict=verdict, on_record=verdict, outcome="as-recorded",
        standing=statement.standing, says=statement.says, says_id=statement.says_id, where=statement.where,
        warrant=statement.warrant, erratum=statement.erratum, erratum_id=statement.erratum_id,
        aspects=tuple(_aspect(f, slug, device) for f in statement.figures.values() if f.relation != GIVEN),
    )  # fmt: skip


def _aspect(figure: Figure, slug: str, device: str) -> Aspect:
    verdict = figure.record_for(slug, device or None)
    line = figure.interval()
    low, high = (float(line.low), float(line.high)) if line else (None, None)
    stated = Published(figure.value, figure.unit, low, high, figure.origin, figure.why) if figure.value else None
    said = verdict and verdict.value
    return Aspect(figure.name, said, figure.bears, figure.relation, None, stated, "", figure.unit, said)


def _told(claim: Claim, statement: Statement, w: Words) -> Iterator[str]:
    yield from [f"### {escape(claim.where)}", ""]
    verdict = f"{SYMBOLS[claim.category]} **{w('verdict.' + claim.category)}**: {w('flip.' + claim.flip)}"
    yield from [f"{verdict}. {code(claim.id)}", ""]
    yield from [f"> {escape(sentences.says(claim, w))}", ""]
    yield from [f"**{w('ui.instead')}:** {escape(sentences.erratum(claim, w))}", ""]
    yield from [f"- {line}" for line in _figures(claim, statement, w)]
    yield f"- {w('ui.how_sure')}: {escape(w.name('warrant', claim.warrant))}"
    yield from [f"- {w('ui.on_record')}: {_records(statement, w)}", ""]


def _figures(claim: Claim, statement: Statement, w: Words) -> Iterator[str]:
    for aspect in claim.failing:
        beside = w("ui.printed" if aspect.published and aspect.published.origin == "printed" else "ui.declared")
        stated = figures.published(aspect, w)
        said = f": {escape(stated)} ({beside})" if stated != "—" else ""
        cases = statement.figures[aspect.name].true_at
        only = f", {w('errata.true_at', cases=escape('; '.join(cases)))}" if cases else ""
        yield f"{code(aspect.name)}{said}: {w('verdict.' + aspect.category)}{only}"


def _records(statement: Statement, w: Words) -> str:
    """What is on record on which model; a record that no model changes names none."""
    said = {key: w.name("verdict", Verdict(verdict).value) for key, verdict in statement.on_record.items()}
    return "; ".join(verdict if key == ANY else f"{verdict} ({code(key)})" for key, verdict in said.items())
