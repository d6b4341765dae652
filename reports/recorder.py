"""The hooks of the one process that writes evidence: the controller under xdist, else the process itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from reports.control_run import left_out
from reports.control_table import ControlTable
from reports.evidence import EvidenceInUse, EvidenceLost
from reports.run import ClaimsRun
from reports.scaling_out import distribution, worker_of
from reports.terminal import RED, control_lines, line_width, summary_lines


class Recorder:
    """Keeps what a session finds, and says at its end what was found and what could not be kept.

    A record that cannot be stored ends the run: whatever it would still measure, for minutes, could not be kept
    either, and a kill would take it all. Everything is offered to the folder once more at the end.
    """

    def __init__(self, session: pytest.Session, run: ClaimsRun) -> None:
        self.session, self.config, self.run = session, session.config, run
        self.pages: list[Path] = []
        self.controls = ControlTable(run.tests, run.evidence.folder / "controls.json")
        self.left_out: dict[str, str] = {}  # claims in which a run of controls plants nothing, and why
        self._sigterm: Any = None  # what a polite kill did before
        if self.config.getoption("--controls") and current_thread() is main_thread():
            self._sigterm = signal.signal(signal.SIGTERM, _interrupt)
        self.lost = ""  # why something could not be stored; empty once it is

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        if self.config.getoption("--controls") and not self.config.option.keyword and not self.config.option.markexpr:
            self.left_out |= left_out(items)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # under xdist the controller has none: its workers tell it
            with self._kept():
                self.run.collect(item.nodeid for item in session.items)
            self.controls.plan(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        with self._kept():
            self.run.collect(ids, node.gateway.id)
        self.controls.plan(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.run.hear(node.gateway.id, getattr(node, "workeroutput", {}).get("claims_run"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        with self._or_stop():
            self.run.start(nodeid)
            if self.controls.is_one(nodeid) and not self.controls.rows:
                self._store_controls()  # the plan: a kill must not leave what looks whole

    @pytest.hookimpl(wrapper=True)  # the terminal has shown the outcome, should this be the last one
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Iterator[None]:
        """Keep what a test ended with, also where the terminal could not show it: a full disk, a closed pipe."""
        try:
            yield
        finally:
            self._keep(report)

    def _keep(self, report: pytest.TestReport) -> None:
        record = getattr(report, "claim", None)
        with self._or_stop():
            if getattr(report, "control", None):
                self.controls.add(report.nodeid, report.control)
                self._store_controls()
            elif report.failed and self.controls.is_one(report.nodeid):
                self.controls.add_crash(report.nodeid, str(report.longrepr))
                self._store_controls()
            elif record:
                self.run.add(record, worker_of(report))
            elif report.failed:
                self.run.add_crash(report.nodeid, str(report.longrepr), worker_of(report))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.lost = ""
        with self._kept():
            if self.run.refuse_differing():
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        with self._kept():
            self.run.restore()
        if self.run.begun:
            with self._kept():
                self.pages = self.run.finish(interrupted=session.exitstatus == pytest.ExitCode.INTERRUPTED)
        with self._kept():
            self._store_controls()
        if self.lost or self.controls.unfinished():
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if self.run.records and not self.run.measured_anything():
            session.exitstatus = session.exitstatus or pytest.ExitCode.NO_TESTS_COLLECTED
        self.run.evidence.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line, markup in control_lines(list(self.controls.rows.values()), self.controls.unfinished(), self.left_out):
            terminalreporter.write_line(" ".join(line.split()), **markup)
        if not self.run.begun:
            return
        terminalreporter.section("the chapter, checked")
        for line, markup in summary_lines(self.run.summary(), line_width(terminalreporter.isatty())):
            terminalreporter.write_line(line, **markup)
        for page in self.pages:
            terminalreporter.write_line(f"report: {_shown(page, self.config)}")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """The last line of a run that did not get through, or whose findings are not all on disk."""
        line = "; ".join(filter(None, [self.run.parting_line(), self.controls.unfinished(), self.lost]))
        terminal = config.pluginmanager.getplugin("terminalreporter")
        if line and terminal is not None:
            terminal.write_line(line, **RED)
        if self._sigterm is not None:
            signal.signal(signal.SIGTERM, self._sigterm)

    def _store_controls(self) -> None:
        if self.controls.planned:
            document = self.controls.document(self.run.facts(), self.run.size)
            self.run.evidence.write_controls(document)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except (EvidenceLost, EvidenceInUse) as error:
            self.lost = self.lost or str(error)

    @contextmanager
    def _or_stop(self) -> Iterator[None]:
        with self._kept():
            yield
        if self.lost:
            self.session.shouldstop = self.lost
        if self.lost and distribution(self.config) != "no":  # xdist asks nobody, and would let its workers go on
            raise self.session.Interrupted(self.lost)


def _interrupt(_number: int, _frame: object) -> None:
    """A polite kill ends a run of controls as Ctrl-C does: its table says how far it got."""
    raise KeyboardInterrupt


def _shown(page: Path, config: pytest.Config) -> Path:
    here = config.invocation_params.dir
    return page.relative_to(here) if page.is_relative_to(here) else page
