"""The mutation run (`.ci/mutate.py`) on a toy: what is tested is killed, the rest survives, red tests are no kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MUTATE = Path(__file__).parents[2] / ".ci" / "mutate.py"
TOY = '''
"""A toy: 1 < 2."""
from __future__ import annotations

def covered(a: int, b: int = 0) -> int:
    """Not 3."""
    if a > 3:
        return a + b
    raise ValueError(f"{a + 1} is too small")

def uncovered(a: int) -> int | None:
    return a * 2
'''
TEST = """
import pytest
from lib.toy import covered

def test_it():
    assert covered(4, 2) == 6 and covered(5) == 5
    with pytest.raises(ValueError):
        covered(3)
"""
COVERED = {
    "covered: 0 → 1", "covered: a > 3 → a >= 3", "covered: 3 → 4", "covered: return a + b → return None",
    "covered: a + b → a - b",
}  # fmt: skip
HALVED = "uncovered: a * 2 → a / 2"
UNCOVERED = {"uncovered: return a * 2 → return None", HALVED, "uncovered: 2 → 3"}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "lib" / "tests").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.pytest]\npythonpath = ["."]\n', encoding="utf-8")
    for name, text in {"__init__": "", "tests/__init__": "", "toy": TOY, "tests/test_toy": TEST}.items():
        (tmp_path / "lib" / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def mutate(toy: Path, *words: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(MUTATE), *words, "--results", "rows.jsonl"]
    subprocess.run(command, cwd=toy, check=True, capture_output=True, text=True, timeout=120)
    return [json.loads(line) for line in (toy / "rows.jsonl").read_text(encoding="utf-8").splitlines()]


def outcomes(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["key"]: row["outcome"] for row in rows if "key" in row}


def page_of(toy: Path) -> str:
    command = [sys.executable, str(MUTATE), "report", "--results", "rows.jsonl"]
    return subprocess.run(command, cwd=toy, check=True, capture_output=True, text=True).stdout


def test_what_is_tested_is_killed_and_the_rest_survives_until_it_is_tested(toy):
    rows = mutate(toy, "run", "--cold", "lib.toy")
    assert outcomes(rows) == dict.fromkeys(COVERED, "killed") | dict.fromkeys(UNCOVERED, "survived")
    assert (toy / "lib" / "toy.py").read_text(encoding="utf-8") == TOY
    more = TEST + "\n\ndef test_more():\n    from lib.toy import uncovered\n    assert uncovered(4) in {8, 2}\n"
    (toy / "lib" / "tests" / "test_toy.py").write_text(more, encoding="utf-8")
    rows = mutate(toy, "run", "--cold", "--again", "lib.toy")
    assert outcomes(rows) == dict.fromkeys(COVERED | UNCOVERED, "killed") | {HALVED: "survived"}
    assert "killed 5 of 8 (62.5%) at first, 7 of 8 (87.5%) now" in page_of(toy)
    assert f"`{HALVED}`: **not explained**" in page_of(toy)
    (toy / ".ci").mkdir()
    why = f"[[survivor]]\nmodule = 'lib.toy'\nmutant = '{HALVED}'\nwhy = 'a reason'\n"
    (toy / ".ci" / "mutants.toml").write_text(why, encoding="utf-8")
    assert f"`{HALVED}`: a reason" in page_of(toy)
    assert mutate(toy, "run", "--cold", "lib.toy") == rows  # nothing left to do


def test_nothing_counts_while_the_tests_are_red_without_a_mutant(toy):
    (toy / "lib" / "toy.py").write_text(TOY.replace("a > 3", "a > 4"), encoding="utf-8")
    rows = mutate(toy, "run", "--cold", "lib.toy")
    assert [row["control"] for row in rows] == [1]
