"""What `python -m reports` can do, one module per command: `register` adds its arguments and the function it runs."""

from __future__ import annotations

import argparse
import sys

from reports.screen import inert

OK, FINDINGS, USAGE = 0, 1, 2  # exit codes: nothing to report, something to look at, wrong use or input

Commands = argparse._SubParsersAction  # argparse has no public name for what add_subparsers returns


def say(line: str) -> None:
    """One line to standard output."""
    sys.stdout.write(inert(line) + "\n")


def refuse(failed: Exception) -> int:
    """One line to standard error, and the exit code of wrong use or input."""
    told = str(failed)
    if isinstance(failed, OSError) and failed.filename and failed.strerror:
        told = f"{failed.filename}: {failed.strerror}"
    sys.stderr.write(f"error: {' '.join(told.split())}\n")
    return USAGE
