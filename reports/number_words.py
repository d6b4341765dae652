"""Indonesian number words: which words of a sentence are numerals, and what they are worth.

The rule, so that nobody has to guess what is listed:

1. Every cardinal is a numeral, "satu" included, alone or as part of a compound ("enam puluh empat", "lima belas juta").
   Only these fixed phrases are mere words: "salah satu", "satu sama lain", "satu per satu", "satu-satunya".
2. "ke-" in front of a number word makes an ordinal; so is "pertama". With the suffix "-nya" it counts what was just
   named ("keduanya", both of them) and is a collective. A bare "kedua" may also mean "both": no rule tells it from
   "second", so it is listed as an ordinal and whoever maps it decides.
3. "separuh", "setengah", "seper-" words and "X per-Y" are fractions; in front of a scale word they multiply it.
4. "sekali" is a numeral (once) except in "sama sekali" and "sekali lagi".
5. Round plurals ("puluhan", "ratusan", a bare "juta") are numerals without a value.
6. Not numerals: the articles and quantifiers "sebuah", "seorang", "suatu", "sebagian", "beberapa", "segelintir", and
   words with a number in their history ("dekade", "oktaf", "kuadrat", "tunggal", "ganda", "sekaligus").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Form = Literal["cardinal", "ordinal", "collective", "fraction", "once", "vague"]

_DIGIT_WORDS = "nol satu dua tiga empat lima enam tujuh delapan sembilan"
DIGITS = {word: value for value, word in enumerate(_DIGIT_WORDS.split())}
SCALES = {"ribu": 10**3, "juta": 10**6, "miliar": 10**9, "triliun": 10**12}
_ONE_OF = {f"se{word}": ("satu", word) for word in ("belas", "puluh", "ratus", *SCALES)}
_HALVES = frozenset({"separuh", "separo", "setengah"})
_LONGEST = 5 * 6  # five scale groups of at most five words ("dua ratus tiga puluh empat") and a scale word
_VAGUE = re.compile(r"(?:ber)?(?:belas|puluh|ratus|ribu|juta|miliar|triliun)(?:an)?")
_SUFFIX = re.compile(r"(?:nya|lah|kah|pun)$")
_WORD = re.compile(r"[^\W\d_⁰¹²³⁴-⁹₀-₉]+")
_PHRASES = re.compile(
    r"\bsalah satu\b|\bsatu sama lain\b|\bsatu per satu\b|\bsatu-satunya\b|\bsama sekali\b|\bsekali lagi\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class WordNumber:
    """A numeral in words at text[start:end]. ``scale`` is the scale word it ends in (juta → 10**6), else 1."""

    start: int
    end: int
    value: Fraction | None
    form: Form
    scale: int = 1


@dataclass(frozen=True)
class _Token:
    word: str
    start: int
    end: int
    glued: bool  # only blanks between this word and the one before: they can form one number


def find_number_words(text: str) -> list[WordNumber]:
    """All numerals in words of a line of Indonesian prose, in order, by the rule of this module."""
    tokens = _tokens(_PHRASES.sub(lambda m: "." * len(m[0]), text))
    found, i = [], 0
    while i < len(tokens):
        number, used = _number_at(_run(tokens, i))
        if number is not None:
            found.append(number)
        i += max(used, 1)
    return found


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    previous_end = 0
    for match in _WORD.finditer(text):
        glued = bool(tokens) and text[previous_end : match.start()].isspace()
        tokens.append(_Token(match[0].lower(), match.start(), match.end(), glued))
        previous_end = match.end()
    return tokens


def _run(tokens: Sequence[_Token], i: int) -> list[_Token]:
    """The token at i and those glued to it, as far as the longest number of this grammar can reach."""
    run = [tokens[i]]
    for token in tokens[i + 1 : i + _LONGEST]:
        if not token.glued:
            break
        run.append(token)
    return run


def _number_at(run: Sequence[_Token]) -> tuple[WordNumber | None, int]:
    """The numeral that starts a run of glued tokens and how many tokens it takes; (None, 0) if none does."""
    for reader in (_ordinal, _fraction, _cardinal, _single):
        number, used = reader(run)
        if number is not None:
            return number, used
    return None, 0


def _ordinal(run: Sequence[_Token]) -> tuple[WordNumber | None, int]:
    first = run[0]
    stem = _SUFFIX.sub("", first.word)
    form: Form = "ordinal" if stem == first.word else "collective"
    if stem == "pertama":
        return WordNumber(first.start, first.end, Fraction(1), "ordinal"), 1
    if not stem.startswith("ke"):
        return None, 0
    value, scale, used = _amount([stem[2:], *(t.word for t in run[1:])])
    if used == 0 or (form == "collective" and used > 1):
        return None, 0
    return WordNumber(first.start, run[used - 1].end, value, form, scale), used


def _fraction(run: Sequence[_Token]) -> tuple[WordNumber | None, int]:
    words = [t.word for t in run[:2]]
    scale = SCALES.get(words[1], 1) if len(words) > 1 else 1
    used = 1 if scale == 1 else 2
    if words[0] in _HALVES:
        return WordNumber(run[0].start, run[used - 1].end, Fraction(scale, 2), "fraction", scale), used
    if words[0].startswith("seper") and (below := _whole(words[0][5:])):
        return WordNumber(run[0].start, run[used - 1].end, Fraction(scale, below), "fraction", scale), used
    if len(words) == 2 and words[0] in DIGITS and words[1].startswith("per") and (below := _whole(words[1][3:])):
        return WordNumber(run[0].start, run[1].end, Fraction(DIGITS[words[0]], below), "fraction"), 2
    return None, 0


def _cardinal(run: Sequence[_Token]) -> tuple[WordNumber | None, int]:
    value, scale, used = _amount([_SUFFIX.sub("", t.word) for t in run])
    if used == 0:
        return None, 0
    return WordNumber(run[0].start, run[used - 1].end, value, "cardinal", scale), used


def _single(run: Sequence[_Token]) -> tuple[WordNumber | None, int]:
    first = run[0]
    if first.word == "sekali":
        return WordNumber(first.start, first.end, Fraction(1), "once"), 1
    if _VAGUE.fullmatch(first.word):
        return WordNumber(first.start, first.end, None, "vague"), 1
    return None, 0


def _whole(word: str) -> int:
    """The value of a single number word, 0 if it is none."""
    value, _, used = _amount([word])
    return int(value) if used == 1 else 0


def _amount(words: Sequence[str]) -> tuple[Fraction, int, int]:
    """Value, scale word's worth and number of words of the cardinal that starts the list; (0, 1, 0) if none."""
    parts = list(_expand(words))
    total, at, limit = 0, 0, 1000 * max(SCALES.values())
    while at < len(parts):
        group, used = _below_thousand([word for word, _ in parts[at:]])
        scale = SCALES.get(parts[at + used][0], 1) if at + used < len(parts) else 1
        if used == 0 or scale >= limit:
            break
        total, limit = total + group * scale, scale
        at += used + (scale > 1)
        if scale == 1:
            break
    ended_in_scale = at > 0 and parts[at - 1][0] in SCALES
    return Fraction(total), limit if ended_in_scale else 1, parts[at - 1][1] if at else 0


def _expand(words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Words with "sepuluh", "seratus" … split in two, each with the count of source words up to it."""
    for count, word in enumerate(words, start=1):
        for part in _ONE_OF.get(word, (word,)):
            yield part, count


def _below_thousand(words: Sequence[str]) -> tuple[int, int]:
    if len(words) > 1 and words[1] == "ratus" and words[0] in DIGITS:
        rest, used = _below_hundred(words[2:])
        return DIGITS[words[0]] * 100 + rest, used + 2
    return _below_hundred(words)


def _below_hundred(words: Sequence[str]) -> tuple[int, int]:
    if not words or words[0] not in DIGITS:
        return 0, 0
    unit, following = DIGITS[words[0]], words[1] if len(words) > 1 else ""
    if following == "belas":
        return 10 + unit, 2
    if following != "puluh":
        return unit, 1
    last = DIGITS.get(words[2], 0) if len(words) > 2 else 0
    return unit * 10 + last, 3 if last else 2
