"""`python -m reports accept`: make runs the baseline. The only thing that ever writes one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reports.commands import OK, Commands, refuse, say

LISTED = 60  # changes on the screen; the diff of the file has all of them


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("accept", help="make runs the baseline; several are repeats, and give the noise")
    parser.add_argument("--evidence", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--baseline", type=Path, default=Path("reports/baseline"), metavar="DIR")
    parser.add_argument(
        "--claim", action="append", default=[], metavar="ID", help="only this statement (again for more)"
    )
    parser.add_argument("--prune", action="store_true", help="drop statements that no run has")
    parser.add_argument("--allow-dirty", action="store_true", help="also runs of uncommitted changes")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Accept, and say what changes: before → after."""
    from reports.atomic import write_text
    from reports.drift.accept import accept, sound_parts
    from reports.drift.baseline import read_baselines
    from reports.drift.files import Refused, pretty
    from reports.names import inside

    try:
        parts = sound_parts(given.evidence, given.allow_dirty)
        known = read_baselines(given.baseline)
        subjects = {subject for part in parts for subject in part.subjects}
        old = next((known[s].raw for s in sorted(subjects) if s in known), None)
        accepted = accept(parts, old, given.claim, given.prune)
        path = inside(given.baseline, f"{accepted.subject}.json")
        if not given.dry_run:
            write_text(path, pretty(accepted.document))
    except (Refused, OSError, ValueError) as failed:
        return refuse(failed)
    lines = [*accepted.changed[:LISTED], *accepted.said]
    for line in lines:
        say(line)
    if len(accepted.changed) > LISTED:
        say(f"… and {len(accepted.changed) - LISTED} more changes")
    num = len(accepted.document["claims"])
    verb = "would hold" if given.dry_run else "holds"
    say(f"{path.name} {verb} {num} statements; {len(parts)} runs accepted, {len(accepted.changed)} changes")
    return OK
