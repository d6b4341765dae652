"""An input folder → parts: the evidence of one run, finished or killed, or what an earlier merge put together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reports.merge.parts import Damage, Part, canonical, part_of
from reports.merge.strict import DOCUMENT_BYTES, Damaged, is_there, json_files, read_json, shown
from reports.names import NoName, inside
from reports.records import SCHEMA

MERGED = "merged.json"
NOTHING_HERE = "no evidence in it"


def read_folder(folder: Path) -> list[Part]:
    """The parts in a folder. What cannot be read is a part too, one that says so."""
    name = shown(folder.name or "the folder")
    try:
        if not folder.is_dir():
            return [_empty(name, "no such folder")]
        merged = _merged(folder) if is_there(folder / MERGED) else []
        own = any(is_there(folder / file) for file in ("summary.json", "collected.json"))
        return merged + ([_shard(folder, name)] if own or not merged else [])
    except (OSError, ValueError) as failed:
        return [_empty(name, getattr(failed, "strerror", None) or str(failed))]


def _empty(name: str, why: str) -> Part:
    return part_of({"empty": f"{name}: {why}"})


def _merged(folder: Path) -> list[Part]:
    """The parts of an earlier merge, each held against the digest that it is named by."""
    try:
        names = _object(folder / MERGED).get("parts")
        if not isinstance(names, list) or not all(isinstance(n, str) and n.isalnum() for n in names):
            raise Damaged("names no parts")
    except Damaged as fault:
        return [part_of({"finished": True}, [(MERGED, str(fault))])]
    return [_stored(folder / "parts", name) for name in sorted(set(names))]


def _stored(parts: Path, name: str) -> Part:
    try:
        if parts.is_symlink():
            raise Damaged("in a folder that is a link")
        part = part_of(_object(inside(parts, f"{name}.json")))
        if part.digest != name:
            raise Damaged("its content is not what its name says")
    except (Damaged, NoName) as fault:
        return part_of({"finished": True}, [(f"part {name[:12]}", str(fault))])
    return part


def _shard(folder: Path, name: str) -> Part:
    damage: list[Damage] = []
    summary, plan = (_document(folder / f, damage) for f in ("summary.json", "collected.json"))
    claims = summary.get("claims", {})
    if not isinstance(claims, dict):
        damage.append(("summary.json", f"claims is a {type(claims).__name__}"))
        claims = {}
    records = _records(folder / "records", claims, bool(summary), damage)
    cuda = _cuda_benchmarks(folder, damage)
    if not (summary or plan or records or cuda or damage):
        return _empty(name, NOTHING_HERE)
    raw = {
        "run": summary.get("run", plan.get("run")), "model": summary.get("model"), "finished": bool(summary),
        "collected": _collected(summary, plan, damage), "records": records, "cuda_benchmarks": cuda,
    }  # fmt: skip
    return part_of(raw, damage)


def _document(path: Path, damage: list[Damage]) -> dict[str, Any]:
    """A summary or a plan; empty where there is none that can be used."""
    if not is_there(path):
        return {}
    try:
        return _object(path)
    except Damaged as fault:
        damage.append((path.name, str(fault)))
        return {}


def _object(path: Path) -> dict[str, Any]:
    found = read_json(path, DOCUMENT_BYTES)
    if not isinstance(found, dict):
        raise Damaged(f"{type(found).__name__} instead of an object")
    if found.get("schema") != SCHEMA:
        raise Damaged(f"schema {shown(found.get('schema'))}, this version reads {SCHEMA}")
    return found


def _records(folder: Path, rows: dict[str, Any], summarized: bool, damage: list[Damage]) -> dict[str, Any]:
    """The records that file and summary agree on; whatever one of them lacks or says otherwise is damage."""
    if not is_there(folder):
        return rows
    files: dict[str, Any] = {}
    torn: list[Damage] = []
    try:
        for path in json_files(folder):
            try:
                files[path.stem] = read_json(path)
            except Damaged as fault:
                torn.append((path.stem, str(fault)))
    except Damaged as fault:
        damage.append(("records", str(fault)))
        return rows
    broken = dict(torn)
    damage += torn + [(name, why) for name, why in _contradictions(rows, files, summarized) if name not in broken]
    return {name: row for name, row in (files | rows).items() if name not in dict(damage)}


def _contradictions(rows: Mapping[str, Any], files: Mapping[str, Any], summarized: bool) -> list[Damage]:
    """Where a summary and the records beside it do not say the same; a statement without a test has no record."""
    if not summarized:
        return []
    tested = {name for name, row in rows.items() if not (isinstance(row, dict) and row.get("outcome") == "pending")}
    differ = [name for name in rows.keys() & files.keys() if not _same(rows[name], files[name])]
    return [
        *((name, "the summary and the record do not say the same") for name in differ),
        *((name, "in the summary, but its record is missing") for name in tested - files.keys()),
        *((name, "a record that the summary does not know") for name in files.keys() - rows.keys()),
    ]


def _same(row: object, record: object) -> bool:
    return canonical(row) == canonical(record)


def _collected(summary: Mapping[str, Any], plan: Mapping[str, Any], damage: list[Damage]) -> Any:
    """What was to be tested, by the plan or the summary; by both together where they differ."""
    run, planned_run = summary.get("run"), plan.get("run", {})
    if not isinstance(planned_run, dict):
        damage.append(("collected.json", f"run is a {type(planned_run).__name__}"))
    elif isinstance(run, dict) and plan and planned_run.get("started") != run.get("started"):
        damage.append(("collected.json", "of another run than the summary"))
    told, planned = (run.get("collected") if isinstance(run, dict) else None), plan.get("collected")
    if told is None or planned is None:
        return told if planned is None else planned
    if told != planned:
        damage.append(("collected.json", "says other than the summary what was collected"))
    return [*told, *planned] if isinstance(told, list) and isinstance(planned, list) else planned


def _cuda_benchmarks(folder: Path, damage: list[Damage]) -> int:
    """How many benchmarks of `benchmark*.json` (pytest-benchmark's file) ran on a GPU."""
    num_cuda = 0
    for path in sorted(folder.glob("benchmark*.json")):
        try:
            found = read_json(path, DOCUMENT_BYTES)
        except Damaged as fault:
            damage.append((path.name, str(fault)))
            continue
        entries = found.get("benchmarks") if isinstance(found, dict) else None
        infos = [e.get("extra_info") for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
        num_cuda += sum(isinstance(i, dict) and str(i.get("device")).startswith("cuda") for i in infos)
    return num_cuda
