"""Do the tests notice? Mutants of each module (mutations.py), one at a time, under the tests that import it.

    python .ci/mutate.py run --results FILE [--seed 1] [--each 12] [--seconds 140] [--again] lib.intervals …
    python .ci/mutate.py report --results FILE > reports/MUTATION.md

The heavy imports are made once; every mutant then lies in a copied tree of its worker's and is tested in a fork, so
that subprocesses see it, too. A module counts only where its tests are green on the unmutated source. A hung mutant is
a killed one. A run that was cut off goes on where it stopped; `--again` repeats just what survived unexplained.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mutation_report import explanations, report
from mutation_tests import tested, tests_of, warm
from mutations import Mutant, mutants

WORKERS = 2
SLACK_S, TIMES = 8.0, 3.0  # a mutant may take that much longer than the unmutated module did
CONTROL_S = 600.0
NOT_COPIED = shutil.ignore_patterns(".git", "out", "__pycache__", ".*_cache", ".hypothesis", ".benchmarks")


def work(modules: dict[str, list[str]], root: Path, args: argparse.Namespace) -> None:
    """One worker: its own tree, its modules in turn, a row appended for each control and each mutant."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(root, tree, ignore=NOT_COPIED)
        for module, tests in modules.items():
            path = Path(*module.split(".")).with_suffix(".py")
            left = _left(module, root, mutants((root / path).read_text(encoding="utf-8")), args)
            if not left or time.monotonic() > args.until:
                continue
            control = tested(tree, tests, CONTROL_S)
            _append(args, module=module, control=control.code, by=control.by, seconds=control.seconds, tests=tests)
            for mutant in left if control.code == 0 else []:
                if time.monotonic() > args.until:
                    break
                Path(importlib.util.cache_from_source(tree / path)).unlink(missing_ok=True)
                (tree / path).write_text(mutant.source, encoding="utf-8")
                ended = tested(tree, tests, TIMES * control.seconds + SLACK_S)
                row = {"outcome": "survived" if ended.code == 0 else "killed", "by": ended.by, "seconds": ended.seconds}
                _append(args, module=module, key=mutant.key, line=mutant.line, code=ended.code, **row)
            shutil.copy2(root / path, tree / path)
            Path(importlib.util.cache_from_source(tree / path)).unlink(missing_ok=True)


def _left(module: str, root: Path, found: list[Mutant], args: argparse.Namespace) -> list[Mutant]:
    """The module's sample by this seed (the same after edits elsewhere in the file) without what is already known."""
    order = sorted(found, key=lambda m: hashlib.sha256(f"{args.seed}:{module}:{m.key}".encode()).digest())
    rows = [json.loads(line) for line in args.results.read_text(encoding="utf-8").splitlines()]
    known = {r["key"]: r["outcome"] for r in rows if r["module"] == module and r["seed"] == args.seed and "key" in r}
    if args.again:
        why = explanations(root)
        return [m for m in found if known.get(m.key) == "survived" and (module, m.key) not in why]
    return [m for m in order[: args.each] if m.key not in known]


def _append(args: argparse.Namespace, **row: Any) -> None:
    with args.results.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"seed": args.seed, **row}, ensure_ascii=False) + "\n")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--cold", action="store_true", help="import nothing beforehand")
    args = parser.parse_intermixed_args()
    args.until, args.results = time.monotonic() + args.seconds, args.results.resolve()
    if args.what == "report":
        print(report(args.results, Path.cwd()))  # noqa: T201
        return
    args.results.touch()
    if not args.cold:
        warm()
    fork = multiprocessing.get_context("fork")
    root, parts = Path.cwd(), [args.modules[i::WORKERS] for i in range(WORKERS)]
    shares = [{module: tests_of(module, root) for module in part} for part in parts if part]
    workers = [fork.Process(target=work, args=(share, root, args)) for share in shares]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(max(worker.exitcode or 0 for worker in workers))


if __name__ == "__main__":
    main()
