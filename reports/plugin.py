"""The pytest hooks, and nothing else: each delegates to `ClaimsRun`."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from reports.benchmark_run import BenchmarkRun, OtherRun, asked_for, prepare
from reports.claim import Claim
from reports.control_rows import Row, raise_control_outcome
from reports.control_run import (
    as_printed,
    deselect_others,
    faults_of,
    is_control,
    keep_sound,
    parametrize,
    refuse_without_sound,
    report_row,
    row_of,
)
from reports.evidence import EvidenceInUse
from reports.ledger import LedgerError
from reports.pytest_terms import raise_outcome
from reports.recorder import Recorder
from reports.run import ClaimsRun
from reports.scaling_out import (
    BY_SECTION,
    ONE_EACH,
    choose_distribution,
    distribution,
    header,
    section_scheduler,
)
from reports.subject import SubjectHooks
from reports.verdict import Outcome

RUN = pytest.StashKey[ClaimsRun]()
CLAIM = pytest.StashKey[Claim]()
SETTLED = pytest.StashKey[dict[str, Any]]()
CONTROL = pytest.StashKey[Row]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("claims")
    group.addoption("--evidence", metavar="DIR", help="folder for this run's records (default reports/out/latest)")
    help_text = "run every claim under its planted faults instead: the fast ones, or all"
    group.addoption("--controls", nargs="?", const="fast", choices=("fast", "all"), help=help_text)
    parser.addini("claims_need_controls", "refuse a claim without a negative control", type="bool", default=False)
    parser.addini("claims_dir", "folder of ledgers and claims", type="string", default="claims")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(SubjectHooks)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "claim(id): ties a test to a statement of the ledger")
    config.addinivalue_line("markers", "control(fault): a planted fault under which the claim must go red")
    config.addinivalue_line("markers", "uncontrolled(reason): nothing can be planted in this claim")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    prepare(config)
    choose_distribution(config)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if asked_for(config):
        config.pluginmanager.register(BenchmarkRun(), "claims-benchmark-run")
        return
    config.pluginmanager.register(OtherRun(), "claims-other-run")
    folder = config.rootpath / config.getini("claims_dir")
    paths = [(config.invocation_params.dir / arg.partition("::")[0]).resolve() for arg in config.args]
    if not folder.is_dir() or not any(_touches(path, folder) for path in paths):
        return
    sections = _sections(paths, folder)
    if sections is not None and not sections:
        return
    if distribution(config) == "each":
        raise pytest.UsageError(ONE_EACH)
    evidence = Path(config.getoption("--evidence") or config.rootpath / "reports" / "out" / "latest")
    try:
        run = ClaimsRun(config, folder, evidence, sections)
        if _owns_evidence(config):
            run.evidence.open()
    except (LedgerError, EvidenceInUse, OSError) as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[RUN] = run
    if _owns_evidence(config):
        config.pluginmanager.register(Recorder(session, run), "claims-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    run = config.stash.get(RUN, None)
    if config.getoption("--controls"):
        deselect_others(config, items)
    for item in items if run else ():
        statement = run.statement_of(item) if run else None
        if statement is not None:
            for need in {"gpu", "timing"} & set(statement.needs):
                item.add_marker(need)
        elif run and item.path.parent == run.folder:
            raise pytest.UsageError(f"{item.nodeid}: a test in {run.folder.name}/ without a statement")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    run = config.stash.get(RUN, None)
    return section_scheduler(config, log, run.is_claim) if run and distribution(config) in BY_SECTION else None


def pytest_report_header(config: pytest.Config) -> list[str]:
    return header(config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    run = session.config.stash.get(RUN, None)
    if run is not None and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["claims_run"] = run.own_facts()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = metafunc.config.getoption("--controls")
    if asked:
        parametrize(metafunc, with_slow=asked == "all")


@pytest.fixture
def claim(request: pytest.FixtureRequest) -> Claim:
    """The recorder of the statement that this test is tied to."""
    item, run = request.node, request.config.stash[RUN]
    statement = run.statement_of(item)
    if statement is None:
        raise LookupError("the claim fixture needs @claim(id) on the test")
    recorder = Claim(as_printed(item, statement), run.subject_for(statement).abilities)
    item.stash[CLAIM] = recorder
    return recorder


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    run = item.config.stash.get(RUN, None)
    statement = run.statement_of(item) if run else None
    if run and statement:
        run.gate(statement)
        refused = refuse_without_sound(item, statement.id)
        if refused is not None:
            item.stash[CONTROL] = refused
            pytest.skip(refused["reason"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with faults_of(item):
        yield
    claim_of_item = item.stash.get(CLAIM, None)
    if claim_of_item is None:
        return
    record = item.stash[SETTLED] = item.config.stash[RUN].settle(claim_of_item)
    if is_control(item):
        row = item.stash[CONTROL] = row_of(item, claim_of_item, record)
        raise_control_outcome(row)
    else:
        raise_outcome(record)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    run = item.config.stash.get(RUN, None)
    statement = run.statement_of(item) if run else None
    if is_control(item) and run is not None and statement is not None:
        row = report_row(item, report, item.stash.get(CONTROL, None), statement.id)
        if row is not None:
            source = run.digests.of_faults(item.path)
            report.control = row | {"fault_source": source}  # type: ignore[attr-defined]
            keep_sound(item, row)
    elif run is not None:
        report.claim = run.record_of(item, report, item.stash.get(SETTLED, None))  # type: ignore[attr-defined]
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, Any] | None:
    record = getattr(report, "claim", None)
    if not record or report.when == "teardown":
        return None
    match Outcome(record["outcome"]):
        case Outcome.AS_RECORDED if record["verdict"] != "HOLDS":
            return "passed", record["verdict"][0], (f"ERRATUM {record['verdict']}", {"green": True})
        case Outcome.AS_RECORDED:
            return "passed", ".", ("HOLDS", {"green": True})
        case Outcome.NEW:
            return "new", "N", (f"NEW {record['verdict']}", {"cyan": True})
        case Outcome.UNRESOLVED:
            return "unresolved", "U", ("UNRESOLVED", {"yellow": True})
    return None


def _touches(path: Path, folder: Path) -> bool:
    return folder == path or folder in path.parents or path in folder.parents


def _sections(paths: list[Path], folder: Path) -> set[str] | None:
    """The sections that the command names file by file; None for all of them."""
    if any(path == folder or path in folder.parents for path in paths):
        return None
    modules = [path for path in paths if path.parent == folder and path.suffix == ".py"]
    return {path.stem.removeprefix("test_") for path in modules}


def _owns_evidence(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput") and not config.option.collectonly
