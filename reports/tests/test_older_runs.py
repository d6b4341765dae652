"""Evidence that is not tonight's: seen before, dated ahead, or left by the run before one that died."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.drift.history import read_nights
from reports.evidence import EvidenceFolder
from reports.moments import CLOCK_SKEW, is_ahead, moment
from reports.render.load import load_page
from reports.tests.drift_samples import SUBJECT, accept, claims, compare, evidence, repeats, statuses
from reports.tests.merge_samples import IDS, details, merge, problems, record, shard
from reports.tests.toy_runs import ToyRun

NOW = datetime(2025, 12, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accepted")
    assert accept(repeats(folder / "runs", 5), folder / "baseline") == 0
    return folder / "baseline"


def keep(store: Path, folder: Path) -> int:
    return main(["history", "--store", str(store), "--add", str(folder), "--drift", str(folder / "drift.json")])


def test_yesterdays_folder_handed_in_again_is_no_night(
    baseline: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, given = tmp_path / "h", ("--history", str(tmp_path / "h"))
    folder = evidence(tmp_path / "e", claims())
    assert compare(folder, baseline, *given)[0] == 0, "a first time"
    assert keep(store, folder) == 0
    code, document = compare(folder, baseline, *given)
    assert code == 1 and set(statuses(document).values()) == {"incomparable"}
    assert "seen before" in json.dumps(document)
    capsys.readouterr()
    assert keep(store, folder) == 0
    assert "the same run was seen before: its file is kept" in capsys.readouterr().out
    (night,) = read_nights(store, SUBJECT, "").nights
    assert night.claims["cache-size.exact"]["d"] == "steady", "what was known of it is not overwritten"
    assert compare(evidence(tmp_path / "f", claims(), day=2), baseline, *given)[0] == 0, "a later run is a night"
    assert compare(folder, baseline)[0] == 0, "without a history nobody knows"


def ahead(by: timedelta) -> dict[str, str]:
    return {"started": (datetime.now(UTC) + by).isoformat(timespec="seconds")}


TOMORROW, SOON = ahead(CLOCK_SKEW * 3), ahead(CLOCK_SKEW / 2)


def test_a_run_that_is_dated_ahead_is_compared_with_nothing(baseline: Path, tmp_path: Path) -> None:
    code, document = compare(evidence(tmp_path / "e", claims(), **TOMORROW), baseline)
    assert code == 1 and set(statuses(document).values()) == {"incomparable"}
    assert "dated in the future" in json.dumps(document)
    assert compare(evidence(tmp_path / "f", claims(), **SOON), baseline)[0] == 0, "clocks differ"


def test_a_run_that_is_dated_ahead_is_a_problem_of_its_merge(tmp_path: Path) -> None:
    rows = [record(name) for name in IDS]
    assert merge(tmp_path, shard(tmp_path / "a", rows, **TOMORROW)) == 1
    assert ("future", "") in problems(tmp_path) and "dated in the future" in details(tmp_path, "future")
    assert load_page(tmp_path / "M").headline() == ("red", "bad")
    assert merge(tmp_path, shard(tmp_path / "b", rows, **SOON), out="N") == 0


def test_a_run_that_is_dated_ahead_is_said_on_its_page(tmp_path: Path) -> None:
    page = load_page(evidence(tmp_path / "e", claims(), **TOMORROW))
    assert ("future", TOMORROW["started"]) in page.warnings and page.has_findings and page.headline()[1] != "good"
    assert not load_page(evidence(tmp_path / "f", claims(), **SOON)).has_findings


@pytest.mark.parametrize(
    ("iso", "is_future"),
    [
        ("2025-12-01T00:00:00+00:00", False), ("2025-12-02T00:00:00+00:00", False), ("2025-12-02T00:00:01+00:00", True),
        ("2025-12-02T12:00:00+14:00", False), ("2025-12-01T23:00:00-12:00", True), ("2025-12-02T00:00:01", True),
        ("9999-12-31T23:59:59-12:00", False), ("yesterday", False), (None, False), ("", False), (5, False),
    ],
)  # fmt: skip
def test_a_day_is_what_clocks_may_differ(iso: Any, is_future: bool) -> None:
    """(A time past every calendar is none at all: it is refused as one that cannot be read.)"""
    assert is_ahead(iso, NOW) is is_future
    assert moment("2025-12-01") == NOW


DIES = """
@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    if Path("die").exists(): os._exit(0)
"""


def test_a_run_that_dies_before_its_first_claim_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of the run before looked whole: that run's summary, records and page, and not a word of this one."""
    toys = ToyRun(tmp_path).write(3, conftest=DIES)
    assert toys.run().code == 0
    whole = [load_page(toys.evidence).headline()[1], compared(toys), merged_code(tmp_path)]
    assert whole == ["good", 1, 0]
    (tmp_path / "die").touch()
    assert toys.run().code == 0, "it says nothing itself"
    (tmp_path / "die").unlink()
    page = load_page(toys.evidence)
    assert [key for key, _ in page.warnings] == ["overtaken"] and page.headline()[1] == "bad" and page.has_findings
    assert merged_code(tmp_path) == 1
    assert compared(toys) == 1 and "another run than the summary" in capsys.readouterr().out
    assert toys.run().code == 0 and load_page(toys.evidence).headline()[1] == "good", "the next run mends it"


def compared(toys: ToyRun) -> int:
    """1 also where all is well: there is no baseline yet."""
    return main(["compare", "--evidence", str(toys.evidence), "--baseline", str(toys.folder / "none")])


def merged_code(folder: Path) -> int:
    claims_dir = ["--claims", str(folder / "claims")]
    return main(["merge", str(folder / "E"), "--out", str(folder / "M"), *claims_dir])


def test_a_run_of_no_claims_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    toys = ToyRun(tmp_path).write(2)
    assert toys.run().code == 0
    before = toys.lasting(), toys.document("summary.json")["run"]["started"]
    toys.run("-k", "nothing_of_that_name")
    toys.run("--collect-only")
    assert (toys.lasting(), toys.document("summary.json")["run"]["started"]) == before


def test_what_was_said_of_an_older_run_goes_with_it(tmp_path: Path) -> None:
    """Also what other commands put beside it: a drift document or a badge of last night is none of tonight."""
    folder = EvidenceFolder(tmp_path)
    folder.open()
    main_files = {"summary.json", "report.html", "report.md", "records/toys.one.json", ".x.json.1.part"}
    by_others = {"summary.md", "claims.json", "junit.xml", "badge.svg", "drift.json"}
    (tmp_path / "records").mkdir()
    for name in (*main_files, *by_others, "benchmarks.json"):
        (tmp_path / name).write_text("old", encoding="utf-8")
    folder.clear()
    folder.close()
    left = {path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"}
    assert left == {"benchmarks.json"}, "a GPU's benchmarks are a run of their own"
