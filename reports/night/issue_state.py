"""What the drift issue remembers from night to night: kept in its own body, in comments that GitHub does not show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MARKER = "<!-- cheap-inference-errata: nightly drift -->"
BOT = "github-actions[bot]"
_STATE = re.compile(r"<!-- state (\{[^<>]*\}) -->")
_LIVE = re.compile(r"[<>@#`&]")  # what could end the comment, or be a mention in it
# GitHub refuses a body above 65,536 characters; the text of a body has 40,000 of them (issue_text.py).
STATE_CHARS = 20_000


@dataclass(frozen=True)
class Flagged:
    """A flag that the issue has reported: on what, as what, since which night."""

    claim: str
    subject: str
    status: str
    since: str

    @property
    def key(self) -> tuple[str, str]:
        """What the flag is about."""
        return self.claim, self.subject


@dataclass(frozen=True)
class Issue:
    """The open drift issue: its number and what it remembers, None where that cannot be read."""

    number: int
    flags: tuple[Flagged, ...] | None


def find_issue(listed: object, author: str = BOT) -> Issue | None:
    """The oldest open issue with our marker by our own author, in GitHub's list of issues (pages of it, too).

    Only the author's: else anybody could open an issue with the marker in it, and close it again.
    """
    found = [entry for entry in _entries(listed) if _is_ours(entry, author)]
    if not found:
        return None
    oldest = min(found, key=lambda entry: int(entry["number"]))
    return Issue(oldest["number"], read_state(oldest["body"]))


def read_state(body: str) -> tuple[Flagged, ...] | None:
    """The flags that a body remembers; None where they are missing or not ours."""
    found = _STATE.search(body)
    try:
        raw = json.loads(found[1])["flags"] if found else None
        if not isinstance(raw, list):
            return None
        return tuple(Flagged(*map(str, entry)) for entry in raw)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def state_line(flags: Iterable[Flagged] | None) -> str:
    """The comment that `read_state` reads; of too many flags only that they are too many."""
    entries = None if flags is None else [[f.claim, f.subject, f.status, f.since] for f in flags]
    text = json.dumps({"flags": entries})
    if len(text) > STATE_CHARS:
        text = json.dumps({"flags": None})
    return f"<!-- state {_LIVE.sub(lambda found: f'{chr(92)}u{ord(found[0]):04x}', text)} -->"


def _entries(listed: object) -> list[Mapping[str, Any]]:
    """The issues of a list, or of a list of lists as `gh api --paginate --slurp` gives them."""
    pages = listed if isinstance(listed, list) else []
    flat = [entry for page in pages for entry in (page if isinstance(page, list) else [page])]
    return [entry for entry in flat if isinstance(entry, dict)]


def _is_ours(entry: Mapping[str, Any], author: str) -> bool:
    user, body, number = entry.get("user"), entry.get("body"), entry.get("number")
    login = user.get("login") if isinstance(user, dict) else None
    known = isinstance(body, str) and MARKER in body and isinstance(number, int) and number > 0
    return known and login == author and entry.get("state") == "open" and "pull_request" not in entry
