"""The key-value cache removes redundant arithmetic: what stays equal, what it costs, and what fills the memory.

Torch is imported by the tests that need tensors, so that those with arithmetic alone start at once.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from claims import kv_cache_faults as faults
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import reads, scaled, shifted

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from fixtures.timing import Timings
    from lib.intervals import Estimate

PROMPT, REPLY = 40, 256  # the chapter's prompt, and the reply of its memory measurement: 295 positions at the end
TOKENS, SHORT_REPLY, PASS_STRIDE = 48, 12, 16  # the chapter's reply; one to see growth; passes timed: every sixteenth
REPLY_LENGTHS = (1, 2, 4, 12, 24, 48, 96)  # the last is extrapolated
SHORT_TEXTS = (1, 8, 32)  # positions of passes that a cache would hardly save
PASSES_BUDGET_S, HEAD_BUDGET_S = 12.0, 4.0
PREFIX, SEQUENCE = 24, 40  # positions compared, and positions of the longer computation
LOOP_TOKENS, SHORT_LOOP = 16, 8
FP32_TOKENS, TIE_TOKENS = 6, 2  # the first token comes out of the prefill, the same computation with and without
HEAD_DIM, POSITIONS, FP32 = 64, 4_096, 4  # the chapter's head; bytes
COUNTED_TOKENS = 10  # for the head that really executes every product
REPLIES = (48, 256, 1_024, 4_096, 16_384, 32_768)  # the last is the context that the chapter's model was built for
DECODE = ((1, 16), (1, 256), (1, 2_048), (8, 16), (8, 256))  # rows x context
KEPT_TOKENS = (16, 48)
STEP_TOKENS = (128, 1_024, 2_048, 4_096, 16_384)  # tokens in one training step
SCHEME_TOKENS = 32
PRINTED_FACTOR = 8.3
MODEL_PENALTY = 1.1  # in the published generation config of the chapter's model


@claim("kv-cache.causal-prefix")
@control("every position sees the one after it, too", "lib.decoding.forward", faults.looks_ahead)
@control(
    "every step is given the position after its own", "lib.kv_prefix.decode_step", faults.a_position_late, slow=True
)
@control("the cache is compared with itself", "lib.kv_prefix.prefix_differences", faults.with_itself, slow=True)
@pytest.mark.usefixtures("in_fp32")
def test_causal_prefix(claim: Claim, model: PreTrainedModel) -> None:
    """24 of 40 random positions, fp32, every layer; recomputed three ways. The same in bf16 is context."""
    import torch

    from lib.decoding import random_tokens
    from lib.kv_prefix import bit_equal, largest, rounding_bound, study_prefix
    from lib.slim_models import cast_copy

    ids, bound = random_tokens(SEQUENCE, model.config.vocab_size), rounding_bound(model.config, torch.float32)
    found = study_prefix(model, ids, PREFIX)
    claim.measured("bit_for_bit", {way: bit_equal(layers) for way, layers in found.ways.items()})
    claim.measured("difference_over_rounding", {way: largest(layers) / bound for way, layers in found.ways.items()})
    claim.measured("other_past_over_rounding", min(layer.relative for layer in found.other_past) / bound)
    coarse = study_prefix(cast_copy(model, torch.bfloat16), ids, PREFIX)
    for name, study in {"fp32": found, "bf16": coarse}.items():
        claim.measured(f"largest_difference_{name}", {way: largest(layers) for way, layers in study.ways.items()})
        claim.measured(f"difference_by_layer_{name}", [layer.relative for layer in study.shorter])
    claim.condition("both computations have the same shapes; otherwise up to rounding")
    claim.protocol(prefix=PREFIX, positions=SEQUENCE, seed=0)


@claim("kv-cache.loop-as-printed")
@control("the loop reads its whole text again at every step", "lib.printed_loop.printed_loop", faults.rereading_loop)
@control("the loop hands no cache on", "lib.printed_loop.printed_loop", faults.forgetful_loop)
@control("generate penalizes repetition as the model's config asks", "lib.decoding.greedy_generate", faults.penalized)
@control("warnings are not read", "lib.printed_loop._REMOVED_IN", lambda _: re.compile("(?!)"), slow=True)
@misprint("tokens_per_step", "2", slow=True)
def test_loop_as_printed(claim: Claim, model: PreTrainedModel) -> None:
    """The printed loop, call for call, 16 tokens after four random ones said three times, beside generate."""
    import torch
    import transformers

    from lib.decoding import greedy_generate, random_tokens, refuse_broken
    from lib.printed_loop import run_printed_loop

    ids = random_tokens(4, model.config.vocab_size).repeat(1, 3).to(model.device)  # a penalty would show
    run = run_printed_loop(model, ids, LOOP_TOKENS)
    refuse_broken(model, torch.cat([ids, run.tokens.to(ids.device)], dim=1))
    announced = {f"{run.removal}, by its own warning": False} if run.removal else {}
    claim.measured("runs", {f"{transformers.__version__}, installed": run.ran, **announced})
    claim.measured("tokens_per_step", max(run.fed[1:], default=0))
    claim.measured("same_tokens_as_generate", torch.equal(run.tokens, greedy_generate(model, ids, LOOP_TOKENS, 1.0)))
    penalised = greedy_generate(model, ids, LOOP_TOKENS, MODEL_PENALTY)
    claim.measured("same_tokens_as_generate_with_penalty", torch.equal(run.tokens, penalised))
    claim.measured("deprecation_warnings", run.warned)
    claim.condition("a transformers release that still takes past_key_values")
    claim.note(run.failure or "The loop passes no repetition penalty; generate does whatever the model's config says.")


@claim("kv-cache.output-identical")
@control(
    "every step is given the position after its own", "lib.decoding.decode_step", faults.a_position_late, slow=True
)
@pytest.mark.usefixtures("in_fp32")
def test_output_identical(claim: Claim, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Both loops really run: 12 prompts in fp32; in 16 bits, prompts where a search on the sibling saw them part."""
    import torch

    from fixtures.continuations import near_ties, prompt_ids
    from lib.greedy_compare import cached_against_uncached, share_that_differs
    from lib.kv_prefix import rounding_bound
    from lib.slim_models import cast_copy

    full = cached_against_uncached(model, prompt_ids(tokenizer), FP32_TOKENS)
    bound, differing = rounding_bound(model.config, torch.float32), {"float32": share_that_differs([full])}
    for name, number_format in {"float16": torch.float16, "bfloat16": torch.bfloat16}.items():
        coarse = cast_copy(model, number_format)
        runs = [cached_against_uncached(coarse, prompt, TIE_TOKENS) for prompt in near_ties(tokenizer, name)]
        differing[name] = share_that_differs(runs)
        claim.measured(f"gap_where_they_part_{name}", [d.top2_gap for run in runs for d in run.divergences], "logit")
        claim.measured(f"logit_difference_{name}", [run.logit_difference for run in runs], "logit")
        del coarse  # one copy at a time
    claim.measured("choices_that_differ", differing)
    claim.measured("logit_difference_over_rounding", full.logit_difference / full.largest_logit / bound)
    closest = full.smallest_gap / full.logit_difference if full.logit_difference else math.inf
    claim.measured("closest_call_over_logit_difference_fp32", closest)
    claim.protocol(fp32_choices=full.tokens, tokens_in_16_bits=TIE_TOKENS)


@claim("kv-cache.ninefold")
@control("the cached run recomputes", "lib.lockstep.passes_of", faults.recomputing, slow=True)
@control("the two runs are exchanged", "lib.lockstep.generation_factor", faults.inverse, slow=True)
@control("the two lengths are exchanged", "lib.lockstep.growth", faults.inverse, slow=True)
@misprint("tokens", "47", slow=True)
@misprint("prefill_s", "0.9800", slow=True)
def test_ninefold(claim: Claim, model: PreTrainedModel, timings: Timings) -> None:
    """Random tokens, 40 + 48, batch 1; four of its passes, in an order drawn anew each round.

    The interval is Student's t around a straight line through the timed passes. The printed factor needs its machine.
    """
    from lib import lockstep

    numbers = lockstep.timed_passes(TOKENS, PASS_STRIDE)
    rounds = lockstep.warmed(
        timings.rounds(lockstep.lockstep_actions(model, PROMPT, numbers, SHORT_TEXTS)),
        lockstep.called(lockstep.EVERY, numbers[-1]),
    )

    def factor(kind: str, tokens: int) -> Estimate:
        return lockstep.generation_factor(lockstep.passes_of(rounds, numbers, kind), tokens)

    def more() -> dict[str, Estimate]:
        return {
            kind: lockstep.growth(lockstep.passes_of(rounds, numbers, kind), TOKENS, SHORT_REPLY)
            for kind in lockstep.KEPT
        }

    rounds.until(
        lambda: claim.settles("faster", factor(lockstep.EVERY, TOKENS)) and claim.settles("growth", more()),
        PASSES_BUDGET_S,
    )
    claim.measured("speedup", factor(lockstep.EVERY, TOKENS))
    claim.measured("tokens", TOKENS)
    claim.measured("faster", {kind: factor(kind, TOKENS) for kind in lockstep.KEPT})
    claim.measured("growth", more())
    timings_printed = claim.given("prefill_s"), claim.given("step_s")
    claim.measured("predicted_from_its_own_timings", lockstep.predicted_factor(*timings_printed, PROMPT, TOKENS))
    for kind in (lockstep.EVERY, lockstep.LAST):
        by_length = lockstep.factors(lockstep.passes_of(rounds, numbers, kind), REPLY_LENGTHS)
        claim.measured(f"factor_by_tokens, {kind}", {tokens: f.value for tokens, f in by_length.items()}, "1")
    claim.measured("whole_pass_over_step", lockstep.pass_over_step(rounds, numbers, SHORT_TEXTS), "1")
    claim.protocol(**rounds.facts(), prompt=PROMPT, passes_timed=len(numbers), dtype=number_format(model))


@claim("kv-cache.head-matrix")
@control("the context is one position too long", "lib.peak_memory.head_step_peak", faults.a_position_more)
@control("scores count two bytes each", "lib.peak_memory.largest_tensor", faults.half_as_large)
@control("the cached step computes two rows", "lib.peak_memory.head_step_peak", faults.two_rows)
@control("MB and KB are powers of 1024", "lib.units.in_unit", faults.binary)
@misprint("uncached_mb", "68")
@misprint("cached_kb", "17")
@misprint("positions", "4,095")
def test_head_matrix(claim: Claim) -> None:
    """One explicit head, really run: the largest matrix of scores alive, and everything alive at the peak."""
    from lib.attention import score_bytes
    from lib.peak_memory import head_step_peak, largest_tensor
    from lib.units import conventions, in_unit

    square, row = (head_step_peak(rows, POSITIONS, HEAD_DIM) for rows in (POSITIONS, 1))
    scores, one_row = largest_tensor(square), largest_tensor(row)
    claim.measured("uncached_mb", in_unit(scores.storage_bytes, "MB"))
    claim.measured("cached_kb", in_unit(one_row.storage_bytes, "KB"))
    claim.measured("rows", one_row.shape[0])
    claim.measured("positions", one_row.shape[1])
    claim.measured("square", scores.shape == (POSITIONS, POSITIONS))
    claim.measured("peak_mb", {"uncached": in_unit(square.live_bytes, "MB"), "cached": in_unit(row.live_bytes, "MB")})
    read_by_both = 2 * score_bytes(POSITIONS, HEAD_DIM, FP32)  # keys and values
    total = {"uncached": scores.storage_bytes + read_by_both, "cached": one_row.storage_bytes + read_by_both}
    claim.measured("ratio_with_keys_and_values", total["uncached"] / total["cached"])
    claim.measured("units_of_67_mb", sorted(conventions("67", "MB", scores.storage_bytes)))
    claim.measured("units_of_16_kb", sorted(conventions("16", "KB", one_row.storage_bytes)))


@claim("kv-cache.head-scaling")
@control("steps per sample are not divided out", "lib.head_scaling.slopes_over", faults.one_step_a_sample, slow=True)
@control("one multiply-accumulate too many a step", "lib.head_scaling.macs_cached_step", shifted(1), slow=True)
@misprint("power_uncached", "3", slow=True)
def test_head_scaling(claim: Claim, timings: Timings) -> None:
    """One head in fp32, scores written out: slopes over a short and a long range of contexts, recomputed and cached."""
    from lib.head_scaling import CACHED, RECOMPUTED, head_actions, measured_slopes, operation_slope, sizes_of, step_ms

    for name, ranges in {"uncached": RECOMPUTED, "cached": CACHED}.items():
        cached, sizes = name == "cached", sizes_of(ranges)
        rounds = timings.rounds(head_actions(sizes, HEAD_DIM, cached, timings.model.device))
        slopes = partial(measured_slopes, rounds, ranges, HEAD_DIM, cached)
        rounds.until(lambda name=name, slopes=slopes: claim.settles(f"slope_{name}", slopes()), HEAD_BUDGET_S)
        claim.measured(f"power_{name}", operation_slope(sizes, HEAD_DIM, cached))
        claim.measured(f"slope_{name}", slopes())
        claim.measured(f"step_ms_{name}", step_ms(rounds, sizes, HEAD_DIM, cached), "ms")
        claim.protocol(**{f"{fact}_{name}": value for fact, value in rounds.facts().items()})
    claim.condition("contexts long enough for the fixed cost of a call to vanish")


@claim("kv-cache.mac-sums")
@control("without a cache only the last row is computed", "lib.attention.counted_square", faults.last_row_only)
@control("the two sums are exchanged", "lib.attention.macs_ratio", faults.inverse)
@control("a whole model is counted by its attention", "lib.generation_macs.macs_of_generation", faults.attention_alone)
@control("the weighted sum of values is not counted", "lib.generation_macs.macs_of_generation", faults.scores_alone)
@misprint("power_cached", "1")
@misprint("power_uncached", "4")
def test_mac_sums(claim: Claim) -> None:
    """Degrees of the executed head's counts; then the chapter's whole model, by closed forms held against real runs."""
    from transformers import AutoConfig

    from fixtures.sources import CHAPTER_SHAPE
    from lib.attention import counted_generation, macs_ratio, polynomial_degree
    from lib.generation_macs import growth_exponent, macs_of_generation, tokens_until_attention_dominates

    for name, cached in {"cached": True, "uncached": False}.items():
        claim.measured(f"power_{name}", polynomial_degree(counted_generation(COUNTED_TOKENS, HEAD_DIM, cached)))
    claim.measured("head_ratio", {tokens: macs_ratio(tokens) for tokens in REPLIES})
    config = AutoConfig.for_model(**CHAPTER_SHAPE)
    whole = {cached: {t: macs_of_generation(config, t, cached) for t in REPLIES} for cached in (True, False)}
    claim.measured("attention_share_cached", {t: macs.attention_share for t, macs in whole[True].items()})
    claim.measured("attention_share_uncached", {t: macs.attention_share for t, macs in whole[False].items()})
    claim.measured("model_ratio", {t: whole[False][t].total / whole[True][t].total for t in REPLIES})
    for name, cached in {"cached": True, "uncached": False}.items():
        claim.measured(f"model_power_{name}", {t: growth_exponent(config, t, cached) for t in REPLIES})
        claim.measured(f"attention_dominates_from_{name}", tokens_until_attention_dominates(config, cached), "token")
    claim.condition("one attention head by itself, or a whole model once attention is most of its arithmetic")


@claim("kv-cache.peak-memory")
@control("both programs compute one row of logits", "lib.decoding.ALL_POSITIONS", reads(1))
@control(
    "both programs compute the logits of every position",
    "lib.peak_memory.generation_peaks",
    faults.every_logit,
    slow=True,
)
@control("the weights are part of every peak", "lib.peak_memory.generation_peaks", faults.with_weights(2), slow=True)
@misprint("reply", "255", slow=True)
def test_peak_memory(claim: Claim, model: PreTrainedModel, device: torch.device) -> None:
    """This model in fp16, 40 random prompt tokens, 256 new ones, batch 1: live bytes at the fullest pass, attributed.

    On a GPU the allocator's peaks over whole generations are compared with the printed factor; elsewhere nothing is.
    """
    import torch

    from lib.cache_bytes import cache_shape
    from lib.decoding import ALL_POSITIONS
    from lib.peak_memory import allocator_ratio, described, generation_peaks
    from lib.slim_models import cast_copy

    half = cast_copy(model, torch.float16)
    every, last = (generation_peaks(half, PROMPT, REPLY, keep) for keep in (ALL_POSITIONS, 1))
    on_gpu = device.type == "cuda"
    claim.measured(
        "factor_of_the_allocator", allocator_ratio(half, PROMPT, REPLY, ALL_POSITIONS) if on_gpu else every.ratio
    )
    claim.measured("reply", REPLY)
    claim.measured("factor", {"every position": every.ratio, "the last position only": last.ratio})
    for name, peaks in {"every": every, "last": last}.items():
        claim.measured(f"peak_uncached_{name}", described(half, peaks.uncached))
        claim.measured(f"peak_cached_{name}", described(half, peaks.cached))
    claim.measured("prompt_that_gives_the_printed_factor", every.prompt_for(PRINTED_FACTOR, PROMPT, REPLY), "token")
    multi_head = replace(cache_shape(half.config), kv_heads=half.config.num_attention_heads).bytes_per_token(2)
    claim.measured("factor_last_full_multi_head", last.uncached.live_bytes / (multi_head * (PROMPT + REPLY - 1)))
    claim.condition("both programs compute the logits of every position, though one row is read")
    claim.protocol(prompt=PROMPT, reply=REPLY, dtype="float16", seed=0)


@claim("kv-cache.memory-dominated")
@control("the weights are part of every peak", "lib.peak_memory.phase_peaks", faults.with_weights(4))
@control("keys alone count as the cache", "lib.peak_memory.cache_share", scaled(0.5))
def test_memory_dominated(claim: Claim, model: PreTrainedModel) -> None:
    """The cache's share of live bytes beyond the weights at the fullest moment (fp32 and fp16 give the same)."""
    from lib.peak_memory import cache_share, crossovers, phase_peaks, shares

    peaks = phase_peaks(model, PROMPT, DECODE)
    claim.measured("cache_share", {phase: cache_share(model, peak) for phase, peak in peaks.items()})
    for phase in list(peaks)[:3]:
        claim.measured(f"shares, {phase}", shares(model, peaks[phase]))
    for name, value in crossovers(model).items():
        claim.measured(name, value)
    claim.condition("while decoding, on a context that weighs more than a row of logits, the weights left aside")
    claim.protocol(prompt=PROMPT, dtype=number_format(model), seed=0)


@claim("kv-cache.backward-keeps")
@control("no pass keeps gradients", "lib.backward_memory.forward_with_loss", faults.without_gradients)
@control("recomputing is never turned on", "lib.backward_memory.plain_and_recomputing", faults.plain_twice)
@control(
    "the printed loop turns its gradients off",
    "lib.printed_loop.printed_loop_peak",
    faults.without_gradients,
    slow=True,
)
@control("the passes keep one layer's activations", "lib.backward_memory.keeping", faults.of_one_layer, slow=True)
def test_backward_keeps(claim: Claim, model: PreTrainedModel) -> None:
    """One forward pass with its loss; recomputing on four layers, fp32; the printed loop in both gradient modes."""
    from lib.backward_memory import keeping, plain_and_recomputing, same_gradient, training_state_bytes
    from lib.decoding import random_tokens
    from lib.peak_memory import shares
    from lib.printed_loop import printed_loop_peak

    found, state = keeping(model, KEPT_TOKENS), training_state_bytes(model)
    claim.measured("kept_bytes", found.kept_bytes)
    claim.measured("kept_over_inference", found.over_inference)
    claim.measured("activations_over_training_state", {n: n * found.bytes_per_token / state for n in STEP_TOKENS})
    claim.measured("tokens_until_activations_dominate", state / found.bytes_per_token, "token")
    plain, recomputing = plain_and_recomputing(model.config, SCHEME_TOKENS)
    claim.measured("kept_share", {"plain": plain.kept_share, "recomputing": recomputing.kept_share})
    claim.measured("same_gradient", same_gradient(plain, recomputing))
    ids = random_tokens(PROMPT, model.config.vocab_size).to(model.device)
    lean, printed = (printed_loop_peak(model, ids, SHORT_LOOP, gradients) for gradients in (False, True))
    claim.measured("loop_over_its_need", {"under no_grad": 1.0, "as printed": printed.live_bytes / lean.live_bytes})
    claim.measured("shares_with_gradients", shares(model, found.longest))
    claim.condition(
        "nothing is recomputed, a training step holds thousands of tokens, and inference turns gradients off"
    )


def number_format(model: PreTrainedModel) -> str:
    """The model's, as torch names it."""
    return str(model.dtype).removeprefix("torch.")
