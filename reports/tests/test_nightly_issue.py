"""The drift issue: what a night does to it, that it is ours alone, and that no record can speak through it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from reports.night.documents import Reading, Row
from reports.night.issue import Tonight, decide
from reports.night.issue_state import BOT, MARKER, Flagged, Issue, find_issue, read_state, state_line
from reports.night.quoting import link, quoted, quoted_value

FIRST, SECOND = Tonight("2026-12-01T02:37:00+00:00", "https://github.com/o/r/actions/runs/1"), Tonight("2026-12-02")
GITHUB_BODY_CHARS = 65_536  # what GitHub's interface takes


def row(claim: str, status: str, subject: str = "m@x", **figures: Any) -> Row:
    cells = {name: {"status": status, "was": was, "now": now} for name, (was, now) in figures.items()}
    return Row(claim, subject, status, "", {"status": status, "figures": cells})


def night(*rows: Row, problems: tuple[str, ...] = ()) -> Reading:
    return Reading(rows, problems)


def opened(*rows: Row) -> Issue:
    """The issue that a first night with these rows leaves."""
    action = decide(night(*rows), None, FIRST)
    assert action["action"] == "open"
    return Issue(12, read_state(action["body"]))


@pytest.mark.parametrize("status", ["drifted", "missing", "damaged"])
def test_a_flag_opens_an_issue(status: str) -> None:
    action = decide(night(row("a.b", status, bytes=(12_288, 12_289)), row("a.c", "steady")), None, FIRST)
    assert action["action"] == "open"
    assert action["number"] is None
    assert action["title"] == "Nightly drift: 1 statement"
    assert MARKER in action["body"]
    assert "`a.b`" in action["body"]
    assert "`12288` → `12289`" in action["body"]
    assert "`a.c`" not in action["body"]


@pytest.mark.parametrize("status", ["steady", "annotated", "incomparable", "unknown", "suspected", "unmeasured"])
def test_what_is_no_flag_opens_none(status: str) -> None:
    assert decide(night(row("a.b", status)), None, FIRST)["action"] == "none"


def test_the_same_flags_replace_the_text_and_tell_nobody() -> None:
    issue = opened(row("a.b", "drifted", bytes=(1, 2)))
    action = decide(night(row("a.b", "drifted", bytes=(1, 3))), issue, SECOND)
    assert (action["action"], action["number"], action["comment"]) == ("update", 12, "")
    assert "`1` → `3`" in action["body"]
    assert "`2026-12-01`" in action["body"], "flagged since the first night"


@pytest.mark.parametrize(
    "rows",
    [
        [row("a.b", "drifted"), row("a.c", "drifted")],  # one more
        [row("a.b", "steady"), row("a.c", "drifted")],  # another
        [row("a.b", "damaged")],  # the same as something else
    ],
)
def test_another_set_of_flags_is_told_in_one_comment(rows: list[Row]) -> None:
    action = decide(night(*rows), opened(row("a.b", "drifted")), SECOND)
    assert action["action"] == "comment"
    assert "New (1)" in action["comment"]
    assert ("No longer flagged (1)" in action["comment"]) == (rows[0].status == "steady")


def test_a_clean_night_closes_it_with_a_comment() -> None:
    action = decide(night(row("a.b", "annotated"), row("a.d", "incomparable")), opened(row("a.b", "drifted")), SECOND)
    assert (action["action"], action["number"]) == ("close", 12)
    assert action["comment"]
    assert read_state(action["body"]) == ()


@pytest.mark.parametrize(
    "rows",
    [
        [row("a.b", "incomparable")],  # another machine's baseline
        [row("a.b", "unmeasured"), row("a.c", "steady")],
        [row("a.b", "steady", subject="m@other")],  # tonight another machine
        [],
    ],
)
def test_a_flag_that_was_not_compared_tonight_does_not_close_it(rows: list[Row]) -> None:
    action = decide(night(*rows), opened(row("a.b", "drifted")), SECOND)
    assert action["action"] == "update"
    assert "not compared tonight" in action["body"]
    assert [flag.claim for flag in read_state(action["body"]) or ()] == ["a.b"]


def test_a_statement_that_is_in_neither_baseline_nor_run_any_more_is_gone() -> None:
    assert decide(night(row("a.c", "steady")), opened(row("a.b", "missing")), SECOND)["action"] == "close"


def test_an_issue_whose_memory_is_lost_is_closed_only_by_a_night_with_nothing_open() -> None:
    lost = Issue(12, None)
    assert decide(night(row("a.b", "steady"), row("a.c", "incomparable")), lost, SECOND)["action"] == "update"
    assert decide(night(row("a.b", "steady"), problems=("leg x: killed",)), lost, SECOND)["action"] == "update"
    assert decide(night(), lost, SECOND)["action"] == "update"
    assert decide(night(row("a.b", "drifted")), lost, SECOND)["action"] == "comment"
    assert decide(night(row("a.b", "steady"), row("a.c", "unmeasured")), lost, SECOND)["action"] == "close"
    kept = decide(night(row("a.b", "steady"), row("a.c", "incomparable")), lost, SECOND)["body"]
    assert read_state(kept) is None, "an update without knowledge must not be remembered as 'nothing was flagged'"


def listed(**changes: Any) -> dict[str, Any]:
    body = f"{MARKER}\n{state_line([Flagged('a.b', 'm@x', 'drifted', '2026-12-01')])}"
    return {"number": 5, "state": "open", "user": {"login": BOT}, "body": body} | changes


def test_our_issue_is_found_among_pages_of_others_the_oldest_first() -> None:
    pages = [[listed(number=9), {"number": 1, "state": "open", "user": {"login": BOT}, "body": "another"}], [listed()]]
    found = find_issue(pages)
    assert found == Issue(5, (Flagged("a.b", "m@x", "drifted", "2026-12-01"),))


@pytest.mark.parametrize(
    "other",
    [
        {"user": {"login": "somebody"}},  # else anybody could open ours, and close it again
        {"user": None},
        {"state": "closed"},
        {"pull_request": {}},
        {"body": None},
        {"body": "nightly drift"},
        {"number": "5"},
    ],
)
def test_what_is_not_our_open_issue_is_not_taken_for_it(other: dict[str, Any]) -> None:
    assert find_issue([listed(**other)]) is None
    assert find_issue(None) is None


@pytest.mark.parametrize("text", ["", "<!-- state {} -->", '<!-- state {"flags": [[1]]} -->', "<!-- state {x} -->"])
def test_a_state_that_cannot_be_read_is_unknown_and_not_empty(text: str) -> None:
    assert read_state(text) is None


HOSTILE = "x` | @somebody #1 <img src=//e> [a](http://e) ![](http://e) --> \n# head\n\u202e</details> &lt; \\` ``` y"


def test_nothing_from_a_record_leaves_its_code_span() -> None:
    figures = {HOSTILE: (HOSTILE, [HOSTILE])}
    flag = row(HOSTILE, "drifted", HOSTILE, **figures)
    flag = Row(flag.claim, flag.subject, flag.status, HOSTILE, flag.cell)
    action = decide(night(flag, problems=(HOSTILE,)), opened(row(HOSTILE + "z", "missing", HOSTILE)), SECOND)
    for text in (action["body"], action["comment"]):
        visible = re.sub(r"`[^`]*`", "", text)
        assert "somebody" not in re.sub("<!-- state .* -->", "", visible)
        assert "@" not in visible
    assert "@" not in action["title"]
    tokens = MarkdownIt("commonmark").enable("table").parse(action["body"])
    inline = [t for token in tokens for t in (token.children or [])]
    assert not [t for t in inline if t.type in {"link_open", "image", "html_inline"}]
    assert len([t for t in tokens if t.type == "th_open"]) == 5
    assert len([t for t in tokens if t.type == "td_open"]) == 5
    assert read_state(action["body"]) == (Flagged(HOSTILE, HOSTILE, "drifted", SECOND.night),), (
        "the state survives whatever a record calls itself"
    )


def test_plain_text_would_not_pass_that() -> None:
    inline = [t for token in MarkdownIt("commonmark").parse(HOSTILE) for t in (token.children or [])]
    assert {t.type for t in inline} & {"link_open", "image", "html_inline"}


@pytest.mark.parametrize("num_flags", [1, 300, 5_000])
def test_the_text_stays_below_githubs_limit(num_flags: int) -> None:
    rows = [
        row(f"{'s' * 70}.{i}", "drifted", "m" * 200, **{"f" * 100: ["a" * 500, "b" * 500]}) for i in range(num_flags)
    ]
    action = decide(night(*rows, problems=("p" * 500,) * (num_flags - 1)), None, FIRST)
    assert len(action["body"]) < GITHUB_BODY_CHARS
    assert ("more: see the page" in action["body"]) == (num_flags > 1)
    again = decide(night(*rows), Issue(3, read_state(action["body"])), SECOND)
    assert len(again["body"]) < GITHUB_BODY_CHARS
    assert len(again["comment"]) < GITHUB_BODY_CHARS


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (1 / 3, "`0.333333`"),
        ({"value": 1.5, "low": 1.0, "high": 2.25}, "`1.5 [1, 2.25]`"),
        ({"16": 0.1}, '`{"16": 0.1}`'),
        (True, "`true`"),
        ("", "–"),
    ],
)
def test_values_are_short_and_quoted(value: object, shown: str) -> None:
    assert quoted_value(value) == shown


def test_long_text_is_cut_and_says_so() -> None:
    assert quoted("a" * 200, 10) == f"`{'a' * 9}…`"


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://e.org/a)[b](c", "https://e.org/<b>", "http://e.org", ""]
)
def test_only_a_plain_https_address_becomes_a_link(url: str) -> None:
    assert link(url, "run") == "run"
    assert link("https://github.com/o/r/actions/runs/1", "run") == "[run](https://github.com/o/r/actions/runs/1)"


def test_a_part_of_a_night_closes_nothing_that_it_did_not_see() -> None:
    issue, part = opened(row("a.b", "drifted")), night(row("a.c", "steady"))
    assert decide(part, issue, SECOND)["action"] == "close"
    assert decide(part, issue, SECOND, whole=False)["action"] == "update"
