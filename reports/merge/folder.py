"""The merged folder on disk: `merged.json` last, so that a merge that was killed has none."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from reports.evidence import write_json
from reports.merge.parts import Part
from reports.merge.shards import MERGED
from reports.names import inside, record_in

MARK = "merging.txt"  # says that this folder is ours to fill, also after a merge that was killed
_MARK_TEXT = "Written by python -m reports merge; a folder with this file and without merged.json is unfinished.\n"
_OURS = frozenset({MERGED, MARK, "records", "parts", ".lock", "report.html", "report.md"})


class MergeRefused(Exception):
    """The output folder cannot be used; the message is one line."""


def check_apart(out: Path, inputs: Iterable[Path]) -> None:
    """Raise MergeRefused when output and an input are one folder, or one lies in the other."""
    there = out.resolve()
    for folder in inputs:
        here = folder.resolve()
        if there == here or here in there.parents or there in here.parents:
            raise MergeRefused(f"--out {out} and the input {folder} are one folder, or one lies in the other")


def write_merged(out: Path, document: Mapping[str, Any], parts: Iterable[Part]) -> None:
    """Fill the folder. Raises MergeRefused for one that holds something else, OSError where it cannot be written."""
    _check_ours(out)
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise MergeRefused(f"{out} is in use by another merge") from None
    try:
        _clear(out)
        _fill(out, document, parts)
    finally:
        lock.release()


def _check_ours(out: Path) -> None:
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise MergeRefused(f"{out} is no folder")
    entries = {path.name for path in out.iterdir()} if out.exists() else set()
    ours = entries <= _OURS and (not entries - {".lock"} or bool({MERGED, MARK} & entries))
    linked = [path.name for path in out.iterdir() if path.is_symlink()] if out.exists() else []
    if not ours or linked:
        raise MergeRefused(f"{out} holds something else than an earlier merge: give a new folder")


def _clear(out: Path) -> None:
    """Away with the earlier merge, its matrix first."""
    (out / MARK).write_text(_MARK_TEXT, encoding="utf-8")
    (out / MERGED).unlink(missing_ok=True)
    for room in ("records", "parts"):
        if (out / room).exists():
            shutil.rmtree(out / room)


def _fill(out: Path, document: Mapping[str, Any], parts: Iterable[Part]) -> None:
    for part in parts:
        write_json(inside(out / "parts", f"{part.digest}.json"), part.as_json())
    for claim_id, row in document["claims"].items():
        for subject, record in row.items():
            write_json(record_in(inside(out / "records", subject), claim_id), record)
    write_json(out / MERGED, document)
    (out / MARK).unlink()
