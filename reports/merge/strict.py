"""Files from outside, read within limits: regular files only, strict JSON, and no link followed out of the folder."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from reports.render.reading import text

MIB = 2**20
RECORD_BYTES = 8 * MIB  # the largest of a whole run's 97 records (2026-11-30) has 22 KB, its tables and plots included
DOCUMENT_BYTES = 256 * MIB  # a summary or a part: that run's had 0.7 MB
FOLDER_BYTES = 512 * MIB  # all records of a run: more would be read into memory at once
MAX_FILES = 10_000  # records in one folder: a hundred times the ledger
MAX_DEPTH = 40  # nested objects and lists: that run's summary needs 10
LARGEST = 1e300  # no measurement is larger, and the arithmetic of intervals stays finite below it
_SHOWN = 120  # characters of a text from outside in a line of ours
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a named pipe must not keep us waiting


class Damaged(ValueError):
    """A file or a part of one cannot be used; the message is one line and names no path."""


def shown(value: object) -> str:
    """Anything from outside as one short printable line."""
    line = " ".join(text(value).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def is_there(path: Path) -> bool:
    """Whether a directory has such an entry, be it a link that leads nowhere."""
    return os.path.lexists(path)


def read_json(path: Path, limit_bytes: int = RECORD_BYTES) -> Any:
    """A file's JSON: finite numbers, no key twice, not too deep, text that can be written again. Raises Damaged."""
    try:
        value = json.loads(_content(path, limit_bytes), parse_constant=_no_number, object_pairs_hook=_no_key_twice)
    except RecursionError:
        raise Damaged("nested too deeply") from None
    except Damaged:
        raise
    except ValueError as broken:
        raise Damaged(f"no JSON: {shown(broken)}") from None
    check_values(value)
    return value


def check_values(value: object) -> None:
    """Raise Damaged for what strict JSON cannot say, or what is nested so deep that a reader would stumble."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise Damaged("nested too deeply")
        if isinstance(part, dict):
            waiting += [(found, depth + 1) for found in (*part.keys(), *part.values())]
        elif isinstance(part, list):
            waiting += [(found, depth + 1) for found in part]
        else:
            _check_scalar(part)


def json_files(folder: Path) -> Iterator[Path]:
    """The `*.json` entries of a folder by name. Raises Damaged for one that is a link, no folder, or overfull."""
    if folder.is_symlink():
        raise Damaged("a link instead of a folder")
    try:
        names = sorted(_names(folder))
        num_bytes = sum((folder / name).lstat().st_size for name in names[:MAX_FILES])
    except OSError as failed:
        raise Damaged(failed.strerror or "cannot be listed") from None
    if len(names) > MAX_FILES:
        raise Damaged(f"{len(names):,} files, and more than {MAX_FILES:,} are refused")
    if num_bytes > FOLDER_BYTES:
        raise Damaged(f"{num_bytes / MIB:,.0f} MiB, and more than {FOLDER_BYTES / MIB:g} MiB together are refused")
    return (folder / name for name in names)


def _names(folder: Path) -> Iterable[str]:
    return [name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith(".")]


def _content(path: Path, limit_bytes: int) -> str:
    try:
        if path.is_symlink():
            raise Damaged("a link instead of a file")
        handle = os.open(path, os.O_RDONLY | _NO_LINK)
    except OSError as failed:
        raise Damaged(failed.strerror or "cannot be opened") from None
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(stream.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Damaged("no regular file")
        if found.st_size > limit_bytes:
            raise Damaged(f"{found.st_size / MIB:,.1f} MiB, and more than {limit_bytes / MIB:g} MiB are refused")
        return stream.read(limit_bytes + 1).decode("utf-8")


def _check_scalar(value: object) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Damaged("a text that is no Unicode") from None
    elif isinstance(value, int | float) and not (-LARGEST <= value <= LARGEST):
        raise Damaged("a number that is not finite" if isinstance(value, float) else "a number beyond every float")


def _no_number(name: str) -> NoReturn:
    raise Damaged(f"{name}, which is no number")


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Damaged("a key twice in one object")
    return found


def finite(value: object) -> float | None:
    """A JSON number as a float; None for anything else, a truth value too."""
    plain = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if plain else None  # type: ignore[arg-type]
