"""Names from outside as files: the one place where an id, a subject, a digest or a night becomes a path.

What is no name of ours never gets one, so that nothing is read or written outside the folder it belongs in, on any
system: no separator, no `..`, no letter that folds into another, none of Windows' device names, nothing too long.
"""

from __future__ import annotations

import re
from pathlib import Path

MAX_ID = 120  # characters: an id is a file name, and most file systems end at 255 bytes
MAX_NAME = 250  # bytes of any other name, its ending included
_ID = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+")  # 1.6 may stand in it, two dots in a row not
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]*")
# Windows takes these for devices whatever comes after the first dot.
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE | re.DOTALL)


class NoName(ValueError):
    """This cannot be the name of a file; the message is one printable line."""


def is_safe_id(name: object) -> bool:
    """Whether a claim id can be a file name on every system: lower case, no path, not too long."""
    return isinstance(name, str) and len(name) <= MAX_ID and _ID.fullmatch(name) is not None and not is_device(name)


def is_device(name: str) -> bool:
    """Whether Windows would open a device by this name."""
    return _DEVICES.fullmatch(name) is not None


def record_in(folder: Path, claim_id: object) -> Path:
    """Where a claim's record lies in a folder of records. Raises NoName for what is no id."""
    if not is_safe_id(claim_id):
        raise NoName(f"claim id {str(claim_id)[:MAX_ID]!r} cannot be a file name")
    return folder / f"{claim_id}.json"


def inside(folder: Path, name: object) -> Path:
    """The entry of that name right in a folder. Raises NoName for what would lie anywhere else, or in two places."""
    sound = isinstance(name, str) and len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None
    if not sound or is_device(str(name)):
        raise NoName(f"{str(name)[:MAX_ID]!r} cannot be a file name")
    return folder / str(name)
