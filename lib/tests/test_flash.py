"""Fused and written-out attention, held against float64, each other, the CPU allocator, and functions that differ."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.flash import (
    Attention,
    Backend,
    Case,
    Handed,
    Reading,
    attention_peak,
    backend_of,
    blind_row,
    compare,
    draw,
    explicit,
    fused,
    fused_masked,
    handed_over,
    math_only,
    profiled_peak_bytes,
    read,
    share_of_other_bits,
    spoiled_rows,
    square_bytes,
)
from lib.flash_error import (
    CUBIC_EXP,
    Rounding,
    _exact_rows,
    exact_attention,
    explicit_rounding,
    fused_rounding,
    future,
    grouped,
)

CASES = {
    "causal": Case(queries=96, keys=96, heads=2, kv_heads=2),
    "grouped": Case(queries=96, keys=96, heads=14, kv_heads=2),
    "one-query": Case(queries=1, keys=300, heads=14, kv_heads=2),
    "one-position": Case(queries=1, keys=1),
    "chunk": Case(queries=40, keys=130, heads=4, kv_heads=2),
    "batched": Case(queries=33, keys=33, heads=2, kv_heads=1, width=80, batch=3),
    "long": Case(queries=700, keys=700),
    "odd-width": Case(queries=33, keys=33, width=7),
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SQUARE = Case(queries=1024, keys=1024)
SQUARE_BYTES = 1024 * 1024 * 4
# A flash kernel's own buffers on the CPU: per thread a block of at most 256 x 512 scores and 256 x d sums, in float32.
SCRATCH_PER_THREAD = 4 * 256 * (512 + 2 * 64)


def reading(attention: Attention, case: Case, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Reading:
    q, k, v = draw(case, dtype, scale=scale)
    return read(attention, q, k, v, exact_attention(q, k, v, fused_rounding(dtype)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_against_float64(case: Case, dtype: torch.dtype) -> None:
    for name, found in compare(case, dtype).items():
        assert found.share_of_bound <= 1, name


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_exact_against_torch_in_float64(case: Case) -> None:
    """The reference itself, chunked and grouped, against torch's written-out path in double."""
    q, k, v = draw(case, torch.float64)
    exact = exact_attention(q, k, v, explicit_rounding(torch.float64))
    theirs = scaled_dot_product_attention(
        q, grouped(k, case.heads), grouped(v, case.heads), attn_mask=~future(case.queries, case.keys)
    )
    assert bool(((theirs - exact.output).abs() <= 2 * exact.bound).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bound_holds_for_large_scores(dtype: torch.dtype) -> None:
    """Scores up to some ±40: the softmax is nearly a choice, and a score's rounding is a weight's relative error."""
    q, k, v = draw(CASES["grouped"], dtype, scale=3.0)
    for attention, rounding in ((fused, fused_rounding(dtype)), (explicit, explicit_rounding(dtype))):
        assert read(attention, q, k, v, exact_attention(q, k, v, rounding)).share_of_bound <= 1


def not_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, enable_gqa=True)


def wrong_scale(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=1 / q.shape[-1])


def heads_shared_in_turn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    times = q.shape[1] // k.shape[1]
    return explicit(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1))


def one_key_too_few(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The mask moved by one, the first query kept: each later one is blind to its own position."""
    blind = torch.eye(q.shape[2], k.shape[2], dtype=torch.bool)
    blind[0, 0] = False
    visible = ~(future(q.shape[2], k.shape[2]) | blind)
    return scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True)


WRONG = [not_causal, wrong_scale, heads_shared_in_turn, one_key_too_few]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("wrong", WRONG, ids=lambda f: f.__name__)
def test_bound_rejects_another_function(wrong: Attention, dtype: torch.dtype) -> None:
    assert reading(wrong, CASES["grouped"], dtype).share_of_bound > 1


@pytest.mark.parametrize("name", ["one-query", "chunk"])
def test_bound_rejects_the_causal_flag_with_a_past(name: str) -> None:
    """``is_causal`` aligns its mask to the start: one query sees the first key only, a chunk sees the wrong past."""

    def flagged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    assert reading(flagged, CASES[name]).share_of_bound > 1


def test_bound_rejects_a_coarser_format() -> None:
    """float32 inputs pushed through bfloat16 leave the float32 bound: the bound is not merely generous."""

    def coarse(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return fused(q.bfloat16(), k.bfloat16(), v.bfloat16()).float()

    assert reading(coarse, CASES["causal"]).share_of_bound > 1


def test_written_out_peak_against_two_squares() -> None:
    """Scores and weights are alive together; a mask in float or a third square would show."""
    peak = attention_peak(explicit, SQUARE).live_bytes
    small = 1024 * (64 * 4 + 1024)  # output, and the mask in bool
    assert 2 * SQUARE_BYTES <= peak <= 2 * SQUARE_BYTES + 2 * small


def test_fused_peak_against_the_allocator() -> None:
    """No square among live tensors, and none inside the kernel either: only blocks, per thread."""
    q, k, v = draw(SQUARE, torch.float32)
    output = q.numel() * 4
    assert attention_peak(fused, SQUARE).live_bytes <= 2 * output
    assert profiled_peak_bytes(lambda: fused(q, k, v)) <= 2 * output + torch.get_num_threads() * SCRATCH_PER_THREAD
    assert profiled_peak_bytes(lambda: explicit(q, k, v)) >= 2 * SQUARE_BYTES


def test_squares_against_the_shapes_alive() -> None:
    """Scores, weights and the mask where all is written out; the mask in bools and widened; nothing when fused."""
    squares = {f.__name__: square_bytes(attention_peak(f, SQUARE), SQUARE) for f in (explicit, fused, fused_masked)}
    assert squares == {"explicit": 9 * SQUARE_BYTES // 4, "fused": 0, "fused_masked": 5 * SQUARE_BYTES // 4}


def test_squares_reject_the_fallback() -> None:
    assert square_bytes(attention_peak(math_only, SQUARE), SQUARE) >= 2 * SQUARE_BYTES


@pytest.mark.parametrize("attention", [math_only, fused_masked], ids=lambda f: f.__name__)
def test_fallback_and_mask_are_the_same_function_too(attention: Attention) -> None:
    assert reading(attention, CASES["grouped"]).share_of_bound <= 1


def test_backends_by_the_operations_that_ran() -> None:
    q, k, v = draw(CASES["causal"], torch.float32)
    programs: dict[Callable[[], object], Backend] = {
        lambda: fused(q, k, v): Backend.FLASH_CPU,
        lambda: fused_masked(q, k, v): Backend.FLASH_CPU,
        lambda: math_only(q, k, v): Backend.MATH,
        lambda: explicit(q, k, v): Backend.MATH,
        lambda: scaled_dot_product_attention(q, k, v[..., :32], is_causal=True): Backend.MATH,  # widths that differ
        lambda: scaled_dot_product_attention(q, k, v, dropout_p=0.1): Backend.MATH,
    }
    assert [backend_of(program) for program in programs] == list(programs.values())


def test_future_against_a_triangle() -> None:
    assert torch.equal(future(5, 5), torch.ones(5, 5, dtype=torch.bool).triu(1))
    assert torch.equal(future(2, 5), torch.ones(5, 5, dtype=torch.bool).triu(1)[3:])
    assert torch.equal(future(2, 9, first=1, of=4), future(4, 9)[1:3])
    assert not future(1, 7).any()


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="would see none"):
        explicit(*draw(Case(queries=5, keys=3), torch.float32))
    with pytest.raises(ValueError, match="cannot share"):
        explicit(*draw(Case(queries=3, keys=3, heads=3, kv_heads=2), torch.float32))


def test_one_query_needs_no_square() -> None:
    """A decode step's scores are one row either way: nothing to save but n numbers per head."""
    case = CASES["one-query"]
    assert square_bytes(attention_peak(explicit, case), case) == 2 * case.heads * case.keys * 4  # scores and weights
    assert square_bytes(attention_peak(fused, case), case) == 0


def test_handed_over_against_what_was_passed() -> None:
    q, k, v = draw(CASES["grouped"], torch.float32)
    assert handed_over(lambda: fused(q, k, v)) == [Handed(14, 2, 96, 96, 0)]
    assert handed_over(lambda: fused_masked(q, k, v)) == [Handed(14, 2, 96, 96, 96 * 96 * 4)]
    assert handed_over(lambda: (fused(q, k, v), fused(q, k, v)))[1] == Handed(14, 2, 96, 96, 0)
    assert handed_over(lambda: explicit(q, k, v)) == []


def test_other_bits_against_one_position() -> None:
    """With one key the weight is exactly 1 both ways; over many, orders of summation differ, and bits with them."""
    assert share_of_other_bits(Case(1, 1), torch.float32) == 0
    assert share_of_other_bits(CASES["causal"], torch.float32) > 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf], ids=str)
def test_spoiled_rows_against_zero_times_not_a_number(value: float) -> None:
    """Written out, a masked weight of 0 still multiplies the last value; skipped blocks spare most rows."""
    case = Case(1100, 1100)
    assert spoiled_rows(explicit, case, value) == 1100
    assert 1 <= spoiled_rows(fused, case, value) < 600
    assert spoiled_rows(explicit, case, 1.0) == spoiled_rows(fused, case, 1.0) == 0


def test_a_row_that_sees_nothing_is_zero_or_not_a_number() -> None:
    rows = blind_row()
    assert bool((rows["fused"] == 0).all()) and bool(rows["explicit"].isnan().all())


def test_bound_rejects_what_is_not_a_number() -> None:
    def broken(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return fused(q, k, v) * math.nan

    assert not reading(broken, CASES["causal"]).share_of_bound <= 1


def test_only_a_16_bit_kernel_takes_the_cheap_exponential() -> None:
    assert fused_rounding(torch.float32).exp == explicit_rounding(torch.float32).exp < CUBIC_EXP
    assert fused_rounding(torch.bfloat16).exp == fused_rounding(torch.float16).exp == CUBIC_EXP


def test_the_bound_by_hand() -> None:
    """One query, two keys, one dimension, roundings so coarse that every term shows."""
    u, rounding = 2.0**-10, Rounding(exp=2.0**-11, sums=2.0**-10, scores=2.0**-9, weights=2.0**-8, output=2.0**-7)
    q, k, v = (torch.tensor(x, dtype=torch.float64).reshape(1, 1, -1, 1) for x in ([2.0], [3.0, -4.0], [5.0, -7.0]))
    output, bound = _exact_rows(q, k, v, torch.zeros(1, 1, 1, 2, dtype=torch.bool), rounding)
    five, sums = 5 * u / (1 - 5 * u), 5 * u / (1 - 5 * u)  # over d + 4 products; over both sums of n and the division
    scores = (6.0, -8.0)
    off = max(five * abs(s) + 2 * rounding.scores * abs(s) + u * (6.0 - s) for s in scores)
    share = 1 / (1 + math.exp(-14.0))
    exact, size = share * 5 - (1 - share) * 7, share * 5 + (1 - share) * 7
    factor = math.exp(2 * off) * (1 + 2.0**-11) / (1 - 2.0**-11) * (1 + sums) * (1 + 2.0**-8) - 1
    assert float(output) == pytest.approx(exact, rel=1e-12)
    assert float(bound) == pytest.approx(factor * size + 2.0**-7 * (abs(exact) + factor * size), rel=1e-12)


def test_a_key_that_is_not_seen_widens_the_bound_by_its_place_in_the_sum_alone() -> None:
    q, k, v = (
        torch.tensor(x, dtype=torch.float64).reshape(1, 1, -1, 1) for x in ([2.0], [3.0, -4.0, 99.0], [5.0, -7.0, 9.0])
    )
    hidden = torch.tensor([False, False, True]).reshape(1, 1, 1, 3)
    rounding = Rounding(exp=2.0**-11, sums=2.0**-10, scores=2.0**-9, weights=2.0**-8, output=2.0**-7)
    seen = _exact_rows(q, k[:, :, :2], v[:, :, :2], hidden[..., :2], rounding)
    padded = _exact_rows(q, k, v, hidden, rounding)
    assert torch.equal(padded[0], seen[0])
    assert seen[1] < padded[1] < 1.05 * seen[1]
