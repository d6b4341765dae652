"""`python -m reports history`: keep a night, or print what a statement did over the nights."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say


def register(commands: Commands[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("history", help="keep a night's figures, or print a statement's series")
    parser.add_argument("--store", type=Path, required=True, metavar="DIR")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--add", type=Path, metavar="EVIDENCE", help="keep this night (again: its file is replaced)")
    what.add_argument("--claim", metavar="ID", help="print this statement's nights")
    parser.add_argument("--drift", type=Path, metavar="FILE", help="with --add: what compare said of the night")
    parser.add_argument("--keep", type=int, default=90, metavar="N", help="with --add: nights per subject (90)")
    parser.add_argument("--figure", metavar="LABEL", help="with --claim: which figure (default: the first)")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Add or print; a damaged night is a finding."""
    from reports.drift.files import Refused

    try:
        return _add(given) if given.add else _print(given)
    except (Refused, OSError, ValueError) as failed:
        return refuse(failed)


def _add(given: argparse.Namespace) -> int:
    from reports.drift.evidence import read_evidence
    from reports.drift.files import Refused
    from reports.drift.history import add_night, prune

    if given.keep < 1:
        raise Refused("--keep takes one night at least")
    found = read_evidence(given.add)
    for path, said in add_night(given.store, found, _drift(given.drift)):
        say(f"{path.name}: {said}" if said else path.name)
    if found.lost:
        say(f"an unfinished run: {len(found.lost)} of its statements have no record")
    stale = prune(given.store, given.keep)
    if stale:
        say(f"{stale} older files removed")
    return OK


def _drift(path: Path | None) -> Mapping[str, Any] | None:
    from reports.drift.files import Refused
    from reports.merge.strict import DOCUMENT_BYTES, Damaged, read_json

    if path is None:
        return None
    try:
        found = read_json(path, DOCUMENT_BYTES)
    except Damaged as fault:
        raise Refused(f"{path.name}: {fault}") from None
    if not isinstance(found, dict) or not isinstance(found.get("rows"), dict):
        raise Refused(f"{path.name}: no drift document")
    return found


def _print(given: argparse.Namespace) -> int:
    from reports.drift.series import lines_of, series_of

    if not given.store.is_dir():
        raise ValueError(f"{given.store}: no such folder")
    series, damaged = series_of(given.store, given.claim)
    for line in lines_of(series, given.figure):
        say(line)
    if damaged:
        say(f"{damaged} damaged files left out")
    if not series:
        say(f"no night has {given.claim!r}")
    return FINDINGS if damaged or not series else OK
