"""The budget's sum and its inversion, held against brute force over whole bytes on a toy card."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.budget import (
    ModelSize,
    Quoted,
    Range,
    Scheme,
    bits_range,
    budget_table,
    common_range,
    context_gap,
    reserve_range,
    reserve_share_range,
    resident_tokens,
    shared_bits_range,
    weight_bytes,
)

bytes_ = st.integers(0, 400)


def tokens_by_filling(card: int, weights: int, price: int, reserve: int) -> int:
    """Add one token after another until the next one no longer fits."""
    tokens = 0
    while weights + reserve + (tokens + 1) * price <= card:
        tokens += 1
    return tokens


@given(card=bytes_, weights=bytes_, price=st.integers(1, 20), reserve=bytes_)
def test_resident_tokens_against_filling_the_card(card: int, weights: int, price: int, reserve: int) -> None:
    assert resident_tokens(card, weights, price, reserve) == tokens_by_filling(card, weights, price, reserve)


@given(weights=st.integers(0, 100), price=st.integers(1, 20), reserve=st.integers(0, 100))
def test_reserve_range_against_every_whole_reserve(weights: int, price: int, reserve: int) -> None:
    tokens = resident_tokens(300, weights, price, reserve)
    found = reserve_range(Quoted(300, weights, weights, price, tokens))
    allowed = [r for r in range(-50, 400) if math.floor((300 - weights - r) / price) == tokens]
    assert [r for r in range(-50, 400) if r in found] == allowed
    assert reserve in found


def test_reserve_range_rejects_one_byte_more_and_the_neighbouring_token_count() -> None:
    found = reserve_range(Quoted(300, 100, 100, 7, 20))
    assert 60 in found
    assert 61 not in found
    assert 53 not in found
    assert 60 not in reserve_range(Quoted(300, 100, 100, 7, 21))


def test_uncertain_weights_widen_the_reserve() -> None:
    known, vague = Quoted(300, 100, 100, 7, 20), Quoted(300, 90, 110, 7, 20)
    assert reserve_range(vague).width() == reserve_range(known).width() + 20


def test_common_range_finds_the_reserve_and_rejects_a_false_figure() -> None:
    reserve, cases = 41, [(500, 100, 7), (500, 260, 11), (300, 90, 13)]
    quoted = [Quoted(c, w, w, p, resident_tokens(c, w, p, reserve)) for c, w, p in cases]
    common = common_range(map(reserve_range, quoted))
    assert common is not None
    assert reserve in common
    wrong = [*quoted[:2], Quoted(300, 90, 90, 13, quoted[2].tokens + 3)]
    assert common_range(map(reserve_range, wrong)) is None


def test_a_constant_reserve_is_not_a_share_of_the_card() -> None:
    quoted = [Quoted(c, 100, 100, 3, resident_tokens(c, 100, 3, 60)) for c in (400, 900)]
    assert common_range(map(reserve_range, quoted)) is not None
    assert common_range(reserve_share_range(q, q.card_bytes, q.card_bytes) for q in quoted) is None


def test_a_share_of_the_card_is_not_a_constant_reserve() -> None:
    quoted = [Quoted(c, 100, 100, 3, resident_tokens(c, 100, 3, c // 10)) for c in (400, 900)]
    assert common_range(map(reserve_range, quoted)) is None
    share = common_range(reserve_share_range(q, q.card_bytes, q.card_bytes) for q in quoted)
    assert share is not None
    assert Fraction(1, 10) in share


def test_bits_are_recovered_from_tokens() -> None:
    model, bits, reserve = ModelSize("toy", 1_000_000, 3), Fraction(33, 8), 200_000
    tokens = resident_tokens(900_000, weight_bytes(model.parameters, bits), model.bytes_per_token, reserve)
    found = bits_range(900_000, Range(reserve - 1, reserve), model, tokens)
    assert bits in found
    assert Fraction(34, 8) not in found
    assert Fraction(4) not in found


@given(card=st.integers(4_000, 9_000), reserve=st.integers(0, 900))
def test_shared_bits_do_not_depend_on_card_or_reserve(card: int, reserve: int) -> None:
    small, large = ModelSize("small", 1_000, 3), ModelSize("large", 1_800, 5)
    tokens = [resident_tokens(card, weight_bytes(m.parameters, 8), m.bytes_per_token, reserve) for m in (small, large)]
    found = shared_bits_range((small, tokens[0]), (large, tokens[1]))
    assert 8 in found
    assert 7 not in found


def test_context_gap_factors_multiply_to_the_ratio_of_unrounded_tokens() -> None:
    gap = context_gap(100, (20, 2), (60, 5), reserve=10)
    assert gap.bytes_per_token * gap.remaining_memory == Fraction(70, 2) / Fraction(30, 5)
    assert gap.share_of_bytes_per_token == pytest.approx(math.log(2.5) / math.log(35 / 6), rel=1e-12)


def test_table_tells_weights_that_fit_from_context_that_does_not() -> None:
    table = budget_table([("card", 100)], [ModelSize("m", 95, 2)], [Scheme("int8", 8), Scheme("16", 16)], reserve=10)
    assert [(cell.weights_fit, cell.tokens) for cell in table] == [(True, 0), (False, 0)]
    assert budget_table([("card", 200)], [ModelSize("m", 95, 2)], [Scheme("int8", 8)], 10)[0].users(9) == 5


def test_context_gap_holds_nothing_back_unless_told() -> None:
    assert context_gap(100, (20, 2), (60, 5)).remaining_memory == Fraction(80, 40)
