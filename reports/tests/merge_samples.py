"""Small evidence folders, written as a run writes them, and a ledger that knows their claims."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reports.__main__ import main
from reports.tests.samples import MODEL, aspect, entry

Raw = dict[str, Any]
IDS = ("toys.one", "toys.two", "toys.three")
MACHINE: Raw = {"class": "x86-64-toy-2c", "cpu": "Toy", "isa": "avx2", "cores": 2, "gpu": None}
GPU: Raw = {"class": "x86-64-toy-2c-nvidia-toy", "cpu": "Toy", "isa": "avx2", "cores": 2, "gpu": "NVIDIA Toy"}
ON_CUDA = MODEL | {"device": "cuda"}
SUBJECT = "qwen2.5-coder-0.5b-instruct@x86-64-toy-2c"
STATEMENT = """
[[statement]]
id = "toys.{name}"
says = "It is ten."
says_id = "Sepuluh."
where = "somewhere"
warrant = "exact"
needs = [{needs}]
on_record = "holds"
published = [{{ name = "bytes", value = "12,288", unit = "byte" }}]
"""


def run_facts(**changes: Any) -> Raw:
    raw = {
        "commit": "0123456789ab", "dirty": False, "python": "3.11.7", "torch": "2.13.0", "machine": MACHINE,
        "command": "pytest claims/", "started": "2026-11-30T03:00:00+00:00", "interrupted": False,
    }  # fmt: skip
    return raw | changes


def record(name: str, verdict: str | None = "HOLDS", **changes: Any) -> Raw:
    raw = {"id": name, "section": "toys", "model": MODEL, "threads": 2, "source": "abc", "machine": MACHINE["class"]}
    return entry(verdict, **raw | changes)


def measured(value: Any, verdict: str = "HOLDS", **changes: Any) -> Raw:
    return {"aspects": {"bytes": aspect(verdict, measured=value)}} | changes


def shard(
    folder: Path,
    records: list[Raw],
    *,
    finished: bool = True,
    collected: list[str] | None = None,
    old: bool = False,
    model: Any = MODEL,
    **facts: Any,
) -> Path:
    """An evidence folder; without `finished` that of a killed run, with `old` one from before plans and machines."""
    run = run_facts(**facts)
    planned = sorted(r["id"] for r in records) if collected is None else collected
    if old:
        run.pop("machine")
    else:
        store(folder / "collected.json", {"schema": 1, "run": run, "collected": planned})
        run["collected"] = planned
    for raw in records:
        store(folder / "records" / f"{raw['id']}.json", raw)
    if finished:
        claims = {raw["id"]: raw for raw in records}
        store(folder / "summary.json", {"schema": 1, "run": run, "model": model, "counts": {}, "claims": claims})
    return folder


def store(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def ledger(folder: Path, needs: Mapping[str, str] | None = None, pending: tuple[str, ...] = ()) -> Path:
    """Three statements, toys.one to toys.three."""
    folder.mkdir(exist_ok=True)
    texts = []
    for name in (i.partition(".")[2] for i in IDS):
        text = STATEMENT.format(name=name, needs=(needs or {}).get(name, ""))
        texts.append(text.replace('on_record = "holds"', "pending = true") if name in pending else text)
    (folder / "toys.toml").write_text("".join(texts), encoding="utf-8")
    return folder


def merge(tmp_path: Path, *inputs: Path, out: str = "M", expect_gpu: bool = False, claims: Path | None = None) -> int:
    """The command, as a user gives it."""
    claims = claims or ledger(tmp_path / "claims")
    more = ["--expect", "gpu"] if expect_gpu else []
    return main(["merge", *map(str, inputs), "--out", str(tmp_path / out), "--claims", str(claims), *more])


def merged(tmp_path: Path, out: str = "M") -> Raw:
    return dict(json.loads((tmp_path / out / "merged.json").read_text(encoding="utf-8")))


def problems(tmp_path: Path, out: str = "M") -> list[tuple[str, str]]:
    """(kind, id) of everything that the merge had to say."""
    return [(p["kind"], p["id"]) for p in merged(tmp_path, out)["problems"]]


def details(tmp_path: Path, kind: str, out: str = "M") -> str:
    return "\n".join(p["detail"] for p in merged(tmp_path, out)["problems"] if p["kind"] == kind)
