"""No green without evidence: damaged, partial or contradictory records show as what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports.render.reading import claim as read_claim
from reports.tests.samples import (
    Elements,
    aspect,
    entry,
    everything,
    failed,
    not_measured,
    one,
    pages,
    pending,
    refuted,
    summary,
)


def tone(raw: object) -> str:
    return read_claim("cache-size.one", raw).tone


def test_only_a_recorded_measured_hold_is_green() -> None:
    assert tone(entry()) == "good"
    others = [
        c for key, c in everything().items() if key not in ("cache-size.holds", "serving.true", "activations.trend")
    ]
    assert [raw for raw in others if tone(raw) == "good"] == []


@pytest.mark.parametrize(
    "raw",
    [
        entry("TRUE"),
        entry(verdict=None),
        entry(outcome="fine"),
        entry(outcome=None),
        entry(on_record="REFUTED"),
        entry(aspects={}),
        entry(aspects={"a": aspect(), "b": aspect("REFUTED")}),
        entry(aspects={"a": aspect("GREAT")}),
        entry(aspects={"a": aspect(measured=float("nan"))}),
        entry(seconds=float("inf")),
        entry(aspects=[1, 2]),
        entry(aspects={"a": "HOLDS"}),
        entry(aspects={"a": aspect(), "b": None}),
        entry(notes="HOLDS"),
        entry(outcome="not-measured"),
        entry(outcome="pending"),
        entry(outcome="new"),
        entry(outcome="unresolved"),
        entry("UNRESOLVED"),
        entry(on_record="TRUE"),
        entry(error="x", outcome="error"),
        "HOLDS",
        None,
        [],
        7,
        {},
    ],
)
def test_damaged_entry_is_a_red_row_that_says_why(raw: object, tmp_path: Path) -> None:
    html, markdown = pages(summary({}) | {"claims": {"a.bad": raw, "b.good": entry()}}, tmp_path)
    assert tone(raw) == "bad"
    keys = {row["id"]: row["data-keys"] for row in Elements(html).rows()}
    assert keys == {"claim-a.bad": "error", "claim-b.good": "HOLDS"}
    assert "banner bad" in html
    assert "! error" in markdown


def test_standing_was_judged_for_the_verdict_on_record_and_covers_no_other() -> None:
    assert read_claim("a.a", refuted("proven")).erratum_kind == "proven"
    assert read_claim("a.a", refuted("proven", outcome="changed", on_record="CONDITIONAL")).erratum_kind == "unjudged"
    assert read_claim("a.a", refuted("certain")).erratum_kind == "unjudged"


def test_page_is_green_only_when_all_was_measured(tmp_path: Path) -> None:
    assert "banner good" in one(entry(), tmp_path)[0]
    for extra in (pending(), not_measured(), entry(outcome="new", on_record=None), failed()):
        html, _ = pages(summary({"a.a": entry(), "b.b": extra}), tmp_path)
        assert "banner good" not in html


def test_run_that_measured_nothing_is_red(tmp_path: Path) -> None:
    for claims in ({}, {"a.a": pending()}, {"a.a": not_measured()}):
        html, _ = pages(summary(claims), tmp_path)
        assert "banner bad" in html
        assert "Nothing was measured" in html


def test_counts_that_contradict_the_claims_are_called_out(tmp_path: Path) -> None:
    html, _ = pages(summary({"a.a": pending()}, counts={"HOLDS": 99}), tmp_path)
    assert "HOLDS 99 ≠ 0" in html


@pytest.mark.parametrize("part", ["run", "model", "counts", "claims"])
def test_malformed_part_of_the_summary_is_a_warning_and_not_green(part: str, tmp_path: Path) -> None:
    html, _ = pages(summary({"a.a": entry()}) | {part: "broken"}, tmp_path)
    assert "malformed" in html
    assert "banner good" not in html


def test_interrupted_or_partial_run_is_not_green(tmp_path: Path) -> None:
    html, _ = pages(summary({"a.a": entry()}, run={"interrupted": True}), tmp_path)
    assert "did not finish" in html
    html, _ = pages(summary({"a.a": entry()}, run={"statements": 98}), tmp_path)
    assert "1 / 98" in html
    assert "banner good" not in html


def test_transferred_is_said_of_what_holds_only(tmp_path: Path) -> None:
    assert "transferred" in Elements(one(entry(transferred=True), tmp_path)[0]).text
    assert "transferred" not in Elements(one(refuted(transferred=True), tmp_path)[0]).text


@pytest.mark.parametrize(
    ("refuted_on_record", "sound"),
    [("REFUTED", True), ("HOLDS", False)],  # the figure left open used to make the verdict; or a milder one did not
)
def test_a_statement_left_open_by_the_figure_that_decided_it_is_no_contradiction(
    refuted_on_record: str, sound: bool
) -> None:
    worse, left_open = aspect("CONDITIONAL", on_record="CONDITIONAL"), aspect("UNRESOLVED", on_record=refuted_on_record)
    raw = entry("UNRESOLVED", on_record="REFUTED", outcome="unresolved", aspects={"a": worse, "b": left_open})
    assert (read_claim("a.a", raw).category == "UNRESOLVED") is sound
