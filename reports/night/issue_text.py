"""What the drift issue says, in GitHub's Markdown. Every word from a record stands in a code span (quoting.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reports.night.documents import Reading, Row
from reports.night.issue_state import MARKER, Flagged, state_line
from reports.night.quoting import head, link, quoted, quoted_value, row

# GitHub refuses bodies above 65,536 characters: 40,000 for the text, 20,000 for the state, the rest for the frame.
TEXT_CHARS = 40_000
_COMMENT_ROWS = 20  # flags of a kind that a comment names
_FIGURES = 4  # of one row

_HOW = """\
**What to do.** The statement's command on its page reproduces the figure. If the move is real and meant, take it over:
`python -m reports accept --evidence DIR --baseline reports/baseline`, and commit it; if not, something broke.
This text is replaced every night, and the issue closes itself when nothing is flagged any more.
Closed by hand it comes back with the next flag."""


@dataclass(frozen=True)
class Facts:
    """One night: its flags as rows, all that stays open as remembered, and of these the ones not seen tonight."""

    night: str
    run_url: str
    rows: tuple[Row, ...]
    kept: tuple[Flagged, ...]
    unseen: tuple[Flagged, ...]

    @property
    def when(self) -> str:
        """The night, linked to its run where there is one."""
        return f"{quoted(self.night, 40)} ({link(self.run_url, 'run')})" if self.run_url else quoted(self.night, 40)


def title(facts: Facts) -> str:
    """Only counts: nothing from a record stands in a title."""
    n = len({flag.claim for flag in facts.kept})
    return f"Nightly drift: {n} statement{'' if n == 1 else 's'}" if n else "Nightly drift: none"


def body(facts: Facts, reading: Reading, remembered: Iterable[Flagged] | None) -> str:
    """The whole text of the issue; `remembered` goes into its state, None where that was lost."""
    parts = [MARKER, f"As of {facts.when}, against the committed baselines.", "", *_flags(facts), *_unseen(facts)]
    counts = ", ".join(f"{n} {status}" for status, n in reading.counts().items()) or "nothing was compared"
    parts += [f"All rows of the night: {counts}.", *_problems(reading.problems), "", _HOW, "", state_line(remembered)]
    return "\n".join(parts)


def change(facts: Facts, before: Mapping[tuple[str, str], Flagged]) -> str:
    """The one comment of a night on which the set of flags is another."""
    known = {(flag.claim, flag.subject, flag.status) for flag in before.values()}
    kept = {flag.key for flag in facts.kept}
    new = [f for f in facts.kept if (f.claim, f.subject, f.status) not in known]
    gone = [flag for key, flag in before.items() if key not in kept]
    lines = [f"The flags have changed in the night of {facts.when}.", ""]
    lines += _listed("New", new) + _listed("No longer flagged", gone)
    return "\n".join(lines)


def closing(facts: Facts) -> str:
    """The last comment."""
    return f"Nothing that was flagged here is flagged any more, as of {facts.when}."


def _flags(facts: Facts) -> list[str]:
    if not facts.rows:
        return ["Nothing is flagged tonight.", ""]
    since = {flag.key: flag.since for flag in facts.kept}
    lines = [_flag(flag, since.get(flag.key, "")) for flag in facts.rows]
    return [*head(["statement", "on", "what", "was → is", "since"]), *_within(lines, TEXT_CHARS * 3 // 4), ""]


def _flag(flag: Row, since: str) -> str:
    moved = flag.cell.get("figures")
    figures = [
        f"{quoted(str(name), 60)}: {quoted_value(cell.get('was'))} → {quoted_value(cell.get('now'))}"
        for name, cell in (moved.items() if isinstance(moved, dict) else ())
        if isinstance(cell, dict) and cell.get("status") == flag.status
    ]
    shown = figures[:_FIGURES] + [f"and {len(figures) - _FIGURES} more"] * (len(figures) > _FIGURES)
    what = f"{flag.status}" + (f": {quoted(flag.detail)}" if flag.detail else "")
    return row([quoted(flag.claim, 80), quoted(flag.subject), what, "; ".join(shown) or "–", quoted(since[:10])])


def _unseen(facts: Facts) -> list[str]:
    if not facts.unseen:
        return []
    lines = [f"- {_named(flag)}, flagged since {quoted(flag.since[:10])}" for flag in facts.unseen]
    return ["Flagged before and **not compared tonight** (so not known to be over):", "", *_within(lines, 8_000), ""]


def _problems(problems: tuple[str, ...]) -> list[str]:
    lines = [f"- {quoted(problem, 200)}" for problem in problems]
    return ["", "Runs that gave no comparison:", "", *_within(lines, 2_000)] if lines else []


def _listed(name: str, flags: list[Flagged]) -> list[str]:
    if not flags:
        return []
    more = [f"- and {len(flags) - _COMMENT_ROWS} more"] * (len(flags) > _COMMENT_ROWS)
    return [f"{name} ({len(flags)}):", "", *(f"- {_named(flag)}" for flag in flags[:_COMMENT_ROWS]), *more, ""]


def _named(flag: Flagged) -> str:
    return f"{quoted(flag.claim, 80)} on {quoted(flag.subject)} ({quoted(flag.status, 20)})"


def _within(lines: list[str], chars: int) -> list[str]:
    """As many whole lines as fit, and how many did not."""
    kept: list[str] = []
    for line in lines:
        chars -= len(line) + 1
        if chars < 0:
            return [*kept, "", f"… and {len(lines) - len(kept)} more: see the page of the night."]
        kept.append(line)
    return kept
