"""Units of bytes, held against the definitions of SI and IEC 80000-13 and against figures whose bytes are known."""

from fractions import Fraction

import pytest

from lib.intervals import printed
from lib.units import (
    ByteFigure,
    UnknownUnit,
    common_conventions,
    conventions,
    fitting_conventions,
    in_unit,
    stated_bytes,
    unit_bytes,
)


@pytest.mark.parametrize(("unit", "decimal", "binary"), [("B", 1, 1), ("KB", 10**3, 2**10), ("GB", 10**9, 2**30)])
def test_unit_bytes_against_the_definitions(unit: str, decimal: int, binary: int) -> None:
    assert (unit_bytes(unit, "decimal"), unit_bytes(unit, "binary")) == (decimal, binary)


def test_iec_units_are_binary_whatever_is_assumed() -> None:
    assert unit_bytes("MiB", "decimal") == unit_bytes("MiB", "binary") == 2**20


def test_in_unit_is_exact() -> None:
    assert in_unit(3 * 2**30 + 1, "GiB") == 3 + Fraction(1, 2**30)


def test_unknown_unit_is_named() -> None:
    with pytest.raises(UnknownUnit, match="Gb"):
        unit_bytes("Gb", "decimal")


@pytest.mark.parametrize(
    ("text", "unit", "count", "expected"),
    [
        ("500", "GB", 500 * 10**9, {"decimal"}),  # a disk
        ("64", "KB", 65_536, {"binary"}),  # an address space: 65.5 decimal
        ("1", "KB", 1_010, {"decimal", "binary"}),
        ("3.0", "MB", 2_000_000, set()),
    ],
)
def test_conventions_against_known_figures(text: str, unit: str, count: int, expected: set[str]) -> None:
    assert conventions(text, unit, count) == expected


def test_conventions_of_an_uncertain_count() -> None:
    """A parameter count printed as "7B" leaves either convention open; one known to the byte does not."""
    assert conventions("13.0", "GB", printed("7e9") * 2) == {"decimal", "binary"}
    assert conventions("13.0", "GB", 14 * 10**9) == {"binary"}


def test_common_conventions_rejects_a_mix() -> None:
    disk, memory = ByteFigure("disk", "500", "GB", 500 * 10**9), ByteFigure("memory", "64", "KB", 65_536)
    coarse = ByteFigure("coarse", "1", "KB", 1_010)
    assert common_conventions([disk, coarse]) == {"decimal"}
    assert common_conventions([memory, coarse]) == {"binary"}
    assert common_conventions([disk, memory, coarse]) == frozenset()


def test_fitting_conventions_name_every_figure() -> None:
    figures = [ByteFigure("a", "64", "KB", 65_536), ByteFigure("b", "1", "KB", 1_010), ByteFigure("c", "9", "KB", 1)]
    assert fitting_conventions(figures) == {"a": "binary", "b": "either", "c": "neither"}


def test_stated_bytes_ends_are_half_a_digit_away() -> None:
    stated = stated_bytes("1.5", "KB", "binary")
    assert (stated.low, stated.high) == (Fraction(145, 100) * 1024, Fraction(155, 100) * 1024)
