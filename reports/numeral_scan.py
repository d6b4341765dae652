"""Every numeral of a text, in whatever notation it is printed there.

Four notations occur side by side, and the same digits mean different things in them: Indonesian prose ("4.096" is four
thousand, "25,6" has a decimal), program text and output ("3,624,960", "1.0224"), LaTeX ("12{,}288", "4.125"), and words
("enam puluh empat"; the rule for those stands in `reports.number_words`). The text has lost its code fences, so
program text is told from prose by its shape: a paragraph of this text is one line, hence a block of two or more lines
without a blank one between them is program text, as is whatever is fenced or indented by four blanks.

Nothing is dropped: every digit character of the text lies in exactly one numeral, names such as "INT8" included.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from reports.number_words import SCALES, find_number_words


class Kind(StrEnum):
    """How an occurrence is written."""

    PROSE = "prose"  # digits in Indonesian notation
    CODE = "code"  # digits in program text or output, English notation
    MATH = "math"  # digits in LaTeX
    EXPONENT = "exponent"
    REFERENCE = "reference"  # the number of a chapter
    FOOTNOTE = "footnote"  # a superscript mark
    NAME = "name"  # digits inside a name: INT8, CS336
    IDENTIFIER = "identifier"  # arXiv ids, version numbers, enclosed and fraction glyphs
    WORD = "word"  # a cardinal in words
    ORDINAL = "ordinal"
    COLLECTIVE = "collective"  # "keduanya"
    FRACTION = "fraction"
    ONCE = "once"
    VAGUE = "vague"  # "puluhan"


@dataclass(frozen=True)
class Numeral:
    """One occurrence. ``value`` is in full (365 juta → 365,000,000; 28 % → 28), None where there is none.

    ``last_digit`` is the worth of the last printed digit, None where precision has no meaning (fractions in words);
    ``scale`` the worth of a scale word or suffix; ``nth`` counts equal texts on one line from 1.
    """

    line: int
    column: int
    text: str
    kind: Kind
    value: Fraction | None
    last_digit: Fraction | None
    scale: int
    nth: int
    fingerprint: str


@dataclass(frozen=True)
class _Hit:
    start: int
    end: int
    kind: Kind
    value: Fraction | None = None
    last_digit: Fraction | None = None
    scale: int = 1


_SCRIPTS = "⁰¹²³⁴-⁹₀-₉"
_GLYPHS = "\u00bc-\u00be\u2150-\u218b\u2460-\u249b"  # ½, Ⅳ, ①
_LETTERS = rf"[^\W\d_{_SCRIPTS}{_GLYPHS}]"
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "0123456789" * 2)
_BIG = {"B": 10**9, "M": 10**6, "K": 10**3}
_SCALE_WORDS = "|".join(SCALES)
_PROSE = re.compile(
    rf"""(?P<identifier>arXiv:\d+\.\d+(?:v\d+)?)
    | (?P<name>(?<![\w.]){_LETTERS}+\d+(?:{_LETTERS}|\d)*)
    | (?P<mark>[{_SCRIPTS}]+) | (?P<glyph>[{_GLYPHS}])
    | (?P<number>[1-9]\d{{0,2}}(?:\.\d{{3}})+(?!\.?\d)(?:,\d+)? | \d+(?:,\d+)?(?!\.?\d))
      (?:[ ]?%|x(?!\w)|[ ](?P<word>{_SCALE_WORDS})\b|(?P<big>[BMK])(?!\w))?
    | (?P<dotted>\d+(?:[.,]\d+)*)""",
    re.VERBOSE,
)
_CODE = re.compile(
    rf"""(?P<name>(?<![\w.])(?:{_LETTERS}|_)+\d(?:{_LETTERS}|[\d_])*)
    | (?P<mark>[{_SCRIPTS}]+) | (?P<glyph>[{_GLYPHS}])
    | (?P<number>\d{{1,3}}(?:,\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)(?:[ ]?%|x(?!\w))?""",
    re.VERBOSE,
)
_MATH = re.compile(
    rf"""(?P<mark>[{_SCRIPTS}]+) | (?P<glyph>[{_GLYPHS}])
    | (?P<power>\^\{{?)?(?P<number>\d{{1,3}}(?:\{{,\}}\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?)""",
    re.VERBOSE,
)
_SPAN = re.compile(r"(?P<math>\$[^$]+\$)|(?P<code>`[^`]+`)")
_FORMS = {
    "cardinal": Kind.WORD, "ordinal": Kind.ORDINAL, "collective": Kind.COLLECTIVE, "fraction": Kind.FRACTION,
    "once": Kind.ONCE, "vague": Kind.VAGUE,
}  # fmt: skip


def find_numerals(text: str) -> list[Numeral]:
    """All numerals of a text in order of line and column. Lines count from 1 and end at a newline only."""
    lines = [line.rstrip() for line in text.removeprefix("\ufeff").split("\n")]
    program = _program_lines(lines)
    return [
        numeral
        for number, line in enumerate(lines, start=1)
        for numeral in _numbered(line, number, _hits(line, number in program))
    ]


def fingerprint(line: str) -> str:
    """A short digest of a line, blanks at its end aside: enough to see that it changed, not to read it."""
    return hashlib.sha256(line.rstrip().encode()).hexdigest()[:10]


def _numbered(line: str, number: int, hits: list[_Hit]) -> Iterator[Numeral]:
    seen: Counter[str] = Counter()
    digest = fingerprint(line)
    for hit in sorted(hits, key=lambda h: h.start):
        text = line[hit.start : hit.end]
        seen[text] += 1
        yield Numeral(number, hit.start, text, hit.kind, hit.value, hit.last_digit, hit.scale, seen[text], digest)


def _program_lines(lines: list[str]) -> set[int]:
    """Numbers of the lines that are program text or output, by the rule in the module's docstring."""
    program, fenced = set(), False
    for number, line in enumerate(lines, start=1):
        before = lines[number - 2] if number > 1 else ""
        after = lines[number] if number < len(lines) else ""
        if line.startswith("```"):
            fenced = not fenced
        elif line and (fenced or before.strip() or after.strip() or line.startswith("    ")):
            program.add(number)
    return program


def _hits(line: str, is_program: bool) -> list[_Hit]:
    if is_program:
        return _scan(_CODE, line, Kind.CODE)
    hits, prose = [], line
    for span in _SPAN.finditer(line):
        pattern, kind = (_MATH, Kind.MATH) if span["math"] else (_CODE, Kind.CODE)
        hits += _scan(pattern, line, kind, span.start(), span.end())
        prose = _blank(prose, span.start(), span.end())
    found = _scan(_PROSE, prose, Kind.PROSE)
    for hit in found:
        prose = _blank(prose, hit.start, hit.end)
    return hits + found + _in_words(prose)


def _blank(line: str, start: int, end: int) -> str:
    """The line with a span made unreadable; not with blanks, which would join the words on its two sides."""
    return line[:start] + "|" * (end - start) + line[end:]


def _in_words(prose: str) -> list[_Hit]:
    hits = []
    for word in find_number_words(prose):
        precise = word.value is not None and word.form != "fraction"
        digit = Fraction(word.scale) if precise else None
        hits.append(_Hit(word.start, word.end, _FORMS[word.form], word.value, digit, word.scale))
    return hits


def _scan(pattern: re.Pattern[str], line: str, kind: Kind, start: int = 0, end: int | None = None) -> list[_Hit]:
    matches = pattern.finditer(line, start, len(line) if end is None else end)
    return [_hit(match, match.groupdict(), kind, line) for match in matches]


def _hit(match: re.Match[str], groups: dict[str, str | None], kind: Kind, line: str) -> _Hit:
    start, end = match.span()
    if mark := groups.get("mark"):
        power = kind is not Kind.PROSE or re.search(r"\d$", line[:start])
        value = Fraction(mark.translate(_SUPERSCRIPTS))
        return _Hit(start, end, Kind.EXPONENT if power else Kind.FOOTNOTE, value, Fraction(1))
    number = groups.get("number")
    if number is None:
        return _Hit(start, end, Kind.NAME if groups.get("name") else Kind.IDENTIFIER)
    value, last_digit = _worth(number, kind)
    scale = SCALES.get(groups.get("word") or "", 1) * _BIG.get(groups.get("big") or "", 1)
    if groups.get("power"):
        start, kind = match.start("number"), Kind.EXPONENT
    elif kind is Kind.PROSE and line[:start].endswith("Bab "):
        kind = Kind.REFERENCE
    return _Hit(start, end, kind, value * scale, last_digit * scale, scale)


def _worth(digits: str, kind: Kind) -> tuple[Fraction, Fraction]:
    """Value and worth of the last digit, in the notation of its kind."""
    if kind is Kind.PROSE:
        plain = digits.replace(".", "").replace(",", ".")
    else:
        plain = digits.replace("{,}", "").replace(",", "")
    return Fraction(plain), Fraction(1, 10 ** len(plain.partition(".")[2]))
