"""One run of the claims: which statements, on what, what happened to each. The plugin's hooks delegate to this."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from reports.claim import Claim, missing_needs
from reports.evidence import EvidenceFolder
from reports.ledger import Ledger, Statement, load_ledger
from reports.machine import machine_facts
from reports.pairs import check_controls, check_pairs, tests_of
from reports.provenance import SourceDigests, run_facts, threads_in_use
from reports.pytest_terms import last_line, skip_reason
from reports.records import SCHEMA, Record, build_summary, error_record, measured_record, unmeasured_record
from reports.scaling_out import without_hosts
from reports.subject import NOTHING, Subject
from reports.verdict import Outcome


class ClaimsRun:
    """The state of one pytest session over a folder of claims; created once, kept in the config's stash."""

    def __init__(self, config: pytest.Config, folder: Path, evidence: Path, sections: set[str] | None) -> None:
        self.config = config
        self.folder = folder
        self.evidence = EvidenceFolder(evidence)
        whole = load_ledger(folder)
        self.size = len(whole.statements)
        self.ledger: Ledger = whole.within(sections)
        self.tests = tests_of(folder, sections)
        check_pairs(self.ledger, self.tests)
        if config.getini("claims_need_controls"):
            check_controls(folder, sections)
        self.records: dict[str, Record] = {}
        self.collected: list[str] = []
        self.collections: dict[str, frozenset[str]] = {}  # by worker; "" is this process
        self.workers: dict[str, dict[str, Any]] = {}  # what each worker said of itself
        self._machines: dict[str, str] = {}  # by worker, from its records
        self.started = datetime.now(UTC)
        self._clock_start = time.monotonic()
        self.begun = False
        self._has_folder = False  # the records of the run before are gone, and this run's plan lies there
        self.digests = SourceDigests(config.rootpath)

    @cached_property
    def machine_class(self) -> str:
        """The class of the machine that this process measures on: a worker's, where there are workers."""
        return str(machine_facts()["class"])

    def statement_of(self, item: pytest.Item) -> Statement | None:
        """The statement that an item tests, None for a test that is no claim."""
        marker = item.get_closest_marker("claim")
        return None if marker is None else self.ledger.statements[marker.args[0]]

    def subject_for(self, statement: Statement) -> Subject:
        """What the statement is tested on; nothing is resolved or imported for one that needs no model."""
        needs = frozenset(statement.needs).union(*(f.needs for f in statement.figures.values()))
        if not needs:
            return NOTHING
        return self.config.hook.pytest_claim_subject(config=self.config, needs=needs) or NOTHING

    def gate(self, statement: Statement) -> None:
        """Skip, before any fixture is set up, a claim that this run cannot measure."""
        lacking = missing_needs(statement.needs, self.subject_for(statement).abilities)
        if lacking:
            pytest.skip(lacking)

    def settle(self, claim: Claim) -> Record:
        """Decide a claim whose test has ended, and say so in pytest's terms by raising skip or fail."""
        subject = self.subject_for(claim.statement)
        return measured_record(claim, claim.conclude(), subject)

    def record_of(self, item: pytest.Item, report: pytest.TestReport, settled: Record | None) -> Record | None:
        """The record for one phase of a claim's test; None for a phase that decides nothing."""
        statement = self.statement_of(item)
        if statement is None:
            return None
        record = self._phase_record(statement, report, settled)
        return record and record | self._measured_by(item, report)

    def is_claim(self, nodeid: str) -> bool:
        """Whether a node id is a claim's, be it as it is or under a fault: those have to share a process."""
        return self._statement_id(nodeid.partition("[")[0]) is not None

    def collect(self, nodeids: Iterable[str], worker: str = "") -> None:
        """Which claims this run is about to test: a reader of its evidence can tell a gap from what was not asked.

        Every worker says so; what only some of them found is to be tested too.
        """
        found = frozenset(i for i in map(self._statement_id, nodeids) if i is not None)
        self.collections[worker] = found
        self.collected = sorted(found.union(self.collected))
        if self.collected and not self.begun:  # should it die before its first claim: what is there is another's
            self._write_plan()

    def start(self, nodeid: str) -> None:
        """A test starts; with the first claim the records of the run before have had their day."""
        if self._statement_id(nodeid) is not None:
            self._begin()

    def hear(self, worker: str, facts: dict[str, Any] | None) -> None:
        """A worker has ended, and this is what it measured with; None from one that died."""
        if facts is not None:
            self.workers[worker] = facts

    def own_facts(self) -> dict[str, Any]:
        """What this process measures with: code, versions, machine."""
        return {key: value for key, value in self.facts().items() if key not in {"command", "started"}}

    def refuse_differing(self) -> bool:
        """Whether workers found different claims (then xdist runs none of them): each is an error, not a silence."""
        if len(set(self.collections.values())) < 2:
            return False
        if not self.begun:
            self._begin()
            found = ", ".join(f"{worker} {len(ids)}" for worker, ids in sorted(self.collections.items()))
            error = f"not run: the workers collected different claims ({found})"
            for statement_id in self.collected:
                self.add(error_record(self.ledger.statements[statement_id], NOTHING, error))
        return True

    def add(self, record: Record, worker: str = "") -> None:
        """Keep and store a record (only the process that owns the evidence does)."""
        if "machine" in record:
            self._machines[worker] = record["machine"]
        self.records[record["id"]] = record
        if self.evidence.has_vanished():
            self._store_again()
        elif self._has_folder:
            self.evidence.write_record(record)

    def add_crash(self, nodeid: str, error: str, worker: str = "") -> None:
        """A worker died inside a claim: an error row instead of a gap, on the machine that it was on if known."""
        statement_id = self._statement_id(nodeid)
        if statement_id is not None and statement_id not in self.records:
            known = {"machine": self._machines[worker]} if worker in self._machines else {}
            self.add(error_record(self.ledger.statements[statement_id], NOTHING, error) | known)

    def summary(self) -> dict[str, Any]:
        """The summary of what has been recorded so far."""
        run = self.facts()
        run["seconds"] = round(time.monotonic() - self._clock_start, 1)
        run["statements"] = self.size
        run["collected"] = self.collected
        if self.workers:
            run["workers"] = {worker: self.workers[worker] for worker in sorted(self.workers)}
        run["threads"] = next((r["threads"] for r in self.records.values() if r.get("threads")), None)
        return build_summary(run, self._model(), self.ledger, self.records.values())

    def finish(self, interrupted: bool = False) -> list[Path]:
        """Store the summary and render the pages; the pages' paths. A run that has left out a claim was interrupted."""
        summary = self.summary()
        summary["run"]["interrupted"] = interrupted or bool(self.unreached())
        return self.evidence.write_summary(summary)

    def restore(self) -> None:
        """At the end: offer the folder what it does not hold, because it refused it or lost it."""
        if not self.begun:
            return
        if self.evidence.has_vanished():
            self._store_again()
        if not self._has_folder:
            self._take_folder()
        for record in self.records.values():
            if not self.evidence.has_record(record["id"]):
                self.evidence.write_record(record)

    def unreached(self) -> list[str]:
        """Claims that were to be tested and have no record."""
        return [i for i in self.collected if i not in self.records]

    def parting_line(self) -> str:
        """How far a run got that did not get through; empty for any other."""
        missing = len(self.unreached())
        ended = len(self.collected) - missing
        return f"not finished: {ended} of {len(self.collected)} claims ended" if missing and self.begun else ""

    def measured_anything(self) -> bool:
        """Whether at least one claim ended in a verdict (an error counts: something ran)."""
        return any(r["outcome"] != Outcome.NOT_MEASURED for r in self.records.values())

    def _begin(self) -> None:
        """With its first claim a run takes the folder over."""
        if not self.begun:
            self.begun = True
            self._take_folder()

    def _take_folder(self) -> None:
        self.evidence.clear()
        self._write_plan()
        self._has_folder = True

    def _write_plan(self) -> None:
        self.evidence.write_plan({"schema": SCHEMA, "run": self.facts(), "collected": self.collected})

    def _store_again(self) -> None:
        """The folder has vanished under the run: make it anew, from what the run still knows."""
        self.evidence.open_again()
        self._take_folder()
        for record in self.records.values():
            self.evidence.write_record(record)

    def facts(self) -> dict[str, Any]:
        """The run's circumstances: code, versions, machine, command, and when it started."""
        facts = run_facts(self.config.rootpath, ["pytest", *without_hosts(self.config.invocation_params.args)])
        return facts | {"started": self.started.isoformat(timespec="seconds")}

    def _statement_id(self, nodeid: str) -> str | None:
        return self.tests.get(nodeid.rpartition("/")[2])

    def _phase_record(self, statement: Statement, report: pytest.TestReport, settled: Record | None) -> Record | None:
        subject = self.subject_for(statement)
        if report.when == "call" and settled is not None:
            return settled
        if report.failed:
            return error_record(statement, subject, last_line(report))
        if report.skipped and report.when in {"setup", "call"}:
            return unmeasured_record(statement, subject, skip_reason(report))
        return None

    def _measured_by(self, item: pytest.Item, report: pytest.TestReport) -> Record:
        return {
            "seconds": round(report.duration, 3),
            "test": f"{self.folder.name}/{item.path.name}::{item.name}",
            "threads": threads_in_use(),
            "machine": self.machine_class,
            "source": self.digests.of_claim(item.path),
            "fault_source": self.digests.of_faults(item.path),
        }

    def _model(self) -> Mapping[str, Any] | None:
        models = [r["model"] for r in self.records.values() if r.get("model")]
        return max(models, key=lambda m: m.get("parameters") is not None, default=None)
