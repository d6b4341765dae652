"""`compare`: what moved is flagged, what cannot be compared is told, and nothing that is broken looks green."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.drift import rerun as rerun_module
from reports.drift.baseline import read_baselines
from reports.drift.compare import Comparer
from reports.drift.evidence import Evidence, read_evidence
from reports.drift.history import read_nights
from reports.drift.leaves import Leaf
from reports.drift.rows import Status
from reports.drift.rules import compare_leaf
from reports.merge import shards
from reports.tests.drift_samples import (
    EXACT,
    MACHINE,
    NOISE,
    RATIO,
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
    sampled,
    statuses,
    timed,
)  # fmt: skip
from reports.tests.samples import Raw, aspect


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return accepted(tmp_path_factory.mktemp("accepted"))


def test_a_night_like_the_accepted_ones_is_steady_and_green(tmp_path: Path, baseline: Path) -> None:
    code, found, document = night(tmp_path, baseline)
    assert (code, set(found.values())) == (0, {"steady"})
    assert document["counts"] == {"steady": 3}


def test_an_exact_figure_flags_by_one_unit_and_says_what_changed(tmp_path: Path, baseline: Path) -> None:
    row = exact(12289, source="other")
    folder = evidence(tmp_path / "n", claims(**{EXACT: row}), torch="2.14.0")
    code, document = compare(folder, baseline)
    cell = document["rows"][EXACT][SUBJECT]
    assert (code, cell["status"]) == (1, "drifted")
    assert cell["figures"]["bytes"]["was"] == 12288
    assert cell["figures"]["bytes"]["now"] == 12289
    assert "torch 2.13.0 → 2.14.0, source changed" in cell["detail"]


@pytest.mark.parametrize(
    ("row", "status"),
    [
        (sampled(0.61), "drifted"),
        (sampled(0.59), "annotated"),
        (sampled(0.59, 0.55, 0.7), "annotated"),
        (sampled(0.3, 0.2, 0.39), "drifted"),
    ],
)
def test_a_sampled_figure_flags_outside_of_its_interval(tmp_path: Path, baseline: Path, row: Any, status: str) -> None:
    row = (
        row
        if row["aspects"]["share"]["measured"]["high"] >= row["aspects"]["share"]["measured"]["value"]
        else sampled(0.61, 0.4, 0.7)
    )
    _, found, _ = night(tmp_path, baseline, **{SAMPLED: row})
    assert found[SAMPLED] == status


def test_a_sampled_figure_without_an_interval_may_move_by_rounding_only(tmp_path: Path, baseline: Path) -> None:
    for value, status in ((3.25 * (1 + 1e-6), "annotated"), (3.26, "drifted")):
        row = sampled()
        row["aspects"]["largest"]["measured"] = value
        assert night(tmp_path, baseline, **{SAMPLED: row})[1][SAMPLED] == status


def test_context_that_moved_is_told_and_is_no_flag(tmp_path: Path, baseline: Path) -> None:
    row = exact()
    row["aspects"]["by_layer"]["measured"] = [0.25, 0.75]
    code, found, document = night(tmp_path, baseline, **{EXACT: row})
    assert (code, found[EXACT]) == (0, "annotated")
    assert "0.5 → 0.75" in document["rows"][EXACT][SUBJECT]["detail"]


def test_another_verdict_is_a_flag_though_every_figure_stands(tmp_path: Path, baseline: Path) -> None:
    row = exact(verdict="REFUTED", outcome="changed")
    row["aspects"]["bytes"] |= {"verdict": "REFUTED"}
    _, found, document = night(tmp_path, baseline, **{EXACT: row})
    assert found[EXACT] == "drifted"
    assert "HOLDS → REFUTED" in document["rows"][EXACT][SUBJECT]["detail"]


def test_no_verdict_tonight_is_neither_a_flag_nor_green(tmp_path: Path, baseline: Path) -> None:
    row = timed(9.0, "UNRESOLVED", outcome="unresolved", on_record="HOLDS")
    code, found, _ = night(tmp_path, baseline, **{TIMED: row})
    assert found == {EXACT: "steady", SAMPLED: "steady", TIMED: "unmeasured"}
    assert code == 0


def test_another_machines_baseline_is_incomparable_for_clocks_and_not_green(tmp_path: Path, baseline: Path) -> None:
    code, document = compare(evidence(tmp_path / "n", claims(), machine="aarch64-other-8c"), baseline)
    assert code == 1
    assert statuses(document) == {EXACT: "steady", SAMPLED: "steady", TIMED: "incomparable"}


def test_other_weights_protocol_or_threads_are_incomparable(tmp_path: Path, baseline: Path) -> None:
    other = exact(model=exact()["model"] | {"digest": "f" * 12})
    protocol = sampled(protocol={"tokens": 64})
    code, found, document = night(tmp_path, baseline, **{EXACT: other, SAMPLED: protocol, TIMED: timed(threads=4)})
    assert code == 1
    assert set(found.values()) == {"incomparable"}
    assert "tokens absent → 64" in document["rows"][SAMPLED][SUBJECT]["detail"]


def test_a_night_on_a_slow_machine_says_nothing_of_clocks(tmp_path: Path, baseline: Path) -> None:
    slow = timed(3.0)
    slow["protocol"] |= {"read_gb_per_s": 17.0}
    code, found, document = night(tmp_path, baseline, **{TIMED: slow})
    assert (code, found[TIMED]) == (1, "incomparable")
    assert "not as fast" in document["rows"][TIMED][SUBJECT]["detail"]


def stub(ratio: float, times: int = 5, **rows: Any) -> Any:
    """A re-run that reads this ratio."""

    def again(_: Sequence[str]) -> list[Evidence]:
        part = shards.part_of(
            {
                "run": {"started": "2025-12-30T00:00:00", "machine": {"class": MACHINE}, "torch": "2.13.0"},
                "records": claims(ratio, **rows),
                "finished": True,
            }
        )
        from reports.drift.evidence import evidence_of

        return [evidence_of([part]) for _ in range(times)]

    return again


def nights_of(tmp_path: Path, baseline: Path, ratio: float, num: int, again: Any) -> list[str]:
    """Statuses of the timed statement over nights after ten quiet ones, each kept before the next."""
    from reports.drift.history import add_night

    found = []
    for day in range(1, 11 + num):
        shifted = day > 10
        folder = evidence(tmp_path / "night", claims(ratio if shifted else RATIO), day=day)
        tonight = read_evidence(folder)
        nights = {SUBJECT: read_nights(tmp_path / "store", SUBJECT, tonight.started(SUBJECT))}
        done = Comparer(read_baselines(baseline), nights).compare(tonight, again if shifted else None, MACHINE)
        add_night(tmp_path / "store", tonight, done.as_json("b", "e"))
        found.append(done.rows[TIMED][SUBJECT].status.value)
    return found[10:]


def test_a_timed_step_of_three_noises_is_flagged_within_five_nights(tmp_path: Path, baseline: Path) -> None:
    step = RATIO * math.exp(3 * NOISE)
    assert "drifted" in nights_of(tmp_path, baseline, step, 5, stub(step))


def test_a_step_that_the_rerun_does_not_see_is_no_flag(tmp_path: Path, baseline: Path) -> None:
    assert "drifted" not in nights_of(tmp_path, baseline, RATIO * math.exp(4 * NOISE), 5, stub(RATIO))


def test_without_a_rerun_a_step_stays_suspected_and_is_not_green(tmp_path: Path, baseline: Path) -> None:
    found = nights_of(tmp_path, baseline, RATIO * math.exp(5 * NOISE), 5, None)
    assert set(found[2:]) == {"suspected"}


def test_what_no_slow_host_does_is_flagged_in_one_night(tmp_path: Path, baseline: Path) -> None:
    tonight = read_evidence(evidence(tmp_path / "n", claims(2 * RATIO)))
    done = Comparer(read_baselines(baseline)).compare(tonight, stub(2 * RATIO), MACHINE)
    assert done.rows[TIMED][SUBJECT].status == "drifted"


def test_only_a_confirmed_verdict_of_a_clock_is_a_flag(tmp_path: Path, baseline: Path) -> None:
    row = timed(verdict="REFUTED", outcome="changed", on_record="HOLDS")
    tonight = read_evidence(evidence(tmp_path / "n", claims(**{TIMED: row})))
    comparer = Comparer(read_baselines(baseline))
    assert comparer.compare(tonight).rows[TIMED][SUBJECT].status == "suspected"
    assert comparer.compare(tonight, stub(RATIO), MACHINE).rows[TIMED][SUBJECT].status == "annotated"


def test_a_rerun_on_other_weights_confirms_nothing(tmp_path: Path, baseline: Path) -> None:
    other = timed(2 * RATIO, model=timed()["model"] | {"digest": "f" * 12})
    tonight = read_evidence(evidence(tmp_path / "n", claims(2 * RATIO)))
    done = Comparer(read_baselines(baseline)).compare(tonight, stub(2 * RATIO, **{TIMED: other}), MACHINE)
    assert done.rows[TIMED][SUBJECT].status == "suspected"


def test_a_number_that_became_a_word_is_damage() -> None:
    was = Leaf(3.0)
    assert compare_leaf(was, Leaf("nan"), "exact", True).status is Status.DAMAGED
    assert compare_leaf(was, Leaf(3.0), "exact", True).status is Status.STEADY


def test_only_ids_of_claims_tests_are_handed_to_a_process() -> None:
    good = "claims/test_two_phases.py::test_decode_flat"
    bad = [
        "-x",
        "--rootdir=/",
        "claims/../x.py::test_a",
        f"{good} -x",
        f"{good}\n",
        "lib/tests/test_a.py::test_b",
        "",
        None,
        3,
    ]
    assert rerun_module.usable(good)
    assert not any(map(rerun_module.usable, bad))


def test_a_rerun_runs_each_test_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []

    def run(command: list[str], **_: Any) -> None:
        commands.append(command)
        evidence(Path(command[command.index("--evidence") + 1]), claims())

    monkeypatch.setattr(rerun_module.subprocess, "run", run)
    ids = ["claims/test_a.py::test_b", "claims/test_a.py::test_b", "; rm"]
    found = rerun_module.rerun(3, tmp_path)(ids)
    assert len(found) == len(commands) == 3
    assert all(command[3:4] == ["claims/test_a.py::test_b"] and "; rm" not in command for command in commands)


def test_a_week_without_a_verdict_is_told(tmp_path: Path, baseline: Path) -> None:
    from reports.drift.history import add_night

    row = timed(2.0, "UNRESOLVED", outcome="unresolved", on_record="HOLDS")
    silent = []
    for day in range(1, 9):
        tonight = read_evidence(evidence(tmp_path / "n", claims(**{TIMED: row}), day=day))
        nights = {SUBJECT: read_nights(tmp_path / "store", SUBJECT, tonight.started(SUBJECT))}
        done = Comparer(read_baselines(baseline), nights).compare(tonight)
        silent.append(bool(done.having({Status.SILENT})) and done.has_findings)
        add_night(tmp_path / "store", tonight, done.as_json("b", "e"))
    assert silent == [False] * 6 + [True] * 2


def test_an_unremarkable_night_is_not_read_again(tmp_path: Path, baseline: Path) -> None:
    asked: list[Sequence[str]] = []

    def record(ids: Sequence[str]) -> list[Evidence]:
        asked.append(ids)
        return []

    tonight = read_evidence(evidence(tmp_path / "n", claims()))
    Comparer(read_baselines(baseline)).compare(tonight, record, MACHINE)
    assert asked == []
    odd = read_evidence(evidence(tmp_path / "o", claims(RATIO * math.exp(2 * NOISE))))
    Comparer(read_baselines(baseline)).compare(odd, record, MACHINE)
    Comparer(read_baselines(baseline)).compare(odd, record, "another-machine")
    assert asked == [["claims/test_two_phases.py::test_slowdown"]]


def test_a_rerun_in_a_real_process_leaves_evidence() -> None:
    node_id = "claims/test_memory_budget.py::test_units"
    found = rerun_module.rerun(1, Path(__file__).parents[2])([node_id])
    assert [key for run in found for by_id in run.readings.values() for key in by_id] == ["memory-budget.units"]


def test_an_exact_statement_that_loses_its_verdict_is_told_the_same_night(tmp_path: Path, baseline: Path) -> None:
    lost = exact(verdict="NOT_MEASURED", outcome="not-measured", reason="no model", aspects={})
    tonight = read_evidence(evidence(tmp_path / "n", claims(**{EXACT: lost}), day=1))
    done = Comparer(read_baselines(baseline)).compare(tonight)
    assert done.rows[EXACT][SUBJECT].status is Status.SILENT and done.has_findings


def test_of_a_steady_statement_nothing_is_said(tmp_path: Path, baseline: Path) -> None:
    _, _, document = night(tmp_path, baseline)
    assert document["rows"][EXACT][SUBJECT] == {"status": "steady", "detail": "", "figures": {}}


def test_a_rerun_with_other_threads_confirms_nothing(tmp_path: Path, baseline: Path) -> None:
    tonight = read_evidence(evidence(tmp_path / "n", claims(2 * RATIO)))
    again = stub(2 * RATIO, **{TIMED: timed(2 * RATIO, threads=4)})
    done = Comparer(read_baselines(baseline)).compare(tonight, again, MACHINE)
    assert done.rows[TIMED][SUBJECT].status == "suspected"


@pytest.mark.parametrize(
    ("ratio", "tokens", "status"),
    [(1.0, 48, "steady"), (1.01, 48, "incomparable"), (1.01, 49, "drifted")],
)
def test_a_timed_figure_of_an_exact_statement_needs_repeats_as_any_other(
    ratio: float, tokens: int, status: str, tmp_path: Path
) -> None:
    """Arithmetic with one real configuration timed beside it: what has ends is the clock's, the rest is exact."""

    def mixed(ratio: float, tokens: int) -> Raw:
        row = timed(RATIO * ratio, warrant="exact", needs=[])
        return row | {"aspects": row["aspects"] | {"tokens": aspect(measured=tokens)}}

    assert accept([evidence(tmp_path / "once", claims(**{TIMED: mixed(1.0, 48)}))], tmp_path / "baseline") == 0
    tonight = evidence(tmp_path / "night", claims(**{TIMED: mixed(ratio, tokens)}), day=2)
    assert statuses(compare(tonight, tmp_path / "baseline")[1])[TIMED] == status
