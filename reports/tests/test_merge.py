"""`python -m reports merge`: shards, models and machines in one matrix; what is lost or contradicts itself is red."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.render.reading import claim as read_claim
from reports.tests.merge_samples import (
    GPU,
    IDS,
    MACHINE,
    SUBJECT,
    details,
    ledger,
    measured,
    merge,
    merged,
    problems,
    record,
    shard,
)  # fmt: skip
from reports.tests.samples import MODEL, aspect

ONE, TWO, THREE = IDS
LATER = {"started": "2026-11-30T04:00:00+00:00"}
SMALL = MODEL | {"slug": "smollm2-135m", "digest": "b179"}


def estimate(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


def cell(tmp_path: Path, name: str = ONE, subject: str = SUBJECT) -> dict[str, Any]:
    return dict(merged(tmp_path)["claims"][name][subject])


def two(tmp_path: Path, first: dict[str, Any], second: dict[str, Any], **facts: Any) -> int:
    """Two whole runs that differ in one record of toys.one."""
    rest = [record(TWO), record(THREE)]
    a = shard(tmp_path / "a", [first, *rest])
    b = shard(tmp_path / "b", [second, *rest], **LATER | facts)
    return merge(tmp_path, a, b)


def test_shards_of_one_run_make_one_whole_column(tmp_path: Path) -> None:
    a, b = shard(tmp_path / "a", [record(ONE), record(TWO)]), shard(tmp_path / "b", [record(THREE)], **LATER)
    assert merge(tmp_path, a, b) == 0
    document = merged(tmp_path)
    assert document["problems"] == []
    assert list(document["subjects"]) == [SUBJECT]
    assert [list(document["claims"][name]) for name in IDS] == [[SUBJECT]] * 3
    for name in IDS:
        linked = tmp_path / "M" / "records" / SUBJECT / f"{name}.json"
        assert json.loads(linked.read_text(encoding="utf-8")) == document["claims"][name][SUBJECT]
    assert [run["records"] for run in document["subjects"][SUBJECT]["runs"]] == [2, 1]


def test_models_formats_and_machines_are_columns_of_their_own(tmp_path: Path) -> None:
    half = MODEL | {"dtype": "float16"}
    columns = {
        SUBJECT: (MODEL, MACHINE),
        "qwen2.5-coder-0.5b-instruct-float16@x86-64-toy-2c": (half, MACHINE),
        "smollm2-135m@x86-64-toy-2c": (SMALL, MACHINE),
        "smollm2-135m@x86-64-toy-2c-nvidia-toy": (SMALL, GPU),
        "no-model@x86-64-toy-2c": (None, MACHINE),
    }
    folders = []
    for place, (model, machine) in enumerate(columns.values()):
        rows = [record(name, model=model, machine=machine["class"]) for name in IDS]
        folders.append(shard(tmp_path / str(place), rows, model=model, machine=machine))
    assert merge(tmp_path, *folders) == 0
    assert set(merged(tmp_path)["subjects"]) == set(columns)
    assert all(set(row) == set(columns) for row in merged(tmp_path)["claims"].values())


def test_one_run_on_two_machines_is_two_columns_and_no_gap(tmp_path: Path) -> None:
    """A record names the machine of the worker that measured it; the controller's may be another."""
    rows = [record(ONE), record(TWO, machine=GPU["class"]), record(THREE, machine=GPU["class"])]
    workers = {"gw0": {"machine": MACHINE}, "gw1": {"machine": GPU, "torch": "2.13.0"}}
    assert merge(tmp_path, shard(tmp_path / "a", rows, workers=workers)) == 0
    gpu_column = SUBJECT.partition("@")[0] + "@" + GPU["class"]
    assert {name: list(row) for name, row in merged(tmp_path)["claims"].items()} == {
        ONE: [SUBJECT], TWO: [gpu_column], THREE: [gpu_column],
    }  # fmt: skip
    assert merged(tmp_path)["subjects"][gpu_column]["machine"] == GPU


def test_the_same_record_from_two_runs_is_a_note(tmp_path: Path) -> None:
    assert two(tmp_path, record(ONE, seconds=1.0), record(ONE, seconds=2.0)) == 0
    assert problems(tmp_path) == [("duplicate", name) for name in sorted(IDS)]
    assert "2 runs, equal" in details(tmp_path, "duplicate")
    assert cell(tmp_path)["verdict"] == "HOLDS"


def test_the_same_shard_twice_counts_once(tmp_path: Path) -> None:
    a = shard(tmp_path / "a", [record(name) for name in IDS])
    assert merge(tmp_path, a, a) == 0
    assert problems(tmp_path) == []


@pytest.mark.parametrize("outcome", ["not-measured", "pending"])
def test_a_verdict_wins_over_not_measured_whatever_the_order(outcome: str, tmp_path: Path) -> None:
    skipped = record(ONE, "NOT_MEASURED", outcome=outcome, on_record="HOLDS", aspects={}, reason="needs a GPU")
    for first, second in ((skipped, record(ONE)), (record(ONE), skipped)):
        assert two(tmp_path, first, second) == 0
        assert cell(tmp_path)["verdict"] == "HOLDS"
        assert ("duplicate", ONE) in problems(tmp_path)


@pytest.mark.parametrize(
    "other",
    [
        record(ONE, "REFUTED", outcome="changed", on_record="HOLDS"),
        record(ONE, **measured(12289)),
        record(ONE, **measured(12288.0001)),
        record(ONE, aspects={"bytes": aspect(), "more": aspect(measured=1)}),
        record(ONE, None, outcome="error", error="call: boom", on_record="HOLDS", aspects={}),
        record(ONE, "UNRESOLVED", outcome="unresolved", on_record="HOLDS"),
        record(ONE, warrant="sampled"),
    ],
    ids=["verdict", "count", "fraction", "figure", "error", "unresolved", "warrant"],
)
def test_two_runs_that_disagree_are_a_conflict_and_an_error_row(other: dict[str, Any], tmp_path: Path) -> None:
    for first, second in ((record(ONE), other), (other, record(ONE))):
        assert two(tmp_path, first, second) == 1
        row = cell(tmp_path)
        assert ("conflict", ONE) in problems(tmp_path)
        assert (row["verdict"], row["outcome"]) == (None, "error")
        assert [side["verdict"] for side in row["conflict"]] == [first["verdict"], second["verdict"]]
        assert read_claim(ONE, row).tone == "bad"


def test_a_conflict_shows_both_figures(tmp_path: Path) -> None:
    two(tmp_path, record(ONE), record(ONE, **measured(12289)))
    assert details(tmp_path, "conflict") == "bytes is 12288 and 12289"


@pytest.mark.parametrize(("threads", "rc"), [(2, 1), (1, 0)])
def test_last_bits_may_differ_between_thread_counts_only(threads: int, rc: int, tmp_path: Path) -> None:
    """A sum of fp32 products in another order is another sum, in its last bits; with equal threads it is not."""
    assert two(tmp_path, record(ONE, **measured(1.0)), record(ONE, **measured(1.000001, threads=threads))) == rc


@pytest.mark.parametrize("warrant", ["timed", "sampled"])
@pytest.mark.parametrize(("second", "rc"), [(estimate(1.2, 1.05, 1.4), 0), (estimate(1.6, 1.3, 1.9), 1)])
def test_estimates_may_differ_inside_their_intervals(warrant: str, second: Any, rc: int, tmp_path: Path) -> None:
    first = measured(estimate(1.0, 0.8, 1.1), warrant=warrant)
    assert two(tmp_path, record(ONE, **first), record(ONE, **measured(second, warrant=warrant))) == rc
    if rc == 0:
        assert cell(tmp_path)["aspects"]["bytes"]["measured"] == second
        assert "the later stands (2026-11-30T04" in details(tmp_path, "duplicate")


def test_one_case_outside_its_interval_is_named(tmp_path: Path) -> None:
    cases = {"16": estimate(1.0, 0.8, 1.1), "64": estimate(1.0, 0.9, 1.1)}
    other = cases | {"64": estimate(2.0, 1.9, 2.1)}
    rows = [record(ONE, **measured(found, warrant="timed")) for found in (cases, other)]
    assert two(tmp_path, *rows) == 1
    assert details(tmp_path, "conflict") == "bytes at 64 is 1 [0.9, 1.1] and 2 [1.9, 2.1]"


def test_an_undecided_timing_does_not_contradict_a_decided_one(tmp_path: Path) -> None:
    wide = aspect("UNRESOLVED", measured=estimate(1.0, 0.2, 3.0))
    open_ = record(ONE, "UNRESOLVED", outcome="unresolved", on_record="HOLDS", warrant="timed", aspects={"bytes": wide})
    assert two(tmp_path, open_, record(ONE, **measured(estimate(1.1, 1.0, 1.2), warrant="timed"))) == 0
    assert cell(tmp_path)["verdict"] == "HOLDS"
    assert "UNRESOLVED and HOLDS" in details(tmp_path, "duplicate")


def test_context_may_differ(tmp_path: Path) -> None:
    rows = [record(ONE, aspects={"bytes": aspect(), "pid": aspect(None, measured=pid)}) for pid in (1, 2)]
    assert two(tmp_path, *rows) == 0


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"commit": "ffff"}, "commit 0123456789ab / ffff"),
        ({"dirty": True}, "uncommitted changes in 1 of 2 runs"),
        ({"torch": "2.14.0"}, "torch 2.13.0 / 2.14.0"),
        ({"python": "3.12.1"}, "python 3.11.7 / 3.12.1"),
        ({"workers": {"gw0": {"commit": "ffff", "machine": MACHINE}}}, "commit 0123456789ab / ffff"),
    ],
)
def test_parts_of_different_code_are_called_mixed(facts: dict[str, Any], word: str, tmp_path: Path) -> None:
    a, b = shard(tmp_path / "a", [record(ONE)]), shard(tmp_path / "b", [record(TWO), record(THREE)], **facts)
    assert merge(tmp_path, a, b) == 1
    assert details(tmp_path, "mixed") == f"mixed code: {word}"


@pytest.mark.parametrize(
    "other", [{"source": "fff"}, {"model": MODEL | {"digest": "fff"}}, {"model": MODEL | {"device": "cuda"}}]
)
def test_another_source_weights_or_device_are_mixed(other: dict[str, Any], tmp_path: Path) -> None:
    a, b = shard(tmp_path / "a", [record(ONE)]), shard(tmp_path / "b", [record(TWO, **other), record(THREE)])
    assert merge(tmp_path, a, b) == 1
    assert [kind for kind, _ in problems(tmp_path)] == ["mixed"]


def test_another_machines_run_may_be_of_another_commit(tmp_path: Path) -> None:
    rows = [record(name, machine=GPU["class"]) for name in IDS]
    a = shard(tmp_path / "a", [record(name) for name in IDS])
    assert merge(tmp_path, a, shard(tmp_path / "b", rows, machine=GPU, commit="ffff")) == 0


def test_another_text_or_another_printed_figure_is_a_problem(tmp_path: Path) -> None:
    printed = {"value": "12,289", "unit": "byte", "interval": [12288.5, 12289.5], "origin": "printed", "why": ""}
    rows = [record(ONE, says="something else"), record(TWO, aspects={"bytes": aspect(published=printed)})]
    a = shard(tmp_path / "a", [record(name) for name in IDS])
    b = shard(tmp_path / "b", [dict(r, machine=GPU["class"]) for r in rows], machine=GPU)
    assert merge(tmp_path, a, b) == 1
    assert problems(tmp_path) == [("ledger", ONE), ("ledger", TWO)]
    assert "the statement" in details(tmp_path, "ledger") and "bytes" in details(tmp_path, "ledger")


@pytest.mark.parametrize("finished", [True, False])
def test_a_collected_claim_without_a_record_is_a_gap_and_a_red_cell(finished: bool, tmp_path: Path) -> None:
    a = shard(tmp_path / "a", [record(ONE), record(TWO)], finished=finished, collected=list(IDS))
    assert merge(tmp_path, a) == 1
    assert ("gap", THREE) in problems(tmp_path)
    assert (("unfinished", "") in problems(tmp_path)) is not finished
    assert read_claim(THREE, cell(tmp_path, THREE)).tone == "bad"


def test_another_shard_fills_a_gap(tmp_path: Path) -> None:
    a = shard(tmp_path / "a", [record(ONE), record(TWO)], finished=False, collected=list(IDS))
    assert merge(tmp_path, a, shard(tmp_path / "b", [record(THREE)], **LATER)) == 0
    assert merge(tmp_path, a, shard(tmp_path / "c", [record(THREE, machine="other")], **LATER)) == 1


def test_a_run_killed_before_its_first_record_loses_everything_in_sight(tmp_path: Path) -> None:
    a = shard(tmp_path / "a", [], finished=False, collected=list(IDS))
    assert merge(tmp_path, a) == 1
    assert [found for found in problems(tmp_path) if found[0] == "gap"] == [("gap", name) for name in sorted(IDS)]
    assert merge(tmp_path, a, shard(tmp_path / "b", [record(name) for name in IDS], **LATER)) == 0


def test_what_nobody_collected_is_one_line(tmp_path: Path) -> None:
    assert merge(tmp_path, shard(tmp_path / "a", [record(TWO)])) == 1
    assert details(tmp_path, "gap") == "2 statements of the ledger collected nowhere: toys: one, three"


def test_a_statement_without_a_test_is_no_gap(tmp_path: Path) -> None:
    claims = ledger(tmp_path / "claims", pending=("three",))
    assert merge(tmp_path, shard(tmp_path / "a", [record(ONE), record(TWO)]), claims=claims) == 0


def test_a_claim_that_no_ledger_has_is_a_row(tmp_path: Path) -> None:
    assert merge(tmp_path, shard(tmp_path / "a", [*map(record, IDS), record("toys.four")])) == 1
    assert problems(tmp_path) == [("unknown", "toys.four")]


@pytest.mark.parametrize("kind", ["missing", "bare", "file"])
def test_an_empty_shard_is_a_row_beside_the_others(kind: str, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    if kind == "bare":
        lost.mkdir()
    elif kind == "file":
        lost.write_text("")
    assert merge(tmp_path, lost, shard(tmp_path / "a", [record(name) for name in IDS])) == 1
    assert problems(tmp_path) == [("empty", "")]
    assert cell(tmp_path)["verdict"] == "HOLDS"


def test_old_evidence_is_taken_with_a_note(tmp_path: Path) -> None:
    rows = [{k: v for k, v in record(name).items() if k != "machine"} for name in IDS]
    assert merge(tmp_path, shard(tmp_path / "a", rows, old=True)) == 0
    assert problems(tmp_path) == [("old", "")]
    assert list(merged(tmp_path)["subjects"]) == ["qwen2.5-coder-0.5b-instruct@unknown"]


def test_problems_are_on_the_screen_before_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two(tmp_path, record(ONE), record(ONE, **measured(12289)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"conflict: {ONE} on {SUBJECT}: bytes is 12288 and 12289"
    assert lines[1].startswith("duplicate: ")
    assert lines[-1] == "2 runs, 1 subjects, 3 statements: 1 red; 1 problems, 2 notes"


@pytest.mark.parametrize("verdict", [None, "REFUTED"])
def test_a_red_row_is_a_finding_without_any_problem(verdict: str | None, tmp_path: Path) -> None:
    broken = {"outcome": "error" if verdict is None else "changed", "on_record": "HOLDS"}
    row = record(ONE, verdict, **broken, **({"aspects": {}, "error": "call: boom"} if verdict is None else {}))
    assert merge(tmp_path, shard(tmp_path / "a", [row, record(TWO), record(THREE)])) == 1
    assert problems(tmp_path) == []
