"""`python -m reports …`: the one command line. Exit codes: 0 nothing to report, 1 findings, 2 wrong use or input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from reports.commands import build, nightly, numerals

COMMANDS = (build, nightly, numerals)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Reports from recorded evidence.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.register(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    return int(given.run(given))


if __name__ == "__main__":
    sys.exit(main())
