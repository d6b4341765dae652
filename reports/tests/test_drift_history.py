"""`history`: a night is a small file, kept once, read one at a time, and a damaged one is told."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.drift.history import read_nights
from reports.drift.series import series_of, sparkline
from reports.tests.drift_samples import SUBJECT, claims, evidence, many_nights

TIMED = "two-phases.timed"
SUBJECTS, NIGHTS = 5, 90


def keep(store: Path, folder: Path, *options: str) -> int:
    return main(["history", "--store", str(store), "--add", str(folder), *options])


def drift(tmp_path: Path, status: str = "steady", **cell: Any) -> Path:
    path = tmp_path / "drift.json"
    rows = {TIMED: {SUBJECT: {"status": status, **cell}}}
    path.write_text(json.dumps({"schema": 1, "rows": rows}), encoding="utf-8")
    return path


def test_a_night_is_kept_once_by_the_contract(tmp_path: Path) -> None:
    folder = evidence(tmp_path / "e", claims())
    for _ in range(2):
        assert keep(tmp_path / "h", folder, "--drift", str(drift(tmp_path))) == 0
    paths = list((tmp_path / "h").iterdir())
    assert [path.name for path in paths] == [f"20251201T031415Z-{SUBJECT}.json"]
    document = json.loads(paths[0].read_text(encoding="utf-8"))
    assert document["night"] == "2025-12-01T03:14:15+00:00"
    assert document["fingerprint"]["machine"] == SUBJECT.partition("@")[2]
    assert document["claims"][TIMED] == {
        "v": "HOLDS", "o": "as-recorded", "d": "steady",
        "f": {"slowdown": [2.0, 1.66667, 2.4], "tokens": [48, None, None]},
    }  # fmt: skip
    assert document["claims"]["cache-size.exact"]["d"] is None
    assert "by_layer" not in document["claims"]["cache-size.exact"]["f"]


def test_a_night_that_was_read_again_is_its_median(tmp_path: Path) -> None:
    path = drift(tmp_path, readings={"slowdown": 2.125})
    keep(tmp_path / "h", evidence(tmp_path / "e", claims()), "--drift", str(path))
    nights = read_nights(tmp_path / "h", SUBJECT, "")
    assert nights.readings(TIMED, "slowdown", "") == [2.125]


def test_only_comparable_nights_since_the_baseline_are_looked_back_on(tmp_path: Path) -> None:
    states = ["steady", "incomparable", "steady", "unmeasured", "drifted", "annotated"]
    for day, status in enumerate(states, 1):
        path = drift(tmp_path, status)
        keep(tmp_path / "h", evidence(tmp_path / "e", claims(float(day)), day=day), "--drift", str(path))
    nights = read_nights(tmp_path / "h", SUBJECT, "2025-12-06T00:00:00+00:00")
    assert nights.readings(TIMED, "slowdown", "2025-12-01T09:00:00+00:00") == [3.0, 5.0]


def test_old_nights_go(tmp_path: Path) -> None:
    for day in range(1, 6):
        keep(tmp_path / "h", evidence(tmp_path / "e", claims(), day=day), "--keep", "3")
    assert [path.name[:8] for path in sorted((tmp_path / "h").iterdir())] == ["20251203", "20251204", "20251205"]
    assert keep(tmp_path / "h", tmp_path / "e", "--keep", "0") == 2


def test_a_series_is_printed_with_its_sparkline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for day in range(1, 5):
        keep(tmp_path / "h", evidence(tmp_path / "e", claims(float(day)), day=day))
    capsys.readouterr()
    assert main(["history", "--store", str(tmp_path / "h"), "--claim", TIMED]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{SUBJECT}  slowdown  ▁▃▆█"
    assert len(lines) == 6
    assert "2025-12-04T03:14" in lines[4]
    assert "HOLDS" in lines[4]


def test_a_flat_series_and_gaps_have_a_sparkline() -> None:
    assert sparkline([1.0, None, 1.0]) == "▁·▁"
    assert sparkline([]) == ""


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"schema": 2, "claims": {}}', '{"schema": 1, "night": 3, "claims": {}}']
)
def test_a_damaged_night_is_told_and_harms_no_other(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path / "h", evidence(tmp_path / "e", claims()))
    (tmp_path / "h" / f"20251202T000000Z-{SUBJECT}.json").write_text(content, encoding="utf-8")
    nights = read_nights(tmp_path / "h", SUBJECT, "")
    assert (len(nights.nights), nights.damaged) == (1, 1)
    assert main(["history", "--store", str(tmp_path / "h"), "--claim", TIMED]) == 1
    assert "1 damaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    "said", [None, 3, [], {"f": 3}, {"f": {"slowdown": "x"}}, {"f": {"slowdown": [None, {}, []]}}, {"v": ["\x1b[31m"]}]
)
def test_what_a_night_says_is_not_trusted(tmp_path: Path, said: Any, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"schema": 1, "night": "2025-12-01T00:00:00", "subject": SUBJECT, "claims": {TIMED: said}}
    (tmp_path / f"20251201T000000Z-{SUBJECT}.json").write_text(json.dumps(document), encoding="utf-8")
    assert main(["history", "--store", str(tmp_path), "--claim", TIMED]) in {0, 1}
    assert "\x1b" not in capsys.readouterr().out
    nights = read_nights(tmp_path, SUBJECT, "")
    assert nights.readings(TIMED, "slowdown", "") == []
    assert nights.silent(TIMED) in {0, 1}


def test_wrong_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    folder = evidence(tmp_path / "e", claims())
    assert keep(tmp_path / "h", folder, "--drift", str(tmp_path / "bad.json")) == 2
    assert keep(tmp_path / "h", tmp_path / "nothing") == 2
    assert main(["history", "--store", str(tmp_path / "none"), "--claim", TIMED]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def test_ninety_nights_of_five_machines_are_read_one_at_a_time(tmp_path: Path) -> None:
    store = many_nights(tmp_path, SUBJECTS, NIGHTS)
    series, damaged = series_of(store, "section.claim-7")
    assert (len(series), len(series["model@machine-0"]), damaged) == (SUBJECTS, NIGHTS, 0)
    for path in sorted(store.iterdir())[10:]:  # tracing is slow, and memory must not depend on how many there are
        path.unlink()
    tracemalloc.start()
    series_of(store, "section.claim-7")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20
