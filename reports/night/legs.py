"""A leg is one model's run of a night: what it left says whether it ended, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from reports.names import inside
from reports.night.documents import load_json

# pytest's exit codes, in words; 124 and 137 are `timeout`'s, 130 an interrupt's.
_TESTS = {
    1: "a verdict or a figure has changed, or a test has failed",
    2: "interrupted",
    3: "pytest itself failed",
    4: "pytest was used wrongly, or the model is not there",
    5: "nothing was measured",
    124: "stopped at its time limit",
    130: "interrupted",
    137: "killed",
}
# What a leg may run besides: what pytest's exit codes mean there, where it is something else.
_LATER: dict[str, dict[int, str]] = {
    "benchmarks": {},
    "controls": {1: "a planted fault was not noticed, or a claim was red without one"},
}
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True)
class Leg:
    """Exit codes of a leg's steps, None for one that never ended; `problem` in words where the leg is red."""

    name: str
    tests: int | None = None
    compare: int | None = None
    benchmarks: int | None = None
    controls: int | None = None
    seconds: int | None = None
    problem: str = ""


def read_leg(folder: Path, name: str) -> Leg:
    """What the leg left in `folder/<name>`; one that left nothing, or something unreadable, has a problem."""
    if not _NAME.fullmatch(name):
        return Leg("?", problem="not the name of a leg")
    if not (folder / name).is_dir():
        return Leg(name, problem="left nothing: it never started, or its artifact was lost")
    try:
        raw = load_json(inside(folder, name) / "leg.json")
    except ValueError as failed:
        return Leg(name, problem=f"leg.json: {failed}")
    if not isinstance(raw, dict):
        return Leg(name, problem="leg.json is not an object")
    codes = {step: _code(raw.get(step)) for step in ("tests", "compare", *_LATER)}
    return Leg(name, **codes, seconds=_code(raw.get("seconds")), problem=_problem(**codes))


def _problem(tests: int | None, compare: int | None, **later: int | None) -> str:
    """What is wrong with a leg by its exit codes. A comparison that ends with 1 has findings, which are rows."""
    if tests is None:
        return "started and never ended: killed"
    if tests:
        return _TESTS.get(tests, f"pytest ended with {tests}")
    if compare is None:
        return "was not compared with its baseline"
    if compare > 1:
        return f"could not be compared with its baseline (exit code {compare})"
    failed = [
        f"{step}: {_LATER[step].get(code) or _TESTS.get(code, f'exit code {code}')}"
        for step, code in later.items()
        if code
    ]
    return "; ".join(failed)


def _code(raw: object) -> int | None:
    return raw if isinstance(raw, int) and not isinstance(raw, bool) else None
