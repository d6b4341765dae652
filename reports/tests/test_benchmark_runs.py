"""Benchmark runs held against pytest and pytest-benchmark, on small trees: what runs, what stays untouched."""

import json
from pathlib import Path

import pytest
from pytest_benchmark.logger import PytestBenchmarkWarning

import fixtures.device
from reports.tests.test_plugin import IMPORTS, SUBJECT, statement, test_body

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = 'pytest_plugins = ["reports.plugin", "fixtures.device", "fixtures.slow"]\n'
# Asking the processor for its name takes seconds; nothing here depends on it.
MACHINE = 'def pytest_benchmark_generate_machine_info(): return {"cpu": {}}\n'
MARKS = "[pytest]\nfilterwarnings = error\nmarkers =\n    gpu: needs a GPU\n    slow: minutes\n"
BENCHMARKS = """
import pytest

@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_pass(benchmark, where):
    benchmark.pedantic(int, rounds=3, warmup_rounds=1)
    benchmark.extra_info["tokens_per_s"] = 7.5

@pytest.mark.slow
def test_minutes(benchmark, record_property):
    benchmark.pedantic(int, rounds=3)
    record_property("two engines", "1.06 times as long")
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """A tree with one claim and the project's own conftest for benchmarks; call it with pytest's arguments."""
    monkeypatch.setattr(fixtures.device, "cuda_is_available", lambda: False)
    benchmarks = pytester.mkdir("claims") / "benchmarks"
    benchmarks.mkdir()
    (benchmarks.parent / "toys.toml").write_text(statement("one"), encoding="utf-8")
    body = test_body("one", 'claim.measured("x", 10)')
    (benchmarks.parent / "test_toys.py").write_text(IMPORTS + body, encoding="utf-8")
    rules = (ROOT / "claims" / "benchmarks" / "conftest.py").read_text(encoding="utf-8")
    (benchmarks / "conftest.py").write_text(rules, encoding="utf-8")
    (benchmarks / "test_passes.py").write_text(BENCHMARKS, encoding="utf-8")
    pytester.makeconftest(CONFTEST + SUBJECT + MACHINE)
    pytester.makeini(MARKS)
    return lambda *args: pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rs", *args)


def evidence(pytester):
    """Every file of the last report with its time of writing and content."""
    files = (pytester.path / "reports").rglob("*")
    return {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in files if f.is_file()}


def test_benchmarks_run_beside_claims_and_leave_their_report(run, pytester):
    run("claims").assert_outcomes(passed=1, skipped=3)
    before = evidence(pytester)
    result = run("claims", "--benchmark-only")
    result.assert_outcomes(passed=1, skipped=2, deselected=1)
    assert result.ret == pytest.ExitCode.OK and before and evidence(pytester) == before
    result.stdout.fnmatch_lines(["benchmarks: 1 run, 2 skipped; claims left out: 1, their last report is kept"])
    result.stdout.no_fnmatch_line("*the chapter, checked*")


def test_what_a_benchmark_says_beyond_its_times_is_printed(run):
    result = run("claims", "--benchmark-only", "-m", "slow")
    result.assert_outcomes(passed=1, deselected=3)
    result.stdout.fnmatch_lines(["two engines: 1.06 times as long", "benchmarks: 1 run*"])


def test_benchmarks_open_no_report_where_there_was_none(run, pytester):
    run("claims", "--benchmark-only")
    assert not (pytester.path / "reports").exists()


def test_what_is_no_benchmark_is_not_counted(run, pytester):
    (pytester.path / "test_other.py").write_text("def test_other(): pass\n")
    result = run("--benchmark-only")
    result.assert_outcomes(passed=1, skipped=2, deselected=2)


def test_claims_alone_are_no_benchmark_run(run):
    """Nothing ran, so nothing is green."""
    result = run("claims/test_toys.py", "--benchmark-only")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(["benchmarks: 0 run, 0 skipped; claims left out: 1,*"])


def test_a_plain_run_times_nothing(run):
    result = run("claims/benchmarks")
    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(["*a benchmark: run with --benchmark-only"])
    result.stdout.no_fnmatch_line("*GPU test*")


def test_minutes_come_when_they_are_asked_for(run):
    result = run("claims", "--benchmark-only", "-m", "slow")
    result.assert_outcomes(passed=1, deselected=3)
    run("claims", "--benchmark-only").stdout.fnmatch_lines(["*minutes: run with -m slow"])


def test_the_gpu_set_without_a_gpu_says_so(run):
    result = run("-m", "gpu", "--benchmark-only")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(skipped=1, deselected=3)
    result.stdout.fnmatch_lines(["1 GPU test not run: torch sees no CUDA GPU here", "benchmarks: 0 run, 1 skipped*"])


def test_the_gpu_set_with_a_gpu_runs(run, monkeypatch):
    monkeypatch.setattr(fixtures.device, "cuda_is_available", lambda: True)
    result = run("-m", "gpu", "--benchmark-only")
    result.assert_outcomes(passed=1, deselected=3)


@pytest.mark.parametrize("workers", [["-n", "2"], ["-n", "1"], ["--tx", "2*popen", "--dist", "load"]])
def test_workers_are_refused_in_one_line(run, pytester, workers):
    result = run("claims", "--benchmark-only", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert str(result.stderr).strip() == (
        "ERROR: --benchmark-only needs the machine to itself: run it without -n (pytest-xdist)"
    )
    assert not (pytester.path / "reports").exists()


def test_without_workers_is_no_company(run):
    assert run("claims", "--benchmark-only", "-n", "0").ret == pytest.ExitCode.OK


def test_json_keeps_what_was_put_beside_the_times(run, pytester):
    run("claims", "--benchmark-only", "--benchmark-json", "figures.json")
    (figures,) = json.loads((pytester.path / "figures.json").read_text(encoding="utf-8"))["benchmarks"]
    assert figures["extra_info"] == {"tokens_per_s": 7.5} and figures["stats"]["rounds"] == 3


def test_a_stored_run_is_compared(run):
    with pytest.warns(PytestBenchmarkWarning, match="Can't compare"):
        first = run("claims", "--benchmark-only", "--benchmark-autosave", "--benchmark-compare")
    assert first.ret == pytest.ExitCode.OK  # nothing to compare with is a warning, not a traceback
    result = run("claims", "--benchmark-only", "--benchmark-compare")
    assert result.ret == pytest.ExitCode.OK
    for row in ("*test_pass*NOW*", "*test_pass*0001*"):  # the faster of two equals comes first
        result.stdout.fnmatch_lines([row])
