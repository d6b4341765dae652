"""What the chapter leaves out, and whether its own figures agree with one another. No model, no torch but for flash."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from claims import omissions_faults as faults
from lib.consistency import Agreement, Check, by_agreement, check, ordered, proportional
from lib.intervals import Estimate, printed
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.ledger import load_ledger
from reports.numerals import coverage, figures_of, find_numerals, load_mapping

HISTOGRAM = (254, 283, 226, 93, 18, 9, 7, 5, 0, 0, 0, 1)
BARS = (40, 40, 40, 40, 18, 9, 7, 5, 0, 0, 0, 1)  # marks per line, counted
MATRIX = 896 * 4_864
NAMED_IN_THE_ERRATUM = {"decode over prompt, a token", "millions of weights"}
GRID_STEP = printed("1,579.6") / 127
FP32 = 4  # bytes


@claim("omissions.internal")
@control("digits may have been cut off as well as rounded", "lib.consistency.printed", faults.rounded_or_cut)
@control("printed digits are taken for exact numbers", "lib.consistency.printed", faults.without_rounding)
@control("one dimension more stands in the first bin", "HISTOGRAM", lambda bins: (bins[0] + 1, *bins[1:]))
@control("one perplexity is misread by 0.1", "printed", faults.misread)
@control("one comparison is turned round", "ordered", faults.one_turned_round)
@control("the bars are drawn to one scale", "BARS", lambda _: HISTOGRAM)
def test_internal(claim: Claim) -> None:
    """Every printed figure that others determine, recomputed by rounding intervals; orders and bars kept apart.

    Figures of the tables, which our copy lacks, are not covered; byte units are memory-budget.units.
    """
    digits = by_agreement(chain(timings(), sizes(), weights(), activations(), quality(), drafts()))
    conclusions = by_agreement(orders())
    claim.measured("figures_off", len(digits[Agreement.OFF]))
    off_names = {found.name for found in digits[Agreement.OFF]}
    claim.measured("off_are_the_two_of_the_erratum", off_names == NAMED_IN_THE_ERRATUM)
    claim.measured("conclusions_flipped", len(conclusions[Agreement.OFF]))
    claim.measured("bars_drawn_to_scale", proportional(BARS, HISTOGRAM))
    for name, checks in {"digits": digits, "conclusions": conclusions}.items():
        claim.measured(f"{name}_checked", {str(outcome): len(found) for outcome, found in checks.items()})
    claim.measured("off", [str(found) for found in digits[Agreement.OFF]])
    claim.measured("within_rounding_only", [str(found) for found in digits[Agreement.WITHIN_ROUNDING]])


@claim("omissions.flash-same-function")
@control("the fused kernel is not there: attention is written out", "lib.flash.fused", faults.written_out)
@control("the kernel shows every query the key after its own", "lib.flash.fused", faults.looks_ahead)
@control("the kernel's outputs are a ten-thousandth too large", "lib.flash.fused", faults.a_ten_thousandth_more)
@control("masks are looked for in the wrong place", "lib.flash._handed", faults.no_mask_found)
@control("every pass over a text is given its causal mask", "lib.decoding.forward", faults.mask_spelled_out)
@control("a call is read when it has ended", "lib.flash.peak_of", faults.at_the_end)
@misprint("square_mb", "68")
def test_flash_same_function(claim: Claim) -> None:
    """torch's fused attention and one written out, each against float64; what is written, called as models call it."""
    from claims.flash_tables import errors_table, handed_to_attention, in_mb, peaks, same_function, seconds
    from lib.flash import square_bytes

    over_bound = errors_table(claim)
    claim.measured("error_over_bound", over_bound)
    claim.measured("same_function", same_function(claim, over_bound))
    alive = peaks()
    squares = {call: square_bytes(peak, case) for call, (peak, case) in alive.items()}
    claim.measured("square_mb", in_mb(alive["written out"][1].keys ** 2 * FP32))
    claim.measured("square_bytes_without_a_fused_kernel", squares.pop("no fused kernel"), "byte")
    claim.measured("square_bytes_alive", {call: size for call, size in squares.items() if call != "written out"})
    claim.measured("mask_bytes_per_layer", handed_to_attention(claim))
    totals = {call: in_mb(peak.live_bytes) for call, (peak, _) in alive.items()}
    claim.measured("alive_mb", {call: totals[call] for call in ("written out", "fused, no mask")})
    claim.measured("alive_mb_of_every_call", totals, "MB")
    claim.measured("least_of_three", seconds(), "s")
    claim.condition("for finite numbers up to rounding, with a fused kernel and without a mask tensor")


@claim("omissions.number-coverage")
@control("one numeral of the text is overlooked", "find_numerals", faults.one_overlooked)
@control("one figure of the ledger has another last digit", "figures_of", faults.another_digit)
def test_number_coverage(claim: Claim, chapter_text: str) -> None:
    """Digits and number words of the text, the mapping in numerals.toml and the whole ledger's figures, compared."""
    folder = Path(__file__).parent
    figures = figures_of(load_ledger(folder))
    found = coverage(find_numerals(chapter_text), load_mapping(folder / "numerals.toml"), figures)
    problems = found.problems()
    claim.measured("numerals_unaccounted_for", len(problems))
    claim.measured("numerals", dict(found.counts))
    claim.measured("problems", problems)


def timings() -> list[Check]:
    """Prefill and decode, and the batch."""
    prompt_ms = 1000 * printed("1.0224") / 40
    return [
        check("ms per prompt token", "25.6", prompt_ms),
        check("ms per decode step", "166", 1000 * printed("0.1665")),
        check("decode over prompt, a token", "6", 1000 * printed("0.1665") / prompt_ms),
        check("tokens after the first", "47", 48 - 1),
        check("context grown", "64", printed("1,024") / 16),
        check("requests in the batch", "16", printed("6.0") * printed("2.67")),
    ]


def sizes() -> list[Check]:
    """The cache and the budget."""
    per_token = 2 * 24 * 2 * 64 * 2
    return [
        check("bytes per token", "12,288", per_token),
        check("bytes of 295 tokens", "3,624,960", 295 * per_token),
        *(check(f"tokens of {b} users", "65,536", b * n) for b, n in ((32, 2_048), (64, 1_024), (128, 512))),
        check("MB of 65,536 tokens", "768", 65_536 * per_token / 2**20),
        check("bytes per token, 14 heads", "86,016", per_token * 14 // 2),
        check("KB, 14 heads", "84", printed("86,016") / 1024),
        check("KB, 2 heads", "12", printed("12,288") / 1024),
        check("times larger", "7", printed("86,016") / printed("12,288")),
        check("times larger, from KB", "7", printed("84") / printed("12")),
        check("KB of the 7B", "128", 2 * 32 * 8 * 128 * 2 / 1024),
        check("13B over 7B, a token", "6.25", printed("800") / printed("128")),
        check("twentyfold", "2e1", printed("65,378") / printed("3,136")),
    ]


def weights() -> list[Check]:
    """Bytes of the model, the odd matrix, bits per weight."""
    return [
        check("GB at two bytes", "0.99", printed("1.98") / 2),
        check("GB at one byte", "0.49", printed("1.98") / 4),
        check("half a billion", "0.5", printed("1.98") / 4),
        check("projection matrices", "168", 24 * 7),
        check("millions of parameters", "357.8", 24 * (2 * 896 * 896 + 2 * 896 * 128 + 3 * MATRIX) / 1e6),
        check("weights of the matrix", "4,358,144", MATRIX),
        check("millions of weights", "4.3", MATRIX / 1e6),
        check("largest in deviations", "24.1", printed("0.43945") / printed("0.01822")),
        check("largest, in words", "24", printed("24.1")),
        check("percent beyond six sigma", "0.016", 100 * 692 / MATRIX),
        check("one weight in", "6e3", MATRIX / 692),
        check("steps at 8 bits", "256", 2**8),
        check("steps at 4 bits", "16", 2**4),
        check("bits with group scales", "4.125", 4 + 16 / 128),
        check("percent lower error", "28", 100 - 100 * printed("0.0952") / printed("0.1323")),
    ]


def activations() -> list[Check]:
    """The histogram and the levels of one 8-bit scale."""
    return [
        check("dimensions in all", "896", sum(HISTOGRAM)),
        check("dimensions below 8", "9e2", sum(HISTOGRAM[:4])),
        check("empty octaves", "3", HISTOGRAM.count(0)),
        check("scale", "12.4378", GRID_STEP),
        check("scale, rounded", "12.44", printed("12.4378")),
        check("scales apart", "22", printed("12.4378") / printed("0.5749")),
    ]


def quality() -> list[Check]:
    """Perplexities, the battery, agreement."""
    return [
        check("one part in", "2e2", printed("23.08") / (printed("23.08") - printed("22.96"))),
        check("half the gap", "0.5", (printed("22.24") - printed("22.18")) / (printed("23.08") - printed("22.96"))),
        check("millions of perplexity", "365", printed("365,416,000") / 1_000_000),
        check("worst over best", "15e6", printed("365,416,000") / printed("24.55")),
        check("gap of the two 4-bit rows", "6.5", printed("31.08") - printed("24.55")),
        check("questions as a share", "0.99", Estimate(142 / 144, 142 / 144, 142 / 144)),
    ]


def drafts() -> list[Check]:
    """Speculative decoding and temperature."""
    draft_cost = (_kept(0.9, 8) / printed("3.40") - 1) / 8  # the c that the larger speed-up implies
    ratio = printed("0.1355") / printed("0.0605")
    return [
        check("kept of five passes", "1.4", _kept(0.3, 4)),
        check("speed-up at 30 %, same draft", "0.79", _kept(0.3, 8) / (1 + 8 * draft_cost)),
        check("first over third", "2.24", ratio),
        check("the same at T = 2", "1.50", ratio.sqrt()),
    ]


def orders() -> list[Check]:
    """Conclusions that rest on one figure being below another."""
    other_scale = printed("0.5749")
    return [
        ordered("the prompt is the cheap part", printed("1.0224") / 40, printed("0.1665")),
        ordered("latency almost doubles", 2 / (1 + printed("9") / 100), 2),
        ordered("cache beyond weights", printed("13.0") * 2**30, 128_000 * printed("128") * 1024),
        ordered("INT8 below the reference here", printed("22.96"), printed("23.08")),
        ordered("and above it there", printed("22.18"), printed("22.24")),
        ordered("the median dimension is in the second bin, from below", HISTOGRAM[0], 896 / 2),
        ordered("and from above", 896 / 2, sum(HISTOGRAM[:2])),
        ordered("dimension 826 never leaves level 0", printed("4.77") / GRID_STEP, 0.5),
        ordered("a fifth dimension in the bin from 64", 64, 127 * other_scale),
        ordered("it is below 128", 127 * other_scale, 128),
        *(
            ordered(f"{levels} levels can occur below {peak}", levels - 1, 2 * printed(peak) / other_scale + 1)
            for peak, levels in (("4.77", 8), ("1.62", 4), ("0.69", 3))
        ),
    ]


def _kept(acceptance: float, drafted: int) -> float:
    """Tokens kept per verification, the geometric sum."""
    return sum(acceptance**i for i in range(drafted + 1))
