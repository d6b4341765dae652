"""`python -m reports numerals`: every numeral of the chapter against the ledger."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("numerals", help="check that every numeral of the chapter is accounted for")
    parser.add_argument("--chapter", type=Path, required=True, metavar="FILE")
    parser.add_argument("--claims", type=Path, default=Path("claims"), metavar="DIR")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Hold every numeral of the chapter against the ledger and the mapping; one line per fault."""
    from reports.ledger import LedgerError, load_ledger
    from reports.numerals import MappingError, coverage, figures_of, find_numerals, load_mapping

    try:
        text = given.chapter.read_text(encoding="utf-8")
        mapping = load_mapping(given.claims / "numerals.toml")
        result = coverage(find_numerals(text), mapping, figures_of(load_ledger(given.claims)))
    except (LedgerError, MappingError, OSError, UnicodeDecodeError) as failed:
        return refuse(failed)
    for problem in result.problems():
        say(problem)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(result.counts.items()))
    say(f"{sum(result.counts.values())} numerals: {counts}; {len(result.problems())} faults")
    return OK if result.complete else FINDINGS
