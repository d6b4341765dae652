"""What a claim's test sees: the decorator that ties it to a statement, and the recorder of its measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from lib.intervals import Estimate
from reports.judge import Aspect, Measured, aspect_of, context, judge
from reports.ledger import GIVEN, Figure, Statement
from reports.plots import Axis, Curve, Plot, PlotError, plot_of
from reports.tables import Cell, Column, Table, TableError, table_of
from reports.verdict import Verdict, combine

MISSING_NEED = {
    "model": "no model in this run",
    "shape": "needs the chapter's architecture",
    "trained": "needs trained weights; this run's are random",
    "chapter": "needs the chapter's own weights",
    "gpu": "needs a GPU; this run has none",
    "timing": "needs a quiet machine to itself; this run shares it",
    "lit": "settled by the literature, nothing to execute",
}


class IncompleteClaim(AssertionError):
    """A test ended without measuring a figure that its statement declares."""


def claim(statement_id: str) -> pytest.MarkDecorator:
    """Tie a test to the statement of the ledger with this id."""
    return pytest.mark.claim(statement_id)


def missing_needs(needs: tuple[str, ...], abilities: frozenset[str]) -> str:
    """Why these needs are not met, in words; empty when they are."""
    return "; ".join(MISSING_NEED[need] for need in needs if need not in abilities)


class Claim:
    """Collects the measurements of one statement; comparing and deciding is the framework's part."""

    def __init__(self, statement: Statement, abilities: frozenset[str]) -> None:
        self.statement = statement
        self.aspects: dict[str, Aspect] = {}
        self.values: dict[str, Measured] = {}
        self.notes: list[str] = []
        self.tables: list[Table] = []
        self.plots: list[Plot] = []
        self.condition_text = ""
        self.protocol_facts: dict[str, Any] = {}
        self._abilities = abilities

    def measured(self, name: str, value: Measured, unit: str = "") -> None:
        """Hand over a measurement. A name that the ledger does not know is recorded as context."""
        figure = self.statement.figures.get(name)
        if name in self.aspects:
            raise ValueError(f"{self.statement.id}: {name!r} measured twice")
        self.aspects[name] = context(name, value, unit) if figure is None else self._judge(figure, value)
        self.values[name] = value

    def settles(self, name: str, value: Measured) -> bool:
        """Whether this value would decide a declared figure: for measurements that go on until they do."""
        return self._judge(self.statement.figures[name], value).verdict is not Verdict.UNRESOLVED

    def given(self, name: str) -> Estimate:
        """The printed interval of a figure that the test reasons from (relation ``given``: it need not be measured)."""
        interval = self.statement.figures[name].interval()
        if interval is None:
            raise ValueError(f"{self.statement.id}: figure {name!r} has no value to take as given")
        return interval

    def not_measured(self, name: str, reason: str) -> None:
        """Say why a declared figure could not be measured in this run."""
        figure = self.statement.figures[name]
        self.aspects[name] = aspect_of(figure, Verdict.NOT_MEASURED, reason)

    def table(self, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], title_id: str = "") -> None:
        """Show a table of the chapter, regenerated. Decides nothing. Raises TableError for what cannot be shown."""
        if any(known.title == title for known in self.tables):
            raise TableError(f"{self.statement.id}: table {title!r} handed over twice")
        self.tables.append(table_of(title, columns, rows, title_id))

    def plot(self, title: str, *, x: Axis, y: Axis, curves: Sequence[Curve], title_id: str = "") -> None:
        """Show measured curves. Decides nothing. Raises PlotError for what cannot be drawn."""
        if any(known.title == title for known in self.plots):
            raise PlotError(f"{self.statement.id}: plot {title!r} handed over twice")
        self.plots.append(plot_of(title, x, y, curves, title_id))

    def note(self, text: str) -> None:
        """A remark for the reader of the report."""
        self.notes.append(text)

    def condition(self, text: str) -> None:
        """The condition under which the statement is true, in words."""
        self.condition_text = text

    def protocol(self, **facts: Any) -> None:
        """How it was measured: tokens, seeds, shapes, dtypes."""
        self.protocol_facts.update(facts)

    def conclude(self) -> Verdict:
        """The statement's verdict. Raises IncompleteClaim when a declared figure was never handed over."""
        forgotten = [n for n, f in self.statement.figures.items() if n not in self.aspects and f.relation != GIVEN]
        if forgotten or not self.aspects:
            raise IncompleteClaim(f"{self.statement.id}: never measured {forgotten or 'anything'}")
        return combine(a.verdict for a in self.aspects.values() if a.verdict is not None)

    def reason(self, verdict: Verdict) -> str:
        """The reasons of the aspects that gave the verdict."""
        return "; ".join(f"{a.name}: {a.reason}" for a in self.aspects.values() if a.verdict is verdict and a.reason)

    def _judge(self, figure: Figure, value: Measured) -> Aspect:
        lacking = missing_needs(figure.needs, self._abilities)
        if lacking:
            return aspect_of(figure, Verdict.NOT_MEASURED, lacking, value)
        return judge(figure, value, cautious=self.statement.warrant == "timed")


def aspects_as_json(
    aspects: Mapping[str, Aspect], on_record: Mapping[str, Verdict], flipped: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any]]:
    """Aspects as the report's dictionaries, keyed by name, each beside its verdict on record and its flipped cases."""
    return {
        name: {
            "verdict": a.verdict and a.verdict.value, "bears": a.bears, "relation": a.relation, "measured": a.measured,
            "published": a.published, "reason": a.reason, "unit": a.unit,
            "on_record": on_record[name].value if name in on_record else None,
            "flipped_cases": list(flipped.get(name, ())),
        }
        for name, a in aspects.items()
    }  # fmt: skip
