"""Measured curves from hand-over to record and back: what cannot be drawn is refused, and nothing is lost."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from lib.intervals import Estimate
from reports.claim import Claim
from reports.ledger import load_ledger
from reports.plots import LARGEST, MAX_CURVES, Axis, Curve, Plot, PlotError, plot_as_json, plot_from_json, plot_of
from reports.records import error_record, measured_record, pending_record, unmeasured_record
from reports.subject import NOTHING
from reports.verdict import Verdict

X, Y = Axis("context", "token", "konteks", "log"), Axis("time of a step", "ms")
CURVES = [
    Curve("measured", {1024: Estimate(1.08, 1.02, 1.11), 16: Estimate(1, 1, math.inf)}, name_id="terukur"),
    Curve("predicted", [(16, 1.0), (1024, 1.04)], dashed=True, labels=("a", "b")),
]
PAIR = [(1, 2)]


@pytest.fixture
def claim(tmp_path):
    (tmp_path / "toys.toml").write_text(
        '[[statement]]\nid = "toys.one"\nsays = "a"\nsays_id = "b"\nwhere = "c"\nwarrant = "exact"\nneeds = []\n'
        'on_record = "holds"\npublished = [{ name = "x", value = "10", unit = "byte" }]\n',
        encoding="utf-8",
    )
    (tmp_path / "test_toys.py").write_text("")
    return Claim(load_ledger(tmp_path).statements["toys.one"], frozenset())


def whole():
    return plot_as_json(plot_of("t", X, Y, CURVES, "j"))


def test_a_plot_travels_in_the_record_as_strict_json(claim):
    claim.measured("x", 10)
    claim.plot("cost", x=X, y=Y, curves=CURVES, title_id="biaya")
    claim.plot("again", x=Axis("n"), y=Y, curves=tuple(CURVES[:1]))
    stored = json.loads(json.dumps(measured_record(claim, claim.conclude(), NOTHING), allow_nan=False))
    assert stored["verdict"] == Verdict.HOLDS
    first = stored["plots"][0]
    assert (first["title_id"], first["x"]["scale"], first["y"]["scale"]) == ("biaya", "log", "linear")
    assert first["curves"][0]["points"][0] == [16, {"value": 1, "low": 1, "high": "inf"}]
    assert [plot_from_json(raw) for raw in stored["plots"]] == claim.plots


def test_records_without_a_plot_have_an_empty_list(claim):
    claim.measured("x", 10)
    records = [unmeasured_record(claim.statement, NOTHING, "why"), error_record(claim.statement, NOTHING, "e")]
    records += [pending_record(claim.statement), measured_record(claim, claim.conclude(), NOTHING)]
    assert [record["plots"] for record in records] == [[]] * 4


def test_a_plot_decides_nothing(claim):
    claim.plot("cost", x=X, y=Y, curves=CURVES)
    with pytest.raises(AssertionError, match="never measured"):
        claim.conclude()


def test_titles_are_unique_within_a_claim(claim):
    claim.plot("cost", x=X, y=Y, curves=CURVES)
    with pytest.raises(PlotError, match=r"toys.one: plot 'cost' handed over twice"):
        claim.plot("cost", x=X, y=Y, curves=CURVES)
    assert len(claim.plots) == 1


def test_a_mapping_is_joined_in_the_order_of_x_with_its_labels():
    curve = Curve("c", {64: 3, 1: 1, 8: 2}, labels=["sixty-four", "one", "eight"])
    assert curve.pairs == ((1, 1), (8, 2), (64, 3))
    assert curve.labels == ("one", "eight", "sixty-four")


def test_pairs_are_joined_in_the_order_given():
    """A measured latency may turn back, and the line with it."""
    curve = Curve("c", [(3.0, 1), (2.5, 2), (2.5, 4)], labels=("1", "2", "4"))
    assert curve.pairs == ((3.0, 1), (2.5, 2), (2.5, 4)) and curve.labels == ("1", "2", "4")


def test_numbers_become_builtin_ones():
    """Only those travel between the processes of xdist; exact arithmetic hands over fractions."""
    curve = Curve("c", [(np.float64(1.5), Estimate(Fraction(1, 4), np.float64(0), Fraction(1, 2))), (True + 1, 2)])
    ((x, y), (whole, _)) = curve.pairs
    assert [type(n) for n in (x, y.value, y.low, y.high, whole)] == [float] * 4 + [int]
    assert (y.value, y.low, y.high) == (0.25, 0, 0.5)


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("ends", [(0, math.inf), (-math.inf, 9), (-math.inf, math.inf)])
def test_an_open_interval_is_allowed_and_kept(ends, scale):
    plot = plot_of("t", X, Axis("y", scale=scale), [Curve("c", [(1, Estimate(1, *ends))])])
    assert plot_from_json(json.loads(json.dumps(plot_as_json(plot), allow_nan=False))) == plot


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ({}, r"curve 'c': no points show nothing"),
        ([], "no points show nothing"),
        ("ab", "a mapping of x to y or pairs"),
        (None, "not NoneType"),
        ({1, 2}, "not set"),
        ([1, 2], r"point 1: 1 is no pair"),
        ([(1, 2), (1, 2, 3)], r"point 2: \(1, 2, 3\) is no pair"),
        (["ab"], "'ab' is no pair"),
        ([(1, 2), (math.nan, 2)], r"point 2, x: nan is no finite number"),
        ([(math.inf, 2)], "x: inf is no finite number"),
        ([(1, math.nan)], "y: nan is no finite number"),
        ([(1, -math.inf)], "y: -inf is no finite number"),
        ([(1, Estimate(math.inf, 0, math.inf))], "y: inf is no finite number"),
        ([(1, Estimate(1, 0, 10 * LARGEST))], r"end of y's interval: 1e\+101 is no finite number"),
        ([(5e-324, 1)], "5e-324 is no finite number that an axis can reach"),
        ([(10**400, 1)], "no finite number that an axis can reach"),
        ([(1, Fraction(10**400))], "no finite number that an axis can reach"),
        ([(True, 1)], "x: cannot draw a bool"),
        ([(1, False)], "y: cannot draw a bool"),
        ({"16": 1}, "x: cannot draw a str: hand over plain numbers"),
        ([(1, None)], "y: cannot draw a NoneType"),
        ([(1, "2")], "y: cannot draw a str"),
        ([(Estimate(1, 1, 1), 1)], "x: cannot draw a Estimate"),
        ([(np.int64(1), 1)], "x: cannot draw a int64"),
    ],
)
def test_a_planted_fault_in_a_point_is_refused_with_its_place(points, message):
    with pytest.raises(PlotError, match=message):
        Curve("c", points)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": " "}, "not blank"),
        ({"name": 3}, "are text"),
        ({"name_id": None}, "are text"),
        ({"dashed": "yes"}, "neither True nor False"),
        ({"labels": ("a", "b")}, "curve 'c': 2 labels for 1 points"),
        ({"labels": "a"}, "labels are texts, one beside each point"),
        ({"labels": (1,)}, "labels are texts"),
    ],
)
def test_what_a_curve_says_is_checked(given, message):
    with pytest.raises(PlotError, match=message):
        Curve(**{"name": "c", "points": PAIR} | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": ""}, "not blank"),
        ({"name": None}, "are text"),
        ({"unit": 1}, "are text"),
        ({"name_id": 1}, "are text"),
        ({"scale": "cubic"}, "scale 'cubic' is none of linear, log"),
        ({"scale": []}, "is none of"),
    ],
)
def test_what_an_axis_says_is_checked(given, message):
    with pytest.raises(PlotError, match=message):
        Axis(**{"name": "a"} | given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"title": " "}, "not blank"),
        ({"title": 3}, "are text"),
        ({"title_id": None}, "are text"),
        ({"x": "context"}, r"plot 't': x and y are each an Axis"),
        ({"y": None}, "x and y are each an Axis"),
        ({"curves": []}, "at least one curve"),
        ({"curves": [PAIR]}, "each is a Curve"),
        ({"curves": CURVES[0]}, "curves is a Curve and no sequence"),
        ({"curves": [CURVES[0], CURVES[0]]}, "two curves of one name"),
        ({"curves": [Curve(f"{i}", PAIR) for i in range(MAX_CURVES + 1)]}, "cannot be told apart"),
        (
            {"curves": [Curve("c", [(1, 1), (0, 1)])]},
            r"'t', curve 'c', point 2: 0 has no place on the log axis 'context'",
        ),
        ({"curves": [Curve("c", {-2.5: 1})]}, r"-2\.5 has no place on the log axis"),
        ({"y": Axis("y", scale="log"), "curves": [Curve("c", {1: 0.0})]}, "no place on the log axis 'y'"),
        ({"y": Axis("y", scale="log"), "curves": [Curve("c", {1: Estimate(-1, -2, 3)})]}, "-1 has no place"),
    ],
)
def test_what_cannot_be_a_plot_is_refused(claim, given, message):
    with pytest.raises(PlotError, match=message):
        claim.plot(**{"title": "t", "x": X, "y": Y, "curves": CURVES} | given)
    assert claim.plots == []


def with_curve(**damage):
    raw = whole()
    return raw | {"curves": [raw["curves"][0] | damage]}


@pytest.mark.parametrize(
    "raw",
    [
        None, 3, "t", [], {},
        whole() | {"title": None}, whole() | {"title_id": 3}, whole() | {"x": None}, whole() | {"x": {"nom": "a"}},
        whole() | {"y": {"name": "a", "scale": "cubic"}}, whole() | {"curves": None}, whole() | {"curves": []},
        whole() | {"curves": ["c"]}, whole() | {"curves": [{}]}, whole() | {"curves": [{"name": "c"}]},
        with_curve(points=[]), with_curve(points={"16": 1}), with_curve(points=["ab"]), with_curve(points=[[1]]),
        with_curve(points=[[1, None]]), with_curve(points=[[0, 1]]), with_curve(points=[[1, math.nan]]),
        with_curve(points=[[1, "inf"]]), with_curve(points=[["inf", 1]]), with_curve(points=[[1, 10**400]]),
        with_curve(points=[[1, {"value": 1}]]), with_curve(points=[[1, {"value": 9, "low": 1, "high": 2}]]),
        with_curve(points=[[1, {"value": 1, "low": "0", "high": 2}]]),
        with_curve(points=[[1, {"value": 1, "low": True, "high": 2}]]),
        with_curve(points=[[1, {"value": 1, "low": "inf", "high": "inf"}]]),
        with_curve(points=[[1, {"value": "inf", "low": 1, "high": "inf"}]]),
        with_curve(points=[[1, {"value": 1, "low": [], "high": 2}]]),
        with_curve(labels=["a"]), with_curve(labels=None), with_curve(dashed=1), with_curve(colour="red"),
    ],
)  # fmt: skip
def test_damage_in_a_record_is_told_and_never_another_exception(raw):
    assert isinstance(plot_from_json(whole()), Plot)
    with pytest.raises(PlotError):
        plot_from_json(raw)
