"""Numerals are found in every notation of the text, and no edit of text, ledger or mapping slips through."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.ledger import load_ledger
from reports.numerals import (
    Coverage,
    Figures,
    Kind,
    MappingError,
    coverage,
    figures_of,
    find_numerals,
    load_mapping,
    toml_stub,
)

TEXT = """Roti kukus untuk delapan orang

Untuk resep dari Bab 3 pakai 1.250 gram tepung, 2,5 liter air dan $2 \\times 7 = 14$ telur.¹

adonan = 3 * 1,024 - 1
suhu   : 36.5
"""
FIGURES: Figures = {
    "bread.flour": {"grams": "1,250", "water_l": "2.5", "rises": None},
    "bread.eggs": {"eggs": "14", "dough": "1,024", "temperature": "36.5", "guests": "8"},
}
MAPPING = """
[reasons]
chapter = "number of a chapter"
footnote = "a mark"
code = "constant of a program"

[[line]]
number = 1
fingerprint = "{0}"
numerals = [ {{ text = "delapan", claimed = ["bread.eggs#guests"] }} ]

[[line]]
number = 3
fingerprint = "{1}"
numerals = [
  {{ text = "3", waived = "chapter" }},
  {{ text = "1.250", claimed = ["bread.flour#grams"] }},
  {{ text = "2,5", claimed = ["bread.flour#water_l", "bread.flour#rises"] }},
  {{ text = "2", derived = ["bread.eggs"], how = "eggs for each of seven loaves" }},
  {{ text = "7", derived = ["bread.eggs"], how = "loaves" }},
  {{ text = "14", claimed = ["bread.eggs#eggs"] }},
  {{ text = "¹", waived = "footnote" }},
]

[[line]]
number = 5
fingerprint = "{2}"
numerals = [
  {{ text = "3", waived = "code" }},
  {{ text = "1,024", claimed = ["bread.eggs#dough"] }},
  {{ text = "1", waived = "code" }},
]

[[line]]
number = 6
fingerprint = "{3}"
numerals = [ {{ text = "36.5", claimed = ["bread.eggs#temperature"] }} ]
"""


def _one(text: str) -> tuple[str, Fraction | None, Kind]:
    (numeral,) = find_numerals(text)
    return numeral.text, numeral.value, numeral.kind


@pytest.fixture
def mapping_file(tmp_path: Path) -> Path:
    digests = {n.line: n.fingerprint for n in find_numerals(TEXT)}
    path = tmp_path / "numerals.toml"
    path.write_text(MAPPING.format(*digests.values()), encoding="utf-8")
    return path


def _cover(text: str, path: Path, figures: Figures = FIGURES) -> Coverage:
    return coverage(find_numerals(text), load_mapping(path), figures)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("pada 4.096 token", "4096", Kind.PROSE),
        ("jadi 4.096.", "4096", Kind.PROSE),
        ("hanya 25,6 ms", "25.6", Kind.PROSE),
        ("sampai 1.579,6.", "1579.6", Kind.PROSE),
        ("yaitu 365.416.000, ya", "365416000", Kind.PROSE),
        ("naik 1,6x lipat", "1.6", Kind.PROSE),
        ("naik 9 % saja", "9", Kind.PROSE),
        ("ada 357,8 juta bobot", "357800000", Kind.PROSE),
        ("kelas 7B saja", "7000000000", Kind.PROSE),
        ("cache 64-token", "64", Kind.PROSE),
        ("lihat Bab 9.", "9", Kind.REFERENCE),
        ("attention¹² ini", "12", Kind.FOOTNOTE),
        ("ada 10⁶ dan", None, Kind.PROSE),
        ("biaya $n²$", "2", Kind.EXPONENT),
        ("biaya $O(n^2)$", "2", Kind.EXPONENT),
        ("biaya $O(n^{3})$", "3", Kind.EXPONENT),
        ("jadi $12{,}288$ byte", "12288", Kind.MATH),
        ("jadi $4.125$ bit", "4.125", Kind.MATH),
        ("pakai `x[1.5]` saja", "1.5", Kind.CODE),
        ("format INT8 itu", None, Kind.NAME),
        ("format W8A8 itu", None, Kind.NAME),
        ("lihat arXiv:2205.14135)", None, Kind.IDENTIFIER),
        ("versi 3.11.2 itu", None, Kind.IDENTIFIER),
        ("sekitar enam puluh empat kali", "64", Kind.WORD),
    ],
)  # fmt: skip
def test_every_notation(text: str, value: str | None, kind: Kind) -> None:
    numerals = find_numerals(text)
    assert numerals[0].kind is kind
    if value is not None:
        assert [n.value for n in numerals] == [Fraction(value)]


def test_the_same_digits_mean_different_numbers_in_prose_and_in_a_program() -> None:
    assert _one("pada 4.125 token")[1] == 4125
    assert [n.value for n in find_numerals("a = 4.125\nb = 12,288")] == [Fraction("4.125"), 12288]


def test_a_rejected_reading_english_decimals_in_prose_are_not_read_as_thousands() -> None:
    assert _one("kira-kira 0.952 saja") == ("0.952", None, Kind.IDENTIFIER)


@settings(max_examples=500)
@given(st.text(alphabet="0123456789.,x% \n-()^${}`¹²₀½①ABjuta", max_size=60))
def test_no_digit_escapes_and_none_is_counted_twice(text: str) -> None:
    lines = [line.rstrip() for line in text.split("\n")]
    covered = [(n.line, c) for n in find_numerals(text) for c in range(n.column, n.column + len(n.text))]
    digits = {(i, c) for i, line in enumerate(lines, 1) for c, char in enumerate(line) if char.isdigit()}
    assert len(covered) == len(set(covered))
    assert digits <= set(covered)


def test_a_covered_text_has_no_problems(mapping_file: Path) -> None:
    result = _cover(TEXT, mapping_file)
    assert result.problems() == []
    assert result.unclaimed == []
    assert dict(result.counts) == {"claimed": 6, "waived": 4, "derived": 2}


def test_a_new_number_is_found(mapping_file: Path) -> None:
    result = _cover(TEXT.replace("2,5 liter air", "2,5 liter air, tiga sendok garam"), mapping_file)
    assert [(n.line, n.text) for n in result.missing] == [(3, "tiga")]
    assert any("line 3 is not the line" in fault for fault in result.stale)


def test_a_second_occurrence_of_a_mapped_number_is_found(mapping_file: Path) -> None:
    result = _cover(TEXT.replace("2,5 liter air", "2,5 liter air dan 2,5 liter susu"), mapping_file)
    assert [(n.text, n.nth) for n in result.missing] == [("2,5", 2)]


def test_a_removed_number_is_found(mapping_file: Path) -> None:
    result = _cover(TEXT.replace("1.250 gram tepung", "tepung"), mapping_file)
    assert result.stale[-1] == "line 3: '1.250' is in the mapping and no longer in the text"
    assert result.ledger_figures_not_printed == ["bread.flour#grams = 1,250"]


def test_a_changed_figure_is_found(mapping_file: Path) -> None:
    result = _cover(TEXT.replace("36.5", "37.5"), mapping_file)
    assert [n.text for n in result.missing] == ["37.5"]
    assert result.ledger_figures_not_printed == ["bread.eggs#temperature = 36.5"]


def test_changed_words_around_the_same_numbers_are_found(mapping_file: Path) -> None:
    result = _cover(TEXT.replace("gram tepung", "kilogram tepung"), mapping_file)
    assert (result.missing, result.stale) == ([], ["line 3 is not the line that was mapped"])


def test_a_moved_line_is_said_to_have_moved(mapping_file: Path) -> None:
    result = _cover("\n\n" + TEXT, mapping_file)
    assert "line 3 is not the line that was mapped; it is line 5 now" in result.stale


@pytest.mark.parametrize(
    ("figure", "digits", "fault"),
    [
        ("grams", "1,260", "claimed by bread.flour#grams, which says 1,260"),
        ("water_l", "2.50", "claimed by bread.flour#water_l, which says 2.50"),  # digits carry precision
    ],
)
def test_a_ledger_figure_with_other_digits_is_found(mapping_file: Path, figure: str, digits: str, fault: str) -> None:
    figures = {**FIGURES, "bread.flour": {**FIGURES["bread.flour"], figure: digits}}
    result = _cover(TEXT, mapping_file, figures)
    assert [f for f in result.mismatched if f.endswith(fault)]
    assert result.ledger_figures_not_printed == [f"bread.flour#{figure} = {digits}"]


def test_references_to_what_the_ledger_lacks_are_found(mapping_file: Path) -> None:
    result = _cover(TEXT, mapping_file, {"bread.flour": {"grams": "1,250"}})
    assert any("no statement 'bread.eggs'" in fault for fault in result.unknown_statements)
    assert any("has no figure 'water_l'" in fault for fault in result.unknown_statements)


def test_a_figure_that_no_occurrence_points_to_is_reported(mapping_file: Path) -> None:
    figures = {**FIGURES, "bread.flour": {**FIGURES["bread.flour"], "also_grams": "1,250"}}
    assert _cover(TEXT, mapping_file, figures).unclaimed == ["bread.flour#also_grams = 1,250"]


def test_scale_words_match_with_and_without_their_scale(tmp_path: Path) -> None:
    path = tmp_path / "numerals.toml"
    text = "Ada 365 juta butir beras."
    digest = find_numerals(text)[0].fingerprint
    row = 'numerals = [ { text = "365 juta", claimed = ["rice.grains#n"] } ]'
    path.write_text(f'[[line]]\nnumber = 1\nfingerprint = "{digest}"\n{row}\n', encoding="utf-8")
    for digits in ("365", "365e6"):
        assert _cover(text, path, {"rice.grains": {"n": digits}}).complete
    assert not _cover(text, path, {"rice.grains": {"n": "365,000,000"}}).complete  # six more digits than printed


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{ text = "3" }', "needs exactly one of"),
        ('{ text = "3", claimed = ["a"], waived = "r" }', "needs exactly one of"),
        ('{ text = "3", waived = "whim" }', "does not explain"),
        ('{ text = "3", derived = ["a"] }', "'how' goes with derived"),
        ('{ text = "3", claimed = [] }', "needs statements"),
        ('{ text = "3", claimed = ["a"], note = "x" }', "unknown keys"),
        ('{ text = 3, claimed = ["a"] }', "'text' must be a str"),
        ('{ text = "3", claimed = ["a"] }, { text = "3", claimed = ["b"] }', "given twice"),
        ("{ text = ", "not valid TOML"),
    ],
)
def test_a_malformed_mapping_is_one_line_that_names_the_fault(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "numerals.toml"
    path.write_text(f'[reasons]\nr = "why"\n[[line]]\nnumber = 1\nfingerprint = "0"\nnumerals = [ {row} ]\n')
    with pytest.raises(MappingError, match=message) as caught:
        load_mapping(path)
    assert "\n" not in str(caught.value)


def test_stubs_for_missing_numerals_load_once_filled_in(tmp_path: Path) -> None:
    path = tmp_path / "numerals.toml"
    stub = toml_stub(find_numerals(TEXT)).replace('waived = ""', 'waived = "r"')
    path.write_text('[reasons]\nr = "why"\n' + stub, encoding="utf-8")
    assert _cover(TEXT, path, {}).complete


def test_the_committed_mapping_refers_only_to_what_the_ledger_has() -> None:
    claims = Path(__file__).parents[2] / "claims"
    result = coverage([], load_mapping(claims / "numerals.toml"), figures_of(load_ledger(claims)))
    assert result.unknown_statements == []
