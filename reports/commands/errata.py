"""`python -m reports errata`: ERRATA.md and ERRATA.id.md, from the ledgers alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("errata", help="write the errata on record as ERRATA.md and ERRATA.id.md")
    parser.add_argument("--claims", type=Path, default=Path("claims"), metavar="DIR", help="the ledgers")
    parser.add_argument("--out", type=Path, default=Path("reports"), metavar="DIR")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the files are not current")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Write both files, or with --check compare them with what would be written."""
    from reports.ledger import LedgerError, load_ledger
    from reports.render.errata_list import NAMES, render_errata

    try:
        ledger = load_ledger(given.claims)
        wanted = {given.out / name: render_errata(ledger, lang) for lang, name in NAMES.items()}
        if given.check:
            return _check(wanted)
        for path, content in wanted.items():
            path.write_text(content, encoding="utf-8", newline="\n")
            say(str(path))
    except (LedgerError, OSError) as failed:
        return refuse(failed)
    return OK


def _check(wanted: dict[Path, str]) -> int:
    stale = [path for path, content in wanted.items() if not path.is_file() or path.read_text("utf-8") != content]
    for path in stale:
        say(f"{path} is not current: run python -m reports errata")
    return FINDINGS if stale else OK
