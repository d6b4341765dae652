"""A regenerated table from hand-over to record and back: what cannot be shown is refused, and nothing is lost."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from lib.intervals import Estimate
from reports.claim import Claim
from reports.ledger import load_ledger
from reports.records import measured_record, unmeasured_record
from reports.subject import NOTHING
from reports.tables import Column, Table, TableError, table_as_json, table_from_json, table_of
from reports.verdict import Verdict

COLUMNS = [Column("scheme", name_id="skema"), Column("perplexity, published"), Column("perplexity", "1")]
ROWS = [["reference", "12.34", Estimate(12.9, 12.4, 13.5)], ["INT4", None, "not a number"], ["NF4", 13, True]]


@pytest.fixture
def claim(tmp_path):
    (tmp_path / "toys.toml").write_text(
        '[[statement]]\nid = "toys.one"\nsays = "a"\nsays_id = "b"\nwhere = "c"\nwarrant = "exact"\nneeds = []\n'
        'on_record = "holds"\npublished = [{ name = "x", value = "10", unit = "byte" }]\n',
        encoding="utf-8",
    )
    (tmp_path / "test_toys.py").write_text("")
    return Claim(load_ledger(tmp_path).statements["toys.one"], frozenset())


def test_a_table_travels_in_the_record_as_strict_json(claim):
    claim.measured("x", 10)
    claim.table("costs", COLUMNS, ROWS, title_id="biaya")
    claim.table("again", columns=COLUMNS[:1], rows=[["a"]])
    stored = json.loads(json.dumps(measured_record(claim, claim.conclude(), NOTHING), allow_nan=False))
    assert stored["verdict"] == Verdict.HOLDS
    assert [t["title"] for t in stored["tables"]] == ["costs", "again"]
    assert stored["tables"][0]["rows"][0] == ["reference", "12.34", {"value": 12.9, "low": 12.4, "high": 13.5}]
    assert [table_from_json(raw) for raw in stored["tables"]] == claim.tables
    assert unmeasured_record(claim.statement, NOTHING, "why")["tables"] == []


def test_a_table_decides_nothing(claim):
    claim.table("costs", COLUMNS, ROWS)
    with pytest.raises(AssertionError, match="never measured"):
        claim.conclude()


def test_titles_are_unique_within_a_claim(claim):
    claim.table("costs", COLUMNS, ROWS)
    with pytest.raises(TableError, match=r"toys.one: table 'costs' handed over twice"):
        claim.table("costs", COLUMNS, ROWS)
    assert len(claim.tables) == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["short", 1], r"table 't', row 2: 2 cells for 3 columns"),
        (["long", 1, 2, 3], r"row 2: 4 cells for 3 columns"),
        (["nan", None, math.nan], r"row 2, column 'perplexity': nan is no finite number: say so in words"),
        (["infinite", math.inf, 1], r"column 'perplexity, published': inf is no finite number"),
        (["ends", None, Estimate(1, 0, math.inf)], "is no finite number"),
        (["beyond every float", None, 10**400], "is no finite number"),
        (["fraction", None, Fraction(1, 3)], "cannot show a Fraction"),
        (["numpy's integer", None, np.int64(3)], "cannot show a int64: hand over text, plain numbers"),
        (["nested", None, [1]], "cannot show a list"),
        ("abc", "neither a Column nor a row of cells"),
        ({"a": 1, "b": 2, "c": 3}, "neither a Column nor a row of cells"),
    ],
)
def test_a_planted_fault_in_a_row_is_refused_with_its_place(claim, row, message):
    with pytest.raises(TableError, match=message):
        claim.table("t", COLUMNS, [ROWS[0], row])
    assert claim.tables == []


@pytest.mark.parametrize(
    ("title", "columns", "rows"),
    [(" ", COLUMNS, ROWS), (3, COLUMNS, ROWS), ("t", [], [[]]), ("t", COLUMNS, []), ("t", ["a", "b", "c"], ROWS),
     ("t", [("a", "1")], [["a"]]), ("t", [Column("a", 1)], [["a"]])],
)  # fmt: skip
def test_titles_and_columns_are_checked(title, columns, rows):
    with pytest.raises(TableError):
        table_of(title, columns, rows)


def test_numbers_of_numpy_become_builtin_ones():
    """Only those travel between the processes of xdist."""
    ends = (np.float64(1.5), np.float64(1), np.float64(2))
    ((number, interval),) = table_of("t", COLUMNS[:2], [[np.float64(0.5), Estimate(*ends)]]).rows
    assert [type(n) for n in (number, interval.value, interval.low, interval.high)] == [float] * 4


@pytest.mark.parametrize(
    "damage",
    [
        {"rows": [["a", 1]]}, {"rows": "ab"}, {"rows": ["abc"]}, {"columns": None}, {"columns": [{"nom": "a"}]},
        {"columns": 3}, {"columns": [{"name": 1}]}, {"title": None}, {"title": ""}, {"title_id": 3},
        {"rows": [["a", 1, {"value": 1}]]}, {"rows": [["a", 1, {"value": 9, "low": 1, "high": 2}]]},
        {"rows": [["a", 1, {"value": "1", "low": "1", "high": "2"}]]}, {"rows": [["a", 1, math.nan]]},
        {"rows": [["a", 1, {"value": math.nan, "low": 1, "high": 2}]]}, {"rows": [["a", 1, [2]]]},
        {"rows": [["a", 1, 10**400]]}, {"rows": [["a", 1, {"value": 10**400, "low": 1, "high": 10**500}]]},
    ],
)  # fmt: skip
def test_damage_in_a_record_is_told_and_never_another_exception(damage):
    whole = table_as_json(table_of("t", COLUMNS, [["a", 1, 2]]))
    assert isinstance(table_from_json(whole), Table)
    with pytest.raises(TableError):
        table_from_json(whole | damage)


@pytest.mark.parametrize("raw", [None, 3, "t", [], {}])
def test_what_is_no_table_is_no_table(raw):
    with pytest.raises(TableError):
        table_from_json(raw)
