"""A re-run's exit status is not ours to judge: what counts is the evidence that it leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from reports.drift import rerun as rerun_module
from reports.tests.drift_samples import claims, evidence


def test_a_rerun_that_ends_red_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def red(command: list[str], check: bool, **_: Any) -> None:
        evidence(Path(command[command.index("--evidence") + 1]), claims())
        if check:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(rerun_module.subprocess, "run", red)
    assert len(rerun_module.rerun(2, tmp_path)(["claims/test_a.py::test_b"])) == 2
