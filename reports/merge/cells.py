"""One statement on one subject, spoken of by one run or more: which record stands, and what is said beside it.

- Equal content, or figures of a sample or a timing inside each other's intervals: no contradiction. The later run
  stands, and a note says so.
- One run has a verdict, another could not measure: the verdict stands, noted.
- Two verdicts, two exact figures, an error beside a verdict: a conflict. Neither stands; the row is an error that
  shows both. (UNRESOLVED is no verdict against another one where a sample or a clock was read: it says nothing.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from reports.merge.figures import WITH_INTERVALS, contradictions
from reports.merge.parts import canonical
from reports.merge.strict import shown
from reports.records import Record

_PASSING = frozenset({"seconds", "threads"})  # what differs between two runs of one thing
_UNMEASURED = frozenset({"not-measured", "pending"})


@dataclass(frozen=True)
class Entry:
    """A record and the start of the run that made it."""

    started: str
    record: Record

    @property
    def order(self) -> tuple[float, str, str]:
        """Later runs after earlier ones; what does not say when, first."""
        try:
            when = datetime.fromisoformat(self.started)
            seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            seconds = float("-inf")
        return seconds, self.started, canonical(self.record)

    @property
    def verdict(self) -> str:
        """The verdict in a word, an error as one."""
        return "an error" if self.record["outcome"] == "error" else str(self.record["verdict"])


def settle(entries: Sequence[Entry]) -> tuple[Record, str, str]:
    """The row, the kind of what must be said of it (duplicate, conflict, or nothing), and the words."""
    ordered = sorted(entries, key=lambda entry: entry.order)
    ended = [entry for entry in ordered if entry.record["outcome"] not in _UNMEASURED]
    decided = [entry for entry in ended if entry.verdict != "UNRESOLVED"]
    last = (decided or ended or ordered)[-1]  # what could not be decided later takes nothing back
    against = _against(ended)
    if against:
        return _conflict(ended, against), "conflict", against
    said = _remark(ordered, ended, last)
    return last.record, "duplicate" if said else "", said


def _against(ended: Sequence[Entry]) -> str:
    """Why these cannot all be; empty when they can."""
    for one, other in combinations(ended, 2):
        words = _contradiction(one, other)
        if words:
            return words
    return ""


def _contradiction(one: Entry, other: Entry) -> str:
    a, b = one.record, other.record
    if a["outcome"] == b["outcome"] == "error":
        return ""
    open_to_both = a["warrant"] in WITH_INTERVALS and "UNRESOLVED" in {a["verdict"], b["verdict"]}
    if one.verdict != other.verdict and (not open_to_both or "error" in {a["outcome"], b["outcome"]}):
        return f"{one.verdict}{_when(one)} and {other.verdict}{_when(other)}"
    if a["warrant"] != b["warrant"]:
        return f"warrant {a['warrant']} and {b['warrant']}"
    return "; ".join(list(contradictions(a, b))[:3])


def _conflict(ended: Sequence[Entry], against: str) -> Record:
    """A row that is an error, whatever the runs say, and shows what each of them said."""
    sides = [{"started": e.started, **{k: e.record.get(k) for k in _SHOWN}} for e in ended]
    nothing: dict[str, Any] = {"verdict": None, "outcome": "error", "transferred": False, "reason": ""}
    empty: dict[str, Any] = {"aspects": {}, "tables": [], "plots": [], "condition": ""}
    return ended[-1].record | nothing | empty | {"error": f"conflict: {against}", "conflict": sides}


_SHOWN = (
    "verdict",
    "outcome",
    "reason",
    "error",
    "condition",
    "aspects",
    "threads",
    "source",
    "test",
    "machine",
    "model",
)


def _remark(ordered: Sequence[Entry], ended: Sequence[Entry], last: Entry) -> str:
    if len(ordered) == 1 or all(entry.record["outcome"] == "pending" for entry in ordered):
        return ""
    missed = sum(entry.record["outcome"] in _UNMEASURED for entry in ordered) if ended else 0
    said = [f"not measured in {_runs(missed)}"] * bool(missed)
    same = ended or ordered
    if len(same) > 1:
        equal = len({_content(entry.record) for entry in same}) == 1
        said.append(f"{_runs(len(same))}, {'equal' if equal else _apart(same)}{'' if equal else _stands(last)}")
    return "; ".join(said)


def _apart(entries: Sequence[Entry]) -> str:
    if all(entry.record["outcome"] == "error" for entry in entries):
        return "an error in each"
    verdicts = list(dict.fromkeys(entry.verdict for entry in entries))
    return f"no contradiction ({' and '.join(verdicts)})"


def _stands(last: Entry) -> str:
    return f"; the later stands{_when(last)}"


def _when(entry: Entry) -> str:
    return f" ({shown(entry.started)})" if entry.started else ""


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _content(record: Record) -> str:
    return canonical({key: value for key, value in record.items() if key not in _PASSING})
