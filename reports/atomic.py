"""One way to write a file: a reader sees the old one or the whole new one, whatever happens to the writer."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

_SHOWN = 100  # characters of the name in that of its part: some file systems end at 255 bytes, ours at 250
PART = ".*.part"  # what a writer that was killed leaves beside the file


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all. Raises OSError, and then has left nothing behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:_SHOWN]}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        os.chmod(name, 0o644)  # mkstemp's own is for its user alone
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
