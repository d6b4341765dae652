"""What a merge must miss: a claim that needed a GPU, and what a damaged plan said would be tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.tests.merge_samples import GPU, IDS, ON_CUDA, details, ledger, merge, problems, record, shard

ONE, TWO, THREE = IDS


def gpu_night(tmp_path: Path, **verdicts: str) -> int:
    """Two statements need a GPU; each ends as given."""
    unmeasured: dict[str, Any] = {"outcome": "not-measured", "on_record": "HOLDS", "aspects": {}, "reason": "no memory"}
    on: dict[str, Any] = {"model": ON_CUDA, "machine": GPU["class"]}
    rows = [
        record(f"toys.{name}", verdict, **on, **(unmeasured if verdict == "NOT_MEASURED" else {}))
        for name, verdict in ({"three": "HOLDS"} | verdicts).items()
    ]
    claims = ledger(tmp_path / "claims", needs={"one": '"gpu"', "two": '"gpu"'})
    return merge(tmp_path, shard(tmp_path / "a", rows, model=ON_CUDA, machine=GPU), claims=claims, expect_gpu=True)


@pytest.mark.parametrize(
    ("one", "two", "code"),
    [("HOLDS", "HOLDS", 0), ("HOLDS", "NOT_MEASURED", 0), ("NOT_MEASURED", "HOLDS", 0),
     ("NOT_MEASURED", "NOT_MEASURED", 1)],
)  # fmt: skip
def test_a_gpu_that_measured_some_of_what_needs_it_was_there(one: str, two: str, code: int, tmp_path: Path) -> None:
    """One claim that ran out of memory is that claim's affair: its row says so."""
    assert gpu_night(tmp_path, one=one, two=two) == code
    assert (("no-gpu", "") in problems(tmp_path)) is bool(code)
    if code:
        assert "toys.one, toys.two (no memory)" in details(tmp_path, "no-gpu")


@pytest.mark.parametrize(("planned", "told"), [([*IDS], [ONE, TWO]), ([ONE, TWO], [*IDS])])
def test_where_plan_and_summary_differ_what_either_names_was_to_be_tested(
    planned: list[str], told: list[str], tmp_path: Path
) -> None:
    night = shard(tmp_path / "a", [record(ONE), record(TWO)], collected=planned)
    document = json.loads((night / "summary.json").read_text(encoding="utf-8"))
    document["run"]["collected"] = told
    (night / "summary.json").write_text(json.dumps(document), encoding="utf-8")
    assert merge(tmp_path, night) == 1
    assert {("damaged", "collected.json"), ("gap", THREE)} <= set(problems(tmp_path))


def test_a_plan_alone_or_a_summary_alone_says_what_was_to_be_tested(tmp_path: Path) -> None:
    for name in ("collected.json", "summary.json"):
        night = shard(tmp_path / name, [record(ONE), record(TWO)], collected=[*IDS])
        if name == "collected.json":
            (night / name).unlink()
        else:
            document = json.loads((night / name).read_text(encoding="utf-8"))
            del document["run"]["collected"]
            (night / name).write_text(json.dumps(document), encoding="utf-8")
        assert merge(tmp_path, night, out=f"M{name}") == 1
        assert problems(tmp_path, f"M{name}") == [("gap", THREE)]
