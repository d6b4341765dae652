"""The nights: one small file per night and subject, `<started>-<subject>.json`, read one at a time.

    {"schema": 1, "night": ISO time, "subject": key, "fingerprint": {…}, "claims": {id: {"v": verdict, "o": outcome,
     "d": drift status or null, "f": {label: [value, low, high]}}}}

`f` has the scalars and estimates of figures that bear a verdict; of what a clock measured every case, since these are
the nights that timed.py looks back on. A figure that was read again is the median of the night.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from reports.atomic import write_text
from reports.drift.evidence import DECIDED, Evidence, Reading
from reports.drift.files import Refused, compact
from reports.drift.leaves import Leaf, label
from reports.drift.rows import COMPARED, Status
from reports.merge.strict import finite, shown
from reports.moments import moment
from reports.names import inside

SCHEMA = 1
DIGITS = 6  # of a stored figure: a sparkline and a noise of a percent need four
SILENT = frozenset({Status.UNMEASURED, Status.SILENT, Status.INCOMPARABLE})
LOOK_BACK = 60  # nights that compare reads: the window, what the noise is learned from, and as many silent ones


@dataclass(frozen=True)
class Night:
    """One file; `claims` is what it says, unchecked below the first level."""

    started: str
    subject: str
    claims: Mapping[str, Any]


@dataclass(frozen=True)
class Nights:
    """The nights of one subject, oldest first; how many files were damaged."""

    nights: tuple[Night, ...] = ()
    damaged: int = 0

    def readings(self, claim_id: str, name: str, newer_than: str) -> list[float]:
        """A figure on the comparable nights since the baseline, oldest first."""
        since = [night for night in self.nights if night.started > newer_than]
        said = [_object(night.claims.get(claim_id)) for night in since]
        values = [_first(_object(s.get("f")).get(name)) for s in said if shown(s.get("d")) in COMPARED]
        return [value for value in values if value is not None]

    def silent(self, claim_id: str) -> int:
        """How many nights running, up to the last, the statement could not be compared."""
        num = 0
        for night in reversed(self.nights):
            said = _object(night.claims.get(claim_id))
            d, v = shown(said.get("d")), shown(said.get("v"))
            if said and d not in SILENT and (d or v in DECIDED):
                break
            num += bool(said)
        return num


def read_nights(store: Path | None, subject: str, before: str) -> Nights:
    """The nights of a subject that started before this time. A folder that is not there has none."""
    limit = _stamp(_moment(before)) if before else ""  # a clock that was once ahead left files of days to come
    paths = sorted(store.glob(f"*-{subject}.json")) if store else []
    earlier = [path for path in paths if not limit or path.name < limit]
    found = [_read(path) for path in earlier[-LOOK_BACK:]]
    good = [n for n in found if n is not None and n.subject == subject and (not before or n.started < before)]
    return Nights(tuple(sorted(good, key=lambda n: n.started)), found.count(None))


def each_night(store: Path) -> Iterator[Night | None]:
    """Every file of a store in the order of their names, one in memory at a time; None for a damaged one."""
    for path in sorted(store.glob("*.json")):
        yield _read(path)


def add_night(store: Path, evidence: Evidence, drift: Mapping[str, Any] | None) -> list[tuple[Path, str]]:
    """Store a night's evidence, a file for each subject: its path, and what is said of it. Raises Refused.

    A run that was seen before is no new night: its file is replaced, unless that knows more of it (drift compares a
    run once: the second time it only says so).
    """
    written = []
    for subject, readings in sorted(evidence.readings.items()):
        started = _moment(evidence.started(subject))
        path = night_file(store, started, subject)
        document = _document(started.isoformat(timespec="seconds"), subject, readings, drift or {})
        known = _read(path) if path.exists() else None
        kept = known is not None and _num_compared(known.claims) > _num_compared(document["claims"])
        if not kept:
            write_text(path, compact(document))
        said = f"the same run was seen before: its file is {'kept' if kept else 'replaced'}"
        written.append((path, said if known is not None else ""))
    return written


def night_file(store: Path, started: datetime, subject: str) -> Path:
    """Where a night of a subject lies."""
    return inside(store, f"{_stamp(started)}-{subject}.json")


def was_seen(store: Path | None, subject: str, started: str) -> bool:
    """Whether the store has a night of exactly this run: what is handed in again says nothing new."""
    when = moment(started)
    return store is not None and when is not None and night_file(store, when, subject).is_file()


def _num_compared(claims: Mapping[str, Any]) -> int:
    return sum(shown(_object(said).get("d")) in COMPARED for said in claims.values())


def prune(store: Path, keep: int) -> int:
    """Remove all but the latest nights of every subject; how many files that were."""
    by_subject: dict[str, list[Path]] = {}
    for path in sorted(store.glob("*-*.json")):
        by_subject.setdefault(path.name.partition("-")[2], []).append(path)
    stale = [path for paths in by_subject.values() for path in paths[: max(len(paths) - keep, 0)]]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)


def _document(night: str, subject: str, readings: Mapping[str, Reading], drift: Mapping[str, Any]) -> dict[str, Any]:
    rows = _object(drift.get("rows"))
    cells = {key: _object(_object(rows.get(key)).get(subject)) for key in readings}
    any_reading = next(iter(readings.values()))
    prints = any_reading.fingerprint
    facts = {name: any_reading.run.get(name) for name in ("commit", "torch", "threads")}
    model = next((r.fingerprint.model for r in readings.values() if r.fingerprint.model), None)
    return {
        "schema": SCHEMA, "night": night, "subject": subject,
        "fingerprint": facts | {"machine": prints.machine, "model": model and list(model)},
        "claims": {key: _entry(reading, cells[key]) for key, reading in readings.items()},
    }  # fmt: skip


def _entry(reading: Reading, cell: Mapping[str, Any]) -> dict[str, Any]:
    again = _object(cell.get("readings"))
    figures = {label(name, place): _stored(leaf, again.get(label(name, place))) for name, place, leaf in _kept(reading)}
    status = shown(cell.get("status"))
    d = status if status in set(Status) else None
    return {"v": reading.verdict or None, "o": shown(reading.record["outcome"]), "d": d, "f": figures}


def _kept(reading: Reading) -> Iterable[tuple[str, str, Leaf]]:
    for name, figure in reading.figures.items():
        if figure.verdict is None or (reading.clocked and figure.verdict == "UNRESOLVED"):
            continue
        for place, leaf in figure.leaves.items():
            if leaf.number is not None and (not place or reading.clocked):
                yield name, place, leaf


def _stored(leaf: Leaf, again: object) -> list[float | int | None]:
    value = leaf.value if finite(again) is None else finite(again)
    whole = isinstance(value, int)
    return [int(value) if whole else _short(value), _short(leaf.low), _short(leaf.high)]  # type: ignore[arg-type]


def _short(value: object) -> float | None:
    number = finite(value)
    return None if number is None else float(f"{number:.{DIGITS}g}")


def _read(path: Path) -> Night | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or not isinstance(found.get("claims"), dict):
        return None
    try:
        started = _moment(found.get("night")).isoformat(timespec="seconds")
    except Refused:
        return None
    return Night(started, shown(found.get("subject")), found["claims"])


def _stamp(started: datetime) -> str:
    """How a night's file name begins: names sort as nights do."""
    return f"{started:%Y%m%dT%H%M%SZ}"


def _moment(iso: object) -> datetime:
    when = moment(iso)
    if when is None:
        raise Refused(f"the evidence does not say when it was measured: {shown(iso)!r}")
    return when


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _first(value: object) -> float | None:
    return finite(value[0]) if isinstance(value, list) and value else None
