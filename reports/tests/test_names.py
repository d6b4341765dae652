"""Every place where a name from outside becomes a path: through `reports.names`, and never out of its folder."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reports import names
from reports.__main__ import main
from reports.evidence import EvidenceError, EvidenceFolder
from reports.names import MAX_ID, NoName, inside, is_safe_id, record_in
from reports.render import load, write_pages
from reports.render.load import load_page
from reports.subject_key import subject_key
from reports.tests.drift_samples import accept, claims, evidence
from reports.tests.merge_samples import IDS, merge, record, shard, store
from reports.tests.samples import MODEL, entry, summary

ROOT = Path(__file__).parents[2]
LONG = "toys." + "x" * 5_000
BAD = [
    "../../x", "/x", "\\\\host\\x", "c:x.y", "toys/one", "toys\\one", "toys.a\0b", "toys.a\nb", "toys.one\n",
    " toys.one", "toys.one ", "..", ".", "", "toys", "toys..one", "toys.one.", ".toys.one", "Toys.one", "TOYS.ONE",
    "toys.\u043ene", "toys.\uff4fne", "toys.o\u0301ne", "toys.\u0131", "toys.\u2024one", "toys.\u202eone",
    "toys.\ud800", "toys.%2e%2e", "~.x", "con", "CON", "con.x", "nul.one", "com1.x", "lpt9.a.b", "toys.*", "toys.?",
    "toys:one.x", "-rf.x", LONG,
]  # fmt: skip


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_what_is_no_id_gets_no_path(name: str, tmp_path: Path) -> None:
    assert not is_safe_id(name)
    with pytest.raises(NoName) as refused:
        record_in(tmp_path, name)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 2 * MAX_ID * 4


def test_ids_of_the_ledger_are_names_and_no_two_of_them_fold_together() -> None:
    from reports.ledger import load_ledger

    known = list(load_ledger(ROOT / "claims").statements)
    assert all(map(is_safe_id, known)) and len({name.casefold() for name in known}) == len(known)
    assert is_safe_id("serving.throughput-1.6") and is_safe_id("a." + "x" * (MAX_ID - 2))
    assert not is_safe_id("a." + "x" * (MAX_ID - 1)) and not is_safe_id(None)


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "a\\b", "a\0", "a\n", "..", "", "nul.json", "CON", "x" * 251, 5])
def test_no_other_name_leaves_its_folder(name: object, tmp_path: Path) -> None:
    with pytest.raises(NoName):
        inside(tmp_path, name)
    assert inside(tmp_path, "20261130T031415Z-a_b@c.json").parent == tmp_path


@pytest.mark.parametrize("slug", [*BAD, "q\u212awen"], ids=ascii)
def test_a_subject_is_a_name_whatever_model_and_machine_are_called(slug: str, tmp_path: Path) -> None:
    key = subject_key(MODEL | {"slug": slug, "dtype": slug}, slug)
    assert inside(tmp_path, key).parent == tmp_path and not set(key) & set("*?[]/\\:")
    assert inside(tmp_path, f"20261130T031415Z-{key}.json")


def test_subjects_that_would_fall_together_stay_apart() -> None:
    odd = ["con", "_con", "con-1", "nul", "nul ", "\u0131", "i", "x" * 101, "x" * 102, "", " "]
    keys = [subject_key(MODEL | {"slug": s}, "m") for s in ("qwen", "Qwen", "QWEN", "q\u212awen", "qkwen", *odd)]
    assert len({key.casefold() for key in keys}) == len(keys)


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_a_run_neither_writes_nor_looks_for_a_record_outside(name: str, tmp_path: Path) -> None:
    folder = EvidenceFolder(tmp_path / "a" / "E")
    folder.open()
    before = files(tmp_path)
    with pytest.raises((EvidenceError, NoName)):
        folder.write_record(entry() | {"id": name})
    assert not folder.has_record(name)
    folder.close()
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_a_page_reads_no_record_outside(name: str, tmp_path: Path) -> None:
    """A record right where the name would lead, which agrees with the summary: it must not be believed."""
    raw = entry() | {"id": name}
    store(tmp_path / "E" / "summary.json", summary({name: raw}))
    (tmp_path / "E" / "records").mkdir()
    try:
        store(tmp_path / "E" / "records" / f"{name}.json", raw)
    except (OSError, ValueError):
        assert load_page(tmp_path / "E").errors  # a name that no file can have
        return
    assert load_page(tmp_path / "E").errors
    assert 'href="records' not in write_pages(summary({name: raw}), tmp_path / "E")[0].read_text(encoding="utf-8")


def test_a_page_that_builds_the_path_itself_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant."""
    monkeypatch.setattr(load, "record_in", lambda folder, name: folder / f"{name}.json")
    raw = entry() | {"id": "../x"}
    store(tmp_path / "E" / "summary.json", summary({"../x": raw}))
    (tmp_path / "E" / "records").mkdir()
    store(tmp_path / "E" / "x.json", raw)
    assert not [claim for claim in load_page(tmp_path / "E").errors if claim.error]


HOSTILE_SUBJECTS = ["../../x", "/x", "CON", "x" * 5_000, "a\nb", "QWEN", "q\u212awen"]


@pytest.mark.parametrize("slug", HOSTILE_SUBJECTS, ids=ascii)
def test_baseline_history_and_merge_stay_in_their_folders(slug: str, tmp_path: Path) -> None:
    model, rows = MODEL | {"slug": slug}, claims()
    for row in rows.values():
        row["model"] = model
    folder = evidence(tmp_path / "e", rows, machine=slug)
    raw = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    store(folder / "summary.json", raw | {"model": model})
    before = files(tmp_path)
    assert accept([folder], tmp_path / "baseline") == 0
    assert main(["history", "--store", str(tmp_path / "h"), "--add", str(folder)]) == 0
    merge(tmp_path, shard(tmp_path / "s", [record(n, model=model, machine=slug) for n in IDS], model=model))
    new = files(tmp_path) - before
    rooms = {path.relative_to(tmp_path).parts[0] for path in new}
    assert rooms == {"baseline", "h", "M", "s", "claims"}
    assert {len(path.relative_to(tmp_path).parts) for path in new if path.parts[-2] in {"baseline", "h"}} == {2}
    assert all(path.resolve().is_relative_to(tmp_path) for path in new)


def test_a_part_of_a_merge_is_named_by_a_digest_and_by_nothing_else(tmp_path: Path) -> None:
    merge(tmp_path, shard(tmp_path / "a", [record(name) for name in IDS]))
    document = json.loads((tmp_path / "M" / "merged.json").read_text(encoding="utf-8"))
    for name in ("x" * 5_000, "\u0661" * 3, "con"):
        store(tmp_path / "M" / "merged.json", document | {"parts": [name]})
        assert merge(tmp_path, tmp_path / "M", out="N") == 1


@pytest.mark.parametrize("leg", ["../../x", "/x", "a\nb", "x" * 5_000, "CON"])
def test_a_leg_is_a_folder_of_its_night(leg: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "join", "--night", str(tmp_path / "n"), "--leg", leg]) == 2
    assert main(["nightly", "verdict", "--night", str(tmp_path / "n"), "--leg", leg]) in {1, 2}
    assert all(line.isprintable() for line in capsys.readouterr().err.splitlines())
    assert not files(tmp_path) - {tmp_path / "n" / "summary.md"}


# f-strings that become file names, by what they hold: names of ours, or names that the functions above let through.
OURS = {
    "reports/names.py": "claim_id",
    "reports/atomic.py": "path.name",
    "fixtures/preparation.py": "target.name source.slug digest FORMAT",  # slug: lower case letters, digits, . _ -
    "fixtures/sources.py": "hub_id package number",
    "reports/commands/nightly.py": "key",  # of a fixed list
    "reports/tests": "",
}


def composed(text: str) -> list[str]:
    """What stands in the f-strings that are joined to a path with `/`."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.JoinedStr):
            found += [ast.unparse(v.value) for v in node.right.values if isinstance(v, ast.FormattedValue)]
    return found


def test_no_other_module_makes_a_file_name_of_something() -> None:
    for room in ("reports", "fixtures", "lib"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if "/tests/" in name or "/benchmarks/" in name:
                continue
            for what in composed(path.read_text(encoding="utf-8")):
                assert any(part in what for part in OURS.get(name, "").split()), f"{name}: a path from {what}"


@pytest.mark.parametrize("wrong", ['folder / f"{record[0]}.json"', 'a / "b" / f"x-{subject}"'])
def test_such_a_module_is_seen(wrong: str) -> None:
    assert composed(wrong)


@pytest.mark.parametrize("broken", [lambda name: True, lambda name: ".." not in str(name)], ids=["none", "dots"])
def test_a_laxer_rule_fails_here(
    broken: Callable[[object], bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The wrong variant of the rule itself."""
    monkeypatch.setattr(names, "is_safe_id", broken)
    assert not record_in(tmp_path / "records", "/escape").is_relative_to(tmp_path)
