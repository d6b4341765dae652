"""From untrusted JSON to `Page`. Nothing here raises on content: what is malformed becomes a visible defect."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from reports.plots import Axis, Curve, Plot, PlotError, plot_from_json
from reports.render.model import MISSING, OUTCOMES, SEVERITY, VERDICTS, Aspect, Claim, Note, Published
from reports.render.page_model import ModelFacts, Page, Subject
from reports.subject_key import subject_key
from reports.tables import Cell, Column, Table, TableError, table_from_json
from reports.verdict import Outcome, Verdict, as_far_as_decided, combine, outcome_of

# Control characters and bidirectional overrides can make a line read differently from what it says; the last four are
# how `words.Bilingual` marks a text in two languages.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ue000-\ue003]"
)
MAX_TEXT = 20_000  # characters: the longest text of a whole run has some 1,500 (an erratum), a traceback some 10,000
_TEXT_FIELDS = (
    "says",
    "says_id",
    "where",
    "warrant",
    "reason",
    "error",
    "erratum",
    "erratum_id",
    "condition",
    "test",
    "fault_source",
)
T = TypeVar("T")


def text(value: object) -> str:
    """Any JSON value as printable text, cut with a mark where it is longer than anybody reads; None is empty."""
    told = "" if value is None else str(value)
    rest = len(told) - MAX_TEXT
    shown = told if rest <= 0 else f"{told[:MAX_TEXT]} […+{rest:,}]"
    return _UNPRINTABLE.sub("\ufffd", shown)


def mapping(value: object) -> Mapping[str, object]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The value if it is a list, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def _not_finite(value: object, path: str) -> Iterator[Note]:
    """Where NaN or an infinity hides in a JSON value."""
    if isinstance(value, float) and not math.isfinite(value):
        yield "not_finite", text(path)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _not_finite(part, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _not_finite(part, f"{path}[{index}]")


def finite(value: object) -> float | None:
    """A JSON number (or a number in digits) as a finite float; anything else is None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _published(raw: object) -> Published | None:
    if not isinstance(raw, dict):
        return None
    ends = [finite(end) for end in items(raw.get("interval"))[:2]] + [None, None]
    value, unit, origin, why = (text(raw.get(k)) for k in ("value", "unit", "origin", "why"))
    return Published(value, unit, ends[0], ends[1], origin, why)


def _aspect(name: str, raw: Mapping[str, object]) -> Aspect:
    verdict, on_record = raw.get("verdict"), raw.get("on_record")
    bears, relation, reason, unit = (text(raw.get(k)) for k in ("bears", "relation", "reason", "unit"))
    return Aspect(
        text(name),
        text(verdict) if verdict else None,
        bears,
        relation,
        raw.get("measured"),
        _published(raw.get("published")),
        reason,
        unit,
        text(on_record) if on_record else None,
        tuple(map(text, items(raw.get("flipped_cases")))),
    )


def _aspects(raw: object) -> tuple[list[Aspect], list[Note]]:
    """The aspects that can be read, and a defect for each that cannot."""
    entries = raw if isinstance(raw, dict) else {} if raw is None else {"aspects": raw}
    good = {name: part for name, part in entries.items() if isinstance(part, dict)}
    aspects = [_aspect(str(name), part) for name, part in good.items()]
    bad = [name for name in entries if name not in good]
    bad += [a.name for a in aspects if not {a.verdict, a.on_record} <= {None, *VERDICTS}]
    return aspects, [("aspect", text(name)) for name in bad]


def _readable(raw: object, kind: str, read: Callable[[object], T]) -> tuple[list[T], list[Note]]:
    """The tables or plots that can be read, and a defect for each that cannot; older evidence has none."""
    good: list[T] = []
    bad: list[Note] = []
    for place, entry in enumerate(items(raw), 1):
        try:
            good.append(read(entry))
        except (TableError, PlotError):
            bad.append((kind, text(mapping(entry).get("title")) or str(place)))
    return good, bad


def _table(raw: object) -> Table:
    """A table without what cannot be printed. Raises TableError."""
    table = table_from_json(raw)

    def cell(given: Cell) -> Cell:
        return text(given) if isinstance(given, str) else given

    columns = tuple(Column(text(c.name), text(c.unit), text(c.name_id)) for c in table.columns)
    rows = tuple(tuple(map(cell, row)) for row in table.rows)
    return Table(text(table.title), columns, rows, text(table.title_id))


def _plot(raw: object) -> Plot:
    """A plot without what cannot be printed. Raises PlotError."""
    plot = plot_from_json(raw)
    x, y = (Axis(text(a.name), text(a.unit), text(a.name_id), a.scale) for a in (plot.x, plot.y))
    curves = tuple(Curve(text(c.name), c.pairs, text(c.name_id), c.dashed, [*map(text, c.labels)]) for c in plot.curves)
    return Plot(text(plot.title), x, y, curves, text(plot.title_id))


def _contradictions(verdict: str | None, on_record: str | None, outcome: str, aspects: list[Aspect]) -> Iterator[Note]:
    """What a record says about itself that cannot be."""
    unknown = [name for name in (verdict, on_record) if name not in (None, *VERDICTS)]
    yield from (("verdict", text(name)) for name in unknown)
    if outcome not in OUTCOMES:
        yield "outcome", outcome or "?"
    if verdict is None and outcome not in ("error", "pending"):
        yield "no_verdict", outcome
    if unknown or verdict is None or outcome == "error":
        return
    record = Verdict(on_record) if on_record else None
    follows = Outcome.NOT_MEASURED if outcome == "pending" else Outcome(outcome) if outcome in OUTCOMES else None
    moved = any(a.moved for a in aspects)
    if outcome_of(Verdict(verdict), record, moved) is not follows:
        yield "mismatch", f"{outcome}, {verdict}, {on_record or '?'}"
    if verdict in SEVERITY:
        yield from _against_aspects(Verdict(verdict), record, aspects)


def _against_aspects(verdict: Verdict, on_record: Verdict | None, aspects: list[Aspect]) -> Iterator[Note]:
    decided = {a.name: Verdict(a.verdict) for a in aspects if a.verdict in SEVERITY}
    if not decided:
        yield "unbacked", ""
    if verdict is Verdict.UNRESOLVED and _left_open(decided, on_record, aspects):
        return
    yield from (("better", name) for name, found in decided.items() if SEVERITY[found] > SEVERITY[verdict])


def _left_open(decided: Mapping[str, Verdict], on_record: Verdict | None, aspects: list[Aspect]) -> bool:
    """Whether a run says UNRESOLVED because the figure that made the verdict on record was not decided."""
    known = {a.name: Verdict(a.on_record) for a in aspects if a.on_record in VERDICTS}
    pairs = [(found, known.get(name)) for name, found in decided.items()]
    return as_far_as_decided(combine(decided.values()), on_record, pairs) is Verdict.UNRESOLVED


def claim(claim_id: str, raw: object) -> Claim:
    """One entry of `claims`, or one record, with its defects."""
    claim_id = text(claim_id)
    section = claim_id.partition(".")[0]
    if not isinstance(raw, dict):
        return Claim(claim_id, section, defects=(("not_an_object", type(raw).__name__),))
    aspects, defects = _aspects(raw.get("aspects"))
    tables, damaged = _readable(raw.get("tables"), "table", _table)
    plots, undrawn = _readable(raw.get("plots"), "plot", _plot)
    verdict, on_record, standing = (text(raw[k]) if raw.get(k) else None for k in ("verdict", "on_record", "standing"))
    outcome = text(raw.get("outcome"))
    defects += _contradictions(verdict, on_record, outcome, aspects)
    defects += [*damaged, *undrawn, *_not_finite(raw, "record")]
    defects += [
        ("field", k) for k in ("notes", "needs", "tables", "plots") if not isinstance(raw.get(k, []), list | tuple)
    ]
    fields: dict[str, Any] = {k: text(raw.get(k)) for k in _TEXT_FIELDS}
    return Claim(
        id=claim_id,
        section=text(raw.get("section")) or section,
        verdict=verdict,
        on_record=on_record,
        outcome=outcome,
        standing=standing,
        transferred=raw.get("transferred") is True,
        aspects=tuple(aspects),
        needs=tuple(map(text, items(raw.get("needs")))),
        notes=tuple(map(text, items(raw.get("notes")))),
        tables=tuple(tables),
        plots=tuple(plots),
        protocol=tuple((text(k), v) for k, v in mapping(raw.get("protocol")).items()),
        seconds=finite(raw.get("seconds")),
        defects=tuple(defects),
        **fields,
    )


def model(raw: object) -> ModelFacts | None:
    """The model that a run describes."""
    if not isinstance(raw, dict):
        return None
    name, digest, dtype, device, note, slug = (
        text(raw.get(k)) for k in ("name", "digest", "dtype", "device", "note", "slug")
    )
    trained, is_chapter = raw.get("trained") is True, raw.get("is_chapter") is True
    return ModelFacts(name, digest, raw.get("parameters"), dtype, device, trained, is_chapter, note, slug)


def machine_class(run: Mapping[str, object]) -> str:
    """The class of a run's machine; older evidence has none."""
    return text(mapping(run.get("machine")).get("class"))


def _count_warnings(raw: object, page: Page) -> list[Note]:
    """The file's own counts are checked, never believed. Damaged entries are counted as errors only here."""
    counts = page.counts()
    told = {str(k): v for k, v in mapping(raw).items()}
    off = [f"{k} {told[k]} ≠ {counts.get(k, 0)}" for k in told if told[k] != counts.get(k, 0)]
    return [("counts", text(", ".join(off)))] if off else []


def _part_warnings(num_statements: object, claims: tuple[Claim, ...]) -> list[Note]:
    """A run over a part of the ledger must not read like a run over the whole of it."""
    total = finite(num_statements)
    return [("part", f"{len(claims)} / {total:.0f}")] if total and total > len(claims) else []


def missing(claim_id: str, reason: str = "", subject: str = "") -> Claim:
    """A row for a claim that should have a record and has none."""
    return Claim(text(claim_id), text(claim_id).partition(".")[0], outcome=MISSING, reason=reason, subject=subject)


def page(summary: Mapping[str, object], complete: bool = True, warnings: tuple[Note, ...] = ()) -> Page:
    """A whole summary as a `Page`; parts of the wrong type become warnings."""
    expected = {"run": Mapping, "claims": Mapping, "counts": Mapping, "model": Mapping | None}
    bad = [("malformed", key) for key, kind in expected.items() if not isinstance(summary.get(key), kind)]
    run = dict(mapping(summary.get("run")))
    tested, machine = model(summary.get("model")), machine_class(run)
    key = subject_key({"slug": tested.slug or None, "dtype": tested.dtype} if tested else None, machine)
    subject = Subject(key, tested, machine, (run,))
    entries = mapping(summary.get("claims"))
    claims = [replace(claim(str(name), raw), subject=subject.key) for name, raw in entries.items()]
    gaps = sorted({text(name) for name in items(run.get("collected"))} - {c.id for c in claims})
    claims += [missing(name, subject=subject.key) for name in gaps]
    found = Page(tuple(claims), (subject,), complete and not run.get("interrupted"))
    off = [*_count_warnings(summary.get("counts"), found), *_part_warnings(run.get("statements"), found.claims)]
    return replace(found, warnings=(*warnings, *bad, *off))
