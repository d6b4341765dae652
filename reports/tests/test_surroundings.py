"""The same claims under other clocks, languages, users, interpreters and trees: the same records, or one clear line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reports.tests.toy_runs import FAST, ToyRun, allowed

NAMES = [f"toys.s{number}" for number in range(5)]
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
PLAIN_TEXT = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
STRANGER = ("unshare", "-U", "--map-user=12345")  # nobody that this machine has a name or a home for
NO_NETWORK = ("unshare", "-n")
READ_ONLY = ("unshare", "-m", "sh", "-c", 'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && "$@"', "-")
UNREACHABLE = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
WITH_CACHE = FAST[:-2]
SURROUNDINGS = {
    "C": {"LC_ALL": "C", **PLAIN_TEXT},
    "Turkish": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    "Turkish, not in UTF-8": {"LC_ALL": "tr_TR.ISO-8859-9", **PLAIN_TEXT},
    "Kiritimati": {"TZ": "Pacific/Kiritimati"},
    "no such timezone": {"TZ": "Nowhere/At_all"},
    "no home": {"HOME": None},
    "a home that is not there": {"HOME": "/nonexistent/home", "XDG_CACHE_HOME": None},
    "optimized": {"PYTHONOPTIMIZE": "1"},
    "no docstrings": {"PYTHONOPTIMIZE": "2"},
    "unreachable network": UNREACHABLE,
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> ToyRun:
    """Claims with a verdict of each colour, and a run of them as things are here."""
    toys = ToyRun(tmp_path_factory.mktemp("here")).write(bodies={3: 'claim.measured("beside", "İıſß√×")'})
    assert toys.run().code == 0
    return toys


@pytest.fixture(scope="module")
def turkish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Turkish has been compiled to, as far as this machine can: the C library falls back to C otherwise."""
    folder = tmp_path_factory.mktemp("locales")
    for charset in ("UTF-8", "ISO-8859-9"):
        if allowed("localedef", "--version"):
            command = ["localedef", "-i", "tr_TR", "-f", charset, str(folder / f"tr_TR.{charset}")]
            subprocess.run(command, capture_output=True, check=False)
    return folder


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_records_do_not_depend_on(name: str, here: ToyRun, turkish: Path) -> None:
    given: dict[str, str | None] = {**SURROUNDINGS[name], "LOCPATH": str(turkish)}
    quiet = ["-W", "ignore:assertions not in test modules:pytest.PytestConfigWarning"] * (
        name in {"optimized", "no docstrings"}
    )
    run = here.run(*quiet, env=given, evidence=name)
    assert run.code == 0 and not run.failed_itself, run.output
    assert here.lasting(name) == here.lasting()
    assert here.document("summary.json", name)["run"]["started"].endswith("+00:00")


def test_a_record_that_does_depend_on_them_is_caught(tmp_path: Path) -> None:
    """The wrong variant: local time in a record."""
    toys = ToyRun(tmp_path).write(bodies={3: 'claim.measured("beside", time.strftime("%z"))'})
    assert [toys.run(env={"TZ": zone}, evidence=zone[-3:]).code for zone in ("UTC", "Pacific/Kiritimati")] == [0, 0]
    assert toys.lasting("UTC") != toys.lasting("ati")


@pytest.mark.skipif(not allowed(*STRANGER, "true"), reason="another user needs a user namespace, refused here")
def test_a_user_without_name_or_home_gets_the_same_records(here: ToyRun) -> None:
    run = here.run(env={"HOME": None}, within=STRANGER, evidence="stranger")
    assert run.code == 0 and here.lasting("stranger") == here.lasting(), run.output


@pytest.mark.skipif(not allowed(*NO_NETWORK, "true"), reason="no network namespace (unshare -n) here")
def test_without_any_network_the_records_are_the_same(here: ToyRun) -> None:
    run = here.run(within=NO_NETWORK, evidence="alone")
    assert run.code == 0 and here.lasting("alone") == here.lasting(), run.output


@pytest.mark.skipif(not allowed(*READ_ONLY, "true"), reason="no mount namespace (unshare -m) here")
def test_a_tree_that_cannot_be_written_to_is_no_obstacle_to_evidence_elsewhere(here: ToyRun, tmp_path: Path) -> None:
    quiet = ["-W", "default::pytest.PytestCacheWarning"]
    run = here.run(*quiet, within=READ_ONLY, evidence=str(tmp_path / "E"), fast=WITH_CACHE)
    assert run.code == 0 and not run.failed_itself, run.output
    assert sorted(path.stem for path in (tmp_path / "E" / "records").iterdir()) == NAMES


@pytest.mark.skipif(not allowed(*READ_ONLY, "true"), reason="no mount namespace (unshare -m) here")
def test_evidence_in_a_tree_that_cannot_be_written_to_is_refused_in_one_line(here: ToyRun) -> None:
    run = here.run(within=READ_ONLY)
    assert run.code == pytest.ExitCode.USAGE_ERROR and not run.failed_itself
    assert run.last == "ERROR: evidence folder E cannot be used: Read-only file system"


JUMPS = 'before = time.time(); Path("jump").write_text("{there}"); claim.measured("wall", time.time() - before)'
PATCHED = """
import time
real, real_ns = time.time, time.time_ns
def offset(): return float(Path("jump").read_text()) if Path("jump").exists() else 0.0
time.time = lambda: real() + offset()
time.time_ns = lambda: real_ns() + int(offset() * 1e9)
"""


def check_times(toys: ToyRun, earliest: int, latest: int) -> None:
    records, run = toys.records(), toys.document("summary.json")["run"]
    assert sorted(records) == NAMES
    assert all(0 <= record["seconds"] < 60 for record in records.values()) and 0 <= run["seconds"] < 60
    assert earliest <= int(run["started"][:4]) <= latest


@pytest.mark.parametrize("there", [-86_400, 86_400 * 366])
def test_a_clock_that_jumps_leaves_durations_alone(there: int, tmp_path: Path) -> None:
    """A day back, or a year on. The claim itself sees the jump: it is real."""
    toys = ToyRun(tmp_path).write(bodies={2: JUMPS.format(there=there)}, conftest=PATCHED)
    run = toys.run()
    assert run.code == 0 and not run.failed_itself, run.output
    assert toys.records()["toys.s2"]["aspects"]["wall"]["measured"] == pytest.approx(there, abs=60)
    check_times(toys, 2024, 2100)


@pytest.mark.skipif(FAKETIME is None, reason="no libfaketime (Debian: apt-get install faketime)")
@pytest.mark.parametrize(("there", "sign"), [("-3650d", -1), ("+3650d", 1)])
def test_a_system_clock_that_jumps_ten_years_leaves_durations_alone(there: str, sign: int, tmp_path: Path) -> None:
    toys = ToyRun(tmp_path).write(bodies={2: JUMPS.format(there=there)})
    (tmp_path / "jump").write_text("+0")
    env = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "jump"), "FAKETIME_NO_CACHE": "1"}
    run = toys.run(env=env | {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1"})
    assert run.code == 0 and not run.failed_itself, run.output
    assert sign * toys.records()["toys.s2"]["aspects"]["wall"]["measured"] > 1e8
    check_times(toys, 2024, 2100)
