"""Which model a leg of the night measures, and that what is read again is read on the same one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from reports.tests.test_nightly_script import nightly

NO_HUB = {"HF_HUB_OFFLINE": "", "HF_HUB_CACHE": ""}  # this process has its own
# Writes down what each call of Python was given; as pytest it leaves a folder.
STAND_IN = """#!/usr/bin/env bash
case $1 in
  -c) [ -z "${NO_WHEEL:-}" ] || exit 1; echo "$GGUF"; exit ;;
esac
echo "$2|${CLAIMS_MODEL-unset}|${HF_HUB_OFFLINE:-}|${HF_HUB_CACHE:+away}|$*" >>"$CALLS"
"""


def calls_of(place: Path, *words: str, **changes: str) -> list[list[str]]:
    """The calls of one word of the script, where Python is a stand-in: module, model, offline, cache, arguments."""
    stand_in, log = place / "bin" / "python", place / "calls"
    stand_in.parent.mkdir(exist_ok=True)
    stand_in.write_text(STAND_IN, encoding="utf-8")
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    log.write_text("", encoding="utf-8")
    path = os.pathsep.join([str(stand_in.parent), os.environ["PATH"]])
    nightly(place, *words, **{"PATH": path, "CALLS": str(log), "NIGHTLY_SELECT": "", **NO_HUB, **changes})
    return [line.split("|") for line in log.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("leg", "model", "offline", "asked"),
    [
        ("sibling", "", "1", ""),
        ("shape", "shape", "1", "--model shape"),
        ("chapter", "Qwen/Qwen2.5-0.5B-Instruct", "", "--model Qwen/Qwen2.5-0.5B-Instruct"),
        ("gpu", "", "1", "-m gpu --device cuda"),
    ],
)
def test_a_leg_is_measured_and_read_again_on_its_model(
    leg: str, model: str, offline: str, asked: str, tmp_path: Path
) -> None:
    measured = calls_of(tmp_path, "run", leg)[0]
    assert measured[:4] == ["pytest", model, offline, "away" if offline else ""]
    assert measured[4].startswith(f"-m pytest claims/ {asked}".rstrip())
    assert ("--model" in measured[4]) is bool(model), "the page's commands name what was asked for"
    compared = calls_of(tmp_path, "compare", leg)[0]
    assert compared[:4] == ["reports", *measured[1:4]]


def test_a_leg_whose_weights_are_not_the_ones_we_know_measures_nothing(tmp_path: Path) -> None:
    gguf = tmp_path / "other.gguf"
    gguf.write_bytes(b"GGUF")
    for changes in ({"GGUF": str(gguf)}, {"NO_WHEEL": "1"}):
        assert calls_of(tmp_path, "run", "smollm2", **changes) == []
        assert '"tests": 4' in (tmp_path / "night" / "legs" / "smollm2" / "leg.json").read_text(encoding="utf-8")
        assert calls_of(tmp_path, "compare", "smollm2", **changes) == []
