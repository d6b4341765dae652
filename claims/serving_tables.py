"""What the serving claims show beside their verdicts, and the requests that they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.claim import Claim
from reports.plots import Axis, Curve
from reports.tables import Column

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from fixtures.corpora import Corpus
    from lib.intervals import Estimate
    from lib.scheduling.comparison import Comparison
    from lib.scheduling.times import Seconds
    from lib.serving.requests import GenerationRequest
    from lib.serving.side_by_side import SideBySide

SLOTS = 8
PRINTS_AS_16, TENFOLD = (1.55, 1.65), 10  # what rounds to the printed 1.6, and the printed factor of latency
SHORTEST_PROMPT = 16  # tokens; each request's is one longer than the one's before


def both_printed(case: Comparison, latency: Seconds) -> float:
    """Share of the workloads on which both printed figures come out."""
    low, high = PRINTS_AS_16
    throughput = case.throughput()
    return float(((low <= throughput) & (throughput < high) & (latency > TENFOLD)).mean())


def throughput_plot(claim: Claim, by_load: Mapping[float, Estimate]) -> None:
    """The ratio of throughputs over the load."""
    claim.plot(
        "Throughput of continuous over static batching",
        x=Axis("load"),
        y=Axis("throughput ratio", name_id="rasio throughput"),
        curves=[Curve("9 in 10 workloads", by_load, "9 dari 10 beban kerja")],
        title_id="Throughput continuous batching dibanding static batching",
    )


def load_table(claim: Claim, loads: Sequence[float], per_shape: int) -> None:
    """The two printed figures and both at once, load by load."""
    from lib.scheduling.comparison import central, compare
    from lib.scheduling.cost import constant
    from lib.scheduling.latency import DEFINITIONS

    answer, first = (DEFINITIONS[f"{name}, returned together"] for name in ("arrival to answer", "time to first token"))
    rows, curve = [], {}
    for load in loads:
        case = compare(constant(SLOTS), per_shape, load)
        latency = case.latency(answer)
        curve[load] = central(latency)
        rows.append([load, central(case.throughput()), curve[load], central(case.latency(first)),
                     both_printed(case, latency), both_printed(case, case.latency(first))])  # fmt: skip
    claim.table(
        "Static over continuous batching, by load",
        [
            Column("load"),
            Column("throughput ratio", name_id="rasio throughput"),
            Column("latency ratio, arrival to answer", name_id="rasio latensi, datang sampai jawaban"),
            Column("latency ratio, first token", name_id="rasio latensi, token pertama"),
            Column("both printed figures, answer", name_id="kedua angka tercetak, jawaban"),
            Column("both printed figures, first token", name_id="kedua angka tercetak, token pertama"),
        ],
        rows,
        title_id="Static dibanding continuous batching, per beban",
    )
    claim.plot(
        "Mean latency of static over continuous batching",
        x=Axis("load"),
        y=Axis("latency ratio, arrival to answer", name_id="rasio latensi, datang sampai jawaban"),
        curves=[Curve("9 in 10 workloads", curve, "9 dari 10 beban kerja")],
        title_id="Latensi rata-rata static dibanding continuous batching",
    )


def prose_requests(
    tokenizer: PreTrainedTokenizerBase, corpora: dict[str, Corpus], replies: Sequence[int]
) -> list[GenerationRequest]:
    """One for each reply length, prompts from the beginnings of different pieces."""
    from lib.serving.requests import GenerationRequest

    pieces = [piece for corpus in corpora.values() for piece in corpus.pieces]
    return [
        GenerationRequest(i, tuple(tokenizer(pieces[i])["input_ids"][: SHORTEST_PROMPT + i]), tokens)
        for i, tokens in enumerate(replies)
    ]


def engine_plots(claim: Claim, run: SideBySide) -> None:
    """Slots at work over time, and how many answers are there after so many seconds."""
    from lib.serving.side_by_side import occupancy, waits

    names = {policy: policy.value for policy in run.engines}
    claim.plot(
        "Slots that compute a useful token",
        x=Axis("time", "s", "waktu"),
        y=Axis("slots", name_id="slot"),
        curves=[Curve(names[policy], occupancy(steps)) for policy, steps in run.steps.items()],
        title_id="Slot yang menghitung token berguna",
    )
    claim.plot(
        "Answers delivered",
        x=Axis("time since arrival", "s", "waktu sejak datang"),
        y=Axis("share of the requests", name_id="bagian dari request"),
        curves=[
            Curve(
                names[policy], [(wait, (place + 1) / len(engine.records)) for place, wait in enumerate(waits(engine))]
            )
            for policy, engine in run.engines.items()
        ],
        title_id="Jawaban yang sudah sampai",
    )
