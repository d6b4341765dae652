"""What planted faults did to the claims (`controls.json`), put beside their verdicts: can each of them fail at all?

Nothing here raises on content: what cannot be read is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.render.model import Claim, Fault
from reports.render.page_model import Page
from reports.render.reading import finite, mapping, text

SCHEMA = 1


def with_controls(page: Page, document: object) -> Page:
    """The page with the faults that were planted in each statement, and a warning for those that nobody noticed."""
    rows = document.get("controls") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(rows, Sequence) or document.get("schema") != SCHEMA:
        return replace(page, warnings=(*page.warnings, ("controls", "no rows, or another schema")))
    faults: dict[str, list[Fault]] = {}
    sees: dict[str, tuple[tuple[str, float], ...]] = {}
    for raw in map(mapping, rows):
        name = text(raw.get("id"))
        if raw.get("control") is None:
            sees[name] = _sizes(raw.get("smallest_change"))
        else:
            seen = raw.get("seen")
            faults.setdefault(name, []).append(Fault(text(raw["control"]), seen if isinstance(seen, bool) else None))
    claims = tuple(replace(c, faults=tuple(faults.get(c.id, ())), sees=sees.get(c.id, ())) for c in page.claims)
    missed = [f"{name}: {f.what}" for name, found in faults.items() for f in found if f.seen is False]
    warned = [("faults_missed", "; ".join(missed))] * bool(missed)
    return replace(page, claims=claims, warnings=(*page.warnings, *warned), has_controls=True)


def controlled(page: Page) -> list[Claim]:
    """The statements in which faults were planted, each once."""
    return [row.lead for row in page.rows if row.lead.faults]


def _sizes(raw: object) -> tuple[tuple[str, float], ...]:
    sizes = {text(name): finite(size) for name, size in mapping(raw).items()}
    return tuple((name, size) for name, size in sizes.items() if size is not None)
