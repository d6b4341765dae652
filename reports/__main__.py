"""`python -m reports …`: the one command line. Exit codes: 0 nothing to report, 1 findings, 2 wrong use or input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

FINDINGS, USAGE = 1, 2


def build(evidence: Path, out: Path, lang: str) -> int:
    """Render an evidence folder; findings are what the page's own headline calls red."""
    from reports.render import write_rendered
    from reports.render.load import EvidenceError, load_evidence
    from reports.render.reading import page

    try:
        found = load_evidence(evidence)
        read = page(found.summary, found.complete, found.warnings)
        paths = write_rendered(read, out, lang)
    except (EvidenceError, OSError) as failed:
        return _refuse(failed)
    for path in paths:
        _say(str(path))
    return FINDINGS if read.has_findings else 0


def numerals(chapter: Path, claims: Path) -> int:
    """Hold every numeral of the chapter against the ledger and the mapping; one line per fault."""
    from reports.ledger import LedgerError, load_ledger
    from reports.numerals import MappingError, coverage, figures_of, find_numerals, load_mapping

    try:
        text = chapter.read_text(encoding="utf-8")
        mapping = load_mapping(claims / "numerals.toml")
        result = coverage(find_numerals(text), mapping, figures_of(load_ledger(claims)))
    except (LedgerError, MappingError, OSError, UnicodeDecodeError) as failed:
        return _refuse(failed)
    for problem in result.problems():
        _say(problem)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(result.counts.items()))
    _say(f"{sum(result.counts.values())} numerals: {counts}; {len(result.problems())} faults")
    return 0 if result.complete else FINDINGS


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _refuse(failed: Exception) -> int:
    sys.stderr.write(f"error: {' '.join(str(failed).split())}\n")
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Reports from recorded evidence.")
    commands = parser.add_subparsers(dest="command", required=True)
    page = commands.add_parser("build", help="render report.html and report.md from an evidence folder")
    page.add_argument("--evidence", type=Path, default=Path("reports/out/latest"), metavar="DIR")
    page.add_argument("--out", type=Path, metavar="DIR", help="default: the evidence folder")
    page.add_argument("--lang", choices=("en", "id"), default="en")
    coverage = commands.add_parser("numerals", help="check that every numeral of the chapter is accounted for")
    coverage.add_argument("--chapter", type=Path, required=True, metavar="FILE")
    coverage.add_argument("--claims", type=Path, default=Path("claims"), metavar="DIR")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    if given.command == "build":
        return build(given.evidence, given.out or given.evidence, given.lang)
    return numerals(given.chapter, given.claims)


if __name__ == "__main__":
    sys.exit(main())
