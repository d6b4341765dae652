"""One timed measurement at a time on a machine, whichever process it runs in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = "timed-measurement.lock"
EVERYBODY = 0o666  # another user's run must be able to take the lock


class MachineTaken(RuntimeError):
    """Another process is timing something on this machine, and did not finish in time."""


@contextmanager
def exclusive(wait_s: float, folder: Path | None = None) -> Iterator[None]:
    """Hold the machine's lock for timing; raises MachineTaken after waiting so long. A dead process holds nothing."""
    lock = FileLock((folder or Path(tempfile.gettempdir())) / LOCK, mode=EVERYBODY)
    try:
        held = lock.acquire(timeout=wait_s)
    except Timeout:
        raise MachineTaken(f"another process has been timing here for more than {wait_s:.0f} s") from None
    with held:  # outside the try: a timeout of some other lock in there is not ours to rename
        yield
