"""What planted faults did to the claims (`controls.json`), put beside their verdicts: can each of them fail at all?

A mark is shown only where the fault was planted in the code, and on the model, that the page's own verdict is of.
Nothing here raises on content: what cannot be read is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reports.render.model import Claim, Fault, Note
from reports.render.page_model import Page
from reports.render.reading import finite, mapping, text
from reports.subject_key import model_name

SCHEMA = 1
Raw = Mapping[str, object]


def with_controls(page: Page, document: object) -> Page:
    """The page with the faults that were planted in each statement, and a warning for those that nobody noticed."""
    rows = document.get("controls") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(rows, Sequence) or document.get("schema") != SCHEMA:
        return replace(page, warnings=(*page.warnings, ("controls", "no rows, or another schema")))
    run = mapping(document.get("run"))
    faults: dict[str, list[Fault]] = {}
    sees: dict[str, tuple[tuple[str, float], ...]] = {}
    for raw in map(mapping, rows):
        name, known = text(raw.get("id")), _is_of(page, raw, run)
        if raw.get("control") is None:
            sees[name] = _sizes(raw.get("smallest_change")) if known else ()
        else:
            faults.setdefault(name, []).append(_fault(raw, known))
    claims = tuple(replace(c, faults=tuple(faults.get(c.id, ())), sees=sees.get(c.id, ())) for c in page.claims)
    warned = (*page.warnings, *_warnings(page, document, faults))
    return replace(page, claims=claims, warnings=warned, has_controls=True)


def controlled(page: Page) -> list[Claim]:
    """The statements in which faults were planted, each once."""
    return [row.lead for row in page.rows if row.lead.faults]


def _fault(raw: Raw, known: bool) -> Fault:
    seen, outcome = raw.get("seen"), raw.get("outcome")
    why = text(raw.get("reason")) if outcome in ("crashed", "not run", "undecided") else ""
    return Fault(text(raw["control"]), seen if known and isinstance(seen, bool) else None, not known, why)


def _warnings(page: Page, document: Raw, faults: Mapping[str, list[Fault]]) -> list[Note]:
    every = [fault for found in faults.values() for fault in found]
    missed = [f"{name}: {f.what}" for name, found in faults.items() for f in found if f.seen is False]
    counts = [mapping(entry) for entry in mapping(document.get("claims")).values()]
    planned, ended = (sum(int(finite(c.get(key)) or 0) for c in counts) for key in ("planned", "rows"))
    shown = {claim.id for claim in page.claims}
    stale = sum(fault.stale for name, found in faults.items() for fault in found if name in shown)
    notes = [("faults_missed", "; ".join(missed))] * bool(missed)
    notes += [("faults_unfinished", f"{ended} / {planned}")] * (ended < planned)
    return notes + [("faults_stale", f"{stale} / {len(every)}")] * bool(stale)


def _is_of(page: Page, row: Raw, run: Raw) -> bool:
    """Whether the row is of the code and the model of a verdict on this page."""
    cells = [claim for claim in page.claims if claim.id == text(row.get("id"))]
    return any(_same_code(page, claim, row, run) and _same_model(page, claim, row) for claim in cells)


def _same_code(page: Page, claim: Claim, row: Raw, run: Raw) -> bool:
    """By the digests of what plants and judges; older evidence has none, and is taken by a clean commit."""
    digest = text(row.get("fault_source"))
    if digest and claim.fault_source:
        return digest == claim.fault_source
    of = row if "commit" in row else run
    runs = page.subject_of(claim).runs
    same = [r for r in runs if r.get("commit") and r.get("commit") == of.get("commit") and r.get("dirty") is False]
    return bool(same) and of.get("dirty") is False


def _same_model(page: Page, claim: Claim, row: Raw) -> bool:
    """By slug and format, and by digest where both are known; a claim without a model is on none."""
    given, shown = row.get("model"), page.subject_of(claim).model
    if not isinstance(given, dict):
        return True
    if shown is None:
        return False
    same = model_name(given) == model_name({"slug": shown.slug, "dtype": shown.dtype})
    digest = text(given.get("digest"))
    return same and (not digest or not shown.digest or digest == shown.digest)


def _sizes(raw: object) -> tuple[tuple[str, float], ...]:
    sizes = {text(name): finite(size) for name, size in mapping(raw).items()}
    return tuple((name, size) for name, size in sizes.items() if size is not None)
