"""Whether a night is green, and the job summary that says why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.merge.problems import is_harmless
from reports.night.documents import FLAGS, SETTLED, UNCOMPARED, Reading, Row, load_json
from reports.night.legs import Leg
from reports.night.quoting import head, link, quoted, quoted_value, row

_ROWS = 50  # of a table in the summary; the page has them all
# These exit 1 for findings, which stand in the documents that they write; every other step must exit 0.
_MAY_FIND = frozenset({"merge", "join", "page"})


@dataclass(frozen=True)
class Night:
    """All that decides over a night. `steps` are exit codes by name; `faults` are the merge's own, one line each."""

    legs: tuple[Leg, ...]
    reading: Reading
    faults: tuple[Mapping[str, str], ...]
    steps: Mapping[str, int]
    issue_stays: bool = False  # flags of earlier nights are not known to be gone

    @property
    def red(self) -> list[str]:
        """One line for every reason why somebody must look."""
        lines = [f"leg {leg.name}: {leg.problem}" for leg in self.legs if leg.problem]
        lines += [f"step {n}: exit code {code}" for n, code in self.steps.items() if code > (n in _MAY_FIND)]
        lines += [] if self.legs else ["no leg was asked for"]
        lines += [f"{len(self.faults)} faults of the evidence"] * bool(self.faults)
        lines += list(self.reading.problems)
        flags = self.reading.having(FLAGS)
        return lines + [f"{len(flags)} flags: " + ", ".join(sorted({f.status for f in flags}))] * bool(flags)

    @property
    def amber(self) -> list[str]:
        """Reasons why a night without anything red is not green: what was not compared is not known to stand."""
        counts = self.reading.counts()
        lines = [f"{counts[status]} {status}" for status in sorted(UNCOMPARED) if counts.get(status)]
        if self.issue_stays and not self.reading.having(FLAGS):
            lines.append("flags of earlier nights were not seen tonight, the drift issue stays open")
        return lines if self.reading.having(SETTLED) else [*lines, "nothing was compared"]

    @property
    def headline(self) -> str:
        """One line: red, not green, or green, and what has no verdict tonight."""
        unmeasured = self.reading.counts().get("unmeasured", 0)
        silent = f"; {unmeasured} without a verdict tonight" * bool(unmeasured)
        if self.red:
            return f"red: {'; '.join(self.red)}{silent}"
        return f"not green: {'; '.join(self.amber)}{silent}" if self.amber else f"nothing moved{silent}"


def stays_open(action: Path) -> bool:
    """Whether the drift issue is open after tonight; where nobody could say what to do with it, nothing is claimed."""
    try:
        document = load_json(action)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("action") in {"open", "update", "comment"}


def faults_of(merged: Path, restricted: bool = False) -> tuple[Mapping[str, str], ...]:
    """The problems that the merge found and does not call harmless, as text; an unreadable merge is one of them.

    A night that was restricted to some statements is not at fault for the ones that nobody collected.
    """
    try:
        document = load_json(merged / "merged.json")
    except ValueError as failed:
        return ({"kind": "unreadable", "detail": f"merged.json: {failed}"},)
    problems = document.get("problems") if isinstance(document, dict) else None
    if not isinstance(problems, list):
        return ({"kind": "unreadable", "detail": "merged.json has no list of problems"},)
    found = [_fault(p) for p in problems if not (isinstance(p, dict) and is_harmless(p.get("kind")))]
    return tuple(fault for fault in found if not (restricted and fault.get("kind") == "gap" and not fault.get("id")))


def summary(night: Night, run_url: str) -> str:
    """The job summary: the headline, the legs, the flags, what was not compared, the faults of the evidence."""
    lines = [f"# Night: {quoted(night.headline, 400)}", "", link(run_url, "run") if run_url else "", *_legs(night.legs)]
    lines += _rows("Flags", night.reading.having(FLAGS)) + _rows("Not compared", night.reading.having(UNCOMPARED))
    lines += _faults(night.faults)
    counts = ", ".join(f"{n} {status}" for status, n in night.reading.counts().items())
    return "\n".join([*lines, f"All rows: {counts or 'none'}.", ""])


def _legs(legs: tuple[Leg, ...]) -> list[str]:
    codes = [[str(code) if code is not None else "–" for code in (x.tests, x.compare, x.seconds)] for x in legs]
    rows = [
        row([quoted(leg.name), "✗" if leg.problem else "✓", *code, quoted(leg.problem, 200)])
        for leg, code in zip(legs, codes, strict=True)
    ]
    return [*head(["leg", "", "tests' exit", "comparison's exit", "seconds", "problem"]), *rows, ""]


def _rows(name: str, rows: list[Row]) -> list[str]:
    if not rows:
        return []
    lines = [
        row([quoted(r.claim), quoted(r.subject), r.status, _moved(r), quoted(r.detail, 160)]) for r in rows[:_ROWS]
    ]
    more = [f"… and {len(rows) - _ROWS} more on the page.", ""] * (len(rows) > _ROWS)
    table = head(["statement", "on", "status", "was → is", "detail"])
    return [f"## {name} ({len(rows)})", "", *table, *lines, "", *more]


def _moved(found: Row) -> str:
    figures = found.cell.get("figures")
    cells = [(n, c) for n, c in figures.items() if isinstance(c, dict)] if isinstance(figures, dict) else []
    moved = [(n, c) for n, c in cells if c.get("status") == found.status][:2]
    return (
        "; ".join(f"{quoted(n, 60)}: {quoted_value(c.get('was'))} → {quoted_value(c.get('now'))}" for n, c in moved)
        or "–"
    )


def _faults(faults: tuple[Mapping[str, str], ...]) -> list[str]:
    if not faults:
        return []
    keys = ("kind", "id", "subject", "detail")
    lines = [row([quoted(fault.get(key, "")) for key in keys]) for fault in faults[:_ROWS]]
    more = [f"… and {len(faults) - _ROWS} more.", ""] * (len(faults) > _ROWS)
    return [f"## Faults of the evidence ({len(faults)})", "", *head(list(keys)), *lines, "", *more]


def _fault(problem: Any) -> Mapping[str, str]:
    if not isinstance(problem, dict):
        return {"kind": "malformed", "detail": str(problem)}
    return {str(key): str(value) for key, value in problem.items() if value is not None}
