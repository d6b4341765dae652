"""Edges of drift's rules that a planted fault once crossed unseen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.drift.baseline import read_baselines
from reports.drift.compare import Comparer
from reports.drift.evidence import Evidence, evidence_of, read_evidence
from reports.drift.fingerprint import RESIDUE, close
from reports.drift.history import Night, Nights, read_nights
from reports.merge.parts import part_of
from reports.tests.drift_samples import (
    MACHINE,
    RATIO,
    SUBJECT,
    accept,
    claims,
    compare,
    evidence,
    exact,
    repeats,
    sampled,
    statuses,
    timed,
)  # fmt: skip
from reports.tests.samples import pending

EXACT, SAMPLED, TIMED = "cache-size.exact", "quality.sampled", "two-phases.timed"


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accepted")
    assert accept(repeats(folder / "runs"), folder / "baseline") == 0
    return folder / "baseline"


def test_a_statement_without_a_test_is_no_row(tmp_path: Path, baseline: Path) -> None:
    rows = claims(**{"weights.later": pending()})
    code, document = compare(evidence(tmp_path / "n", rows, collected=[EXACT, SAMPLED, TIMED]), baseline)
    assert code == 0 and "weights.later" not in document["rows"]


@pytest.mark.parametrize(
    ("low", "high", "status"), [(0.55, 0.58, "steady"), (0.7, 0.9, "damaged"), (0.1, 0.3, "damaged")]
)
def test_an_interval_that_does_not_hold_its_own_value_is_damage(
    low: float, high: float, status: str, tmp_path: Path, baseline: Path
) -> None:
    """So that a value inside the baseline's interval has its own in touch with it: to ask both is to be careful."""
    _, document = compare(evidence(tmp_path / "n", claims(**{SAMPLED: sampled(0.56, low, high)})), baseline)
    assert statuses(document)[SAMPLED].replace("annotated", "steady") == status


def saying(verdicts: Sequence[str]) -> Any:
    """Re-runs that come to these verdicts."""

    def again(_: Sequence[str]) -> list[Evidence]:
        return [evidence_of([part_of(run(verdict))]) for verdict in verdicts]

    def run(verdict: str) -> dict[str, Any]:
        facts = {"started": "2025-12-30T00:00:00", "machine": {"class": MACHINE}, "torch": "2.13.0"}
        changed = {} if verdict == "HOLDS" else {"outcome": "changed", "on_record": "HOLDS"}
        return {"run": facts, "records": claims(**{TIMED: timed(verdict=verdict, **changed)}), "finished": True}

    return again


@pytest.mark.parametrize(("refuted", "status"), [(1, "annotated"), (2, "annotated"), (3, "drifted")])
def test_a_verdict_of_a_clock_takes_more_than_half_of_the_reruns(
    refuted: int, status: str, tmp_path: Path, baseline: Path
) -> None:
    row = timed(verdict="REFUTED", outcome="changed", on_record="HOLDS")
    tonight = read_evidence(evidence(tmp_path / "n", claims(**{TIMED: row})))
    again = saying(["REFUTED"] * refuted + ["HOLDS"] * (4 - refuted))
    done = Comparer(read_baselines(baseline)).compare(tonight, again, MACHINE)
    assert done.rows[TIMED][SUBJECT].status == status


@pytest.mark.parametrize("odd", [0.0, -1.0])
def test_a_night_with_a_ratio_that_none_can_be_is_left_out(odd: float, tmp_path: Path, baseline: Path) -> None:
    """The noise is learned from logarithms."""

    def nights(*ratios: float) -> dict[str, Nights]:
        said = [{TIMED: {"v": "HOLDS", "d": "steady", "f": {"slowdown": [r, None, None]}}} for r in ratios]
        days = enumerate(said, 1)
        return {SUBJECT: Nights(tuple(Night(f"2025-12-{n:02d}T00:00:00+00:00", SUBJECT, told) for n, told in days))}

    tonight, known = read_evidence(evidence(tmp_path / "n", claims(), day=20)), read_baselines(baseline)
    with_it, without = (Comparer(known, nights(*r)).compare(tonight) for r in ([RATIO] * 5 + [odd], [RATIO] * 5))
    assert with_it.as_json("b", "e") == without.as_json("b", "e")
    assert with_it.rows[TIMED][SUBJECT].status == "steady"


def test_a_night_is_as_old_as_it_says_and_not_as_its_file_is_called(tmp_path: Path) -> None:
    for name, night in (("20251201", "2025-12-01"), ("20251202", "2025-12-09")):
        raw = {"schema": 1, "night": f"{night}T00:00:00+00:00", "subject": SUBJECT, "claims": {}}
        (tmp_path / f"{name}T000000Z-{SUBJECT}.json").write_text(json.dumps(raw), encoding="utf-8")
    found = read_nights(tmp_path, SUBJECT, "2025-12-05T00:00:00+00:00").nights
    assert [night.started[:10] for night in found] == ["2025-12-01"]


def test_what_vanishes_up_to_rounding_may_leave_a_residue_and_no_more() -> None:
    """RESIDUE is sixteen units in the last place of an fp32 one: 2**-24 * 16 = 2**-20."""
    assert RESIDUE == 16 * 2.0**-24
    assert close(0.0, 1e-7) and close(1e-15, -5e-7) and close(0.0, 2.0**-20)
    assert not close(0.0, 2.0**-19) and not close(0.0, 1e-5)


def test_a_statement_whose_test_raised_is_left_out_of_a_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when another repeat measured it."""
    failed = exact(verdict=None, outcome="error", error="call: boom", aspects={})
    runs = [evidence(tmp_path / "a", claims()), evidence(tmp_path / "b", claims(**{EXACT: failed}), day=2)]
    assert accept(runs, tmp_path / "baseline") == 0
    assert f"left out, its test raised: {EXACT}" in capsys.readouterr().out
    (known,) = read_baselines(tmp_path / "baseline").values()
    assert EXACT not in known.claims and {SAMPLED, TIMED} <= set(known.claims)


@pytest.mark.parametrize(("change", "status"), [({"weights.new": exact()}, "unknown"), ({EXACT: pending()}, "missing")])
def test_one_odd_row_among_steady_ones_is_a_finding(
    change: dict[str, Any], status: str, tmp_path: Path, baseline: Path
) -> None:
    code, document = compare(evidence(tmp_path / "n", claims(**change)), baseline)
    assert code == 1 and document["counts"][status] == 1 and document["counts"]["steady"] == 3 - (status == "missing")
