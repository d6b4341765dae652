"""Weight quantization: the absmax ladder, the collapse at 4 bits, NF4, and what the stored bytes really are.

On the embedded sibling remember what its weights went through: blocks of 32 at 4 to 8 bits. Errors of block schemes
are a few percent too small there (the weights already lie on a lattice), most of all at blocks of 32; where that could
decide, only the matrices without such a trace are compared (fixture fine_grained).

Torch and scipy are imported by the tests that need them, so that collecting this file costs nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from statistics import mean, median
from typing import TYPE_CHECKING

import pytest

from claims import weights_faults as faults
from claims.timed import until_settled
from claims.weights_faults import ABSMAX, COMPARISON, NF4, PACKING, QUALITY, ROUNDS, SCALE, STATS, STEPS, TABLE
from fixtures.weight_errors import by_kind, least_and_most, middle_down_projection
from lib.intervals import printed
from lib.units import CONVENTIONS, in_unit
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.judge import Scalar
from reports.plants import argument, exchanged, mistaken, reads, result, scaled, shifted

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from fixtures.quality_readings import Quality
    from fixtures.timing import Timings
    from lib.quantization.errors import ErrorTable
    from lib.tensor_scale import TensorScaleProfile

    Weights = Mapping[str, Tensor]
    Profiles = Mapping[str, TensorScaleProfile]

CHAPTER_PARAMETERS = 494_032_768  # 151,936 · 896, tied, plus 24 · 14,912,384 of the layers, plus 896 of the last norm
MEAN, STD, LARGEST = printed("0.01386"), printed("0.01822"), printed("0.43945")  # of that matrix, as printed
BEYOND, ROWS, COLUMNS = 692, 896, 4864  # of that matrix, as printed
LADDER = ("int4-tensor", "int4-row", "int4-g128", "nf4-b64")
NEARLY_ALL = 0.99  # the share of a matrix's weights that "the ordinary ones, that is, all" stands for
EVERY = 8  # rows sampled for block statistics: some 700,000 blocks of 64, far more than any share below needs
BLOCKS = (128, 64, 32)
STEP_BUDGET_S = 12.0
AFFINE_AS_SYMMETRIC = {f"affine4-g{block}": f"int4-g{block}" for block in BLOCKS}
TAKEN_OUT = ("none", "the largest", "the 10 largest", "1 in 10,000", "1 in 1,000")


@claim("weights.model-bytes")
@control("one of the 24 layers is forgotten", "CHAPTER_PARAMETERS", lambda count: count - 14_912_384)
@control("a GB is 1024³ bytes in either convention", "in_unit", faults.always_binary)
@misprint("gb_at_4_bytes", "1.97")
@misprint("parameters_billion", "0.4")
def test_model_bytes(claim: Claim) -> None:
    """Parameters of the chapter's architecture times bytes, as GB of 1000³ and of 1024³; no model."""
    for name, width in {"gb_at_4_bytes": 4, "gb_at_2_bytes": 2, "gb_at_1_byte": 1}.items():
        claim.measured(name, {c: in_unit(CHAPTER_PARAMETERS * width, "GB", c) for c in CONVENTIONS})
    claim.measured("parameters_billion", Fraction(CHAPTER_PARAMETERS, 10**9))
    claim.condition("in GB of 1000³ bytes; the 13.0 GB of the 7B weights and the whole budget are in GB of 1024³")


@claim("weights.absmax-snippet")
@control("weights are cut off towards zero, not rounded", f"{ABSMAX}.printed_formula", faults.cutting_off)
@control("the largest code is one too large", f"{ABSMAX}.largest_code", shifted(1))
@control("the division by zero is guarded", f"{ABSMAX}.printed_formula", faults.guarded)
@misprint("end_at_8_bits", "128")
def test_absmax_snippet(claim: Claim) -> None:
    """The printed formula on 100 seeded random rows and their negatives, and on zeros; no model."""
    import torch

    from lib.quantization.absmax import printed_range, reconstructs

    rows = torch.randn(100, 96, generator=torch.Generator().manual_seed(0))
    found = {bits: printed_range([*rows, *-rows], bits) for bits in (4, 8)}
    claim.measured("largest_reaches_end", all(r.always_reaches_qmax for r in found.values()))
    claim.measured("end_at_4_bits", found[4].highest)
    claim.measured("end_at_8_bits", found[8].highest)
    claim.measured("lowest_code", {f"{bits} bits": r.lowest for bits, r in found.items()})
    claim.measured("defined", {"with weights": reconstructs(rows, 4), "of zeros only": reconstructs(0 * rows, 4)})
    claim.condition("some weight of every region with a scale differs from zero; 0/0 makes the others NaN")
    claim.note("A negative weight of largest magnitude lands on -qmax. The clamp's lower bound, -qmax - 1, never acts.")


@claim("weights.projections-168")
@control("the output embedding is counted as well", f"{STATS}.projection_weights", faults.with_embedding)
@control("biases are counted as well", f"{STATS}.projection_weights", faults.with_biases)
@misprint("matrices", "169")
@misprint("parameters_million", "357.7")
def test_projections_168(claim: Claim, model: PreTrainedModel) -> None:
    """Linear layers other than the output embedding, and their weights; biases are not counted."""
    from lib.weight_stats import projection_weights

    projections = projection_weights(model)
    count = sum(w.numel() for w in projections.values())
    claim.measured("matrices", len(projections))
    claim.measured("parameters_million", Fraction(count, 10**6))
    claim.measured("share_of_all_parameters", count / sum(p.numel() for p in model.parameters()), "1")


@claim("weights.error-ladder")
@control("one of 168 matrices has no groups", f"{TABLE}.column", faults.last_matrix_as("int4-g128", "int4-row"))
@control("groups of 128 cut off instead of rounding", f"{TABLE}.column", faults.cut_off_column("int4-g128"))
@control("rows and groups are exchanged in the worst case", f"{TABLE}.worst", exchanged("int4-row", "int4-g128"))
@control("the group is given what rows buy", f"{COMPARISON}.bought_back", faults.from_one_scale_per_matrix)
@misprint("bought_back", "0.34")
def test_error_ladder(claim: Claim, weight_errors: ErrorTable) -> None:
    """Relative Frobenius error of every projection, scales in fp16; means count every matrix once."""
    from lib.quantization.comparison import bought_back, ladder_summary, out_of_order

    e, bought = weight_errors, partial(bought_back, weight_errors, scheme="int4-g128", goal="int8-row")
    claim.measured("int4_tensor_worst", e.worst("int4-tensor")[1])
    claim.measured("row_divides_by", e.mean("int4-tensor") / e.mean("int4-row"))
    claim.measured("group_128_error", e.mean("int4-g128"))
    claim.measured("nf4_error", e.mean("nf4-b64"))
    claim.measured("mean_error", {s: e.mean(s) for s in LADDER})
    claim.measured("worst_error", {s: e.worst(s)[1] for s in LADDER})
    claim.measured("matrices_out_of_order", out_of_order(e, LADDER))
    claim.measured("bought_back", {f"one scale per {at}": bought(start=f"int4-{at}") for at in ("tensor", "row")})
    claim.condition("counted from one scale per matrix; one scale per row has most of it already, at 0.02 bits or less")
    for name, values in ladder_summary(e, ROWS, COLUMNS).items():
        claim.measured(name, values)


@claim("weights.down-proj-12")
@control("the up projection is read", "middle_down_projection", result(lambda name: name.replace("down", "up")))
@control("the tail is cut off at six deviations", f"{STATS}.WeightSummary.max_over_std", faults.tail_clipped)
@control("a normal's tail is counted from four deviations", f"{STATS}.normal_tail", lambda real: lambda _: real(4))
@misprint("max_over_std", "24.2")
@misprint("weights", "4,358,145")
@misprint("percent_beyond", "0.017")
@misprint("one_in", "7e3")
def test_down_proj_12(claim: Claim, tensor_profiles: Profiles) -> None:
    """The printed figures against one another, and the same matrix of this model beside them."""
    from lib.weight_stats import normal_tail

    s = tensor_profiles[middle_down_projection(tensor_profiles)].summary
    for name in ("mean_abs", "std", "max_abs", "beyond_6_sigma", "rows", "columns"):
        claim.measured(name, getattr(s, name))
    claim.measured("max_over_std", LARGEST / STD)
    claim.measured("weights", ROWS * COLUMNS)
    claim.measured("percent_beyond", Fraction(100 * BEYOND, ROWS * COLUMNS))
    claim.measured("one_in", Fraction(ROWS * COLUMNS, BEYOND))
    claim.measured("tail_over_normal", s.beyond_6_sigma / (s.count * normal_tail(6)))
    claim.measured("max_over_std_here", s.max_over_std)
    claim.measured("mean_over_std_here", s.mean_abs / s.std)


@claim("weights.two-or-three-levels")
@control("the code that never occurs is counted", f"{ABSMAX}.reachable_codes", shifted(1))
@control("all kinds of matrices are pooled", "by_kind", faults.kinds_pooled)
@control("the levels are to hold 90 % of a matrix, not 99", "NEARLY_ALL", reads(0.9))
@control("the outermost share is in percent", f"{SCALE}.TensorScaleProfile.outermost_share", scaled(100))
def test_two_or_three_levels(claim: Claim, tensor_profiles: Profiles) -> None:
    """INT4 with one scale: the fewest levels that hold 99 % of a matrix; the median over each kind of matrix."""
    from lib.quantization.absmax import reachable_codes

    levels = {name: p.levels_holding(4, NEARLY_ALL) for name, p in tensor_profiles.items()}
    claim.measured("codes", reachable_codes(4))
    claim.measured("at_least_two", by_kind(levels, median))
    claim.measured("at_most_three", by_kind(levels, median))
    claim.measured("share_on_outermost", max(p.outermost_share(4) for p in tensor_profiles.values()))
    claim.measured("matrices_by_levels", dict(sorted(Counter(levels.values()).items())), "matrix")
    zeros = {name: p.zero_share(4) for name, p in tensor_profiles.items()}
    claim.measured(
        "share_on_zero", by_kind(zeros, median) | {"12.down_proj": zeros[middle_down_projection(zeros)]}, "1"
    )
    claim.condition("not where the outliers are farthest: nearly all weights of such a matrix fall on zero alone")
    claim.protocol(share_of_weights=NEARLY_ALL)


@claim("weights.eight-bit-lands")
@control("the code that never occurs is counted", f"{ABSMAX}.reachable_codes", shifted(1))
@control("the scale is that of six deviations", f"{SCALE}.TensorScaleProfile.typical_steps", faults.clipped_scale)
def test_eight_bit_lands(claim: Claim, tensor_profiles: Profiles) -> None:
    """INT8 with one scale: a weight's mean magnitude in steps, for the printed matrix, the median and the worst."""
    from lib.quantization.absmax import largest_code, reachable_codes

    steps = {name: p.typical_steps(8) for name, p in tensor_profiles.items()}
    worst = min(steps, key=lambda name: steps[name])
    on_print = MEAN * largest_code(8) / LARGEST
    cases: dict[str, Scalar] = {"12.down_proj as printed": on_print, "median matrix": median(steps.values())}
    cases[worst] = steps[worst]
    claim.measured("codes", reachable_codes(8))
    claim.measured("typical_weight_in_steps", cases)
    claim.measured("matrices_below_one_step", sum(s < 1 for s in steps.values()), "matrix")
    zeros = {name: p.zero_share(8) for name, p in tensor_profiles.items()}
    claim.measured("mostly_zero", {name: share for name, share in zeros.items() if share > 0.5}, "1")
    claim.condition("not in the matrices with the farthest outliers, where most weights become zero even at 8 bits")


@claim("weights.normal-blocks")
@control("input columns are brought to one size first", "lib.block_shape.rejected_shares", faults.columns_made_equal)
@control("the levels lie at even distances", f"{NF4}.nf4_levels", faults.even_levels)
def test_normal_blocks(claim: Claim, projections: Weights) -> None:
    """Kurtosis of blocks of 64 against simulated normal ones; NF4 against the best code book for the same weights."""
    from lib import block_shape as shape
    from lib.quantization.nf4 import nf4_levels

    rejected = shape.rejected_shares(projections, 64, EVERY)
    equal = shape.rejected_shares({n: shape.with_equal_columns(w[::EVERY]) for n, w in projections.items()}, 64, 1)
    blocks = {size: [shape.blocks_of(w, size, EVERY) for w in projections.values()] for size in BLOCKS}
    pooled = {size: shape.scaled_histogram(found) for size, found in blocks.items()}
    claim.measured("rejected_blocks", by_kind(rejected, mean))
    claim.measured("rejected_in_worst_matrix", max(rejected.values()), "1")
    claim.measured("rejected_once_columns_are_equal", by_kind(equal, mean), "1")
    claim.measured("excess_over_best_book", {b: shape.excess_over_fitted(p, nf4_levels()) for b, p in pooled.items()})
    claim.measured("block_maximum", {b: mean(map(shape.max_in_sigmas, found)) for b, found in blocks.items()}, "sigma")
    claim.measured("level_use_times_16", least_and_most(16 * pooled[64].level_shares(nf4_levels())), "1")
    claim.condition("where the input columns are of one scale: in the MLP and the attention output, not in q, k and v")
    claim.protocol(rows=f"1 in {EVERY}", level_of_the_test=0.05)


@claim("weights.shrinks-on-disk")
@control("4-bit codes take a byte each", f"{PACKING}.pack_nibbles", lambda _: lambda codes: codes.reshape(-1))
def test_shrinks_on_disk(claim: Claim, model: PreTrainedModel, projections: Weights) -> None:
    """Bytes of everything stored: packed projections with scales, all else in fp16; one file really written."""
    from torch import float16

    from lib.quantization.packing import packed_model, tensor_bytes, written_bytes
    from lib.quantization.schemes import SCHEMES

    parameters = dict(model.named_parameters())
    count = sum(p.numel() for p in parameters.values())
    stored = partial(packed_model, projections=projections, parameters=parameters, rest=float16)
    sizes = {"fp32": 4 * count, "fp16": 2 * count, "int8-row": tensor_bytes(stored(SCHEMES["int8-row"]))}
    four_bits = stored(SCHEMES["int4-g128"])
    sizes["int4-g128"] = tensor_bytes(four_bits)
    claim.measured("stored_bytes", sizes)
    claim.measured("int4_file_bytes", written_bytes(four_bits), "byte")
    claim.measured("fp16_over_int4", sizes["fp16"] / sizes["int4-g128"], "1")
    claim.note("Weights quantized in place and kept as floats, as for the chapter's tables, shrink nothing.")


@claim("weights.collapse")
@control("the matrix with the smallest error is read", "worst_at_4_bits", faults.least_damaged)
@control("the noise points along the matrix", "lib.quantization.errors.error_of", argument("cosine", lambda _: 1))
@misprint("energy_kept", "0.009")
def test_collapse(claim: Claim, tensor_profiles: Profiles) -> None:
    """INT4 with one scale, the worst matrix: how large the reconstruction is, and what an error of 0.99 can mean."""
    from lib.quantization.errors import error_of, least_cosine

    name, worst = worst_at_4_bits(tensor_profiles)
    claim.measured("worst_error", worst.int4.relative_error)
    claim.measured("error_of_noise", {f"{r} of the size": error_of(r, cosine=0) for r in (0.5, 1.0, 2.0)})
    claim.measured("size", worst.int4.norm_ratio)
    claim.measured("share_of_zeros", worst.int4.zero_fraction)
    claim.measured("energy_kept", worst.int4.cosine**2)
    claim.measured("cosine", worst.int4.cosine, "1")
    claim.measured("least_cosine_at_099", least_cosine(0.99), "1")
    claim.protocol(worst_matrix=name)


@claim("weights.outlier-cause")
@control("so many weights leave every row", f"{SCALE}.errors_without_largest", faults.counted_in_every_row)
@misprint("weights_million", "4.4")
def test_outlier_cause(claim: Claim, projections: Weights, weight_errors: ErrorTable) -> None:
    """INT4 with one scale once the largest weights are taken out: how far to the error of one scale per row."""
    from lib.parallel import map_on_cores
    from lib.tensor_scale import closed_gap, largest_taken_out

    errors = map_on_cores(largest_taken_out, projections.values())
    mean_errors = [mean(column) for column in zip(*errors, strict=True)]
    closed = dict(zip(TAKEN_OUT, closed_gap(mean_errors, weight_errors.mean("int4-row")), strict=True))
    claim.measured("gap_closed", {case: share for case, share in closed.items() if case != "none"})
    own = errors[list(projections).index(middle_down_projection(projections))]
    claim.measured("error_of_12_down_proj", dict(zip(TAKEN_OUT, own, strict=True)), "1")
    claim.measured("weights_million", Fraction(ROWS * COLUMNS, 10**6))
    claim.condition("the cause is the crowd far out, one weight in ten thousand or more, and no single weight")


@claim("weights.bits-bookkeeping")
@control("scales are not counted", f"{PACKING}.pack", result(lambda packed: {"codes": packed["codes"]}))
@misprint("group_128_bits", "4.126")
@misprint("nf4_bits", "4.26")
def test_bits_bookkeeping(claim: Claim) -> None:
    """Bits of really packed tensors of the printed shape, scales included; the weights are random, bits are bits."""
    from torch import float32

    from lib.quantization.packing import double_quantized_bits, stored_bits
    from lib.quantization.schemes import SCHEMES, Scheme

    bits = partial(stored_bits, rows=ROWS, columns=COLUMNS)
    fp32_scales = Scheme("nf4-b64-fp32", "NF4, fp32 scales", "nf4", 4, 64, float32)
    claim.measured("group_128_bits", bits(SCHEMES["int4-g128"]))
    cases = {"fp16": bits(SCHEMES["nf4-b64"]), "fp32": bits(fp32_scales), "quantized again": double_quantized_bits(64)}
    claim.measured("nf4_bits", cases)
    claim.measured("block_implied", {f"{w}-bit scales": Fraction(w) / Fraction("0.25") for w in (16, 32)}, "weight")
    claim.measured("group_128_bits_at_576_columns", stored_bits(SCHEMES["int4-g128"], ROWS, 576), "bit")
    claim.condition("with 16-bit scales; the published implementation stores them as fp32 or quantizes them again")


@claim("weights.nf4-levels")
@control("the levels are equally probable quantiles", f"{NF4}.nf4_levels", faults.equally_probable_levels)
@control("the sixteen levels lie at even distances", f"{NF4}.nf4_levels", faults.even_levels)
@control("steps of probability may differ by a hundredth", f"{NF4}._ROUNDING", reads(0.01))
@misprint("levels", "15")
def test_nf4_levels(claim: Claim) -> None:
    """The code book derived from normal quantiles (equal to the published table, see lib/tests); no model."""
    from lib.quantization.nf4 import NF4_SIGMA, gaps, is_evenly_probable, nf4_levels, normal_mass

    levels = nf4_levels()
    below, above = levels[levels <= 0], levels[levels >= 0]
    claim.measured("levels", len(levels))
    claim.measured("gaps_above_zero", gaps(above))
    claim.measured("gaps_below_zero", gaps(-below[::-1]))
    halves = {"below zero": below, "above zero": above, "all sixteen": levels}
    claim.measured("equal_steps_of_probability", {part: is_evenly_probable(book) for part, book in halves.items()})
    claim.measured("mass_per_level_times_16", least_and_most(16 * normal_mass(levels, NF4_SIGMA)), "1")
    claim.condition("in each half apart, around an exact zero and cut off at the quantile 0.968")


@claim("weights.nf4-28-percent")
@control("NF4 and INT4 in blocks of 64 are exchanged", f"{TABLE}.column", exchanged("int4-g64", "nf4-b64"))
@control("INT4 in blocks of 64 and of 128 are exchanged", f"{TABLE}.column", exchanged("int4-g64", "int4-g128"))
@misprint("percent_lower", "29")
def test_nf4_28_percent(claim: Claim, weight_errors: ErrorTable) -> None:
    """The printed ratio; then INT4 at 64 and NF4 at 128 as third rows: mean errors, matrices resampled in pairs."""
    from lib.quantization.comparison import drop, step_share
    from lib.resampling import DEFAULT_SEED

    fall, share = partial(drop, weight_errors), partial(step_share, weight_errors)
    claim.measured("percent_lower", (1 - printed("0.0952") / printed("0.1323")) * 100)
    claim.measured("blocks_part", fall("int4-g128", "int4-g64"))
    claim.measured("levels_part", fall("int4-g64", "nf4-b64"))
    claim.measured("lower_here", fall("int4-g128", "nf4-b64"), "1")
    claim.measured("share_of_blocks", share("int4-g128", "int4-g64", "nf4-b64"), "1")
    claim.measured("share_of_levels_if_first", share("int4-g128", "nf4-b128", "nf4-b64"), "1")
    claim.measured("share_of_sixteenth_level", share("int4-g64", "even4-b64", "nf4-b64"), "1")
    claim.measured("blocks_of_32_instead_of_64", fall("nf4-b64", "nf4-b32"), "1")
    claim.protocol(seed=DEFAULT_SEED, resampled="matrices, in pairs")


@claim("weights.nf4-beats-g128")
@control("one of 168 matrices has INT4's levels", f"{TABLE}.column", faults.last_matrix_as("nf4-b64", "int4-g128"))
@control("NF4 and INT4 in groups are exchanged", f"{TABLE}.column", exchanged("nf4-b64", "int4-g128"))
@control("affine INT4 has no zero points", f"{TABLE}.column", mistaken(AFFINE_AS_SYMMETRIC))
@control("losses are compared the wrong way round", f"{QUALITY}.pooled_cost", scaled(-1))
@control("choices are compared the wrong way round", f"{QUALITY}.pooled_agreement_gap", scaled(-1))
def test_nf4_beats_g128(claim: Claim, weight_errors: ErrorTable, fine_grained: list[str], quality: Quality) -> None:
    """Mean error over matrices, paired; affine INT4 only where no earlier quantization shows. Then loss and choices."""
    from lib.quantization.comparison import advantage

    less = partial(advantage, weight_errors)
    best_even = {4.125: ("nf4-b128", "int4-g128"), 4.25: ("nf4-b64", "affine4-g128"), 4.5: ("nf4-b32", "affine4-g64")}
    claim.measured("over_group_128", less("nf4-b64", "int4-g128"))
    claim.measured("matrices_lost", len(weight_errors.errors["nf4-b64"]) - weight_errors.wins("nf4-b64", "int4-g128"))
    claim.measured("over_int4_same_block", {b: less(f"nf4-b{b}", f"int4-g{b}") for b in BLOCKS})
    claim.measured("over_any_at_these_bits", {bits: less(*pair) for bits, pair in best_even.items()})
    if len(fine_grained) > 1:
        claim.measured("over_affine_same_block", {b: less(f"nf4-b{b}", f"affine4-g{b}", fine_grained) for b in BLOCKS})
    else:
        claim.not_measured("over_affine_same_block", "every matrix of this model has been quantized before")
    claim.measured("lower_loss", quality.pooled_cost("int4-g128", "nf4-b64"))
    claim.measured("higher_agreement", quality.pooled_agreement_gap("nf4-b64", "int4-g128"))
    claim.condition("INT4 is symmetric, or blocks hold 64 weights or more: at 32 an affine INT4 leaves less error")


@claim("weights.fewer-bytes-faster")
@control("every format is widened in memory first", f"{ROUNDS}.ratio", faults.always_widened, slow=True)
@control("a step's time is worked out from its bytes", f"{STEPS}.over_bytes", reads(1.0), slow=True)
@pytest.mark.usefixtures("in_fp32")
def test_fewer_bytes_faster(claim: Claim, model: PreTrainedModel, timings: Timings) -> None:
    """Whole decode steps over 64 cached tokens, batch 1, every linear layer in the format, the output embedding too.

    Kernels that read the stored codes, and 4 bits without such a kernel.
    """
    from claims.weight_steps import weight_steps

    steps = weight_steps(model, timings)
    until_settled(claim, steps.rounds, steps.figures, STEP_BUDGET_S)
    steps.show(claim, timings.limits.read)
    claim.condition("torch carries a kernel that reads the codes; none does for NF4's uneven levels")


def worst_at_4_bits(profiles: Profiles) -> tuple[str, TensorScaleProfile]:
    """The matrix that INT4 with one scale leaves most wrong, by name."""
    return max(profiles.items(), key=lambda item: item[1].int4.relative_error)
