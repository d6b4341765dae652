"""The size of the key-value cache: the formula against real tensors, and where it stops being the whole truth.

Torch is imported by the tests that need tensors, so that those with arithmetic alone start at once.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from claims import cache_size_faults as faults
from lib.cache_bytes import cache_shape, filled_cache, kv_bytes_per_token, storage_bytes, tensor_shapes, view_bytes
from lib.intervals import printed
from lib.units import in_unit, stated_bytes
from lib.unmeasurable import Unmeasurable
from reports.claim import Claim, claim
from reports.controls import control, misprint, uncontrolled
from reports.plants import scaled

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FP16 = 2  # bytes
SEVEN_B_TOKEN = kv_bytes_per_token(32, 8, 128, FP16)
LONG_CONTEXT = 128_000
SPLITS = ((32, 2_048), (64, 1_024), (128, 512))  # users × tokens, as printed
LENGTHS = (48, 24, 12, 12)  # one padded batch: half of its 4 × 48 slots hold a token
GRID = tuple(product((1, 2, 5), (1, 7, 64, 295)))  # batch × tokens
CONTEXTS = (2, 64, 1_024, 32_768)


@claim("cache-size.formula-12288")
@control("keys alone are counted", "kv_bytes_per_token", scaled(0.5))
@control("one layer too many is counted", "kv_bytes_per_token", scaled(Fraction(25, 24)))
@misprint("bytes_per_token", "12,289")
def test_formula_12288(claim: Claim) -> None:
    """The formula with the numbers the chapter gives; no tensors here, see allocator-295 for those."""
    claim.measured("bytes_per_token", kv_bytes_per_token(layers=24, kv_heads=2, head_dim=64, dtype_bytes=FP16))


@claim("cache-size.allocator-295")
@control("the values of the last layer are not counted", "lib.cache_bytes._tensors", faults.without_last)
@control("the cache is read with heads and positions exchanged", "tensor_shapes", faults.heads_and_positions_exchanged)
@control("the model runs in the format of its weights, fp32", "lib.slim_models.cast_copy", faults.not_cast)
@misprint("bytes", "3,624,961")
@misprint("tokens", "296")
def test_allocator_295(claim: Claim, model: PreTrainedModel) -> None:
    """This model cast to fp16, 295 random tokens, one prefill: shapes, and bytes of the storages behind the tensors."""
    import torch

    from lib.decoding import prefill, random_tokens
    from lib.slim_models import cast_copy

    half = cast_copy(model, torch.float16)
    cache = prefill(half, random_tokens(295, half.config.vocab_size)).cache
    ((batch, kv_heads, tokens, head_dim),) = tensor_shapes(cache)
    claim.measured("bytes", storage_bytes(cache))
    claim.measured("bytes_per_token", Fraction(storage_bytes(cache), tokens))
    for name, value in {"batch": batch, "kv_heads": kv_heads, "tokens": tokens, "head_dim": head_dim}.items():
        claim.measured(name, value)
    claim.measured("bytes_of_views", view_bytes(cache), "byte")
    claim.protocol(dtype="float16", seed=0)


@claim("cache-size.exact-everywhere")
@control("the values of the last layer are not counted", "lib.cache_bytes._tensors", faults.without_last)
@control(
    "one position is lost in each row of a batch", "lib.cache_probes.storage_bytes", faults.a_position_less_per_row
)
@control("all three kinds are the growing cache", "lib.cache_probes._held_after_step", faults.in_a_growing_cache)
def test_exact_everywhere(claim: Claim, model: PreTrainedModel) -> None:
    """Batch × length × dtype on a small model with this cache, this model once, and two other kinds of cache."""
    from lib.cache_probes import PROMPT, WINDOW, held_at, held_by_kind, held_on_grid

    grid = {**held_on_grid(model.config, GRID), "this model, 3 × 17": held_at(model, 3, 17)}
    claim.measured("largest_error", max(abs(held.actual_bytes - held.formula_bytes) for held in grid.values()))
    kinds = held_by_kind(model.config)
    claim.measured("exact_for", {kind: held.exact for kind, held in kinds.items()})
    claim.measured("bytes_over_formula", {kind: held.ratio for kind, held in kinds.items()}, "1")
    claim.condition("the cache grows token by token and every layer attends to the whole context")
    claim.protocol(grid_points=len(grid), window=WINDOW, prompt=PROMPT)


@claim("cache-size.division-of-users")
@control("padding counts as tokens", "lib.cache_probes.occupancy", faults.padding_as_tokens)
@control("every user has one slot more than tokens", "filled_cache", faults.one_slot_more)
@misprint("tokens", "65,535")
@misprint("megabytes", "769")
def test_division_of_users(claim: Claim, model: PreTrainedModel) -> None:
    """The three divisions as real fp16 tensors at full size; then one padded batch of unequal lengths on this model."""
    import torch

    from lib.cache_probes import padded_batch

    shape = cache_shape(model.config)
    held = {f"{b} × {n}": storage_bytes(filled_cache(shape, b, n, torch.float16)) for b, n in SPLITS}
    claim.measured("tokens", {f"{b} × {n}": b * n for b, n in SPLITS})
    claim.measured("megabytes", {split: in_unit(count, "MiB") for split, count in held.items()})
    claim.measured("megabytes_decimal", {split: in_unit(count, "MB", "decimal") for split, count in held.items()}, "MB")
    padding = padded_batch(model, LENGTHS).wasted_share
    claim.measured("only_tokens_matter", {"equal lengths": len(set(held.values())) == 1, "unequal": padding == 0})
    claim.measured("padding_share", padding, "1")
    claim.condition("no slot holds padding: rows of equal length, or packed or paged")
    claim.protocol(lengths=list(LENGTHS))


@claim("cache-size.full-mha")
@control("the values of the last layer are not counted", "lib.cache_bytes._tensors", faults.without_last)
@control("the full model keeps the shared heads", "lib.cache_probes.bytes_per_token_with", faults.shared_anyway)
@control("a KB is a thousand bytes", "in_unit", faults.decimal)
@misprint("query_heads", "15")
@misprint("bytes_per_token", "86,017")
@misprint("ratio", "6")
def test_full_mha(claim: Claim, model: PreTrainedModel) -> None:
    """This architecture built twice, with its own key-value heads and with one per query head; real fp16 tensors."""
    from lib.cache_probes import bytes_per_token_with

    own, heads = cache_shape(model.config).kv_heads, model.config.num_attention_heads
    grouped, full = bytes_per_token_with(model.config, own), bytes_per_token_with(model.config, heads)
    claim.measured("query_heads", heads)
    claim.measured("bytes_per_token", full)
    claim.measured("kib_per_token", in_unit(full, "KiB"))
    claim.measured("kib_per_token_grouped", in_unit(grouped, "KiB"))
    claim.measured("ratio", full / grouped)
    claim.measured("kb_decimal", [in_unit(full, "KB", "decimal"), in_unit(grouped, "KB", "decimal")], "KB")


@claim("cache-size.mqa-limit")
@control("three heads for fourteen queries run, too", "lib.cache_probes.possible_kv_heads", faults.three_heads_run)
@control("a single head is kept twice", "lib.cache_probes.possible_kv_heads", faults.single_head_twice)
def test_mqa_limit(claim: Claim, model: PreTrainedModel) -> None:
    """Every number of key-value heads up to one per query head: which ones run, and what they divide the cache by."""
    from lib.cache_probes import possible_kv_heads

    heads, runs = model.config.num_attention_heads, possible_kv_heads(model.config)
    divided = {n: runs[heads] / per_token for n, per_token in runs.items()}
    claim.measured("whole_number", {n: factor.denominator == 1 for n, factor in divided.items()})
    claim.measured("one_head_is_the_limit", max(divided.values()) == divided[1] == heads)
    claim.measured("cache_divided_by", divided, "1")
    claim.note("Numbers that do not divide the query heads into equal groups do not run at all.")


@claim("cache-size.no-arithmetic-bought")
@control("the projections of keys and values are not counted", "lib.layer_macs.decode_step_macs", faults.no_projections)
@control("scores are counted once per shared head", "lib.layer_macs.decode_step_macs", faults.once_per_shared_head)
def test_no_arithmetic_bought(claim: Claim, model: PreTrainedModel) -> None:
    """Matrix products of one layer at its real width, one decoded token, counted per module: grouped against full."""
    from lib.layer_macs import saved_shares

    kv_heads = cache_shape(model.config).kv_heads
    if kv_heads == model.config.num_attention_heads:
        raise Unmeasurable("this model has a key-value head for every query head: it shares none")
    own = {n: saved_shares(model.config, kv_heads, n) for n in CONTEXTS}
    claim.measured("saved_in_scores_and_mix", {n: 100 * part["scores and mix"] for n, part in own.items()})
    claim.measured("saved_in_the_layer", {n: 100 * part["layer"] for n, part in own.items()})
    claim.measured("saved_in_projections", 100 * own[CONTEXTS[0]]["projections"], "%")
    one_head = {n: 100 * saved_shares(model.config, 1, n)["layer"] for n in CONTEXTS}
    claim.measured("saved_in_the_layer_one_head", one_head, "%")
    claim.note("Norms, rotation and softmax are not counted; prefill saves the same projections for every token.")


@claim("cache-size.gqa-quality")
@uncontrolled("settled by the literature: nothing runs here")
def test_gqa_quality(claim: Claim) -> None:
    """Nothing to execute: a comparison needs models trained alike with different numbers of key-value heads."""
    claim.not_measured("ordered_as_stated", "needs models trained alike at each number of heads; literature only")
    claim.note("The source cited for grouped queries calls their quality close to multi-head, not equal to it.")


@claim("cache-size.seven-b-cache")
@control("one layer too many is counted", "SEVEN_B_TOKEN", lambda size: size * 33 // 32)
@control("a KB is a thousand bytes", "in_unit", faults.decimal)
@misprint("kib_per_token", "129")
def test_seven_b_cache(claim: Claim) -> None:
    """The formula with the architecture the chapter names; the tensors of that shape are in the instrument's test."""
    claim.measured("kib_per_token", in_unit(SEVEN_B_TOKEN, "KiB"))
    claim.measured("kb_decimal", in_unit(SEVEN_B_TOKEN, "KB", "decimal"), "KB")


@claim("cache-size.cache-beats-weights")
@control("keys alone are counted", "SEVEN_B_TOKEN", lambda size: size // 2)
@control("the weights take four bytes each", "stated_bytes", scaled(2))
@control("a GB is a thousand million bytes", "in_unit", faults.decimal)
@misprint("weights_gb", "13.1")
@misprint("crossover_tokens", "106,000")
def test_cache_beats_weights(claim: Claim) -> None:
    """One user's cache against fp16 weights, 13.0 GB read both ways, and the context where the two are equal."""
    weights = {c: stated_bytes("13.0", "GB", c) for c in ("decimal", "binary")}
    claim.measured("weights_gb", in_unit(FP16 * 7 * 10**9, "GiB"))
    claim.measured("cache_over_weights", {c: LONG_CONTEXT * SEVEN_B_TOKEN / w for c, w in weights.items()})
    claim.measured("crossover_tokens", {c: w / SEVEN_B_TOKEN for c, w in weights.items()})
    claim.measured("cache", [in_unit(LONG_CONTEXT * SEVEN_B_TOKEN, u, "decimal") for u in ("GB", "GiB")], "GB, GiB")
    claim.measured("crossover_tokens_int8_weights", printed("7e9").value / SEVEN_B_TOKEN, "token")
