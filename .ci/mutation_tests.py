"""The tests of one module: which they are, and a run of them in a fork of a process that has made the heavy imports."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.metadata
import os
import re
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

WARM = ("torch", "transformers.models.qwen2.modeling_qwen2", "scipy.stats", "scipy.optimize", "gguf")
MOST_FILES = 4  # of tests per module, the likeliest first
MEMORY = 8 << 30  # bytes a mutant may hold
PYTEST = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-m", "not slow and not gpu",
          "--hypothesis-profile=ci",  # of its own: the same examples for every mutant, however busy the machine is
          "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip


def warm() -> None:
    """Make the heavy imports, once for all forks."""
    import torch

    torch.set_num_threads(1)  # before any product: a pool of threads does not survive a fork
    for name in WARM:
        importlib.import_module(name)
    # what has a plugin of pytest's (anyio, platformdirs) is left to pytest, which warns of it, and nested runs tell
    plugins = {entry.module.partition(".")[0] for entry in importlib.metadata.entry_points(group="pytest11")}
    for name in [name for name in sys.modules if name.partition(".")[0] in plugins]:
        del sys.modules[name]


@dataclass(frozen=True)
class Ended:
    """How one run of pytest ended. code: its exit status, or the signal's negative; by: the test that failed."""

    code: int
    seconds: float
    by: str


def tests_of(module: str, root: Path) -> list[str]:
    """The likeliest test files: those that import the module, then those that import what imports it, by their names.

    A name is likely by the words that it shares with the module's; one step away it has to share two.
    """
    known = {path.relative_to(root): _imports(path) for path in root.rglob("*.py") if "out" not in path.parts}
    tests = [path for path in known if path.parent.name == "tests" and path.name.startswith("test_")]
    words = set(re.split(r"[._]", module))
    shared = {path: len(words & set(re.split(r"[/_.]", str(path)))) for path in tests}
    importers = {".".join(path.with_suffix("").parts) for path, names in known.items() if module in names}
    direct = [path for path in tests if module in known[path]]
    others = [path for path in tests if path not in direct and known[path] & importers and shared[path] > 1]
    found = [path for group in (direct, others) for path in sorted(group, key=lambda p: (-shared[p], p))]
    if not found:
        raise SystemExit(f"{module}: no test imports it, nor what imports it")
    return [str(path) for path in found[:MOST_FILES]]


@functools.cache
def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def tested(tree: Path, tests: list[str], limit: float) -> Ended:
    """pytest over these files of the tree, in a fork of this process."""
    output, start = tree / "out.txt", time.monotonic()
    child = os.fork()
    if not child:
        signal.alarm(int(limit) + 10)  # should this process die before it can end the child
        _test(tree, tests, output)
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() - start < limit:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the tests started and left, too
    status = ended[1] if ended[0] else os.waitpid(child, 0)[1]
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    by = failed[1] if failed else "" if ended[0] else "time limit"
    return Ended(os.waitstatus_to_exitcode(status), round(time.monotonic() - start, 2), by)


def _test(tree: Path, tests: list[str], output: Path) -> None:
    os.setsid()
    with output.open("w") as sink:
        os.dup2(sink.fileno(), 1), os.dup2(sink.fileno(), 2)
    os.chdir(tree)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    sys.path.insert(0, str(tree))
    import pytest

    code = 99
    try:
        code = int(pytest.main([*PYTEST, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)
