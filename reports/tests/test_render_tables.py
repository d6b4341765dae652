"""Regenerated tables on the page and in the Markdown summary: every cell, no markup, and older or damaged evidence."""

import re
from html.parser import HTMLParser

import pytest

from lib.intervals import Estimate
from reports.render.model import Claim
from reports.render.reading import claim as read_claim
from reports.render.table_view import cell_view
from reports.render.words import LANGUAGES, Words
from reports.tables import Column, table_as_json, table_of
from reports.tests.samples import Elements, entry, one, pages, refuted, summary
from reports.tests.test_render import HOSTILE

COLUMNS = [Column("scheme", name_id="skema"), Column("published"), Column("size", "byte"), Column("ratio", "1")]
ROWS = [
    ["reference", None, 365_416_448, Estimate(12.9134, 12.4021, 13.5120)],
    ["INT4 | g128", 0.0952, 1.5e-9, "not a number"],
    ["NF4", True, 0, -2],
]


def raw_table(title="What each costs", title_id="Biaya tiap skema", columns=COLUMNS, rows=ROWS):
    return table_as_json(table_of(title, columns, rows, title_id))


class Cells(HTMLParser):
    """The regenerated tables of a page: caption, and rows of (tag, class, text)."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tables, self._open = [], None
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "table":
            self._open = [] if given.get("class") == "regenerated" else None
            self.tables += [self._open] if self._open is not None else []
        elif self._open is not None and tag == "tr":
            self._open.append([])
        elif self._open is not None and tag in {"th", "td"}:
            self._open[-1].append([tag, given.get("class", ""), ""])

    def handle_endtag(self, tag):
        self._open = None if tag == "table" else self._open

    def handle_data(self, data):
        if self._open and self._open[-1]:
            self._open[-1][-1][2] += data


def words(row):
    return [" ".join(cell[2].split()) for cell in row]


def test_the_page_shows_every_cell_with_units_intervals_and_dashes(tmp_path):
    html, _ = one(entry(tables=[raw_table()]), tmp_path)
    (rows,) = Cells(html).tables
    assert words(rows[0]) == ["scheme", "published", "size (byte)", "ratio"]
    assert words(rows[1]) == ["reference", "—", "365,416,448", "12.9 (12.4 – 13.5)"]
    assert words(rows[2]) == ["INT4 | g128", "0.0952", "1.5 × 10⁻⁹", "not a number"]
    assert words(rows[3]) == ["NF4", "yes", "0", "-2"]
    assert "<figcaption>What each costs</figcaption>" in html


def test_numeric_columns_stand_at_the_right_with_their_heads_and_gaps(tmp_path):
    html, _ = one(entry(tables=[raw_table()]), tmp_path)
    (rows,) = Cells(html).tables
    assert [[tag for tag, _, _ in row] for row in rows] == [["th"] * 4] + [["th", "td", "td", "td"]] * 3
    for row in rows:
        assert ["right" in kind for _, kind, _ in row] == [False, True, True, True]
    assert all("num" in kind for row in rows[1:] for _, kind, _ in row[1:])


def test_indonesian_titles_names_and_notation(tmp_path):
    html, markdown = one(entry(tables=[raw_table(), raw_table("Untranslated", "")]), tmp_path, "id")
    rows = Cells(html).tables[0]
    assert words(rows[0]) == ["skema", "published", "size (byte)", "ratio"]
    assert words(rows[1]) == ["reference", "—", "365.416.448", "12,9 (12,4 – 13,5)"]
    assert "<figcaption>Biaya tiap skema</figcaption>" in html
    assert '<figcaption lang="en">Untranslated</figcaption>' in html
    assert "**Biaya tiap skema**" in markdown
    assert "| reference | — | 365.416.448 | 12,9 (12,4 – 13,5) |" in markdown


def test_markdown_table_under_the_statement(tmp_path):
    _, markdown = one(entry(tables=[raw_table()]), tmp_path)
    lines = markdown.splitlines()
    start = lines.index("| scheme | published | size (byte) | ratio |")
    assert lines[start - 4 : start] == ["`cache-size.one`", "", "**What each costs**", ""]
    assert lines[start + 1 : start + 3] == [
        "| --- | ---: | ---: | ---: |",
        "| reference | — | 365,416,448 | 12.9 (12.4 – 13.5) |",
    ]
    assert r"| INT4 \| g128 | 0.0952 |" in lines[start + 3]


def test_an_erratum_shows_its_table_once_in_either(tmp_path):
    html, markdown = one(refuted(tables=[raw_table()]), tmp_path)
    assert len(Cells(html).tables) == 1  # in the statement's card, to which the erratum links
    assert html.index('id="claims"') < html.index('<table class="regenerated"')
    assert markdown.count("**What each costs**") == 1
    before, table = markdown.split("  | scheme |")
    assert before.endswith("\n\n  **What each costs**\n\n")  # indented: still of the list's entry
    assert "## All statements" in table


@pytest.mark.parametrize("lang", LANGUAGES)
def test_hostile_cells_titles_and_names_stay_text(lang, tmp_path):
    hostile = raw_table(HOSTILE, HOSTILE, [Column(HOSTILE, HOSTILE, HOSTILE)] * 2, [[HOSTILE, 1], [HOSTILE, None]])
    html, markdown = one(refuted(tables=[hostile]), tmp_path, lang)
    tags = Elements(html).tags
    assert [tag for tag, _ in tags].count("script") == 2  # what is packed, and page.js
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert not re.search(r"[\x00\x1b\u202e\ud800]", html + markdown)
    assert "alert(1)" in words(Cells(html).tables[0][1])[0]
    rows = [line.strip() for line in markdown.splitlines() if line.startswith("  |")]
    assert {len(re.findall(r"(?<!\\)\|", line)) - 1 for line in rows} == {2}
    assert "<script" not in markdown and "@all" not in markdown


def test_evidence_without_tables_still_renders(tmp_path):
    html, markdown = one(entry(), tmp_path)
    assert "tables" not in entry() and read_claim("a.b", entry()).tables == ()
    assert not Cells(html).tables and "banner good" in html and "| --- | --- |" in markdown


@pytest.mark.parametrize(
    "damaged",
    [
        "broken",
        {"title": "x"},
        ["broken"],
        [None],
        [raw_table() | {"rows": [["a", 1]]}],
        [raw_table() | {"rows": [["a", 1, 2, float("nan")]]}],
        [raw_table() | {"columns": [{"name": 1}]}],
    ],
)
def test_a_damaged_table_is_a_visible_defect_and_not_green(damaged, tmp_path):
    html, markdown = pages(summary({"cache-size.one": entry(tables=damaged)}), tmp_path)
    assert "malformed" in Elements(html).text and "malformed" in markdown
    assert "banner good" not in html and not Cells(html).tables


def test_a_sound_table_beside_a_damaged_one_is_still_shown():
    read: Claim = read_claim("a.b", entry(tables=[raw_table(), raw_table("second") | {"rows": []}]))
    assert [t.title for t in read.tables] == ["What each costs"]
    assert ("table", "second") in read.defects and read.category == "error"


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (Estimate(12.9134, 12.4021, 13.5120), "12.9 (12.4 – 13.5)"),
        (Estimate(0.00121, -0.00032, 0.00274), "0.0012 (-0.0003 – 0.0027)"),
        (Estimate(-0.00001, -0.1, 0.1), "0 (-0.1 – 0.1)"),
        (Estimate(365_416_000, 359_000_000, 372_000_000), "365,000,000 (359,000,000 – 372,000,000)"),
        (Estimate(7, 7, 7), "7"),
        (Estimate(1.5e-9, 1.4e-9, 1.6e-9), "1.5 × 10⁻⁹ (1.4 × 10⁻⁹ – 1.6 × 10⁻⁹)"),
        (3_624_960, "3,624,960"),
        (365_416_000.4, "365,416,000"),
        (0.1 + 0.2, "0.3"),
        (False, "no"),
        (None, "—"),
        ("", ""),
    ],
)
def test_cells_in_the_notation_of_the_page(cell, shown):
    assert str(cell_view(cell, Words("en"))) == shown


def test_the_widest_intervals_do_not_break_a_page():
    for ends in (
        (0.0, -1.7e308, 1.7e308),
        (1.79e308, 1.7e308, 1.797e308),
        (5e-324, 0.0, 1e-323),
        (10**300, 1, 10**301),
    ):
        assert str(cell_view(Estimate(*ends), Words("en")))
