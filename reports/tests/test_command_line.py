"""`python -m reports`: reading an evidence folder, exit codes, one-line errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.records import SCHEMA as WRITTEN_SCHEMA
from reports.render import load
from reports.tests.samples import MODEL, Elements, entry, everything, refuted, summary

WRITTEN = ("report.html", "report.md", "summary.md", "claims.json", "junit.xml", "badge.svg")


def store(folder: Path, claims: dict[str, Any]) -> Path:
    (folder / "records").mkdir(parents=True)
    for key, raw in claims.items():
        (folder / "records" / f"{key}.json").write_text(json.dumps({"id": key} | raw), encoding="utf-8")
    return folder


def test_build_reads_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary({"a.a": entry(), "b.b": refuted()})), encoding="utf-8")
    assert main(["build", "--evidence", str(tmp_path), "--out", str(tmp_path / "out"), "--lang", "id"]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / "out" / name) for name in WRITTEN]


def test_build_exits_one_when_something_needs_a_look(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary(everything())), encoding="utf-8")
    assert main(["build", "--evidence", str(tmp_path)]) == 1


def test_build_from_the_records_of_a_killed_run_says_so(tmp_path: Path) -> None:
    store(tmp_path, {"a.a": entry(model=MODEL), "b.b": refuted()})
    (tmp_path / "records" / "c.torn.json").write_text('{"id": "c.torn", "verdict": "HO', encoding="utf-8")
    assert main(["build", "--evidence", str(tmp_path)]) == 1
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "summary.json is missing" in html
    assert "banner bad" in html
    assert [row["data-keys"] for row in Elements(html).rows()] == ["HOLDS", "REFUTED", "error"]
    assert "c.torn.json" in html
    assert "494,032,768" in html


@pytest.mark.parametrize("content", ["", "{", "[]", "\xff", "NaN", "[" * 100_000])
def test_unreadable_summary_falls_back_to_the_records(content: str, tmp_path: Path) -> None:
    (store(tmp_path, {"a.a": entry()}) / "summary.json").write_text(content, encoding="latin-1")
    assert main(["build", "--evidence", str(tmp_path)]) == 1
    assert "summary.json cannot be read" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_two_records_of_one_id_are_both_shown(tmp_path: Path) -> None:
    store(tmp_path, {"a.a": entry()})
    (tmp_path / "records" / "b.json").write_text(json.dumps({"id": "a.a"} | refuted()), encoding="utf-8")
    main(["build", "--evidence", str(tmp_path)])
    assert len(Elements((tmp_path / "report.html").read_text(encoding="utf-8")).rows()) == 2


@pytest.mark.parametrize("prepare", ["nothing", "empty", "file", "schema"])
def test_folder_without_evidence_is_one_line_and_exit_two(
    prepare: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "evidence"
    if prepare == "file":
        folder.write_text("not a folder", encoding="utf-8")
    elif prepare != "nothing":
        folder.mkdir()
    if prepare == "schema":
        (folder / "summary.json").write_text(json.dumps(summary({}) | {"schema": 99}), encoding="utf-8")
    assert main(["build", "--evidence", str(folder)]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert str(folder) in message
    assert not (tmp_path / "report.html").exists()


def test_output_that_cannot_be_written_is_exit_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(summary({"a.a": entry()})), encoding="utf-8")
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    assert main(["build", "--evidence", str(tmp_path), "--out", str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["unheard-of"], ["build", "--lang", "fr"], ["numerals"]])
def test_wrong_use_is_exit_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2


def test_numerals_of_a_missing_chapter_is_one_line_and_exit_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["numerals", "--chapter", str(tmp_path / "none.txt"), "--claims", str(tmp_path)]) == 2
    assert "none.txt" in capsys.readouterr().err


def test_numerals_counts_what_is_accounted_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chapter = tmp_path / "chapter.txt"
    chapter.write_text("Cache memakan 12.288 byte.\n", encoding="utf-8")
    (tmp_path / "numerals.toml").write_text("", encoding="utf-8")
    assert main(["numerals", "--chapter", str(chapter), "--claims", str(tmp_path)]) == 1
    assert "12.288" in capsys.readouterr().out


def test_schema_read_is_the_schema_written() -> None:
    assert load.SCHEMA == WRITTEN_SCHEMA


def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path: Path) -> None:
    store(tmp_path, everything())
    command = [sys.executable, "-m", "reports", "build", "--evidence", str(tmp_path)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=Path(load.__file__).parents[2], **pipes) as process:
        process.stdout.close()  # type: ignore[union-attr]
        told = process.stderr.read().decode()  # type: ignore[union-attr]
        code = process.wait()
    assert (code, "Traceback" in told) == (2, False)


def test_a_record_nested_too_deeply_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    store(tmp_path, {"a.a": entry(protocol={"deep": deep})})
    assert main(["build", "--evidence", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
