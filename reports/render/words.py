"""The words of the rendered report, looked up by group and key in one of two languages, or in both at once."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

LANGUAGES = ("en", "id")
PLURAL = " || "  # between the text for one and the text for several
# Private characters, which `reading.text` takes out of everything recorded: a text in both languages, and a number in
# English notation that the other language writes with comma and point exchanged.
OPEN, BETWEEN, CLOSE, NUMBER = "\ue000\ue001\ue002\ue003"
_PAIR = re.compile(f"{OPEN}([^{OPEN}]*?){BETWEEN}([^{OPEN}]*?){CLOSE}")
_NUMBER = re.compile(rf"{NUMBER}(-?[\d.,]+)")
_SWAP = str.maketrans(",.", ".,")

Table = dict[str, dict[str, dict[str, str]]]


def load_table() -> Table:
    """All words: group → key → language → text."""
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


class Words:
    """The words of one language. A missing key is a programming error; an unknown *name* is shown as it is."""

    def __init__(self, lang: str, table: Table | None = None) -> None:
        if lang not in LANGUAGES:
            raise ValueError(f"unknown language {lang!r}: one of {', '.join(LANGUAGES)}")
        self.lang = lang
        self._table = load_table() if table is None else table

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

    def pick(self, english: str, indonesian: str) -> str:
        """Of a text in two languages the reader's, or the other one where that is missing."""
        first, second = (english, indonesian) if self.lang == "en" else (indonesian, english)
        return first or second

    def translates(self, indonesian: str) -> bool:
        """Whether what `pick` gives is in the reader's language."""
        return self.lang == "en" or bool(indonesian)

    def digits(self, english: str) -> str:
        """A number in English notation in that of the language: 3,624,960.5 is 3.624.960,5 in Indonesian."""
        return english.translate(_SWAP) if self.lang == "id" else english


class Bilingual(Words):
    """Both languages at once: `spoken` takes one of them out, here or, for what is packed, in page.js."""

    def __init__(self) -> None:
        super().__init__("en")
        self.lang = "both"
        self._each = [Words(lang, self._table) for lang in LANGUAGES]
        self._fixed: dict[str, str] = {}  # the texts without values, each put together once

    def __call__(self, path: str, **values: object) -> str:
        """The text in both languages."""
        if not values:
            return self._fixed.get(path) or self._fixed.setdefault(path, both(*(w(path) for w in self._each)))
        return both(*(w(path, **{k: _said(v, w.lang) for k, v in values.items()}) for w in self._each))

    def name(self, group: str, key: str) -> str:
        """The word in both languages."""
        entry = self._table[group].get(key)
        return both(entry["en"], entry["id"]) if entry else key

    def pick(self, english: str, indonesian: str) -> str:
        """Both texts."""
        return both(*(w.pick(english, indonesian) for w in self._each))

    def digits(self, english: str) -> str:
        """The number, marked where the languages write it differently."""
        return NUMBER + english if "." in english or "," in english else english


def spoken(text: str, lang: str) -> str:
    """A text in both languages in one of them."""
    chosen = _PAIR.sub(rf"\{LANGUAGES.index(lang) + 1}", text)
    return _NUMBER.sub(lambda found: found[1].translate(_SWAP) if lang == "id" else found[1], chosen)


def _said(value: object, lang: str) -> object:
    return spoken(value, lang) if isinstance(value, str) else value


def both(english: str, indonesian: str) -> str:
    """A text in both languages; one that they share stays as it is."""
    return english if english == indonesian else f"{OPEN}{english}{BETWEEN}{indonesian}{CLOSE}"
