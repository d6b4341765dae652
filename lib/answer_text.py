"""Short texts in one canonical form, so that answers can be compared as words and as numbers.

A canonical text is tokens with one space between: words without case, accents or punctuation, plain decimal numbers,
and the marks "," (a pause) and "/" (an alternative). "Approx. **1,400,000** km²" becomes "approx 1400000 km2".
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

NUMBER = r"-?\d+(?:\.\d+)?"

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
UNITS = {word: Decimal(value) for value, word in enumerate(_SMALL)}
TENS = {word: Decimal(10 * value) for value, word in enumerate(_TENS, start=2)}
SCALES = {
    "thousand": Decimal(10) ** 3,
    "million": Decimal(10) ** 6,
    "billion": Decimal(10) ** 9,
    "trillion": Decimal(10) ** 12,
}

_SPACED_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")  # 299 792 with spaces that do not break
_EXPONENT = re.compile(r"(?<=\d)[⁰¹²³⁴-⁹]")  # after a digit: 10⁸ is not 108
_INITIALS = re.compile(r"\b[a-z](?:\.[a-z])+\b\.?")  # u.s.a.
_TOKEN = re.compile(
    r"""
    (?:(?<![\w)])[-−])?                       # a sign belongs to a number only where a word or number does not end
    (?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)? # 1,000.5 or 1000.5
    | (?<![\w])\.\d+
    | [^\W\d][^\W_]*                           # a word, digits inside included: h2o
    | [,;—–/&]
    """,
    re.VERBOSE,
)


def canonical(text: str) -> str:
    """The text's canonical form; empty when it has no word and no number.

    Compatibility forms are folded (NFKD), accents dropped, contractions of "not" spelled out, an 's set apart. Numbers
    in digits and in English words are the same number, up to "2.5 million" and "three hundred and sixty-five".
    """
    tokens = [_plain(token) for token in _TOKEN.findall(_folded(text))]
    return " ".join(_numbers_joined(tokens)).strip(" ,/")


def numbers(canonical_text: str) -> set[str]:
    """The numbers of a canonical text, each as its decimal digits."""
    return {token for token in canonical_text.split() if is_number(token)}


def is_number(token: str) -> bool:
    """Whether a canonical token is a number."""
    return re.fullmatch(NUMBER, token) is not None


def _folded(text: str) -> str:
    text = _EXPONENT.sub(r" ^\g<0>", _SPACED_THOUSANDS.sub(",", text))
    text = unicodedata.normalize("NFKD", text.replace("’", "'")).casefold()
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")
    text = re.sub(r"[_*`]", " ", text)
    for contracted, spelled in (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not")):
        text = text.replace(contracted, spelled)
    text = re.sub(r"'s\b", " s", text).replace("'", "")
    text = _INITIALS.sub(lambda m: m[0].replace(".", "") + " ", text)
    return re.sub(r"\s-+\s", " , ", text)


def _plain(token: str) -> str:
    if token[-1].isdecimal() and not token[0].isalpha():
        return _digits(Decimal(token.replace(",", "").replace("−", "-")))
    return {";": ",", "—": ",", "–": ",", "&": "and"}.get(token, token)


def _digits(value: Decimal) -> str:
    return format(value.normalize() + 0, "f")  # + 0 makes -0 plain


def _numbers_joined(tokens: list[str]) -> list[str]:
    joined: list[str] = []
    while tokens:
        value, used = _number_at(tokens)
        if used and joined and joined[-1] in {"minus", "negative"} and not (joined[:-1] and is_number(joined[-2])):
            joined, value = joined[:-1], -value  # "minus 40", but not "9 minus 4"
        joined.append(_digits(value) if used else tokens[0])
        tokens = tokens[max(used, 1) :]
    return joined


def _number_at(tokens: list[str]) -> tuple[Decimal, int]:
    """The number that the first tokens spell, and how many tokens it takes (0: they spell none).

    room: the next part must be smaller than this, or it is a number of its own ("twenty five", but "five, six").
    """
    total, group, room, used = Decimal(0), Decimal(0), Decimal("Infinity"), 0
    for n, word in enumerate(tokens):
        part = _part(word)
        if part is not None and part < room and (room.is_infinite() or part > 0):
            group, room = group + part, Decimal(10 if word in TENS else 0)
        elif word == "hundred" and (not used or (group < 100 and room < 100)):
            group, room = (group or Decimal(1)) * 100, Decimal(100)
        elif word in SCALES and (group or not used):
            total, group, room = total + (group or Decimal(1)) * SCALES[word], Decimal(0), Decimal(1000)
        elif word == "and" and room >= 100 and used and _part(" ".join(tokens[n + 1 : n + 2])) is not None:
            continue
        else:
            break
        used = n + 1
    return total + group, used


def _part(token: str) -> Decimal | None:
    if is_number(token):
        return Decimal(token)
    return UNITS.get(token, TENS.get(token))
