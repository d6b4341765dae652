"""The terminal summary: order, colours, width, and nothing green that was not shown."""

from __future__ import annotations

import pytest

from reports.terminal import summary_lines
from reports.tests.samples import aspect, entry, everything, failed, not_measured, pending, refuted, summary

WIDE = 200


def lines_of(claims: dict[str, object], width: int = WIDE) -> list[tuple[str, dict[str, bool]]]:
    return summary_lines(summary(claims), width)


def starting(prefix: str, claims: dict[str, object]) -> list[tuple[str, dict[str, bool]]]:
    return [(line, markup) for line, markup in lines_of(claims) if line.startswith(prefix)]


def test_counts_come_first_with_every_category() -> None:
    line, markup = lines_of(everything())[0]
    assert line == (
        "14 statements: 4 holds, 1 conditional, 4 refuted, 1 unresolved, 2 not measured, 1 error, 1 pending"
    )
    assert markup["red"]


def test_changed_verdicts_are_red_and_precede_the_errata() -> None:
    lines = [line for line, _ in lines_of(everything())]
    changed = next(i for i, line in enumerate(lines) if line.startswith("CHANGED"))
    assert lines[changed] == "CHANGED kv-cache.changed: refuted, on record holds"
    assert changed < next(i for i, line in enumerate(lines) if line.startswith("errata"))
    assert all(markup["red"] for _, markup in starting("CHANGED", everything()))


def test_errors_are_red_rows_with_their_message() -> None:
    assert starting("ERROR", {"a.a": failed()}) == [
        ("ERROR a.a: call: ZeroDivisionError: division by zero", {"red": True, "bold": True})
    ]


def test_damaged_record_is_an_error_and_not_a_pass() -> None:
    ((line, markup),) = starting("ERROR", {"a.a": entry(aspects={})})
    assert "a verdict without any aspect" in line
    assert markup["red"]


def test_errata_are_listed_by_kind_with_reason_and_decisive_figures() -> None:
    lines = [line for line, _ in lines_of({"weights.gain": refuted(), "weights.other": refuted("does-not-transfer")})]
    start = lines.index("errata, proven: 1")
    assert lines[start + 1] == "  weights.gain: the number is off; no conclusion was tested beside it"
    assert lines[start + 2] == "    write 21 %"
    assert lines[start + 3] == "    gain: measured 0.211 byte, published 12,288 byte"
    assert lines.index("errata, does not transfer: 1") > start


def test_unresolved_is_yellow_and_never_green() -> None:
    straddles = entry("UNRESOLVED", outcome="unresolved", on_record="HOLDS", reason="straddles the line")
    assert starting("UNRESOLVED", {"a.a": straddles}) == [("UNRESOLVED a.a: straddles the line", {"yellow": True})]


def test_new_verdict_says_that_nothing_is_on_record() -> None:
    ((line, markup),) = starting("NEW", {"a.a": entry(outcome="new", on_record=None)})
    assert "nothing on record" in line
    assert "green" not in markup


def test_not_measured_is_counted_by_reason() -> None:
    claims = {f"a.{i}": not_measured("needs a GPU") for i in range(3)} | {"b.b": not_measured("no model in this run")}
    lines = [line for line, _ in lines_of(claims)]
    assert lines[lines.index("not measured: 4") + 1 :][:2] == ["  3 × needs a GPU", "  1 × no model in this run"]


def test_reason_of_the_aspects_counts_where_the_claim_has_none() -> None:
    lacking = aspect("NOT_MEASURED", reason="needs the chapter's own weights")
    lines = [line for line, _ in lines_of({"a.a": not_measured("", aspects={"bytes": lacking})})]
    assert "  1 × needs the chapter's own weights" in lines


def test_many_reasons_are_cut_and_say_so() -> None:
    lines = [line for line, _ in lines_of({f"a.{i}": not_measured(f"reason {i}") for i in range(12)})]
    assert "  and 4 other reasons" in lines


def test_pending_is_a_number() -> None:
    assert starting("pending", {"a.a": pending(), "b.b": pending()}) == [("pending: 2 statements have no test yet", {})]


@pytest.mark.parametrize("missing", [pending(), not_measured(), failed(), entry(outcome="new", on_record=None)])
def test_green_only_when_everything_was_measured_and_agrees(missing: dict[str, object]) -> None:
    assert lines_of({"a.a": entry()})[0][1].get("green")
    assert not any(markup.get("green") for _, markup in lines_of({"a.a": entry(), "b.b": missing}))


@pytest.mark.parametrize("width", [0, 20, 60, 80, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    claims = everything() | {"weights.long": refuted(erratum="word " * 200)}
    assert all(len(line) <= max(width, 20) for line, _ in lines_of(claims, width))


def test_control_characters_and_line_breaks_do_not_reach_the_terminal() -> None:
    hostile = "red \x1b[31m\nPASSED \u202e"
    claims = {"a.a": refuted(erratum=hostile), "b.b": failed(hostile), "c.\x1b[2J": not_measured(hostile)}
    for line, _ in lines_of(claims):
        assert line.isprintable()


@pytest.mark.parametrize("broken", [{}, {"claims": None}, {"claims": {"a.a": 7}, "counts": []}])
def test_malformed_summary_is_red_and_does_not_raise(broken: dict[str, object]) -> None:
    assert all(not markup.get("green") for _, markup in summary_lines(broken, 80))
    assert summary_lines(broken, 80)[0][1]["red"]
