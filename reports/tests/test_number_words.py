"""Which Indonesian words are numerals, and what they are worth."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reports.number_words import find_number_words


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("satu", 1), ("sebelas", 11), ("enam belas", 16), ("dua puluh", 20), ("tiga puluh dua", 32),
        ("seratus dua puluh delapan", 128), ("sembilan ratus", 900), ("seribu sebelas", 1011), ("enam ribu", 6000),
        ("tiga juta dua ratus ribu lima", 3_200_005), ("lima belas juta", 15 * 10**6), ("sejuta", 10**6),
        ("setengah miliar", 5 * 10**8), ("seperlima", Fraction(1, 5)), ("tiga perempat", Fraction(3, 4)),
        ("separuh", Fraction(1, 2)), ("kesembilan puluh sembilan", 99), ("keempat", 4), ("pertamanya", 1),
        ("keduanya", 2), ("sekali", 1), ("nol", 0), ("ratusan", None),
    ],
)  # fmt: skip
def test_number_words(words: str, value: int | None) -> None:
    sentence = f"kata {words}, lalu"
    (found,) = find_number_words(sentence)
    assert (sentence[found.start : found.end], found.value) == (words, value)


@pytest.mark.parametrize(
    "sentence",
    [
        "sama sekali tidak, sekali lagi",
        "salah satu",
        "satu-satunya",
        "seorang di tempat sebuah distribusi",
        "sekaligus",
    ],
)
def test_mere_words_are_not_numerals(sentence: str) -> None:
    assert find_number_words(sentence) == []


def test_neighbouring_number_words_stay_apart() -> None:
    sentence = "tabel kedua dua kali, dari dua, tiga atau dua ratus"
    assert [w.value for w in find_number_words(sentence)] == [2, 2, 2, 3, 200]
