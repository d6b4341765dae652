"""The drift issue as a state machine: tonight's rows and the open issue, if any, give one action.

    no issue     flags                            open
    no issue     none                             none
    open issue   the same flags as remembered     update   (the body is replaced, nobody is told)
    open issue   other flags                      comment  (the body is replaced, one comment says what changed)
    open issue   a flag that was not compared     stays: it is "not seen tonight", and not gone
    open issue   none, all seen                   close    (with a comment)

Statements that are incomparable or without a verdict open nothing; the night is not green for them all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from reports.night import issue_text
from reports.night.documents import FLAGS, SETTLED, Reading, Row
from reports.night.issue_state import Flagged, Issue

SCHEMA = 1


@dataclass(frozen=True)
class Tonight:
    """When and where a night ran: an ISO time, and the address of its run or nothing."""

    night: str
    run_url: str = ""


def decide(reading: Reading, existing: Issue | None, tonight: Tonight, whole: bool = True) -> dict[str, Any]:
    """The action of a night: {action, number, title, body, comment}; strings are empty where nothing is to be said.

    whole: every statement was asked for, so that a flag without a row is gone. Of a part, only what was seen is.
    """
    before = {} if existing is None or existing.flags is None else {flag.key: flag for flag in existing.flags}
    flagged = [_flag(row, before, tonight) for row in reading.having(FLAGS)]
    unseen = _unseen(reading, before, {flag.key for flag in flagged}, whole)
    kept = [*flagged, *unseen]
    action = _action(reading, existing, kept)
    if action == "none":
        return _document("none")
    facts = issue_text.Facts(tonight.night, tonight.run_url, tuple(reading.having(FLAGS)), tuple(kept), tuple(unseen))
    lost = existing is not None and existing.flags is None and not kept and action != "close"
    body = issue_text.body(facts, reading, None if lost else kept)
    return _document(action, existing, issue_text.title(facts), body, _comment(action, facts, before))


def _action(reading: Reading, existing: Issue | None, kept: list[Flagged]) -> str:
    if existing is None:
        return "open" if kept else "none"
    if existing.flags is None:  # nobody knows what it had reported: it is gone only if nothing at all is open
        clean = bool(reading.rows) and len(reading.having(SETTLED | {"unmeasured"})) == len(reading.rows)
        return "comment" if kept else "close" if clean and not reading.problems else "update"
    if not kept:
        return "close"
    return "update" if _set(kept) == _set(existing.flags) else "comment"


def _flag(row: Row, before: dict[tuple[str, str], Flagged], tonight: Tonight) -> Flagged:
    known = before.get(row.key)
    if known is not None:
        return replace(known, status=row.status)
    return Flagged(row.claim, row.subject, row.status, tonight.night)


def _unseen(
    reading: Reading, before: dict[tuple[str, str], Flagged], flagged: set[tuple[str, str]], whole: bool
) -> list[Flagged]:
    """Earlier flags of which tonight says nothing. One without a row, though its subject was compared, is gone."""
    rows = {row.key: row for row in reading.rows}
    compared = {row.subject for row in reading.having(SETTLED | FLAGS)} if whole else set()
    waiting = []
    for key, flag in before.items():
        gone = rows[key].status in SETTLED if key in rows else flag.subject in compared
        if key not in flagged and not gone:
            waiting.append(flag)
    return waiting


def _comment(action: str, facts: issue_text.Facts, before: dict[tuple[str, str], Flagged]) -> str:
    if action == "close":
        return issue_text.closing(facts)
    return issue_text.change(facts, before) if action == "comment" else ""


def _set(flags: list[Flagged] | tuple[Flagged, ...]) -> set[tuple[str, str, str]]:
    return {(flag.claim, flag.subject, flag.status) for flag in flags}


def _document(
    action: str, existing: Issue | None = None, title: str = "", body: str = "", comment: str = ""
) -> dict[str, Any]:
    number = None if existing is None else existing.number
    return {"schema": SCHEMA, "action": action, "number": number, "title": title, "body": body, "comment": comment}
