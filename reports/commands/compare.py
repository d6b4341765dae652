"""`python -m reports compare`: has anything moved since the baseline?

Exit codes: 0 all that was compared is where it was (statements without a verdict tonight are told, and no more), 1
findings (a flag, something suspected, incomparable or unknown, a statement that had a verdict and has none any more, or
nothing compared at all), 2 wrong use or input.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.commands import FINDINGS, OK, Commands, refuse, say

if TYPE_CHECKING:
    from reports.drift.compare import Comparison

LISTED = 20  # rows of one status on the screen; drift.json has all of them


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("compare", help="compare a run with the accepted baseline")
    parser.add_argument("--evidence", type=Path, default=Path("reports/out/latest"), metavar="DIR")
    parser.add_argument("--baseline", type=Path, default=Path("reports/baseline"), metavar="DIR")
    parser.add_argument("--history", type=Path, metavar="DIR", help="the nights before: without, no timed step is seen")
    parser.add_argument("--rerun", type=int, default=0, metavar="N", help="read odd timed claims N times more (5)")
    parser.add_argument("--part", action="store_true", help="the run was of a part: what it left out is not missing")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: drift.json in the evidence folder")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Compare, write the document, and say what is to be looked at."""
    from reports.drift.baseline import read_baselines
    from reports.drift.compare import Comparer
    from reports.drift.evidence import read_evidence, unfit
    from reports.drift.files import Refused
    from reports.drift.history import read_nights, was_seen
    from reports.drift.rerun import rerun
    from reports.evidence import write_json
    from reports.machine import machine_facts

    try:
        evidence = read_evidence(given.evidence)
        baselines = read_baselines(given.baseline)
        nights = {s: read_nights(given.history, s, evidence.started(s)) for s in evidence.subjects}
        again = rerun(given.rerun, Path.cwd(), say) if given.rerun > 0 else None
        stale = unfit(evidence, partial(was_seen, given.history), datetime.now(UTC))
        found = Comparer(baselines, nights, given.part, stale).compare(evidence, again, str(machine_facts()["class"]))
        document = found.as_json(given.baseline.name, given.evidence.name)
        write_json(given.out or given.evidence / "drift.json", document)
    except (Refused, OSError, ValueError) as failed:
        return refuse(failed)
    _report(found, sum(n.damaged for n in nights.values()))
    return FINDINGS if found.has_findings else OK


def _report(found: Comparison, damaged_nights: int) -> None:
    """Flags first, the steady ones only as a number."""
    from reports.drift.rows import Status

    for status in reversed(Status):
        if status is Status.STEADY:
            continue
        rows = found.having({status})
        for claim_id, subject, row in rows[:LISTED]:
            say(f"{status.value:12} {claim_id} on {subject}: {row.detail}")
        if len(rows) > LISTED:
            say(f"{status.value:12} … and {len(rows) - LISTED} more")
    if damaged_nights:
        say(f"history: {damaged_nights} damaged files left out")
    counts = ", ".join(f"{num} {status}" for status, num in found.counts().items())
    say(f"{counts or 'no rows'}{'' if found.compared_anything else '; nothing was compared'}")
