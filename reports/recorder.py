"""The hooks of the one process that writes evidence: the controller under xdist, else the process itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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
        self.lost = ""  # why something could not be stored; empty once it is

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # under xdist the controller has none: its workers tell it
            with self._kept():
                self.run.collect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        with self._kept():
            self.run.collect(ids, node.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.run.hear(node.gateway.id, getattr(node, "workeroutput", {}).get("claims_run"))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        with self._or_stop():
            self.run.start(nodeid)

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
                self.run.controls.append(report.control)
                self.run.store_controls()
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
            self.run.store_controls()
        if self.lost:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if self.run.records and not self.run.measured_anything():
            session.exitstatus = session.exitstatus or pytest.ExitCode.NO_TESTS_COLLECTED
        self.run.evidence.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line, markup in control_lines(self.run.controls):
            terminalreporter.write_line(line, **markup)
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
        line = "; ".join(filter(None, [self.run.parting_line(), self.lost]))
        terminal = config.pluginmanager.getplugin("terminalreporter")
        if line and terminal is not None:
            terminal.write_line(line, **RED)

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


def _shown(page: Path, config: pytest.Config) -> Path:
    here = config.invocation_params.dir
    return page.relative_to(here) if page.is_relative_to(here) else page
