"""The lock around timing, held against real processes that keep it, die with it or nest it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from lib.timing.exclusive import EVERYBODY, LOCK, MachineTaken, exclusive

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from lib.timing.exclusive import exclusive
with exclusive(10, Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock; killed without any chance to tidy up."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_a_second_process_waits_its_time_and_is_told(tmp_path: Path) -> None:
    with holder(tmp_path):
        started = time.monotonic()
        with pytest.raises(MachineTaken, match="another process"), exclusive(0.2, tmp_path):
            pytest.fail("both hold it")
        assert time.monotonic() - started >= 0.2


def test_a_killed_holder_frees_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
        with exclusive(5, tmp_path):
            pass


def test_a_file_that_merely_exists_would_block_forever(tmp_path: Path) -> None:
    """The wrong variant, a lock file by its existence: what a dead process left behind is no lock here."""
    (tmp_path / LOCK).touch()
    with exclusive(0, tmp_path):
        pass


def test_folders_do_not_share_a_lock(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with exclusive(0, tmp_path), exclusive(0, other):
        pass


def test_nested_in_one_process_is_refused_and_the_outer_one_keeps_holding(tmp_path: Path) -> None:
    with exclusive(0, tmp_path):
        for _ in range(2):
            with pytest.raises(MachineTaken), exclusive(0.05, tmp_path):
                pytest.fail("timed twice at once")
    with exclusive(0, tmp_path):
        pass


def test_an_error_inside_frees_the_lock_and_keeps_its_name(tmp_path: Path) -> None:
    """Also where it is a timeout of some other lock: that one says nothing about the machine."""
    for error in (KeyError("x"), Timeout("another.lock")):
        with pytest.raises(type(error)), exclusive(0, tmp_path):
            raise error
    with exclusive(0, tmp_path):
        pass


def test_another_user_can_take_it(tmp_path: Path) -> None:
    with exclusive(0, tmp_path):
        assert (tmp_path / LOCK).stat().st_mode & 0o777 == EVERYBODY


def test_the_lock_is_a_plain_file_lock(tmp_path: Path) -> None:
    """Held against filelock itself, which other tools of the project use."""
    with FileLock(tmp_path / LOCK), pytest.raises(MachineTaken), exclusive(0, tmp_path):
        pytest.fail("both hold it")
