"""What planted faults did to the claims (`controls.json`), put beside their verdicts: can each of them fail at all?

Nothing here raises on content: what cannot be read is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.render.model import Claim, Fault
from reports.render.page_model import ModelFacts, Page
from reports.render.reading import finite, mapping, text

SCHEMA = 1


def with_controls(page: Page, document: object) -> Page:
    """The page with the faults that were planted in each statement, and a warning for those that nobody noticed."""
    rows = document.get("controls") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(rows, Sequence) or document.get("schema") != SCHEMA:
        return replace(page, warnings=(*page.warnings, ("controls", "no rows, or another schema")))
    current = {claim.id for claim in page.claims}
    stale = {text(raw.get("id")) for raw in map(mapping, rows) if _is_stale(page, raw)} & current
    faults: dict[str, list[Fault]] = {}
    sees: dict[str, tuple[tuple[str, float], ...]] = {}
    for raw in (raw for raw in map(mapping, rows) if text(raw.get("id")) not in stale):
        name = text(raw.get("id"))
        if raw.get("control") is None:
            sees[name] = _sizes(raw.get("smallest_change"))
        else:
            seen = raw.get("seen")
            faults.setdefault(name, []).append(Fault(text(raw["control"]), seen if isinstance(seen, bool) else None))
    claims = tuple(replace(c, faults=tuple(faults.get(c.id, ())), sees=sees.get(c.id, ())) for c in page.claims)
    missed = [f"{name}: {f.what}" for name, found in faults.items() for f in found if f.seen is False]
    warned = [("faults_missed", "; ".join(missed))] * bool(missed)
    warned += [("controls_stale", ", ".join(sorted(stale)))] * bool(stale)
    planned = document.get("planned")
    if isinstance(planned, int) and planned > len(rows):
        warned.append(("controls_unfinished", f"{len(rows)} / {planned}"))
    return replace(page, claims=claims, warnings=(*page.warnings, *warned), has_controls=True)


def _is_stale(page: Page, row: Mapping[str, object]) -> bool:
    """Whether a row is of other code or another model than what the page says of its statement, as far as both tell."""
    found = [claim for claim in page.claims if claim.id == text(row.get("id"))]
    model, source = mapping(row.get("model")), text(row.get("source"))
    models = {subject.key: subject.model for subject in page.subjects}
    same = [c for c in found if not model or _same_model(model, models.get(c.subject))]
    return bool(found) and not any(not source or not c.source or c.source == source for c in same)


def _same_model(told: Mapping[str, object], known: ModelFacts | None) -> bool:
    if known is None:
        return True
    pairs = ((told.get("digest"), known.digest), (told.get("slug"), known.slug), (told.get("dtype"), known.dtype))
    return all(not one or not other or text(one) == other for one, other in pairs)


def controlled(page: Page) -> list[Claim]:
    """The statements in which faults were planted, each once."""
    return [row.lead for row in page.rows if row.lead.faults]


def _sizes(raw: object) -> tuple[tuple[str, float], ...]:
    sizes = {text(name): finite(size) for name, size in mapping(raw).items()}
    return tuple((name, size) for name, size in sizes.items() if size is not None)
