"""A table of the chapter, regenerated beside what it prints: checked when handed over, and again when read back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, SupportsFloat

from lib.intervals import Estimate
from reports.judge import as_json

Cell = str | int | float | bool | Estimate | None  # None: nothing was published, or measured, there
_ENDS = ("value", "low", "high")


class TableError(ValueError):
    """The table cannot be shown as it stands; the message says which table, and where in it."""


@dataclass(frozen=True)
class Column:
    """The head of a column. A unit of "" or "1" is not printed; without an Indonesian name the given one stands."""

    name: str
    unit: str = ""
    name_id: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. Raises TableError for ragged rows and for cells that cannot be shown or stored."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title_id: str = ""

    def __post_init__(self) -> None:
        words = [self.title, self.title_id, *(w for c in self.columns for w in (c.name, c.unit, c.name_id))]
        if not all(isinstance(word, str) for word in words) or not self.title.strip():
            raise TableError(f"table {self.title!r}: titles, names and units are text, and a table has a title")
        if not self.columns or not self.rows:
            raise TableError(
                f"table {self.title!r}: {len(self.columns)} columns and {len(self.rows)} rows show nothing"
            )
        for place, row in enumerate(self.rows, 1):
            self._check_row(f"table {self.title!r}, row {place}", row)

    def _check_row(self, where: str, row: tuple[Cell, ...]) -> None:
        if len(row) != len(self.columns):
            raise TableError(f"{where}: {len(row)} cells for {len(self.columns)} columns")
        for column, cell in zip(self.columns, row, strict=True):
            problem = _problem(cell)
            if problem:
                raise TableError(f"{where}, column {column.name!r}: {problem}")


def four_digits(value: SupportsFloat) -> float:
    """For a cell: a measurement seldom knows more, and the record of the aspects keeps them all."""
    return float(f"{float(value):.4g}")


def table_of(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], title_id: str = "") -> Table:
    """A table from whatever sequences the measuring code has. Raises TableError."""
    for place, part in [*enumerate(columns, 1), *enumerate(rows, 1)]:
        if not isinstance(part, Column | Sequence) or isinstance(part, str):
            raise TableError(f"table {title!r}, entry {place}: {part!r} is neither a Column nor a row of cells")
    if not all(isinstance(column, Column) for column in columns):
        raise TableError(f"table {title!r}: each of columns is a Column(name, unit)")
    return Table(title, tuple(columns), tuple(tuple(map(_plain, row)) for row in rows), title_id)


def table_as_json(table: Table) -> dict[str, Any]:
    """The table as the record stores it: strict JSON, an interval as value, low and high."""
    columns, rows = [asdict(column) for column in table.columns], [as_json(row) for row in table.rows]
    return {"title": table.title, "title_id": table.title_id, "columns": columns, "rows": rows}


def table_from_json(raw: object) -> Table:
    """The table that a record holds. Raises TableError for anything else than what `table_as_json` writes."""
    if not isinstance(raw, Mapping):
        raise TableError(f"not an object but {type(raw).__name__}")
    try:
        columns = tuple(Column(**column) for column in raw["columns"])
        rows = tuple(tuple(map(_cell, row)) for row in _lists(raw["rows"]))
        return Table(raw["title"], columns, rows, raw.get("title_id", ""))
    except (TypeError, KeyError, AttributeError) as damage:
        raise TableError(f"damaged: {damage}") from damage


def _lists(raw: object) -> list[list[object]]:
    if not isinstance(raw, list) or not all(isinstance(row, list) for row in raw):
        raise TableError("rows are no lists of cells")
    return raw


def _cell(raw: Any) -> Cell:
    if not isinstance(raw, Mapping):
        return raw  # type: ignore[no-any-return]  # Table refuses what is no cell
    if set(raw) != set(_ENDS) or not all(type(raw[end]) in {int, float} for end in _ENDS):
        raise TableError(f"no interval: {dict(raw)!r}")
    try:
        return Estimate(*(raw[end] for end in _ENDS))
    except ValueError as crossed:
        raise TableError(str(crossed)) from crossed


def _problem(cell: object) -> str:
    """Why this cannot stand in a cell; empty when it can."""
    numbers = [cell.value, cell.low, cell.high] if isinstance(cell, Estimate) else [cell]
    if not isinstance(cell, str | int | float | Estimate | None):
        return f"cannot show a {type(cell).__name__}: hand over text, plain numbers, an Estimate or None"
    if all(number is None or isinstance(number, str) or _is_finite(number) for number in numbers):
        return ""
    return f"{cell!r} is no finite number: say so in words, or hand over None"


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer or a fraction beyond every float
        return False


def _plain(cell: Any) -> Cell:
    """Numbers of a subclass (numpy's float64) as themselves: only builtin types travel between xdist's processes."""
    if isinstance(cell, float):
        return float(cell)
    if isinstance(cell, Estimate):
        return Estimate(*(float(n) if isinstance(n, float) else n for n in (cell.value, cell.low, cell.high)))
    return cell  # type: ignore[no-any-return]  # Table refuses what is no cell
