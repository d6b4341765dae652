"""Evidence folders for the drift tests: one exact, one sampled and one timed statement, and nights of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reports.__main__ import main
from reports.drift.files import compact
from reports.tests.samples import MODEL, RUN, Raw, aspect, entry

MACHINE = "x86-64-some-xeon-2c"
SUBJECT = f"qwen2.5-coder-0.5b-instruct@{MACHINE}"
SOURCE = {"source": "0123456789abcdef", "threads": 2}
EXACT, SAMPLED, TIMED = "cache-size.exact", "quality.sampled", "two-phases.timed"
NOISE = 0.02  # of the timed ratio: a share
RATIO = 2.0


def exact(value: Any = 12288, **changes: Any) -> Raw:
    aspects = {"bytes": aspect(measured=value), "by_layer": aspect(None, measured=[0.25, 0.5], relation=None)}
    return entry(aspects=aspects, model=dict(MODEL), **SOURCE) | changes


def sampled(value: float = 0.5, low: float = 0.4, high: float = 0.6, **changes: Any) -> Raw:
    aspects = {
        "share": aspect(measured={"value": value, "low": low, "high": high}),
        "largest": aspect(measured=3.25),
    }
    return entry(warrant="sampled", aspects=aspects, model=dict(MODEL), **SOURCE) | changes


def timed(ratio: float = RATIO, verdict: str = "HOLDS", **changes: Any) -> Raw:
    measured = {"value": ratio, "low": ratio / 1.2, "high": ratio * 1.2}
    protocol = {"quiet_rounds": 4, "rounds": 5, "seed": 0, "read_gb_per_s": 29.0, "fp32_gflop_per_s": 300.0}
    aspects = {"slowdown": aspect(verdict, measured=measured), "tokens": aspect(measured=48)}
    raw = entry(verdict, warrant="timed", needs=["timing"], aspects=aspects, model=dict(MODEL), protocol=protocol)
    test = {"test": "claims/test_two_phases.py::test_slowdown"}
    return raw | SOURCE | test | changes


def claims(ratio: float = RATIO, **changes: Raw) -> dict[str, Raw]:
    rows = {EXACT: exact(), SAMPLED: sampled(), TIMED: timed(ratio)} | changes
    sections = {key: {"id": key, "section": key.partition(".")[0]} for key in rows}
    return {key: row | sections[key] for key, row in rows.items()}


def evidence(folder: Path, rows: Mapping[str, Raw], day: int = 1, machine: str = MACHINE, **run: Any) -> Path:
    """A finished run; day 1 is the last of November, later ones follow."""
    started = f"2025-12-{day:02d}T03:14:15+00:00"
    facts = RUN | {"started": started, "machine": {"class": machine}, "collected": sorted(rows), "interrupted": False}
    document = {"schema": 1, "run": facts | run, "model": dict(MODEL), "counts": {}, "claims": dict(rows)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def repeats(folder: Path, num: int = 20, seed: int = 0) -> list[Path]:
    """Runs of one code on one machine, a minute apart."""
    rng = np.random.default_rng(seed)
    folders = []
    for number in range(num):
        ratio = float(RATIO * np.exp(NOISE * rng.standard_normal()))
        rate = float(29 * np.exp(0.03 * rng.standard_normal()))
        row = timed(ratio)
        row["protocol"] = row["protocol"] | {"read_gb_per_s": rate}
        started = {"started": f"2025-11-30T03:{number:02d}:00+00:00"}
        folders.append(evidence(folder / str(number), claims() | claims(**{TIMED: row}), **started))
    return folders


def accept(folders: list[Path], baseline: Path, *options: str) -> int:
    return main(["accept", "--evidence", *map(str, folders), "--baseline", str(baseline), *options])


def compare(folder: Path, baseline: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the drift document."""
    out = folder / "drift.json"
    out.unlink(missing_ok=True)
    code = main(["compare", "--evidence", str(folder), "--baseline", str(baseline), *options])
    return code, json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}


def statuses(document: Mapping[str, Any]) -> dict[str, str]:
    """Of the rows of one subject, by id."""
    return {key: next(iter(cells.values()))["status"] for key, cells in document["rows"].items()}


def accepted(folder: Path) -> Path:
    """A baseline of twenty repeats, in a folder of its own."""
    assert accept(repeats(folder / "runs"), folder / "baseline") == 0
    return folder / "baseline"


def night(tmp_path: Path, baseline: Path, *options: str, **rows: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    """A night with some other rows: the exit code, the status by id, and the drift document."""
    code, document = compare(evidence(tmp_path / "night", claims(**rows)), baseline, *options)
    return code, statuses(document), document


def many_nights(store: Path, subjects: int, nights: int) -> Path:
    """A store of so many nights on so many machines, each with 300 claims of six figures."""
    figures = {f"figure_{n}": [1.23456, 1.1, 1.4] for n in range(6)}
    row = {"v": "HOLDS", "o": "as-recorded", "d": "steady", "f": figures}
    rows = {f"section.claim-{n}": row for n in range(300)}
    for machine in range(subjects):
        subject = f"model@machine-{machine}"
        document = {"schema": 1, "night": "2025-12-01T00:00:00", "subject": subject, "claims": rows}
        text = compact(document)
        for night in range(nights):
            (store / f"20251201T0{night:05d}Z-{subject}.json").write_text(text, encoding="utf-8")
    return store
