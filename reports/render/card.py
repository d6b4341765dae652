"""A statement's card: every figure on every subject, and what is said of it; what subjects agree on is said once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from reports.render import figures, sentences
from reports.render.figures import Bar
from reports.render.model import Aspect, Claim, Drift
from reports.render.page_model import Page, Row
from reports.render.plot_view import PlotView, plot_view
from reports.render.sparkline import Sparkline, sparkline
from reports.render.table_view import TableView, table_view
from reports.render.words import Words

# An id that can stand in a relative address as it is: what `reports.evidence` calls a safe file name.
_LINKABLE = re.compile(r"[a-z0-9][a-z0-9.-]{0,199}")

T = TypeVar("T")
Cells = list[tuple[str, Claim]]  # the letter of a subject and its claim


@dataclass(frozen=True)
class Reading:
    """What a figure was on the subjects that share it."""

    letters: str
    value: str
    bar: Bar | None


@dataclass(frozen=True)
class Judged:
    """What was decided of a figure, and why, on the subjects that share it."""

    letters: str
    category: str
    reason: str


@dataclass(frozen=True)
class Cases:
    """A figure of several cases, one a row; a column for each reading, headed by its letters."""

    letters: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class FigureRow:
    """A figure: what is published or expected of it, its readings, and its cases where one line cannot hold them."""

    name: str
    bears: str
    published: str
    interval: str
    origin: str
    why: str
    readings: list[Reading]
    judged: list[Judged]
    cases: Cases | None


@dataclass(frozen=True)
class Fact:
    """Something that is said of the claim: `kind` tells the template how to show `value`."""

    label: str
    letters: str
    kind: str
    value: Any


@dataclass(frozen=True)
class Card:
    """All there is to a statement, in words."""

    figures: list[FigureRow]
    shown_of: str  # the subject of the tables and plots, where there are several
    tables: list[TableView]
    plots: list[PlotView]
    facts: list[Fact]


def card(row: Row, page: Page, has_record: Callable[[str], bool], w: Words) -> Card:
    """The card of a row in the language of the page; `has_record` tells whose evidence can be linked to."""
    cells = [(page.letter(claim), claim) for _, claim in row.present]
    linked = bool(_LINKABLE.fullmatch(row.id)) and has_record(row.id)
    return Card(
        [_figure(name, cells, w) for name in _names(row)],
        page.letter(row.lead) if len(cells) > 1 else "",
        [table_view(given, w) for given in row.lead.tables],
        [plot_view(given, w) for given in row.lead.plots],
        [*_shared_facts(row, w), *_facts(cells, page, w), *_evidence(row, linked, w)],
    )


def _names(row: Row) -> list[str]:
    """The figures of every subject, those of the lead first."""
    claims = [row.lead, *(claim for _, claim in row.present)]
    return list(dict.fromkeys(a.name for claim in claims for a in claim.aspects))


def _grouped(pairs: Iterable[tuple[str, T]]) -> list[tuple[str, T]]:
    """Equal values once, under the letters of all that have them."""
    groups: list[tuple[list[str], T]] = []
    for who, value in pairs:
        found = next((letters for letters, known in groups if _same(known, value)), None)
        if found is None:
            groups.append(([who], value))
        else:
            found.append(who)
    return [(" ".join(letters), value) for letters, value in groups]


def _same(one: object, other: object) -> bool:
    return one is other or one == other  # a NaN is not equal to itself


def _figure(name: str, cells: Cells, w: Words) -> FigureRow:
    found = [(who, a) for who, claim in cells for a in claim.aspects if a.name == name]
    first = next((a for _, a in found if a.published), found[0][1])
    line = first.published
    origin = w("ui.printed" if line.origin == "printed" else "ui.declared") if line and line.origin else ""
    bears = w.name("bears", first.bears) if first.bears else ""
    interval, why = figures.interval(line, w), line.why if line else ""
    values = _grouped((who, a.measured) for who, a in found)
    by_letters = [(letters, next(a for _, a in found if _same(a.measured, value))) for letters, value in values]
    cases = _cases(by_letters, w)
    readings = [_reading(letters, aspect, cases is not None, w) for letters, aspect in by_letters]
    judged = [Judged(who, *said) for who, said in _grouped((who, (a.category, a.reason)) for who, a in found)]
    stated = figures.published(first, w)
    return FigureRow(name, bears, stated, interval, origin, why, readings, judged, cases)


def _reading(letters: str, aspect: Aspect, below: bool, w: Words) -> Reading:
    num_cases = len(aspect.measured) if isinstance(aspect.measured, dict | list) else 0
    value = w("ui.cases", n=num_cases) if below and num_cases else figures.measured(aspect, w)
    return Reading(letters, value, figures.bar(aspect))


def _cases(readings: list[tuple[str, Aspect]], w: Words) -> Cases | None:
    """The cases of all readings side by side, where any of them has more than a line can hold."""
    found = [dict(figures.cases(aspect, w)) for _, aspect in readings]
    if max(map(len, found)) <= figures.SHORT + 1:
        return None
    names = list(dict.fromkeys(name for cases in found for name in cases))
    return Cases([letters for letters, _ in readings], [(n, [c.get(n, "—") for c in found]) for n in names])


def _shared_facts(row: Row, w: Words) -> list[Fact]:
    """What is the statement's own, whatever it was measured on."""
    lead = row.lead
    needs = "; ".join(w.name("needs", need) for need in lead.needs)
    found = [
        Fact(w("ui.where"), "", "english", lead.where),
        Fact(w("ui.how_sure"), "", "text", w.name("warrant", lead.warrant) if lead.warrant else ""),
        Fact(w("ui.needs"), "", "text", needs),
        Fact(w("ui.instead"), "", "erratum", lead.id if lead.erratum_kind else ""),
        Fact(w("ui.faults"), "", "notes", tuple(sentences.faults(lead, w))),
        Fact(w("ui.sees"), "", "list", tuple(sentences.sees(lead, w))),
    ]
    return [fact for fact in found if fact.value]


def _facts(cells: Cells, page: Page, w: Words) -> list[Fact]:
    """What each subject says; what all of them say has no letters."""
    told: list[tuple[str, str, Callable[[Claim], Any]]] = [
        ("ui.error", "list", lambda c: tuple(sentences.defects(c, w))),
        ("ui.reason", "english", _reason),
        ("ui.condition", "english", lambda c: c.condition),
        ("ui.on_record", "text", lambda c: _record(c, w)),
        ("ui.notes", "notes", lambda c: c.notes),
        ("ui.protocol", "protocol", lambda c: tuple((key, figures.short(value, w)) for key, value in c.protocol)),
        ("ui.drift", "drift", lambda c: c.drift),
        ("ui.history", "nights", lambda c: _nights(c, w)),
        ("ui.duration", "number", lambda c: f"{figures.short(round(c.seconds, 3), w)} s" if c.seconds else ""),
        ("ui.error", "pre", lambda c: c.error),
        ("ui.reproduce", "code", lambda c: sentences.reproduce(c, page)),
    ]
    return [
        Fact(w(label), letters if len(letters.split()) < len(cells) else "", kind, value)
        for label, kind, read in told
        for letters, value in _grouped(_said(cells, read))
    ]


def _said(cells: Cells, read: Callable[[Claim], Any]) -> list[tuple[str, Any]]:
    """Who says what, of those that say anything."""
    return [(who, value) for who, value in ((who, read(claim)) for who, claim in cells) if value]


def _reason(claim: Claim) -> str:
    """Why there is no verdict, or this one, unless that is no more than what stands beside its figures."""
    beside = "; ".join(f"{a.name}: {a.reason}" for a in claim.aspects if a.verdict == claim.verdict and a.reason)
    return "" if claim.reason == beside else claim.reason


def _record(claim: Claim, w: Words) -> str:
    said = w.name("verdict", claim.on_record) if claim.on_record else w("ui.no_record")
    outcome = f" ({sentences.record_line(claim, w)})" if claim.is_news else ""
    moved = f"; {w('ui.transferred')}: {w('ui.transferred_why')}" if claim.carried_over else ""
    return said + outcome + moved


def _nights(claim: Claim, w: Words) -> Sparkline | None:
    return sparkline(claim.nights, w) if claim.nights else None


def _evidence(row: Row, linked: bool, w: Words) -> list[Fact]:
    return [Fact(w("ui.evidence"), "", "link", f"records/{row.id}.json")] if linked else []


def drift_rows(drift: Drift, w: Words) -> list[Mapping[str, str]]:
    """The figures of a drift mark that are not as they were, in words."""
    return [
        {
            "name": f.name,
            "status": w.name("drift", f.status),
            "was": figures.short(f.was, w),
            "now": figures.short(f.now, w),
            "detail": f.detail,
        }
        for f in drift.figures
        if f.status != "steady"
    ]
