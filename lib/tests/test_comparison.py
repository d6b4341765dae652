"""Paired comparisons of schemes on a table small enough to check by hand."""

from __future__ import annotations

import pytest

from lib.quantization.comparison import advantage, bought_back, drop, ladder_summary, out_of_order, step_share
from lib.quantization.errors import ErrorTable

TABLE = ErrorTable({
    "coarse": {"x": 0.80, "y": 0.84, "z": 0.88},
    "middle": {"x": 0.40, "y": 0.42, "z": 0.44},
    "fine": {"x": 0.20, "y": 0.21, "z": 0.22},
    "odd": {"x": 0.10, "y": 0.30, "z": 0.11},
})  # fmt: skip


def test_order_counts_matrices_with_a_step_up() -> None:
    assert out_of_order(TABLE, ["coarse", "middle", "fine"]) == 0
    assert out_of_order(TABLE, ["coarse", "middle", "fine", "odd"]) == 1
    assert out_of_order(TABLE, ["fine", "coarse"]) == 3


def test_drop_of_a_constant_ratio_has_no_width() -> None:
    found = drop(TABLE, "coarse", "middle")
    assert found.value == pytest.approx(0.5)
    assert found.high - found.low < 1e-12


def test_advantage_is_positive_for_the_better_scheme() -> None:
    assert advantage(TABLE, "fine", "middle").low > 0
    assert advantage(TABLE, "middle", "fine").high < 0
    assert advantage(TABLE, "fine", "fine") == advantage(TABLE, "fine", "fine", ["x", "y"])


def test_step_share_of_two_equal_divisions_is_a_half() -> None:
    assert step_share(TABLE, "coarse", "middle", "fine").value == pytest.approx(0.5)


def test_bought_back_share_of_the_way() -> None:
    assert bought_back(TABLE, "coarse", "middle", "fine") == pytest.approx(0.42 / 0.63)


def test_ladder_summary_of_three_schemes() -> None:
    columns = zip(("int4-tensor", "int4-row", "int8-row"), ("coarse", "middle", "fine"), strict=True)
    table = ErrorTable({slug: TABLE.errors[column] for slug, column in columns})
    found = ladder_summary(table, 896, 4864)
    assert found["worst_by_scheme"]["int4-row"] == 0.44
    assert found["row_divides_single_matrix_by"] == pytest.approx({"least": 2, "most": 2, "of the worst matrices": 2})
    assert found["bought_back_by_rows"] == pytest.approx({"from one scale per matrix": 2 / 3})
    assert found["bits_by_scheme"]["int4-row"] == pytest.approx(4 + 16 / 4864)


def test_least_and_most_of_the_division_by_rows() -> None:
    slugs = (
        ("int4-tensor", {"x": 0.8, "y": 0.8}),
        ("int4-row", {"x": 0.4, "y": 0.2}),
        ("int8-row", {"x": 0.1, "y": 0.1}),
    )
    found = ladder_summary(ErrorTable(dict(slugs)), 896, 4864)["row_divides_single_matrix_by"]
    assert found == pytest.approx({"least": 2, "most": 4, "of the worst matrices": 2})
