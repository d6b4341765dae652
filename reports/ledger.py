"""The ledger: what the chapter states, as data. One TOML file per section, figures as strings.

Everything is checked on loading, so that a slip in a TOML file is one line at collection and not a wrong verdict
minutes later.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lib.intervals import Estimate, MalformedNumber, exact, printed
from lib.relations import SCALAR_RELATIONS, TREND_RELATIONS
from reports.verdict import Verdict, combine

WARRANTS = frozenset({"exact", "exhaustive", "sampled", "timed", "literature"})
NEEDS = frozenset({"model", "shape", "trained", "chapter", "gpu", "timing", "lit"})
BEARS = frozenset({"number", "conclusion", "explanation"})
STANDINGS = frozenset({"proven", "likely", "does-not-transfer"})
DEFAULT = "default"  # the key of a record for every model
GIVEN = "given"  # a printed figure that a test takes as its premise instead of measuring it
NOT_LEDGERS = frozenset({"numerals.toml"})

_STATEMENT_KEYS = frozenset("id says says_id where warrant needs relation published expects".split()) | frozenset(
    "on_record erratum erratum_id standing pending".split()
)
_FIGURE_KEYS = frozenset("name value unit relation needs bears about margin over why on_record true_at".split())


class LedgerError(ValueError):
    """A ledger entry is malformed; the message names the file, the statement and the thing."""


@dataclass(frozen=True)
class Figure:
    """One comparison that the statement stands or falls by: a printed figure, or a margin that we declare."""

    name: str
    origin: Literal["printed", "declared"]
    relation: str
    value: str | None = None
    unit: str = ""
    needs: tuple[str, ...] = ()
    bears: str = "number"
    about: str = "1"
    margin: str | None = None
    over: str | None = None
    why: str = ""
    on_record: Mapping[str, Verdict] = field(default_factory=dict)
    true_at: tuple[str, ...] = ()  # the cases at which a conditional figure holds: its condition, in full

    def record_for(self, slug: str | None, device: str | None = None) -> Verdict | None:
        """The verdict on record for this one figure: it holds unless the ledger says otherwise.

        A figure with records by model has none for a model that is not among them.
        """
        return _look_up(self.on_record, slug, device) if self.on_record else Verdict.HOLDS

    def interval(self) -> Estimate | None:
        """The stated value as an interval: rounding for printed digits, the margin for an equivalence."""
        if self.value is None:
            return None
        if self.origin == "printed":
            return printed(self.value, times=exact(self.about).value)
        centre = exact(self.value)
        if self.margin is None:
            return centre
        half_width = exact(self.margin).value
        return Estimate(centre.value, centre.value - half_width, centre.value + half_width)


@dataclass(frozen=True)
class Statement:
    """One statement of the chapter, in our own words, with its figures and the verdict we stand behind."""

    id: str
    says: str
    says_id: str
    where: str
    warrant: str
    needs: tuple[str, ...]
    figures: Mapping[str, Figure]
    on_record: Mapping[str, Verdict] = field(default_factory=dict)
    erratum: str = ""
    erratum_id: str = ""
    standing: str | None = None
    pending: bool = False
    source: str = ""

    @property
    def section(self) -> str:
        """The catalogue's section, the part of the id before the dot."""
        return self.id.partition(".")[0]

    @property
    def published(self) -> list[Figure]:
        """The figures that the chapter prints."""
        return [f for f in self.figures.values() if f.origin == "printed"]

    def record_for(self, slug: str | None, device: str | None = None, *, usual: bool = True) -> Verdict | None:
        """The verdict on record for a model and device class; None where there is none yet.

        usual: whether the model is in fp32, in which every record that names no model was made.
        """
        named = {key: verdict for key, verdict in self.on_record.items() if usual or key != DEFAULT}
        return _look_up(named, slug, device)


@dataclass(frozen=True)
class Ledger:
    """All statements by id, in the order of the files."""

    statements: Mapping[str, Statement]

    def within(self, sections: Collection[str] | None) -> Ledger:
        """The part of the ledger in these files (stems); all of it for None."""
        if sections is None:
            return self
        kept = {key: s for key, s in self.statements.items() if s.source.removesuffix(".toml") in sections}
        return Ledger(kept)

    @property
    def pending(self) -> list[Statement]:
        """Statements whose test comes later."""
        return [s for s in self.statements.values() if s.pending]


def load_ledger(folder: Path) -> Ledger:
    """Read every section of a folder of TOML files. Raises LedgerError naming file, statement and fault."""
    statements: dict[str, Statement] = {}
    for path in sorted(folder.glob("*.toml")):
        if path.name in NOT_LEDGERS:
            continue
        for raw in _entries(path):
            statement = _statement(raw, path.name)
            if statement.id in statements:
                raise LedgerError(f"{path.name}: duplicate id {statement.id!r}")
            statements[statement.id] = statement
    return Ledger(statements)


def _entries(path: Path) -> list[dict[str, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path.name}: not valid TOML: {error}") from None
    if set(document) != {"statement"}:
        raise LedgerError(f"{path.name}: expected [[statement]] tables only, found {sorted(document)}")
    return list(document["statement"])


def _statement(raw: dict[str, Any], source: str) -> Statement:
    name = raw.get("id", "?")
    where = f"{source}: statement {name!r}"
    _check_keys(where, raw, _STATEMENT_KEYS, required=("id", "says", "says_id", "where", "warrant", "needs"))
    _check_choice(where, "warrant", [raw["warrant"]], WARRANTS)
    _check_choice(where, "needs", raw["needs"], NEEDS)
    statement = Statement(
        id=name, says=raw["says"], says_id=raw["says_id"], where=raw["where"], warrant=raw["warrant"],
        needs=tuple(raw["needs"]), figures=_figures(raw, where), on_record=_on_record(raw, where),
        erratum=raw.get("erratum", ""), erratum_id=raw.get("erratum_id", ""), standing=raw.get("standing"),
        pending=raw.get("pending", False), source=source,
    )  # fmt: skip
    _check_conditions(statement, where)
    _check_record(statement, where, Path(source).stem.replace("_", "-"))
    _check_figures_against_record(statement, where)
    return statement


def _figures(raw: dict[str, Any], where: str) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    default = raw.get("relation", "equal")
    for entry in raw.get("published", []):
        _add_figure(figures, {"relation": default, "bears": "number", **entry}, "printed", where)
    for entry in raw.get("expects", []):
        _add_figure(figures, {"relation": default, "bears": "conclusion", **entry}, "declared", where)
    return figures


def _add_figure(
    figures: dict[str, Figure], entry: dict[str, Any], origin: Literal["printed", "declared"], where: str
) -> None:
    place = f"{where}: figure {entry.get('name', '?')!r}"
    _check_keys(place, entry, _FIGURE_KEYS, required=("name",))
    if entry["name"] in figures:
        raise LedgerError(f"{place}: named twice")
    entry["needs"] = tuple(entry.get("needs", ()))
    entry["on_record"] = _on_record(entry, place)
    entry["true_at"] = tuple(entry.get("true_at", ()))
    figure = Figure(origin=origin, **entry)
    _check_figure(figure, place)
    figures[figure.name] = figure


def _check_figure(figure: Figure, place: str) -> None:
    _check_choice(place, "needs", figure.needs, NEEDS)
    _check_choice(place, "bears", [figure.bears], BEARS)
    if figure.true_at and not (figure.over and Verdict.CONDITIONAL in figure.on_record.values()):
        raise LedgerError(f"{place}: true_at goes with a figure over several cases that is conditional on record")
    if not all(isinstance(case, str) for case in figure.true_at):
        raise LedgerError(f"{place}: true_at must be a list of strings")
    valueless = {"true", *TREND_RELATIONS}
    _check_choice(place, "relation", [figure.relation], valueless | {GIVEN} | set(SCALAR_RELATIONS))
    if (figure.value is None) != (figure.relation in valueless):
        raise LedgerError(f"{place}: relation {figure.relation!r} {'takes no' if figure.value else 'needs a'} value")
    if (figure.margin is None) != (figure.relation != "equivalent"):
        raise LedgerError(f"{place}: a margin goes with relation 'equivalent' and only there")
    ours = (figure.origin == "declared" and figure.value is not None) or figure.about != "1" or figure.margin
    if ours and not figure.why:
        raise LedgerError(f"{place}: a value, margin or 'about' of our own needs its derivation in 'why'")
    for text in (figure.value, figure.margin, figure.about):
        _check_number(text, place)


def _check_number(text: object, place: str) -> None:
    if text is None:
        return
    if not isinstance(text, str):
        raise LedgerError(f"{place}: figures are strings (the digits carry precision), got {text!r}")
    try:
        exact(text)
    except MalformedNumber as error:
        raise LedgerError(f"{place}: {error}") from None


def _on_record(raw: dict[str, Any], where: str) -> dict[str, Verdict]:
    record = raw.get("on_record", {})
    by_model = {DEFAULT: record} if isinstance(record, str) else dict(record)
    try:
        return {slug: Verdict(name.upper().replace("-", "_")) for slug, name in by_model.items()}
    except (ValueError, AttributeError):
        words = ", ".join(verdict.lower() for verdict in Verdict)
        raise LedgerError(f"{where}: on_record {record!r} is none of {words}") from None


def _look_up(record: Mapping[str, Verdict], slug: str | None, device: str | None) -> Verdict | None:
    keys = (f"{slug}@{device}", str(slug), DEFAULT)
    return next((record[key] for key in keys if key in record), None)


def _check_figures_against_record(statement: Statement, where: str) -> None:
    """The statement's record is that of its worst figure, so that no figure can flip unseen behind another."""
    for key, verdict in statement.on_record.items():
        slug, _, device = key.partition("@")
        figures = [f.record_for(slug, device) for f in statement.figures.values() if f.relation != GIVEN]
        worst = combine(found for found in figures if found is not None)
        if verdict not in {Verdict.NOT_MEASURED, worst}:
            raise LedgerError(
                f"{where}: on record {verdict.lower()} for {key!r}, but its worst figure is {worst.lower()}"
            )


def _check_conditions(statement: Statement, where: str) -> None:
    """A conditional figure says at which cases it holds, so that none of them flips unseen behind the others.

    Not where a clock is read: there a case near the line may come out open, or either way, from run to run.
    """
    for figure in statement.figures.values():
        if Verdict.CONDITIONAL in figure.on_record.values() and not figure.true_at and statement.warrant != "timed":
            raise LedgerError(f"{where}: figure {figure.name!r} is conditional on record: say at which cases (true_at)")


def _check_record(statement: Statement, where: str, section: str) -> None:
    if statement.section != section:
        raise LedgerError(f"{where}: belongs in section {statement.section!r}, the file is {section!r}")
    if statement.pending and statement.on_record:
        raise LedgerError(f"{where}: a pending statement has nothing on record")
    wrong = {Verdict.REFUTED, Verdict.CONDITIONAL} & set(statement.on_record.values())
    if wrong and not (statement.erratum and statement.erratum_id and statement.standing in STANDINGS):
        needed = f"erratum, erratum_id and standing {sorted(STANDINGS)}"
        raise LedgerError(f"{where}: a {min(wrong).lower()} record needs {needed}")
    if statement.erratum and not wrong:
        raise LedgerError(f"{where}: an erratum, but nothing refuted or conditional on record")


def _check_keys(where: str, raw: Mapping[str, Any], known: frozenset[str], required: tuple[str, ...]) -> None:
    missing = [key for key in required if key not in raw]
    unknown = sorted(set(raw) - known)
    if missing or unknown:
        faults = [f"missing {missing}"] * bool(missing) + [f"unknown {unknown}"] * bool(unknown)
        raise LedgerError(f"{where}: {' and '.join(faults)}")


def _check_choice(where: str, key: str, values: object, allowed: frozenset[str] | set[str]) -> None:
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise LedgerError(f"{where}: {key} must be a list of strings")
    wrong = sorted(set(values) - allowed)
    if wrong:
        raise LedgerError(f"{where}: {key} {wrong} not among {sorted(allowed)}")
