"""Measured curves as a claim shows them beside its tables: checked when handed over, and again when read back.

A curve maps x to y. Given as a mapping it is drawn in the order of x; given as pairs (x, y) it is joined in the order
given, because an x that was itself measured may turn back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

from lib.intervals import Estimate, Number
from reports.judge import as_json

SCALES = ("linear", "log")
MAX_CURVES = 8  # as many as there are shapes of marker
# Far beyond any measurement, and far enough from float64's ends for the arithmetic of an axis.
LARGEST, SMALLEST = 1e100, 1e-100
_ENDS = ("value", "low", "high")
_OPEN = {"inf": math.inf, "-inf": -math.inf}  # how a record writes an end that is open: JSON has no infinity

Value = int | float | Estimate
Pairs = tuple[tuple[int | float, Value], ...]


class PlotError(ValueError):
    """The plot cannot be shown as it stands; the message says which one, and where in it."""


@dataclass(frozen=True)
class Axis:
    """An axis. A unit of "" or "1" is not printed; without an Indonesian name the given one stands."""

    name: str
    unit: str = ""
    name_id: str = ""
    scale: str = "linear"

    def __post_init__(self) -> None:
        _check_words(f"axis {self.name!r}", self.name, self.unit, self.name_id)
        if self.scale not in SCALES:
            raise PlotError(f"axis {self.name!r}: scale {self.scale!r} is none of {', '.join(SCALES)}")


@dataclass(frozen=True)
class Curve:
    """Points (x, y), y with its interval if it has one, and perhaps a short text beside each of them."""

    name: str
    points: Mapping[Any, Any] | Sequence[tuple[Any, Any]]
    name_id: str = ""
    dashed: bool = False
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        where = f"curve {self.name!r}"
        _check_words(where, self.name, "", self.name_id)
        if not isinstance(self.dashed, bool):
            raise PlotError(f"{where}: dashed is {self.dashed!r}, neither True nor False")
        pairs = [_pair(f"{where}, point {place}", pair) for place, pair in enumerate(_listed(where, self.points), 1)]
        labels = _labels(where, self.labels, len(pairs))
        if isinstance(self.points, Mapping):
            order = sorted(range(len(pairs)), key=lambda place: pairs[place][0])
            pairs, labels = [pairs[i] for i in order], [labels[i] for i in order if labels]
        object.__setattr__(self, "points", tuple(pairs))
        object.__setattr__(self, "labels", tuple(labels))

    @property
    def pairs(self) -> Pairs:
        """The points in the order in which a line joins them."""
        return cast("Pairs", self.points)


@dataclass(frozen=True)
class Plot:
    """Curves over two axes. Raises PlotError for what cannot be drawn or stored."""

    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    title_id: str = ""

    def __post_init__(self) -> None:
        where = f"plot {self.title!r}"
        _check_words(where, self.title, "", self.title_id)
        if not isinstance(self.x, Axis) or not isinstance(self.y, Axis):
            raise PlotError(f"{where}: x and y are each an Axis(name, unit)")
        if not self.curves or not all(isinstance(curve, Curve) for curve in self.curves):
            raise PlotError(f"{where}: takes at least one curve, and each is a Curve(name, points)")
        names = [curve.name for curve in self.curves]
        if len(names) > MAX_CURVES:
            raise PlotError(f"{where}: {len(names)} curves, and more than {MAX_CURVES} cannot be told apart")
        if len(set(names)) < len(names):
            raise PlotError(f"{where}: two curves of one name among {names}")
        for curve in self.curves:
            self._check_logs(f"{where}, curve {curve.name!r}", curve)

    def _check_logs(self, where: str, curve: Curve) -> None:
        for place, (x, y) in enumerate(curve.pairs, 1):
            for axis, number in ((self.x, x), (self.y, middle(y))):
                if axis.scale == "log" and number <= 0:
                    raise PlotError(f"{where}, point {place}: {number!r} has no place on the log axis {axis.name!r}")


def plot_of(title: str, x: Axis, y: Axis, curves: Sequence[Curve], title_id: str = "") -> Plot:
    """A plot from whatever sequence of curves the measuring code has. Raises PlotError."""
    if not isinstance(curves, Sequence):
        raise PlotError(f"plot {title!r}: curves is a {type(curves).__name__} and no sequence of Curve")
    return Plot(title, x, y, tuple(curves), title_id)


def middle(y: Value) -> int | float:
    """The value of a point, without its interval."""
    return cast("int | float", y.value) if isinstance(y, Estimate) else y


def plot_as_json(plot: Plot) -> dict[str, Any]:
    """The plot as the record stores it: strict JSON, an interval as value, low and high, an open end as a word."""
    curves = [
        {"name": c.name, "name_id": c.name_id, "dashed": c.dashed, "points": as_json(c.pairs), "labels": [*c.labels]}
        for c in plot.curves
    ]
    axes = {"x": asdict(plot.x), "y": asdict(plot.y)}
    return {"title": plot.title, "title_id": plot.title_id, **axes, "curves": curves}


def plot_from_json(raw: object) -> Plot:
    """The plot that a record holds. Raises PlotError for anything else than what `plot_as_json` writes."""
    if not isinstance(raw, Mapping):
        raise PlotError(f"not an object but {type(raw).__name__}")
    try:
        curves = [Curve(**{**curve, "points": _points(curve["points"])}) for curve in raw["curves"]]
        return plot_of(raw["title"], Axis(**raw["x"]), Axis(**raw["y"]), curves, raw.get("title_id", ""))
    except (TypeError, KeyError, AttributeError) as damage:
        raise PlotError(f"damaged: {damage}") from damage


def _points(raw: object) -> list[tuple[Any, Any]]:
    if not isinstance(raw, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in raw):
        raise PlotError("points are no list of pairs")
    return [(x, _interval(y) if isinstance(y, Mapping) else y) for x, y in raw]


def _interval(raw: Mapping[str, Any]) -> Estimate:
    if set(raw) != set(_ENDS):
        raise PlotError(f"no interval: {dict(raw)!r}")
    ends: list[Any] = [_OPEN.get(end, end) if isinstance(end, str) else end for end in (raw[name] for name in _ENDS)]
    if any(type(end) not in {int, float} for end in ends):
        raise PlotError(f"no interval: {dict(raw)!r}")
    try:
        return Estimate(*ends)
    except ValueError as crossed:
        raise PlotError(str(crossed)) from crossed


def _check_words(where: str, name: object, *others: object) -> None:
    if not all(isinstance(word, str) for word in (name, *others)) or not str(name).strip():
        raise PlotError(f"{where}: titles, names and units are text, and the title or name is not blank")


def _listed(where: str, points: object) -> list[Any]:
    if not isinstance(points, Mapping | Sequence) or isinstance(points, str):
        raise PlotError(f"{where}: points are a mapping of x to y or pairs (x, y), not {type(points).__name__}")
    found = list(points.items() if isinstance(points, Mapping) else points)
    if not found:
        raise PlotError(f"{where}: no points show nothing")
    return found


def _pair(where: str, pair: object) -> tuple[int | float, Value]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise PlotError(f"{where}: {pair!r} is no pair (x, y)")
    x, y = pair
    if not isinstance(y, Estimate):
        return _finite(f"{where}, x", x), _finite(f"{where}, y", y)
    low, high = (_end(f"{where}, end of y's interval", end) for end in (y.low, y.high))
    return _finite(f"{where}, x", x), Estimate(_finite(f"{where}, y", y.value), low, high)


def _end(where: str, end: Number) -> int | float:
    """The end of an interval may be open."""
    return float(end) if isinstance(end, float) and math.isinf(end) else _finite(where, end)


def _finite(where: str, number: object) -> int | float:
    """The number as a builtin one: numpy's float64 is a float too, but one that xdist cannot send."""
    if isinstance(number, bool) or not isinstance(number, int | float | Fraction):
        raise PlotError(
            f"{where}: cannot draw a {type(number).__name__}: hand over plain numbers or, for y, an Estimate"
        )
    if not (SMALLEST <= number <= LARGEST or -LARGEST <= number <= -SMALLEST or number == 0):  # nan is none of these
        raise PlotError(f"{where}: {number!r} is no finite number that an axis can reach")
    return int(number) if isinstance(number, int) else float(number)


def _labels(where: str, labels: object, points: int) -> list[str]:
    if not isinstance(labels, list | tuple) or not all(isinstance(label, str) for label in labels):
        raise PlotError(f"{where}: labels are texts, one beside each point")
    if labels and len(labels) != points:
        raise PlotError(f"{where}: {len(labels)} labels for {points} points")
    return [str(label) for label in labels]
