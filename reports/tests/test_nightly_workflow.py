"""The nightly workflow: valid, least privileged, pinned, and no more than plumbing around `.ci/nightly`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
NIGHTLY, LEG = (FOLDER / name for name in ("nightly.yml", "leg.yml"))
SCRIPT = ROOT / ".ci" / "nightly"
MAX_MINUTES = 240  # of any job; GitHub's own limit is six hours
# What each job may do with the repository. `issue` alone writes, and installs nothing.
READ = {"contents": "read"}
PERMISSIONS = {
    "before": READ | {"actions": "read"},
    "measure": READ,
    "gpu": READ,
    "leg": READ,
    "conclude": READ | {"issues": "read"},
    "issue": READ | {"issues": "write"},
}
_PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
_OURS = "$/.github/workflows/leg.yml"


def parsed(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text)
    return found | {"on": found[True] if True in found else found["on"]}  # YAML 1.1 reads `on` as true


def steps_of(workflow: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in workflow["jobs"].values():
        yield from job.get("steps", [])


def faults(text: str) -> list[str]:
    """What is wrong with a workflow by our own rules."""
    workflow = parsed(text)
    found = [f"trigger {t}" for t in workflow["on"] if t not in {"schedule", "workflow_dispatch", "workflow_call"}]
    found += [] if workflow.get("permissions") == {} else ["permissions at the top"]
    for name, job in workflow["jobs"].items():
        found += [] if job.get("permissions") == PERMISSIONS.get(name) else [f"permissions of {name}"]
        found += [] if "uses" in job or 0 < job.get("timeout-minutes", 0) <= MAX_MINUTES else [f"timeout of {name}"]
        found += [f"secrets of {name}"] if "secrets" in job else []
        found += [f"uses {job['uses']}"] if job.get("uses", _OURS) != _OURS else []
    for step in steps_of(workflow):
        found += _faults_of_step(step)
    uses = [line for line in text.splitlines() if re.search(r"\buses:", line) and "$/" not in line]
    found += [f"no version beside {line.strip()}" for line in uses if not re.search(r"# v\d+\.\d+\.\d+$", line)]
    found += ["a secret"] * ("secrets." in text)
    return found


def _faults_of_step(step: dict[str, Any]) -> list[str]:
    used, run, given = step.get("uses", ""), step.get("run", ""), step.get("with", {})
    found = [f"not pinned: {used}"] if used and not _PINNED.fullmatch(used) else []
    found += [f"expression in run: {run}"] if "${{" in run else []
    found += [f"more than plumbing: {run}"] if run and not re.search(r"\.ci/nightly |summary\.md", run) else []
    if "checkout" in used and given.get("persist-credentials") is not False:
        found.append("credentials stay in the checkout")
    if "upload-artifact" in used and not 0 < given.get("retention-days", 0) <= 90:
        found.append("an artifact without an end")
    if "upload-artifact" in used and given.get("name") != "history-before" and "always()" not in step.get("if", ""):
        found.append(f"artifact {given.get('name')} only of a green run")
    return found


@pytest.mark.parametrize("path", [NIGHTLY, LEG], ids=lambda path: path.stem)
def test_the_workflow_keeps_our_rules(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("path", "sound", "wrong", "fault"),
    [
        (NIGHTLY, r"checkout@[0-9a-f]{40} # v[\d.]+", "checkout@v6", "not pinned"),
        (NIGHTLY, r"checkout@([0-9a-f]{39})[0-9a-f]", r"checkout@\1", "not pinned"),
        (NIGHTLY, r"(checkout@[0-9a-f]{40}) # v[\d.]+", r"\1", "no version"),
        (NIGHTLY, r"^permissions: \{\}", "permissions: write-all", "permissions at the top"),
        (NIGHTLY, r"^permissions: \{\}.*\n", "", "permissions at the top"),
        (NIGHTLY, "issues: read", "issues: write", "permissions of conclude"),
        (NIGHTLY, "actions: read", "actions: write", "permissions of before"),
        (LEG, "contents: read", "contents: write", "permissions of leg"),
        (LEG, r"    permissions:\n      contents: read\n", "", "permissions of leg"),
        (NIGHTLY, "workflow_dispatch:", "pull_request_target:", "trigger pull_request_target"),
        (NIGHTLY, r"timeout-minutes: 10\n", "timeout-minutes: 600\n", "timeout of before"),
        (LEG, "timeout-minutes: .*\n", "\n", "timeout of leg"),
        (LEG, r'measure "\$LEG"', "measure ${{ inputs.leg }}", "expression in run"),
        (LEG, r'run: .ci/nightly measure "\$LEG"', "run: pytest claims/", "more than plumbing"),
        (NIGHTLY, "persist-credentials: false", "persist-credentials: true", "credentials"),
        (LEG, "retention-days: 30", "if-no-files-found: warn", "without an end"),
        (LEG, r"if: \$\{\{ always\(\) \}\} #.*\n", "\n", "only of a green run"),
        (NIGHTLY, r"github\.token", "secrets.TOKEN", "a secret"),
        (NIGHTLY, re.escape(_OURS), "owner/name/.github/workflows/leg.yml@main", "uses owner/name"),
    ],
)
def test_each_rule_sees_its_breach(path: Path, sound: str, wrong: str, fault: str) -> None:
    text, times = re.subn(sound, wrong, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert times
    assert any(fault in found for found in faults(text)), faults(text)


def test_one_night_at_a_time_and_none_is_cut_off() -> None:
    concurrency = parsed(NIGHTLY.read_text(encoding="utf-8"))["concurrency"]
    assert concurrency == {"group": "nightly-${{ github.ref }}", "cancel-in-progress": False}


def test_the_night_starts_at_an_odd_minute() -> None:
    (schedule,) = parsed(NIGHTLY.read_text(encoding="utf-8"))["on"]["schedule"]
    minute = int(schedule["cron"].split()[0])
    assert minute % 2
    assert minute % 5


def test_no_leg_holds_up_the_others_and_the_end_comes_whatever_happened() -> None:
    jobs = parsed(NIGHTLY.read_text(encoding="utf-8"))["jobs"]
    assert jobs["measure"]["strategy"]["fail-fast"] is False
    assert "always()" in jobs["conclude"]["if"]
    assert set(jobs["conclude"]["needs"]) >= {"measure", "gpu"}
    assert "vars.NIGHTLY_GPU == 'true'" in jobs["gpu"]["if"], "without such a runner nobody waits for one"
    assert "fork" in jobs["gpu"]["if"]
    for job in jobs.values():
        assert "timeout-minutes" in job or job["uses"] == _OURS


def test_the_issue_is_touched_by_whole_nights_of_the_default_branch_alone() -> None:
    workflow = parsed(NIGHTLY.read_text(encoding="utf-8"))
    condition = workflow["jobs"]["issue"]["if"]
    kept = next(s for s in workflow["jobs"]["conclude"]["steps"] if s.get("with", {}).get("name") == "history")
    for part in ("inputs.select == ''", "github.ref_name == (github.event.repository.default_branch"):
        assert part in condition
        assert part in kept["if"], "and so is the history"
    assert "!github.event.repository.fork" in condition
    writing = [name for name, job in workflow["jobs"].items() if "write" in job["permissions"].values()]
    assert writing == ["issue"]
    assert not [s for s in workflow["jobs"]["issue"]["steps"] if "setup-python" in s.get("uses", "")]


def test_the_legs_that_are_measured_are_the_legs_that_are_concluded() -> None:
    jobs = parsed(NIGHTLY.read_text(encoding="utf-8"))["jobs"]
    listed = re.search(r"fromJSON\((.*?)\)", jobs["measure"]["strategy"]["matrix"]["leg"])
    assert listed is not None
    concluded = jobs["conclude"]["env"]["NIGHTLY_MODELS"]
    assert listed[1] in concluded
    assert jobs["gpu"]["if"].count("vars.NIGHTLY_GPU == 'true' && !github.event.repository.fork") == 1
    assert "vars.NIGHTLY_GPU == 'true' && !github.event.repository.fork && ' gpu'" in concluded


def test_every_word_that_the_workflow_gives_the_script_is_one_it_knows() -> None:
    words = {
        found[1]
        for path in (NIGHTLY, LEG)
        for step in steps_of(parsed(path.read_text(encoding="utf-8")))
        for found in re.finditer(r"\.ci/nightly (\w+)", step.get("run", ""))
    }
    assert words == {"previous", "install", "key", "measure", "issues", "conclude", "issue"}
    script = SCRIPT.read_text(encoding="utf-8")
    known = script[script.rindex("case ${1:-} in") :]
    assert all(re.search(rf"(^|[ |]){word}( \||\))", known, re.MULTILINE) for word in words)
    assert "unheard" not in known


@pytest.mark.parametrize("said", ["HF_HUB_OFFLINE=1", "HF_HUB_CACHE=", "Qwen/Qwen2.5-0.5B-Instruct", "echo shape"])
def test_what_a_leg_measures_is_said_once(said: str) -> None:
    """By the run and by the re-runs of what it suspects alike."""
    text = SCRIPT.read_text(encoding="utf-8")
    assert text.count(said) == 1 and text.count('use_model "$1"') == 2
    assert (text + text).count(said) != 1, "said twice it would be seen"


def test_ci_and_the_night_install_one_torch() -> None:
    night = re.search(r"^torch=(\S+)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
    assert night is not None
    assert f"torch=={night[1]}" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_key_of_the_weights_has_the_digest_that_the_fixtures_check() -> None:
    from fixtures.sources import SIBLING_SHA256

    assert f"sibling_sha256={SIBLING_SHA256}" in SCRIPT.read_text(encoding="utf-8")


def lint(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def tool(name: str) -> str:
    """A tool of the test extra: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    assert found, f"{name} is missing: pip install -e '.[test]'"
    return found


@pytest.fixture
def mutated(tmp_path: Path) -> Path:
    """A copy of the workflows to be spoiled."""
    copy = tmp_path / ".github" / "workflows"
    shutil.copytree(FOLDER, copy)
    return copy


def spoil(folder: Path, name: str, sound: str, wrong: str) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    assert sound in text
    (folder / name).write_text(text.replace(sound, wrong, 1), encoding="utf-8")


def schema_check(folder: Path) -> subprocess.CompletedProcess[str]:
    files = [str(path) for path in sorted(folder.glob("*.yml"))]
    return lint([tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files])


def test_the_workflows_are_of_githubs_schema(mutated: Path) -> None:
    done = schema_check(mutated)
    assert done.returncode == 0, done.stdout
    spoil(mutated, "nightly.yml", "cancel-in-progress", "cancel-in-progres")
    assert schema_check(mutated).returncode == 1


@pytest.mark.parametrize(
    ("name", "sound", "wrong", "audit"),
    [
        ("nightly.yml", "checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2", "checkout@v6", "unpinned-uses"),
        ("nightly.yml", "persist-credentials: false", "persist-credentials: true", "artipacked"),
        ("nightly.yml", "permissions: {}", "permissions: write-all", "excessive-permissions"),
        ("leg.yml", 'measure "$LEG"', "measure ${{ inputs.leg }}", "template-injection"),
    ],
)
def test_zizmor_finds_nothing_and_each_breach(mutated: Path, name: str, sound: str, wrong: str, audit: str) -> None:
    command = [tool("zizmor"), "--offline", "--persona=auditor", "--no-progress", "--color=never", str(mutated.parent)]
    done = lint(command)
    assert done.returncode == 0, done.stdout
    spoil(mutated, name, sound, wrong)
    done = lint(command)
    assert done.returncode != 0
    assert audit in done.stdout


def test_the_scripts_are_clean_and_an_unquoted_word_is_not(tmp_path: Path) -> None:
    scripts = [str(SCRIPT), str(ROOT / ".ci" / "run")]
    done = lint([tool("shellcheck"), *scripts])
    assert done.returncode == 0, done.stdout
    (tmp_path / "wrong").write_text(
        SCRIPT.read_text(encoding="utf-8").replace('"$1" = gpu', "$1 = gpu", 1), encoding="utf-8"
    )
    assert lint([tool("shellcheck"), str(tmp_path / "wrong")]).returncode == 1
