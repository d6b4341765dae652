"""What a clock's figure amounts to, night by night, on a baseline whose noise is two per cent by construction."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from reports.drift.baseline import Known, KnownFigure, KnownLeaf
from reports.drift.clocks import Clocks, other_speed
from reports.drift.evidence import Reading
from reports.drift.fingerprint import Fingerprint
from reports.drift.leaves import Leaf
from reports.drift.rows import FigureRow, Status
from reports.drift.rules import Plain
from reports.tests.drift_samples import MACHINE, SUBJECT
from reports.tests.samples import aspect

NOISE, CENTRE, REPEATS = 0.02, 2.0, 20
HALF = NOISE * math.sqrt((REPEATS - 1) / REPEATS)  # repeats this far to both sides have exactly that noise
SLOWDOWN = tuple(CENTRE * math.exp(HALF * (-1) ** n) for n in range(REPEATS))
LIMIT = 4.0892  # of Student's t for 19 degrees of freedom what 1 % / 16 / 2 of it exceeds
AS_FIVE = "as 5 re-runs say"


def known(*rows: Sequence[float], verdict: str = "HOLDS", warrant: str = "timed", num_runs: int = REPEATS) -> Known:
    """A statement of one figure with so many cases; one without repeats has one value."""
    leaves = {str(n): KnownLeaf(Leaf(row[0]), tuple(row) if len(row) > 1 else ()) for n, row in enumerate(rows)}
    figures = {"slowdown": KnownFigure(frozenset({verdict}), leaves)}
    fingerprint = Fingerprint(None, MACHINE, 2, "2.13.0", {})
    return Known(warrant, True, frozenset({"HOLDS"}), figures, fingerprint, {}, "", num_runs)


def ratio(noises: float) -> float:
    return CENTRE * math.exp(NOISE * noises)


def rerun(value: float, verdict: str | None = "HOLDS", name: str = "slowdown") -> Reading:
    aspects = {name: aspect(verdict, measured={"0": value})}
    return Reading({"aspects": aspects, "verdict": verdict, "outcome": "as-recorded"}, {}, SUBJECT)


def clocks(nights: Sequence[float] = (), again: Sequence[Reading] = (), was: Known | None = None) -> Clocks:
    return Clocks(was or known(SLOWDOWN), lambda _: list(nights), again, Plain("timed", True))


def judged(
    tonight: float, nights: Sequence[float] = (), again: Sequence[float] = (), bears: bool = True
) -> tuple[FigureRow, Clocks]:
    """All in noises off the centre."""
    found = clocks([ratio(n) for n in nights], [rerun(ratio(n)) for n in again])
    return found.leaf("slowdown", "0", found.known.figures["slowdown"].leaves["0"], Leaf(ratio(tonight)), bears), found


@pytest.mark.parametrize(
    ("tonight", "nights", "again", "bears", "status", "why"),
    [
        (4.1, (), (), True, "steady", ""),  # the limit of one night is 4.0892 * sqrt(1.05) = 4.19
        (4.3, (), (), True, "suspected", "+4.3 noises, in one night, not read again"),
        (-4.3, (), (), True, "suspected", "-4.3 noises, in one night, not read again"),
        (4.3, (), (), False, "annotated", "+4.3 noises, context"),
        (4.1, (), (), False, "steady", ""),
        (2.2, (2.2,) * 4, (), True, "suspected", "+2.2 noises, over five nights, not read again"),
        (2.2, (2.2,) * 3, (), True, "steady", ""),
        (2.2, (2.2,) * 4, (), False, "steady", ""),  # context is told by its night alone
        (1.9, (1.9,) * 4, (), True, "steady", ""),  # 4.0892 * sqrt(0.25) = 2.04
        (2.2, (2.2,) * 4, (2.2,) * 5, True, "drifted", f"+2.2 noises, {AS_FIVE}"),
        (2.2, (3.0,) * 4, (0.9,) * 5, True, "annotated", "+0.9 noises; the re-runs do not confirm it"),
        (4.3, (), (4.3,) * 5, True, "suspected", "+4.3 noises in one night and its re-runs: a slow host looks like"),
        (4.3, (), (0.0,) * 5, True, "steady", ""),
        (10.4, (), (10.4,) * 5, True, "drifted", f"+10.4 noises, {AS_FIVE}"),
    ],
)  # fmt: skip
def test_a_night_of_a_clock(
    tonight: float, nights: Sequence[float], again: Sequence[float], bears: bool, status: str, why: str
) -> None:
    row, _ = judged(tonight, nights, again, bears)
    assert row.status == status and why in row.detail


def test_a_row_tells_centre_band_reading_and_how_the_noise_is_known() -> None:
    row, found = judged(5.0, (0.0,) * 3, (4.0, 6.0, 6.0, 6.0, 6.0))
    half = LIMIT * NOISE * math.sqrt(1 + 1 / REPEATS)
    band = {"value": CENTRE, "low": CENTRE * math.exp(-half), "high": CENTRE * math.exp(half)}
    assert row.was == pytest.approx(band, rel=1e-4) and row.now == pytest.approx(ratio(6.0))
    words = "2 → 2.255, +6.0 noises in one night and its re-runs: a slow host looks like that, too"
    assert row.detail == f"{words}; a noise is 2 % (20 repeats, 3 nights since)"
    assert found.readings == {"slowdown[0]": pytest.approx(ratio(6.0))}


def test_the_window_is_tonight_and_the_four_nights_before_it_and_older_ones_are_noise() -> None:
    """One that takes more nights in, or leaves one out, sees a step that is none or misses this one."""
    steady, step = [0.9, -0.9] * 10, [2.2] * 4
    assert judged(2.2, steady + step)[0].status is Status.SUSPECTED
    assert judged(2.2, [*steady, *step[1:]])[0].status is Status.STEADY
    wild = [12.0, -12.0] * 10
    assert judged(2.2, wild + step)[0].status is Status.STEADY  # such nights make the noise a large one
    assert judged(2.2, wild + steady + step)[0].status is Status.SUSPECTED  # no more than the twenty latest count


def test_nights_that_rise_within_their_noise_are_a_trend() -> None:
    rising = [-1.0 + 0.2 * n for n in range(10)]
    for again in ((), (1.0,) * 5):
        row, _ = judged(1.0, rising, again)
        assert row.status is Status.ANNOTATED and "a trend over 11 nights; a noise is" in row.detail
    assert judged(1.0, rising[::-1])[0].status is Status.STEADY
    assert judged(1.0, rising[2:])[0].status is Status.STEADY  # nine nights are no trend


@pytest.mark.parametrize(("tonight", "bears", "odd"), [(1.6, True, True), (1.4, True, False), (1.6, False, False)])
def test_only_a_figure_that_bears_a_verdict_has_a_night_read_again(tonight: float, bears: bool, odd: bool) -> None:
    row, found = judged(tonight, bears=bears)
    assert row.status is Status.STEADY and found.odd is odd and not found.readings


@pytest.mark.parametrize(("verdict", "counts"), [("NOT_MEASURED", 1), (None, 1), ("UNRESOLVED", 0), ("ERROR", 0)])
def test_a_rerun_without_a_decided_verdict_confirms_nothing(verdict: str | None, counts: int) -> None:
    found = clocks(again=[rerun(ratio(10.4)), rerun(ratio(10.4), verdict), rerun(ratio(0.0), name="other")])
    row = found.leaf("slowdown", "0", KnownLeaf(Leaf(CENTRE), SLOWDOWN), Leaf(ratio(10.4)), True)
    assert row.status is Status.DRIFTED and f"as {1 + counts} re-runs say" in row.detail


@pytest.mark.parametrize(
    ("was", "now", "status"),
    [
        (KnownLeaf(Leaf(CENTRE), SLOWDOWN[:5]), Leaf(CENTRE), "steady"),
        (KnownLeaf(Leaf(CENTRE), SLOWDOWN[:4]), Leaf(CENTRE), "incomparable"),
        (KnownLeaf(Leaf(CENTRE), SLOWDOWN), Leaf("fast"), "damaged"),
    ],
)
def test_a_noise_takes_five_repeats_and_a_number(was: KnownLeaf, now: Leaf, status: str) -> None:
    assert clocks().leaf("slowdown", "0", was, now, True).status == status


ENDS = KnownLeaf(Leaf(2.0, 1.8, 2.2))


@pytest.mark.parametrize(
    ("warrant", "num_runs", "was", "now", "status"),
    [
        ("timed", 4, KnownLeaf(Leaf(2.0)), Leaf(2.1), "incomparable"),
        ("timed", 5, KnownLeaf(Leaf(2.0)), Leaf(2.1), "drifted"),  # five runs agreed: no clock's noise is in it
        ("timed", 4, KnownLeaf(Leaf(2.0)), Leaf(2.0), "steady"),
        ("timed", 4, KnownLeaf(Leaf(2)), Leaf(3), "drifted"),
        ("exact", 4, KnownLeaf(Leaf(2.0)), Leaf(2.1), "drifted"),
        ("exact", 4, ENDS, Leaf(2.1, 1.9, 2.3), "incomparable"),
        ("exhaustive", 4, ENDS, Leaf(2.1, 1.9, 2.3), "incomparable"),
        ("sampled", 4, ENDS, Leaf(2.1, 1.9, 2.3), "drifted"),  # its ends are those of its sample
    ],
)
def test_one_value_is_too_few_repeats_only_of_what_a_clock_measured(
    warrant: str, num_runs: int, was: KnownLeaf, now: Leaf, status: str
) -> None:
    found = clocks(was=known(SLOWDOWN, warrant=warrant, num_runs=num_runs))
    assert found.leaf("slowdown", "0", was, now, True).status == status


def test_another_verdict_stands_when_most_reruns_come_to_it() -> None:
    assert clocks().flip("slowdown", "REFUTED") is Status.SUSPECTED
    half = [rerun(2.0, "REFUTED"), rerun(2.0, "HOLDS")]
    for name in ("slowdown", ""):
        assert clocks(again=half).flip(name, "REFUTED") is Status.ANNOTATED
        found = clocks(again=[*half, rerun(2.0, "REFUTED")])
        assert found.flip(name, "REFUTED") is Status.DRIFTED and found.odd
    assert clocks(again=[rerun(2.0, "REFUTED", name="other")]).flip("slowdown", "REFUTED") is Status.ANNOTATED


def test_a_claims_figures_are_counted_as_far_as_they_move_on_their_own() -> None:
    """Those with the most repeats, of figures that bear a verdict, in logarithms where that can be."""
    other = tuple(math.exp(0.1 * math.cos(n * n)) for n in range(REPEATS))
    alike = tuple(3 * value for value in SLOWDOWN)
    assert clocks().independent == 1.0
    assert clocks(was=known(SLOWDOWN, alike, [1.0], other[:7])).independent == pytest.approx(1.0)
    assert 1.8 < clocks(was=known(SLOWDOWN, other)).independent <= 2.0
    assert clocks(was=known(SLOWDOWN, other, verdict="UNRESOLVED")).independent == 1.0
    assert clocks(was=known([1.0])).independent == 1.0


@pytest.mark.parametrize(("shift", "low"), [(0.0, None), (5.0, -1.0), (5.0, 0.0)])
def test_a_figure_that_can_be_zero_or_negative_is_held_as_it_is(shift: float, low: float | None) -> None:
    """Where its repeats or its baseline's lower end say so; logarithms of it would be none, or another noise."""
    repeats = tuple(shift + HALF * (-1) ** n for n in range(REPEATS))
    was = KnownLeaf(Leaf(shift, low, None if low is None else 9.0), repeats)
    row = clocks(was=known(repeats)).leaf("slowdown", "0", was, Leaf(shift - 5 * NOISE), True)
    assert row.status is Status.SUSPECTED and "-5.0 noises" in row.detail and "a noise is 0.02 (" in row.detail
    assert row.now == pytest.approx(shift - 5 * NOISE)


def test_a_positive_figure_that_is_none_tonight_is_told_and_does_not_break() -> None:
    row, _ = judged(0.0)
    assert row.status is Status.STEADY
    assert clocks().leaf("slowdown", "0", KnownLeaf(Leaf(2.0), SLOWDOWN), Leaf(0.0), True).status is Status.SUSPECTED
    found = clocks(nights=[0.0, -1.0, *[ratio(2.2)] * 4])
    assert (
        "over five nights" in found.leaf("slowdown", "0", KnownLeaf(Leaf(2.0), SLOWDOWN), Leaf(ratio(2.2)), True).detail
    )


@pytest.mark.parametrize(
    ("noises", "repeats", "slow"),
    [(3.9, 20, False), (4.1, 20, True), (-3.9, 20, False), (-4.1, 20, True), (-50.0, 5, True), (-50.0, 4, False)],
)
def test_a_machine_is_another_one_beyond_one_chance_in_a_thousand(noises: float, repeats: int, slow: bool) -> None:
    """t of 0.0005 at 19 degrees of freedom is 3.88: times sqrt(1.05) that is 3.98 noises."""
    assert bool(other_speed({"rate": SLOWDOWN[:repeats]}, {"rate": [ratio(noises)]})) is slow


def test_every_rate_is_looked_at_and_the_odd_one_named() -> None:
    was = {"a_few": SLOWDOWN[:4], "b_unread": SLOWDOWN, "c_lost": SLOWDOWN, "d_slow": SLOWDOWN}
    now = {"a_few": [9.0], "c_lost": [], "d_slow": [1.5], "e_new": [1.0]}
    assert other_speed(was, now) == "the machine is not as fast as it was: d_slow 2 → 1.5"
    assert not other_speed(was, {"d_slow": [1.8, 2.2]})  # the mean of tonight's
