"""The committed ERRATA files are what the committed ledgers say, and read like the page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.ledger import load_ledger
from reports.render.errata_list import NAMES, render_errata
from reports.render.model import STANDINGS
from reports.render.words import Words

ROOT = Path(__file__).parents[2]
CLAIMS = ROOT / "claims"


@pytest.mark.parametrize(("lang", "name"), NAMES.items())
def test_the_committed_file_is_current(lang: str, name: str) -> None:
    committed = (ROOT / "reports" / name).read_text(encoding="utf-8")
    assert committed == render_errata(load_ledger(CLAIMS), lang), f"{name} is stale: python -m reports errata"


def test_a_changed_ledger_makes_it_stale_and_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(CLAIMS, tmp_path / "claims", ignore=shutil.ignore_patterns("*.py", "benchmarks"))
    arguments = ["errata", "--claims", str(tmp_path / "claims"), "--out", str(tmp_path)]
    assert main(arguments) == 0 and main([*arguments, "--check"]) == 0
    ledger = next(
        path for path in sorted((tmp_path / "claims").glob("*.toml")) if "erratum = " in path.read_text("utf-8")
    )
    ledger.write_text(ledger.read_text("utf-8").replace('erratum = """\\\n', 'erratum = """\\\nNot so. ', 1), "utf-8")
    assert main([*arguments, "--check"]) == 1
    assert "python -m reports errata" in capsys.readouterr().out


def test_every_erratum_of_the_ledgers_is_told_once_in_the_order_of_the_page() -> None:
    ledger = load_ledger(CLAIMS)
    told = render_errata(ledger, "en")
    wrong = [s for s in ledger.statements.values() if s.erratum]
    assert all(told.count(f"`{s.id}`") >= 1 for s in wrong)
    places = [told.index(f"## {Words('en')('standing.' + kind)} (") for kind in STANDINGS]
    assert places == sorted(places)
    proven = told[places[0] : places[1]]
    assert proven.index("the conclusion flips") < proven.index("the number is off")


def test_a_folder_that_is_not_there_is_one_line_and_exit_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text("[[statement]]\nid = 7\n", encoding="utf-8")
    assert main(["errata", "--claims", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
