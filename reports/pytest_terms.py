"""Outcomes in pytest's terms, and what pytest says of a test in ours."""

from __future__ import annotations

import pytest

from reports.records import Record
from reports.verdict import Outcome, Verdict


def raise_outcome(record: Record) -> None:
    """Say the outcome in pytest's terms: pass as recorded, fail when changed, skip when there is nothing to compare."""
    verdict, reason = record["verdict"], record["reason"] or record["condition"]
    match Outcome(record["outcome"]):
        case Outcome.CHANGED:
            pytest.fail(f"{record['id']}: {verdict}, on record {record['on_record']}. {reason}", pytrace=False)
        case Outcome.NEW:
            pytest.skip(f"new: {verdict}, nothing on record for this model. {reason}")
        case Outcome.UNRESOLVED | Outcome.NOT_MEASURED:
            pytest.skip(f"{verdict}: {reason or _all_reasons(record)}")


def _all_reasons(record: Record) -> str:
    return "; ".join(sorted({a["reason"] for a in record["aspects"].values() if a["verdict"] == Verdict.NOT_MEASURED}))


def skip_reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, without pytest's own word for it."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def last_line(report: pytest.TestReport) -> str:
    """What a test died of, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return f"{report.when}: {text.strip().splitlines()[0] if text.strip() else 'no message'}"
