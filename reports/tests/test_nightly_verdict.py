"""When a night is green, and the row that says why it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.night.documents import Reading
from reports.night.legs import Leg, read_leg
from reports.night.verdict import Night, faults_of, summary
from reports.tests.test_nightly_documents import drift, stored
from reports.tests.test_nightly_issue import HOSTILE, night, row

FINE = {"schema": 1, "leg": "shape", "tests": 0, "compare": 0, "benchmarks": None, "seconds": 7}


def verdict(reading: Reading, **changes: Any) -> Night:
    given: dict[str, Any] = {"legs": (Leg("shape", 0, 0),), "faults": (), "steps": {"merge": 0, "page": 0}} | changes
    return Night(reading=reading, **given)


def test_a_night_on_which_nothing_moved_is_green_and_says_what_has_no_verdict() -> None:
    found = verdict(night(row("a.b", "steady"), row("a.c", "annotated"), row("a.d", "unmeasured")))
    assert (found.red, found.amber) == ([], [])
    assert found.headline == "nothing moved; 1 without a verdict tonight"


@pytest.mark.parametrize("status", ["drifted", "missing", "damaged"])
def test_a_flag_is_red(status: str) -> None:
    assert verdict(night(row("a.b", "steady"), row("a.c", status))).headline == f"red: 1 flags: {status}"


@pytest.mark.parametrize("status", ["incomparable", "unknown", "suspected"])
def test_what_was_not_compared_is_not_green_and_not_red(status: str) -> None:
    found = verdict(night(row("a.b", "steady"), row("a.c", status)))
    assert found.red == []
    assert found.headline == f"not green: 1 {status}"


@pytest.mark.parametrize("rows", [[], [row("a.b", "unmeasured")]])
def test_a_night_that_compared_nothing_is_not_green(rows: list[Any]) -> None:
    assert verdict(night(*rows)).amber == ["nothing was compared"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"legs": (Leg("shape", problem="killed"),)}, "leg shape: killed"),
        ({"legs": ()}, "no leg was asked for"),
        ({"faults": ({"kind": "gap"},)}, "1 faults of the evidence"),
        ({"steps": {"history": 1}}, "step history: exit code 1"),
        ({"steps": {"merge": 2}}, "step merge: exit code 2"),
    ],
)
def test_each_trouble_of_a_night_is_red_and_named(changes: dict[str, Any], why: str) -> None:
    assert why in verdict(night(row("a.b", "steady")), **changes).red
    assert verdict(night(row("a.b", "steady")), steps={"merge": 1, "page": 1}).red == [], "their findings are rows"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"compare": 1}, ""),  # findings are rows
        ({"tests": None}, "started and never ended"),
        ({"tests": 1}, "has changed"),
        ({"tests": 5}, "nothing was measured"),
        ({"tests": 124}, "time limit"),
        ({"tests": 137}, "killed"),
        ({"tests": 77}, "77"),
        ({"tests": True}, "never ended"),
        ({"compare": None}, "was not compared"),
        ({"compare": 2}, "could not be compared"),
        ({"benchmarks": 5}, "nothing was measured"),
        ({"controls": 0}, ""),
        ({"controls": 1}, "a planted fault was not noticed"),
        ({"controls": 124, "benchmarks": 5}, "controls: stopped at its time limit"),
    ],
)
def test_a_leg_says_how_it_ended(changes: dict[str, Any], why: str, tmp_path: Path) -> None:
    stored(tmp_path / "shape", FINE | changes, "leg.json")
    problem = read_leg(tmp_path, "shape").problem
    assert why in problem
    assert bool(problem) == bool(why)


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"tests": 0'])
def test_a_leg_that_left_nothing_sound_is_red(content: str | None, tmp_path: Path) -> None:
    (tmp_path / "shape").mkdir()
    if content is not None:
        (tmp_path / "shape" / "leg.json").write_text(content, encoding="utf-8")
    assert read_leg(tmp_path, "shape").problem
    assert "never started" in read_leg(tmp_path, "sibling").problem
    assert read_leg(tmp_path, "../shape").problem


def test_notes_of_the_merge_are_no_faults_and_a_restricted_night_may_leave_out_the_rest(tmp_path: Path) -> None:
    whole = {"kind": "gap", "id": "", "subject": "", "detail": "90 statements collected nowhere", "harmless": False}
    lost = {"kind": "gap", "id": "a.b", "subject": "m@x", "detail": "no record", "harmless": False}
    note = {"kind": "duplicate", "id": "a.c", "subject": "m@x", "detail": "twice", "harmless": True}
    stored(tmp_path, {"problems": [whole, lost, note]}, "merged.json")
    assert [fault["id"] for fault in faults_of(tmp_path)] == ["", "a.b"]
    assert [fault["id"] for fault in faults_of(tmp_path, restricted=True)] == ["a.b"]


@pytest.mark.parametrize("content", [None, "{", "[]", '{"problems": 3}', '{"problems": [3]}'])
def test_a_merge_that_cannot_be_read_is_a_fault(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "merged.json").write_text(content, encoding="utf-8")
    assert len(faults_of(tmp_path)) == 1


def test_the_summary_quotes_whatever_a_record_says() -> None:
    found = verdict(
        night(row(HOSTILE, "drifted", HOSTILE, **{HOSTILE: (HOSTILE, HOSTILE)}), problems=(HOSTILE,)),
        legs=(Leg("shape", problem=HOSTILE),),
        faults=({"kind": HOSTILE, "detail": HOSTILE},),
    )
    lines = summary(found, HOSTILE).splitlines()
    assert not [line for line in lines if "somebody" in line.replace("`", "\0") and line.count("`") % 2]
    outside = ["".join(line.split("`")[::2]) for line in lines]
    assert not [line for line in outside if "somebody" in line or "<img" in line]


def conclude(tmp_path: Path, document: object, **leg: Any) -> int:
    stored(tmp_path / "legs" / "shape", FINE | leg, "leg.json")
    if document is not None:
        stored(tmp_path / "legs" / "shape", document)
    stored(tmp_path / "merged", {"problems": []}, "merged.json")
    asked = ["--night", str(tmp_path), "--leg", "shape"]
    main(["nightly", "join", *asked])
    main(["nightly", "issue", *asked])
    return main(["nightly", "verdict", *asked, "--step", "merge=0"])


def test_the_command_ends_green_with_one_and_with_the_action_for_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conclude(tmp_path / "a", drift(x="steady")) == 0
    assert conclude(tmp_path / "b", drift(x="drifted")) == 1
    assert (tmp_path / "b" / "issue" / "action.txt").read_text(encoding="utf-8") == "open"
    assert (tmp_path / "b" / "issue" / "number.txt").read_text(encoding="utf-8") == ""
    assert json.loads((tmp_path / "b" / "issue" / "action.json").read_text(encoding="utf-8"))["action"] == "open"
    assert conclude(tmp_path / "c", drift(x="incomparable")) == 1
    assert (tmp_path / "c" / "issue" / "action.txt").read_text(encoding="utf-8") == "none"
    assert conclude(tmp_path / "d", None) == 1
    assert "no readable drift document" in (tmp_path / "d" / "summary.md").read_text(encoding="utf-8")
    assert conclude(tmp_path / "e", drift(x="steady"), tests=None) == 1
    assert "killed" in (tmp_path / "e" / "summary.md").read_text(encoding="utf-8")
    assert capsys.readouterr().err == ""


def test_a_list_of_issues_that_cannot_be_read_is_no_reason_to_open_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(tmp_path, drift(x="drifted"))
    capsys.readouterr()
    (tmp_path / "issues.json").write_text("rate limited", encoding="utf-8")
    given = ["nightly", "issue", "--night", str(tmp_path), "--issues", str(tmp_path / "issues.json")]
    assert main(given) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_step_without_a_code_is_wrong_use(tmp_path: Path) -> None:
    assert main(["nightly", "verdict", "--night", str(tmp_path), "--step", "merge"]) == 2
