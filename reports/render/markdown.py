"""The summary for a pull request or a CI page: errata first, then one table row per statement."""

from __future__ import annotations

import re

from reports.render import figures, sentences
from reports.render.model import DRIFT_MARKS, SYMBOLS, Claim
from reports.render.page_model import KINDS, Page, Problem, Row, letter
from reports.render.plot_view import plot_view
from reports.render.table_view import TableView, table_view
from reports.render.words import Words

_SPECIAL = re.compile(r"([\\`*_{}\[\]#+|~$])")
_ITEM = re.compile(r"^(\d{0,9})((?<!\d)-(?=[\s-]|$)|(?<=\d)[.)](?=\s|$))")  # would begin a list, or be a rule
_PLAIN = re.compile(r"[\w.\- /:=,]+")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no table break, no HTML, no mention."""
    one_line = " ".join(text.split())
    entities = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    # "#" inside an entity is not markup and must stay
    return _ITEM.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", entities).replace(r"&\#64;", "&#64;"))


def code(text: str) -> str:
    """Code where the text cannot break out of it, else escaped text."""
    return f"`{text}`" if _PLAIN.fullmatch(text) else escape(text)


def table(head: list[str], rows: list[list[str]], rules: list[str] | None = None) -> list[str]:
    """A pipe table of cells that are escaped already; a rule of `---:` puts its column to the right."""
    lines = [head, rules or ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines] + [""]


def _verdict(claim: Claim, w: Words) -> str:
    return f"{SYMBOLS[claim.category]} {escape(w.name('verdict', claim.category))}"


def _regenerated(claim: Claim, w: Words) -> list[str]:
    """The tables of a claim, each under its title; of a plot, a sentence and its numbers."""
    lines = []
    for shown in (table_view(given, w) for given in claim.tables):
        lines += ["", f"**{escape(shown.title)}**", "", *_table(shown)]
    for plot in (plot_view(given, w) for given in claim.plots):
        lines += ["", f"**{escape(plot.title)}**", "", escape(plot.says), "", *_table(plot.table)]
    return lines


def _table(shown: TableView) -> list[str]:
    head = [escape(f"{h.name} ({h.unit})" if h.unit else h.name) for h in shown.heads]
    rules = ["---:" if h.numeric else "---" for h in shown.heads]
    return table(head, [[escape(str(cell)) for cell in row] for row in shown.rows], rules)


def _erratum(claim: Claim, kind: str, page: Page, w: Words) -> list[str]:
    head = f"- {code(claim.id)} ({escape(w.name('verdict', claim.category))}"
    head += ")" if kind == "unseen" else f"; {escape(w('flip.' + claim.flip))})"
    lines = [f"{w('ui.says')}: {escape(sentences.says(claim, w))}"]
    lines += [escape(line) for line in sentences.decisive(claim, w, len(claim.failing), figures.LONG)]
    label = w("ui.erratum_on_record" if kind == "unseen" else "ui.instead")
    lines += [f"**{label}:** {escape(sentences.erratum(claim, w) or w('ui.no_erratum_text'))}"]
    sure = w.name("warrant", claim.warrant)
    lines += [f"{w('ui.on_what')}: {escape(sentences.measured_on(claim, page, w))}. {w('ui.how_sure')}: {escape(sure)}"]
    inside = [f"  {line}".rstrip() for line in _regenerated(claim, w)]  # still of the list's entry
    return [head, *(f"  - {line}" for line in lines), *inside]


def _errata(page: Page, w: Words) -> list[str]:
    lines = [f"## {w('ui.errata')}", ""]
    for kind in KINDS:
        found = page.errata(kind)
        if found:
            lines += [f"### {w('standing.' + kind)} ({len(found)})", "", w(f"standing_meaning.{kind}"), ""]
            lines += [line for claim in found for line in _erratum(claim, kind, page, w)] + [""]
    return lines if len(lines) > 2 else [*lines, w("ui.no_errata"), ""]


def _row(row: Row, page: Page, w: Words) -> list[str]:
    """The lead's story; of several subjects each has a column of its own, by its letter."""
    claim = row.lead
    figure = "; ".join(sentences.decisive(claim, w) or sentences.measured_briefly(claim, w))
    detail = figure if claim.measured else sentences.why_not(claim, w)
    return [
        *[_verdict(cell, w) if cell else escape(w("ui.not_asked")) for cell in row.cells],
        code(claim.id),
        escape(sentences.says(claim, w)),
        escape(detail),
        escape("; ".join(dict.fromkeys(_outcome(cell, page, w) for _, cell in row.present))),
    ]


def _outcome(claim: Claim, page: Page, w: Words) -> str:
    drift = sentences.drift_line(claim, w) if claim.drift and claim.drift.status != "steady" else ""
    who = f"{page.letter(claim)}: " if page.letter(claim) and (claim.is_news or drift) else ""
    return who + "; ".join(filter(None, [sentences.record_line(claim, w), drift]))


def _claims(page: Page, w: Words) -> list[str]:
    letters = [letter(place) for place in range(len(page.subjects))]
    verdicts = letters if len(letters) > 1 else [w("ui.verdict")]
    head = [*verdicts, *(w(f"ui.{key}") for key in ("statement", "says", "measured", "outcome"))]
    lines = [f"## {w('ui.statements')} ({len(page.rows)})", ""]
    for section, rows in page.sections(w.keys("section")):
        lines += [f"### {escape(w.name('section', section))}", "", *table(head, [_row(r, page, w) for r in rows])]
        for claim in (r.lead for r in rows if r.lead.erratum_kind is None):  # an erratum has shown its own
            shown = _regenerated(claim, w)
            lines += [code(claim.id), *shown] if shown else []
    return lines


def top(page: Page, w: Words, most: int | None = None) -> list[str]:
    """Headline, warnings, what to look at (`most` of it), on what it was measured, and the counts."""
    lines = [f"# {w('ui.title')}", "", *sentences.lede(page, w), "", f"**{escape(sentences.headline(page, w))}**", ""]
    lines += [f"> {escape(w('warning.' + key, detail=detail))}\n" for key, detail in page.warnings]
    look = [_look(*found, w) for found in sentences.to_look_at(page, w)]
    look += [_problem(p, w) for p in page.problems]
    rest = [f"- … {w('ui.more', n=len(look) - most)}"] if most is not None and len(look) > most else []
    counts = [[f"{SYMBOLS[key]} {w('verdict.' + key)}", str(n)] for key, n in page.counts().items()]
    drift = [[f"{DRIFT_MARKS[key]} {w('drift.' + key)}", str(n)] for key, n in page.drift_counts().items()]
    tables = [*table([w("ui.verdict"), w("ui.count")], counts), *_if(drift, [w("ui.drift"), w("ui.count")])]
    return [*lines, *look[:most], *rest, "", *_subjects(page, w), "", *tables]


def _if(rows: list[list[str]], head: list[str]) -> list[str]:
    return table(head, rows) if rows else []


def _look(claim: Claim, letters: str, said: str, w: Words) -> str:
    return f"- {_verdict(claim, w)} {code(claim.id)} {letters}".rstrip() + f": {escape(said)}"


def _problem(problem: Problem, w: Words) -> str:
    what = ", ".join(code(part) for part in (problem.claim, problem.subject) if part)
    told = f"- ! {escape(w.name('problem', problem.kind))}"
    return told + f": {what}" * bool(what) + f" ({escape(problem.detail)})" * bool(problem.detail)


def _subjects(page: Page, w: Words) -> list[str]:
    if len(page.subjects) > 1:
        return [f"- {letter(i)}: {escape(sentences.subject_name(s, w))}" for i, s in enumerate(page.subjects)]
    model = sentences.model_line(page.subjects[0].model, page.complete, w)
    return [f"{w('ui.model')}: {escape(model)}"]


def render_markdown(page: Page, w: Words) -> str:
    """The whole summary as text."""
    facts = [fact for subject in page.subjects for run in subject.runs for fact in sentences.run_facts(subject, run, w)]
    told = [f"- {name}: {code(value)}" for name, value in facts]
    lines = [*top(page, w), *_errata(page, w), *_claims(page, w), f"## {w('ui.run')}", "", *told, ""]
    return "\n".join(lines)
