"""A regenerated table as its reader sees it: words in the language of the page, numbers in its notation."""

from __future__ import annotations

from dataclasses import dataclass

from lib.intervals import Estimate
from reports.render import figures
from reports.render.words import Words
from reports.tables import Cell, Column, Table

WIDTH_DIGITS = 2  # of an interval's width: a further one would be noise in every cell
FLOAT_DIGITS = 15  # every decimal of so many digits survives a float64, so a rounded number prints as it was rounded


@dataclass(frozen=True)
class Head:
    """The head of a column: `numeric` ones stand at the right; `translated` if its words are in the page's language."""

    name: str
    unit: str
    numeric: bool
    translated: bool


@dataclass(frozen=True)
class CellView:
    """A cell in words, its interval (which is not broken over two lines) apart."""

    value: str
    interval: str = ""

    def __str__(self) -> str:
        return f"{self.value} {self.interval}".strip()


@dataclass(frozen=True)
class TableView:
    """A table in words."""

    title: str
    translated: bool
    heads: list[Head]
    rows: list[list[CellView]]


def table_view(table: Table, w: Words) -> TableView:
    """The table in the language of the page."""
    title, translated = in_words(w, table.title, table.title_id)
    cells = zip(*table.rows, strict=True)
    heads = [_head(column, list(below), w) for column, below in zip(table.columns, cells, strict=True)]
    return TableView(title, translated, heads, [[cell_view(cell, w) for cell in row] for row in table.rows])


def cell_view(cell: Cell, w: Words) -> CellView:
    """A cell in words: an interval to the digits that its width leaves meaningful, None as a dash."""
    if not isinstance(cell, Estimate):
        return CellView(figures.short(cell, w))
    value, low, high = (float(number) for number in (cell.value, cell.low, cell.high))
    if low == high:
        return CellView(figures.short(value, w))
    shown = [
        figures.short(figures.rounded(end, high - low, WIDTH_DIGITS), w, FLOAT_DIGITS) for end in (value, low, high)
    ]
    return CellView(shown[0], figures.between(shown[1], shown[2]))


def _head(column: Column, cells: list[Cell], w: Words) -> Head:
    name, translated = in_words(w, column.name, column.name_id)
    numeric = any(isinstance(cell, int | float | Estimate) and not isinstance(cell, bool) for cell in cells)
    return Head(name, figures.unit(column.unit, w), numeric, translated)


def in_words(w: Words, given: str, indonesian: str) -> tuple[str, bool]:
    """The words to show, and whether they are in the language of the page."""
    return w.pick(given, indonesian), w.translates(indonesian)
