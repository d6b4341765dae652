"""`python -m reports …`: the one command line. Exit codes: 0 nothing to report, 1 findings, 2 wrong use or input."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from reports.commands import USAGE, accept, build, compare, errata, history, merge, nightly, numerals

COMMANDS = (build, errata, merge, compare, accept, history, nightly, numerals)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Reports from recorded evidence.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in COMMANDS:
        command.register(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        code = int(given.run(given))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read this has gone: nobody is left to be told, and what was found is not known
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return USAGE
    return code


if __name__ == "__main__":
    sys.exit(main())
