"""`accept`: the only writer of a baseline, and a picky one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.drift.accept import _changes
from reports.drift.accept import accept as build
from reports.drift.baseline import read_baselines
from reports.drift.compare import Comparer
from reports.drift.evidence import evidence_of
from reports.drift.files import compact, pretty
from reports.drift.rows import Status
from reports.merge.parts import Part, part_of
from reports.tests.drift_samples import (
    EXACT,
    MACHINE,
    SUBJECT,
    accept,
    claims,
    compare,
    evidence,
    exact,
    repeats,
    sampled,
    timed,
)
from reports.tests.samples import MODEL, RUN, aspect, entry


def file_of(baseline: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((baseline / f"{SUBJECT}.json").read_text(encoding="utf-8"))
    return found


def test_repeats_are_kept_where_runs_differ_and_once_where_they_do_not(tmp_path: Path) -> None:
    accept(repeats(tmp_path / "r", 6), tmp_path / "b")
    rows = file_of(tmp_path / "b")["claims"]
    assert rows[EXACT]["figures"]["bytes"]["leaves"] == {"": 12288}
    assert len(rows["two-phases.timed"]["figures"]["slowdown"]["leaves"][""]["repeats"]) == 6
    assert rows["two-phases.timed"]["figures"]["tokens"]["leaves"] == {"": 48}
    assert len(file_of(tmp_path / "b")["runs"]) == 6


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dirty": True}, "uncommitted"),
        ({"dirty": None}, "uncommitted"),
        ({"interrupted": True}, "interrupted"),
        ({"started": ""}, "when it started"),
    ],
)
def test_runs_that_must_not_become_a_baseline_are_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accept([evidence(tmp_path / "e", claims(), **change)], tmp_path / "b") == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "b").exists()


def test_uncommitted_changes_are_accepted_when_asked_to(tmp_path: Path) -> None:
    folder = evidence(tmp_path / "e", claims(), dirty=True)
    assert accept([folder], tmp_path / "b", "--allow-dirty") == 0


def test_damaged_evidence_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = evidence(tmp_path / "e", claims(**{EXACT: exact(aspects=[])}))
    assert accept([folder], tmp_path / "b") == 2
    assert "damaged" in capsys.readouterr().err


def test_several_subjects_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = evidence(tmp_path / "a", claims()), evidence(tmp_path / "b", claims(), machine="other-4c", day=2)
    assert accept([one, two], tmp_path / "base") == 2
    assert "several subjects" in capsys.readouterr().err


def test_runs_with_another_protocol_are_no_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = evidence(tmp_path / "a", claims())
    two = evidence(tmp_path / "b", claims(**{"quality.sampled": sampled(protocol={"tokens": 3})}), day=2)
    assert accept([one, two], tmp_path / "base") == 2
    assert "no repeats of each other" in capsys.readouterr().err


def test_a_part_updates_only_itself_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accept(repeats(tmp_path / "r", 5), tmp_path / "b")
    before = file_of(tmp_path / "b")["claims"]
    moved = evidence(tmp_path / "e", claims(9.0, **{EXACT: exact(99)}), day=3)
    capsys.readouterr()
    assert accept([moved], tmp_path / "b", "--claim", EXACT) == 0
    said = capsys.readouterr().out
    after = file_of(tmp_path / "b")["claims"]
    assert f"{EXACT} bytes: 12288 → 99" in said
    assert "2 left as they were" in said
    assert after["two-phases.timed"]["figures"] == before["two-phases.timed"]["figures"]
    assert compare(evidence(tmp_path / "n", claims(**{EXACT: exact(99)}), day=4), tmp_path / "b")[0] == 0


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert accept([evidence(tmp_path / "e", claims())], tmp_path / "b", "--dry-run") == 0
    assert f"{EXACT}: new" in capsys.readouterr().out
    assert not (tmp_path / "b").exists()


def test_comparing_and_keeping_a_night_leave_the_baseline_alone(tmp_path: Path) -> None:
    from reports.__main__ import main

    accept(repeats(tmp_path / "r", 5), tmp_path / "b")
    before = (tmp_path / "b" / f"{SUBJECT}.json").read_bytes()
    folder = evidence(tmp_path / "e", claims(9.0, **{EXACT: exact(99)}), day=3)
    compare(folder, tmp_path / "b")
    main(["history", "--store", str(tmp_path / "h"), "--add", str(folder), "--drift", str(folder / "drift.json")])
    assert (tmp_path / "b" / f"{SUBJECT}.json").read_bytes() == before
    assert [path.name for path in (tmp_path / "b").iterdir()] == [f"{SUBJECT}.json"]


def test_an_exact_figure_that_varies_between_repeats_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [evidence(tmp_path / str(n), claims(**{EXACT: exact(12288 + n)}), day=n + 1) for n in range(5)]
    assert accept(folders, tmp_path / "b") == 0
    assert f"varies from run to run: {EXACT} bytes" in capsys.readouterr().out


def test_a_file_is_one_line_per_figure_and_sorted(tmp_path: Path) -> None:
    accept(repeats(tmp_path / "r", 5), tmp_path / "b")
    text = (tmp_path / "b" / f"{SUBJECT}.json").read_text(encoding="utf-8")
    assert text == pretty(json.loads(text))
    assert '    "bytes": {"leaves": {"": 12288}, "verdicts": ["HOLDS"]}' in text.splitlines()


# --- whatever was accepted compares with itself

_SCALARS = st.one_of(
    st.booleans(), st.integers(-(10**9), 10**9), st.floats(-1e6, 1e6), st.sampled_from(["a", "nan"]), st.none()
)
_ESTIMATES = (
    st.tuples(*[st.floats(-1e6, 1e6)] * 3).map(sorted).map(lambda x: {"value": x[1], "low": x[0], "high": x[2]})
)
_LEAVES = st.one_of(_SCALARS, _ESTIMATES)
_MEASURED = st.one_of(
    _LEAVES, st.lists(_LEAVES, max_size=3), st.dictionaries(st.sampled_from("abc"), _LEAVES, min_size=1)
)
_NAMES = st.sampled_from(["one", "two", "three"])


def _row(figures: dict[str, Any], warrant: str) -> dict[str, Any]:
    aspects = {name: aspect(measured=measured) for name, measured in figures.items()}
    aspects = aspects or {"one": aspect()}
    base = timed() if warrant == "timed" else entry()
    return base | {"warrant": warrant, "aspects": aspects, "model": dict(MODEL), "source": "s", "threads": 2}


_ROWS = st.builds(
    _row, st.dictionaries(_NAMES, _MEASURED), st.sampled_from(["exact", "exhaustive", "sampled", "timed"])
)
_RUNS = st.dictionaries(st.sampled_from(["a.one", "a.two", "b.three"]), _ROWS, min_size=1)


def _part(rows: dict[str, Any], reverse: bool = False) -> Part:
    named = {key: row | {"id": key, "section": key[0]} for key, row in sorted(rows.items(), reverse=reverse)}
    run = RUN | {"machine": {"class": MACHINE}, "collected": sorted(rows)}
    return part_of({"run": run, "model": dict(MODEL), "records": named, "finished": True, "collected": sorted(rows)})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=_RUNS)
def test_evidence_compared_with_itself_is_steady_in_any_order(tmp_path: Path, rows: dict[str, Any]) -> None:
    part = _part(rows)
    if part.damage:
        return
    document = build([part], None, (), prune=False).document
    (tmp_path / f"{SUBJECT}.json").write_text(pretty(document), encoding="utf-8")
    baselines = read_baselines(tmp_path)
    for reverse in (False, True):
        found = Comparer(baselines).compare(evidence_of([_part(rows, reverse)]))
        assert {row.status for cells in found.rows.values() for row in cells.values()} == {Status.STEADY}
        assert not found.has_findings


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=_RUNS, by=st.integers(1, 5), data=st.data())
def test_an_exact_integer_that_moves_is_never_steady(tmp_path: Path, rows: dict[str, Any], by: int, data: Any) -> None:
    name = data.draw(st.sampled_from(sorted(rows)))
    rows = rows | {name: _row({"one": 7}, "exact")}
    (tmp_path / f"{SUBJECT}.json").write_text(pretty(build([_part(rows)], None, (), prune=False).document), "utf-8")
    moved = rows | {name: _row({"one": 7 + by}, "exact")}
    found = Comparer(read_baselines(tmp_path)).compare(evidence_of([_part(moved)]))
    assert found.rows[name][SUBJECT].status is Status.DRIFTED


def test_committed_baselines_are_readable_and_as_accept_writes_them() -> None:
    folder = Path(__file__).parents[1] / "baseline"
    for subject in read_baselines(folder):
        text = (folder / f"{subject}.json").read_text(encoding="utf-8")
        assert text == pretty(json.loads(text))


def test_a_case_that_an_earlier_run_lacks_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    first, second = exact(), exact()
    first["aspects"]["by_layer"]["measured"], second["aspects"]["by_layer"]["measured"] = {"a": 1}, {"a": 1, "b": 2}
    runs = [evidence(tmp_path / str(day), claims(**{EXACT: row}), day=day) for day, row in ((1, first), (2, second))]
    assert accept(runs, tmp_path / "b") == 0
    assert file_of(tmp_path / "b")["claims"][EXACT]["figures"]["by_layer"]["leaves"] == {"a": 1}


def test_words_that_differ_between_runs_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [exact(), exact()]
    for row, word in zip(rows, ("one", "other"), strict=True):
        row["aspects"]["by_layer"]["measured"] = {"a": word, "b": 2}
    runs = [evidence(tmp_path / str(i), claims(**{EXACT: row}), day=i + 1) for i, row in enumerate(rows)]
    assert accept(runs, tmp_path / "b") == 0
    assert f"left out of {EXACT}, not the same in all runs: by_layer[a]\n" in capsys.readouterr().out
    assert file_of(tmp_path / "b")["claims"][EXACT]["figures"]["by_layer"]["leaves"] == {"b": 2}


def test_only_prune_drops_what_no_run_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accept([evidence(tmp_path / "e", claims())], tmp_path / "b")
    rest = {key: row for key, row in claims().items() if key != EXACT}
    fewer = [evidence(tmp_path / "f", rest, day=3)]
    assert accept(fewer, tmp_path / "b") == 0
    assert EXACT in file_of(tmp_path / "b")["claims"]
    assert "dropped" not in capsys.readouterr().out
    assert accept(fewer, tmp_path / "b", "--prune") == 0
    assert EXACT not in file_of(tmp_path / "b")["claims"]
    assert f"dropped, in no run: {EXACT}" in capsys.readouterr().out


def test_changes_in_words() -> None:
    def entry_of(verdict: str, **figures: Any) -> dict[str, Any]:
        return {"verdicts": [verdict], "figures": {name: {"leaves": leaves} for name, leaves in figures.items()}}

    before = {"x.a": entry_of("HOLDS", n={"": 1}, gone={"": 2}), "x.lost": entry_of("HOLDS")}
    repeats_of = {"low": 1.0, "high": 4.0, "repeats": [1.0, 2.0, 4.5]}
    after = {
        "x.a": entry_of("REFUTED", n={"": 3}, t={"": repeats_of}, s={"k": [0.5, 0.4, 0.6]}),
        "x.b": entry_of("HOLDS"),
    }
    assert list(_changes(before, after)) == [
        "x.a: HOLDS → REFUTED", "x.a gone: dropped", "x.a n: 1 → 3", "x.a s: new", "x.a t: new", "x.b: new",
        "x.lost: dropped",
    ]  # fmt: skip
    later = {**after, "x.a": entry_of("REFUTED", n={"": 3}, t={"": 2.5}, s={"k": [0.5, 0.4, 0.7], "l": 1})}
    assert list(_changes(after, later)) == [
        "x.a s[k]: 0.5 [0.4, 0.6] → 0.5 [0.4, 0.7]", "x.a s[l]: absent → 1", "x.a t: 2.5 (3 repeats) → 2.5",
    ]  # fmt: skip


def test_json_keeps_letters_as_they_are() -> None:
    assert compact({"b": "→", "a": 1}) == '{"a":1,"b":"→"}\n'
    assert pretty({"b": "→"}) == '{"b": "→"}\n'


def test_letters_stay_as_they_are_on_long_lines_too() -> None:
    long = {"→": {str(i): "—" * 20 for i in range(9)}, "b": ["é"] * 99}
    assert json.loads(pretty(long)) == long and "\\u" not in pretty(long)


def test_what_is_no_number_in_json_is_not_written() -> None:
    for write in (compact, pretty):
        with pytest.raises(ValueError, match="JSON"):
            write({"a": float("nan")})
