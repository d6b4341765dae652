"""Measured curves on the page and in the Markdown summary: ticks, places, words, and older or damaged evidence."""

import math
import re

import pytest

from lib.intervals import Estimate
from reports.plots import MAX_CURVES, Axis, Curve, plot_as_json, plot_of
from reports.render.labels import places
from reports.render.model import Claim
from reports.render.plot_view import numbers, plot_view
from reports.render.reading import claim as read_claim
from reports.render.ticks import FEWEST, MOST, ruler
from reports.render.words import LANGUAGES, Words
from reports.tests.samples import Elements, entry, one, pages, refuted, summary
from reports.tests.test_render import HOSTILE
from reports.tests.test_render_tables import Cells, words

EN = Words("en")
X = Axis("context", "token", "konteks", "log")
Y = Axis("time of a step", "1", "waktu satu langkah")
STEPS = {16: Estimate(1, 1, 1), 1024: Estimate(1.08, 1.02, 1.11), 16384: Estimate(2.5, 2.25, 2.75)}
CURVES = [
    Curve("measured", STEPS, name_id="terukur"),
    Curve("predicted", {16: 1.0, 1024: 1.04, 16384: 1.7}, dashed=True),
]
LATENCY = Curve("fp32", [(21.3, 47), (22.1, 91), (20.9, 160)], labels=("1", "2", "4"))


def raw_plot(title="Cost of a step", title_id="Biaya satu langkah", x=X, y=Y, curves=CURVES):
    return plot_as_json(plot_of(title, x, y, curves, title_id))


def view(curves, x=X, y=Y, w=EN):
    return plot_view(plot_of("t", x, y, curves), w)


def drawing(html):
    """The source of the first plot's picture, its nested parts included."""
    start = html.index('<div class="area"')
    return html[start : html.index("</div>", start)]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([16, 16384], (16, 64, 256, 1024, 4096, 16384)),
        ([16, 1024], (16, 64, 256, 1024)),
        ([1, 2, 4, 8, 32], (1, 2, 4, 8, 16, 32)),
        ([0.25, 0.5, 2], (0.25, 0.5, 1, 2)),
        ([1, 30, 7000], (1, 10, 100, 1000)),
        ([1e-3, 0.02, 1.0], (0.001, 0.01, 0.1, 1)),
        ([3, 50], (4, 8, 16, 32)),
        ([0.02, 0.7], (0.02, 0.05, 0.1, 0.2, 0.5)),
        ([47, 299], (50, 100, 150, 200, 250, 300)),
        ([5, 5], (4, 6, 8, 10)),
    ],
)
def test_log_ticks_are_powers_where_the_range_has_room_and_round_elsewhere(values, ticks):
    found = ruler(values, "log")
    assert found.ticks == pytest.approx(ticks)
    assert found.low < min(values) and max(values) < found.high


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([1, 1.08], (1, 1.02, 1.04, 1.06, 1.08)),
        ([21, 107], (0, 25, 50, 75, 100, 125)),
        ([-4, 7.25], (-5, -2.5, 0, 2.5, 5, 7.5)),
        ([-3, -1], (-3, -2, -1, 0)),
        ([0.3, 0.7], (0.3, 0.4, 0.5, 0.6, 0.7)),
        ([3, 3], (2.6, 2.8, 3, 3.2, 3.4)),
        ([0, 0], (-1, -0.5, 0, 0.5, 1)),
    ],
)
def test_linear_ticks_are_round_and_reach_over_the_values(values, ticks):
    assert ruler(values, "linear").ticks == pytest.approx(ticks)


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("power", [-99, -20, -3, 0, 2, 7, 20, 99])
@pytest.mark.parametrize("factor", [1, 1 + 1e-12, 1.0003, 1.07, 1.9, 3.3, 9.5, 47, 1234, 1e6, 1e11])
def test_any_range_has_ticks_inside_it_and_in_order(factor, power, scale):
    values = [10.0**power, min(10.0**power * factor, 1e100)]
    found = ruler(values, scale)
    assert FEWEST <= len(found.ticks) <= MOST
    assert list(found.ticks) == sorted(set(found.ticks))
    assert all(-0.01 <= found.share(value) <= 100.01 for value in (*found.ticks, *values))


def test_places_follow_the_scale():
    shown = view([Curve("c", {1: 0.0, 16: 100.0, 256: 25.0})])
    left, middle, right = shown.curves[0].marks
    assert middle.x - left.x == pytest.approx(right.x - middle.x, abs=0.02)  # percent, rounded to two digits
    assert [mark.y for mark in (left, middle, right)] == [100, 0, 75]  # from the top
    assert shown.curves[0].line == " ".join(f"{m.x:g},{m.y:g}" for m in (left, middle, right))


def test_an_interval_is_a_bar_and_an_open_one_is_not():
    points = {
        1: Estimate(5, 4, 7),
        2: Estimate(5, 4, math.inf),
        4: Estimate(5, -math.inf, 6),
        8: 5,
        16: Estimate(5, 5, 5),
    }
    shown = view([Curve("c", points)])
    low, high = shown.curves[0].marks[0].bar
    assert low > shown.curves[0].marks[0].y > high
    assert [mark.bar for mark in shown.curves[0].marks[1:]] == [None] * 4
    assert shown.has_open and not view(CURVES).has_open
    assert [str(row[1]) for row in shown.table.rows] == ["5 (4 – 7)", "5 (4 – ∞)", "5 (-∞ – 6)", "5", "5"]


def test_an_interval_that_reaches_zero_has_no_bar_on_a_log_axis():
    points = {1: Estimate(5, 0, 7)}
    shown = view([Curve("c", points)], y=Axis("y", scale="log"))
    assert shown.curves[0].marks[0].bar is None and shown.has_open
    assert view([Curve("c", points)]).curves[0].marks[0].bar


def test_an_interval_lies_inside_the_drawn_area():
    for mark in view([Curve("c", {1: Estimate(1, 0.2, 9), 2: Estimate(3, -4, 3)})]).curves[0].marks:
        assert all(0 <= end <= 100 for end in mark.bar)


def test_curves_differ_in_shape_and_dashes_without_colour():
    shown = view([Curve(f"c{i}", {1: i}, dashed=i > 4) for i in range(MAX_CURVES)])
    assert len({c.shape for c in shown.curves}) == MAX_CURVES
    assert [bool(c.dash) for c in shown.curves] == [i > 4 for i in range(MAX_CURVES)]
    assert len({c.dash for c in shown.curves[5:]}) == MAX_CURVES - 5


def test_the_picture_says_what_it_shows(tmp_path):
    html, _ = one(entry(plots=[raw_plot()]), tmp_path)
    (picture,) = [
        attrs for tag, attrs in Elements(html).tags if tag == "svg" and "Cost" in (attrs.get("aria-label") or "")
    ]
    assert picture["role"] == "img"
    assert picture["aria-label"] == (
        "Cost of a step. Horizontal axis: context (token, log scale), from 16 to 16,384. "
        "Vertical axis: time of a step. Curves: measured from 1 to 2.5; predicted from 1 to 1.7."
    )
    assert "<title>Cost of a step</title>" in drawing(html)
    assert "context (token, log scale) →" in html and "↑ time of a step" in html
    assert [t for t in re.findall(r"<text[^>]*>([^<]*)<", drawing(html)) if "," in t] == ["1,024", "4,096", "16,384"]


def test_indonesian_words_and_notation(tmp_path):
    html, markdown = one(entry(plots=[raw_plot(), raw_plot("Untranslated", "")]), tmp_path, "id")
    assert "<figcaption>Biaya satu langkah</figcaption>" in html
    assert '<figcaption lang="en">Untranslated</figcaption>' in html
    says = "Sumbu mendatar: konteks (token, skala log), dari 16 sampai 16.384. Sumbu tegak: waktu satu langkah. "
    assert says + "Kurva: terukur dari 1 sampai 2,5; predicted dari 1 sampai 1,7." in html
    assert "<span>terukur</span>" in html and '<span lang="en">predicted</span>' in html
    assert "16.384</text>" in drawing(html) and "Angka grafik ini" in html
    assert "**Biaya satu langkah**" in markdown and "| 1.024 | 1,08 (1,02 – 1,11) | 1,04 |" in markdown


def test_every_number_stands_in_a_table_below(tmp_path):
    html, _ = one(entry(plots=[raw_plot()]), tmp_path)
    assert '<details class="numbers">' in html
    (rows,) = Cells(html).tables
    assert [words(row) for row in rows] == [
        ["context (token)", "measured", "predicted"],
        ["16", "1", "1"],
        ["1,024", "1.08 (1.02 – 1.11)", "1.04"],
        ["16,384", "2.5 (2.25 – 2.75)", "1.7"],
    ]


@pytest.mark.parametrize(
    ("curves", "heads", "row"),
    [
        ([LATENCY], ["curve", "context", "time of a step", "label"], ["fp32", "20.9", "160", "4"]),
        ([Curve("a", {1: 2, 3: 4}), Curve("b", {2: 5, 4: 6})], ["curve", "context", "time of a step"], ["b", "4", "6"]),
        ([Curve("a", [(1, 2), (1, 3)])], ["curve", "context", "time of a step"], ["a", "1", "3"]),
        ([Curve("a", {1: 2, 2: 4, 4: 9}), Curve("b", {1: 5, 2: 6})], ["context", "a", "b"], ["4", "9", "—"]),
    ],
)
def test_curves_without_a_common_x_have_a_row_for_each_point(curves, heads, row):
    shown = view(curves).table
    assert [head.name for head in shown.heads] == heads
    assert [str(cell) for cell in shown.rows[-1]] == row


def test_markdown_shows_the_sentence_and_the_numbers(tmp_path):
    _, markdown = one(entry(plots=[raw_plot()]), tmp_path)
    lines = markdown.splitlines()
    start = lines.index("| context (token) | measured | predicted |")
    assert lines[start - 5 : start - 1] == ["", "**Cost of a step**", "", lines[start - 2]]
    assert lines[start - 6] == "`cache-size.one`" and lines[start - 2].startswith("Horizontal axis: context (token")
    assert lines[start + 3] == "| 1,024 | 1.08 (1.02 – 1.11) | 1.04 |"


def test_an_erratum_shows_its_plot_once_in_either(tmp_path):
    html, markdown = one(refuted(plots=[raw_plot()]), tmp_path)
    assert html.count('<figure class="plot">') == 1
    assert html.index('id="claims"') < html.index('<figure class="plot">')
    assert markdown.count("**Cost of a step**") == 1


def test_labels_stand_beside_their_points_and_turn_at_the_right(tmp_path):
    html, _ = one(entry(plots=[raw_plot(x=Axis("latency", "ms"), curves=[LATENCY])]), tmp_path)
    found = re.findall(r'<text x="(-?8)" y="(?:-6|15)" text-anchor="(\w+)">([^<]*)<', drawing(html))
    assert {label for _, _, label in found} == {"1", "2", "4"}
    marks = view([Curve("c", {0: 1, 50: 1, 100: 1}, labels=("a", "b", "c"))], x=Axis("x")).curves[0].marks
    assert [mark.place.left for mark in marks] == [False, False, True]


def test_labels_of_points_that_nearly_coincide_do_not_touch():
    points = {10.0: 5.0, 10.1: 5.01, 10.2: 5.02, 10.3: 5.03, 10.4: 5.04, 10.5: 5.05, 90.0: 9.0}
    curve = Curve("c", points, labels=tuple(f"batch {n}" for n in range(7)))
    marks = view([curve], x=Axis("x")).curves[0].marks
    shown = [mark for mark in marks if mark.place]
    assert len({(m.place.left, m.place.y) for m in marks[:6] if m.place}) == sum(bool(m.place) for m in marks[:6]) == 4
    assert marks[-1] in shown  # the far one loses nothing by it
    touching = [(10.0, 5.0, "batch 1"), (10.1, 5.0, "batch 2")]
    assert places(touching)[0] != places(touching)[1]


def test_every_second_label_may_hide_where_the_screen_is_narrow(tmp_path):
    wide = Curve("c", {10**6 * i: i for i in range(1, 6)})
    assert [t.spare for t in view([wide], x=Axis("x")).x.ticks] == [False, True] * 3
    assert not any(t.spare for t in view(CURVES).x.ticks)
    html, _ = one(entry(plots=[raw_plot(x=Axis("x"), curves=[wide])]), tmp_path)
    assert drawing(html).count('class="spare"') == 3 and ".plot .spare { display: none; }" in html


def test_colours_come_from_variables_of_both_schemes_and_of_print(tmp_path):
    html, _ = one(entry(plots=[raw_plot()]), tmp_path)
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgb|(fill|stroke)=", drawing(html))
    style = html[html.index("<style>") : html.index("</style>")]
    for name in (f"--plot-{i}" for i in range(5)):
        ((light, dark),) = re.findall(rf"{name}: light-dark\((#\w{{6}}), (#\w{{6}})\);", style)
        assert light != dark and f"var({name})" in style
    assert "color-scheme: light;" in style[style.index("@media print") :]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_hostile_names_titles_and_labels_stay_text(lang, tmp_path):
    axis = Axis(HOSTILE, HOSTILE, HOSTILE)
    hostile = raw_plot(HOSTILE, HOSTILE, axis, axis, [Curve(HOSTILE, {1: 1}, HOSTILE, labels=[HOSTILE])])
    html, markdown = one(refuted(plots=[hostile]), tmp_path, lang)
    tags = Elements(html).tags
    assert [tag for tag, _ in tags].count("script") == 2  # what is packed, and page.js
    assert not [tag for tag, _ in tags if tag == "img"]
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert not re.search(r"[\x00\x1b\u202e\ud800]", html + markdown)
    assert html.count('<figure class="plot">') == 1 and "alert(1)" in drawing(html)
    assert "<script" not in markdown and "@all" not in markdown


def test_evidence_without_plots_still_renders(tmp_path):
    html, _ = one(entry(), tmp_path)
    assert "plots" not in entry() and read_claim("a.b", entry()).plots == ()
    assert '<figure class="plot">' not in html and "banner good" in html
    assert '<figure class="plot">' not in one(entry(plots=[]), tmp_path)[0]


@pytest.mark.parametrize(
    "damaged",
    [
        "broken", {"title": "x"}, ["broken"], [None], [raw_plot() | {"curves": []}], [raw_plot() | {"x": {"name": 1}}],
        [raw_plot() | {"curves": [{"name": "c", "points": [[1, float("nan")]]}]}],
        [raw_plot() | {"curves": [{"name": "c", "points": [[0, 1]]}]}],
    ],
)  # fmt: skip
def test_a_damaged_plot_is_a_visible_defect_and_not_green(damaged, tmp_path):
    html, markdown = pages(summary({"cache-size.one": entry(plots=damaged)}), tmp_path)
    assert "malformed" in Elements(html).text and "malformed" in markdown
    assert "banner good" not in html and '<figure class="plot">' not in html


def test_a_sound_plot_beside_a_damaged_one_is_still_shown():
    read: Claim = read_claim("a.b", entry(plots=[raw_plot(), raw_plot("second") | {"curves": []}]))
    assert [p.title for p in read.plots] == ["Cost of a step"]
    assert ("plot", "second") in read.defects and read.category == "error"


def test_names_that_print_alike_are_one_defect_and_no_exception():
    """Two names may differ only in characters that the page replaces."""
    twins = [Curve("a\x00", {1: 1}), Curve("a\x01", {1: 1})]
    assert read_claim("a.b", entry(plots=[raw_plot(curves=twins)])).defects == (("plot", "Cost of a step"),)


def test_numbers_table_is_a_table_like_any_other():
    shown = numbers(plot_of("t", X, Y, CURVES), EN)
    assert [column.name for column in shown.columns] == ["context", "measured", "predicted"]


def test_a_page_of_plots_stays_small(tmp_path):
    many = [Curve(f"c{i}", {2**k: Estimate(i + k, i, i + k + 1) for k in range(16)}) for i in range(4)]
    claims = {f"cache-size.n{n}": entry(plots=[raw_plot(curves=many)]) for n in range(20)}
    html, _ = pages(summary(claims), tmp_path)
    assert len(html.encode()) < 1_000_000
