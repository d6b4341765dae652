"""Benchmarks wait for `--benchmark-only`; with it claims stay out, the last report stays, nothing runs beside them."""

from __future__ import annotations

import pytest

# With every warning an error, "nothing stored to compare with yet" would end the run in a traceback.
WARNINGS_STAY = "default::pytest_benchmark.logger.PytestBenchmarkWarning"


def prepare(config: pytest.Config) -> None:
    """Before anything starts; raises UsageError, in one line, for benchmarks that would run beside other workers."""
    workers = config.getoption("numprocesses", None) or config.getoption("tx", None)
    if asked_for(config) and workers:
        raise pytest.UsageError("--benchmark-only needs the machine to itself: run it without -n (pytest-xdist)")
    if config.pluginmanager.hasplugin("benchmark"):
        config.addinivalue_line("filterwarnings", WARNINGS_STAY)


def asked_for(config: pytest.Config) -> bool:
    """Whether this session runs benchmarks and nothing else."""
    return bool(config.getoption("benchmark_only", False))


class OtherRun:
    """The hook of every other session."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Figures of a machine come when they are asked for."""
        if _is_benchmark(item):
            pytest.skip("a benchmark: run with --benchmark-only")


class BenchmarkRun:
    """The hooks of a session of benchmarks."""

    def __init__(self) -> None:
        self.claims = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is no benchmark: a claim would be skipped, and recorded as not measured."""
        others = [item for item in items if not _is_benchmark(item)]
        self.claims = sum(item.get_closest_marker("claim") is not None for item in others)
        items[:] = [item for item in items if _is_benchmark(item)]
        config.hook.pytest_deselected(items=others)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What benchmarks say beyond their times, and one line: what was run and what was not."""
        ended = [r for outcome in ("passed", "failed", "xfailed") for r in terminalreporter.getreports(outcome)]
        for name, text in (said for report in ended for said in report.user_properties):
            terminalreporter.write_line(f"{name}: {text}")
        run = len(ended)
        skipped = len(terminalreporter.getreports("skipped"))
        claims = f"; claims left out: {self.claims}, their last report is kept" if self.claims else ""
        terminalreporter.write_line(f"benchmarks: {run} run, {skipped} skipped{claims}", bold=True)


def _is_benchmark(item: pytest.Item) -> bool:
    """The rule of pytest-benchmark itself."""
    return "benchmark" in getattr(item, "fixturenames", ())
