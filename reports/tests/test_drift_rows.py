"""Which status counts of several, and how a figure's cases become one row."""

from __future__ import annotations

from reports.drift.rows import FINDINGS, FLAGS, FigureRow, Row, Status, worst, worst_row

GONE, NEW = FigureRow(Status.MISSING, 1, None, "gone"), FigureRow(Status.UNKNOWN, None, 2, "new")
MOVED, STILL = FigureRow(Status.DRIFTED, 1, 2, "1 → 2"), FigureRow(Status.STEADY)


def test_the_worst_case_is_named_and_those_like_it_are_counted() -> None:
    assert worst_row({"a": STILL, "b": MOVED, "c": NEW, "d": MOVED}).detail == "b: 1 → 2 (and 1 more)"
    assert worst_row({"a": NEW, "b": MOVED, "c": STILL}) == FigureRow(Status.DRIFTED, 1, 2, "b: 1 → 2")
    assert worst_row({"": GONE}) == GONE


def test_steady_cases_are_one_steady_figure() -> None:
    told = FigureRow(Status.STEADY, 1, 1, "as ever")
    assert worst_row({"a": told}) == told
    assert worst_row({"a": told, "b": told}) == STILL


def test_statuses_count_from_good_to_bad() -> None:
    assert worst([]) is Status.STEADY and worst([], Status.UNKNOWN) is Status.UNKNOWN
    assert worst([Status.SUSPECTED, Status.DAMAGED, Status.STEADY]) is Status.DAMAGED
    assert FLAGS < FINDINGS and not FINDINGS & {Status.STEADY, Status.ANNOTATED, Status.UNMEASURED}


def test_what_decides_nothing_is_told_and_no_more() -> None:
    assert MOVED.as_context() == FigureRow(Status.ANNOTATED, 1, 2, "context: 1 → 2")
    assert STILL.as_context() == STILL
    noted = FigureRow(Status.ANNOTATED, 1, 2, "by rounding")
    assert noted.as_context() == noted


def test_a_cell_leaves_steady_figures_out() -> None:
    cell = Row(Status.DRIFTED, "x", {"a": STILL, "b": MOVED}).as_json()
    figures = {"b": {"status": "drifted", "was": 1, "now": 2, "detail": "1 → 2"}}
    assert cell == {"status": "drifted", "detail": "x", "figures": figures}
    assert Row(Status.STEADY, readings={"a": 2.0}).as_json()["readings"] == {"a": 2.0}
