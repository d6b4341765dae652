"""Runs that are killed, interrupted, or robbed of their folder: nothing that had ended is lost, and the end says so."""

from __future__ import annotations

import json
import random
import shutil
import sys
from pathlib import Path

import pytest

from reports.tests.toy_runs import ToyRun, allowed, ended

ALL = [f"toys.s{number}" for number in range(5)]
MOUNTS = allowed("unshare", "-m", "true")
needs_mounts = pytest.mark.skipif(not MOUNTS, reason="a small disk needs a mount namespace (unshare -m), refused here")
SMALL_DISK = (
    "unshare",
    "-m",
    "sh",
    "-c",
    'mount -t tmpfs -o size=256k tmpfs E && "$@"; code=$?; cp -a E out; exit $code',
    "-",
)
FILL = """
def fill():
    with Path("E/ballast").open("wb", buffering=0) as stream:
        try:
            while True: stream.write(bytes(1024))
        except OSError: pass
"""
FULL_TERMINAL = """
def pytest_runtest_logreport(report):
    if report.when == "call" and "s1" in report.nodeid: raise OSError(28, "No space left on device")
"""
FREED = 'def pytest_sessionfinish():\n    Path("E/ballast").unlink()\n'
AT_THE_END = "def pytest_sessionfinish():\n    fill()\n"
# What a worker has done counts as ended once its controller has heard of it.
ONCE_STORED = "assert any(Path('E/records/toys.s1.json').exists() or time.sleep(0.01) for _ in range(3000))"
WORKERS = pytest.mark.parametrize("workers", [[], ["-n1"]])


@pytest.fixture
def toys(tmp_path: Path) -> ToyRun:
    (tmp_path / "E").mkdir()
    return ToyRun(tmp_path)


def nothing_half_written(folder: Path) -> bool:
    return not list(folder.rglob("*.part"))


def test_without_a_fault_there_is_nothing_to_say(toys: ToyRun) -> None:
    run = toys.write().run()
    assert (run.code, sorted(toys.records())) == (0, ALL)
    assert "not finished" not in run.output and "5 passed" in run.last
    assert toys.document("summary.json")["run"]["interrupted"] is False


@needs_mounts
@WORKERS
def test_a_disk_that_fills_ends_the_run_in_one_line_and_keeps_what_had_ended(toys: ToyRun, workers: list[str]) -> None:
    toys.write(bodies={2: f"{ONCE_STORED}; from conftest import fill; fill()"}, conftest=FILL)
    run = toys.run(*workers, within=SMALL_DISK)
    assert run.code == pytest.ExitCode.INTERRUPTED and not run.failed_itself, run.output
    assert run.last.startswith("not finished: 3 of 5 claims ended; E cannot take ") and "No space left" in run.last
    assert sorted(toys.records("out")) == ALL[:2] and nothing_half_written(toys.folder / "out")
    assert not (toys.folder / "out" / "summary.json").exists()
    assert "5 statements: 3 holds, 2 no record" in run.output  # the third, which is not on disk, is on the screen


@needs_mounts
def test_a_disk_with_room_again_gets_what_it_had_refused(toys: ToyRun) -> None:
    toys.write(bodies={2: "from conftest import fill; fill()"}, conftest=FILL + FREED)
    run = toys.run(within=SMALL_DISK)
    assert (run.code, run.last) == (pytest.ExitCode.INTERRUPTED, "not finished: 3 of 5 claims ended")
    assert sorted(toys.records("out")) == ALL[:3]
    assert toys.document("summary.json", "out")["run"]["interrupted"] is True


@needs_mounts
def test_a_disk_that_fills_at_the_end_keeps_every_record(toys: ToyRun) -> None:
    run = toys.write(conftest=FILL + AT_THE_END).run(within=SMALL_DISK)
    assert run.code == pytest.ExitCode.TESTS_FAILED and not run.failed_itself, run.output
    assert run.last.startswith("E cannot take ") and run.last.endswith(": No space left on device")
    assert sorted(toys.records("out")) == ALL and nothing_half_written(toys.folder / "out")


def test_a_terminal_that_takes_no_more_loses_no_claim_that_had_ended(toys: ToyRun) -> None:
    """The wrong variant keeps a record once the outcome is shown: here s1's is not, and would be lost."""
    run = toys.write(conftest=FULL_TERMINAL).run()
    assert run.code != 0
    assert sorted(toys.records()) == ALL[:2]


@needs_mounts
def test_a_folder_that_becomes_read_only_ends_the_run_in_one_line(toys: ToyRun) -> None:
    toys.write(bodies={2: 'os.system("mount --bind E E && mount -o remount,bind,ro E")'})
    run = toys.run(within=SMALL_DISK)
    assert run.code == pytest.ExitCode.INTERRUPTED and not run.failed_itself, run.output
    assert run.last.startswith("not finished: 3 of 5 claims ended; E cannot take ") and "Read-only" in run.last
    assert sorted(toys.records("out")) == ALL[:2]


def test_a_folder_that_vanishes_is_made_again_from_what_the_run_knows(toys: ToyRun) -> None:
    run = toys.write(bodies={2: '__import__("shutil").rmtree("E")'}).run()
    assert (run.code, run.failed_itself, sorted(toys.records())) == (0, False, ALL)
    assert toys.document("collected.json")["collected"] == ALL


def test_what_is_removed_from_a_folder_is_put_back_at_the_end(toys: ToyRun) -> None:
    run = toys.write(bodies={2: '__import__("shutil").rmtree("E/records")'}).run()
    assert (run.code, sorted(toys.records())) == (0, ALL)


def test_a_folder_that_another_made_in_the_place_of_ours_is_left_alone(toys: ToyRun) -> None:
    """`rm -rf` and a second run while the first one goes on: its lock is on a file that nobody sees any longer."""
    theirs = '__import__("shutil").rmtree("E"); Path("E").mkdir(); Path("E/.lock").touch()'
    run = toys.write(bodies={2: theirs}).run()
    assert run.code == pytest.ExitCode.INTERRUPTED and not run.failed_itself
    assert (
        run.last
        == "not finished: 3 of 5 claims ended; evidence folder E is another's now: it was replaced during the run"
    )
    assert [path.name for path in toys.evidence.iterdir()] == [".lock"]


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_ctrl_c_leaves_summary_and_page_that_say_so(toys: ToyRun, workers: list[str]) -> None:
    toys.write(bodies={2: f"{ONCE_STORED}; os.killpg(0, signal.SIGINT); time.sleep(30)"})
    run = toys.run(*workers)
    assert run.code == pytest.ExitCode.INTERRUPTED and not run.failed_itself, run.output
    assert run.last == "not finished: 2 of 5 claims ended"
    summary = toys.document("summary.json")
    assert summary["run"]["interrupted"] is True and sorted(summary["claims"]) == ALL[:2] == sorted(toys.records())
    page = (toys.evidence / "report.md").read_text(encoding="utf-8")
    assert "This run did not finish." in page and page.count("∅ no record `toys.") == 3
    assert (toys.evidence / "report.html").is_file()


def test_ctrl_c_before_anything_has_ended_leaves_a_page_of_gaps(toys: ToyRun) -> None:
    run = toys.write(bodies={0: "os.kill(os.getpid(), signal.SIGINT)"}).run()
    assert (run.code, run.last) == (pytest.ExitCode.INTERRUPTED, "not finished: 0 of 5 claims ended")
    assert toys.document("summary.json")["run"]["interrupted"] is True


def test_ctrl_c_after_the_last_claim_is_an_interrupt_all_the_same(toys: ToyRun) -> None:
    """Something was still to be done (a teardown, a check), and was not."""
    late = "def pytest_runtest_logfinish(nodeid):\n    if nodeid.endswith('s4'): raise KeyboardInterrupt\n"
    run = toys.write(conftest=late).run()
    assert run.code == 2 and sorted(toys.records()) == ALL
    assert toys.document("summary.json")["run"]["interrupted"] is True


def test_a_run_that_stops_at_its_first_failure_is_not_whole(toys: ToyRun) -> None:
    run = toys.write(bodies={2: "1 / 0"}).run("-x")
    assert (run.code, run.last) == (pytest.ExitCode.TESTS_FAILED, "not finished: 3 of 5 claims ended")
    assert toys.document("summary.json")["run"]["interrupted"] is True


def test_a_worker_that_the_kernel_kills_for_memory_is_an_error_row_and_the_rest_is_done(toys: ToyRun) -> None:
    run = toys.write(bodies={2: "os.kill(os.getpid(), signal.SIGKILL)"}).run("-n2")
    outcomes = {name: record["outcome"] for name, record in toys.records().items()}
    assert outcomes == dict.fromkeys(ALL, "as-recorded") | {"toys.s2": "error"}
    assert run.code == pytest.ExitCode.TESTS_FAILED and "ERROR toys.s2: worker 'gw0' crashed" in run.output


def test_two_runs_at_once_in_two_folders_agree(toys: ToyRun) -> None:
    toys.write(bodies={0: "time.sleep(0.3)"})
    both = [toys.start(toys.command(evidence=name)) for name in ("left", "right")]
    assert [ended(process).code for process in both] == [0, 0]
    assert toys.lasting("left") == toys.lasting("right") and sorted(toys.records("left")) == ALL


# One process that has imported everything, and a child of it for each run. A child with a `moment` kills itself at its
# moment-th call of a Python or C function between the first claim's start and the page; without one it counts them.
KILLER = """
import json, os, shutil, signal, sys
import pytest, jinja2, reports.plugin, reports.render.page, reports.render.markdown
moments = json.loads(sys.argv[1])
for place, moment in enumerate(moments):
    child = os.fork()
    if not child:
        os.environ["MOMENT"] = str(moment)
        sys.stdout = sys.stderr = open(os.devnull, "w")
        os._exit(pytest.main(sys.argv[2:]))
    _, status = os.waitpid(child, 0)
    shutil.copytree("E", f"after{place}")
    shutil.copy("ended", f"after{place}/ended")
    print(os.waitstatus_to_exitcode(status))
"""
DIES = """
import signal, sys
CALLS = [0]
def pytest_runtest_logstart():
    if not CALLS[0]:
        Path("ended").write_text("")
        sys.setprofile(count)
def count(frame, event, argument):
    CALLS[0] += event in ("call", "c_call")
    if CALLS[0] and CALLS[0] == int(os.environ.get("MOMENT", 0)):
        os.kill(os.getpid(), signal.SIGKILL)
@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    handle = os.open("ended", os.O_WRONLY | os.O_APPEND)
    os.write(handle, nodeid.rpartition("_")[2].encode() + b"\\n")
    os.close(handle)
import reports.render
def write_pages(*given, original=reports.render.write_pages):
    sys.setprofile(None)  # most calls of so small a run are the page's: they would draw nearly every moment
    Path("calls").write_text(str(CALLS[0]))
    return original(*given)
reports.render.write_pages = write_pages
"""
IN_PIECES = """
import reports.evidence
def write_text(path, text):
    path.parent.mkdir(exist_ok=True)
    with path.open("wb", buffering=0) as stream:
        for byte in text.encode(): stream.write(bytes([byte]))
reports.evidence.write_text = write_text
"""


def killed_at(toys: ToyRun, moments: list[int]) -> list[int]:
    """Run once per moment, all in one folder, a copy of which is kept each time; the exit codes."""
    arguments = [*toys.command()[3:], "-Wignore::pytest.PytestAssertRewriteWarning"]
    command = [sys.executable, "-c", KILLER, json.dumps(moments), *arguments]
    run = ended(toys.start(command))
    assert run.code == 0, run.output
    return [int(code) for code in run.output.split()]


def what_is_wrong(toys: ToyRun, evidence: str) -> str:
    """Empty where every claim that had ended has a whole record and everything else is whole, too."""
    folder = toys.folder / evidence
    for path in sorted(folder.rglob("*.json")):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            return f"{path.name} is not whole"
    lost = {f"toys.{name}" for name in (folder / "ended").read_text().split()} - set(toys.records(evidence))
    return f"lost {sorted(lost)}" if lost else ""


def kill_at_random(toys: ToyRun, conftest: str) -> list[str]:
    toys.write(12, conftest=DIES + conftest)
    assert killed_at(toys, [0]) == [0]
    calls, generator = int((toys.folder / "calls").read_text()), random.Random(8)  # noqa: S311
    shutil.rmtree(toys.folder / "after0")
    moments = [generator.randrange(1, calls) for _ in range(20)]
    assert killed_at(toys, moments) == [-9] * 20
    return [what_is_wrong(toys, f"after{place}") for place in range(20)]


def test_sigkill_at_twenty_random_moments_loses_nothing_that_had_ended(toys: ToyRun) -> None:
    assert kill_at_random(toys, "") == [""] * 20
    reached = {len(toys.records(f"after{place}")) for place in range(20)}
    assert len(reached) > 5, reached  # moments early and late
    assert toys.run().code == 0 and toys.run(evidence="fresh").code == 0
    assert toys.lasting() == toys.lasting("fresh") and nothing_half_written(toys.evidence)


def test_a_writer_in_pieces_is_caught_by_the_same_kills(toys: ToyRun) -> None:
    """The wrong variant."""
    found = kill_at_random(toys, IN_PIECES)
    assert any("is not whole" in what for what in found), found
