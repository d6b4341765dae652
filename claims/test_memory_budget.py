"""The memory budget: one sum, three printed token counts, and the term that the prose leaves out.

No model and no torch: everything but the last claim is exact arithmetic on figures that the chapter prints. That one
takes the sum to a real card.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from claims import memory_budget_faults as faults
from lib.budget import (
    Cell,
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
from lib.cache_bytes import kv_bytes_per_token
from lib.units import (
    CONVENTIONS,
    ByteFigure,
    Convention,
    common_conventions,
    fitting_conventions,
    in_unit,
    stated_bytes,
    unit_bytes,
)
from reports.claim import Claim, claim
from reports.controls import control, misprint, uncontrolled
from reports.plants import reads, result, shifted

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GIB = unit_bytes("GiB", "binary")
RESERVE = 3 * GIB // 2  # not in the prose: the one round number inside the range that `reserves` finds
FP16 = 2  # bytes per cached element in every budget of the chapter
INT8, GROUP_128 = Fraction(8), 4 + Fraction(16, 128)  # bits per weight, the second one as the chapter counts it
SEVEN_B = ModelSize("7B", 7 * 10**9, kv_bytes_per_token(32, 8, 128, FP16))
THIRTEEN_B = ModelSize("13B", 13 * 10**9, kv_bytes_per_token(40, 40, 128, FP16))
SEVENTY_B = ModelSize("70B", 70 * 10**9, kv_bytes_per_token(80, 8, 128, FP16))
SEVEN_INT8, THIRTEEN_INT8 = weight_bytes(SEVEN_B.parameters, INT8), weight_bytes(THIRTEEN_B.parameters, INT8)
THIRTEEN_INT4 = weight_bytes(THIRTEEN_B.parameters, GROUP_128)
TOKENS_7B, TOKENS_13B, TOKENS_13B_8GB = 65_378, 3_136, 337  # as printed
CHAPTER_PARAMETERS = 494_032_768
LLAMA_13B_EMBEDDINGS = 2 * 32_000 * 5_120  # parameters; an assumption about what "13B" is, used in one remark only

MODELS = (SEVEN_B, THIRTEEN_B, SEVENTY_B)
CARDS = tuple((f"{size} GB", size * GIB) for size in (8, 16, 24))
SCHEMES = (Scheme("fp16", 16), Scheme("int8", INT8), Scheme("int4", GROUP_128))

BYTE_FIGURES = (
    ByteFigure("scores at 4,096 tokens", "67", "MB", 4096 * 4096 * 4),
    ByteFigure("one row of scores", "16", "KB", 4096 * 4),
    ByteFigure("65,536 resident tokens", "768", "MB", 65_536 * kv_bytes_per_token(24, 2, 64, FP16)),
    ByteFigure("token, two key-value heads", "12", "KB", kv_bytes_per_token(24, 2, 64, FP16)),
    ByteFigure("token, full multi-head", "84", "KB", kv_bytes_per_token(24, 14, 64, FP16)),
    ByteFigure("token of the 7B", "128", "KB", SEVEN_B.bytes_per_token),
    ByteFigure("token of the 13B", "800", "KB", THIRTEEN_B.bytes_per_token),
    ByteFigure("half a billion, four bytes", "1.98", "GB", 4 * CHAPTER_PARAMETERS),
    ByteFigure("half a billion, two bytes", "0.99", "GB", 2 * CHAPTER_PARAMETERS),
    ByteFigure("half a billion, one byte", "0.49", "GB", CHAPTER_PARAMETERS),
    ByteFigure("7B in fp16", "13.0", "GB", 2 * SEVEN_B.parameters),
    ByteFigure("13B in int4", "6.2", "GB", THIRTEEN_INT4),
    ByteFigure("13B beyond 7B, int8", "5.6", "GB", THIRTEEN_INT8 - SEVEN_INT8),
)


def quotes(convention: Convention) -> list[Quoted]:
    """The three printed token counts; the int4 weights only as the digits of 6.2 GB, so no bits are assumed."""
    gb, int4 = unit_bytes("GB", convention), stated_bytes("6.2", "GB", convention)
    return [
        Quoted(16 * gb, SEVEN_INT8, SEVEN_INT8, SEVEN_B.bytes_per_token, TOKENS_7B),
        Quoted(16 * gb, THIRTEEN_INT8, THIRTEEN_INT8, THIRTEEN_B.bytes_per_token, TOKENS_13B),
        Quoted(8 * gb, Fraction(int4.low), Fraction(int4.high), THIRTEEN_B.bytes_per_token, TOKENS_13B_8GB),
    ]


def reserve_without_nominal_sizes(convention: Convention) -> Range | None:
    """The same from printed digits alone: int8 weights are half of 13.0 GB, and 5.6 GB more for the larger model."""
    seven = stated_bytes("13.0", "GB", convention) / 2
    thirteen = seven + stated_bytes("5.6", "GB", convention)
    seven_quote, thirteen_quote, int4_quote = quotes(convention)
    bounds = [(seven_quote, seven), (thirteen_quote, thirteen)]
    vague = [replace(q, weights_low=Fraction(w.low), weights_high=Fraction(w.high)) for q, w in bounds]
    return common_range(map(reserve_range, [*vague, int4_quote]))


def reserves(convention: Convention) -> dict[str, Range | None]:
    """For each kind of reserve, the range that reproduces all three token counts; None where there is none."""
    quoted = quotes(convention)
    of_card = (reserve_share_range(q, q.card_bytes, q.card_bytes) for q in quoted)
    of_weights = (reserve_share_range(q, q.weights_low, q.weights_high) for q in quoted)
    return {
        "constant": common_range(map(reserve_range, quoted)),
        "share of the card": common_range(of_card),
        "share of the weights": common_range(of_weights),
    }


def tokens_with(reserve: int) -> tuple[int, int, int]:
    """The three token counts of the prose under one reserve in bytes."""
    return (
        resident_tokens(16 * GIB, SEVEN_INT8, SEVEN_B.bytes_per_token, reserve),
        resident_tokens(16 * GIB, THIRTEEN_INT8, THIRTEEN_B.bytes_per_token, reserve),
        resident_tokens(8 * GIB, THIRTEEN_INT4, THIRTEEN_B.bytes_per_token, reserve),
    )


def table(reserve: int = RESERVE) -> list[Cell]:
    """The chapter's three tables, derived: the prose gives everything but the 70B's 80 layers, which change nothing."""
    return budget_table(CARDS, MODELS, SCHEMES, reserve)


@claim("memory-budget.one-sum")
@control("1.5 GiB are set aside even where nothing is", "resident_tokens", faults.set_aside_at_least(RESERVE))
@control("one byte more is set aside than the three printed counts allow", "RESERVE", reads(1_610_643_969))
@control("a GB of a card is a thousand million bytes", "GIB", reads(10**9))
def test_one_sum(claim: Claim) -> None:
    """Weights plus cache against the three printed token counts, with and without a further term; the term solved for.

    Our copy of the chapter has no formula displays: what a display may add to the prose is not covered.
    """
    printed_tokens = (TOKENS_7B, TOKENS_13B, TOKENS_13B_8GB)
    cases = {"0 GiB": tokens_with(0), "1.5 GiB": tokens_with(RESERVE)}
    claim.measured("sum_gives_the_printed_tokens", {name: got == printed_tokens for name, got in cases.items()})
    claim.condition("true when 1.5 GiB are set aside before the division; the prose names no such term")
    claim.measured("tokens_7b_13b_13b8", {name: list(got) for name, got in cases.items()}, "token")
    for convention in CONVENTIONS:
        for kind, found in reserves(convention).items():
            claim.measured(f"reserve_{convention}_{kind.replace(' ', '_')}", _ends(found), "byte")
        claim.measured(f"reserve_{convention}_printed_digits", _ends(reserve_without_nominal_sizes(convention)), "byte")
    claim.note("Only a constant reserve on a card counted in powers of 1024 fits, and only one round number: 1.5 GiB.")


@claim("memory-budget.budget-7b-13b-16gb")
@control("a token that does not quite fit is counted", "resident_tokens", shifted(1))
@control("the 13B's int8 weights are charged for scales, 16 bits per 128", "THIRTEEN_INT8", lambda size: size * 65 / 64)
@control("the 13B shares its heads as the 7B does", "THIRTEEN_B", faults.grouped_like_the_7b)
@control("what explains the gap is exchanged with the rest of it", "context_gap", faults.factors_exchanged)
@misprint("tokens_7b", "65,379")
@misprint("tokens_13b", "3,135")
@misprint("gap", "22")
@misprint("extra_weights", "5.7")
@misprint("kib_per_token_7b", "127")
@misprint("kib_per_token_13b", "801")
def test_budget_7b_13b_16gb(claim: Claim) -> None:
    """The int8 rows of the 16 GB card to the token, with 1.5 GiB set aside, and the reason given for their gap."""
    tokens_7b, tokens_13b, _ = tokens_with(RESERVE)
    claim.measured("tokens_7b", tokens_7b)
    claim.measured("tokens_13b", tokens_13b)
    claim.measured("gap", Fraction(tokens_7b, tokens_13b))
    claim.measured("extra_weights", in_unit(THIRTEEN_INT8 - SEVEN_INT8, "GiB"))
    claim.measured("kib_per_token_7b", in_unit(SEVEN_B.bytes_per_token, "KiB"))
    claim.measured("kib_per_token_13b", in_unit(THIRTEEN_B.bytes_per_token, "KiB"))
    claim.measured("share_of_the_gap", _shares_of_the_gap())
    claim.measured("gap_if", _gaps_if())
    bits = shared_bits_range((SEVEN_B, TOKENS_7B), (THIRTEEN_B, TOKENS_13B))
    claim.measured("int8_bits_per_weight", _ends(bits), "bit")
    claim.note("The gap is 6.25 (price of a token: 5 from heads, 1.25 from 40 layers against 32) × 3.34 (memory left).")
    claim.note("The tokens leave int8 no room for scales (8.000 bits), where int4 is charged 0.125 bits for them.")


@claim("memory-budget.budget-13b-8gb")
@control("the scales of int4 are forgotten", "THIRTEEN_INT4", lambda size: size * 4 / GROUP_128)
@control("a token that does not quite fit is counted", "resident_tokens", shifted(1))
@misprint("weights_gib", "6.3")
@misprint("tokens", "336")
def test_budget_13b_8gb(claim: Claim) -> None:
    """The 13B row of the 8 GB card: weights, tokens, and the bits per weight that the token count allows."""
    claim.measured("weights_gib", in_unit(THIRTEEN_INT4, "GiB"))
    claim.measured("tokens", tokens_with(RESERVE)[2])
    allowed = bits_range(8 * GIB, Range(RESERVE - 1, RESERVE), THIRTEEN_B, TOKENS_13B_8GB)
    claim.measured("bits_allowed", _ends(allowed), "bit")
    claim.measured("tokens_at_bits", {f"{float(bits)}": _thirteen_b_tokens(bits) for bits in (4, GROUP_128, *FINER)})
    with_embeddings = THIRTEEN_INT4 + LLAMA_13B_EMBEDDINGS * (2 - GROUP_128 / 8)
    left = resident_tokens(8 * GIB, with_embeddings, THIRTEEN_B.bytes_per_token, RESERVE)
    claim.measured("tokens_if_embeddings_stay_16_bit", left, "token")
    claim.note("Were only projections quantized (embeddings of 2 × 32,000 × 5,120, assumed, in 16 bits): no token.")


@claim("memory-budget.budget-tables")
@control("the rows of the 7B and the 13B are mixed up", "table", faults.rows_exchanged)
@control("nothing is set aside", "table", lambda real: lambda: real(0))
@control("a token that does not quite fit is counted", "lib.budget.resident_tokens", shifted(1))
def test_budget_tables(claim: Claim) -> None:
    """All 27 cells regenerated (derived, not published for us); the three that the prose quotes must be among them."""
    cells = {f"{c.card} {c.model} {c.scheme}": c for c in table()}
    quoted = {"16 GB 7B int8": TOKENS_7B, "16 GB 13B int8": TOKENS_13B, "8 GB 13B int4": TOKENS_13B_8GB}
    claim.measured("quoted_cells_agree", {name: cells[name].tokens == tokens for name, tokens in quoted.items()})
    claim.measured("layers_of_the_13b", Fraction(800 * 1024, kv_bytes_per_token(1, 40, 128, FP16)), "layer")
    claim.measured("tokens", {name: cell.tokens for name, cell in cells.items()}, "token")
    claim.measured("weights", {n: round(float(in_unit(c.weights_bytes, "GiB")), 2) for n, c in cells.items()}, "GiB")
    for context in (512, 2_048, 8_192):
        claim.measured(f"users_at_{context}", {name: cell.users(context) for name, cell in cells.items()}, "user")
    claim.note("70B fits none of these cards in any format, whatever its layers (80 assumed for its cache).")


@claim("memory-budget.units")
@control("a unit counts as common when a single figure fits it", "common_conventions", faults.fits_any)
@control("digits may be eight percent off", "lib.units.stated_bytes", faults.eight_percent)
@control("the figures that only powers of 1000 give are overlooked", "BYTE_FIGURES", faults.without_decimal)
def test_units(claim: Claim) -> None:
    """Every byte figure of the chapter against the bytes it stands for; the cards through the token counts."""
    claim.measured("one_convention_for_all", bool(common_conventions(BYTE_FIGURES)))
    claim.measured("reproduced_by", fitting_conventions(BYTE_FIGURES))
    claim.measured("card_gb_can_be", {c: reserve_without_nominal_sizes(c) is not None for c in CONVENTIONS})
    claim.measured("giga_binary_over_decimal", Fraction(unit_bytes("GB", "binary"), unit_bytes("GB", "decimal")))
    claim.note("The 24 GB card has no token count in the prose; 12 KB and 16 KB are too coarse to tell.")


@claim("memory-budget.fits-is-wrong-question")
@control("1.4 GiB are set aside instead of 1.5", "table", lambda real: lambda reserve=7 * GIB // 5: real(reserve))
@control("what has no context is said not to fit", "table", result(lambda cells: [c for c in cells if c.tokens]))
@misprint("fit_without_context", "2")
def test_fits_is_wrong_question(claim: Claim) -> None:
    """Cells of the derived tables whose weights alone fit the card and whose context is empty, or too small to talk."""
    fitting = [cell for cell in table() if cell.weights_fit]
    claim.measured("fit_without_context", sum(cell.tokens == 0 for cell in fitting))
    claim.measured("tokens_where_weights_fit", {f"{c.card} {c.model} {c.scheme}": c.tokens for c in fitting}, "token")
    claim.measured("fewest_tokens_with_no_reserve", min(cell.tokens for cell in table(0) if cell.weights_fit), "token")
    claim.note("7B in int8 on 8 GB is the sharper case: 6.5 of 8 GiB, and not one token beside a reserve of 1.5 GiB.")


@claim("memory-budget.real-gpu")
@uncontrolled("needs a GPU, and none has run it yet: there is no verdict on record that a fault could change")
def test_real_gpu(claim: Claim, model: PreTrainedModel) -> None:
    """The longest context from which one request can still decode a token, fp16, on a card of 8 GiB or less.

    A larger card is held to 8 GiB for torch's allocator; the driver's own memory lies outside of that limit. One
    request with one growing cache: many requests, and other ways to keep a cache, are not covered.
    """
    import torch

    from lib.reached_context import reached_context

    found = reached_context(model, torch.float16, card_bytes=8 * GIB)
    predicted = {"0 GiB": found.predicted(), "1.5 GiB": found.predicted(RESERVE)}
    claim.measured("reached_over_predicted", {name: found.tokens / max(1, n) for name, n in predicted.items()})
    claim.measured("tokens_reached", found.tokens, "token")
    claim.measured("tokens_predicted", predicted, "token")
    claim.measured("tokens_missing_per_step", found.step_bytes / found.bytes_per_token, "token")
    claim.measured("bytes_outside_the_allocator", found.outside_bytes, "byte")
    claim.protocol(room_bytes=found.room_bytes, weights_bytes=found.weights_bytes, dtype="float16", batch=1)


FINER = (Fraction(17, 4), Fraction(9, 2))  # 16-bit scales per 64 and per 32 weights


def _ends(found: Range | None) -> list[float]:
    return [] if found is None else [float(found.above), float(found.up_to)]


def _thirteen_b_tokens(bits: Fraction | int) -> int:
    weights = weight_bytes(THIRTEEN_B.parameters, bits)
    return resident_tokens(8 * GIB, weights, THIRTEEN_B.bytes_per_token, RESERVE)


def _shares_of_the_gap() -> dict[str, float]:
    """How much of the gap the price of a token explains, whole and through the number of heads alone."""
    small, large = (SEVEN_INT8, SEVEN_B.bytes_per_token), (THIRTEEN_INT8, THIRTEEN_B.bytes_per_token)
    gap = context_gap(16 * GIB, small, large, RESERVE)
    heads = math.log(Fraction(40, 8)) / math.log(gap.bytes_per_token * gap.remaining_memory)
    return {"price of a token": gap.share_of_bytes_per_token, "heads alone": heads}


def _gaps_if() -> dict[str, float]:
    """The gap under one change at a time."""
    tokens_7b, _, _ = tokens_with(RESERVE)
    grouped = resident_tokens(16 * GIB, THIRTEEN_INT8, kv_bytes_per_token(40, 8, 128, FP16), RESERVE)
    equal = resident_tokens(16 * GIB, SEVEN_INT8, THIRTEEN_B.bytes_per_token, RESERVE)
    wide = {c.model: c.tokens for c in table() if (c.card, c.scheme) == ("24 GB", "int8")}
    return {
        "the 13B had 8 key-value heads": tokens_7b / grouped,
        "the 13B had the 7B's weights": tokens_7b / equal,
        "nothing were set aside": tokens_with(0)[0] / tokens_with(0)[1],
        "the card had 24 GB": wide["7B"] / wide["13B"],
    }
