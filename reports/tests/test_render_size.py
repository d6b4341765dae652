"""300 claims on five machines over 90 nights: what the page weighs, and what memory rendering it takes.

What it takes in time is in reports/benchmarks/.
"""

from __future__ import annotations

from pathlib import Path

from reports.tests.many import build_the_largest

MOST_BYTES = 1_500_000
MOST_MB = 300.0


def test_the_largest_page_fits_its_budgets(tmp_path: Path) -> None:
    built = build_the_largest(tmp_path)
    assert built.code == 1  # what drifted is a finding
    assert (tmp_path / "report.html").stat().st_size <= MOST_BYTES
    assert built.peak_mb <= MOST_MB
    assert (tmp_path / "summary.md").stat().st_size < 100_000
