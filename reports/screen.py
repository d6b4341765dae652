"""Lines for a screen that may be a CI job's log."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"^(\s*)(?=::|##\[)")


def inert(line: str) -> str:
    """The line so that GitHub's runner takes it for no command: it reads `::error::…` and `##[…]` out of any log."""
    return _COMMAND.sub(r"\1·", line)
