"""Static against continuous batching, and the cache's memory: simulated over thousands of workloads, and on the model.

The published simulation names its workload by four figures. Very different workloads have them (lib/scheduling/family),
so every result here is a range over workloads. Torch is imported by the tests that need tensors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from claims import serving_faults as faults
from claims.serving_tables import (
    PRINTS_AS_16,
    SLOTS,
    both_printed,
    engine_plots,
    load_table,
    prose_requests,
    throughput_plot,
)
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import of_property, reads, result

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from fixtures.corpora import Corpus
    from fixtures.timing import Timings

PER_SHAPE = 2_500  # workloads of each of four shapes of skew
LOADS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
BUSY = 0.6  # the load at which the printed pair is least unlikely
BATCH_WITH_KNOWN_COST = 16
SHORT, LONG = 4, 231
PROMPTS = ((40, 40), (16, 512))  # tokens, from … to
RESERVED = (2_048, 4_096, 32_768)
BLOCKS = (1, 16, 64, 256)
BLOCK = 16
# Tokens of sixteen replies, skewed as the chapter's are (half of them up to 7, the longest 28), drawn once.
REPLIES = (5, 28, 4, 9, 7, 4, 13, 6, 22, 5, 4, 18, 7, 10, 6, 4)
BLOCK_SIZES = (1, 7, 16, 64)
LENGTHS = (1, 6, 7, 8, 63, 64, 65, 130)  # positions, around the ends of blocks
PREFIXES = (8, 15, 16, 24, 32, 40)  # tokens that two prompts have in common
OWN, NEW = 5, 3  # tokens of each prompt after that, and of each reply


@claim("serving.workload")
@control("every reply's end counts as a token of it", "lib.scheduling.family.draw", result(lambda rows: rows + 1))
@misprint("requests", "63")
@misprint("slots", "9")
def test_workload(claim: Claim) -> None:
    """Four shapes of skew, 2,500 workloads each: all of them have exactly the published summary."""
    from lib.scheduling.family import SHAPES, Summary, draw

    drawn = {shape: draw(shape, PER_SHAPE, seed=0) for shape in SHAPES}
    (summary,) = {Summary.of(row) for rows in drawn.values() for row in rows}
    claim.measured("requests", summary.requests)
    claim.measured("median_tokens", summary.median)
    claim.measured("longest_tokens", summary.longest)
    claim.measured("total_tokens", summary.total)
    claim.measured("slots", SLOTS)
    claim.measured(
        "different_workloads", sum(len({tuple(sorted(r)) for r in rows.tolist()}) for rows in drawn.values())
    )


@claim("serving.throughput-1.6")
@control("a static batch's slots are refilled one by one", "lib.scheduling.comparison.simulate_static", faults.refilled)
@control(
    "static over continuous, not the other way round", "lib.scheduling.comparison.throughput_ratio", faults.exchanged
)
@misprint("throughput_ratio", "3.3")
def test_throughput(claim: Claim) -> None:
    """Useful tokens per second over 10,000 workloads: median and central nine tenths, by arrivals and step cost."""
    from lib.scheduling.comparison import central, compare
    from lib.scheduling.cost import affine, constant

    equal = constant(SLOTS)
    further = (float(claim.given("latency_ratio_at_16").value) - 1) / (BATCH_WITH_KNOWN_COST - 1)
    growing = affine(SLOTS, 1.0, further)
    cases = {
        "all at once, steps of equal cost": compare(equal, PER_SHAPE),
        "all at once, cost grows with the rows": compare(growing, PER_SHAPE),
        "the same, padding costs nothing": compare(growing, PER_SHAPE, padding_computed=False),
        **{f"arrivals at random, load {load}": compare(equal, PER_SHAPE, load) for load in LOADS},
    }
    ratios = {name: case.throughput() for name, case in cases.items()}
    claim.measured("throughput_ratio", {name: central(ratio) for name, ratio in ratios.items()})
    low, high = PRINTS_AS_16
    printing = {name: float(((low <= ratio) & (ratio < high)).mean()) for name, ratio in ratios.items()}
    claim.measured("share_of_workloads_that_print_1.6", printing, unit="1")
    claim.condition("arrivals, padding and step cost that the text does not give")
    claim.protocol(workloads=4 * PER_SHAPE, slots=SLOTS, interval="5 to 95 % of workloads")
    throughput_plot(claim, {load: central(ratios[f"arrivals at random, load {load}"]) for load in LOADS})


@claim("serving.latency-10x")
@control("the first token counts as heard with the last", "lib.scheduling.latency.DEFINITIONS", faults.first_as_last)
@control("a static batch's slots are refilled one by one", "lib.scheduling.comparison.simulate_static", faults.refilled)
@control("the total loses its last digit", "lib.scheduling.family.PUBLISHED", lambda real: replace(real, total=187))
@misprint("from_waiting_for_neighbours", "3.0")
def test_latency(claim: Claim) -> None:
    """Mean latency by definition, all at once and at a load of 0.6; then what the given reason can do at most."""
    from lib.scheduling.bounds import most_service_ratio, most_service_ratio_at
    from lib.scheduling.comparison import central, compare
    from lib.scheduling.cost import constant
    from lib.scheduling.family import PUBLISHED
    from lib.scheduling.latency import DEFINITIONS

    at_once, busy = compare(constant(SLOTS), PER_SHAPE), compare(constant(SLOTS), PER_SHAPE, BUSY)
    names = {
        "arrival to answer": "arrival to answer, returned together",
        "admission to answer": "admission to answer, returned together",
        "arrival to first token": "time to first token, returned together",
        "arrival to answer, per token of it": "arrival to answer per token, returned together",
        "admission to answer, per token of it": "admission to answer per token, returned together",
    }
    ratios = {
        f"{short}, {when}": case.latency(DEFINITIONS[name])
        for short, name in names.items()
        for when, case in {"all at once": at_once, f"load {BUSY}": busy}.items()
    }
    claim.measured("latency_ratio", {name: central(ratio) for name, ratio in ratios.items()})
    figures = PUBLISHED.requests, PUBLISHED.total, PUBLISHED.longest
    claim.measured(
        "from_waiting_for_neighbours",
        {
            "any arrivals and order, steps of equal cost": most_service_ratio(*figures),
            "all at once, more rows never cheaper, at the printed throughput": most_service_ratio_at(
                PRINTS_AS_16[1], PUBLISHED.total, PUBLISHED.longest, SLOTS
            ),
        },
    )
    joint = {name: both_printed(busy if str(BUSY) in name else at_once, ratio) for name, ratio in ratios.items()}
    claim.measured("share_of_workloads_with_both_printed_figures", joint, unit="1")
    claim.condition(f"time to the first token, or time per token, of requests that arrive at random; load {BUSY}")
    claim.protocol(workloads=4 * PER_SHAPE, slots=SLOTS, interval="5 to 95 % of workloads")
    load_table(claim, LOADS, PER_SHAPE)


@claim("serving.neighbour")
@control("a static batch lets go of whoever is done", "lib.scheduling.policies.STATIC", faults.one_by_one)
@control("continuous batching answers group by group", "lib.scheduling.policies.CONTINUOUS", faults.as_a_group)
@control("every request runs a step too long", "lib.scheduling.requests.at_once", faults.one_token_more)
@misprint("neighbour_tokens", "230")
def test_neighbour(claim: Claim) -> None:
    """Every pair of slots in a group of eight, other lengths drawn: when the short request is answered, in steps."""
    import numpy as np

    from lib.scheduling.cost import constant
    from lib.scheduling.policies import CONTINUOUS, STATIC
    from lib.scheduling.requests import at_once
    from lib.scheduling.simulate import simulate

    random, answered, alone, streamed = np.random.default_rng(0), set(), set(), set()
    for short in range(SLOTS):
        for long in set(range(SLOTS)) - {short}:
            lengths = random.integers(1, LONG + 1, SLOTS)
            lengths[[short, long]] = SHORT, LONG
            static = simulate(at_once(lengths.tolist()), STATIC, constant(SLOTS), SLOTS)
            continuous = simulate(at_once(lengths.tolist()), CONTINUOUS, constant(SLOTS), SLOTS)
            answered.add(int(static.times.released_s[short]))
            streamed.add(int(static.times.finished_s[short]))
            alone.add(int(continuous.times.released_s[short]))
    claim.measured("short_steps", {"earliest": min(alone), "latest": max(alone)})
    claim.measured("neighbour_tokens", {"earliest": min(answered), "latest": max(answered)})
    claim.measured("answered_if_static_batching_streamed", max(streamed), unit="step")
    claim.protocol(arrangements=SLOTS * (SLOTS - 1), slots=SLOTS)


@claim("serving.slot-refill")
@control("the cache has twice the room that it is said to have", "lib.contiguous_arena.Arena", faults.twice_the_room)
def test_slot_refill(claim: Claim) -> None:
    """Slot-steps that stay idle while a request waits: room in the cache for every slot's longest request, and half."""
    from lib.contiguous_arena import Arena, serve
    from lib.reservation_study import drawn_requests
    from lib.scheduling.cost import constant
    from lib.scheduling.policies import CONTINUOUS
    from lib.scheduling.simulate import simulate

    most = max(PROMPTS[0]) + LONG
    runs = [simulate(requests, CONTINUOUS, constant(SLOTS), SLOTS).steps for requests in drawn_requests(PROMPTS[0])]
    alone = [step for steps in runs for step in steps]
    idle = {"the scheduler alone, no limit": sum(SLOTS - step.held for step in alone if step.waiting)}
    steps = {"the scheduler alone, no limit": len(alone)}
    for name, capacity in {"for every slot": SLOTS * most, "for half of the slots": SLOTS // 2 * most}.items():
        moments = [
            moment
            for requests in drawn_requests(PROMPTS[0])
            for moment in serve(requests, Arena(capacity), lambda _: most, SLOTS)
        ]
        idle[name] = sum(SLOTS - moment.served for moment in moments if moment.waiting)
        steps[name] = len(moments)
    claim.measured("idle_slots_while_a_request_waits", idle)
    claim.measured("steps", steps, unit="step")
    claim.condition("the cache has room for the next request")


@claim("serving.fragmentation")
@control(
    "the share in use is taken for the share that is wasted",
    "lib.reservation.Memory.wasted_share",
    of_property(result(lambda share: 1 - share)),
)
@control(
    "reserved positions count as free, so that every wait counts as fragmentation",
    "lib.contiguous_arena.Arena.free",
    of_property(lambda _: lambda self: self.capacity),
)
@control("a sequence holds a block more than it needs", "lib.reservation_study.in_blocks", faults.a_block_ahead)
def test_fragmentation(claim: Claim) -> None:
    """Continuous batching of drawn workloads, prompts of 40 and of 16 to 512 tokens; positions, step by step."""
    from lib.reservation import exactly, in_blocks, output_up_to, the_maximum
    from lib.reservation_study import kept_out, waste_in_blocks, wasted

    equal = {f"{context:,} positions for every slot": (the_maximum(context), context) for context in RESERVED}
    claim.measured(
        "wasted_share",
        {name: wasted(PROMPTS, LONG, scheme, empty) for name, (scheme, empty) in equal.items()}
        | {"the longest request's positions for every slot": wasted(PROMPTS, LONG)},
    )
    closer = {"prompt and longest answer": output_up_to(LONG), "exactly what it will need": exactly}
    blocks = {f"blocks of {size}": in_blocks(size) for size in BLOCKS}
    claim.measured(
        "wasted_share_of_others",
        {n: wasted(PROMPTS, LONG, scheme) for n, scheme in (closer | blocks).items()},
        unit="1",
    )
    claim.measured("share_of_steps_in_which_holes_keep_a_request_out", kept_out(PROMPTS, LONG, SLOTS))
    claim.measured("waste_over_a_block_per_sequence", {size: waste_in_blocks(PROMPTS, size) for size in BLOCKS[1:]})
    claim.condition("reservations of different sizes; slots of one size, which is what wastes most, never fragment")
    claim.protocol(slots=SLOTS, interval="least to most of all workloads")


@claim("serving.real-engine")
@control(
    "a decoded token does not attend to itself", "lib.serving.attention.Span.mask", faults.blind_to_itself, slow=True
)
@control(
    "the two times are compared the other way round",
    "lib.serving.side_by_side.total_ratio",
    faults.exchanged,
    slow=True,
)
@pytest.mark.usefixtures("in_fp32")
def test_real_engine(
    claim: Claim,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    corpora: dict[str, Corpus],
    timings: Timings,
) -> None:
    """Sixteen prompts of prose on eight slots, greedy, fp32; both policies step by step in turn, then each alone."""
    from lib.serving.engine import Settings
    from lib.serving.reference import TransformersSettings, by_transformers, solo
    from lib.serving.scheduler import Policy
    from lib.serving.side_by_side import run_in_turn, simulated_ratio, step_cost

    requests = prose_requests(tokenizer, corpora, REPLIES)
    blocks = sum(-(-request.positions // BLOCK) for request in requests)
    run = run_in_turn(model, requests, Settings(SLOTS, blocks, BLOCK), timings.threads)
    alone = {request.id: solo(model, request).tokens for request in requests}
    theirs = by_transformers(model, requests, TransformersSettings(SLOTS, blocks, BLOCK, budget=128))
    other = {
        **{
            policy.value: sum(r.tokens != alone[n] for n, r in run.engines[policy].records.items()) for policy in Policy
        },
        "transformers' own engine": sum(tokens != alone[name] for name, tokens in theirs.items()),
    }
    claim.measured("requests_with_other_tokens", other)
    claim.measured("static_over_continuous_seconds", run.time_ratio)
    claim.measured("static_over_continuous_steps", run.step_ratio, unit="1")
    claim.measured("simulated_from_the_same_steps", simulated_ratio(requests, step_cost(run, SLOTS), SLOTS), unit="1")
    claim.protocol(requests=len(requests), slots=SLOTS, block_size=BLOCK, tokens=sum(REPLIES), dtype="float32")
    engine_plots(claim, run)


@claim("serving.paged")
@control("blocks are read as they lie in memory", "lib.paged_cache.storage.PagedStorage.read", faults.in_memory_order)
@control(
    "what is stored is rounded to bf16", "lib.paged_cache.storage.PagedStorage.write", faults.stored_in("bfloat16")
)
def test_paged(claim: Claim, model: PreTrainedModel) -> None:
    """This model's shape, random keys and values, blocks in a random order: read back, and attended to."""
    from lib.cache_bytes import cache_shape
    from lib.paged_cache.probes import scattered

    found = {size: [scattered(cache_shape(model.config), n, size, seed=n) for n in LENGTHS] for size in BLOCK_SIZES}
    claim.measured("read_back_in_order", {size: all(f.equal for f in probes) for size, probes in found.items()})
    claim.measured("attention_that_differs", {size: max(f.attention_gap for f in p) for size, p in found.items()})
    claim.measured("blocks_beside_their_neighbour", sum(f.neighbours for p in found.values() for f in p), unit="block")
    claim.measured("blocks", sum(f.blocks for p in found.values() for f in p), unit="block")
    claim.measured("a_wrong_table_reads", sum(f.swapped_equal for p in found.values() for f in p), unit="table")
    claim.protocol(lengths=len(LENGTHS), heads=model.config.get_text_config().num_attention_heads, seed="the length")


@claim("serving.prefix-sharing")
@control(
    "a prefix is looked up without its first block",
    "lib.paged_cache.hashing.PrefixIndex._child",
    faults.without_its_first_block,
    slow=True,
)
@control("blocks are half as long", "BLOCK", reads(8), slow=True)
@misprint("sharing_sequences", "3", slow=True)
def test_prefix_sharing(claim: Claim, model: PreTrainedModel) -> None:
    """Two random prompts with a common beginning, one after the other while the first still runs; blocks of 16."""
    from lib.serving.prefixes import shared_prefix

    found = {prefix: shared_prefix(model, prefix, OWN, NEW, BLOCK) for prefix in PREFIXES}
    sharing = {prefix: f for prefix, f in found.items() if f.blocks}
    claim.measured("sharing_sequences", {prefix: f.sequences for prefix, f in sharing.items()})
    claim.measured("shared_blocks", {prefix: f.blocks for prefix, f in found.items()})
    claim.measured("tokens_that_differ", {prefix: f.tokens_that_differ for prefix, f in found.items()})
    claim.measured("share_of_the_prefix", {prefix: f.blocks * BLOCK / prefix for prefix, f in found.items()}, unit="1")
    claim.measured("shared_when_not_at_the_beginning", {p: f.shifted_blocks for p, f in found.items()})
    claim.condition(f"whole blocks from the very first token on: here from {BLOCK} common tokens")
    claim.protocol(block_size=BLOCK, own_tokens=OWN, new_tokens=NEW)
