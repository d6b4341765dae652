"""The head and its counts, held against torch's attention, against each other, and against wrong countings."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from lib.attention import (
    MacCounter,
    attend,
    counted_generation,
    counted_row,
    counted_square,
    macs_cached,
    macs_cached_step,
    macs_ratio,
    macs_uncached,
    macs_uncached_step,
    polynomial_degree,
    score_bytes,
)

# float64 head of at most 12 positions: a dozen roundings of 2^-53 on values of order 1
DOUBLE_TOLERANCE = 100 * 2.0**-53
# float32, reductions of up to 64 terms of order 1
SINGLE_TOLERANCE = 64 * 2.0**-24

lengths = st.integers(1, 12)
widths = st.integers(1, 8)


def head(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, d, generator=generator, dtype=dtype) for _ in range(3))


@given(lengths, widths)
@settings(deadline=None, max_examples=40)
def test_counted_generation_against_closed_forms(tokens: int, d: int) -> None:
    steps = range(1, tokens + 1)
    assert counted_generation(tokens, d, cached=True) == [macs_cached(t, d) for t in steps]
    assert counted_generation(tokens, d, cached=False) == [macs_uncached(t, d) for t in steps]


@given(lengths, widths)
@settings(deadline=None, max_examples=40)
def test_counted_head_against_torch(n: int, d: int) -> None:
    q, k, v = head(n, d)
    theirs = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    square = torch.tensor(counted_square(q.tolist(), k.tolist(), v.tolist(), MacCounter()), dtype=torch.float64)
    row = torch.tensor(counted_row(q[-1].tolist(), k.tolist(), v.tolist(), MacCounter()), dtype=torch.float64)
    assert (square - theirs).abs().max() <= DOUBLE_TOLERANCE
    assert (row - theirs[-1]).abs().max() <= DOUBLE_TOLERANCE


@given(st.integers(1, 400), st.integers(1, 256), st.booleans())
def test_sums_of_steps_against_closed_forms(tokens: int, d: int, causal: bool) -> None:
    steps = range(1, tokens + 1)
    assert sum(macs_cached_step(n, d) for n in steps) == macs_cached(tokens, d)
    assert sum(macs_uncached_step(n, d, causal) for n in steps) == macs_uncached(tokens, d, causal)
    assert macs_ratio(tokens, causal) * macs_cached(tokens, d) == macs_uncached(tokens, d, causal)


def test_closed_form_rejects_a_wrong_count() -> None:
    counted = counted_generation(9, 4, cached=False)[-1]
    assert counted != macs_uncached(9, 4, causal=True), "the masked half was computed, so skipping it must not match"
    assert counted != macs_uncached(10, 4)
    assert counted != macs_cached(9, 4)


def test_degrees_against_known_polynomials() -> None:
    assert polynomial_degree([5] * 6) == 0
    assert polynomial_degree([0] * 6) == -1
    assert polynomial_degree([macs_cached(t, 64) for t in range(1, 12)]) == 2
    assert polynomial_degree([macs_uncached(t, 64) for t in range(1, 12)]) == 3
    assert polynomial_degree([1000 * t + t**2 for t in range(12)]) == 2  # a small leading term still counts


def test_degree_rejects_what_is_no_polynomial() -> None:
    with pytest.raises(ValueError, match="too few"):
        polynomial_degree([2**t for t in range(12)])


@given(st.integers(1, 40), st.integers(1, 64))
@settings(deadline=None, max_examples=40)
def test_attend_against_torch(n: int, d: int) -> None:
    q, k, v = head(n, d, dtype=torch.float32)
    theirs = scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    assert (attend(q, k, v) - theirs).abs().max() <= SINGLE_TOLERANCE
    assert (attend(q[-1:], k, v) - theirs[-1:]).abs().max() <= SINGLE_TOLERANCE


def test_attend_rejects_the_flag_that_shows_one_query_only_the_first_key() -> None:
    q, k, v = head(20, 8, dtype=torch.float32)
    flagged = scaled_dot_product_attention(q[None, -1:], k[None], v[None], is_causal=True)[0]
    assert (attend(q[-1:], k, v) - flagged).abs().max() > SINGLE_TOLERANCE
    assert torch.allclose(flagged, v[:1], atol=SINGLE_TOLERANCE)


def test_score_bytes_against_a_tensor() -> None:
    assert score_bytes(7, 9, 4) == torch.zeros(7, 9).untyped_storage().nbytes()
    assert math.isclose(score_bytes(4096, 4096, 4), 64 * 2**20)
