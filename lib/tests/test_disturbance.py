"""Waiting for a core, held against hand-written counters and against a core that two processes really share."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from lib.timing.disturbance import reference_workload, waited_seconds, waiting_share

BUSY = "import os\nos.sched_setaffinity(0, {%d})\nprint('on', flush=True)\nwhile True: pass"
TRY_S = 0.15  # dozens of the scheduler's slices of 3-4 ms
TRIES = 5
FOREIGN_PERCENT = 20  # of the core, in use while this process sleeps: then "alone" cannot be had


def threads(folder: Path, *counters: str) -> Path:
    for number, text in enumerate(counters):
        (folder / str(number)).mkdir()
        (folder / str(number) / "schedstat").write_text(text)
    return folder


def test_waiting_against_hand_written_counters(tmp_path: Path) -> None:
    """The second field of every thread, in nanoseconds. The first, time on a core, would say 8 seconds."""
    assert waited_seconds(threads(tmp_path, "5000000000 1500000000 7\n", "3000000000 250000000 9\n")) == 1.75


@pytest.mark.parametrize("text", ["", "12\n", "on off 1\n"])
def test_counters_that_nobody_understands_are_no_zero(tmp_path: Path, text: str) -> None:
    assert waited_seconds(threads(tmp_path, "1 1000000000 1\n", text)) is None


def test_a_thread_that_vanishes_while_we_read_is_no_zero(tmp_path: Path) -> None:
    folder = threads(tmp_path, "1 1000000000 1\n", "1 1 1\n")
    (folder / "1" / "schedstat").unlink()
    assert waited_seconds(folder) is None


def test_a_system_without_such_counters_says_so(tmp_path: Path) -> None:
    assert waited_seconds(tmp_path / "nowhere") is None


def test_the_reference_multiplies_and_reads() -> None:
    product, total = reference_workload(torch.device("cpu"))()
    assert product.shape == (512, 4864) and float(product[0, 0]) == 896
    assert float(total) == 2**25  # ones: a sum that missed a part of them would say less


@pytest.fixture
def core() -> Iterator[int]:
    """The idlest core for this thread alone, given back afterwards."""
    if waited_seconds() is None or not hasattr(os, "sched_setaffinity"):
        pytest.skip("this system does not count waiting")
    allowed = os.sched_getaffinity(0)
    busy = psutil.cpu_percent(interval=TRY_S, percpu=True)
    chosen = min(allowed, key=lambda number: busy[number])
    os.sched_setaffinity(0, {chosen})
    try:
        yield chosen
    finally:
        os.sched_setaffinity(0, allowed)


def waited_share() -> float:
    """Share of a busy while that this thread spent in the queue."""
    before, started = waited_seconds(), time.perf_counter()
    while time.perf_counter() - started < TRY_S:
        pass
    after, wall = waited_seconds(), time.perf_counter() - started
    assert before is not None and after is not None
    return (after - before) / wall


@pytest.mark.timing
def test_a_shared_core_is_told_from_one_of_our_own(core: int) -> None:
    """Others can only add to the waiting, so the least of a few tries counts both times."""
    with subprocess.Popen([sys.executable, "-c", BUSY % core], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None and busy.stdout.readline() == b"on\n"
            shared = min(waited_share() for _ in range(TRIES))
        finally:
            busy.kill()
    foreign = psutil.cpu_percent(interval=TRY_S, percpu=True)[core]
    alone = min(waited_share() for _ in range(TRIES))
    assert shared > 0.25
    if alone >= 0.10 and foreign > FOREIGN_PERCENT:
        pytest.skip(f"somebody else uses {foreign:.0f} % of the core")
    assert alone < 0.10


@pytest.mark.timing
def test_sleeping_is_no_waiting(core: int) -> None:
    before = waited_seconds()
    time.sleep(TRY_S)
    after = waited_seconds()
    assert before is not None and after is not None and after - before < 0.5 * TRY_S


@pytest.mark.parametrize(
    ("before", "after", "thread_seconds", "share"),
    [(1.0, 1.5, 2.0, 0.25), (1.0, 1.0, 2.0, 0.0), (None, None, 2.0, 0.0), (None, 1.0, 2.0, math.nan),
     (1.0, None, 2.0, math.nan), (1.5, 1.0, 2.0, math.nan), (1.0, 1.5, 0.0, math.nan)],
)  # fmt: skip
def test_share_of_waiting_by_hand(
    before: float | None, after: float | None, thread_seconds: float, share: float
) -> None:
    assert waiting_share(before, after, thread_seconds) == pytest.approx(share, nan_ok=True)
