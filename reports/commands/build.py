"""`python -m reports build`: pages from an evidence folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("build", help="render report.html and report.md from an evidence folder")
    parser.add_argument("--evidence", type=Path, default=Path("reports/out/latest"), metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: the evidence folder")
    parser.add_argument("--lang", choices=("en", "id"), default="en")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Render an evidence folder; findings are what the page's own headline calls red."""
    from reports.render import write_rendered
    from reports.render.load import EvidenceError, load_evidence
    from reports.render.reading import page

    try:
        found = load_evidence(given.evidence)
        read = page(found.summary, found.complete, found.warnings)
        paths = write_rendered(read, given.out or given.evidence, given.lang)
    except (EvidenceError, OSError) as failed:
        return refuse(failed)
    for path in paths:
        say(str(path))
    return FINDINGS if read.has_findings else OK
