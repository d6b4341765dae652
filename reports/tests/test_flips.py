"""A figure or a case that moves is seen, also behind a verdict that stays."""

import numpy  # noqa: F401  # pytester forgets what a run inside it imported, and numpy cannot be loaded twice
import pytest

from reports.tests.test_plugin import ERRATUM, record_of, statement, test_body, toys  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")

TWO_FIGURES = """
expects = [
  { name = "first", relation = "less", value = "1", why = "toy", on_record = "refuted" },
  { name = "second", relation = "less", value = "1", why = "toy"SECOND },
]
"""


@pytest.mark.parametrize(
    ("second", "value", "changed"), [("", 0, False), ("", 2, True), (', on_record = "refuted"', 0, True)]
)
def test_a_figure_cannot_flip_behind_a_worse_one(toys, second, value, changed):  # noqa: F811
    """The statement stays REFUTED through its first figure; a second one that moves must still be seen."""
    head = statement("one", f'on_record = "refuted"\n{ERRATUM}').partition("published")[0]
    ledger = head + TWO_FIGURES.replace("SECOND", second)
    toys(ledger, test_body("one", f'claim.measured("first", 2); claim.measured("second", {value})'))
    record = record_of(toys, "one")
    assert (record["verdict"], record["outcome"]) == ("REFUTED", "changed" if changed else "as-recorded")
    assert ("second is" in record["reason"]) is changed


CASES = (
    """
[[statement]]
id = "toys.cases"
says = "Below ten."
says_id = "Di bawah sepuluh."
where = "somewhere"
warrant = "exact"
needs = []
on_record = "conditional"
"""
    + ERRATUM
    + """
  [[statement.expects]]
  name = "below"
  relation = "less"
  value = "10"
  why = "ours"
  over = "length"
  on_record = "conditional"
  true_at = ["8", "16"]
"""
)


@pytest.mark.parametrize(
    ("measured", "flipped"),
    [
        ({8: 1, 16: 2, 32: 20}, []),
        ({8: 1, 16: 20, 32: 20}, ["16"]),  # fails where it held
        ({8: 1, 16: 2, 32: 3, 64: 20}, ["32"]),  # holds where it failed
        ({8: 20, 16: 20, 32: 1}, ["8", "16", "32"]),  # turned round, and conditional all the same
    ],
)
def test_no_case_of_a_condition_flips_unseen(toys, measured, flipped):  # noqa: F811
    result = toys(CASES, test_body("cases", f'claim.measured("below", {measured!r})'))
    result.assert_outcomes(**({"failed": 1} if flipped else {"passed": 1}))
    record = record_of(toys, "cases")
    assert (record["verdict"], record["aspects"]["below"]["flipped_cases"]) == ("CONDITIONAL", flipped)
    assert ("below flipped at" in record["reason"]) is bool(flipped)
