"""Batching: one decode step of several requests, throughput against wait, and what the step is bound by.

Ratios within interleaved rounds (lib/timing), every request with 64 cached tokens, fp32.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from claims.timed import BUDGET_S, over_first, roofline, until_settled
from claims.timed_faults import (
    RATIO,
    as_long_as_one,
    bytes_thrice,
    costs_of,
    in_halves,
    mistaken,
    of_one,
    turned_round,
)
from claims.timed_tables import batch_table
from fixtures.timing import BATCHES, CACHED, PRODUCT, READ
from reports.claim import Claim, claim
from reports.controls import control, misprint

if TYPE_CHECKING:
    from fixtures.timing import Timings

BATCH, AFTER = 16, 32
PERCENT = 100


@claim("batching.batch-16")
@control("a step brings one token, however many requests it has", RATIO, of_one, slow=True)
@control("the two waits are compared the other way round", RATIO, turned_round, slow=True)
@misprint("latency_ratio", "2.66", slow=True)
def test_batch_16(claim: Claim, timings: Timings) -> None:
    """Sixteen requests against one; the printed pair against itself, by arithmetic."""
    rounds = timings.batches
    until_settled(
        claim,
        rounds,
        {
            "throughput_gain": lambda: BATCH * rounds.ratio("1", over=str(BATCH)),
            "latency_cost": lambda: rounds.ratio(str(BATCH), over="1"),
        },
    )
    claim.measured("cached_tokens", CACHED)
    claim.measured("smallest_batch", 1)
    claim.measured("batch", BATCH)
    claim.measured("throughput_from_latency", BATCH / claim.given("latency_ratio"))
    claim.measured("throughput_ratio", BATCH * rounds.ratio("1", over=str(BATCH)))
    claim.measured("latency_ratio", rounds.ratio(str(BATCH), over="1"))


@claim("batching.tradeoff")
@control("the slow step of four rows is read as that of three", RATIO, mistaken({"4": "3"}), slow=True)
@control("the two waits are compared the other way round", RATIO, turned_round, slow=True)
def test_tradeoff(claim: Claim, timings: Timings) -> None:
    """Batches of 1 to 64: throughput from each to the next, and each one's wait against a single request's."""
    rounds, names = timings.batches, [str(b) for b in BATCHES]
    until_settled(
        claim,
        rounds,
        {
            "latency": lambda: over_first(rounds, names[0], names[BATCHES.index(4) :]),
            "throughput": lambda: {
                f"{a} to {b}": int(b) / int(a) * rounds.ratio(a, over=b) for a, b in pairwise(names)
            },
        },
    )
    claim.measured("latency_of_two_and_three", over_first(rounds, names[0], names[1:3]), unit="1")
    claim.condition("from four requests on; a batch of three gives more tokens per second than one of four")
    batch_table(claim, timings)


@claim("batching.knee")
@control(
    "the step at 32 is taken to last as long as one at 1",
    "lib.batching.turn_if_overlapped",
    as_long_as_one,
    slow=True,
)
@misprint("throughput_gain", "12", slow=True)
def test_knee(claim: Claim, timings: Timings) -> None:
    """The printed figures against the explanation printed with them; then this machine's own doublings, shown."""
    from lib.batching import turn_if_in_turn, turn_if_overlapped

    gain, latency = claim.given("throughput_gain"), claim.given("latency_ratio_at_16")
    claim.measured("latency_from_gain", 2 / (1 + gain / PERCENT))
    at_after = latency * 2 / (1 + gain / PERCENT)  # the step at 32, in steps of a single request
    claim.measured(
        "compute_bound_from",
        {
            "overlapped": turn_if_overlapped(AFTER, at_after),
            "in turn": turn_if_in_turn((BATCH, latency), (AFTER, at_after)),
        },
    )
    rounds = timings.batches
    rounds.until(lambda: True, BUDGET_S)
    claim.measured("batch_before", BATCH)
    claim.measured("batch_after", AFTER)
    claim.measured("throughput_gain", PERCENT * (2 * rounds.ratio(str(BATCH), over=str(AFTER)) - 1))
    claim.measured("latency_ratio", rounds.ratio(str(AFTER), over=str(BATCH)))
    gains = {f"{a} to {2 * a}": 2 * rounds.ratio(str(a), over=str(2 * a)) - 1 for a in (BATCH, AFTER)}
    claim.measured("gain_by_doubling", gains, unit="1")
    claim.measured("knee_by_the_roofline", timings.knee, unit="request")
    claim.protocol(**rounds.facts())


@claim("batching.weights-read-once")
@control("the batch is computed in two halves", "lib.weight_reads.weight_reads", in_halves, slow=True)
@control("the arithmetic of 16 requests is counted for one", "lib.step_actions.pass_cost", costs_of(BATCH), slow=True)
@control("a step is said to read the weights three times", "lib.step_actions.pass_cost", bytes_thrice, slow=True)
def test_weights_read_once(claim: Claim, timings: Timings) -> None:
    """Reads counted at torch's dispatcher; how much of this machine's bandwidth and arithmetic a step uses."""
    from lib.machine_limits import PRODUCT_FLOPS, READ_BYTES
    from lib.step_actions import decode_action, pass_cost
    from lib.weight_reads import weight_reads

    reads = weight_reads(timings.model, decode_action(timings.model, CACHED, batch=BATCH))
    claim.measured("weight_reads_per_step", max(reads.values()))
    rounds, one = timings.batches, pass_cost(timings.model, CACHED)
    until_settled(
        claim,
        rounds,
        {
            "arithmetic_share": lambda: one.flops / PRODUCT_FLOPS * rounds.ratio(PRODUCT, over="1"),
            "memory_share": lambda: one.read_bytes / READ_BYTES * rounds.ratio(READ, over="1"),
            "reading_over_arithmetic": lambda: (
                one.read_bytes / READ_BYTES * PRODUCT_FLOPS / one.flops * rounds.ratio(READ, over=PRODUCT)
            ),
        },
    )
    costs = {f"batch_{b}": (str(b), pass_cost(timings.model, CACHED, batch=b)) for b in BATCHES}
    roofline(claim, timings, rounds, **costs)
