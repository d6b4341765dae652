"""`python -m reports build`: the page and everything beside it, from a run's evidence or from a merged folder."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    what = "render report.html, report.md, summary.md, claims.json, junit.xml and badge.svg from evidence"
    parser = commands.add_parser("build", help=what)
    parser.add_argument(
        "--evidence", type=Path, default=Path("reports/out/latest"), metavar="DIR", help="a run or merge"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: the evidence folder")
    parser.add_argument("--lang", choices=("en", "id"), default="en", help="the language the page opens in")
    parser.add_argument("--drift", type=Path, metavar="FILE", help="the drift.json of `compare`")
    parser.add_argument("--history", type=Path, metavar="DIR", help="the nights before, as `history` keeps them")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Render a folder; findings are what the page's own headline calls red."""
    from reports.render.load import EvidenceError

    collecting = gc.isenabled()
    gc.disable()  # evidence has no cycles, and walking over all of it again and again takes a fifth of the time
    try:
        return _build(given)
    except (EvidenceError, OSError) as failed:
        return refuse(failed)
    except RecursionError:
        return refuse(EvidenceError(f"{given.evidence}: nested too deeply to be ours"))
    finally:
        if collecting:
            gc.enable()


def _build(given: argparse.Namespace) -> int:
    from reports.render import write_all
    from reports.render.load import load_page

    page = load_page(given.evidence, given.drift, given.history)
    for path in write_all(page, given.out or given.evidence, given.lang):
        say(str(path))
    return FINDINGS if page.has_findings else OK
