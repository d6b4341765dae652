"""Read suspected statements again, each time in a process of its own: what a bad minute did does not come back.

The actions of a timed claim run interleaved in each of these processes as they do in the first. Which model they load
is the environment's business (CLAIMS_MODEL): a re-run on another one does not compare, and so confirms nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from reports.drift.evidence import Evidence, read_evidence
from reports.drift.files import Refused

# Node ids come from records, and these are files: nothing that could be an option, a path or a parameter.
_NODE_ID = re.compile(r"claims/test_[a-z0-9_]+\.py::test_[a-z0-9_]+")
LIMIT_S = 3600  # for one process; all timed claims together take some four minutes

Rerun = Callable[[Sequence[str]], list[Evidence]]


def usable(node_id: object) -> bool:
    """Whether this is the id of a claim's test and nothing else."""
    return isinstance(node_id, str) and _NODE_ID.fullmatch(node_id) is not None


def rerun(times: int, root: Path, tell: Callable[[str], None] = lambda _line: None) -> Rerun:
    """A function that runs tests so many times; a run that left no evidence is left out. `tell` hears of each."""

    def run_all(node_ids: Sequence[str]) -> list[Evidence]:
        wanted = sorted({node_id for node_id in node_ids if usable(node_id)})
        found = []
        for number in range(1, times + 1 if wanted else 1):
            tell(f"reading again, {number} of {times}: {' '.join(wanted)}")
            found.append(_once(wanted, root))
        return [evidence for evidence in found if evidence is not None]

    return run_all


def _once(node_ids: Sequence[str], root: Path) -> Evidence | None:
    with tempfile.TemporaryDirectory(prefix="rerun-") as folder:
        evidence = Path(folder) / "evidence"
        command = [sys.executable, "-m", "pytest", *node_ids, "--evidence", str(evidence), "-p", "no:cacheprovider"]
        try:
            # A red claim ends with 1, and that is not ours to judge: only the evidence counts.
            subprocess.run(command, cwd=root, timeout=LIMIT_S, check=False, capture_output=True)  # noqa: S603
            return read_evidence(evidence)
        except (OSError, subprocess.SubprocessError, Refused):
            return None
