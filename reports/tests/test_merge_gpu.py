"""`python -m reports merge --expect-gpu`: a night that was to run on a GPU, and did or did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reports.tests.merge_samples import GPU, IDS, ON_CUDA, details, ledger, merge, record, shard, store
from reports.tests.samples import MODEL

ONE, TWO, THREE = IDS


def on_gpu(verdict: str = "HOLDS", model: dict[str, Any] | None = None, **changes: Any) -> list[dict[str, Any]]:
    unmeasured = {"outcome": "not-measured", "on_record": "HOLDS", "aspects": {}, "reason": "CUDA out of memory"}
    first = record(ONE, verdict, **(unmeasured if verdict == "NOT_MEASURED" else {}))
    return [row | {"model": model or ON_CUDA, "machine": GPU["class"]} for row in (first, record(TWO), record(THREE))]


def gpu_night(tmp_path: Path, rows: list[dict[str, Any]], expect_gpu: bool = True) -> int:
    claims = ledger(tmp_path / "claims", needs={"one": '"gpu"'})
    night = shard(tmp_path / "a", rows, machine=GPU, model=rows[0]["model"])
    return merge(tmp_path, night, claims=claims, expect_gpu=expect_gpu)


def test_a_gpu_night_must_run_on_one(tmp_path: Path) -> None:
    assert gpu_night(tmp_path, on_gpu()) == 0
    assert gpu_night(tmp_path, on_gpu(model=MODEL)) == 1
    assert "no claim and no benchmark ran on cuda" in details(tmp_path, "no-gpu")
    assert gpu_night(tmp_path, on_gpu(model=MODEL), expect_gpu=False) == 0


def test_a_gpu_night_must_measure_what_needs_one(tmp_path: Path) -> None:
    assert gpu_night(tmp_path, on_gpu("NOT_MEASURED")) == 1
    assert "needs a GPU was measured: toys.one (CUDA out of memory)" in details(tmp_path, "no-gpu")


def test_a_benchmark_on_cuda_is_a_gpu_that_ran(tmp_path: Path) -> None:
    cuda, cpu = ({"benchmarks": [{"extra_info": {"device": device}}]} for device in ("cuda", "cpu"))
    night = shard(tmp_path / "a", [record(name) for name in IDS])
    store(night / "benchmark.json", cpu)
    assert merge(tmp_path, night, expect_gpu=True) == 1
    store(night / "benchmark.json", cuda)
    assert merge(tmp_path, night, expect_gpu=True) == 0


def test_a_shard_of_nothing_but_benchmarks_is_no_empty_one(tmp_path: Path) -> None:
    store(tmp_path / "b" / "benchmark.json", {"benchmarks": [{"extra_info": {"device": "cuda"}}]})
    a = shard(tmp_path / "a", [record(name) for name in IDS])
    assert merge(tmp_path, a, tmp_path / "b", expect_gpu=True) == 0
