"""Evidence on disk, strict JSON, written atomically: a plan at the first claim, a record as each ends, a summary."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

# Beside the records: what a run writes, and what `build` adds.
_OF_A_RUN = (
    "collected.json", "summary.json", "report.html", "report.md",
    "summary.md", "claims.json", "junit.xml", "badge.svg", "drift.json",
)  # fmt: skip
_MODE = 0o644  # a temporary file is its owner's alone; evidence is handed round
_SAFE_ID = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+")  # 1.6 may stand in it, two dots in a row not


class EvidenceInUse(RuntimeError):
    """The folder cannot be written, or another run is writing to it."""


class EvidenceError(ValueError):
    """A record cannot be stored or read; the message names the file."""


def is_safe_id(name: str) -> bool:
    """Whether a claim id can be a file name: no path, no upper case."""
    return _SAFE_ID.fullmatch(name) is not None


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write strict JSON (no NaN) so that a reader sees the old file or the whole new one, never a part."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        os.chmod(name, _MODE)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class EvidenceFolder:
    """The folder of one run: `records/<id>.json` as claims end, `summary.json` at the end. One writer at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: FileLock | None = None

    def open(self) -> None:
        """Take the folder for this run. Raises EvidenceInUse when it cannot be, or while another run holds it."""
        self._lock = FileLock(self.folder / ".lock")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            message = f"evidence folder {self.folder} is in use by another run; give --evidence DIR"
            raise EvidenceInUse(message) from None
        except OSError as error:
            raise EvidenceInUse(f"evidence folder {self.folder} cannot be used: {error.strerror}") from None

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            self._lock.release()

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Store one claim's record."""
        if not is_safe_id(str(record["id"])):
            raise EvidenceError(f"claim id {record['id']!r} cannot be a file name")
        write_json(self.folder / "records" / f"{record['id']}.json", record)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Store what the run is about to test: after a kill it tells which claims are lost."""
        write_json(self.folder / "collected.json", plan)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Store the summary of the run."""
        write_json(self.folder / "summary.json", summary)

    def write_controls(self, controls: Mapping[str, Any]) -> None:
        """Store what planted faults did to the claims."""
        write_json(self.folder / "controls.json", controls)

    def clear(self) -> None:
        """Remove what an earlier run left: called when this run's first claim starts, and not for a run of none."""
        for stale in [*self.folder.glob("records/*.json"), *self.folder.glob("records/.*.part")]:
            stale.unlink(missing_ok=True)
        for name in _OF_A_RUN:
            (self.folder / name).unlink(missing_ok=True)
