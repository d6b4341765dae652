"""The page and the Markdown summary: nothing from data becomes markup, nothing is lost, errata are told in full."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reports.render import load
from reports.render.figures import bar, number, printed, short
from reports.render.markdown import escape
from reports.render.model import CATEGORIES
from reports.render.reading import claim as read_claim
from reports.render.reading import page as read_page
from reports.render.words import LANGUAGES, Words, load_table
from reports.tests.samples import Elements, aspect, entry, everything, one, pages, refuted, summary

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> | `code` {{ 7*7 }} \x1b[31m\u202e\ud800 @all\n| --- |"
)


def poisoned(value: object) -> object:
    """The same structure with every string, and every free key, hostile."""
    if isinstance(value, dict):
        return {key: poisoned(part) for key, part in value.items()} | {HOSTILE: HOSTILE}
    if isinstance(value, list):
        return [*map(poisoned, value), HOSTILE]
    return HOSTILE if isinstance(value, str) else value


@pytest.mark.parametrize("lang", LANGUAGES)
def test_hostile_strings_in_every_field_add_no_element(lang: str, tmp_path: Path) -> None:
    raw = summary({key: poisoned(value) for key, value in everything().items()} | {HOSTILE: poisoned(entry())})
    raw["run"], raw["model"], raw["counts"] = poisoned(raw["run"]), poisoned(raw["model"]), poisoned(raw["counts"])
    html, _ = pages(raw, tmp_path, lang)
    page = Elements(html)
    tags = page.tags
    assert [tag for tag, _ in tags].count("script") == 2  # what is packed, and page.js
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert "{{ 7*7 }}" in page.text


def test_hostile_field_by_field_is_shown_and_not_interpreted(tmp_path: Path) -> None:
    for field in ("says", "where", "reason", "error", "erratum", "condition", "test", "warrant", "section", "outcome"):
        html, _ = one(refuted(**{field: HOSTILE}), tmp_path)
        assert "<img" not in html, field
        if field != "outcome":
            assert "alert(1)" in Elements(html).text, field


def test_control_and_bidirectional_characters_are_made_visible(tmp_path: Path) -> None:
    html, markdown = one(entry(says="a\x1b[31mb\u202ec\ud800d\x00"), tmp_path)
    for content in (html, markdown):
        assert not re.search(r"[\x00\x1b\u202e\ud800]", content)
        assert content.count("\ufffd") >= 4


def test_markdown_tables_survive_pipes_and_line_breaks(tmp_path: Path) -> None:
    raw = summary({key: poisoned(value) for key, value in everything().items()})
    raw |= {"claims": {key: value | {"section": "weights"} for key, value in raw["claims"].items()}}
    _, markdown = pages(raw, tmp_path)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) - 1 for line in rows}
    assert widths == {2, 5}  # the table of counts, and the table of statements
    assert "<script" not in markdown
    assert "@all" not in markdown


def test_markdown_escape_leaves_plain_words_alone() -> None:
    assert escape("28 % below, at 0.0952") == "28 % below, at 0.0952"
    assert escape("a|b\nc") == r"a\|b c"
    assert escape("x @y <b>") == "x &#64;y &lt;b&gt;"


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_claim_of_the_input_has_one_row(lang: str, tmp_path: Path) -> None:
    html, markdown = pages(summary(everything()), tmp_path, lang)
    rows = [row["id"] for row in Elements(html).rows()]
    assert sorted(map(str, rows)) == sorted(f"claim-{key}" for key in everything())
    assert all(f"`{key}`" in markdown for key in everything())


def test_every_category_is_counted_from_the_claims() -> None:
    page = read_page(summary(everything()))
    assert page.counts() == {
        "HOLDS": 4, "CONDITIONAL": 1, "REFUTED": 4, "UNRESOLVED": 1, "NOT_MEASURED": 2, "error": 1, "missing": 0,
        "pending": 1,
    }  # fmt: skip
    assert sum(page.counts().values()) == len(everything())
    assert not page.warnings


def test_errata_are_told_apart_by_kind_and_come_first(tmp_path: Path) -> None:
    page = read_page(summary(everything()))
    kinds = {kind: [c.id for c in page.errata(kind)] for kind in ("proven", "does-not-transfer", "unjudged", "unseen")}
    assert kinds == {
        "proven": ["weights.proven"], "does-not-transfer": ["weights.elsewhere"], "unjudged": ["kv-cache.changed"],
        "unseen": ["weights.unseen"],
    }  # fmt: skip
    assert [c.id for c in page.errata("likely")] == ["kv-cache.conditional", "weights.likely"]  # conclusions first
    html, markdown = pages(summary(everything()), tmp_path)
    marks = ['id="kind-proven"', 'id="kind-likely"', 'id="kind-does-not-transfer"', 'id="claims"']
    headings = ["### Proven", "### Likely", "### Does not transfer", "## All statements"]
    for content, expected in ((html, marks), (markdown, headings)):
        places = [content.index(mark) for mark in expected]
        assert places == sorted(places)


def test_number_off_is_told_apart_from_conclusion_flips() -> None:
    off, fine = aspect("REFUTED"), aspect(bears="conclusion")
    flips = aspect("REFUTED", bears="conclusion")
    told = {
        "number": {"a": off}, "number_stands": {"a": off, "b": fine}, "conclusion": {"a": off, "b": flips},
        "explanation": {"a": aspect("REFUTED", bears="explanation"), "b": fine},
        "conclusion_conditional": {"a": aspect("CONDITIONAL", bears="conclusion")},
    }  # fmt: skip
    for flip, aspects in told.items():
        assert read_claim("x.y", refuted(aspects=aspects)).flip == flip


def test_erratum_card_shows_figures_warrant_model_and_what_to_write(tmp_path: Path) -> None:
    html, markdown = one(refuted(needs=["trained"], warrant="sampled"), tmp_path)
    for words in ("0.211", "12,288", "12,287.5 – 12,288.5", "write 21 %", "494,032,768", "sampled: an interval"):
        assert words in Elements(html).text
    assert "write 21 %" in markdown


def test_indonesian_page_uses_indonesian_words_and_notation(tmp_path: Path) -> None:
    html, markdown = one(refuted(needs=["shape"]), tmp_path, "id")
    for words in ("tulis 21 %", "12.287,5 – 12.288,5", "cache memakan", "terbantah", "494.032.768"):
        assert words in Elements(html).text
    assert '<html lang="id">' in html
    assert "tulis 21 %" in markdown


def test_every_word_exists_in_both_languages() -> None:
    for group, entries in load_table().items():
        for key, texts in entries.items():
            assert set(texts) == set(LANGUAGES), f"{group}.{key}"
            braces = [set(re.findall(r"\{\w+\}", text)) for text in texts.values()]
            assert braces[0] == braces[1], f"{group}.{key}"


def test_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown language 'fr'"):
        Words("fr")


def test_page_is_self_contained_and_its_script_short(tmp_path: Path) -> None:
    html, _ = pages(summary(everything()), tmp_path)
    names = ("src", "href", "action")
    fetched = [attrs[name] for _, attrs in Elements(html).tags for name in names if name in attrs]
    assert all(str(address).startswith(("#", "data:,")) for address in fetched)
    assert not re.search(r"url\(|@import|https?://", html)
    script = Path(load.__file__).with_name("templates") / "page.js"
    assert len(script.read_text(encoding="utf-8").splitlines()) <= 220


def test_colour_is_never_alone(tmp_path: Path) -> None:
    html, _ = pages(summary(everything()), tmp_path)
    chips = re.findall(r'<span class="chip [^"]*">(.*?)</span>\s*([^<]*)', html, flags=re.DOTALL)
    assert chips
    assert all(words.strip() or re.sub("<.*?>", "", inner).strip() for inner, words in chips)


def test_links_into_the_page_have_targets(tmp_path: Path) -> None:
    html, _ = pages(summary(everything()), tmp_path)
    tags = Elements(html).tags
    targets = {attrs.get("id") for _, attrs in tags}
    links = {str(attrs["href"])[1:] for tag, attrs in tags if tag == "a"}
    assert links <= targets


def test_rendering_is_repeatable_and_leaves_no_parts_behind(tmp_path: Path) -> None:
    assert pages(summary(everything()), tmp_path) == pages(summary(everything()), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.md"]


def test_numbers_in_both_notations() -> None:
    both = [Words(lang) for lang in LANGUAGES]
    assert [number(3_624_960, w) for w in both] == ["3,624,960", "3.624.960"]
    assert [number(0.09515, w) for w in both] == ["0.09515", "0,09515"]
    assert number(365_416_000.4, Words("en")) == "365,416,000"
    assert number(1.5e-9, Words("en")) == "1.5 × 10⁻⁹"
    assert printed("1,579.6", Words("id")) == "1.579,6"
    assert printed("v1.2.3", Words("id")) == "v1.2.3"


def test_value_just_outside_an_interval_does_not_read_like_its_end(tmp_path: Path) -> None:
    near = aspect("REFUTED", measured=0.13235001, published={"value": "0.1323", "interval": [0.13225, 0.13235]})
    html, _ = one(refuted(aspects={"error": near}), tmp_path)
    assert "0.13235001" in html


def test_long_values_are_cut_and_say_so() -> None:
    assert short(list(range(50)), Words("en")) == "0; 1; 2; … and 47 more"
    assert short({"value": 1.02, "low": 0.93, "high": 1.11}, Words("en")) == "1.02 (0.93 – 1.11)"
    assert short(True, Words("id")) == "ya"


def test_bar_puts_measured_outside_the_published_band() -> None:
    (wrong,) = read_claim("x.y", refuted(aspects={"a": aspect("REFUTED", measured=12_300)})).aspects
    drawn = bar(wrong)
    assert drawn is not None
    assert drawn.mark_x > drawn.band_x + drawn.band_width
    for undrawable in (aspect(published=None), aspect(measured={"16": 1}), aspect(measured=True), aspect(measured="x")):
        assert bar(read_claim("x.y", entry(aspects={"a": undrawable})).aspects[0]) is None


def test_every_category_has_a_word_and_a_meaning() -> None:
    table = load_table()
    assert set(CATEGORIES) <= set(table["verdict"])
    assert set(CATEGORIES) == set(table["meaning"])
