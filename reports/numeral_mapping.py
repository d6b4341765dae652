"""The mapping file that says what every numeral of the chapter is: claimed, derived from a claim, or waived.

It (`claims/numerals.toml`) names an occurrence by its line, its text and which of the equal texts on that line it is,
and keeps a short digest of the line instead of the sentence.

    [reasons]
    footnote = "mark of a footnote; the notes are not part of the text"

    [[line]]
    number = 22
    fingerprint = "…"
    numerals = [
      { text = "67", claimed = ["kv-cache.head-matrix#uncached_mb"] },    # statement, or statement#figure
      { text = "1", nth = 2, derived = ["kv-cache.head-matrix"], how = "…" },
      { text = "¹", waived = "footnote" },
    ]
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reports.numeral_scan import Numeral

Status = Literal["claimed", "derived", "waived"]
_STATUSES: tuple[Status, ...] = ("claimed", "derived", "waived")
_ENTRY_KEYS = frozenset({"text", "nth", "how", *_STATUSES})
Key = tuple[int, str, int]  # line, text, which of the equal texts on the line


class MappingError(ValueError):
    """The mapping file is malformed; the message names the line and the numeral."""


@dataclass(frozen=True)
class Entry:
    """What one occurrence is: ``refs`` are "statement" or "statement#figure"; ``reason`` explains the rest."""

    line: int
    text: str
    nth: int
    status: Status
    refs: tuple[str, ...] = ()
    reason: str = ""

    @property
    def place(self) -> str:
        """The occurrence in words, for messages."""
        return f"line {self.line}: {self.text!r}" + (f" (occurrence {self.nth})" if self.nth > 1 else "")


@dataclass(frozen=True)
class Mapped:
    """A loaded mapping: entries by (line, text, nth), and the digest each line had when it was mapped."""

    entries: Mapping[Key, Entry]
    fingerprints: Mapping[int, str]


def load_mapping(path: Path) -> Mapped:
    """Read a mapping. Raises MappingError on unknown keys, a missing or double status, or an occurrence given twice."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MappingError(f"{path.name}: not valid TOML: {error}") from None
    entries: dict[Key, Entry] = {}
    fingerprints: dict[int, str] = {}
    for table in document.get("line", []):
        number = _field(table, "number", int, path.name)
        fingerprints[number] = _field(table, "fingerprint", str, f"{path.name}: line {number}")
        for raw in table.get("numerals", []):
            entry = _entry(raw, number, document.get("reasons", {}))
            if (key := (entry.line, entry.text, entry.nth)) in entries:
                raise MappingError(f"{path.name}: {entry.place} is given twice")
            entries[key] = entry
    return Mapped(entries, fingerprints)


def toml_stub(numerals: Iterable[Numeral]) -> str:
    """Entries to paste into the mapping for numerals that are missing there, a table a line; fill in the status."""
    stubs: dict[int, list[str]] = {}
    digests = {}
    for n in numerals:
        digests[n.line] = n.fingerprint
        nth = f", nth = {n.nth}" if n.nth > 1 else ""
        stubs.setdefault(n.line, []).append(f'  {{ text = "{n.text}"{nth}, waived = "" }},')
    tables = (
        "\n".join([f'[[line]]\nnumber = {line}\nfingerprint = "{digests[line]}"\nnumerals = [', *stubs[line], "]\n"])
        for line in sorted(stubs)
    )
    return "\n".join(tables)


def _entry(raw: Mapping[str, Any], line: int, reasons: Mapping[str, str]) -> Entry:
    text, nth = _field(raw, "text", str, f"line {line}"), raw.get("nth", 1)
    place = f"line {line}: {text!r}"
    statuses = [s for s in _STATUSES if s in raw]
    if unknown := sorted(set(raw) - _ENTRY_KEYS):
        raise MappingError(f"{place}: unknown keys {unknown}")
    if len(statuses) != 1:
        raise MappingError(f"{place}: needs exactly one of {', '.join(_STATUSES)}")
    if statuses[0] == "waived":
        reason = _field(raw, "waived", str, place)
        if not reasons.get(reason):
            raise MappingError(f"{place}: waived for {reason!r}, which [reasons] does not explain")
        return Entry(line, text, nth, "waived", reason=reasons[reason])
    refs, how = _field(raw, statuses[0], list, place), raw.get("how", "")
    if not refs or (statuses[0] == "derived") != bool(how):
        raise MappingError(f"{place}: {statuses[0]} needs statements, and 'how' goes with derived only")
    return Entry(line, text, nth, statuses[0], tuple(refs), how)


def _field(table: Mapping[str, Any], key: str, kind: type, place: str) -> Any:
    if not isinstance(table.get(key), kind):
        raise MappingError(f"{place}: {key!r} must be a {kind.__name__}, got {table.get(key)!r}")
    return table[key]
