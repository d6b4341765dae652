"""Outliers in the residual stream: where they sit, what they depend on, and what one 8-bit scale does to the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from claims import activations_faults as faults
from claims.activations_faults import DEPENDENCE, RUNS, STREAMS, TABLES
from claims.technique_tables import lost_by_layer, measure_rounding, measure_techniques, show_rounding, show_techniques
from fixtures.residual_stream import PROSE
from lib.activation_outliers import (
    CARRIER_SHARE,
    CHAPTER_EDGES,
    carriers,
    dimension_at_quantile,
    dimension_maxima,
    distinct_levels,
    empty_bins_from,
    empty_octaves_below_top,
    largest,
    layer_peak,
    level_use,
    levels_of_dimension,
    levels_within,
    octave_edges,
    octave_histogram,
    position_share,
    without_its_peak,
    without_positions,
    without_top_dimensions,
)
from lib.quantization.absmax import largest_code, printed_formula, reachable_codes
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import reads, result, shifted

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from fixtures.loading import ModelInfo
    from fixtures.residual_stream import Streams
    from fixtures.techniques import Runs, Texts
    from lib.intervals import Estimate, Number
    from lib.quantization.outlier_dependence import Dependence

BITS = 8
FIRST_TOKENS, SWEEP_BATCH = 1024, 256  # single-token sequences, so many at a time
PRINTED_BARS = (40, 40, 40, 40, 18, 9, 7, 5, 0, 0, 0, 1)  # characters in the printed bars, lowest bin first
# Ranks of the three named dimensions among the 896 maxima, read off the printed histogram by interpolation in the bin:
# 0.69 · 254, 254 + 0.62 · 283, and 763 + (4.77 - 4) / 4 · 93, each over 896.
NAMED = {826: 0.872, 336: 0.479, 96: 0.196}
FIGURES_OF_LAYER_16: dict[str, Callable[[Tensor], float]] = {
    "levels": lambda h: level_use(h).levels,
    "peak": lambda h: layer_peak(h).peak,
    "median_magnitude": lambda h: layer_peak(h).median_magnitude,
    "percentile_99": lambda h: float(h.abs().quantile(0.99)),
}
ALL_TOKENS, OTHER_TOKENS = "all 84 tokens", "all but the one with the largest value"


@claim("activations.dim-62")
@control("the first token is left out", f"{STREAMS}.prose", faults.without_first_token)
@control("the layers after 16 are left out", f"{STREAMS}.prose", faults.up_to_layer_16)
@misprint("tokens", "85")
@misprint("median_dimension_over_that_of_layer_16", "3.21")
def test_dim_62(claim: Claim, residual_streams: Streams) -> None:
    """Per layer, the largest magnitude of every dimension over one prompt of 84 tokens of English prose."""
    peaks = [layer_peak(h) for h in residual_streams.prose]
    top, middle = max(peaks, key=lambda p: p.peak), peaks[residual_streams.depth(16)]
    claim.measured("tokens", residual_streams.prose.shape[1])
    claim.measured("dimensions", residual_streams.prose.shape[2])
    claim.measured("dimension", top.dimension)
    claim.measured("peak", residual_streams.range_of(largest_of_all))
    claim.measured("median_dimension", residual_streams.range_of(largest_median_dimension))
    claim.measured("peak_over_median_entry", top.peak / top.median_magnitude)
    claim.measured("peak_magnitude", top.peak)
    growth = {layer: p.median_dimension / middle.median_dimension for layer, p in enumerate(peaks)}
    claim.measured("median_dimension_over_that_of_layer_16", growth)
    claim.measured("peak_by_layer", [p.peak for p in peaks])
    claim.measured("median_dimension_by_layer", [p.median_dimension for p in peaks])
    claim.condition("not in the last layers, where every dimension grows")


@claim("activations.one-token-one-layer")
@control("a thousandth of the largest value is enough", "carriers", faults.from_a_thousandth)
@control("a layer's largest value counts at every position", "position_share", faults.largest_at_every_position)
@control("every layer is read one block late", f"{STREAMS}.depth", shifted(1))
@control("what each block adds is read, not the stream", f"{STREAMS}.prose", faults.what_blocks_add)
@misprint("positions_that_carry_it", "1")
@misprint("layer_20_over_layer_4", "0.9")
def test_one_token_one_layer(claim: Claim, model: PreTrainedModel, residual_streams: Streams) -> None:
    """At which of the 84 positions and in which layers the largest dimension of layer 16 has its value; prose."""
    early, middle, late = (residual_streams.layer(k) for k in (4, 16, 20))
    dimension = layer_peak(middle).dimension
    positions = carriers(middle, dimension)
    claim.measured("positions_that_carry_it", len(positions))
    claim.measured("same_dimension_at_both_layers", layer_peak(early).dimension == layer_peak(late).dimension)
    claim.measured("layer_20_over_layer_4", largest(late, dimension) / largest(early, dimension))
    claim.measured("share_of_positions_at_6_or_more", position_share(residual_streams.prose, dimension))
    claim.measured("positions", positions)
    claim.measured("value_by_layer", [largest(h, dimension) for h in residual_streams.prose])
    claim.measured("value_at_every_other_position", largest(without_positions(middle, positions), dimension))
    claim.measured("positions_by_prompt", positions_by_prompt(residual_streams, dimension))
    again = layer_20_with_layer_4_erased(model, residual_streams, dimension)
    claim.measured("layer_20_over_layer_4_if_erased_after_layer_4", again / largest(early, dimension))


@claim("activations.systematic")
@control("the random weights are the trained ones", "random_peak_ratio", faults.with_trained_weights)
@control("dimensions of first tokens are counted from 1", "values_of_first_tokens", faults.next_dimension)
@control("each prompt's value is divided by itself", "over_median", faults.by_itself)
@control("the first token of every prompt is left out", "layer_peak", lambda real: lambda h: real(h[1:]))
def test_systematic(
    claim: Claim, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, residual_streams: Streams
) -> None:
    """Dimension and value at layer 16 over every prompt, over random first tokens, and on random weights."""
    depth, dimension = residual_streams.depth(16), layer_peak(residual_streams.layer(16)).dimension
    peaks = {name: layer_peak(stream[depth]) for name, stream in residual_streams.streams.items()}
    claim.measured("same_dimension_as_in_prose", {name: p.dimension == dimension for name, p in peaks.items()})
    claim.measured("random_weights_peak_over_median_entry", random_peak_ratio(model, residual_streams.prompts[PROSE]))
    firsts = values_of_first_tokens(model, len(tokenizer), depth, dimension)
    claim.measured("first_tokens_that_carry_it", share_of(firsts >= CARRIER_SHARE * peaks[PROSE].peak))
    claim.measured("value_over_median_prompt", over_median({name: p.peak for name, p in peaks.items()}))
    claim.measured("value_by_prompt", {name: p.peak for name, p in peaks.items()})
    claim.measured("value_by_first_token_low_median_high", [float(firsts.quantile(q)) for q in (0, 0.5, 1)])
    claim.protocol(first_tokens=FIRST_TOKENS, seed=0, random_weights_seed=0)
    claim.condition("for the dimension and for its being there, not for its size, which the first token sets")


@claim("activations.histogram-16")
@control("empty octaves are counted from 128 on", "empty_bins_from", faults.from_128_on)
@control("the bars are as long as the counts", "PRINTED_BARS", reads((254, 283, 226, 93, 18, 9, 7, 5, 0, 0, 0, 1)))
@control("the first token is left out", f"{STREAMS}.layer", result(lambda h: h[1:]))
@misprint("count_16", "10")
@misprint("below_8", "800")
@misprint("empty_octaves", "4")
def test_histogram_16(claim: Claim, residual_streams: Streams) -> None:
    """The printed counts against the sentence about them (no model), and the same histogram of our prose."""
    counts = [int(claim.given(f"count_{edge}").value) for edge in CHAPTER_EDGES[:-1]]
    claim.measured("total", sum(counts))
    claim.measured("below_8", sum(counts[: CHAPTER_EDGES.index(8)]))
    claim.measured("empty_octaves", empty_bins_from(counts, CHAPTER_EDGES, 128))
    claim.measured("alone_at_the_end", counts[-1])
    claim.measured("empty_octaves_above_8", empty_bins_from(counts, CHAPTER_EDGES, 8))
    claim.measured("longer_bars_for_larger_counts", same_order(counts, PRINTED_BARS))
    for edge, count in counts_by_edge(residual_streams).items():
        claim.measured(f"count_{edge}" if edge in CHAPTER_EDGES[:-1] else f"more_from_{edge}", count)
    h = residual_streams.layer(16)
    claim.measured("empty_octaves_below_the_top", empty_octaves_below_top(dimension_maxima(h)))
    claim.measured("counts", octave_histogram(dimension_maxima(h), octave_edges(largest_of_all(h))))
    rest = dimension_maxima(without_its_peak(h))
    claim.measured("counts_without_the_position_of_the_top", octave_histogram(rest, octave_edges(float(rest.max()))))


@claim("activations.fourteen-levels")
@control("the largest code is 128", "largest_code", shifted(1))
@control("codes of one sign alone are counted", "levels_within", faults.one_sign_only)
@control("every token has a scale of its own", "level_use", faults.one_scale_per_token)
@control("the last token is left out, not the loudest", "without_its_peak", faults.last_token_left_out)
@misprint("scale", "12.45")
def test_fourteen_levels(claim: Claim, residual_streams: Streams) -> None:
    """The printed figures against each other (no model); the levels that layer 16 uses with and without one token."""
    scale = claim.given("peak") / largest_code(BITS)
    claim.measured("scale", scale)
    claim.measured("codes_of_8_bits", 2**BITS)
    claim.measured("codes_reachable", reachable_codes(BITS))
    claim.measured("code_of_the_99th_percentile", round((claim.given("percentile_99") / scale).high))
    claim.measured("levels_that_the_histogram_allows", levels_within(128, float(scale.value)) + 2)
    for name, measure in FIGURES_OF_LAYER_16.items():
        claim.measured(name, residual_streams.range_at(16, measure))
    h = residual_streams.layer(16)
    claim.measured("levels_used", by_tokens(h, lambda t: level_use(t).levels))
    claim.measured("scale_used", by_tokens(h, lambda t: level_use(t).scale))
    claim.measured("share_of_zeros", by_tokens(h, lambda t: level_use(t).zero_share))
    others = without_positions(printed_formula(h, BITS)[0], [layer_peak(h).position])
    claim.measured("levels_of_the_other_tokens_under_that_scale", distinct_levels(others))
    claim.condition("only for a tensor that contains the token which carries the outlier")


@claim("activations.one-level")
@control("the largest code is 128", "largest_code", shifted(1))
@control("magnitudes are rounded up to the next level", "levels_within", faults.rounding_up)
@control("the top four dimensions stay in the tensor", "levels_of_dimension", faults.nothing_left_out)
@control("every token has a scale of its own", "level_use", faults.one_scale_per_token)
@control("the last token is left out, not the loudest", "without_its_peak", faults.last_token_left_out)
@misprint("scales_ratio", "21")
@misprint("peak_behind_the_scale", "1,579.5")
@misprint("levels_336", "2")
def test_one_level(claim: Claim, model: PreTrainedModel, model_info: ModelInfo, residual_streams: Streams) -> None:
    """The printed scales and maxima against each other (no model); dimensions of the same rank, in our prose."""
    compare_the_printed_scales(claim)
    measure_the_named_dimensions(claim, residual_streams, model_info.is_chapter)
    claim.measured("scale", residual_streams.range_at(16, lambda t: level_use(t).scale))
    small = residual_streams.range_at(16, lambda t: level_use(without_top_dimensions(t, 4)[0]).scale)
    claim.measured("scale_without_top_4", small)
    h = residual_streams.layer(16)
    alike = {f"like {d}": dimension_at_quantile(h, rank) for d, rank in NAMED.items()}
    claim.measured("levels_at_the_same_quantiles", {k: levels_of_dimension(h, d) for k, d in alike.items()})
    fewer = {k: levels_of_dimension(h, d, without_top=4) for k, d in alike.items()}
    claim.measured("levels_at_the_same_quantiles_without_top_4", fewer)
    claim.measured("bits_used", by_tokens(h, lambda t: level_use(t).bits))
    claim.measured("share_of_dimensions_on_one_level", one_level_shares(model, residual_streams))
    claim.measured("scale_by_tokens", by_tokens(h, lambda t: level_use(t).scale))
    claim.condition("only in the residual stream, and only together with the token that carries the outlier")


@claim("activations.naive-rounding")
@control("the stream has a scale per token in both runs: its loss", f"{RUNS}.added", faults.per_token_for_per_tensor)
@control("the stream has a scale per token in both runs: its choices", f"{RUNS}.kept", faults.per_token_for_per_tensor)
@control("the loss itself is taken, not what rounding adds", f"{RUNS}.added", faults.whole_loss)
@control("the stream and the rest are exchanged", f"{RUNS}.changed_over", faults.turned_round)
def test_naive_rounding(claim: Claim, model: PreTrainedModel, rounded_runs: Runs, technique_texts: Texts) -> None:
    """INT8 weights and, one after the other, inputs or residual stream rounded to 8 bits; windows of prose, paired."""
    measure_rounding(claim, rounded_runs)
    show_rounding(claim, rounded_runs, lost_by_layer(model, technique_texts))


@claim("activations.techniques")
@control("errors are compared the wrong way round", f"{DEPENDENCE}.drop", result(lambda drop: 1 - 1 / (1 - drop)))
@control("the outliers are not left out", f"{DEPENDENCE}.gain_left", faults.outliers_still_there)
@control("techniques for weights are not looked at", f"{TABLES}.TECHNIQUES", faults.without_weight_techniques)
def test_techniques(
    claim: Claim, model: PreTrainedModel, technique_dependence: Dependence, technique_runs: Runs
) -> None:
    """Each technique on every matrix of two blocks, with the outliers and without; calibrated on other texts."""
    measure_techniques(claim, technique_dependence)
    show_techniques(claim, technique_dependence, technique_runs)


def largest_of_all(stream: Tensor) -> float:
    """The largest magnitude in a tensor of any shape."""
    return float(stream.abs().max())


def largest_median_dimension(stream: Tensor) -> float:
    """Over the layers of a stream (L, T, D), the largest that the median dimension's maximum gets."""
    return max(layer_peak(h).median_dimension for h in stream)


def counts_by_edge(streams: Streams) -> dict[int, Estimate]:
    """The histogram of the maxima at layer 16 by the bins' lower edges, each count with its range over the prompts."""
    edges = octave_edges(max(largest_of_all(stream) for stream in streams.streams.values()))

    def count(h: Tensor, bin_index: int) -> int:
        return octave_histogram(dimension_maxima(h), edges)[bin_index]

    return {edge: streams.range_at(16, partial(count, bin_index=i)) for i, edge in enumerate(edges[:-1])}


def positions_by_prompt(streams: Streams, dimension: int) -> dict[str, int]:
    """How many positions of each prompt carry the dimension's value at layer 16."""
    return {name: len(carriers(stream[streams.depth(16)], dimension)) for name, stream in streams.streams.items()}


def layer_20_with_layer_4_erased(model: PreTrainedModel, streams: Streams, dimension: int) -> float:
    """The dimension's largest magnitude at layer 20 if it is set to zero, at every position, after layer 4."""

    from lib.activations import residual_stream

    def erase(h: Tensor) -> Tensor:
        h[..., dimension] = 0
        return h

    edits = {streams.depth(4): erase}
    stream = residual_stream(model, streams.prompts[PROSE], last_block=streams.depth(20), edits=edits)
    return largest(stream[-1, 0], dimension)


def random_peak_ratio(model: PreTrainedModel, ids: Tensor) -> float:
    """The largest magnitude over the median one, in the layer where that is most, with random weights."""
    from lib.activations import random_residual_stream

    peaks = [layer_peak(h) for h in random_residual_stream(model.config, ids)[:, 0]]
    return max(p.peak / p.median_magnitude for p in peaks)


def values_of_first_tokens(model: PreTrainedModel, vocab: int, depth: int, dimension: int) -> Tensor:
    """The dimension's magnitude at the first position, for random tokens there. No later token can change it."""
    import torch

    from lib.activations import residual_stream
    from lib.decoding import random_tokens

    ids = random_tokens(FIRST_TOKENS, min(vocab, model.config.vocab_size)).view(-1, 1)
    batches = [residual_stream(model, part, last_block=depth)[-1, :, 0] for part in ids.split(SWEEP_BATCH)]
    return torch.cat(batches)[:, dimension].abs()


def share_of(mask: Tensor) -> Estimate:
    """The share of true entries with its 95 % Wilson interval."""
    from lib.proportions import wilson_interval

    return wilson_interval(int(mask.sum()), mask.numel())


def over_median(values: dict[str, float]) -> dict[str, float]:
    """Every value over the median of all."""
    middle = median(values.values())
    return {name: value / middle for name, value in values.items()}


def same_order(counts: Sequence[Number], bars: Sequence[int]) -> bool:
    """Whether a larger count always has the longer bar."""
    pairs = list(zip(counts, bars, strict=True))
    return all(bar > other for count, bar in pairs for less, other in pairs if count > less)


def by_tokens(h: Tensor, measure: Callable[[Tensor], float]) -> dict[str, float]:
    """A measure of h (T, D), and of h without the one position where its largest magnitude is."""
    return {ALL_TOKENS: measure(h), OTHER_TOKENS: measure(without_its_peak(h))}


def one_level_shares(model: PreTrainedModel, streams: Streams) -> dict[str, float]:
    """Share of dimensions on one level, one scale per tensor: layer 16, and what the next layer's products read."""
    from lib.activations import linear_inputs

    in_stream = by_tokens(streams.layer(16), lambda t: level_use(t).one_level_share)
    shares = {f"residual stream, {tokens}": share for tokens, share in in_stream.items()}
    prefix = f"layers.{streams.depth(16) + 1}."
    for name, read in linear_inputs(model, streams.prompts[PROSE], keep=lambda x: x[0].cpu()).items():
        if name.startswith(prefix):
            shares[f"input of {name.rpartition('.')[2]}"] = level_use(read).one_level_share
    return shares


def compare_the_printed_scales(claim: Claim) -> None:
    """What follows from the two printed scales and the three printed maxima alone."""
    scale, small = claim.given("scale"), claim.given("scale_without_top_4")
    fifth = small * largest_code(BITS)
    claim.measured("peak_behind_the_scale", scale * largest_code(BITS))
    claim.measured("scales_ratio", scale / small)
    claim.measured("codes_of_8_bits", 2**BITS)
    claim.measured("fifth_largest_lies_where_the_histogram_has_one", 64 <= fifth.low <= fifth.high < 128)
    for dimension in NAMED:
        bound = float(claim.given(f"largest_{dimension}").high)
        claim.measured(f"levels_{dimension}", levels_within(bound, float(scale.low)))
        claim.measured(f"levels_{dimension}_could_take_without_top_4", levels_within(bound, float(small.low)))


def measure_the_named_dimensions(claim: Claim, streams: Streams, is_chapter: bool) -> None:
    """The three named dimensions, on the chapter's weights: elsewhere a dimension's number means nothing."""
    for index in NAMED:
        figures: dict[str, Callable[[Tensor], float]] = {
            f"largest_{index}": partial(largest, dimension=index),
            f"levels_{index}_without_top_4": partial(levels_of_dimension, dimension=index, without_top=4),
        }
        for name, measure in figures.items():
            if is_chapter:
                claim.measured(name, streams.range_at(16, measure))
            else:
                claim.not_measured(name, "needs the chapter's own weights: elsewhere the number means nothing")
