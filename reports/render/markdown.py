"""The summary for a pull request or a CI page: errata first, then one table row per statement."""

from __future__ import annotations

import re

from reports.render import sentences
from reports.render.model import SYMBOLS, Claim, Page
from reports.render.plot_view import plot_view
from reports.render.table_view import TableView, table_view
from reports.render.words import Words

_SPECIAL = re.compile(r"([\\`*_{}\[\]#+|~$])")
_PLAIN = re.compile(r"[\w.\- /:=,]+")


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no table break, no HTML, no mention."""
    one_line = " ".join(text.split())
    entities = one_line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    # "#" inside an entity is not markup and must stay
    return _SPECIAL.sub(r"\\\1", entities).replace(r"&\#64;", "&#64;")


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
    lines += [escape(line) for line in sentences.decisive(claim, w)]
    label = w("ui.erratum_on_record" if kind == "unseen" else "ui.instead")
    lines += [f"**{label}:** {escape(sentences.erratum(claim, w) or w('ui.no_erratum_text'))}"]
    sure = w.name("warrant", claim.warrant)
    lines += [f"{w('ui.on_what')}: {escape(sentences.measured_on(claim, page, w))}. {w('ui.how_sure')}: {escape(sure)}"]
    inside = [f"  {line}".rstrip() for line in _regenerated(claim, w)]  # still of the list's entry
    return [head, *(f"  - {line}" for line in lines), *inside]


def _errata(page: Page, w: Words) -> list[str]:
    lines = [f"## {w('ui.errata')}", ""]
    for kind in sentences.KINDS:
        found = page.errata(kind)
        if found:
            lines += [f"### {w('standing.' + kind)} ({len(found)})", "", w(f"standing_meaning.{kind}"), ""]
            lines += [line for claim in found for line in _erratum(claim, kind, page, w)] + [""]
    return lines if len(lines) > 2 else [*lines, w("ui.no_errata"), ""]


def _row(claim: Claim, w: Words) -> list[str]:
    figure = "; ".join(sentences.decisive(claim, w) or sentences.measured_briefly(claim, w))
    detail = figure if claim.measured else sentences.why_not(claim, w)
    return [
        _verdict(claim, w),
        code(claim.id),
        escape(sentences.says(claim, w)),
        escape(detail),
        escape(sentences.record_line(claim, w)),
    ]


def _claims(page: Page, w: Words) -> list[str]:
    head = [w(f"ui.{key}") for key in ("verdict", "statement", "says", "measured", "outcome")]
    lines = [f"## {w('ui.statements')} ({len(page.claims)})", ""]
    for section, claims in page.sections(w.keys("section")):
        lines += [f"### {escape(w.name('section', section))}", "", *table(head, [_row(c, w) for c in claims])]
        for claim in (c for c in claims if c.erratum_kind is None):  # an erratum has shown its own
            shown = _regenerated(claim, w)
            lines += [code(claim.id), *shown] if shown else []
    return lines


def _top(page: Page, w: Words) -> list[str]:
    lines = [f"# {w('ui.title')}", "", sentences.lede(page, w), "", f"**{sentences.headline(page, w)}**", ""]
    lines += [f"> {escape(w('warning.' + key, detail=detail))}\n" for key, detail in page.warnings]
    for claim in [*page.with_outcome("changed"), *page.errors]:
        what = sentences.why_not(claim, w) if claim.category == "error" else sentences.record_line(claim, w)
        lines.append(f"- {_verdict(claim, w)} {code(claim.id)}: {escape(what)}")
    model = sentences.model_line(page.model, page.complete, w)
    counts = [[f"{SYMBOLS[key]} {w('verdict.' + key)}", str(n)] for key, n in page.counts().items()]
    return [*lines, "", f"{w('ui.model')}: {escape(model)}", "", *table([w("ui.verdict"), w("ui.count")], counts)]


def render_markdown(page: Page, w: Words) -> str:
    """The whole summary as text."""
    facts = [f"- {name}: {code(value)}" for name, value in sentences.run_facts(page, w)]
    lines = [*_top(page, w), *_errata(page, w), *_claims(page, w), f"## {w('ui.run')}", "", *facts, ""]
    return "\n".join(lines)
