"""Where a measurement came from: commit, versions, machine, and a digest of the code that measured."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from reports.machine import machine_facts

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
