"""The end of a run in the terminal: lines and their colours, as data. Printing is the plugin's part."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports.control_rows import CRASHED, NOT_RUN
from reports.controls import NO_RECORD
from reports.render import sentences
from reports.render.model import STANDINGS, Claim
from reports.render.page_model import Page
from reports.render.reading import page as read_page
from reports.render.words import Words
from reports.screen import inert
from reports.verdict import Outcome

Markup = dict[str, bool]
Line = tuple[str, Markup]

RED: Markup = {"red": True, "bold": True}
YELLOW: Markup = {"yellow": True}
CYAN: Markup = {"cyan": True}
BOLD: Markup = {"bold": True}
PLAIN: Markup = {}
NO_NAMES: Mapping[str, str] = {}
NARROWEST = 20  # below this a terminal width is not one (0 in some pipes)
MOST_REASONS = 8  # why claims were not measured, the commonest first


def line_width(is_terminal: bool) -> int | None:
    """The columns that a line may have; None, no limit, where the output goes to a file or another program."""
    return shutil.get_terminal_size().columns if is_terminal else None


def summary_lines(summary: Mapping[str, object], width: int | None) -> list[Line]:
    """What a run found, one (line, pytest markup) after the other, none wider than `width` columns if there is one."""
    page, w = read_page(summary), Words("en")
    lines = [
        _counts(page, w),
        *_warnings(page, w),
        *_changed(page, w),
        *_errors(page, w),
        *_errata(page, w),
        *_unresolved(page, w),
        *_new(page, w),
        *_not_measured(page),
        *_pending(page, w),
    ]
    return [(inert(_cut(line, width)), dict(markup)) for line, markup in lines]


def control_lines(
    rows: Sequence[Mapping[str, Any]], unfinished: str = "", left_out: Mapping[str, str] = NO_NAMES
) -> Iterator[Line]:
    """How many planted faults were seen, and each one that was not; nothing where none were planted.

    A claim with nothing on record cannot turn red: it is named too, or its author would only read "undecided".
    """
    planted = [row for row in rows if row["control"] is not None]
    if not planted:
        return
    missed, idle = [r for r in planted if r["seen"] is False], [r for r in planted if r["outcome"] == NOT_RUN]
    seen, claims = sum(row["seen"] is True for row in planted), len({row["id"] for row in planted})
    told = f"{_number(len(planted), 'fault')} planted in {_number(claims, 'claim')}: {seen} seen, {len(missed)} missed"
    told += f", {len(planted) - seen - len(missed) - len(idle)} undecided" + f", {len(idle)} not run" * bool(idle)
    yield told + f" ({unfinished})" * bool(unfinished), RED if missed or unfinished else BOLD
    for row in missed:
        yield f"MISSED {row['id']}: {row['control']}" + f" ({row['reason']})" * (row["outcome"] == CRASHED), RED
    for row in idle:
        yield f"NOT RUN {row['id']}: {row['control']} ({row['reason']})", YELLOW
    yield from _undecided([row for row in planted if row["seen"] is None and row["outcome"] != NOT_RUN])
    for claim_id, why in left_out.items():
        yield f"NONE PLANTED {claim_id}: {why}", YELLOW
    yield _sighted(rows, left_out)


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}" + "s" * (count != 1)


def _sighted(rows: Sequence[Mapping[str, Any]], left_out: Mapping[str, str]) -> Line:
    """In how many statements a fault was seen, and which are the others."""
    sighted = {row["id"] for row in rows if row.get("seen")}
    blind = sorted({*left_out, *(row["id"] for row in rows)} - sighted)
    tail = f"; none in {', '.join(blind)}" if blind else ""
    return f"at least one fault was seen in {len(sighted)} of {len(sighted) + len(blind)} statements{tail}", BOLD


def _undecided(rows: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for claim_id in dict.fromkeys(row["id"] for row in rows if row["outcome"] == Outcome.NEW):
        yield f"NEW {claim_id}: {NO_RECORD}", CYAN
    others = Counter((row["id"], row["reason"]) for row in rows if row["outcome"] != Outcome.NEW)
    for (claim_id, reason), count in others.items():
        yield f"UNDECIDED {claim_id}: {_number(count, 'fault')}, {reason}", YELLOW


def _cut(line: str, width: int | None) -> str:
    flat = " ".join(line.split())
    indented = line[: len(line) - len(line.lstrip(" "))] + flat
    if width is None or len(indented) <= max(width, NARROWEST):
        return indented
    return indented[: max(width, NARROWEST) - 1] + "…"


def _counts(page: Page, w: Words) -> Line:
    told = [f"{n} {w.name('verdict', key)}" for key, n in page.counts().items() if n]
    tone = {"bad": RED, "warn": YELLOW, "good": {"green": True, "bold": True}}.get(page.headline()[1], BOLD)
    return f"{w('ui.statements_n', n=len(page.claims))}: {', '.join(told) or 'none'}", tone


def _warnings(page: Page, w: Words) -> Iterator[Line]:
    for key, detail in page.warnings:
        yield w(f"warning.{key}", detail=detail), RED


def _changed(page: Page, w: Words) -> Iterator[Line]:
    for claim in page.with_outcome("changed"):
        verdict, record = w.name("verdict", claim.category), w.name("verdict", claim.on_record or "")
        yield f"CHANGED {claim.id}: {verdict}, on record {record}", RED
        yield from _figures(claim, w, RED)


def _errors(page: Page, w: Words) -> Iterator[Line]:
    for claim in page.errors:
        yield f"ERROR {claim.id}: {sentences.why_not(claim, w)}", RED


def _errata(page: Page, w: Words) -> Iterator[Line]:
    for kind in STANDINGS:
        found = page.errata(kind)
        if found:
            yield f"errata, {w('standing.' + kind).lower()}: {len(found)}", BOLD
        for claim in found:
            yield f"  {claim.id}: {w('flip.' + claim.flip)}", PLAIN
            yield f"    {_first_sentence(claim.erratum or claim.reason)}", PLAIN
            yield from _figures(claim, w, PLAIN)


def _first_sentence(told: str) -> str:
    return told.partition(". ")[0]


def _unresolved(page: Page, w: Words) -> Iterator[Line]:
    for claim in page.claims:
        if claim.category == "UNRESOLVED" and claim.outcome != "changed":
            yield f"UNRESOLVED {claim.id}: {sentences.why_not(claim, w)}", YELLOW


def _new(page: Page, w: Words) -> Iterator[Line]:
    for claim in page.with_outcome("new"):
        yield f"NEW {claim.id}: {w.name('verdict', claim.category)}, nothing on record for this model", CYAN
        yield from _figures(claim, w, CYAN)


def _not_measured(page: Page) -> Iterator[Line]:
    reasons = sentences.reasons(page)
    if reasons:
        yield f"not measured: {reasons.total()}", YELLOW
    for reason, count in reasons.most_common(MOST_REASONS):
        yield f"  {count} × {reason}", PLAIN
    if len(reasons) > MOST_REASONS:
        yield f"  and {len(reasons) - MOST_REASONS} other reasons", PLAIN


def _pending(page: Page, w: Words) -> Iterator[Line]:
    count = page.counts()["pending"]
    if count:
        yield f"pending: {w('ui.pending_n', n=count)}", PLAIN


def _figures(claim: Claim, w: Words, markup: Markup) -> Iterator[Line]:
    for line in sentences.decisive(claim, w):
        yield f"    {line}", markup
