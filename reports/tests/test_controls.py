"""Negative controls, held against pytest itself: planted faults in small claims, seen, missed and undecided."""

import json
from fractions import Fraction

import pytest

from lib.intervals import Estimate
from reports.judge import judge
from reports.ledger import Figure
from reports.plants import argument, mistaken, reads, scaled, shifted
from reports.sensitivity import smallest_change
from reports.tests.test_plugin import IMPORTS, statement, toys  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")

MORE = IMPORTS + "from reports.controls import control, misprint\nfrom reports.plants import scaled, reads\n"
BODY = '@claim("toys.one")\n{controls}\ndef test_one(claim):\n    claim.measured("x", count())\n'
COUNT = "def count():\n    return 10\n"


@pytest.fixture
def under(toys):  # noqa: F811
    def run(controls, *args, record='on_record = "holds"', count=COUNT):
        result = toys(statement("one", record), MORE + count + BODY.format(controls=controls), "--controls", *args)
        path = toys.folder / "controls.json"
        return result, json.loads(path.read_text(encoding="utf-8"))["controls"] if path.exists() else []

    run.folder = toys.folder
    return run


@pytest.mark.parametrize("workers", [[], ["-n1"]])
def test_a_fault_that_turns_the_claim_red_is_seen(under, workers):
    result, rows = under('@control("twice", "count", scaled(2))\n@misprint("x", "11")', *workers)
    result.assert_outcomes(passed=3)
    assert [row.get("seen") for row in rows] == [None, True, True]
    assert [row["control"] for row in rows] == [None, "twice", "x is 11 in the text"]
    result.stdout.fnmatch_lines(["2 faults planted in 1 claim: 2 seen, 0 missed, 0 undecided"])
    result.stdout.no_fnmatch_line("NEW *")


def test_a_fault_that_nobody_notices_fails_and_is_named(under):
    result, rows = under('@control("hardly more", "count", scaled(1.01))')
    result.assert_outcomes(passed=1, failed=1)
    assert rows[1]["seen"] is False
    result.stdout.fnmatch_lines(["MISSED toys.one: hardly more"])


def test_a_claim_left_open_under_its_fault_is_neither_seen_nor_missed(under):
    result, rows = under('@control("unsure", "count", reads(Estimate(10, 9, 20)))')
    result.assert_outcomes(passed=1, skipped=1)
    assert rows[1]["seen"] is None


def test_a_claim_with_nothing_on_record_is_told_why_no_fault_shows(under):
    result, rows = under('@misprint("x", "11")', record="")
    result.assert_outcomes(skipped=2)
    assert rows[1]["seen"] is None
    result.stdout.fnmatch_lines(["NEW toys.one: nothing on record*"])


def test_a_fault_is_gone_after_its_test(under):
    _, rows = under('@control("twice", "count", scaled(2))\n@control("thrice", "count", scaled(3))')
    assert [row["reason"][:20] for row in rows[1:]] == ["x is REFUTED, on rec"] * 2
    assert "20 byte" in rows[1]["reason"] and "30 byte" in rows[2]["reason"]


def test_a_target_that_is_not_there_is_an_error(under):
    result, rows = under('@control("typo", "cuont", scaled(2))')
    result.assert_outcomes(passed=1, failed=1)
    assert rows[1]["seen"] is False and rows[1]["outcome"] == "crashed"
    result.stdout.fnmatch_lines(["MISSED toys.one: typo (crashed: *NoSuchTarget*cuont*"])


def test_a_run_of_controls_leaves_the_claims_records_alone(under, pytester):
    under('@control("twice", "count", scaled(2))')
    assert not list(under.folder.glob("records/*")) and not (under.folder / "summary.json").exists()
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider").assert_outcomes(passed=1)
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider", "--controls").assert_outcomes(passed=2)
    assert (under.folder / "summary.json").exists()


def test_slow_faults_are_planted_when_all_are_asked_for(toys, pytester):  # noqa: F811
    body = BODY.format(controls='@control("twice", "count", scaled(2), slow=True)')
    result = toys(statement("one"), MORE + COUNT + body, "--controls")
    assert result.parseoutcomes() == {"deselected": 1}
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider", "--controls=all").assert_outcomes(passed=2)


def test_a_claim_without_a_control_is_refused_where_controls_are_asked_for(toys, pytester):  # noqa: F811
    pytester.makeini("[pytest]\nclaims_need_controls = true\n")
    result = toys(statement("one"), MORE + COUNT + BODY.format(controls=""))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_toys.py: test_one: statement 'toys.one' has no control: *@misprint*"])
    (pytester.path / "claims" / "test_toys.py").write_text(
        MORE + COUNT + BODY.format(controls='@misprint("x", "11")'), encoding="utf-8"
    )
    pytester.runpytest_inprocess("claims", "-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_plants_change_readings_and_nothing_else():
    def real(n, *, of="a"):
        return {"n": n, "share": Estimate(0.5, 0.4, 0.6), "name": of, "good": True, "row": [1, Fraction(1, 2)]}

    twice = scaled(2)(real)(3, of="b")
    assert twice == {"n": 6, "share": Estimate(1.0, 0.8, 1.2), "name": "b", "good": True, "row": [2, Fraction(1)]}
    assert type(twice["n"]) is int
    assert shifted(1)(real)(3)["row"] == [2, Fraction(3, 2)]
    assert argument("of", str.upper)(real)(3, of="b")["name"] == "B"
    assert reads(7)(real)() == 7 and reads(7)(5) == 7
    assert mistaken({"a": "b"})(dict.get)({"a": 1, "b": 2}, "a") == 2


FIGURE = Figure("x", "printed", "equal", "10")


@pytest.mark.parametrize(
    ("figure", "measured", "expected"),
    [
        (FIGURE, 10, 0.05),  # half a unit of the last digit
        (FIGURE, Estimate(10, 9.9, 10.1), 0.0594),  # the upper end has to pass 9.5: 10.1 × 0.9406
        (Figure("x", "declared", "greater", "5"), 10, 0.5),
        (Figure("x", "declared", "true"), True, 1.0),
        (Figure("x", "declared", "true", over="case"), {"a": True, "b": False}, 1.0),  # one of them alone
        (Figure("x", "declared", "increasing"), [1, 2, 4], 0.5),  # two down to one, or one up to two
        (Figure("x", "declared", "less", "3"), 0, 1.0),
    ],
)
def test_smallest_change_against_the_distance_to_the_line(figure, measured, expected):
    assert smallest_change(figure, measured) == pytest.approx(expected, rel=1e-3)


def test_smallest_change_does_flip_and_a_smaller_one_does_not():
    size = smallest_change(FIGURE, 10.2)
    ends = [judge(FIGURE, 10.2 * (1 + size * share)).verdict for share in (0.999, 1.001)]
    assert ends[0] != ends[1]
