"""Of two runs that measured one thing the reading is the later one's, and so are the facts of its run."""

from __future__ import annotations

import pytest

from reports.drift.evidence import evidence_of
from reports.merge.parts import Part, part_of
from reports.tests.drift_samples import MACHINE, SUBJECT, claims


def part(day: int, torch: str) -> Part:
    started = f"2026-12-{day:02d}T03:00:00+00:00"
    run = {"started": started, "machine": {"class": MACHINE}, "torch": torch}
    return part_of({"run": run, "records": claims(2.0 + day / 1000), "finished": True})


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_later_of_two_runs_is_read_with_its_own_facts(order: tuple[int, int]) -> None:
    parts = part(1, "2.13.0"), part(2, "2.14.0")
    readings = evidence_of([parts[i] for i in order]).readings[SUBJECT]
    timed = readings["two-phases.timed"]
    assert timed.record["aspects"]["slowdown"]["measured"]["value"] == 2.002
    assert (timed.run["torch"], timed.fingerprint.torch) == ("2.14.0", "2.14.0")
