"""Consistency of printed figures, held against pairs that are right, nearly right and wrong by construction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.consistency import Agreement, by_agreement, check, counts_behind, ordered, proportional
from lib.intervals import printed


@given(minutes=st.integers(1, 9_999), parts=st.integers(1, 99))
def test_a_quotient_printed_from_exact_numbers_is_never_off(minutes: int, parts: int) -> None:
    assert check("rate", f"{minutes / parts:.3f}", printed(str(minutes)) / parts).agreement is not Agreement.OFF


def test_three_outcomes_against_constructed_pairs() -> None:
    product = printed("2.5") * printed("4.0")  # between 9.68 and 10.33
    assert check("right", "10.0", product).agreement is Agreement.AGREES
    assert check("near", "10.2", product).agreement is Agreement.WITHIN_ROUNDING
    assert check("wrong", "10.5", product).agreement is Agreement.OFF


def test_check_rejects_a_truncated_figure() -> None:
    """4.358 million prints as 4.4; a text that cut the digit instead of rounding it is caught."""
    assert check("cut", "4.3", printed("4358") / 1000).agreement is Agreement.OFF
    assert check("rounded", "4.4", printed("4358") / 1000).agreement is Agreement.AGREES


def test_round_words_carry_their_own_precision() -> None:
    assert check("six thousand", "6e3", 6_298).agreement is Agreement.AGREES
    assert check("6,000 to the unit", "6,000", 6_298).agreement is Agreement.OFF


def test_order_is_a_conclusion_of_its_own() -> None:
    assert ordered("clear", printed("1.2"), printed("1.4")).agreement is Agreement.AGREES
    assert ordered("tie", printed("1.2"), printed("1.2")).agreement is Agreement.WITHIN_ROUNDING
    assert ordered("flipped", printed("1.4"), printed("1.2")).agreement is Agreement.OFF


def test_counts_behind_against_every_fraction() -> None:
    for k in range(17):
        assert k in counts_behind(f"{k / 16:.4f}", 16)
        assert k in counts_behind(f"{100 * k / 16:.1f}", 16, percent=True)


def test_counts_behind_rejects_an_impossible_share() -> None:
    assert counts_behind("0.90", 16) == []  # 14/16 = 0.875, 15/16 = 0.9375
    assert counts_behind("98.6", 144, percent=True) == [142]
    with pytest.raises(ValueError, match="0 things"):
        counts_behind("1", 0)


def test_proportional_against_bars_drawn_to_scale() -> None:
    counts = [254, 120, 33, 8, 0, 1]
    assert proportional([round(n * 40 / 254) for n in counts], counts)
    assert not proportional([40, 40, 33, 8, 0, 1], counts)  # clipped at 40
    assert not proportional([40, 19, 5, 1, 0, 3], counts)
    with pytest.raises(ValueError, match="2 bars"):
        proportional([1, 2], counts)


def test_by_agreement_keeps_every_check() -> None:
    sorted_ = by_agreement([check("a", "2", 2), check("b", "2", 3)])
    assert [len(sorted_[outcome]) for outcome in Agreement] == [1, 0, 1]
    assert str(sorted_[Agreement.OFF][0]) == "b: printed 2, recomputed 3"


def test_bars_are_rounded_to_the_nearest_length() -> None:
    assert proportional([10, 20], [100, 186])  # scales of 0.1048 to 0.1050 round to both
    assert not proportional([10, 20], [100, 185])  # 0.1054 at least for the one, 0.1050 at most for the other
    assert proportional([1, 1], [1, 3])  # at 0.5 both round to 1, the one up and the other down
