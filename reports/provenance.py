"""Where a measurement came from: commit, versions, machine, and a digest of the code that measured."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from collections.abc import Iterable
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from reports.machine import machine_facts

# What plants a fault, runs it and judges it, of this package.
PLANTING = ("claim", "control_rows", "control_run", "controls", "judge", "ledger", "plants", "records", "verdict")
PACKAGES = ("torch", "transformers", "numpy", "scipy", "safetensors", "gguf", "pytest")


def run_facts(root: Path, command: list[str]) -> dict[str, Any]:
    """The facts of a run that do not depend on a claim. No machine name, no user, no path."""
    commit, dirty = _git_state(root)
    return {
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        "platform": f"{platform.system()} {platform.machine()}",
        "machine": machine_facts(),
        "command": " ".join(command),
    }


def threads_in_use() -> int | None:
    """The number of intra-op threads torch uses, None while torch has not been imported."""
    torch = sys.modules.get("torch")
    return None if torch is None else int(torch.get_num_threads())


def source_digest(paths: Iterable[Path]) -> str:
    """A digest over the content of source files: two records with one digest were measured by one code."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class SourceDigests:
    """What a claim's module was run with, as digests; root: the folder of `lib` and `fixtures`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[tuple[str, Path], str] = {}

    def of_claim(self, module: Path) -> str:
        """The module and the instruments that it may use."""
        return self._digest("claim", module, [])

    def of_faults(self, module: Path) -> str:
        """That, its section's ledger, the claims' helpers, and what plants and judges: a fault is seen by all of it."""
        ledger = module.with_name(f"{module.stem.removeprefix('test_')}.toml")
        helpers = [path for path in module.parent.glob("*.py") if not path.name.startswith("test_")]
        planting = [Path(__file__).with_name(f"{name}.py") for name in PLANTING]
        return self._digest("faults", module, [*helpers, *planting, *[ledger] * ledger.is_file()])

    def _digest(self, kind: str, module: Path, more: list[Path]) -> str:
        if (kind, module) not in self._known:
            self._known[kind, module] = source_digest([module, *self._instruments, *more])
        return self._known[kind, module]

    @cached_property
    def _instruments(self) -> list[Path]:
        rooms = [self._root / room for room in ("lib", "fixtures")]
        return [path for room in rooms for path in room.rglob("*.py") if "tests" not in path.parts]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git_state(root: Path) -> tuple[str | None, bool | None]:
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
