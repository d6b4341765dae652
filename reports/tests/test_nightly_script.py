"""`.ci/nightly` end to end: three nights of one section without a model, what goes wrong in them, GitHub's side."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports.night.issue_state import BOT, MARKER

ROOT = Path(__file__).parents[2]
PLANTED = "memory-budget.budget-13b-8gb"
Done = subprocess.CompletedProcess[str]


def nightly(place: Path, *words: str, **changes: str) -> Done:
    """One call of the script, with everything it keeps inside `place`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "NIGHTLY_", "PYTEST_", "COV_"))}
    env |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        "NIGHTLY_DIR": str(place / "night"), "NIGHTLY_HISTORY": str(place / "history"),
        "NIGHTLY_BASELINE": str(place / "baseline"), "NIGHTLY_MODELS": "shape", "NIGHTLY_SELECT": "-k memory_budget",
    }  # fmt: skip
    command = ["bash", str(ROOT / ".ci" / "nightly"), *words]
    return subprocess.run(command, env=env | changes, capture_output=True, text=True, timeout=120, check=False)


def accept(place: Path) -> None:
    evidence = place / "night" / "legs" / "shape" / "evidence"
    command = [sys.executable, "-m", "reports", "accept", "--allow-dirty", "--evidence", str(evidence), "--baseline"]
    done = subprocess.run([*command, str(place / "baseline")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def action_of(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "night" / "issue" / "action.json").read_text(encoding="utf-8"))
    return found


def summary_of(place: Path) -> str:
    return (place / "night" / "summary.md").read_text(encoding="utf-8")


def plant(place: Path) -> None:
    """Make one figure of tonight another one, as a changed measurement would: in the record and in the summary."""
    evidence = place / "night" / "legs" / "shape" / "evidence"
    record, summary = evidence / "records" / f"{PLANTED}.json", evidence / "summary.json"
    changed = json.loads(record.read_text(encoding="utf-8"))
    name = next(n for n, a in changed["aspects"].items() if type(a["measured"]) in {int, float})
    changed["aspects"][name]["measured"] += 1
    record.write_text(json.dumps(changed), encoding="utf-8")
    whole = json.loads(summary.read_text(encoding="utf-8"))
    whole["claims"][PLANTED] = changed
    summary.write_text(json.dumps(whole), encoding="utf-8")


def list_issue(place: Path, body: str) -> None:
    """What GitHub would list tonight: the drift issue that an earlier night opened, and somebody else's."""
    ours = {"number": 12, "state": "open", "user": {"login": BOT}, "body": body}
    theirs = {"number": 3, "state": "open", "user": {"login": "reader"}, "body": MARKER}
    (place / "night" / "issues.json").write_text(json.dumps([[theirs], [ours]]), encoding="utf-8")


@pytest.fixture(scope="module")
def first_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night that has measured, been accepted as the baseline, and been compared with it."""
    place = tmp_path_factory.mktemp("first")
    done = nightly(place, "run", "shape")
    assert done.returncode == 0, done.stdout + done.stderr
    accept(place)
    done = nightly(place, "compare", "shape")
    assert done.returncode in {0, 1}, done.stderr
    return place


@pytest.fixture
def night(first_night: Path, tmp_path: Path) -> Path:
    """A copy of the first night, to be concluded or spoiled."""
    shutil.copytree(first_night, tmp_path / "place")
    return tmp_path / "place"


def test_three_nights_open_update_and_close_the_issue(night: Path) -> None:
    done = nightly(night, "conclude")  # the first night: nothing moved, and there is no history yet
    assert done.returncode == 0, done.stdout + done.stderr
    assert action_of(night)["action"] == "none"
    assert "nothing moved" in done.stdout

    assert nightly(night, "run", "shape").returncode == 0
    plant(night)
    assert nightly(night, "compare", "shape").returncode == 1
    assert nightly(night, "conclude").returncode == 1
    opened = action_of(night)
    assert opened["action"] == "open"
    assert f"`{PLANTED}`" in opened["body"]
    assert PLANTED in summary_of(night)
    list_issue(night, opened["body"])
    assert nightly(night, "conclude").returncode == 1
    assert (action_of(night)["action"], action_of(night)["number"]) == ("update", 12)

    assert nightly(night, "measure", "shape").returncode in {0, 1}
    list_issue(night, opened["body"])
    done = nightly(night, "conclude")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (action_of(night)["action"], action_of(night)["number"]) == ("close", 12)
    assert len(list((night / "history").glob("*.json"))) == 3
    assert (night / "night" / "page" / "report.html").stat().st_size > 1_000


def test_a_truncated_record_makes_the_night_red(night: Path) -> None:
    path = night / "night" / "legs" / "shape" / "evidence" / "records" / f"{PLANTED}.json"
    path.write_text(path.read_text(encoding="utf-8")[:200], encoding="utf-8")
    assert nightly(night, "compare", "shape").returncode == 1
    assert nightly(night, "conclude").returncode == 1
    assert PLANTED in summary_of(night)
    assert (night / "night" / "page" / "report.html").exists()


def test_a_record_truncated_after_the_comparison_makes_the_night_red_too(night: Path) -> None:
    path = night / "night" / "legs" / "shape" / "evidence" / "records" / f"{PLANTED}.json"
    path.write_text("{", encoding="utf-8")
    assert nightly(night, "conclude").returncode == 1
    assert "damaged" in summary_of(night)


def test_a_leg_that_left_nothing_and_one_that_was_killed_are_red_rows_and_the_rest_is_merged(night: Path) -> None:
    killed = night / "night" / "legs" / "smollm2"
    killed.mkdir()
    (killed / "leg.json").write_text('{"schema": 1, "leg": "smollm2", "tests": null}', encoding="utf-8")
    assert nightly(night, "conclude", NIGHTLY_MODELS="shape sibling smollm2").returncode == 1
    lines = summary_of(night).splitlines()
    assert [line for line in lines if line.startswith("| `shape` | ✓ ")]
    assert [line for line in lines if line.startswith("| `sibling` | ✗ ") and "never started" in line]
    assert [line for line in lines if line.startswith("| `smollm2` | ✗ ") and "killed" in line]
    assert (night / "night" / "page" / "report.html").exists()


def test_a_run_stopped_at_its_limit_is_red_and_the_night_goes_on(night: Path) -> None:
    done = nightly(night, "run", "shape", NIGHTLY_LIMIT_S="0.5")
    assert done.returncode == 1
    assert "tests ended with 124" in done.stdout
    nightly(night, "compare", "shape")
    assert nightly(night, "conclude").returncode == 1
    assert "stopped at its time limit" in summary_of(night)


def test_the_sibling_is_run_under_its_planted_faults_and_the_page_shows_them(tmp_path: Path) -> None:
    done = nightly(tmp_path, "measure", "sibling")
    leg = json.loads((tmp_path / "night" / "legs" / "sibling" / "leg.json").read_text(encoding="utf-8"))
    assert (leg["tests"], leg["controls"]) == (0, 0), done.stdout + done.stderr
    nightly(tmp_path, "conclude", NIGHTLY_MODELS="sibling")
    controls = json.loads((tmp_path / "night" / "merged" / "controls.json").read_text(encoding="utf-8"))["controls"]
    assert all(row["seen"] for row in controls if row["control"])
    assert "Can every claim fail?" in (tmp_path / "night" / "page" / "report.html").read_text(encoding="utf-8")


def test_without_a_baseline_the_night_is_not_green_and_opens_nothing(night: Path) -> None:
    shutil.rmtree(night / "baseline")
    assert nightly(night, "compare", "shape").returncode == 1
    assert nightly(night, "conclude").returncode == 1
    assert "not green" in summary_of(night)
    assert action_of(night)["action"] == "none"


def test_a_history_that_cannot_be_written_is_a_red_step_and_the_page_is_built(night: Path) -> None:
    (night / "history").write_text("a file", encoding="utf-8")
    done = nightly(night, "conclude")
    assert done.returncode == 1
    assert "step history: exit code 2" in summary_of(night)
    assert "Traceback" not in done.stderr
    assert (night / "night" / "page" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "changes", "line"),
    [
        (["run", "bogus"], {}, "leg 'bogus'"),
        (["compare", "sibling"], {}, "leg sibling has not run"),
        (["unheard-of"], {}, "unheard-of: install, key"),
        (["run"], {}, "leg ''"),
        (["conclude"], {"NIGHTLY_DIR": "/dev/null/night"}, "cannot be made"),
        (["run", "shape"], {"NIGHTLY_ROOM_MB": "999999999"}, "MB free, a night needs 999999999"),
    ],
)
def test_wrong_use_and_a_full_disk_are_one_line_and_exit_two(
    words: list[str], changes: dict[str, str], line: str, tmp_path: Path
) -> None:
    done = nightly(tmp_path, *words, **changes)
    assert done.returncode == 2
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_key_changes_with_the_leg_and_holds_the_digest_of_its_weights(tmp_path: Path) -> None:
    keys = {leg: nightly(tmp_path, "key", leg).stdout.strip() for leg in ("sibling", "smollm2", "shape")}
    assert keys["sibling"].startswith("weights-sibling-1d9614638d18024d-")
    assert len(set(keys.values())) == 3


FAKE_GH = """#!/usr/bin/env bash
printf '%s\\n' "$*" >>"$GH_LOG"
case "$*" in
  *actions/artifacts*) cat "$GH_ANSWER" ;;
  "api repos/o/r/issues/"*) printf '%s' "$GH_ISSUE" ;;
  "run download"*) while [ "$1" != --dir ]; do shift; done; echo '{}' >"$2/night.json" ;;
  "api --paginate"*) echo '[[]]' ;;
esac
exit "${GH_CODE:-0}"
"""


def on_github(place: Path, word: str, **changes: str) -> tuple[Done, list[str]]:
    """A call on GitHub, where `gh` is a stand-in; the lines it was called with."""
    (place / "bin").mkdir(exist_ok=True)
    gh = place / "bin" / "gh"
    gh.write_text(FAKE_GH, encoding="utf-8")
    gh.chmod(gh.stat().st_mode | stat.S_IXUSR)
    (place / "gh.log").write_text("", encoding="utf-8")
    path = os.pathsep.join([str(gh.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {"PATH": path, "GH_LOG": str(place / "gh.log"), "GITHUB_REPOSITORY": "o/r", "DEFAULT_BRANCH": "main"}
    done = nightly(place, word, **given | changes)
    return done, (place / "gh.log").read_text(encoding="utf-8").splitlines()


def decided(place: Path, action: str, number: str = "") -> None:
    folder = place / "night" / "issue"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"action": action, "number": number, "title": "T", "body": "B", "comment": "C"}.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("action", "calls"),
    [
        ("none", []),
        ("open", ["issue create"]),
        ("update", ["api", "issue edit 12"]),
        ("comment", ["api", "issue edit 12", "issue comment 12"]),
        ("close", ["api", "issue edit 12", "issue comment 12", "issue close 12"]),
    ],
)
def test_what_was_decided_is_done_to_the_issue(action: str, calls: list[str], tmp_path: Path) -> None:
    decided(tmp_path, action, "" if action in {"none", "open"} else "12")
    done, called = on_github(tmp_path, "issue", GH_ISSUE=f"{BOT} {MARKER}\nand more")
    assert done.returncode == 0, done.stderr
    assert len(called) == len(calls)
    assert all(line.startswith(call) for line, call in zip(called, calls, strict=True))


@pytest.mark.parametrize(
    ("action", "number", "issue"),
    [
        ("update", "12", f"reader {MARKER}"),  # somebody else's, with our marker
        ("close", "12", f"{BOT} another of our issues"),
        ("update", "12; gh repo delete", f"{BOT} {MARKER}"),
        ("update", "", f"{BOT} {MARKER}"),
        ("delete", "12", f"{BOT} {MARKER}"),
    ],
)
def test_another_issue_is_never_touched(action: str, number: str, issue: str, tmp_path: Path) -> None:
    decided(tmp_path, action, number)
    done, called = on_github(tmp_path, "issue", GH_ISSUE=issue)
    assert done.returncode == 2
    assert not [line for line in called if line.startswith("issue")]


def test_the_history_is_fetched_from_the_newest_night_that_has_one(tmp_path: Path) -> None:
    run = {"id": 77, "repository_id": 1, "head_repository_id": 1, "head_branch": "main"}
    listed = {"artifacts": [{"name": "history", "expired": False, "created_at": "2026", "workflow_run": run}]}
    (tmp_path / "listed.json").write_text(json.dumps(listed), encoding="utf-8")
    done, called = on_github(tmp_path, "previous", GH_ANSWER=str(tmp_path / "listed.json"))
    assert done.returncode == 0, done.stderr
    assert called[1].startswith("run download 77 --repo o/r --name history")
    assert {path.name for path in (tmp_path / "history").iterdir()} == {"night.json", "origin.txt"}


def test_a_first_night_has_none_and_one_that_could_not_ask_fails(tmp_path: Path) -> None:
    (tmp_path / "listed.json").write_text('{"artifacts": []}', encoding="utf-8")
    done, called = on_github(tmp_path, "previous", GH_ANSWER=str(tmp_path / "listed.json"))
    assert done.returncode == 0
    assert len(called) == 1
    assert "a first night" in done.stdout
    done, _ = on_github(tmp_path, "previous", GH_ANSWER=str(tmp_path / "listed.json"), GH_CODE="1")
    assert done.returncode != 0


def test_without_the_list_of_issues_none_is_opened(night: Path) -> None:
    given = {"GITHUB_RUN_ID": "5", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r"}
    assert nightly(night, "conclude", **given).returncode == 1
    assert not (night / "night" / "issue").exists()
    assert "step issue: exit code 1" in summary_of(night)
    assert "https://github.com/o/r/actions/runs/5" in summary_of(night)
