"""A plot as its reader sees it: places in percent of the drawn area, words in the language of the page.

Percent, because text and markers keep their size while the area takes whatever width there is. All numbers stand in a
table as well, so that nothing is in the picture only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import cycle

from lib.intervals import Estimate
from reports.plots import Axis, Curve, Pairs, Plot, Value, middle
from reports.render import figures
from reports.render.labels import Place, places
from reports.render.table_view import TableView, cell_view, in_words, table_view
from reports.render.ticks import Ruler, ruler
from reports.render.words import Words, spoken
from reports.tables import Cell, Column, Table

# Paths around the marker's place, in pixels; a shape of lines alone stays a line when it is filled.
SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-3.5 -3.5h7v7h-7z", "M0 -4.6L4.4 3.4H-4.4z", "M0 -5L5 0L0 5L-5 0z",
    "M-4 -4L4 4M-4 4L4 -4", "M0 4.6L4.4 -3.4H-4.4z", "M-5 0H5M0 -5V5", "M0 -5V5M-4.3 -2.5L4.3 2.5M-4.3 2.5L4.3 -2.5",
)  # fmt: skip
DASHES = ("6 4", "2 3", "9 3 2 3")  # of the curves that are dashed, in turn
COLOURS = 5  # as many as page.css names --plot-…
GLYPH = 6.6  # pixels: the width of a digit at the size of a tick's label, rounded up
NARROW = 250.0  # pixels of both axes' labels across a 360 px screen: where they need more, every second one hides
SHARED = 0.5  # of the cells of a table with one column a curve: where fewer are filled, each point has its own row


@dataclass(frozen=True)
class Tick:
    """A mark on an axis; `spare` ones have no label where the screen is narrow."""

    at: float
    label: str
    spare: bool = False


@dataclass(frozen=True)
class AxisView:
    """The name of an axis with its unit and scale, its ticks, and the pixels that the longest label takes."""

    name: str
    translated: bool
    ticks: list[Tick]
    room: int


@dataclass(frozen=True)
class Mark:
    """A point: its place, the ends of its interval where they can be drawn, and the text beside it."""

    x: float
    y: float
    bar: tuple[float, float] | None
    label: str = ""
    place: Place | None = None


@dataclass(frozen=True)
class CurveView:
    """A curve: how it looks in the picture and in the legend, and the line through its marks."""

    name: str
    translated: bool
    colour: int
    shape: str
    dash: str
    line: str
    marks: list[Mark]


@dataclass(frozen=True)
class PlotView:
    """A plot in words and places."""

    title: str
    translated: bool
    says: str
    x: AxisView
    y: AxisView
    curves: list[CurveView]
    has_open: bool
    table: TableView


def plot_view(plot: Plot, w: Words) -> PlotView:
    """The plot in the language of the page."""
    points = [point for curve in plot.curves for point in curve.pairs]
    across = ruler([x for x, _ in points], plot.x.scale)
    up = ruler([end for _, y in points for end in (middle(y), *(drawable(y, plot.y) or ()))], plot.y.scale)
    title, translated = in_words(w, plot.title, plot.title_id)
    looks = _looks(plot.curves)
    curves = [_curve(curve, look, plot.y, (across, up), w) for curve, look in zip(plot.curves, looks, strict=True)]
    curves = _labelled(curves)
    has_open = any(_is_wide(y) and drawable(y, plot.y) is None for _, y in points)
    y = _axis(plot.y, up, w)
    x = _axis(plot.x, across, w, NARROW - y.room)
    return PlotView(title, translated, _says(plot, w), x, y, curves, has_open, table_view(numbers(plot, w), w))


def drawable(y: Value, axis: Axis) -> tuple[float, float] | None:
    """The ends of an interval that a bar can reach: open ends, and on a log axis ends below zero, have no place."""
    if not isinstance(y, Estimate) or not _is_wide(y):
        return None
    low, high = float(y.low), float(y.high)
    reached = math.isfinite(low) and math.isfinite(high) and (axis.scale != "log" or low > 0)
    return (low, high) if reached else None


def _is_wide(y: Value) -> bool:
    return isinstance(y, Estimate) and y.low != y.high


def _looks(curves: tuple[Curve, ...]) -> list[tuple[int, str, str]]:
    """Colour, shape and dash of each curve: shapes never repeat, so that the picture reads without colour."""
    dashes = cycle(DASHES)
    return [(i % COLOURS, SHAPES[i], next(dashes) if curve.dashed else "") for i, curve in enumerate(curves)]


def _curve(curve: Curve, look: tuple[int, str, str], axis: Axis, rulers: tuple[Ruler, Ruler], w: Words) -> CurveView:
    across, up = rulers
    marks = []
    for place, (x, y) in enumerate(curve.pairs):
        ends = drawable(y, axis)
        bar = (_from_top(up, ends[0]), _from_top(up, ends[1])) if ends else None
        at, label = across.share(x), curve.labels[place] if curve.labels else ""
        marks.append(Mark(at, _from_top(up, middle(y)), bar, label))
    name, translated = in_words(w, curve.name, curve.name_id)
    line = " ".join(f"{mark.x:g},{mark.y:g}" for mark in marks)
    return CurveView(name, translated, *look, line, marks)


def _labelled(curves: list[CurveView]) -> list[CurveView]:
    """The curves with a place for each label that finds one; a label that does not is in the numbers below."""
    marks = [mark for curve in curves for mark in curve.marks]
    found = iter(places([(mark.x, mark.y, mark.label) for mark in marks]))
    return [replace(c, marks=[replace(mark, place=next(found)) for mark in c.marks]) for c in curves]


def _from_top(up: Ruler, value: float) -> float:
    return round(100 - up.share(value), 2)


def _axis(axis: Axis, along: Ruler, w: Words, width: float = NARROW) -> AxisView:
    """The axis in words; `width` is what its labels have on a narrow screen."""
    labels = [figures.number(tick, w) for tick in along.ticks]
    room = math.ceil(GLYPH * max((len(spoken(label, "en")) for label in labels), default=0))
    crowded = (len(labels) - 1) * room > width
    places = map(along.share, along.ticks)
    ticks = [Tick(at, labels[i], crowded and i % 2 == 1) for i, at in enumerate(places)]
    return AxisView(_axis_name(axis, w), in_words(w, axis.name, axis.name_id)[1], ticks, room)


def _axis_name(axis: Axis, w: Words) -> str:
    name = in_words(w, axis.name, axis.name_id)[0]
    remarks = [figures.unit(axis.unit, w), w("ui.log") if axis.scale == "log" else ""]
    return name + "".join(f" ({remark})" for remark in [", ".join(filter(None, remarks))] if remark)


def _says(plot: Plot, w: Words) -> str:
    """What the picture shows, in a sentence for those who do not see it."""
    xs = [x for curve in plot.curves for x, _ in curve.pairs]
    curves = [f"{in_words(w, c.name, c.name_id)[0]} {_range([middle(y) for _, y in c.pairs], w)}" for c in plot.curves]
    names = {"x": _axis_name(plot.x, w), "y": _axis_name(plot.y, w)}
    return w("plot.says", **names, across=_range(xs, w), curves="; ".join(curves))


def _range(values: list[int | float], w: Words) -> str:
    ends = [figures.number(end, w) for end in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else w("plot.range", low=ends[0], high=ends[1])


def numbers(plot: Plot, w: Words) -> Table:
    """Every number of the plot: a column a curve where curves share their x, else a row a point."""
    x = Column(plot.x.name, plot.x.unit, plot.x.name_id)
    found = [dict(curve.pairs) for curve in plot.curves]
    xs = sorted({at for ys in found for at in ys})
    whole = all(len(ys) == len(curve.pairs) and not curve.labels for ys, curve in zip(found, plot.curves, strict=True))
    if whole and sum(map(len, found)) > SHARED * len(xs) * len(found):
        heads = [Column(curve.name, plot.y.unit, curve.name_id) for curve in plot.curves]
        rows = [(at, *(_cell(ys.get(at), w) for ys in found)) for at in xs]
        return Table(plot.title, (x, *heads), tuple(rows), plot.title_id)
    words = (_column("plot.curve", w), x, Column(plot.y.name, plot.y.unit, plot.y.name_id))
    labelled = any(curve.labels for curve in plot.curves)
    each = [row for curve in plot.curves for row in _rows(curve, labelled, w)]
    return Table(plot.title, (*words, *[_column("plot.label", w)] * labelled), tuple(each), plot.title_id)


def _column(word: str, w: Words) -> Column:
    return Column(w(word), "", w(word))


def _rows(curve: Curve, labelled: bool, w: Words) -> list[tuple[Cell, ...]]:
    name = in_words(w, curve.name, curve.name_id)[0]
    labels: list[Cell] = [*curve.labels] or [None] * len(curve.pairs)
    pairs: Pairs = curve.pairs
    return [(name, x, _cell(y, w), *[label] * labelled) for (x, y), label in zip(pairs, labels, strict=True)]


def _cell(y: Value | None, w: Words) -> Cell:
    """An interval with an open end in words: a table of numbers takes finite ones only."""
    if not isinstance(y, Estimate) or all(math.isfinite(end) for end in (y.low, y.high)):
        return y
    return str(cell_view(y, w)).replace("inf", "∞")
