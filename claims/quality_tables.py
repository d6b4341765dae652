"""The tables of the quality section, regenerated: what the chapter prints beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from fixtures.quality import CHAPTER_ROWS, REFERENCE
from fixtures.quality_workload import BOOK, MAIN, NO_PENALTY, SHORT, default_penalty
from lib.quality_contrasts import first_divergences, near_ties, share, shares_of_gain
from lib.quantization.errors import error_table
from lib.quantization.schemes import SCHEMES
from reports.ledger import Statement
from reports.tables import Column

if TYPE_CHECKING:
    from torch import Tensor

    from fixtures.quality_readings import Quality

NOT_A_NUMBER = "not a number"
# The way from INT4 in groups of 128 to NF4 in blocks of 64 leads over one of these two.
OVER_BLOCK, OVER_LEVELS = "int4-g64", "nf4-b128"
START, END = "int4-g128", "nf4-b64"


def chapter_table(quality: Quality, statement: Statement) -> dict[str, Any]:
    """The chapter's table: three measures of each row, perplexity beside the printed one."""
    penalty = default_penalty(quality.table.model)
    columns = [
        Column("scheme", name_id="skema"),
        Column("perplexity, published", name_id="perplexity, tercetak"),
        Column("perplexity, measured here", name_id="perplexity, terukur di sini"),
        Column("over the reference, published", name_id="dibanding referensi, tercetak"),
        Column("over the reference, transferred", name_id="dibanding referensi, di sini"),
        Column("questions right of 16, no penalty", name_id="jawaban benar dari 16, tanpa penalty"),
        Column(f"questions right of 16, penalty {penalty}", name_id=f"jawaban benar dari 16, penalty {penalty}"),
        Column("same next token, of 144", name_id="token sama, dari 144"),
    ]
    rows = [_chapter_row(quality, statement, scheme, penalty) for scheme in (REFERENCE, *CHAPTER_ROWS)]
    return {
        "title": "What each scheme costs: the chapter's table, regenerated", "columns": columns, "rows": rows,
        "title_id": "Biaya tiap skema: tabel bab ini, dibuat ulang",
    }  # fmt: skip


def corpora_table(quality: Quality) -> dict[str, Any]:
    """The cost of each row above the reference, by text, in nats per token."""
    columns = [Column("scheme", name_id="skema"), *(Column(text, "nat per token") for text in quality.texts)]
    rows = [[_title(s), *(_cost(quality, s, text) for text in quality.texts)] for s in quality.schemes]
    return {
        "title": "The cost of each scheme by text: logarithm of its perplexity over the reference's",
        "columns": columns, "rows": rows,
        "title_id": "Biaya tiap skema per teks: logaritma perplexity dibagi perplexity referensi",
    }  # fmt: skip


def agreement_table(quality: Quality) -> dict[str, Any]:
    """The same next token in the same context, on the model's own text and on ours, and the whole distribution."""
    columns = [
        Column("scheme", name_id="skema"),
        Column("own text, share of 144 tokens", name_id="teks sendiri, bagian dari 144 token"),
        Column(f"{MAIN}, share of {quality.texts[MAIN][:, 1:].numel():,} tokens"),
        Column("continuations that part", name_id="lanjutan yang berpisah"),
        Column("parting at token, median", name_id="berpisah pada token ke-, median"),
        *(Column(f"KL divergence on {BOOK}, {name}", "nat") for name in ("mean", "median", "99th percentile")),
        Column("lead of the reference's choice where both agree", "logit"),
        Column("and where they differ", "logit"),
    ]
    return {
        "title": "Agreement with the reference, teacher-forced", "columns": columns,
        "rows": [_agreement_row(quality, scheme) for scheme in quality.schemes],
        "title_id": "Kesesuaian dengan referensi, dengan prefix yang sama",
    }  # fmt: skip


def nf4_gain_table(quality: Quality, projections: Mapping[str, Tensor]) -> dict[str, Any]:
    """How much of the way from INT4 in groups of 128 to NF4 is block size and how much is levels, both ways round."""
    columns = [
        Column("measure", name_id="ukuran"), Column(START), Column(OVER_BLOCK), Column(OVER_LEVELS), Column(END),
        Column("levels' share, at blocks of 64", name_id="andil level, pada blok 64"),
        Column("levels' share, at blocks of 128", name_id="andil level, pada blok 128"),
    ]  # fmt: skip
    schemes = (START, OVER_BLOCK, OVER_LEVELS, END)
    errors = error_table([SCHEMES[s] for s in schemes], projections, quality.table.errors)
    by_measure = {
        "relative error of the weights": [errors.mean(s) for s in schemes],
        "loss above the reference, nat per token": [float(quality.cost(s, REFERENCE, MAIN).value) for s in schemes],
        f"other next token, {MAIN}": [1 - float(quality.same_choice(s, MAIN).mean()) for s in schemes],
        "bits per weight, 896 × 4,864": [SCHEMES[s].bits_per_weight(896, 4864) for s in schemes],
    }
    rows = [[name, *map(_short, [*found, *_levels_shares(found)])] for name, found in by_measure.items()]
    return {
        "title": "From INT4 in groups of 128 to NF4 in blocks of 64: block size or levels",
        "columns": columns, "rows": rows,
        "title_id": "Dari INT4 grup 128 ke NF4 blok 64: ukuran blok atau level",
    }  # fmt: skip


def _chapter_row(quality: Quality, statement: Statement, scheme: str, penalty: float) -> list[Any]:
    figures, name = statement.figures, f"perplexity_{scheme.replace('-', '_')}"
    row, reference = quality.row(scheme), figures[f"perplexity_{REFERENCE}"].interval()
    printed = figures[name].interval() if name in figures else None
    told = quality.is_number(scheme, MAIN) and quality.is_number(REFERENCE, MAIN)
    return [
        _title(scheme),
        None if printed is None else float(printed.value),
        quality.perplexity(scheme, MAIN) if told else NOT_A_NUMBER,
        None if printed is None or reference is None else _short(float(printed.value / reference.value)),
        _short(quality.ratio(scheme, REFERENCE)) if told else NOT_A_NUMBER,
        NOT_A_NUMBER if row.broken else sum(quality.right(scheme, SHORT, NO_PENALTY)),
        NOT_A_NUMBER if row.broken else sum(quality.right(scheme, SHORT, penalty)),
        int(quality.same_choice(scheme, quality.own).sum()) if quality.is_number(scheme, quality.own) else NOT_A_NUMBER,
    ]


def _agreement_row(quality: Quality, scheme: str) -> list[Any]:
    texts = (quality.own, MAIN, BOOK)
    if not all(quality.is_number(name, text) for text in texts for name in (scheme, REFERENCE)):
        return [_title(scheme), *[NOT_A_NUMBER] * 9]
    own, main = (quality.same_choice(scheme, text) for text in texts[:2])
    parted = [at + 1 for at in first_divergences(own) if at is not None]
    leads = near_ties(main, quality.lead(MAIN))
    return [
        _title(scheme), share(own), share(main), len(parted), median(parted) if parted else None,
        *map(_short, quality.divergence(scheme, BOOK).values()),
        *(_short(leads.get(f"where they {what}")) for what in ("agree", "differ")),
    ]  # fmt: skip


def _cost(quality: Quality, scheme: str, text: str) -> Any:
    told = quality.is_number(scheme, text) and quality.is_number(REFERENCE, text)
    return quality.cost(scheme, REFERENCE, text) if told else NOT_A_NUMBER


def _levels_shares(found: Sequence[float]) -> list[float | None]:
    """Of the fall from first to last: what the levels do after the block has shrunk, and before it has."""
    start, over_block, over_levels, end = found
    if start <= end:
        return [None, None]
    return [shares_of_gain(start, over_block, end)["second"], shares_of_gain(start, over_levels, end)["first"]]


def _short(value: float | None) -> float | None:
    """Four significant digits: the measurement knows no more, and the record of the aspects keeps them all."""
    return None if value is None else float(f"{value:.4g}")


def _title(scheme: str) -> str:
    return "reference, fp32" if scheme == REFERENCE else SCHEMES[scheme].title
