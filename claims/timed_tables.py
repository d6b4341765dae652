"""The chapter's three timing tables, regenerated on this machine, and the curves that they are points of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fixtures.timing import BATCHES, CACHED, CONTEXTS, NEAR
from lib.intervals import Estimate
from reports.claim import Claim
from reports.plots import Axis, Curve
from reports.tables import Cell, Column

if TYPE_CHECKING:
    from fixtures.timing import Timings
    from lib.timing.rounds import Rounds

MS_PER_S = 1000
MS = "ms"


def prefill_table(claim: Claim, rounds: Rounds, prompts: Sequence[int]) -> None:
    """One pass over a prompt: in all, and per token of it."""
    per_token = {p: MS_PER_S / p * rounds.seconds(str(p)) for p in prompts}
    claim.table(
        "Prefill, regenerated on this machine",
        [Column("prompt", "token"), Column("one pass", MS, "satu pass"), Column("per token", MS, "per token")],
        [[p, cell(MS_PER_S * rounds.seconds(str(p))), cell(per_token[p])] for p in prompts],
        title_id="Prefill, dibuat ulang di mesin ini",
    )
    claim.plot(
        "What a token of the prompt costs",
        x=Axis("prompt", "token", scale="log"),
        y=Axis("time per token", MS, "waktu per token", scale="log"),
        curves=[Curve("measured", per_token, "terukur")],
        title_id="Biaya satu token prompt",
    )


def decode_table(claim: Claim, timings: Timings) -> None:
    """One decode step by context, beside what its bytes alone would add."""
    from lib.step_actions import pass_cost

    rounds, shortest = timings.contexts, CONTEXTS[0]
    over = {int(name): ratio for name, ratio in timings.over_shortest().items()}
    contexts, measured = [shortest, *over], {shortest: 1.0} | over
    read = {c: pass_cost(timings.model, c).read_bytes for c in contexts}
    by_bytes = {c: read[c] / read[contexts[0]] for c in contexts}
    claim.table(
        "A decode step by context, regenerated on this machine",
        [
            Column("context", "token"),
            Column("one step", MS, "satu langkah"),
            Column("over the shortest", name_id="dibanding yang terpendek"),
            Column("by its bytes alone", name_id="menurut byte saja"),
        ],
        [
            [
                c,
                cell(MS_PER_S * (timings.near if c == NEAR else rounds).seconds(str(c))),
                cell(measured[c]),
                by_bytes[c],
            ]
            for c in contexts
        ],
        title_id="Satu langkah decode per panjang context, dibuat ulang di mesin ini",
    )
    claim.plot(
        "What a decode step costs by context",
        x=Axis("context", "token", scale="log"),
        y=Axis("time of a step over the shortest", name_id="waktu satu langkah dibanding yang terpendek"),
        curves=[
            Curve("measured", measured, "terukur"),
            Curve("by its bytes alone", by_bytes, "menurut byte saja", dashed=True),
        ],
        title_id="Biaya satu langkah decode per panjang context",
    )


def batch_table(claim: Claim, timings: Timings) -> None:
    """One decode step by batch: throughput of all, wait of each."""
    rounds = timings.batches
    throughput = {b: rounds.rate(str(b), b) for b in BATCHES}
    wait_ms = {b: MS_PER_S * rounds.seconds(str(b)) for b in BATCHES}
    claim.table(
        f"One decode step over caches of {CACHED} tokens by batch, regenerated on this machine",
        [
            Column("batch", "request"),
            Column("one step", MS, "satu langkah"),
            Column("throughput", "token/s", "throughput"),
            Column("throughput over one request", name_id="throughput dibanding satu request"),
            Column("wait over one request", name_id="waktu tunggu dibanding satu request"),
        ],
        [[b, cell(wait_ms[b]), cell(throughput[b]), *_over_one(rounds, b)] for b in BATCHES],
        title_id=f"Satu langkah decode dengan cache {CACHED} token per ukuran batch, dibuat ulang di mesin ini",
    )
    claim.plot(
        "Throughput against wait",
        x=Axis("wait for one token", MS, "waktu tunggu satu token"),
        y=Axis("throughput", "token/s", "throughput"),
        curves=[
            Curve(
                "batch size", [(wait_ms[b].value, throughput[b]) for b in BATCHES], "ukuran batch",
                labels=[str(b) for b in BATCHES],
            )
        ],
        title_id="Throughput dan waktu tunggu",
    )  # fmt: skip


def cell(known: Estimate | float) -> Cell:
    """For a table; nothing where the machine was too busy for an interval."""
    return known if not isinstance(known, Estimate) or math.isfinite(float(known.high)) else None


def _over_one(rounds: Rounds, batch: int) -> list[Cell]:
    if str(batch) == "1":
        return [1.0, 1.0]
    return [cell(batch * rounds.ratio("1", over=str(batch))), cell(rounds.ratio(str(batch), over="1"))]
