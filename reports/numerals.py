"""Numeral coverage: every numeral of the chapter is claimed, derived from a claim, or waived with a reason.

An edited chapter shows as a changed line, a new number as missing, a figure that the ledger quotes and the chapter does
not print as unprinted, and a claim whose digits are not the ones printed at its place as mismatched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from lib.intervals import printed
from reports.ledger import Ledger
from reports.numeral_mapping import Entry, Key, Mapped, MappingError, load_mapping, toml_stub
from reports.numeral_scan import Kind, Numeral, find_numerals, fingerprint

__all__ = [
    "Coverage", "Entry", "Figures", "Kind", "Mapped", "MappingError", "Numeral", "coverage", "figures_of",
    "find_numerals", "fingerprint", "load_mapping", "toml_stub",
]  # fmt: skip

Figures = Mapping[str, Mapping[str, str | None]]  # statement id → figure name → digits as printed, None if not printed
_Reading = tuple[Fraction, Fraction | None]  # a value, and the worth of its last printed digit where it has one


@dataclass(frozen=True)
class Coverage:
    """What is wrong with a mapping, a ledger and a text taken together. All lists but ``unclaimed`` are errors."""

    missing: list[Numeral]  # printed, and in no entry
    stale: list[str]  # entries that the text no longer bears out, in words
    unknown_statements: list[str]  # references to a statement or figure that the ledger lacks
    mismatched: list[str]  # the ledger's digits are not the ones printed where the mapping says so
    ledger_figures_not_printed: list[str]  # published in the ledger, printed nowhere
    unclaimed: list[str]  # published in the ledger, and no occurrence points to it
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems()

    def problems(self) -> list[str]:
        """Every fault as one line."""
        return [
            *(f"line {n.line}: {n.text!r} ({n.kind}) is neither claimed, derived nor waived" for n in self.missing),
            *self.stale,
            *self.unknown_statements,
            *self.mismatched,
            *(
                f"{figure} stands in the ledger and nowhere in the chapter"
                for figure in self.ledger_figures_not_printed
            ),
        ]


def figures_of(ledger: Ledger) -> Figures:
    """The ledger as `coverage` wants it: figures by statement, without digits where we declare and not the chapter."""
    return {
        statement.id: {
            name: figure.value if figure.origin == "printed" else None for name, figure in statement.figures.items()
        }
        for statement in ledger.statements.values()
    }


def coverage(numerals: Sequence[Numeral], mapping: Mapped, ledger_figures: Figures) -> Coverage:
    """Hold the numerals of a text, the mapping and the ledger's figures (`figures_of`) against each other."""
    by_key = {(n.line, n.text, n.nth): n for n in numerals}
    claims = [
        (entry, ref, by_key[key])
        for key, entry in mapping.entries.items()
        if key in by_key and entry.status == "claimed"
        for ref in entry.refs
    ]
    return Coverage(
        missing=[n for key, n in by_key.items() if key not in mapping.entries],
        stale=_changed_lines(numerals, mapping) + _vanished(by_key, mapping),
        unknown_statements=_unknown(mapping.entries.values(), ledger_figures),
        mismatched=_mismatched(claims, ledger_figures),
        ledger_figures_not_printed=_unprinted(numerals, ledger_figures),
        unclaimed=_unclaimed({ref for _, ref, _ in claims}, ledger_figures),
        counts=Counter(e.status for key, e in mapping.entries.items() if key in by_key),
    )


def _changed_lines(numerals: Sequence[Numeral], mapping: Mapped) -> list[str]:
    """Lines whose digest is not the mapped one. A line without numerals any more shows through its entries."""
    now = {n.line: n.fingerprint for n in numerals}
    line_of = {digest: line for line, digest in now.items()}
    faults = []
    for line, digest in mapping.fingerprints.items():
        if line in now and now[line] != digest:
            moved = f"; it is line {line_of[digest]} now" if digest in line_of else ""
            faults.append(f"line {line} is not the line that was mapped{moved}")
    return faults


def _vanished(by_key: Mapping[Key, Numeral], mapping: Mapped) -> list[str]:
    return [
        f"{entry.place} is in the mapping and no longer in the text"
        for key, entry in mapping.entries.items()
        if key not in by_key
    ]


def _unknown(entries: Iterable[Entry], ledger_figures: Figures) -> list[str]:
    faults = []
    for entry in entries:
        for ref in entry.refs:
            statement, _, figure = ref.partition("#")
            if statement not in ledger_figures:
                faults.append(f"{entry.place}: no statement {statement!r} in the ledger")
            elif figure and figure not in ledger_figures[statement]:
                faults.append(f"{entry.place}: statement {statement!r} has no figure {figure!r}")
    return faults


def _mismatched(claims: Iterable[tuple[Entry, str, Numeral]], ledger_figures: Figures) -> list[str]:
    faults = []
    for entry, ref, numeral in claims:
        statement, _, figure = ref.partition("#")
        digits = ledger_figures.get(statement, {}).get(figure)
        if digits is not None and not _prints(numeral, digits):
            faults.append(f"{entry.place} is claimed by {ref}, which says {digits}")
    return faults


def _unprinted(numerals: Sequence[Numeral], ledger_figures: Figures) -> list[str]:
    printed_somewhere = {reading for numeral in numerals for reading in _readings(numeral)}
    return [
        f"{statement}#{name} = {digits}"
        for statement, figures in ledger_figures.items()
        for name, digits in figures.items()
        if digits is not None and not _figure_as_read(digits) & printed_somewhere
    ]


def _prints(numeral: Numeral, digits: str) -> bool:
    """Whether the occurrence is the figure: same value, same last digit where precision has a meaning."""
    return bool(_readings(numeral) & _figure_as_read(digits))


def _readings(numeral: Numeral) -> set[_Reading]:
    """What the ledger may write for an occurrence: "365 juta" is 365e6, or 365 with the scale in the unit."""
    if numeral.value is None:
        return set()
    last_digit = numeral.last_digit
    return {(numeral.value / unit, last_digit and last_digit / unit) for unit in (1, numeral.scale)}


def _figure_as_read(digits: str) -> set[_Reading]:
    figure = printed(digits)
    value = Fraction(figure.value)
    return {(value, 2 * (Fraction(figure.high) - value)), (value, None)}


def _unclaimed(claimed: set[str], ledger_figures: Figures) -> list[str]:
    return [
        f"{statement}#{name} = {digits}"
        for statement, figures in ledger_figures.items()
        for name, digits in figures.items()
        if digits is not None and f"{statement}#{name}" not in claimed
    ]
