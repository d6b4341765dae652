"""What a session imports: nothing heavy while it collects, nor for arithmetic that needs no model."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reports.tests.toy_runs import ROOT, ToyRun

HEAVY = frozenset({"torch", "transformers", "scipy"})
IDLE = HEAVY | {"hypothesis", "anyio"}  # plugins of ours or of others load them where nobody uses them
# Pytest in a process of its own that says, after everything pytest does, which of the modules it has loaded.
WATCHED = """
import sys, pytest
code = pytest.main(sys.argv[2:])
print(sorted({*sys.argv[1].split()} & {*sys.modules}))
sys.exit(code)
"""
TOY = ("-p", "no:anyio", "-p", "no:cacheprovider")


def loaded(folder: Path, *args: str, among: frozenset[str] = IDLE) -> set[str]:
    """Which of the modules a session has loaded at its end."""
    command = [sys.executable, "-c", WATCHED, " ".join(sorted(among)), *args]
    found = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=found, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("more", [(), ("--controls=all",)], ids=["claims", "controls"])
def test_collecting_the_claims_loads_nothing_heavy(tmp_path: Path, more: tuple[str, ...]) -> None:
    evidence = f"--evidence={tmp_path}"
    assert loaded(ROOT, "claims", "--collect-only", "-q", evidence, *more) == set()


def test_arithmetic_is_judged_without_torch(tmp_path: Path) -> None:
    assert (
        loaded(ROOT, "claims", "-k", "memory_budget", "-q", "-p", "no:cacheprovider", f"--evidence={tmp_path}") == set()
    )
    rows = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["claims"]
    judged = [row["verdict"] for row in rows.values() if row["verdict"] != "NOT_MEASURED"]
    assert len(judged) >= 6 and {name.partition(".")[0] for name in rows} == {"memory-budget"}


@pytest.mark.parametrize("name", ["torch", "scipy"])
def test_a_claims_file_that_imports_at_its_top_is_found(tmp_path: Path, name: str) -> None:
    """The wrong variant."""
    toys = ToyRun(tmp_path).write()
    path = tmp_path / "claims" / "test_toys.py"
    assert loaded(tmp_path, "claims", "--collect-only", "-q", f"--evidence={toys.evidence}", *TOY, among=HEAVY) == set()
    path.write_text(f"import {name}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    found = loaded(tmp_path, "claims", "--collect-only", "-q", f"--evidence={toys.evidence}", *TOY, among=HEAVY)
    assert name in found


def test_hypothesis_stays_for_a_test_that_uses_it(tmp_path: Path) -> None:
    """Its own summary is still given."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["reports.idle_plugins"]\n', encoding="utf-8")
    test = "from hypothesis import given, strategies\n\n@given(strategies.none())\ndef test_none(value): pass\n"
    (tmp_path / "test_toy.py").write_text(test, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--hypothesis-show-statistics", *TOY, "test_toy.py"]
    done = ToyRun(tmp_path).start(command).communicate()[0]
    assert "Hypothesis Statistics" in done and "test_none" in done
