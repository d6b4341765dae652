"""What a clock measured of one statement: its figures of tonight, of its re-runs and of the nights before, by timed.py.

Judged so are the leaves that the baseline's own repeats do not reproduce. Those of figures with a decided verdict can
flag; the others are told when they leave their band.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import stats

from reports.drift import timed
from reports.drift.baseline import Known, KnownLeaf, middle
from reports.drift.evidence import DECIDED, Reading
from reports.drift.leaves import Leaf, label
from reports.drift.rows import FigureRow, Status
from reports.drift.rules import Plain, moved
from reports.drift.timed import Floats
from reports.judge import show

OTHER_SPEED = 0.001  # chance of calling a machine of the usual speed another one: a night in three years
_WITHOUT_INTERVALS = frozenset({"exact", "exhaustive"})
Before = Callable[[str], Sequence[float]]  # a figure's readings on the nights before by label, oldest first


@dataclass
class Clocks:
    """Judges one statement. `odd` and `readings` are what it found on the way: see `rows.Row`."""

    known: Known
    before: Before
    again: Sequence[Reading]
    plain: Plain
    clocked: bool = True
    odd: bool = False
    readings: dict[str, float] = field(default_factory=dict)

    def leaf(self, name: str, place: str, was: KnownLeaf, now: Leaf, bears: bool) -> FigureRow:
        """One leaf: by its noise where the repeats show one."""
        if not was.repeats:
            few_runs = self.known.num_runs < timed.FEWEST_REPEATS
            if few_runs and self._is_of_a_clock(was.leaf) and isinstance(now.value, float) and now != was.leaf:
                return moved(was.leaf, now, Status.INCOMPARABLE, "the baseline has too few repeats to know the noise")
            return self.plain.leaf(name, place, was, now, bears)
        if now.number is None:
            return moved(was.leaf, now, Status.DAMAGED)
        if len(was.repeats) < timed.FEWEST_REPEATS:
            few = f"{len(was.repeats)} repeats in the baseline, a noise needs {timed.FEWEST_REPEATS}"
            return moved(was.leaf, now, Status.INCOMPARABLE, few)
        again = [found for found in (_number(r, name, place) for r in self.again) if found is not None]
        return self._judge(label(name, place), was, now.number, again, bears)

    def _is_of_a_clock(self, leaf: Leaf) -> bool:
        """Whether, for all that is known without repeats, a clock measured it: of an exact statement, what has ends."""
        return self.known.warrant == "timed" or (self.known.warrant in _WITHOUT_INTERVALS and leaf.has_interval)

    def flip(self, name: str, verdict: str) -> Status:
        """Another verdict stands when most of the re-runs came to it; without re-runs it is suspected."""
        self.odd = True
        said = [r.figures[name].verdict if name in r.figures else None for r in self.again] if name else []
        said = said if name else [r.verdict for r in self.again]
        if not said:
            return Status.SUSPECTED
        return Status.DRIFTED if 2 * said.count(verdict) > len(said) else Status.ANNOTATED

    @cached_property
    def independent(self) -> float:
        """How many independent figures can flag here, as the repeats have it."""
        bearing = [figure for figure in self.known.figures.values() if figure.verdicts & DECIDED]
        rows = [_scale(leaf).to(leaf.repeats) for f in bearing for leaf in f.leaves.values() if leaf.repeats]
        longest = max(map(len, rows), default=0)
        full = [row for row in rows if len(row) == longest]
        return timed.independent(np.array(full)) if full else 1.0

    def _judge(self, name: str, was: KnownLeaf, now: float, again: Sequence[float], bears: bool) -> FigureRow:
        scale = _scale(was, now, *again)
        repeats, tonight, reread = (scale.to(values)[None, :] for values in (was.repeats, [now], again))
        nights = scale.to([v for v in self.before(name) if v > 0 or not scale.log])
        night = _Night.of(repeats, nights, tonight[:, 0], reread, self.independent)
        if again:
            self.readings[name] = float(scale.back(night.reading[0]))
        self.odd |= bears and night.odd
        status, why = night.status(bears)
        if status is Status.STEADY:
            return FigureRow(status)
        low, high = (float(scale.back(end)) for end in night.band())
        old = Leaf(float(scale.back(night.ref.centre[0])), low, high)
        new = Leaf(float(scale.back(night.reading[0])))
        words = f"{show(old.value or 0)} → {show(new.value or 0)}, {why}; {night.noise(scale.log)}"  # type: ignore[arg-type]
        return FigureRow(status, old.as_json(), new.as_json(), words)


@dataclass(frozen=True)
class _Night:
    """One leaf tonight, as series of one."""

    ref: timed.Reference
    before: Floats
    reading: Floats
    again: Floats
    odd: bool
    figures: float
    nights: Floats

    @classmethod
    def of(cls, repeats: Floats, nights: Floats, tonight: Floats, again: Floats, figures: float) -> _Night:
        """From what was measured; the latest four nights make a window with tonight."""
        room = timed.WINDOW - 1
        before = np.concatenate([np.full(room, np.nan), nights])[-room:][None, :]
        ref = timed.reference(repeats, nights[:-room][-timed.MOST_OLDER :][None, :])
        reading = timed.reading(tonight, again) if again.size else tonight
        return cls(ref, before, reading, again, bool(timed.wants_again(before, tonight, ref)[0]), figures, nights)

    def status(self, bears: bool) -> tuple[Status, str]:
        """What the night amounts to, and why. Before there are five nights one alone can be suspected."""
        off = f"{float(self.ref.off(self.reading)[0]):+.1f} noises"
        out = bool(timed.outside(self.before, self.reading, self.ref, self.figures)[0])
        by_itself = abs(timed.alone(self.reading, self.ref)[0]) > timed.limit(self.ref, self.figures)[0]
        if not bears:
            return (Status.ANNOTATED, f"{off}, context") if by_itself else (Status.STEADY, "")
        if self.again.size:
            if timed.flagged(self.before, self.reading, self.again, self.ref, self.figures)[0]:
                return Status.DRIFTED, f"{off}, as {self.again.size} re-runs say"
            if by_itself:
                return Status.SUSPECTED, f"{off} in one night and its re-runs: a slow host looks like that, too"
            return (Status.ANNOTATED, f"{off}; the re-runs do not confirm it") if out else self._trend()
        if out or by_itself:
            return Status.SUSPECTED, f"{off}, {'over five nights' if out else 'in one night'}, not read again"
        return self._trend()

    def band(self) -> tuple[float, float]:
        """Where one night may lie."""
        half = timed.limit(self.ref, self.figures)[0] * self.ref.noise[0] * math.sqrt(1 + 1 / self.ref.repeats)
        return self.ref.centre[0] - half, self.ref.centre[0] + half

    def noise(self, log: bool) -> str:
        """How large one is, and how it is known."""
        size = f"{100 * math.expm1(float(self.ref.noise[0])):.2g} %" if log else f"{float(self.ref.noise[0]):.2g}"
        return f"a noise is {size} ({self.ref.repeats} repeats, {len(self.nights)} nights since)"

    def _trend(self) -> tuple[Status, str]:
        if timed.has_trend([*self.nights, self.reading[0]]):
            return Status.ANNOTATED, f"a trend over {len(self.nights) + 1} nights"
        return Status.STEADY, ""


@dataclass(frozen=True)
class _Scale:
    """Logarithms for a figure that is always positive: noise is a share of it. Else the figure as it is."""

    log: bool

    def to(self, values: Sequence[float]) -> Floats:
        found = np.asarray(values, dtype=np.float64)
        return np.log(found) if self.log else found

    def back(self, value: float) -> float:
        return math.exp(min(value, 690.0)) if self.log else float(value)


def other_speed(was: Mapping[str, Sequence[float]], now: Mapping[str, Sequence[float]]) -> str:
    """In words, when the machine is faster or slower than the accepted runs had it: then no time of it compares.

    was, now: rates by name. Needs as many repeats as a noise does; a rate that either lacks tells nothing.
    """
    for name in sorted(was.keys() & now.keys()):
        if len(was[name]) < timed.FEWEST_REPEATS or not now[name]:
            continue
        ref = timed.reference(np.log([was[name]]), np.empty((1, 0)))
        off = abs(timed.alone(np.log([middle(tuple(now[name]))]), ref)[0])
        if off > stats.t.isf(OTHER_SPEED / 2, ref.freedom[0]):
            return (
                f"the machine is not as fast as it was: {name} {show(middle(tuple(was[name])))} → {show(now[name][0])}"
            )
    return ""


def _scale(leaf: KnownLeaf, *others: float) -> _Scale:
    positive = all(value > 0 for value in (*leaf.repeats, *others))
    return _Scale(positive and (leaf.leaf.low is None or leaf.leaf.low > 0))


def _number(reading: Reading, name: str, place: str) -> float | None:
    figure = reading.figures.get(name)
    leaf = figure.leaves.get(place) if figure and figure.verdict in DECIDED | {None, "NOT_MEASURED"} else None
    return leaf.number if leaf else None
