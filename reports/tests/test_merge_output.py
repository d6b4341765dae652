"""The folder that a merge writes: never somebody else's, nothing of an earlier merge, and none if it is killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.merge import folder as merged_folder
from reports.tests.merge_samples import IDS, merge, record, shard, store

WHOLE = [record(name) for name in IDS]


@pytest.mark.parametrize(("out", "inputs"), [("a", ["a"]), ("a/M", ["a"]), (".", ["a"]), ("b/../a", ["b", "a"])])
def test_an_output_that_is_or_holds_an_input_is_refused(
    out: str, inputs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in inputs:
        shard(tmp_path / name, WHOLE)
    before = sorted(tmp_path.rglob("*"))
    assert merge(tmp_path, *(tmp_path / name for name in inputs), out=out, claims=Path("claims")) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["evidence", "a file", "a link", "something", "a link inside"])
def test_an_output_that_is_somebody_elses_is_left_alone(kind: str, tmp_path: Path) -> None:
    night, out, away = shard(tmp_path / "a", WHOLE), tmp_path / "M", tmp_path / "away"
    away.mkdir()
    (away / "precious").write_text("kept")
    if kind == "evidence":
        shard(out, WHOLE)
    elif kind == "a file":
        out.write_text("")
    elif kind == "a link":
        out.symlink_to(away)
    elif kind == "something":
        store(out / "mine.json", {})
    else:
        merge(tmp_path, night)
        shutil.rmtree(out / "records")
        (out / "records").symlink_to(away)
    before = sorted(tmp_path.rglob("*"))
    assert merge(tmp_path, night, claims=Path("claims")) == 2
    assert sorted(tmp_path.rglob("*")) == before
    assert (away / "precious").read_text() == "kept"


def test_a_merge_into_the_folder_of_an_earlier_one_leaves_nothing_of_it(tmp_path: Path) -> None:
    merge(tmp_path, shard(tmp_path / "a", [*WHOLE, record("toys.four")]))
    merge(tmp_path, shard(tmp_path / "b", WHOLE))
    assert not list(tmp_path.rglob("M/records/*/toys.four.json"))
    assert len(list((tmp_path / "M" / "parts").iterdir())) == 1


def test_a_merge_that_is_killed_leaves_no_matrix_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = shard(tmp_path / "a", WHOLE)
    assert merge(tmp_path, night) == 0
    written = []

    def killed(path: Path, document: Any) -> None:
        written.append(path)
        if len(written) > 2:
            raise KeyboardInterrupt
        store(path, document)

    with monkeypatch.context() as patch:
        patch.setattr(merged_folder, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            merge(tmp_path, night)
    assert not (tmp_path / "M" / "merged.json").exists()
    assert main(["merge", str(tmp_path / "M"), "--out", str(tmp_path / "N"), "--claims", str(tmp_path / "claims")]) == 1
    assert merge(tmp_path, night) == 0
