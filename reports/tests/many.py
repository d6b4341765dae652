"""Evidence of any size in the documents' shapes: claims × subjects × nights, of words and numbers that do not repeat.

Sizes follow the real run of 97 statements: 150 characters to a statement, 450 to an erratum, two thirds of them errata,
seven figures to a claim, a table for every sixth and a plot for every eighth.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from lib.intervals import Estimate
from reports.plots import Axis, Curve, plot_as_json, plot_of
from reports.render.words import load_table
from reports.tables import Column, table_as_json, table_of
from reports.tests.samples import MODEL, RUN, aspect, entry

Raw = dict[str, Any]

LARGEST = {"claims": 300, "subjects": 5, "nights": 90}
MEASURED = """\
import json, resource, sys
from pathlib import Path
from reports.__main__ import main
code = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
status = Path("/proc/self/status")  # ru_maxrss of a new process starts at what its parent held
lines = status.read_text().splitlines() if status.exists() else []
peak_kb = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), used.ru_maxrss)
told = {"code": code, "cpu_s": used.ru_utime + used.ru_stime, "peak_mb": peak_kb / 1000}
sys.stderr.write(json.dumps(told))
"""
SECTIONS = tuple(load_table()["section"])
_SYLLABLES = "ka lu me ri to sa nu pe ba di go vi che ran tem sil por gan mun dal ter nik lam sor bet wid".split()


class Writer:
    """Words and numbers from a seed."""

    def __init__(self, seed: int = 7) -> None:
        self.random = random.Random(seed)  # noqa: S311
        made = ("".join(self.random.choices(_SYLLABLES, k=self.random.randint(1, 4))) for _ in range(1500))
        self.vocabulary = sorted(set(made))

    def words(self, characters: int) -> str:
        text = ""
        while len(text) < characters:
            text += self.random.choice(self.vocabulary[: self.random.choice((40, 300, 1500))]) + " "
        return text.strip().capitalize() + "."

    def estimate(self) -> Raw:
        value = self.random.lognormvariate(0, 1)
        return {"value": value, "low": value * 0.93, "high": value * 1.08}


def subjects(num: int) -> dict[str, Raw]:
    """So many models and machines, as merging lists them."""
    found = {}
    for place in range(num):
        slug = "qwen2.5-coder-0.5b-instruct" if place % 2 == 0 else f"model-{place}"
        machine = {
            "class": f"x86-64-cpu-{place}-avx2-2c",
            "cpu": f"CPU {place}",
            "isa": "avx2",
            "cores": 2,
            "gpu": None,
        }
        run = RUN | {"machine": machine, "command": "pytest claims/" + f" --model model-{place}" * (place % 2)}
        found[f"{slug}@{machine['class']}"] = {"model": MODEL | {"slug": slug}, "machine": machine, "runs": [run]}
    return found


def merged(num_claims: int, num_subjects: int, seed: int = 7) -> Raw:
    """A merged document."""
    writer, columns = Writer(seed), subjects(num_subjects)
    claims = {}
    for number in range(num_claims):
        claim_id = f"{SECTIONS[number % len(SECTIONS)]}.{writer.random.choice(writer.vocabulary)}-{number}"
        shared = _shared(writer, number)
        claims[claim_id] = {key: _on(shared, writer, number) for key in columns}
    return {"schema": 1, "subjects": columns, "claims": claims, "problems": []}


def _shared(writer: Writer, number: int) -> Raw:
    wrong = number % 3 != 0
    verdict = ("REFUTED" if number % 2 else "CONDITIONAL") if wrong else "HOLDS"
    words = {"says": writer.words(150), "says_id": writer.words(160), "where": writer.words(40)}
    if wrong:
        standing = ("proven", "likely", "does-not-transfer")[number % 5 % 3]
        words |= {"erratum": writer.words(450), "erratum_id": writer.words(480), "standing": standing}
    names = ["_".join(writer.random.choices(writer.vocabulary, k=3)) for _ in range(7)]
    why = {name: writer.words(70) for name in names[:3]}
    protocol = {"tokens": number, "seed": number * 7, "texts": writer.words(30)}
    warrant = ("exact", "sampled", "timed")[number % 3]
    told = {"notes": [writer.words(90)], "protocol": protocol, "warrant": warrant, "needs": ["trained"]}
    test = f"claims/test_{number % 12}.py::test_{writer.words(20)[:-1].replace(' ', '_')}"
    figures = {name: _figure(writer, why.get(name), verdict, place) for place, name in enumerate(names)}
    section = SECTIONS[number % len(SECTIONS)]
    return entry(verdict, section=section, aspects=figures, test=test, **words, **told)


def _figure(writer: Writer, why: str | None, verdict: str, place: int) -> Raw:
    line = {"value": "1.25", "unit": "1", "interval": [1.245, 1.255], "origin": "declared", "why": why} if why else None
    found = verdict if place == 0 else "HOLDS" if why else None
    bears = ("conclusion", "number", "explanation")[place] if why else "context"
    return aspect(found, measured=round(writer.random.random(), 4), published=line, bears=bears, unit="token")


def _on(shared: Raw, writer: Writer, number: int) -> Raw:
    """What one subject measured: every second claim agrees on all, as counting does, the others nowhere."""
    record = dict(shared) | {"seconds": round(writer.random.random(), 3)}
    if number % 2:
        record["aspects"] = {name: dict(a) | _measured(writer, place) for place, (name, a) in _numbered(shared)}
    if number % 6 == 1:
        rows = [[f"row {i}", i * 7, Estimate(*writer.estimate().values()), None] for i in range(6)]
        columns = [Column("scheme"), Column("size", "byte"), Column("ratio", "1"), Column("published")]
        record["tables"] = [table_as_json(table_of("What each costs", columns, rows, "Biaya tiap skema"))]
    if number % 8 == 1:
        curves = [Curve(name, {2**k: Estimate(*writer.estimate().values()) for k in range(8)}) for name in ("a", "b")]
        plot = plot_of("Cost of a step", Axis("context", "token", scale="log"), Axis("time", "ms"), curves, "Biaya")
        record["plots"] = [plot_as_json(plot)]
    return record


def _numbered(shared: Raw) -> list[tuple[int, tuple[str, Raw]]]:
    return list(enumerate(shared["aspects"].items()))


def _measured(writer: Writer, place: int) -> Raw:
    """The kinds of values in the proportions of the real run."""
    cases = [str(2**k) for k in range(5)]
    kinds = (
        writer.estimate,
        lambda: {case: writer.estimate() for case in cases},
        writer.random.random,
        lambda: writer.random.randint(1, 10_000),
        lambda: {case: writer.random.random() for case in cases},
        lambda: writer.random.randint(1, 10_000),
        lambda: {case: writer.random.randint(1, 10_000) for case in cases},
    )
    return {"measured": kinds[place]()}


def drift(document: Raw) -> Raw:
    """A drift document of a merged one: mostly steady, the rest in turn."""
    turns = ("annotated", "drifted", "incomparable", "suspected", "unmeasured")
    rows: Raw = {}
    for number, (claim_id, cells) in enumerate(document["claims"].items()):
        status = turns[number // 20 % len(turns)] if number % 20 == 0 else "steady"
        figures = (
            {"size": {"status": status, "was": 1.5, "now": 1.7, "detail": "z = 4.1"}} if status != "steady" else {}
        )
        rows[claim_id] = {key: {"status": status, "detail": "", "figures": figures} for key in cells}
    return {"schema": 1, "baseline": "b", "evidence": "e", "rows": rows, "counts": {}}


def history(document: Raw, folder: Path, num_nights: int, seed: int = 11) -> Path:
    """A history folder of a merged document: each figure with noise of its own every night."""
    folder.mkdir(parents=True, exist_ok=True)
    noise = random.Random(seed)  # noqa: S311
    for number in range(num_nights):
        night = (date(2026, 9, 2) + timedelta(days=number)).isoformat()
        for key in document["subjects"]:
            claims = {claim_id: _night(cells[key], noise) for claim_id, cells in document["claims"].items()}
            told = {"schema": 1, "night": f"{night}T19:15:00Z", "subject": key, "fingerprint": "f", "claims": claims}
            (folder / f"{night.replace('-', '')}T191500Z-{key}.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


def _night(record: Raw, noise: random.Random) -> Raw:
    figures = {}
    for name, told in record["aspects"].items():
        found = told["measured"]
        if isinstance(found, dict) and "value" in found:
            value = found["value"] * noise.gauss(1, 0.03)
            figures[name] = [round(value, 6), round(value * 0.95, 6), round(value * 1.06, 6)]
        elif not isinstance(found, dict):
            figures[name] = [found, None, None]
    verdict = "UNRESOLVED" if noise.random() < 0.003 else record["verdict"]
    return {"v": verdict, "o": record["outcome"], "d": "steady", "f": figures}


@dataclass(frozen=True)
class Built:
    """What `python -m reports build` ended with, and what it took: CPU seconds and megabytes of its own process."""

    code: int
    cpu_s: float
    peak_mb: float


def build_the_largest(folder: Path) -> Built:
    """The page of the largest evidence that is promised, rendered into the folder by a process of its own."""
    document = merged(LARGEST["claims"], LARGEST["subjects"])
    (folder / "merged.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "drift.json").write_text(json.dumps(drift(document)), encoding="utf-8")
    nights = history(document, folder / "nights", LARGEST["nights"])
    arguments = ["build", "--evidence", folder, "--drift", folder / "drift.json", "--history", nights]
    command = [sys.executable, "-c", MEASURED, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Built(**json.loads(done.stderr))
