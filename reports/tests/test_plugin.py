"""The plugin held against pytest itself: small claim folders, run for real, their outcomes and evidence read back."""

import json
import signal
import subprocess
import sys
import time

import numpy  # noqa: F401  # pytester forgets what a run inside it imported, and numpy cannot be loaded twice
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")

STATEMENT = """
[[statement]]
id = "toys.{name}"
says = "It is ten."
says_id = "Sepuluh."
where = "somewhere"
warrant = "exact"
needs = [{needs}]
{record}
{pending}
published = [{{ name = "x", value = "10", unit = "byte"{figure} }}]
"""
ERRATUM = 'erratum = "Not ten."\nerratum_id = "Bukan."\nstanding = "proven"'
IMPORTS = "import time, os, pytest\nfrom lib.intervals import Estimate\nfrom reports.claim import claim\n"
CONFTEST = 'pytest_plugins = ["reports.plugin"]\n'
SUBJECT = """
import pytest

from reports.tests.samples import opened
from reports.subject import Subject

def pytest_claim_subject(config):
    return Subject(frozenset({"model"}), {"name": "Toy", "slug": "toy", "device": "cpu", "parameters": 1})
"""


def statement(name, record='on_record = "holds"', needs="", pending=""):
    figure = ', on_record = "refuted"' if "refuted" in record else ""
    return STATEMENT.format(name=name, record=record, needs=needs, pending=pending, figure=figure)


def test_body(name, body):
    return f'@claim("toys.{name}")\ndef test_{name}(claim):\n    {body}\n'


test_body.__test__ = False


PENDING = statement("one", record="", pending="pending = true")
STRAY = "def test_stray(): pass\n"


@pytest.fixture
def toys(pytester):
    """Write a claims folder with one section and run it."""

    def run(ledger, tests, *args, conftest=SUBJECT):
        folder = pytester.mkdir("claims")
        (folder / "toys.toml").write_text(ledger, encoding="utf-8")
        (folder / "test_toys.py").write_text(IMPORTS + tests, encoding="utf-8")
        pytester.makeconftest(CONFTEST + conftest)
        return pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider", *args)

    run.folder = pytester.path / "reports" / "out" / "latest"
    return run


def collected(toys):
    return json.loads((toys.folder / "collected.json").read_text(encoding="utf-8"))["collected"]


def record_of(toys, name):
    return json.loads((toys.folder / "records" / f"toys.{name}.json").read_text(encoding="utf-8"))


def test_outcomes_against_the_record(toys):
    names = ("holds", "erratum", "flipped", "mended", "open", "fresh", "broken")
    refuted = f'on_record = "refuted"\n{ERRATUM}'
    records = {"erratum": refuted, "mended": refuted, "fresh": ""}
    values = {"erratum": "11", "flipped": "11", "open": "Estimate(10, 9, 11)"}
    bodies = {name: f'claim.measured("x", {values.get(name, "10")})' for name in names} | {"broken": "1 / 0"}
    ledger = "".join(statement(name, records.get(name, 'on_record = "holds"')) for name in names)
    result = toys(ledger, "\n".join(test_body(name, bodies[name]) for name in names))
    result.assert_outcomes(passed=2, failed=3)
    verdicts = {name: (record_of(toys, name)["verdict"], record_of(toys, name)["outcome"]) for name in names}
    assert verdicts == {
        "holds": ("HOLDS", "as-recorded"),
        "erratum": ("REFUTED", "as-recorded"),
        "flipped": ("REFUTED", "changed"),
        "mended": ("HOLDS", "changed"),
        "open": ("UNRESOLVED", "unresolved"),
        "fresh": ("HOLDS", "new"),
        "broken": (None, "error"),
    }
    result.stdout.fnmatch_lines(["*toys.flipped: REFUTED, on record HOLDS*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_measured_values_are_recorded_also_when_they_pass(toys):
    toys(statement("one"), test_body("one", 'claim.measured("x", 10); claim.measured("beside", 3, unit="s")'))
    aspects = record_of(toys, "one")["aspects"]
    assert aspects["x"]["measured"] == 10 and aspects["x"]["published"]["interval"] == [9.5, 10.5]
    assert aspects["beside"]["verdict"] is None and aspects["beside"]["unit"] == "s"


def test_summary_is_keyed_by_claim_and_counts_pending(toys):
    ledger = statement("one") + statement("later", record="", pending="pending = true")
    toys(ledger, test_body("one", 'claim.measured("x", 10)'))
    summary = json.loads((toys.folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["counts"]["HOLDS"] == 1 and summary["counts"]["pending"] == 1
    assert summary["claims"]["toys.later"]["outcome"] == "pending"
    assert (toys.folder / "report.html").is_file() and (toys.folder / "report.md").is_file()


def test_unmet_needs_are_not_measured_with_the_reason(toys):
    ledger = statement("one") + statement("gpu", needs='"gpu"')
    result = toys(ledger, "\n".join(test_body(name, 'claim.measured("x", 10)') for name in ("one", "gpu")))
    result.assert_outcomes(passed=1, skipped=1)
    assert record_of(toys, "gpu")["reason"] == "needs a GPU; this run has none"


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_the_plan_names_what_was_selected_and_the_machine(toys, workers):
    bodies = "".join(test_body(name, 'claim.measured("x", 10)') for name in ("one", "two"))
    toys(statement("one") + statement("two"), bodies, "-k", "two", *workers)
    assert collected(toys) == ["toys.two"]
    machine = json.loads((toys.folder / "summary.json").read_text(encoding="utf-8"))["run"]["machine"]
    assert machine["class"] and machine["cores"] > 0


def test_running_something_else_keeps_the_last_report(toys, pytester):
    """Benchmarks and the instruments' own tests are no claims runs: they must not empty the evidence folder."""
    toys(statement("one"), test_body("one", 'claim.measured("x", 10)'))
    (pytester.path / "claims" / "benchmarks").mkdir()
    for room in ("claims/benchmarks", "lib"):
        (pytester.path / room).mkdir(exist_ok=True)
        (pytester.path / room / f"test_{room[:3]}.py").write_text("def test_other(): pass\n")
    pytester.runpytest_inprocess("lib", "claims/benchmarks", "-p", "no:cacheprovider").assert_outcomes(passed=2)
    pytester.runpytest_inprocess("claims", "--collect-only", "-p", "no:cacheprovider")
    pytester.runpytest_inprocess("claims", "-k", "nothing_here", "-p", "no:cacheprovider")
    assert record_of(toys, "one")["verdict"] == "HOLDS"


def test_a_run_that_measures_nothing_fails(toys):
    result = toys(statement("gpu", needs='"gpu"'), test_body("gpu", 'claim.measured("x", 10)'))
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize(
    ("ledger", "tests", "line"),
    [
        (statement("one"), "", "*statement 'toys.one' has no test*"),
        (statement("one"), test_body("two", "pass"), "*no statement 'toys.two' in the ledger*"),
        (PENDING, test_body("one", "pass"), "*marked pending but has a test*"),
        (statement("one"), test_body("one", "pass") * 2, "*'toys.one' already has a test*"),
        (statement("one"), test_body("one", "pass") + STRAY, "*test_stray: a test in claims/ without*"),
        (statement("one").replace('"10"', '"ten"'), test_body("one", "pass"), "*figure 'x': malformed number 'ten'*"),
        (statement("one") * 2, test_body("one", "pass"), "*duplicate id 'toys.one'*"),
    ],
)
def test_a_ledger_fault_is_one_line_before_anything_runs(toys, ledger, tests, line):
    result = toys(ledger, tests)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {line}"])
    assert not (toys.folder / "records").exists()


def test_a_figure_that_is_never_measured_is_an_error(toys):
    toys(statement("one"), test_body("one", 'claim.measured("y", 10)'))
    assert "never measured ['x']" in record_of(toys, "one")["error"]


def test_workers_write_nothing_themselves_and_agree(toys):
    ledger = statement("one") + statement("two", 'on_record = "refuted"\n' + ERRATUM)
    tests = test_body("one", 'claim.measured("x", 10)') + test_body("two", 'claim.measured("x", 12)')
    result = toys(ledger, tests, "-n2")
    result.assert_outcomes(passed=2)
    assert record_of(toys, "two")["verdict"] == "REFUTED"


TABLE = """claim.measured("x", 10)
    ends = [numpy.float64(n) for n in (12.9, 12.4, 13.5)]
    claim.table("costs", [Column("scheme"), Column("size", "byte")], [["a|b", Estimate(*ends)], ["c", None]])"""
TABLE_IMPORTS = "import numpy\nfrom reports.tables import Column\n"


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_a_table_reaches_record_and_pages_also_from_a_worker(toys, workers):
    from reports.tests.samples import opened

    toys(statement("one"), TABLE_IMPORTS + test_body("one", TABLE), *workers).assert_outcomes(passed=1)
    (table,) = record_of(toys, "one")["tables"]
    assert table["rows"] == [["a|b", {"value": 12.9, "low": 12.4, "high": 13.5}], ["c", None]]
    assert "| a\\|b | 12.9 (12.4 – 13.5) |" in (toys.folder / "report.md").read_text(encoding="utf-8")
    assert ">costs</figcaption>" in opened((toys.folder / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("rows", ['[["a"]]', '[["a", float("nan")]]'])
def test_a_table_that_cannot_be_shown_is_an_error_with_its_place(toys, rows):
    body = f'claim.measured("x", 10); claim.table("costs", [Column("a"), Column("b")], {rows})'
    toys(statement("one"), TABLE_IMPORTS + test_body("one", body)).assert_outcomes(failed=1)
    assert "table 'costs', row 1" in record_of(toys, "one")["error"]


def test_a_section_stays_on_one_worker(toys):
    names = [f"s{i}" for i in range(8)]
    body = "claim.measured('x', 10); claim.measured('pid', os.getpid())"
    toys("".join(map(statement, names)), "".join(test_body(name, body) for name in names), "-n2")
    assert len({record_of(toys, name)["aspects"]["pid"]["measured"] for name in names}) == 1


def test_a_crashed_worker_leaves_an_error_row(toys):
    ledger = statement("one") + statement("two")
    crash = test_body("one", 'claim.measured("x", 10)') + test_body("two", "os._exit(3)")
    toys(ledger, crash, "-n1", "--max-worker-restart=0")
    assert record_of(toys, "one")["verdict"] == "HOLDS"
    assert record_of(toys, "two")["outcome"] == "error"


def test_sigkill_keeps_what_had_ended_and_disturbs_nobody(toys, pytester):
    ledger = statement("one") + statement("two")
    tests = test_body("one", 'claim.measured("x", 10)') + test_body("two", 'time.sleep(60 * ("slow" in os.environ))')
    toys(ledger, tests, "--collect-only")
    command = [sys.executable, "-m", "pytest", "claims", "-p", "no:cacheprovider"]
    environment = {"PYTHONPATH": str(pytest_root()), "PATH": "", "slow": "1"}
    process = subprocess.Popen(command, cwd=pytester.path, env=environment, stdout=subprocess.DEVNULL)
    record = toys.folder / "records" / "toys.one.json"
    deadline = time.monotonic() + 30
    while not record.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert record_of(toys, "one")["verdict"] == "HOLDS"
    assert collected(toys) == ["toys.one", "toys.two"]
    assert not list(toys.folder.rglob("*.part"))
    again = pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider", "-k", "one")
    again.assert_outcomes(passed=1, deselected=1)


def test_a_file_where_the_evidence_folder_should_be_is_one_line(toys, pytester):
    (pytester.path / "taken").write_text("")
    result = toys(statement("one"), test_body("one", 'claim.measured("x", 10)'), "--evidence", "taken")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: evidence folder taken cannot be used: *"])


def test_two_runs_in_one_folder_are_refused(toys):
    from reports.evidence import EvidenceFolder

    other = EvidenceFolder(toys.folder)
    other.open()
    try:
        result = toys(statement("one"), test_body("one", 'claim.measured("x", 10)'))
    finally:
        other.close()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*in use by another run*"])


def pytest_root():
    from pathlib import Path

    return Path(__file__).resolve().parents[2]
