"""Claims on several workers, machines and GPUs (pytest-xdist), and what is recorded of it: toys, run for real."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from reports.scaling_out import without_hosts

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestAssertRewriteWarning")

ROOT = Path(__file__).resolve().parents[2]
STATEMENT = """
[[statement]]
id = "{section}.{name}"
says = "It is ten."
says_id = "Sepuluh."
where = "somewhere"
warrant = "exact"
needs = []
on_record = "holds"
published = [{{ name = "x", value = "10", unit = "byte" }}]
"""
TEST = """
@claim("{section}.{name}")
def test_{name}(claim):
    claim.measured("x", 10)
    {body}
"""
IMPORTS = "import os, sys\nfrom reports.claim import claim\n"
CONFTEST = 'import os\nimport pytest\npytest_plugins = ["reports.plugin"]\n'
SECTIONS = ("games", "toys")
NAMES = tuple(f"s{i}" for i in range(4))
ALL = sorted(f"{section}.{name}" for section in SECTIONS for name in NAMES)
WHERE = 'claim.measured("pid", os.getpid()); claim.measured("prefix", sys.prefix)'
WHICH_GPU = 'claim.measured("gpu", os.environ.get("CUDA_VISIBLE_DEVICES"))'
MACHINE_BY_WORKER = """
import reports.machine
reports.machine.machine_class = lambda facts: os.environ.get("TOY_MACHINE", "controllers")
"""
LESS_ON_ONE_WORKER = """
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        items.pop()
"""


class Toys:
    """Two sections of claims in a folder of their own."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.folder = pytester.path

    def write(self, body: str = WHERE, conftest: str = "", bodies: Mapping[str, str] | None = None) -> Toys:
        claims = self.folder / "claims"
        claims.mkdir()
        for section in SECTIONS:
            names = [(name, (bodies or {}).get(f"{section}.{name}", body)) for name in NAMES]
            ledger = "".join(STATEMENT.format(section=section, name=name) for name, _ in names)
            tests = "".join(TEST.format(section=section, name=name, body=text) for name, text in names)
            (claims / f"{section}.toml").write_text(ledger, encoding="utf-8")
            (claims / f"test_{section}.py").write_text(IMPORTS + tests, encoding="utf-8")
        self.pytester.makeini("[pytest]\n")
        self.pytester.makeconftest(CONFTEST + conftest)
        return self

    def run(self, *args: str, evidence: str = "E", paths: tuple[str, ...] = ("claims",)) -> pytest.RunResult:
        fixed = ("-p", "no:cacheprovider", f"--evidence={self.folder / evidence}")
        return self.pytester.runpytest_inprocess(*paths, *fixed, *args)

    def document(self, name: str, evidence: str = "E") -> dict[str, Any]:
        return dict(json.loads((self.folder / evidence / name).read_text(encoding="utf-8")))

    def context(self, name: str, evidence: str = "E") -> dict[str, Any]:
        """One context figure of every claim."""
        claims = self.document("summary.json", evidence)["claims"]
        return {key: claims[key]["aspects"][name]["measured"] for key in claims}

    def merge(self, *inputs: str, out: str = "M") -> tuple[int, dict[str, Any]]:
        folders = [str(self.folder / name) for name in inputs]
        claims = ["--claims", str(self.folder / "claims")]
        rc = main(["merge", *folders, "--out", str(self.folder / out), *claims])
        return rc, self.document("merged.json", out)


@pytest.fixture
def toys(pytester: pytest.Pytester) -> Toys:
    return Toys(pytester)


def workers_of(figure: Mapping[str, Any]) -> dict[str, set[Any]]:
    return {section: {value for key, value in figure.items() if key.startswith(section)} for section in SECTIONS}


@pytest.mark.parametrize("mode", [["-n2"], ["-n2", "--dist=loadgroup"], ["--tx=2*popen"]])
def test_a_section_meets_on_one_worker_and_two_sections_on_two(mode: list[str], toys: Toys) -> None:
    toys.write().run(*mode).assert_outcomes(passed=8)
    pids = workers_of(toys.context("pid"))
    assert [len(found) for found in pids.values()] == [1, 1]
    assert pids["games"] != pids["toys"] and os.getpid() not in pids["games"] | pids["toys"]
    assert toys.document("collected.json")["collected"] == ALL
    assert toys.document("summary.json")["run"]["collected"] == ALL
    assert toys.merge("E")[0] == 0


def test_spreading_a_section_is_said(toys: Toys) -> None:
    """The control of the test above: without grouping the same claims do meet two workers."""
    result = toys.write().run("-n2", "--dist=load", "--maxschedchunk=1")
    result.stdout.fnmatch_lines(["claims: --dist load spreads a section over workers*"])
    assert max(len(found) for found in workers_of(toys.context("pid")).values()) == 2


def test_every_claim_on_every_worker_is_refused(toys: Toys) -> None:
    result = toys.write().run("-n2", "--dist=each")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --dist each measures every claim once per worker*reports merge"])


@pytest.mark.parametrize("mode", ["loadfile", "load"])
def test_workers_that_collect_different_claims_are_an_error_in_every_row(mode: str, toys: Toys) -> None:
    (toys.folder / "E").mkdir()
    (toys.folder / "E" / "summary.json").write_text('{"of": "an earlier run"}')  # it must not stand
    result = toys.write(conftest=LESS_ON_ONE_WORKER).run("-n2", f"--dist={mode}")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*Different tests were collected between gw*"])
    summary = toys.document("summary.json")
    assert summary["run"]["collected"] == ALL
    assert {row["outcome"] for row in summary["claims"].values()} == {"error"}
    assert "gw0 8, gw1 7" in summary["claims"][ALL[0]]["error"]
    rc, merged = toys.merge("E")
    assert rc == 1 and {row["outcome"] for cells in merged["claims"].values() for row in cells.values()} == {"error"}


@pytest.mark.parametrize("mode", ["loadfile", "loadgroup"])
def test_a_crashing_worker_leaves_an_error_row_and_the_rest_is_done(mode: str, toys: Toys) -> None:
    toys.write(bodies={"toys.s1": "os._exit(3)"}).run("-n2", f"--dist={mode}")
    rows = toys.document("summary.json")["claims"]
    assert {key for key, row in rows.items() if row["outcome"] == "error"} == {"toys.s1"}
    assert sorted(rows) == ALL
    assert rows["toys.s1"]["machine"] == rows["toys.s0"]["machine"]


def test_what_a_crash_left_undone_is_a_gap(toys: Toys) -> None:
    toys.write(bodies={"toys.s1": "os._exit(3)"}).run("-n1", "--max-worker-restart=0")
    rc, merged = toys.merge("E")
    lost = {problem["id"] for problem in merged["problems"] if problem["kind"] == "gap"}
    assert rc == 1 and {"toys.s2", "toys.s3"} <= lost
    assert all(row["outcome"] == "error" for name in lost for row in merged["claims"][name].values())


def test_a_record_names_its_workers_machine_and_not_the_controllers(toys: Toys) -> None:
    machines = [f"--tx=popen//env:TOY_MACHINE={name}" for name in ("left", "right")]
    toys.write(conftest=MACHINE_BY_WORKER).run(*machines, "--dist=loadgroup").assert_outcomes(passed=8)
    summary = toys.document("summary.json")
    assert {row["machine"] for row in summary["claims"].values()} == {"left", "right"}
    assert summary["run"]["machine"]["class"] == "controllers"
    workers = {worker: facts["machine"]["class"] for worker, facts in summary["run"]["workers"].items()}
    assert workers == {"gw0": "left", "gw1": "right"}
    rc, merged = toys.merge("E")
    assert rc == 0 and set(merged["subjects"]) == {"no-model@left", "no-model@right"}
    assert {len(cells) for cells in merged["claims"].values()} == {1}


def test_one_worker_per_gpu_sees_its_own(toys: Toys) -> None:
    gpus = [f"--tx=popen//env:CUDA_VISIBLE_DEVICES={number}" for number in (0, 1)]
    toys.write(WHICH_GPU).run(*gpus, "--dist=loadgroup").assert_outcomes(passed=8)
    seen = workers_of(toys.context("gpu"))
    assert sorted(map(sorted, seen.values())) == [["0"], ["1"]]


def environment(folder: Path, mark: str) -> Path:
    """A virtual environment that borrows this one's packages and has one of its own; the path of its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    room = next(folder.glob("lib/python3*/site-packages"))
    (room / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n", encoding="utf-8")
    (room / f"only_in_{mark}.py").write_text("", encoding="utf-8")
    return folder / "bin" / "python"


def test_two_workers_in_two_environments_leave_one_evidence(toys: Toys) -> None:
    pythons = [environment(toys.folder / name, name) for name in ("left", "right")]
    toys.write().run(*(f"--tx=popen//python={python}" for python in pythons)).assert_outcomes(passed=8)
    prefixes = workers_of(toys.context("prefix"))
    assert prefixes["games"] | prefixes["toys"] == {str(toys.folder / name) for name in ("left", "right")}
    assert sys.prefix not in prefixes["games"] | prefixes["toys"]
    rc, merged = toys.merge("E")
    assert rc == 0 and sorted(merged["claims"]) == ALL
    assert str(toys.folder) not in toys.document("summary.json")["run"]["command"].partition("--tx")[2]


def test_two_runs_in_two_environments_merge_and_one_alone_is_a_gap(toys: Toys) -> None:
    toys.write()
    for name, section in (("left", "games"), ("right", "toys")):
        python = environment(toys.folder / name, name)
        command = [python, "-m", "pytest", f"claims/test_{section}.py", f"--evidence={toys.folder / section}", "-q"]
        assert toys.pytester.run(*command).ret == 0
    rc, merged = toys.merge("games", "toys")
    assert (rc, merged["problems"], sorted(merged["claims"])) == (0, [], ALL)
    prefixes = [toys.context("prefix", section) for section in SECTIONS]
    assert [set(found.values()) for found in prefixes] == [{str(toys.folder / name)} for name in ("left", "right")]
    rc, merged = toys.merge("games", out="half")
    assert rc == 1 and "toys: s0, s1, s2, s3" in merged["problems"][0]["detail"]


SSH = '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n'  # what ssh does, without a network


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands in for ssh")
def test_a_worker_over_ssh_runs_its_own_checkout_and_packages(toys: Toys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unlike a popen worker, which gets the controller's sys.path."""
    only_there = 'import only_in_away; claim.measured("prefix", sys.prefix); claim.measured("cwd", os.getcwd())'
    toys.write(only_there)
    python, checkout = environment(toys.folder / "away", "away"), toys.folder / "checkout"
    checkout.mkdir()
    shutil.copytree(toys.folder / "claims", checkout / "claims")
    for name in ("conftest.py", "tox.ini"):
        shutil.copy(toys.folder / name, checkout)
    (toys.folder / "bin").mkdir()
    (toys.folder / "bin" / "ssh").write_text(SSH, encoding="utf-8")
    (toys.folder / "bin" / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{toys.folder / 'bin'}:{os.environ['PATH']}")
    there = f"--tx=ssh=me@there//python={python}//chdir={checkout}"
    toys.run(there, "-o", "testpaths=claims", paths=()).assert_outcomes(passed=8)
    assert set(toys.context("cwd").values()) == {str(checkout)}
    assert set(toys.context("prefix").values()) == {str(toys.folder / "away")}
    assert "me@there" not in json.dumps(toys.document("summary.json"))
    assert toys.merge("E")[0] == 0


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--tx", "ssh=me@there//chdir=x", "-k", "a"], ["--tx", "ssh…", "-k", "a"]),
        (["--tx=popen//python=/home/me/bin/python"], ["--tx=popen…"]),
        (["--px", "id=p//ssh=me@there"], ["--px", "id…"]),
        (["claims/", "-n", "2"], ["claims/", "-n", "2"]),
    ],
)
def test_a_recorded_command_names_no_host(words: list[str], kept: list[str]) -> None:
    assert without_hosts(words) == kept
