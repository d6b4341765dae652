"""`claims.json`: what the page says, for programs, keyed by claim id.

    {"schema": 1,
     "headline": {"key": "partial", "tone": "mute"},
     "counts": {verdict: n}, "drift": {status: n},
     "problems": [{"kind", "id", "subject", "detail"}],
     "subjects": {key: {"model": name or null, "slug": …, "machine": class or ""}},
     "claims": {id: {
        "section", "warrant", "says": {"en", "id"},
        "erratum": null | {"kind": proven | likely | does-not-transfer | unjudged | unseen, "en", "id"},
        "subjects": {key: {
            "verdict": verdict or null, "outcome", "on_record": verdict or null, "category", "tone",
            "figure": null | {"name", "measured", "unit", "published", "relation"},
            "drift": status or null, "reason"}}}}}

A measured value is what the record holds: a number, an estimate {"value", "low", "high"}, cases, or a list; what is not
a finite number is null, and its claim's category is `error`.
"""

from __future__ import annotations

import math
from typing import Any

from reports.render.model import Aspect, Claim
from reports.render.page_model import Page, Row
from reports.render.reading import text
from reports.render.sentences import why_not
from reports.render.words import Words

SCHEMA = 1


def claims_document(page: Page) -> dict[str, Any]:
    """The document, ready for `reports.evidence.write_json`."""
    w = Words("en")
    key, tone = page.headline()
    subjects = {
        s.key: {"model": s.model and s.model.name, "slug": s.model and s.model.slug, "machine": s.machine}
        for s in page.subjects
    }
    problems = [{"kind": p.kind, "id": p.claim, "subject": p.subject, "detail": p.detail} for p in page.problems]
    return {
        "schema": SCHEMA,
        "headline": {"key": key, "tone": tone},
        "counts": page.counts(),
        "drift": dict(page.drift_counts()),
        "problems": problems,
        "subjects": subjects,
        "claims": {row.id: _row(row, w) for row in page.rows},
    }


def _row(row: Row, w: Words) -> dict[str, Any]:
    lead, kind = row.lead, row.lead.erratum_kind
    return {
        "section": lead.section,
        "warrant": lead.warrant,
        "says": {"en": lead.says, "id": lead.says_id},
        "erratum": {"kind": kind, "en": lead.erratum, "id": lead.erratum_id} if kind else None,
        "subjects": {cell.subject: _cell(cell, w) for _, cell in row.present},
    }


def _cell(claim: Claim, w: Words) -> dict[str, Any]:
    figure = next(iter(claim.headline_figures), None)
    return {
        "verdict": claim.verdict,
        "outcome": claim.outcome,
        "on_record": claim.on_record,
        "category": claim.category,
        "tone": claim.tone,
        "figure": figure and _figure(figure),
        "drift": claim.drift and claim.drift.status,
        "reason": why_not(claim, w) if not claim.measured else claim.reason,
    }


def _figure(aspect: Aspect) -> dict[str, Any]:
    published = aspect.published and aspect.published.value
    return {
        "name": aspect.name,
        "measured": plain(aspect.measured),
        "unit": aspect.unit,
        "published": published,
        "relation": aspect.relation,
    }


def plain(value: object) -> Any:
    """Any JSON value as strict JSON that can be written: no NaN, no lone surrogates."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {text(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return text(value) if isinstance(value, str) else value
