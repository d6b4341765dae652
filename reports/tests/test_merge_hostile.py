"""Evidence is made elsewhere: whatever it holds, a merge names it, keeps inside its folder, and does not fall over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reports.merge import strict
from reports.render.reading import claim as read_claim
from reports.tests.merge_samples import (
    IDS,
    SUBJECT,
    details,
    ledger,
    merge,
    merged,
    problems,
    record,
    run_facts,
    shard,
    store,
)
from reports.tests.samples import MODEL, aspect

ONE, TWO, THREE = IDS
WHOLE = [record(name) for name in IDS]
LONG = "toys." + "x" * 10_000


def files_outside(tmp_path: Path) -> set[Path]:
    """Everything that is neither input nor output of a merge."""
    return {path for path in tmp_path.rglob("*") if not {"M", "a", "claims"} & set(path.relative_to(tmp_path).parts)}


def spoil(night: Path, name: str, content: str | bytes) -> None:
    raw = content if isinstance(content, bytes) else content.encode()
    (night / "records" / f"{name}.json").write_bytes(raw)


def changed(**changes: Any) -> str:
    return json.dumps(record(ONE) | changes)


BROKEN: dict[str, str | bytes] = {
    "empty": "",
    "cut short": changed()[:200],
    "no object": "[]",
    "no number": changed(aspects={"bytes": aspect(measured=float("nan"))}),
    "infinite": changed(aspects={"bytes": aspect(measured=float("inf"))}),
    "past every float": changed().replace("12288}", "1e999}").replace('"measured": 12288', '"measured": 1e999'),
    "a huge integer": changed(aspects={"bytes": aspect(measured=10**400)}),
    "latin 1": changed(says="caf\xe9").replace("\\u00e9", "\xe9").encode("latin-1"),
    "a lone surrogate": changed(says="\ud800"),
    "too deep": "[" * 100_000,
    "deep": json.dumps(record(ONE) | {"protocol": json.loads('{"a":' * 200 + "1" + "}" * 200)}),
    "a key twice": changed().replace("{", '{"verdict": "REFUTED", ', 1),
    "another's id": changed(id=TWO),
    "no id": json.dumps({k: v for k, v in record(ONE).items() if k != "id"}),
    "an unheard-of verdict": changed(verdict="PROBABLY"),
    "an unheard-of outcome": changed(outcome="fine"),
    "a number for a text": changed(says=5),
    "a list for the figures": changed(aspects=["x"]),
    "a text for a figure": changed(aspects={"bytes": "12288"}),
    "a model without a slug": changed(model={"name": "x"}),
    "a slug that is a list": changed(model=MODEL | {"slug": []}),
    "an unheard-of warrant": changed(warrant="hearsay"),
    "holds, refuted inside": changed(aspects={"bytes": aspect("REFUTED")}),
    "holds, nothing inside": changed(aspects={}),
    "holds, but not as recorded": changed(on_record="REFUTED"),
    "a truth value for seconds": changed(seconds=True),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("finished", [True, False], ids=["finished", "killed"])
def test_a_record_that_cannot_be_believed_is_a_red_row(content: str | bytes, finished: bool, tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE, finished=finished)
    spoil(night, ONE, content)
    assert merge(tmp_path, night) == 1
    assert ("damaged", ONE) in problems(tmp_path)
    row = merged(tmp_path)["claims"][ONE][SUBJECT]
    assert row["outcome"] == "error" and read_claim(ONE, row).tone == "bad"
    assert merged(tmp_path)["claims"][TWO][SUBJECT]["verdict"] == "HOLDS"


def test_a_record_and_a_summary_that_differ_are_both_disbelieved(tmp_path: Path) -> None:
    """A figure planted in one of the two is not carried on."""
    night = shard(tmp_path / "a", WHOLE)
    spoil(night, ONE, changed(aspects={"bytes": aspect(measured=12287)}))
    assert merge(tmp_path, night) == 1
    assert details(tmp_path, "damaged") == "the summary and the record do not say the same"
    assert merged(tmp_path)["claims"][ONE][SUBJECT]["outcome"] == "error"


def test_a_record_that_was_removed_or_slipped_in_is_told(tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE)
    (night / "records" / f"{ONE}.json").unlink()
    store(night / "records" / "toys.four.json", record("toys.four"))
    assert merge(tmp_path, night) == 1
    assert {("damaged", ONE), ("damaged", "toys.four")} <= set(problems(tmp_path))


def test_a_summary_alone_is_evidence(tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE)
    shutil.rmtree(night / "records")
    assert merge(tmp_path, night) == 0


BAD_DOCUMENTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no JSON": lambda _: None,
    "a list": lambda raw: [raw],
    "schema 99": lambda raw: raw | {"schema": 99},
    "claims is a list": lambda raw: raw | {"claims": []},
    "run is a list": lambda raw: raw | {"run": []},
    "model is a text": lambda raw: raw | {"model": "qwen"},
    "collected is a text": lambda raw: raw | {"run": run_facts(collected="all"), "collected": "all"},
    "collected holds paths": lambda raw: raw | {"collected": ["../x"], "run": run_facts(collected=["../x"])},
    "of another run": lambda raw: raw | {"run": run_facts(collected=list(IDS), started="2026-11-30T09:00:00+00:00")},
    "collected differs": lambda raw: raw | {"collected": [ONE], "run": run_facts(collected=[TWO])},
}


ONLY_IN_SUMMARIES = {"claims is a list", "model is a text"}


@pytest.mark.parametrize("fault", BAD_DOCUMENTS)
@pytest.mark.parametrize("name", ["summary.json", "collected.json"])
def test_a_damaged_summary_or_plan_is_a_row(name: str, fault: str, tmp_path: Path) -> None:
    if name == "collected.json" and fault in ONLY_IN_SUMMARIES:
        return
    night = shard(tmp_path / "a", WHOLE)
    document = BAD_DOCUMENTS[fault](json.loads((night / name).read_text(encoding="utf-8")))
    (night / name).write_text("{" if document is None else json.dumps(document), encoding="utf-8")
    assert merge(tmp_path, night) == 1
    assert "damaged" in {kind for kind, _ in problems(tmp_path)}


@pytest.mark.parametrize(
    "name", ["../../escape", "/escape", "a/b", "toys.a\0b", LONG, "Toys.One", "TOYS.ONE", "toys..one", "con", ""]
)
def test_an_id_that_is_no_file_name_stays_out(name: str, tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE, collected=[*IDS, name])
    summary = json.loads((night / "summary.json").read_text(encoding="utf-8"))
    summary["claims"][name] = record(name)
    store(night / "summary.json", summary)
    before = files_outside(tmp_path)
    assert merge(tmp_path, night) == 1
    assert set(merged(tmp_path)["claims"]) == set(IDS)
    assert "damaged" in {kind for kind, _ in problems(tmp_path)}
    assert all(len(p["id"]) < 130 and "\0" not in p["id"] for p in merged(tmp_path)["problems"])
    assert files_outside(tmp_path) == before


@pytest.mark.parametrize("slug", ["../../escape", "/escape", "..", "a/b", "a\0b", "x" * 10_000, "QWEN", "", "a@b"])
def test_a_model_or_machine_that_is_no_folder_name_stays_inside(slug: str, tmp_path: Path) -> None:
    model, machine = MODEL | {"slug": slug}, {"class": slug}
    rows = [record(name, model=model, machine=slug) for name in IDS]
    before = files_outside(tmp_path)
    merge(tmp_path, shard(tmp_path / "a", rows, model=model, machine=machine))
    assert files_outside(tmp_path) == before
    (subject,) = merged(tmp_path)["subjects"]
    assert (tmp_path / "M" / "records" / subject / f"{ONE}.json").is_file()
    assert subject.count("@") == 1 and len(subject) <= 250


def test_names_that_would_fall_together_stay_apart(tmp_path: Path) -> None:
    """`Qwen` and `qwen` are one folder on some file systems, and two models."""
    folders = []
    for place, slug in enumerate(("Qwen", "qwen", "q/wen", "q:wen")):
        rows = [record(name, model=MODEL | {"slug": slug}) for name in IDS]
        folders.append(shard(tmp_path / f"a{place}", rows, model=MODEL | {"slug": slug}))
    assert merge(tmp_path, *folders) == 0
    assert len({subject.lower() for subject in merged(tmp_path)["subjects"]}) == 4


@pytest.mark.parametrize("what", ["record", "records", "summary.json", "collected.json"])
def test_a_link_is_not_followed(what: str, tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE, finished=what == "summary.json")
    target = {"record": night / "records" / f"{ONE}.json"}.get(what, night / what)
    away = tmp_path / "secret"
    shutil.move(target, away)
    target.symlink_to(away)
    assert merge(tmp_path, night) == 1
    assert "a link instead of a f" in details(tmp_path, "damaged")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_does_not_keep_a_merge_waiting(tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE, finished=False)
    (night / "records" / f"{ONE}.json").unlink()
    os.mkfifo(night / "records" / f"{ONE}.json")
    assert merge(tmp_path, night) == 1
    assert details(tmp_path, "damaged") == "no regular file"


def test_a_record_of_200_mb_is_refused_by_its_size(tmp_path: Path) -> None:
    night = shard(tmp_path / "a", WHOLE, finished=False)
    with (night / "records" / f"{ONE}.json").open("wb") as stream:
        stream.truncate(200 * 10**6)
    assert merge(tmp_path, night) == 1
    assert details(tmp_path, "damaged") == "190.7 MiB, and more than 8 MiB are refused"


def test_too_many_records_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strict, "MAX_FILES", 2)
    assert merge(tmp_path, shard(tmp_path / "a", WHOLE)) == 1
    assert "3 files, and more than 2 are refused" in details(tmp_path, "damaged")


@pytest.mark.parametrize("what", ["changed", "removed", "cut", "link", "list"])
def test_a_merged_folder_that_was_tampered_with_is_told(what: str, tmp_path: Path) -> None:
    merge(tmp_path, shard(tmp_path / "a", WHOLE))
    (part,) = (tmp_path / "M" / "parts").iterdir()
    text = part.read_text(encoding="utf-8")
    if what == "changed":
        part.write_text(text.replace("12288,", "12287,"), encoding="utf-8")
    elif what == "cut":
        part.write_text(text[:500], encoding="utf-8")
    elif what == "list":
        store(tmp_path / "M" / "merged.json", merged(tmp_path) | {"parts": ["../../a/summary"]})
    else:
        part.unlink()
        if what == "link":
            part.symlink_to(tmp_path / "a" / "summary.json")
    assert merge(tmp_path, tmp_path / "M", out="N") == 1
    assert "damaged" in {kind for kind, _ in problems(tmp_path, "N")}


def test_a_ledger_that_is_none_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    night = shard(tmp_path / "a", WHOLE)
    for claims in (tmp_path / "nowhere", tmp_path / "bad"):
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad" / "toys.toml").write_text("[[statement]]\nid = 5\n")
        assert merge(tmp_path, night, claims=claims) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_everything_on_the_screen_is_printable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    night = shard(tmp_path / "a", WHOLE, started="\x1b[2J\u202e2026", commit="\x07" * 50)
    spoil(night, ONE, changed(verdict="\x1b[31mHOLDS\n"))
    merge(tmp_path, night, shard(tmp_path / "b", WHOLE))
    out = capsys.readouterr().out
    assert not set(out) & {"\x1b", "\x07", "\u202e"}
    assert all(line.isprintable() for line in out.splitlines())


def test_the_sample_ledger_is_one(tmp_path: Path) -> None:
    from reports.ledger import load_ledger

    assert set(load_ledger(ledger(tmp_path / "claims")).statements) == set(IDS)
