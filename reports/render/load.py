"""A folder as a page: a merged one, a run's `summary.json`, or the records alone where a run was killed before it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from reports.moments import is_ahead
from reports.names import NoName, record_in
from reports.render.drift_marks import with_drift
from reports.render.history import with_history
from reports.render.merged import merged_page
from reports.render.model import Note
from reports.render.page_model import Page
from reports.render.planted import with_controls
from reports.render.reading import page, text

SCHEMA = 1
_NO_VERDICT: dict[str, object] = {"verdict": None, "outcome": "error", "reason": "", "aspects": {}}
CONTROLS = "controls.json"  # of a run with --controls into the same folder


class EvidenceError(Exception):
    """Nothing can be shown; the message is one line and names the path."""


@dataclass(frozen=True)
class Evidence:
    """A summary as the run wrote it, or one put together from records, and what the reader must know about that."""

    summary: dict[str, object]
    complete: bool = True
    warnings: tuple[Note, ...] = ()


def _parse(path: Path) -> object:
    """JSON with every way of being unreadable turned into ValueError."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as nested:
        raise ValueError("nested too deeply") from nested
    except OSError as failed:
        raise ValueError(failed.strerror or "cannot be opened") from failed


def _record(path: Path) -> tuple[str, object]:
    """A record under its id; an unreadable one stays visible under its file name, as an error."""
    try:
        raw = _parse(path)
    except ValueError as failed:
        return path.stem, {"outcome": "error", "error": f"{path.name}: {failed}"}
    named = isinstance(raw, dict) and isinstance(raw.get("id"), str)
    return (raw["id"] if named and isinstance(raw, dict) else path.stem), raw


def _records(folder: Path) -> dict[str, object]:
    claims: dict[str, object] = {}
    for path in sorted(folder.glob("records/*.json")):
        name, raw = _record(path)
        claims[name if name not in claims else f"{name} ({path.name})"] = raw
    return claims


def _plan(folder: Path) -> dict[str, object]:
    """What a killed run had been about to test, and where; older evidence has no such file."""
    try:
        found = _parse(folder / "collected.json")
    except ValueError:
        return {}
    run = found.get("run") if isinstance(found, dict) else None
    facts = run if isinstance(run, dict) else {}
    return facts | {"collected": found.get("collected") if isinstance(found, dict) else None}


def _from_records(folder: Path, why: str, detail: str) -> Evidence:
    claims = _records(folder)
    if not claims:
        raise EvidenceError(f"{folder}: no readable summary.json ({detail}) and no records beside it")
    models = [m for raw in claims.values() if isinstance(raw, dict) and isinstance(m := raw.get("model"), dict)]
    model = max(models, key=lambda m: m.get("parameters") is not None, default=None)
    summary: dict[str, object] = {"run": _plan(folder), "model": model, "counts": {}, "claims": claims}
    return Evidence(summary, False, ((why, str(len(claims)) if why == "no_summary" else detail),))


def load_evidence(folder: Path) -> Evidence:
    """What lies in `folder`. Raises `EvidenceError` where there is nothing to show or the schema is not ours."""
    if not folder.is_dir():
        raise EvidenceError(f"{folder}: no such folder")
    path = folder / "summary.json"
    if not path.exists():
        return _from_records(folder, "no_summary", "missing")
    try:
        summary = _parse(path)
    except ValueError as failed:
        return _from_records(folder, "bad_summary", str(failed))
    if not isinstance(summary, dict):
        return _from_records(folder, "bad_summary", f"{type(summary).__name__} instead of an object")
    _check_schema(summary, path)
    told = _of_another_run(summary, _plan(folder))
    return Evidence(_held_against_records(summary, folder), not told, told)


def _of_another_run(summary: dict[str, object], plan: dict[str, object]) -> tuple[Note, ...]:
    """A run that died before its first claim has left its plan beside the summary of the run before."""
    run, planned = summary.get("run"), plan.get("started")
    started = run.get("started") if isinstance(run, dict) else None
    return (("overtaken", text(planned)),) if planned and planned != started else ()


def _held_against_records(summary: dict[str, object], folder: Path) -> dict[str, object]:
    """The summary, with an error in place of each claim whose own record is gone, damaged, or says otherwise.

    A summary that was copied somewhere without its records is taken at its word.
    """
    claims = summary.get("claims")
    if not isinstance(claims, dict) or not (folder / "records").is_dir():
        return summary
    checked = {key: _held_against(raw, folder / "records", key) for key, raw in claims.items()}
    extra = {key: raw for key, raw in _records(folder).items() if key not in claims}
    return summary | {"claims": checked | extra}


def _held_against(raw: object, records: Path, key: str) -> object:
    if not isinstance(raw, dict) or raw.get("outcome") == "pending":
        return raw
    try:
        path = record_in(records, key)
        found = _parse(path)
    except NoName as failed:
        return raw | _NO_VERDICT | {"error": str(failed)}
    except ValueError as failed:
        return raw | _NO_VERDICT | {"error": f"{path.name}: {failed}"}
    return raw if found == raw else raw | _NO_VERDICT | {"error": f"{path.name} and summary.json differ"}


def load_page(folder: Path, drift: Path | None = None, history: Path | None = None) -> Page:
    """The page of a folder, a run's or a merged one, beside what drift and the nights before say.

    Raises `EvidenceError` where there is nothing to show, the schema is not ours, or the drift document is not there.
    """
    merged = folder / "merged.json"
    if merged.exists():
        found = merged_page(_document(merged))
    else:
        evidence = load_evidence(folder)
        found = page(evidence.summary, evidence.complete, (*evidence.warnings, *_ahead(evidence.summary)))
    if drift is not None:
        found = with_drift(found, _drift(drift))
    if (folder / CONTROLS).exists():
        found = with_controls(found, _controls(folder / CONTROLS))
    return found if history is None else with_history(found, history)


def _ahead(summary: dict[str, object]) -> tuple[Note, ...]:
    run = summary.get("run")
    started = run.get("started") if isinstance(run, dict) else None
    return (("future", text(started)),) if is_ahead(started, datetime.now(UTC)) else ()


def _controls(path: Path) -> object:
    try:
        return _parse(path)
    except ValueError:
        return None


def _document(path: Path) -> dict[str, object]:
    """A merged document. Raises `EvidenceError`: it is written in one piece, so a torn one is not of our making."""
    try:
        found = _parse(path)
    except ValueError as failed:
        raise EvidenceError(f"{path}: {failed}") from failed
    if not isinstance(found, dict):
        raise EvidenceError(f"{path}: {type(found).__name__} instead of an object")
    _check_schema(found, path)
    return found


def _drift(path: Path) -> object:
    """A drift document, or None for one that cannot be read: the page says so and is not green."""
    if not path.is_file():
        raise EvidenceError(f"{path}: no such drift document")
    try:
        return _parse(path)
    except ValueError:
        return None


def _check_schema(document: dict[str, object], path: Path) -> None:
    if document.get("schema") != SCHEMA:
        raise EvidenceError(f"{path}: schema {document.get('schema')!r}, this version reads {SCHEMA}")
