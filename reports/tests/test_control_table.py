"""What a run of controls may call seen, and whether its table is whole: against sound runs that are not, and kills."""

import json
import os
import signal

import pytest

from reports.render.load import load_page
from reports.tests.test_controls import under  # noqa: F401
from reports.tests.test_plugin import toys  # noqa: F401
from reports.tests.toy_runs import ToyRun, ended

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")
NOTHING = '@control("nothing", "count", lambda real: real)'
CRASH = "def crash(real):\n    def wrong(): raise RuntimeError('under the fault')\n    return wrong\n"
SKIP = "def skip(real):\n    def wrong(): pytest.skip('no text')\n    return wrong\n"
COUNT = "def count():\n    return 10\n"


@pytest.mark.parametrize(
    ("count", "code", "outcome"),
    [
        ("return 11", 1, "changed"),
        ("raise ValueError", 1, "crashed"),
        ("return Estimate(10, 9, 20)", 0, "unresolved"),
        ("pytest.skip('no text')", 0, "not run"),
    ],
)
@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_a_fault_that_does_nothing_is_not_seen_where_the_claim_is_not_as_recorded(under, workers, count, code, outcome):  # noqa: F811
    result, rows = under(NOTHING, *workers, count=f"def count():\n    {count}\n")
    assert [row["outcome"] for row in rows] == [outcome, "undecided"] and result.ret == code
    assert rows[1]["seen"] is None and rows[1]["reason"].startswith("undecided: as it is, the claim is ")
    result.stdout.fnmatch_lines(["1 fault planted in 1 claim: 0 seen, 0 missed, 1 undecided"])
    result.stdout.fnmatch_lines(["UNDECIDED toys.one: 1 fault, undecided: as it is*", "*none in toys.one"])


def test_a_fault_without_the_claim_as_it_is_is_undecided(under):  # noqa: F811
    _, rows = under('@control("twice", "count", scaled(2))', "-k", "twice")
    assert [(row["seen"], "select it too" in row["reason"]) for row in rows] == [(None, True)]


def test_a_fault_that_crashes_is_missed_and_one_that_skips_is_not_run(under):  # noqa: F811
    faults = '@control("crash", "count", crash)\n@control("skip", "count", skip)'
    result, rows = under(faults, count=COUNT + CRASH + SKIP)
    assert [(row["outcome"], row["seen"]) for row in rows[1:]] == [("crashed", False), ("not run", None)]
    assert result.ret == 1
    result.stdout.fnmatch_lines(["2 faults planted in 1 claim: 0 seen, 1 missed, 0 undecided, 1 not run"])
    result.stdout.fnmatch_lines(["MISSED *RuntimeError: under the fault)", "NOT RUN toys.one: skip (not run: no text)"])


def test_a_narrower_run_keeps_the_rows_of_what_it_did_not_plant(under, pytester):  # noqa: F811
    under('@control("twice", "count", scaled(2))\n@control("thrice", "count", scaled(3))')
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider", "--controls", "-k", "not twice")
    document = json.loads((under.folder / "controls.json").read_text(encoding="utf-8"))
    assert sorted(str(row["control"]) for row in document["controls"]) == ["None", "thrice", "twice"]
    assert document["claims"] == {"toys.one": {"planned": 2, "rows": 2}}


@pytest.mark.parametrize(
    ("sent", "args", "last"),
    [
        (signal.SIGKILL, [], None),
        (signal.SIGKILL, ["-n1"], ""),
        (signal.SIGINT, [], "1 of 3 faults planted; not finished"),
        (signal.SIGTERM, [], "1 of 3 faults planted; not finished"),
    ],
)
def test_a_run_that_was_cut_off_leaves_a_table_that_says_so(tmp_path, sent, args, last):
    toys = ToyRun(tmp_path).write(1)  # noqa: F811
    fault = f"lambda real: lambda: os.kill(os.getpid(), {int(sent)}) or time.sleep(30)"
    marks = f'@control("a", "count", scaled(2))\n@control("b", "count", {fault})\n@control("c", "count", scaled(3))\n'
    path = tmp_path / "claims" / "test_toys.py"
    told = path.read_text(encoding="utf-8").replace('"x", 10', '"x", count()').replace("def test", marks + "def test")
    more = "from reports.controls import control\nfrom reports.plants import scaled\ndef count(): return 10\n"
    path.write_text(told.replace("@claim", more + "@claim", 1), encoding="utf-8")
    run = ended(toys.start(toys.command("--controls", *args)))
    document = toys.document("controls.json")
    if args:  # the worker's death is a row; what came after it has no sound run in the new worker
        assert [row["outcome"] for row in document["controls"]][2:3] == ["crashed"] and run.code == 1
        return
    assert document["claims"] == {"toys.s0": {"planned": 3, "rows": 1}} and run.code != 0
    assert last is None or run.last == last, run.output
    assert os.path.exists(tmp_path / "E" / "controls.json")


def test_a_claim_with_slow_faults_only_is_named(toys):  # noqa: F811
    from reports.tests.test_controls import BODY, MORE
    from reports.tests.test_plugin import statement

    body = BODY.format(controls='@misprint("x", "11")')
    slow = '@claim("toys.two")\n@misprint("x", "11", slow=True)\ndef test_two(claim):\n    claim.measured("x", 10)\n'
    result = toys(statement("one") + statement("two"), MORE + COUNT + body + slow, "--controls")
    result.stdout.fnmatch_lines(["NONE PLANTED toys.two: *slow*", "*seen in 1 of 2 statements; none in toys.two"])


@pytest.mark.parametrize(
    ("change", "symbol"),
    [
        (lambda run, row: None, "✓"),
        (lambda run, row: row.update(fault_source="other"), "–"),
        (lambda run, row: row.update(model={"slug": "toy", "dtype": "float16"}), "–"),
        (lambda run, row: (row.pop("fault_source"), row.update(commit="other", dirty=False)), "–"),
    ],
    ids=["same", "other code", "other model", "old file of another commit"],
)
def test_a_mark_is_shown_only_beside_a_verdict_of_the_same_code_and_model(under, pytester, change, symbol):  # noqa: F811
    under('@control("twice", "count", scaled(2))')
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider")
    path = under.folder / "controls.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    for row in document["controls"]:
        change(document["run"], row)
    path.write_text(json.dumps(document), encoding="utf-8")
    page = load_page(under.folder)
    assert [fault.symbol for claim in page.claims for fault in claim.faults] == [symbol]
    assert ("faults_stale" in dict(page.warnings)) is (symbol == "–")


def test_a_page_says_that_the_table_is_not_whole(under, pytester):  # noqa: F811
    under('@control("twice", "count", scaled(2))')
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider")
    path = under.folder / "controls.json"
    assert "faults_unfinished" not in dict(load_page(under.folder).warnings)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["claims"]["toys.one"]["planned"] = 3
    path.write_text(json.dumps(document), encoding="utf-8")
    assert dict(load_page(under.folder).warnings)["faults_unfinished"] == "1 / 3"


def test_why_a_fault_was_not_planted_is_one_line_and_no_command_to_a_runner(under):  # noqa: F811
    """The wrong variant prints a reason as it comes: its second line is one that a runner reading the log obeys."""
    skip = "import pytest\ndef skip(real):\n    pytest.skip('no text\\n##[error]gone')\n"
    result, _ = under('@control("skip", "count", skip)', count=COUNT + skip)
    told = next(line for line in result.outlines if line.startswith("NOT RUN"))
    assert told.endswith("no text ##[error]gone)")
