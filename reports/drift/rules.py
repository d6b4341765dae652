"""When has a figure moved that no clock measured? And a verdict?

exact, exhaustive: not at all, on the same class of machine with the same torch; elsewhere up to `TOLERANCE` for what
    is not a whole number, a word or a truth value.
sampled, with an interval: seeds are fixed, so one code on one machine gives one figure. Outside of the baseline's
    interval, or with intervals that have nothing in common, it has moved; inside, it is told.
sampled, without: nothing says how far it may go, so it is held as an exact figure is, to `TOLERANCE` everywhere; what
    moved less than that is told.
context: what decides nothing is told and never a flag.
A verdict other than the baseline's is a flag whatever the figures do; one that is open tonight is none. A figure that
needs other weights (NOT_MEASURED, with a value) is a figure: what it is on these weights must not move unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from reports.drift.baseline import KnownFigure, KnownLeaf
from reports.drift.evidence import DECIDED, Figure
from reports.drift.fingerprint import close
from reports.drift.leaves import Leaf
from reports.drift.rows import FigureRow, Status, worst_row
from reports.judge import show

SAMPLED = "sampled"
OPEN = "UNRESOLVED"


class Judge(Protocol):
    """How leaves and verdicts of one statement are compared: `Plain` here, or with clocks (clocks.py)."""

    @property
    def clocked(self) -> bool:
        """Whether an open verdict is the noise of a night."""

    def leaf(self, name: str, place: str, was: KnownLeaf, now: Leaf, bears: bool) -> FigureRow:
        """The row of one leaf."""

    def flip(self, name: str, verdict: str) -> Status:
        """What a figure's (or, without a name, the statement's) other verdict amounts to."""


@dataclass(frozen=True)
class Plain:
    """Without clocks. same_bits: on the same class of machine with the same torch."""

    warrant: str
    same_bits: bool
    clocked: bool = False

    def leaf(self, name: str, place: str, was: KnownLeaf, now: Leaf, bears: bool) -> FigureRow:
        """One number, word or truth value."""
        return compare_leaf(was.leaf, now, self.warrant, self.same_bits)

    def flip(self, name: str, verdict: str) -> Status:
        """Nothing here is noise."""
        return Status.DRIFTED


def compare_figures(was: Mapping[str, KnownFigure], now: Mapping[str, Figure], judge: Judge) -> dict[str, FigureRow]:
    """Every figure of the baseline and of tonight."""
    rows = {}
    for name, figure in was.items():
        bears = bool(figure.verdicts & DECIDED if judge.clocked else figure.verdicts)
        lost = FigureRow(Status.MISSING, detail="not in the record")
        row = _figure(name, figure, now[name], judge, bears) if name in now else lost
        rows[name] = row if bears or (name in now and now[name].verdict in DECIDED) else row.as_context()
    for name in now.keys() - was.keys():
        new = FigureRow(Status.UNKNOWN, detail="not in the baseline")
        rows[name] = new if now[name].verdict else new.as_context()
    return rows


def _figure(name: str, was: KnownFigure, now: Figure, judge: Judge, bears: bool) -> FigureRow:
    """One figure over all of its cases, and its verdict."""
    verdict, ever = now.verdict or "", " or ".join(sorted(was.verdicts))
    flip = flipped(was.verdicts, verdict)
    if flip:
        return FigureRow(judge.flip(name, verdict), ever, verdict, flip)
    if judge.clocked and bears and verdict not in DECIDED:
        return FigureRow(Status.UNMEASURED, ever, verdict, "open tonight")
    rows = compare_leaves(name, was.leaves, now.leaves, judge, bears)
    if was.verdicts and was.verdicts <= DECIDED and verdict not in DECIDED:
        rows["verdict"] = FigureRow(Status.UNMEASURED, ever, verdict, f"{ever} → {verdict or 'none'}")
    if not was.verdicts & DECIDED and verdict in DECIDED:
        rows["verdict"] = FigureRow(Status.UNKNOWN, ever, verdict, f"{verdict}, and the baseline never decided it")
    return worst_row(rows) if rows else FigureRow(Status.STEADY)


def compare_leaves(
    name: str, was: Mapping[str, KnownLeaf], now: Mapping[str, Leaf], judge: Judge, bears: bool
) -> dict[str, FigureRow]:
    """Case by case."""
    rows = {place: FigureRow(Status.MISSING, detail="this case is gone") for place in was.keys() - now.keys()}
    rows |= {place: FigureRow(Status.UNKNOWN, detail="a new case") for place in now.keys() - was.keys()}
    for place in sorted(was.keys() & now.keys()):
        rows[place] = judge.leaf(name, place, was[place], now[place], bears)
    return rows


def compare_leaf(was: Leaf, now: Leaf, warrant: str, same_bits: bool) -> FigureRow:
    """One number, word or truth value that no clock measured."""
    old, new = was.number, now.number
    if was == now and type(was.value) is type(now.value):
        return FigureRow(Status.STEADY)
    if old is None or new is None:
        return moved(was, now, Status.DAMAGED if old is not None else Status.DRIFTED)
    if warrant == SAMPLED and was.has_interval:
        return _sampled(was, now, old, new)
    if old == new:
        return moved(was, now, Status.ANNOTATED, "its interval moved")
    whole = isinstance(was.value, int) and isinstance(now.value, int)
    near = not whole and close(old, new)
    if near and warrant == SAMPLED:
        return moved(was, now, Status.ANNOTATED, "by no more than rounding")
    return FigureRow(Status.STEADY) if near and not same_bits else moved(was, now, Status.DRIFTED)


def flipped(was: frozenset[str], now: str) -> str:
    """In words, when a verdict is decided otherwise than any accepted run decided it; empty when it is not."""
    decided = was & DECIDED
    return f"{' or '.join(sorted(decided))} → {now}" if decided and now in DECIDED - decided else ""


def moved(was: Leaf, now: Leaf, status: Status, how: str = "") -> FigureRow:
    """A row that says from where to where."""
    words = f"{_shown(was)} → {_shown(now)}" + (f", {how}" if how else "")
    return FigureRow(status, was.as_json(), now.as_json(), words)


def _sampled(was: Leaf, now: Leaf, old: float, new: float) -> FigureRow:
    """By intervals: the baseline's must hold tonight's value, and the two must have something in common."""
    low, high = _ends(was, old)
    now_low, now_high = _ends(now, new)
    if low <= new <= high and now_low <= high and low <= now_high:
        return moved(was, now, Status.ANNOTATED, "inside its interval")
    return moved(was, now, Status.DRIFTED, "outside its interval")


def _ends(leaf: Leaf, value: float) -> tuple[float, float]:
    return (value if leaf.low is None else leaf.low), (value if leaf.high is None else leaf.high)


def _shown(leaf: Leaf) -> str:
    if leaf.number is None or isinstance(leaf.value, int):
        return f"{leaf.value}"[:60]
    ends = f" [{show(leaf.low)}, {show(leaf.high)}]" if leaf.low is not None and leaf.high is not None else ""
    return f"{show(leaf.number)}{ends}" if ends else f"{leaf.number:.10g}"  # without an interval every digit is meant
