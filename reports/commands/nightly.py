"""`python -m reports nightly`: what `.ci/nightly` asks at the end of a night: `join`, `issue`, `verdict`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reports.commands import FINDINGS, OK, Commands, refuse, say


def register(commands: Commands[Any]) -> None:
    """Add the command and its three parts."""
    parser = commands.add_parser("nightly", help="the end of a night: one drift document, the drift issue, the verdict")
    parts = parser.add_subparsers(dest="part", required=True)
    for name, run_part, described in (
        ("join", _join, "one drift document of the legs'"),
        ("issue", _issue, "what to do with the drift issue, and its text"),
        ("verdict", _verdict, "the summary; exit code 1 unless the night is green"),
    ):
        part = parts.add_parser(name, help=described)
        part.add_argument("--night", type=Path, required=True, metavar="DIR", help="folder with legs/<name>/")
        part.add_argument("--leg", action="append", default=[], metavar="NAME", help="a leg that was asked for")
        part.add_argument("--run-url", default="", metavar="URL")
        part.set_defaults(run=run, run_part=run_part)
        if name == "issue":
            part.add_argument("--issues", type=Path, metavar="FILE", help="GitHub's list of open issues")
            part.add_argument("--author", metavar="LOGIN", help="whose issue it is (default: GitHub Actions')")
        if name != "join":
            part.add_argument("--restricted", action="store_true", help="only some statements were asked for")
        if name == "verdict":
            part.add_argument("--step", action="append", default=[], metavar="NAME=CODE", help="exit code of a step")


def run(given: argparse.Namespace) -> int:
    """Do one part of the end of a night."""
    try:
        return int(given.run_part(given))
    except (OSError, ValueError) as failed:
        return refuse(failed)


def _join(given: argparse.Namespace) -> int:
    from reports.evidence import write_json
    from reports.names import inside
    from reports.night.documents import as_document, join, read_drift

    legs = given.night / "legs"
    reading = join(read_drift(inside(legs, name) / "drift.json", f"leg {name}") for name in given.leg)
    write_json(given.night / "drift.json", as_document(reading, "the legs'", "the legs'"))
    say(", ".join(f"{n} {status}" for status, n in reading.counts().items()) or "nothing was compared")
    for problem in reading.problems:
        say(problem)
    return FINDINGS if reading.problems else OK


def _issue(given: argparse.Namespace) -> int:
    from reports.evidence import write_json
    from reports.night.documents import load_json, read_joined
    from reports.night.issue import Tonight, decide
    from reports.night.issue_state import BOT, find_issue

    existing = find_issue(load_json(given.issues), given.author or BOT) if given.issues else None
    tonight = Tonight(datetime.now(UTC).isoformat(timespec="seconds"), given.run_url)
    action = decide(read_joined(given.night / "drift.json"), existing, tonight, whole=not given.restricted)
    folder = given.night / "issue"
    write_json(folder / "action.json", action)
    for key in ("action", "number", "title", "body", "comment"):  # for a shell, which reads no JSON
        (folder / f"{key}.txt").write_text("" if action[key] is None else str(action[key]), encoding="utf-8")
    say(f"drift issue: {action['action']}")
    return OK


def _verdict(given: argparse.Namespace) -> int:
    from reports.night.documents import read_joined
    from reports.night.legs import read_leg
    from reports.night.verdict import Night, faults_of, stays_open, summary

    legs = tuple(read_leg(given.night / "legs", name) for name in given.leg)
    faults = faults_of(given.night / "merged", given.restricted)
    stays = stays_open(given.night / "issue" / "action.json")
    night = Night(legs, read_joined(given.night / "drift.json"), faults, _steps(given.step), stays)
    say(f"night: {night.headline}")  # before the file, for which the disk may be too full
    (given.night / "summary.md").write_text(summary(night, given.run_url), encoding="utf-8")
    return FINDINGS if night.red or night.amber else OK


def _steps(given: list[str]) -> dict[str, int]:
    """Exit codes by name; raises ValueError for what is none."""
    pairs = [entry.partition("=") for entry in given]
    return {name: int(code) for name, _, code in pairs}
