"""An evidence folder as one summary: `summary.json`, or the records alone where a run was killed before writing it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from reports.render.model import Note

SCHEMA = 1


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


def _from_records(folder: Path, why: str, detail: str) -> Evidence:
    claims = _records(folder)
    if not claims:
        raise EvidenceError(f"{folder}: no readable summary.json ({detail}) and no records beside it")
    models = [m for raw in claims.values() if isinstance(raw, dict) and isinstance(m := raw.get("model"), dict)]
    model = max(models, key=lambda m: m.get("parameters") is not None, default=None)
    summary: dict[str, object] = {"run": {}, "model": model, "counts": {}, "claims": claims}
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
    if summary.get("schema") != SCHEMA:
        raise EvidenceError(f"{path}: schema {summary.get('schema')!r}, this version reads {SCHEMA}")
    return Evidence(summary)
