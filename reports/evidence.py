"""Evidence on disk, strict JSON, written atomically: a plan at the first claim, a record as each ends, a summary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from reports.atomic import PART, write_text
from reports.names import is_safe_id, record_in

PLAN, SUMMARY, LOCK = "collected.json", "summary.json", ".lock"
# Beside records and plan: what a run writes, and what `build` adds. The summary goes first when they are removed, so
# that what a kill leaves of them never looks whole.
_OF_A_RUN = (
    SUMMARY, "report.html", "report.md", "summary.md", "claims.json", "junit.xml", "badge.svg", "drift.json"
)  # fmt: skip


class EvidenceInUse(RuntimeError):
    """The folder cannot be written, or another run is writing to it."""


class EvidenceLost(RuntimeError):
    """Something that a run found cannot be stored; the message is one line and names the folder."""


class EvidenceError(ValueError):
    """A record cannot be stored or read; the message names the file."""


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write strict JSON (no NaN) so that a reader sees the old file or the whole new one, never a part."""
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


class EvidenceFolder:
    """The folder of one run: `records/<id>.json` as claims end, `summary.json` at the end. One writer at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock: FileLock | None = None
        self._inode = 0

    def open(self) -> None:
        """Take the folder for this run. Raises EvidenceInUse when it cannot be, or while another run holds it."""
        self._lock = FileLock(self.folder / LOCK)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._inode = (self.folder / LOCK).stat().st_ino
        except Timeout:
            message = f"evidence folder {self.folder} is in use by another run; give --evidence DIR"
            raise EvidenceInUse(message) from None
        except OSError as error:
            raise EvidenceInUse(f"evidence folder {self.folder} cannot be used: {error.strerror}") from None

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            self._lock.release()

    def has_vanished(self) -> bool:
        """Whether the folder was removed under the run. Raises EvidenceLost for one made anew: another's."""
        try:
            ours = (self.folder / LOCK).stat().st_ino == self._inode
        except FileNotFoundError:
            ours = False
        except OSError as error:
            raise EvidenceLost(f"evidence folder {self.folder} cannot be used: {error.strerror}") from None
        if not ours and self.folder.exists():
            raise EvidenceLost(f"evidence folder {self.folder} is another's now: it was replaced during the run")
        return not ours

    def open_again(self) -> None:
        """Make a folder that has vanished anew, empty."""
        self.close()
        self.open()

    def has_record(self, claim_id: str) -> bool:
        """Whether a claim's record lies in the folder."""
        return is_safe_id(claim_id) and self._record(claim_id).is_file()

    def write_record(self, record: Mapping[str, Any]) -> None:
        """Store one claim's record. Raises EvidenceLost where it cannot be."""
        if not is_safe_id(str(record["id"])):
            raise EvidenceError(f"claim id {record['id']!r} cannot be a file name")
        with self._storing(f"the record of {record['id']}"):
            write_json(self._record(record["id"]), record)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Store what the run is about to test: after a kill it tells which claims are lost. Raises EvidenceLost."""
        with self._storing(PLAN):
            write_json(self.folder / PLAN, plan)

    def write_summary(self, summary: Mapping[str, Any]) -> list[Path]:
        """Store the summary of the run and render its pages; the pages' paths. Raises EvidenceLost."""
        from reports.render import write_pages  # jinja2 is not needed before the end

        with self._storing(SUMMARY):
            write_json(self.folder / SUMMARY, summary)
        with self._storing("the page"):
            return write_pages(summary, self.folder)

    def write_controls(self, controls: Mapping[str, Any]) -> None:
        """Store what planted faults did to the claims. Raises EvidenceLost."""
        with self._storing("controls.json"):
            write_json(self.folder / "controls.json", controls)

    def clear(self) -> None:
        """Remove what an earlier run left: called when this run's first claim starts, and not for a run of none.

        The plan stays until it is replaced: a run killed in between has gaps, and no claims that nobody asked for.
        """
        with self._storing("an empty folder"):
            for name in _OF_A_RUN:
                (self.folder / name).unlink(missing_ok=True)
            for stale in [*self.folder.glob("records/*.json"), *self.folder.rglob(PART)]:
                stale.unlink(missing_ok=True)

    def _record(self, claim_id: str) -> Path:
        return record_in(self.folder / "records", claim_id)

    @contextmanager
    def _storing(self, what: str) -> Iterator[None]:
        self.has_vanished()  # raises for a folder that is another's
        try:
            yield
        except OSError as error:
            raise EvidenceLost(f"{self.folder} cannot take {what}: {error.strerror or error}") from None
