"""What a mutation run found, as Markdown: rates by module and seed, and every survivor with its explanation."""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mutation_tests import MOST_FILES
from mutations import mutants

Rows = dict[tuple[str, int, str], "Known"]


@dataclass
class Known:
    """One mutant: whether it survived when first tried, and whether it does now."""

    line: int
    at_first: bool
    now: bool


def report(results: Path, root: Path) -> str:
    """The whole page. Mutants of code that is no longer there are left out of "now"."""
    rows, skipped = _rows(results)
    why = explanations(root)
    seeds = sorted({seed for _, seed, _ in rows})
    present = {module: _present(module, root) for module, _, _ in rows}
    alive = {k: v for k, v in rows.items() if v.now and k[2] in present[k[0]]}
    day = datetime.fromtimestamp(results.stat().st_mtime, UTC).date()
    head = [
        "# Do the tests notice?", "",
        f"{day}. `.ci/mutate.py` changes one thing at a time in a module, and its tests should go red. Of each",
        f"module a seeded sample, under the test files that import the module, {MOST_FILES} at most. *At first* is",
        "before any test was written for a survivor of that sample, and so unbiased; *now* is after.", "",
        *(_rate(seed, rows, present) for seed in seeds), "", *_told(root).get("notes", []), "",
    ]  # fmt: skip
    table = ["| module | mutants | " + " | ".join(f"seed {s}: at first | now" for s in seeds) + " |"]
    table += ["|---|---|" + "---|---|" * len(seeds)]
    for module in sorted(present):
        cells = [cell for seed in seeds for cell in _cells(module, seed, rows, present)]
        table.append(f"| {module} | {len(present[module])} | " + " | ".join(cells) + " |")
    return "\n".join([*head, *table, "", *_survivors(alive, why, present), *_red(skipped)])


def _rows(results: Path) -> tuple[Rows, dict[str, str]]:
    rows: Rows = {}
    skipped: dict[str, str] = {}
    for line in results.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "key" not in row:
            skipped.pop(row["module"], None)
            skipped |= {row["module"]: row["by"]} if row["control"] else {}
            continue
        survived, known = row["outcome"] == "survived", (row["module"], row["seed"], row["key"])
        rows.setdefault(known, Known(row["line"], survived, survived)).now = survived
    return rows, skipped


def _present(module: str, root: Path) -> dict[str, int]:
    """Line by mutant, of the code as it is."""
    path = root / Path(*module.split(".")).with_suffix(".py")
    return {m.key: m.line for m in mutants(path.read_text(encoding="utf-8"))} if path.is_file() else {}


def explanations(root: Path) -> dict[tuple[str, str], str]:
    """Why a mutant survives, by module and change: what `.ci/mutants.toml` says."""
    return {(s["module"], s["mutant"]): s["why"] for s in _told(root).get("survivor", [])}


def _told(root: Path) -> dict[str, Any]:
    path = root / ".ci" / "mutants.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _rate(seed: int, rows: Rows, present: dict[str, dict[str, int]]) -> str:
    mine = {k: v for k, v in rows.items() if k[1] == seed}
    still = [v for k, v in mine.items() if k[2] in present[k[0]]]
    first, now = _share(v.at_first for v in mine.values()), _share(v.now for v in still)
    return f"- seed {seed}, {len({k[0] for k in mine})} modules: killed {first} at first, {now} now"


def _share(survived: Iterable[bool]) -> str:
    flags = list(survived)
    killed = flags.count(False)
    return f"{killed} of {len(flags)} ({killed / len(flags):.1%})" if flags else "0 of 0"


def _cells(module: str, seed: int, rows: Rows, present: dict[str, dict[str, int]]) -> tuple[str, str]:
    mine = {k: v for k, v in rows.items() if k[:2] == (module, seed)}
    still = [v for k, v in mine.items() if k[2] in present[module]]
    first = f"{sum(not v.at_first for v in mine.values())}/{len(mine)}" if mine else ""
    return first, f"{sum(not v.now for v in still)}/{len(still)}" if still else ""


def _survivors(alive: Rows, why: dict[tuple[str, str], str], present: dict[str, dict[str, int]]) -> list[str]:
    by_module: dict[str, set[str]] = defaultdict(set)
    for module, _, key in alive:
        by_module[module].add(key)
    lines = ["## Survivors", ""]
    for module, keys in sorted(by_module.items()):
        lines += [f"### {module}", ""]
        for key in sorted(keys, key=lambda k: (present[module][k], k)):
            lines.append(f"- {present[module][key]}, `{key}`: {why.get((module, key), '**not explained**')}")
        lines.append("")
    return lines


def _red(skipped: dict[str, str]) -> list[str]:
    return [f"Not tried, its tests are red without any mutant: {m} ({by})." for m, by in sorted(skipped.items())]
