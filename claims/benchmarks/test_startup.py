"""What a session takes before it measures anything: pytest in a process of its own, no model, no torch.

`pytest claims/ --benchmark-only -k startup`. Whole processes, best of five on two cores of a
shared machine, in seconds; before and after were measured an hour and a half apart:

    |                        | before | after |
    |------------------------|--------|-------|
    | collection             |   8.08 |  0.66 |
    | `-k memory_budget`     |   8.75 |  1.12 |
    | collection of controls |   7.50 |  0.66 |

Before: claims files imported torch, transformers and scipy at their tops, and the plugin
of Hypothesis its whole library at the end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 5
BEFORE_S = {"collection": 8.08, "memory-budget": 8.75, "controls": 7.50}
ASKED_S = {"collection": 2.0, "memory-budget": 5.0}
SESSIONS = {
    "collection": ("--collect-only",),
    "memory-budget": ("-k", "memory_budget"),
    "controls": ("--controls", "--collect-only"),
}


@pytest.mark.benchmark(group="start-up")
@pytest.mark.parametrize("name", SESSIONS)
def test_startup(benchmark: BenchmarkFixture, pytestconfig: pytest.Config, tmp_path: Path, name: str) -> None:
    """One session from its start to its last line."""
    command = [sys.executable, "-m", "pytest", "claims", "-q", f"--evidence={tmp_path}", *SESSIONS[name]]

    def session() -> None:
        subprocess.run(command, cwd=pytestconfig.rootpath, capture_output=True, check=True)  # noqa: S603

    benchmark.pedantic(session, rounds=ROUNDS)
    benchmark.extra_info |= {"before_s": BEFORE_S[name], "asked_s": ASKED_S.get(name)}
