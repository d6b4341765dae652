"""The words of the rendered report, looked up by group and key in one of two languages."""

from __future__ import annotations

import tomllib
from pathlib import Path

LANGUAGES = ("en", "id")
PLURAL = " || "  # between the text for one and the text for several

Table = dict[str, dict[str, dict[str, str]]]


def load_table() -> Table:
    """All words: group → key → language → text."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


class Words:
    """The words of one language. A missing key is a programming error; an unknown *name* is shown as it is."""

    def __init__(self, lang: str) -> None:
        if lang not in LANGUAGES:
            raise ValueError(f"unknown language {lang!r}: one of {', '.join(LANGUAGES)}")
        self.lang = lang
        self._table = load_table()

    def __call__(self, path: str, **values: object) -> str:
        """The text at `group.key`, its braces filled from `values`; of `one || many` the one that fits `n`."""
        group, _, key = path.partition(".")
        one, _, many = self._table[group][key][self.lang].partition(PLURAL)
        return (many if many and values.get("n") != 1 else one).format(**values)

    def name(self, group: str, key: str) -> str:
        """The word for data that may be anything: an unknown key stands for itself."""
        entry = self._table[group].get(key)
        return entry[self.lang] if entry else key

    def keys(self, group: str) -> list[str]:
        """The keys of a group in the order in which they are written down."""
        return list(self._table[group])
