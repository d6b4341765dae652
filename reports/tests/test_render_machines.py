"""What programs read: claims.json, junit.xml, the badge, and the summary of a CI job; and the colours' contrast."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from reports.render import load, write_all
from reports.render.badge import COLOURS
from reports.render.drift_marks import with_drift
from reports.render.merged import merged_page
from reports.render.page import TILE_TONES
from reports.render.reading import page as read_page
from reports.tests.many import drift, merged
from reports.tests.samples import aspect, entry, everything, not_measured, refuted, summary
from reports.tests.test_render import HOSTILE, poisoned

CSS = Path(load.__file__).with_name("templates") / "page.css"
AA = 4.5  # WCAG 2, level AA, for text of ordinary size


def written(page: object, out: Path, lang: str = "en") -> dict[str, Path]:
    return {path.name: path for path in write_all(page, out, lang)}  # type: ignore[arg-type]


def test_claims_json_is_keyed_by_id_and_subject(tmp_path: Path) -> None:
    path = written(read_page(summary(everything())), tmp_path)["claims.json"]
    told = json.loads(path.read_text(encoding="utf-8"))
    assert set(told["claims"]) == set(everything()) and told["schema"] == 1
    (key,) = told["subjects"]
    proven = told["claims"]["weights.proven"]
    assert proven["erratum"] == {"kind": "proven", "en": "write 21 %", "id": "tulis 21 %"}
    cell = proven["subjects"][key]
    assert (cell["verdict"], cell["outcome"], cell["on_record"]) == ("REFUTED", "as-recorded", "REFUTED")
    assert cell["figure"]["name"] == "gain" and cell["figure"]["measured"] == 0.211 and cell["drift"] is None
    assert told["claims"]["unheard-of.failed"]["subjects"][key]["category"] == "error"


def test_claims_json_is_strict_whatever_was_recorded(tmp_path: Path) -> None:
    claims = {"a.nan": entry(aspects={"a": aspect(measured=float("nan"))}), HOSTILE: poisoned(entry())}
    text = written(read_page(summary(claims)), tmp_path)["claims.json"].read_text(encoding="utf-8")

    def refuse(constant: str) -> object:
        raise AssertionError(constant)

    told = json.loads(text, parse_constant=refuse)
    (cell,) = told["claims"]["a.nan"]["subjects"].values()
    assert cell["figure"] is None or cell["figure"]["measured"] is None
    assert cell["tone"] == "bad"


def test_junit_errata_pass_and_what_changed_or_drifted_fails(tmp_path: Path) -> None:
    root = Xml.parse(written(read_page(summary(everything())), tmp_path)["junit.xml"]).getroot()  # noqa: S314
    cases = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases["cache-size.holds"] == [] and cases["weights.proven"] == ["system-out"]
    assert cases["kv-cache.changed"] == ["failure"] and cases["unheard-of.failed"] == ["error"]
    for skipped in ("omissions.gpu", "kv-cache.straddles", "quality.pending", "weights.new"):
        assert cases[skipped] == ["skipped"], skipped
    (suite,) = root
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["14", "1", "1", "5"]
    assert next(c for c in root.iter("skipped")).get("message")


def test_junit_shows_drift_and_problems_of_merging(tmp_path: Path) -> None:
    told = merged(61, 1) | {"problems": [{"kind": "conflict", "id": "x.y"}, {"kind": "duplicate", "id": "x.z"}]}
    page = with_drift(merged_page(told), drift(told))
    root = Xml.parse(written(page, tmp_path)["junit.xml"]).getroot()  # noqa: S314
    kinds = [child.tag for case in root.iter("testcase") for child in case if child.tag != "system-out"]
    assert sorted(kinds) == ["failure", "failure", "skipped", "skipped", "skipped"]


def test_junit_and_badge_are_well_formed_whatever_the_strings_hold(tmp_path: Path) -> None:
    nasty = HOSTILE + "]]>\x00\x0b\ufffe\uffff\ud800 <![CDATA["
    claims = {f"{key}{nasty}": poisoned(value) for key, value in everything().items()}
    claims |= {"a.a": refuted(erratum=nasty, outcome="changed", on_record="HOLDS"), "b.b": not_measured(nasty)}
    files = written(read_page(summary(claims)), tmp_path)
    for name in ("junit.xml", "badge.svg"):
        Xml.parse(files[name])  # noqa: S314


@pytest.mark.parametrize(
    ("claims", "said", "tone"),
    [
        ({"a.a": entry(), "b.b": refuted()}, "1 of 2", "good"),
        ({"a.a": entry(), "b.b": not_measured()}, "0 of 2", "mute"),
        ({"a.a": refuted(outcome="changed", on_record="HOLDS")}, "1 of 1 | 1 changed", "bad"),
    ],
)
def test_badge_says_errata_and_has_the_colour_of_the_headline(
    claims: dict[str, object], said: str, tone: str, tmp_path: Path
) -> None:
    svg = written(read_page(summary(claims)), tmp_path)["badge.svg"].read_text(encoding="utf-8")
    assert f"errata: {said}" in svg and COLOURS[tone] in svg
    assert "<title>" in svg and 'role="img"' in svg and "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_job_summary_is_short_however_much_there_is(tmp_path: Path) -> None:
    claims = {
        f"weights.{'x' * 5_000}-{i}": refuted(erratum="|" * 100_000, outcome="changed", on_record="HOLDS")
        for i in range(250)
    }
    text = written(read_page(summary(claims)), tmp_path)["summary.md"].read_bytes()
    assert len(text) < 2**20
    assert b"and 150 more" in text and b"and 50 more" in text
    ordinary = written(read_page(summary(everything())), tmp_path)["summary.md"].read_text(encoding="utf-8")
    assert "write 21 %" in ordinary and "weights.proven" in ordinary and "differs from the record" in ordinary


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


PAIRS = [
    ("ink", "paper"),
    ("ink", "card"),
    ("soft", "paper"),
    ("soft", "card"),
    ("soft", "mute-bg"),
    ("ink", "mute-bg"),
]
PAIRS += [(tone, f"{tone}-bg") for tone in ("good", "bad", "warn", "erratum", "new", "mute")]
PAIRS += [("ink", f"{tone}-bg") for tone in ("good", "bad", "warn", "erratum", "new")]
PAIRS += [("paper", "ink")]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_every_text_has_the_contrast_of_level_aa_in_both_schemes(text: str, ground: str, scheme: int) -> None:
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", CSS.read_text(encoding="utf-8"))
    colours = {name: pair[scheme] for name, *pair in found}
    assert contrast(colours[text], colours[ground]) >= AA


def test_the_contrast_that_is_computed_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # the grey just below the line
    assert contrast("#777777", "#ffffff") < AA
    assert set(TILE_TONES.values()) <= set(CSS.read_text(encoding="utf-8").replace(".", " ").split())


def test_badges_are_readable() -> None:
    assert all(contrast(colour, "#ffffff") >= AA for colour in COLOURS.values())


@pytest.mark.parametrize("harm", ["gone", "torn", "other"])
def test_a_summary_whose_record_is_not_there_or_says_otherwise_is_a_red_row(harm: str, tmp_path: Path) -> None:
    rows = {"a.good": entry(id="a.good"), "a.bad": entry(id="a.bad")}
    (tmp_path / "summary.json").write_text(json.dumps(summary(rows)), encoding="utf-8")
    (tmp_path / "records").mkdir()
    for key, raw in rows.items():
        (tmp_path / "records" / f"{key}.json").write_text(json.dumps(raw), encoding="utf-8")
    assert load.load_page(tmp_path).counts()["error"] == 0
    path = tmp_path / "records" / "a.bad.json"
    if harm == "gone":
        path.unlink()
    else:
        path.write_text(json.dumps(rows["a.bad"] | {"seconds": 9})[: -5 if harm == "torn" else None], encoding="utf-8")
    page = load.load_page(tmp_path)
    assert [claim.id for claim in page.errors] == ["a.bad"] and page.headline()[1] == "bad"
