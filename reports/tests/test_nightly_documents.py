"""What a night reads: drift documents with distrust, joined by which run knows more; the artifact of the history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.night.artifacts import latest_history
from reports.night.documents import ORDER, as_document, join, read_drift, read_joined

Raw = dict[str, Any]


def drift(**statuses: str) -> Raw:
    """A document with one row per name, on one subject."""
    cell = {"detail": "", "figures": {"bytes": {"status": "steady", "was": 1, "now": 1, "detail": ""}}}
    rows = {f"cache-size.{name}": {"m@x": cell | {"status": status}} for name, status in statuses.items()}
    return {"schema": 1, "baseline": "b", "evidence": "e", "rows": rows, "counts": {}}


def stored(folder: Path, document: object, name: str = "drift.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return folder / name


def joined(tmp_path: Path, *documents: Raw) -> dict[str, str]:
    paths = [stored(tmp_path / str(i), document) for i, document in enumerate(documents)]
    return {row.claim: row.status for row in join(read_drift(path, "leg") for path in paths).rows}


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("missing", "steady", "steady"),  # a leg that never asked for it does not speak for the one that measured it
        ("unmeasured", "drifted", "drifted"),
        ("steady", "drifted", "drifted"),
        ("drifted", "damaged", "damaged"),
        ("annotated", "steady", "annotated"),
        ("missing", "missing", "missing"),
    ],
)
def test_the_leg_that_knows_more_is_believed_in_either_order(one: str, other: str, shown: str, tmp_path: Path) -> None:
    assert joined(tmp_path / "a", drift(x=one), drift(x=other)) == {"cache-size.x": shown}
    assert joined(tmp_path / "b", drift(x=other), drift(x=one)) == {"cache-size.x": shown}


def test_rows_of_different_subjects_stay_apart(tmp_path: Path) -> None:
    there = json.loads(json.dumps(drift(x="steady")).replace("m@x", "m@y"))
    rows = join(
        [read_drift(stored(tmp_path / str(i), d), "leg") for i, d in enumerate([drift(x="drifted"), there])]
    ).rows
    assert [(row.subject, row.status) for row in rows] == [("m@x", "drifted"), ("m@y", "steady")]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"schema": 2, "rows": {}}', '{"schema": 1}', '{"schema": 1, "rows": NaN}', "[" * 100_000],
)
def test_an_unreadable_document_is_a_problem_and_no_rows(content: str, tmp_path: Path) -> None:
    (tmp_path / "drift.json").write_text(content, encoding="utf-8")
    reading = read_drift(tmp_path / "drift.json", "leg shape")
    assert not reading.rows
    assert len(reading.problems) == 1
    assert reading.problems[0].startswith("leg shape: ")


@pytest.mark.parametrize(
    "cells", [[], None, {}, {"m@x": None}, {"m@x": {"status": "fine"}}, {"m@x": {"status": []}}, {"m@x": {}}]
)
def test_a_malformed_row_is_damaged_and_never_steady(cells: object, tmp_path: Path) -> None:
    path = stored(tmp_path, drift(y="steady") | {"rows": {"a.b": cells}})
    assert [row.status for row in read_drift(path, "leg").rows] == ["damaged"]


def test_a_joined_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    statuses = {f"s{i}": status for i, status in enumerate(ORDER)}
    reading = join([read_drift(stored(tmp_path, drift(**statuses)), "a"), read_drift(tmp_path / "none.json", "b")])
    again = read_joined(stored(tmp_path, as_document(reading, "b", "e"), "joined.json"))
    assert again.counts() == dict.fromkeys(ORDER, 1)
    assert again.problems == reading.problems == ("b: no readable drift document (missing)",)
    assert next(iter(again.rows)).cell["figures"]["bytes"]["was"] == 1


def artifact(number: int, created: str, **changes: Any) -> Raw:
    workflow = {"id": number, "repository_id": 7, "head_repository_id": 7, "head_branch": "main"} | changes.pop(
        "run", {}
    )
    return {"name": "history", "expired": False, "created_at": created, "workflow_run": workflow} | changes


def test_the_newest_history_of_our_own_branch_is_taken_red_or_not() -> None:
    listed = [
        artifact(1, "2026-11-28T03:00:00Z"),
        artifact(3, "2026-11-30T03:00:00Z"),
        artifact(2, "2026-11-29T03:00:00Z"),
    ]
    assert latest_history({"artifacts": listed}, "main") == 3
    assert latest_history({"artifacts": []}, "main") is None


@pytest.mark.parametrize(
    "foreign",
    [
        {"run": {"head_repository_id": 8}},  # a fork whose branch has our branch's name
        {"run": {"repository_id": None, "head_repository_id": None}},
        {"run": {"head_branch": "try"}},
        {"run": {"id": "3; rm -rf ."}},
        {"expired": True},
        {"name": "history-before"},
        {"workflow_run": None},
    ],
)
def test_a_foreign_or_expired_history_is_never_taken(foreign: Raw) -> None:
    listed = {"artifacts": [artifact(1, "2026-11-28T03:00:00Z"), artifact(9, "2026-11-30T03:00:00Z", **foreign)]}
    assert latest_history(listed, "main") == 1


@pytest.mark.parametrize("listed", [None, [], {}, {"artifacts": {}}])
def test_an_answer_that_is_no_list_is_an_error_and_not_a_first_night(listed: object) -> None:
    with pytest.raises(ValueError, match="not a list"):
        latest_history(listed, "main")
