"""Small claims in a folder of their own, run by a pytest of their own: faults that would take this process along."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STATEMENT = """
[[statement]]
id = "toys.s{number}"
says = "It is ten."
says_id = "Sepuluh."
where = "somewhere"
warrant = "exact"
needs = []
on_record = "holds"
published = [{{ name = "x", value = "10", unit = "byte" }}]
"""
TEST = '@claim("toys.s{number}")\ndef test_s{number}(claim):\n    {body}\n    claim.measured("x", 10)\n\n'
IMPORTS = "import os, signal, subprocess, time\nfrom pathlib import Path\nfrom reports.claim import claim\n"
CONFTEST = 'pytest_plugins = ["reports.plugin"]\nimport os\nfrom pathlib import Path\nimport pytest\n'
FAST = ("-p", "no:hypothesispytest", "-p", "no:benchmark", "-p", "no:cacheprovider")
OF_A_MOMENT = frozenset({"seconds", "started", "command", "dirty", "commit"})
TIMEOUT_S = 60.0  # what a hanging run is given before its test fails


class ToyRun:
    """Claims `toys.s0`, `toys.s1`, …, each of which holds; `bodies` says what one does before it measures."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.evidence = folder, folder / "E"

    def write(self, count: int = 5, bodies: Mapping[int, str] | None = None, conftest: str = "") -> ToyRun:
        claims = self.folder / "claims"
        claims.mkdir()
        said = "".join(STATEMENT.format(number=number) for number in range(count))
        tests = "".join(TEST.format(number=n, body=(bodies or {}).get(n, "pass")) for n in range(count))
        (claims / "toys.toml").write_text(said, encoding="utf-8")
        (claims / "test_toys.py").write_text(IMPORTS + tests, encoding="utf-8")
        (self.folder / "conftest.py").write_text(CONFTEST + conftest, encoding="utf-8")
        (self.folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
        return self

    def command(self, *args: str, evidence: str = "E", fast: Sequence[str] = FAST) -> list[str]:
        return [sys.executable, "-m", "pytest", "claims", f"--evidence={evidence}", *fast, *args]

    def start(self, command: Sequence[str], env: Mapping[str, str | None] | None = None) -> subprocess.Popen[str]:
        """The environment is this one's, but for `env`; None there takes a variable away."""
        given = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        kept = {name: value for name, value in given.items() if value is not None and not name.startswith("PYTEST_")}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        how: dict[str, Any] = {"cwd": self.folder, "env": kept, "start_new_session": True, "errors": "replace"}
        return subprocess.Popen(command, preexec_fn=_heed_interrupts, **how, **pipes)  # noqa: PLW1509 (one thread here)

    def run(
        self, *args: str, env: Mapping[str, str | None] | None = None, within: Sequence[str] = (), **how: Any
    ) -> Run:
        process = self.start([*within, *self.command(*args, **how)], env)
        return ended(process)

    def document(self, name: str, evidence: str = "E") -> dict[str, Any]:
        return dict(json.loads((self.folder / evidence / name).read_text(encoding="utf-8")))

    def records(self, evidence: str = "E") -> dict[str, dict[str, Any]]:
        """Every record in the folder; ValueError for one that is not whole."""
        found = sorted((self.folder / evidence / "records").glob("*.json"))
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in found}

    def lasting(self, evidence: str = "E") -> list[Any]:
        """Records, plan and summary without what differs from one moment to the next."""
        documents = [self.document("collected.json", evidence), self.document("summary.json", evidence)]
        return [_lasting(document) for document in (*documents, self.records(evidence))]


def _heed_interrupts() -> None:
    """A CI job in the background is started with SIGINT ignored, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Run:
    """How a run ended, and what it said last."""

    def __init__(self, code: int, output: str) -> None:
        self.code, self.output = code, output
        self.last = output.strip().splitlines()[-1] if output.strip() else ""
        self.failed_itself = "INTERNALERROR" in output or "Traceback (most recent call last)" in output


def ended(process: subprocess.Popen[str]) -> Run:
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    return Run(process.returncode, output)


def allowed(*command: str) -> bool:
    """Whether this machine lets us do that: namespaces and mounts are not everybody's."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _lasting(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _lasting(value) for key, value in found.items() if key not in OF_A_MOMENT}
    return [_lasting(part) for part in found] if isinstance(found, list) else found
