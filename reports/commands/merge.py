"""`python -m reports merge`: several runs' evidence → one matrix, with everything that is missing in it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say

RED = frozenset({"error", "changed"})  # rows that a page shows red, whatever else was found
MAX_LINES = 40  # of problems on the screen; merged.json has all of them


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("merge", help="put shards, models and machines into one matrix")
    parser.add_argument("inputs", nargs="+", type=Path, metavar="EVIDENCE", help="evidence or merged folders")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the merged folder; made anew")
    parser.add_argument("--expect", choices=("gpu",), help="fail when nothing ran on one")
    parser.add_argument(
        "--claims", type=Path, default=Path("claims"), metavar="DIR", help="the ledger (default claims/)"
    )
    parser.add_argument("--part", action="store_true", help="a part was asked for: what nobody collected is no gap")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Merge; findings are problems, and an input that could not be read is one."""
    from reports.ledger import LedgerError, load_ledger
    from reports.merge.folder import MergeRefused, check_apart, write_merged
    from reports.merge.matrix import matrix
    from reports.merge.shards import read_folder

    try:
        check_apart(given.out, given.inputs)
        ledger = load_ledger(given.claims)
        if not ledger.statements:
            raise LedgerError(f"{given.claims}: no ledger there; give --claims DIR")
        parts = {part.digest: part for folder in given.inputs for part in read_folder(folder)}
        now, on_gpu = datetime.now(UTC), given.expect == "gpu"
        document = matrix(parts.values(), ledger, expect_gpu=on_gpu, part_only=given.part, now=now)
        write_merged(given.out, document, parts.values())
    except (LedgerError, MergeRefused, OSError, ValueError) as failed:
        return refuse(failed)
    return _report(document, len(parts))


def _report(document: dict[str, Any], num_parts: int) -> int:
    """Problems before notes, one line each, and a last line of sums."""
    from reports.merge.problems import Problem

    found = [Problem(*(raw[key] for key in ("kind", "id", "subject", "detail"))) for raw in document["problems"]]
    problems = [p for p in found if not p.harmless]
    lines = [str(problem) for problem in (*problems, *(p for p in found if p.harmless))]
    for line in lines[:MAX_LINES]:
        say(line)
    if len(lines) > MAX_LINES:
        say(f"… and {len(lines) - MAX_LINES} more in merged.json")
    red = sum(row["outcome"] in RED for cells in document["claims"].values() for row in cells.values())
    counts = f"{num_parts} runs, {len(document['subjects'])} subjects, {len(document['claims'])} statements"
    say(f"{counts}: {red} red; {len(problems)} problems, {len(found) - len(problems)} notes")
    return FINDINGS if problems or red else OK
