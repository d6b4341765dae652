"""Several subjects, drift, history, problems of merging: each is seen for what it is, and none turns a page green."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from reports.merge.problems import KINDS, NOTES
from reports.night.verdict import faults_of
from reports.render import write_rendered
from reports.render.drift_marks import with_drift
from reports.render.history import MOST_NIGHTS, with_history
from reports.render.junit import render_junit
from reports.render.load import load_page
from reports.render.merged import merged_page
from reports.render.model import DRIFT_MARKS, Nights
from reports.render.page_model import Page
from reports.render.reading import page as read_page
from reports.render.sentences import headline, reproduce
from reports.render.sparkline import sparkline
from reports.render.words import Words
from reports.tests.many import drift, history, merged, subjects
from reports.tests.samples import MODEL, RUN, Elements, aspect, entry, failed, opened, refuted, summary

EN = Words("en")


def document(**claims: Any) -> dict[str, Any]:
    """The same claims on two subjects; a list of two differs between them."""
    columns = list(subjects(2))
    cells = {
        key.replace("__", "."): dict(zip(columns, told if isinstance(told, list) else [told, told], strict=True))
        for key, told in claims.items()
    }
    kept = {key: {who: raw for who, raw in cell.items() if raw is not None} for key, cell in cells.items()}
    return {"schema": 1, "subjects": subjects(2), "claims": kept, "problems": []}


def shown(page: Page, out: Path, lang: str = "en") -> tuple[str, str]:
    html, markdown = write_rendered(page, out, lang)
    return opened(html.read_text(encoding="utf-8"), lang), markdown.read_text(encoding="utf-8")


def test_one_row_a_statement_and_one_cell_a_subject(tmp_path: Path) -> None:
    page = merged_page(document(a__same=entry(), b__differs=[refuted(), entry()], c__once=[entry(), None]))
    html, markdown = shown(page, tmp_path)
    assert [row["id"] for row in Elements(html).rows()] == ["claim-a.same", "claim-b.differs", "claim-c.once"]
    assert html.count('<ul class="cells">') == 3 and html.count("not in this run") == 1
    assert [row["data-keys"] for row in Elements(html).rows()] == ["HOLDS", "REFUTED HOLDS", "HOLDS"]
    assert "| A | B | statement |" in markdown
    assert len(page.errata("proven")) == 1 and page.counts()["HOLDS"] == 4
    assert page.headline() == ("partial", "mute")


def test_what_subjects_agree_on_is_said_once(tmp_path: Path) -> None:
    apart = [entry(aspects={"bytes": aspect(measured=m)}) for m in (12288, 12289)]
    html, _ = shown(merged_page(document(a__same=entry(), b__apart=apart)), tmp_path)
    same, other = html.split('id="claim-b.apart"')
    assert '<b class="who">A B</b><span class="num">12,288 byte' in same.replace("\n", "")
    assert '<b class="who">B</b><span class="num">12,289 byte' in other.replace("\n", "")


@pytest.mark.parametrize("kind", ["conflict", "gap", "damaged", "unknown", "no-gpu", "empty", "unheard-of"])
def test_problems_of_merging_stand_at_the_top_and_are_red(kind: str, tmp_path: Path) -> None:
    told = document(a__a=entry()) | {
        "problems": [{"kind": kind, "id": "x.lost", "subject": "", "detail": "two of them"}]
    }
    page = merged_page(told)
    html, markdown = shown(page, tmp_path)
    assert page.headline()[1] == "bad" and page.has_findings
    assert html.index("two of them") < html.index('id="errata"')
    assert "two of them" in markdown


def test_a_duplicate_is_said_and_not_green() -> None:
    page = merged_page(document(a__a=entry()) | {"problems": [{"kind": "duplicate", "id": "a.a"}]})
    assert page.headline() == ("open", "warn") and "1 duplicate record." in headline(page, EN)


def test_a_gap_is_a_row_of_its_own(tmp_path: Path) -> None:
    (key, _) = subjects(2)
    gap = {"kind": "gap", "id": "x.lost", "subject": key, "detail": "collected"}
    html, _ = shown(merged_page(document(a__a=entry()) | {"problems": [gap]}), tmp_path)
    assert {"claim-a.a", "claim-x.lost"} == {row["id"] for row in Elements(html).rows()}
    assert "∅ no record" in html


@pytest.mark.parametrize("part", ["subjects", "claims", "problems"])
@pytest.mark.parametrize("broken", ["broken", None, 7])
def test_a_malformed_merged_document_is_not_green(part: str, broken: object, tmp_path: Path) -> None:
    page = merged_page(document(a__a=entry()) | {part: broken})
    shown(page, tmp_path)
    assert page.headline()[1] != "good" and page.has_findings


def test_collected_without_a_record_is_missing_and_red() -> None:
    run = RUN | {"collected": ["a.a", "b.lost"]}
    page = read_page(summary({"a.a": entry()}, run=run))
    assert [c.id for c in page.missing] == ["b.lost"] and page.headline() == ("red", "bad")
    assert read_page(summary({"a.a": entry()}, run=RUN | {"collected": ["a.a"]})).headline() == ("good", "good")


def test_a_killed_run_lists_what_it_never_reached(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.a.json").write_text(json.dumps(entry() | {"id": "a.a", "model": MODEL}), "utf-8")
    (tmp_path / "collected.json").write_text(
        json.dumps({"schema": 1, "run": RUN, "collected": ["a.a", "b.b"]}), "utf-8"
    )
    page = load_page(tmp_path)
    assert [c.category for c in page.claims] == ["HOLDS", "missing"] and page.headline() == ("incomplete", "bad")


def mark(status: str, **more: Any) -> dict[str, Any]:
    page = read_page(summary({"a.a": entry()}))
    figures = {"bytes": {"status": status, "was": 12288, "now": 12290, "detail": "far off"}}
    told = {"status": status, "detail": "why so", "figures": figures} | more
    return {"schema": 1, "rows": {"a.a": {page.subjects[0].key: told}}}


@pytest.mark.parametrize("status", DRIFT_MARKS)
def test_each_drift_status_has_its_mark_and_only_quiet_ones_leave_the_page_green(status: str, tmp_path: Path) -> None:
    page = with_drift(read_page(summary({"a.a": entry()})), mark(status))
    html, markdown = shown(page, tmp_path)
    tone = page.headline()[1]
    expected = {"drifted": "bad", "missing": "bad", "damaged": "bad"} | dict.fromkeys(
        ["suspected", "silent", "incomparable", "unknown"], "warn"
    )
    assert tone == expected.get(status, "good")
    assert EN.name("drift", status) in html and "why so" in html
    assert status == "steady" or "far off" in html
    assert status in ("steady",) or EN.name("drift", status) in markdown


def test_a_claim_that_only_the_baseline_has_is_a_row() -> None:
    told = mark("steady")
    told["rows"]["z.gone"] = {next(iter(told["rows"]["a.a"])): {"status": "missing", "detail": "in the baseline"}}
    page = with_drift(read_page(summary({"a.a": entry()})), told)
    assert [c.id for c in page.missing] == ["z.gone"] and page.headline() == ("red", "bad")


@pytest.mark.parametrize("broken", [None, [], {}, {"schema": 2, "rows": {}}, {"schema": 1, "rows": 7}])
def test_a_damaged_drift_document_is_a_warning_and_not_green(broken: object) -> None:
    page = with_drift(read_page(summary({"a.a": entry()})), broken)
    assert page.headline()[1] != "good" and page.has_findings


@pytest.mark.parametrize("raw", [None, 7, {}, {"status": "fine"}, {"status": None}, []])
def test_a_damaged_drift_row_is_a_flag(raw: object) -> None:
    page = read_page(summary({"a.a": entry()}))
    told = with_drift(page, {"schema": 1, "rows": {"a.a": {page.subjects[0].key: raw}}})
    assert told.claims[0].is_flagged and told.headline()[1] == "bad"


def test_nights_are_followed_by_the_deciding_figure_with_changes_in_words(tmp_path: Path) -> None:
    claims = {"a.a": entry(aspects={"r": aspect(measured={"value": 1.0, "low": 0.9, "high": 1.1})})}
    page = read_page(summary(claims))
    for day, (value, verdict) in enumerate([(1.0, "HOLDS"), (1.5, "HOLDS"), (1.25, "UNRESOLVED"), (1.1, "HOLDS")], 1):
        night = {"v": verdict, "o": "as-recorded", "d": None, "f": {"r": [value, 0.9, 1.6], "other": [7, None, None]}}
        told = {
            "schema": 1,
            "night": f"2026-11-0{day}T19:15:00Z",
            "subject": page.subjects[0].key,
            "claims": {"a.a": night},
        }
        (tmp_path / f"2026110{day}T191500Z-{page.subjects[0].key}.json").write_text(json.dumps(told), encoding="utf-8")
    (tmp_path / "20261105T191500Z-torn.json").write_text('{"schema": 1', encoding="utf-8")
    page = with_history(page, tmp_path)
    nights = page.claims[0].nights
    assert nights is not None and nights.values == (1.0, 1.5, 1.25, 1.1)
    drawn = sparkline(nights, EN)
    assert drawn.course == "awle" and drawn.changes == (2, 3)
    for words in ("4 nights, 2026-11-01 to 2026-11-04", "lowest 1, highest 1.5, last 1.1", "verdict changed 2 times"):
        assert words in drawn.says
    assert ("history", "1") in page.warnings and page.headline()[1] != "good"


def test_gaps_and_level_figures_are_drawn() -> None:
    told = merged(1, 1)
    claim = merged_page(told).claims[0]
    level = replace(claim, nights=Nights(("d",) * 3, ("HOLDS",) * 3, "f", (2.0, None, 2.0))).nights
    assert level is not None and sparkline(level, EN).course == "l-l"


def test_only_the_latest_nights_are_read(tmp_path: Path) -> None:
    told = merged(2, 1)
    page = with_history(merged_page(told), history(told, tmp_path, MOST_NIGHTS + 5))
    assert page.claims[0].nights is not None and len(page.claims[0].nights.dates) == MOST_NIGHTS
    assert with_history(merged_page(told), tmp_path / "none").claims[0].nights is None


def test_the_command_names_the_model_where_the_run_was_given_one_and_is_quoted() -> None:
    test = "claims/test_a.py::test_b[x y]"
    needs = {"needs": ["model"], "test": test}
    page = merged_page(document(a__a=entry(**needs), b__b=entry(test=test)))
    commands = [reproduce(claim, page) for claim in page.claims]
    assert commands[0] == "pytest 'claims/test_a.py::test_b[x y]'"
    assert commands[1] == "pytest 'claims/test_a.py::test_b[x y]' --model model-1"
    assert commands[2] == commands[3] == commands[0]


def test_evidence_is_linked_where_it_lies_beside_the_page_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.a.json").write_text("{}", encoding="utf-8")
    html, _ = shown(read_page(summary({"a.a": entry(), "b.b": entry(), "../records/a.a": entry()})), tmp_path)
    assert html.count('href="records/') == 1 and 'href="records/a.a.json"' in html


def test_green_is_lost_by_one_bad_cell_among_many() -> None:
    good = merged_page(document(a__a=entry(), b__b=entry()))
    assert good.headline() == ("good", "good")
    assert merged_page(document(a__a=entry(), b__b=[entry(), failed()])).headline()[1] == "bad"


def test_drift_of_a_merged_document_marks_the_right_cells() -> None:
    told = merged(25, 2)
    page = with_drift(merged_page(told), drift(told))
    assert page.drift_counts().total() == 50 and page.drift_counts()["annotated"] == 2
    assert page.drift_counts()["drifted"] == 2 and page.headline()[1] == "bad"


def test_a_verdict_that_the_drift_document_leaves_out_is_not_taken_for_steady(tmp_path: Path) -> None:
    document = mark("steady")
    page = with_drift(read_page(summary({"a.a": entry(), "a.b": entry()})), document)
    assert {c.id: c.drift and c.drift.status for c in page.claims} == {"a.a": "steady", "a.b": "unknown"}
    assert page.headline()[1] == "warn"


def test_a_statement_that_only_drift_misses_is_an_alarm_of_page_and_badge(tmp_path: Path) -> None:
    """Measured and as recorded, and yet drift says that the run lacks it: red, counted once, named as missing."""
    page = with_drift(read_page(summary({"a.a": entry(), "b.b": entry()})), mark("missing"))
    assert page.alarms()["missing"] == 1 and page.headline() == ("red", "bad")
    assert page.cautions()["unknown"] == 1, "b.b, of which drift says nothing"
    lost = read_page(summary({"a.a": entry()}, run=RUN | {"collected": ["a.a", "b.lost"]}))
    assert with_drift(lost, mark("missing")).alarms()["missing"] == 2, "one lost by the run, one by drift's word"


def test_a_statement_without_a_record_fails_in_junit() -> None:
    page = read_page(summary({"a.a": entry()}, run=RUN | {"collected": ["a.a", "b.lost"]}))
    found = Xml.fromstring(render_junit(page, EN)).iter("testcase")  # noqa: S314
    cases = {case.get("name"): [child.tag for child in case] for case in found}
    assert cases == {"a.a": [], "b.lost": ["failure"]}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_a_note_is_one_everywhere(kind: str, tmp_path: Path) -> None:
    """By its kind, whatever the document says of it: on the page, in junit.xml and in the night's verdict."""
    problem = {"kind": kind, "id": "a.a", "subject": "", "detail": "d", "harmless": kind not in NOTES}
    told = document(a__a=entry()) | {"problems": [problem]}
    page = merged_page(told)
    assert bool(page.troubles) is (kind not in NOTES)
    (case,) = (c for c in Xml.fromstring(render_junit(page, EN)).iter("testcase") if c.get("classname") == "merge")  # noqa: S314
    assert [child.tag for child in case] == ["skipped" if kind in NOTES else "failure"]
    (tmp_path / "merged.json").write_text(json.dumps(told), encoding="utf-8")
    assert bool(faults_of(tmp_path)) is (kind not in NOTES)
