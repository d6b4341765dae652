"""What drift found, put beside the verdicts of a page; a claim that only the baseline knows becomes a row.

The document (`drift.json`): {"schema": 1, "rows": {id: {subject: {"status", "detail", "figures": {name: {"status",
"was", "now", "detail"}}}}}}. Nothing here raises on content: what cannot be read is a flag or a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reports.render.model import DRIFT_MARKS, Claim, Drift, FigureDrift
from reports.render.page_model import Page, Subject
from reports.render.reading import mapping, missing, text

SCHEMA = 1


def with_drift(page: Page, document: object) -> Page:
    """The page with a mark on each verdict that the document names, and a row for each that the page lacks."""
    rows = document.get("rows") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(rows, Mapping) or document.get("schema") != SCHEMA:
        return replace(page, warnings=(*page.warnings, ("drift", "no rows, or another schema")), has_drift=True)
    marks = {(text(key), text(subject)): _drift(raw) for key, cells in rows.items() for subject, raw in _cells(cells)}
    known = {(c.id, c.subject) for c in page.claims}
    claims = [replace(c, drift=marks.get((c.id, c.subject)) or _unmarked(c)) for c in page.claims]
    claims += [_lost(key, subject, mark) for (key, subject), mark in marks.items() if (key, subject) not in known]
    names = {subject.key for subject in page.subjects}
    new = tuple(Subject(key) for key in dict.fromkeys(c.subject for c in claims) if key not in names)
    return replace(page, claims=tuple(claims), subjects=(*page.subjects, *new), has_drift=True)


def _cells(raw: object) -> list[tuple[object, object]]:
    return list(raw.items()) if isinstance(raw, dict) else [("", raw)]


def _unmarked(claim: Claim) -> Drift | None:
    """A verdict that the document says nothing of was not compared: nobody may take it for steady."""
    return Drift("unknown", "the drift document has no row for it") if claim.measured else None


def _lost(claim_id: str, subject: str, mark: Drift) -> Claim:
    return replace(missing(claim_id, mark.detail, subject), drift=mark)


def _drift(raw: object) -> Drift:
    given = mapping(raw)
    figures = mapping(given.get("figures"))
    status, detail = text(given.get("status")), text(given.get("detail"))
    if status not in DRIFT_MARKS:
        status, detail = "damaged", detail or f"unknown status {status or type(raw).__name__}"
    return Drift(status, detail, tuple(_figure(text(name), part) for name, part in figures.items()))


def _figure(name: str, raw: object) -> FigureDrift:
    given = mapping(raw)
    return FigureDrift(name, text(given.get("status")), given.get("was"), given.get("now"), text(given.get("detail")))
