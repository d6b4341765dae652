"""Merging is a union: in whatever order, in whatever steps, however often, the same evidence is the same matrix."""

from __future__ import annotations

import json
import tempfile
from functools import reduce
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reports.ledger import Ledger, load_ledger
from reports.merge.cells import Entry, settle
from reports.merge.folder import write_merged
from reports.merge.matrix import matrix
from reports.merge.parts import Part, part_of
from reports.merge.shards import read_folder
from reports.tests.merge_samples import GPU, IDS, MACHINE, ledger, measured, record, run_facts
from reports.tests.samples import MODEL, aspect

SKIPPED = {"outcome": "not-measured", "on_record": "HOLDS", "aspects": {}, "reason": "needs a GPU"}
ESTIMATE = {"value": 1.0, "low": 0.5, "high": 1.5}
OPEN = {"outcome": "unresolved", "on_record": "HOLDS", "aspects": {"bytes": aspect("UNRESOLVED", measured=ESTIMATE)}}
ROWS: list[dict[str, Any]] = [
    record(ident, verdict, machine=machine, **changes)
    for ident in (*IDS, "toys.four")
    for machine in (MACHINE["class"], GPU["class"])
    for verdict, changes in [
        ("HOLDS", {}),
        ("HOLDS", measured(12289)),
        ("HOLDS", measured(ESTIMATE, warrant="timed")),
        ("UNRESOLVED", OPEN | {"warrant": "timed"}),
        ("NOT_MEASURED", SKIPPED),
        (None, {"outcome": "error", "error": "call: boom", "on_record": "HOLDS", "aspects": {}}),
        ("LIES", {}),
    ]
]


@st.composite
def parts(draw: st.DrawFn) -> Part:
    rows = draw(st.lists(st.sampled_from(ROWS), max_size=4, unique_by=lambda row: row["id"]))
    started = draw(st.sampled_from(["2026-11-30T03:00:00+00:00", "2026-11-30T04:00:00+02:00", "yesterday", None]))
    commit, machine = draw(st.sampled_from(["aaa", "bbb"])), draw(st.sampled_from([MACHINE, GPU, None]))
    raw = {
        "run": run_facts(started=started, commit=commit, machine=machine),
        "model": draw(st.sampled_from([MODEL, None])),
        "collected": draw(st.none() | st.lists(st.sampled_from([*IDS, "../x"]))),
        "records": {row["id"]: row for row in rows},
        "finished": draw(st.booleans()),
        "empty": draw(st.sampled_from(["", "", "lost: no such folder"])),
    }
    return part_of(raw, draw(st.lists(st.sampled_from([("toys.one", "cut short")]))))


def toys() -> Ledger:
    with tempfile.TemporaryDirectory() as folder:
        return load_ledger(ledger(Path(folder) / "claims"))


LEDGER = toys()


def text(found: list[Part], expect_gpu: bool = False) -> str:
    return json.dumps(matrix(found, LEDGER, expect_gpu), sort_keys=True, allow_nan=False)


@given(st.lists(parts(), max_size=5), st.randoms(), st.booleans())
@settings(deadline=None, max_examples=200)
def test_the_order_and_repetition_of_parts_change_nothing(found: list[Part], random: Any, expect_gpu: bool) -> None:
    again = [*found, *found[:2]]
    random.shuffle(again)
    assert text(again, expect_gpu) == text(found, expect_gpu)


@given(st.lists(parts(), min_size=1, max_size=4), st.integers(0, 3))
@settings(deadline=None, max_examples=40)
def test_merging_in_steps_through_folders_is_merging_at_once(found: list[Part], cut: int) -> None:
    """((A B) (C D)) and (A B C D), byte for byte; and a merged folder merged again is itself."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        steps = [some for some in (found[:cut], found[cut:]) if some]
        for place, some in enumerate(steps):
            write_merged(out / str(place), matrix(some, LEDGER), some)
        read = [part for place in range(len(steps)) for part in read_folder(out / str(place))]
        assert text(read) == text(found)
        write_merged(out / "all", matrix(read, LEDGER), read)
        assert text(read_folder(out / "all")) == text(found)


@given(st.lists(parts(), max_size=3), parts())
@settings(deadline=None, max_examples=100)
def test_more_evidence_never_takes_damage_or_a_conflict_away(found: list[Part], more: Part) -> None:
    def kept(document: dict[str, Any]) -> set[tuple[str, str, str]]:
        lasting = {"damaged", "conflict", "empty", "unknown", "mixed", "ledger"}
        return {(p["kind"], p["id"], p["subject"]) for p in document["problems"] if p["kind"] in lasting}

    assert kept(matrix(found, LEDGER)) <= kept(matrix([*found, more], LEDGER))


@given(st.lists(parts(), max_size=4))
@settings(deadline=None, max_examples=100)
def test_no_claim_goes_missing(found: list[Part]) -> None:
    """Every collected claim is a cell, and every id of the ledger is a cell or named as collected nowhere."""
    document = matrix(found, LEDGER)
    nowhere = " ".join(p["detail"] for p in document["problems"] if p["kind"] == "gap" and not p["id"])
    for name in IDS:
        assert name in document["claims"] or name.partition(".")[2] in nowhere
    for part in found:
        assert set(part.collected or ()) <= set(document["claims"])


@given(st.lists(st.sampled_from([row for row in ROWS if row["id"] == IDS[0]]), min_size=1, max_size=4))
def test_a_cell_is_green_only_where_no_run_says_otherwise(rows: list[dict[str, Any]]) -> None:
    row, kind, _ = settle([Entry("", found) for found in rows])
    if row["outcome"] == "as-recorded":
        ended = [found for found in rows if found["outcome"] not in {"not-measured", "unresolved"}]
        assert kind != "conflict" and {found["verdict"] for found in ended} == {row["verdict"]}


def fold(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The wrong way: two at a time, keeping the row and forgetting what it stood for."""
    return reduce(lambda kept, row: settle([Entry("", kept), Entry("", row)])[0], rows)


def test_settling_two_at_a_time_would_not_be_associative() -> None:
    """Why a merged folder keeps its parts: of three runs, the middle interval touches both others."""
    rows = [record(IDS[0], **measured({"value": v, "low": v - 1, "high": v + 1}, warrant="timed")) for v in (1, 2.5, 4)]
    assert fold(rows)["outcome"] == "as-recorded"
    assert settle([Entry("", row) for row in rows])[1] == "conflict"
