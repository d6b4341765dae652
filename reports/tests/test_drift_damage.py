"""`compare` on what is missing, damaged or not to be trusted: a row or one line each, and never green."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.tests.drift_samples import (
    EXACT,
    MACHINE,
    SAMPLED,
    SUBJECT,
    TIMED,
    accept,
    accepted,
    claims,
    compare,
    evidence,
    exact,
    night,
    repeats,
    sampled,
    statuses,
)  # fmt: skip


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return accepted(tmp_path_factory.mktemp("accepted"))


def test_missing_and_unknown_statements_are_rows(tmp_path: Path, baseline: Path) -> None:
    rows = claims(**{"weights.new": exact()})
    del rows[EXACT]
    code, document = compare(evidence(tmp_path / "n", rows), baseline)
    assert code == 1
    assert statuses(document) == {EXACT: "missing", SAMPLED: "steady", TIMED: "steady", "weights.new": "unknown"}
    assert compare(tmp_path / "n", baseline, "--part")[1]["counts"] == {"steady": 2, "unknown": 1}


def test_a_lost_figure_or_case_is_a_flag(tmp_path: Path, baseline: Path) -> None:
    row = sampled()
    del row["aspects"]["largest"]
    assert night(tmp_path, baseline, **{SAMPLED: row})[1][SAMPLED] == "missing"


def test_an_error_is_damage(tmp_path: Path, baseline: Path) -> None:
    row = exact(verdict=None, outcome="error", error="call: boom", aspects={})
    assert night(tmp_path, baseline, **{EXACT: row})[1][EXACT] == "damaged"


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", '"nan"', "null", "[]", '{"value": 1, "low": 2, "high": 3}']
)
def test_what_is_no_number_is_never_green(tmp_path: Path, baseline: Path, number: str) -> None:
    folder = evidence(tmp_path / "n", claims())
    path = folder / "summary.json"
    text = path.read_text(encoding="utf-8")
    assert text.count('"measured": 12288') == 1
    path.write_text(text.replace('"measured": 12288', f'"measured": {number}'), encoding="utf-8")
    code, document = compare(folder, baseline)
    assert code == 1
    assert {"damaged", "drifted", "missing"} & set(statuses(document).values())


@pytest.mark.parametrize("keep", [0, 1, 17, 400, -2])
def test_a_truncated_summary_is_a_row_or_one_line(
    tmp_path: Path, baseline: Path, keep: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = evidence(tmp_path / "n", claims())
    path = folder / "summary.json"
    path.write_bytes(path.read_bytes()[:keep])
    code, document = compare(folder, baseline)
    assert code in {1, 2}
    assert "damaged" in statuses(document).values() if document else capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "wrong", [[], "x", 3, None, {"bytes": 3}, {"bytes": {"verdict": "HOLDS", "measured": {"a": {"b": [{}]}}}}]
)
def test_records_of_wrong_types_are_rows(tmp_path: Path, baseline: Path, wrong: Any) -> None:
    code, found, _ = night(tmp_path, baseline, **{EXACT: exact(aspects=wrong)})
    assert code == 1
    assert found[EXACT] in {"damaged", "missing", "drifted"}


def test_one_id_twice_is_damage(tmp_path: Path, baseline: Path) -> None:
    folder = evidence(tmp_path / "n", claims())
    for name in (EXACT, "other.name"):
        path = folder / "records" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(claims()[EXACT]), encoding="utf-8")
    code, document = compare(folder, baseline)
    assert code == 1
    assert "damaged" in statuses(document).values()


def test_a_killed_run_is_compared_as_far_as_it_came(tmp_path: Path, baseline: Path) -> None:
    folder = tmp_path / "killed"
    (folder / "records").mkdir(parents=True)
    rows = claims()
    run = {"started": "2025-12-01T00:00:00+00:00", "machine": {"class": MACHINE}, "torch": "2.13.0", "commit": "c"}
    (folder / "collected.json").write_text(json.dumps({"schema": 1, "run": run, "collected": sorted(rows)}))
    for key in (EXACT, SAMPLED):
        (folder / "records" / f"{key}.json").write_text(json.dumps(rows[key]))
    code, document = compare(folder, baseline)
    assert (code, statuses(document)) == (1, {EXACT: "steady", SAMPLED: "steady", TIMED: "missing"})


def test_a_merged_folder_is_compared_by_subject(tmp_path: Path, baseline: Path) -> None:
    from reports.__main__ import main

    one = evidence(tmp_path / "a", {EXACT: claims()[EXACT]})
    two = evidence(tmp_path / "b", {SAMPLED: claims()[SAMPLED], TIMED: claims()[TIMED]})
    (tmp_path / "ledger").mkdir()
    shutil.copy(Path("claims/memory_budget.toml"), tmp_path / "ledger")
    main(["merge", str(one), str(two), "--out", str(tmp_path / "m"), "--claims", str(tmp_path / "ledger")])
    code, document = compare(tmp_path / "m", baseline)
    assert (code, statuses(document)) == (0, {EXACT: "steady", SAMPLED: "steady", TIMED: "steady"})


def test_without_a_baseline_nothing_is_green(tmp_path: Path) -> None:
    code, document = compare(evidence(tmp_path / "n", claims()), tmp_path / "none")
    assert code == 1
    assert set(statuses(document).values()) == {"unknown"}
    assert document["compared"] is False


@pytest.mark.parametrize(
    "content",
    [
        '{"schema": 2}',
        "[]",
        "{",
        '{"schema": 1}',
        '{"schema": 1, "subject": "other@x", "runs": [], "speed": {}, "claims": {}}',
    ],
)
def test_a_baseline_that_cannot_be_read_is_one_line(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "baseline"
    folder.mkdir()
    (folder / f"{SUBJECT}.json").write_text(content, encoding="utf-8")
    code, _ = compare(evidence(tmp_path / "n", claims()), folder)
    said = capsys.readouterr().err
    assert code == 2
    assert said.count("\n") == 1
    assert SUBJECT in said


def test_a_folder_without_evidence_is_one_line(
    tmp_path: Path, baseline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert compare(tmp_path / "empty", baseline)[0] == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("claims", TIMED, "verdicts"), "REFUTED"),
        (("claims", TIMED, "figures", "slowdown", "verdicts"), ["FINE"]),
        (("claims", TIMED, "figures", "slowdown", "leaves", "", "repeats"), []),
        (("speed", "read_gb_per_s"), [0, 0]),
    ],
)
def test_a_baseline_written_by_hand_is_refused_in_one_line(
    path: tuple[str, ...], value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "baseline"
    assert accept(repeats(tmp_path / "runs", 5), folder) == 0
    (file,) = folder.glob("*.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    spot = document
    for key in path[:-1]:
        spot = spot[key]
    assert path[-1] in spot
    spot[path[-1]] = value
    file.write_text(json.dumps(document), encoding="utf-8")
    capsys.readouterr()
    assert main(["compare", "--evidence", str(tmp_path / "runs" / "0"), "--baseline", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_evidence_from_before_the_baseline_says_nothing_of_tonight(tmp_path: Path) -> None:
    folders = repeats(tmp_path / "runs", 5)
    assert accept(folders[1:], tmp_path / "baseline") == 0
    code, document = compare(folders[0], tmp_path / "baseline")
    assert code == 1 and set(statuses(document).values()) == {"incomparable"}


def test_another_machine_that_ran_a_part_misses_the_rest(tmp_path: Path) -> None:
    assert accept(repeats(tmp_path / "runs", 5), tmp_path / "baseline") == 0
    rows = {EXACT: claims()[EXACT]}
    code, document = compare(evidence(tmp_path / "n", rows, day=20, machine="other-8c"), tmp_path / "baseline")
    assert code == 1 and statuses(document)[TIMED] == "missing"
