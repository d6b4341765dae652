"""Faults for the claims about quality: rows mixed up, tokens miscounted, pairs torn apart, a switch that does nothing.

All are planted in what is read off the session's table, none in how its rows are made.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fixtures.quality_workload import MAIN, NO_PENALTY, SHORT, default_penalty
from lib.intervals import Estimate
from reports.plants import Real, result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fixtures.quality import QualityTable
    from fixtures.quality_readings import Falls, Quality
    from lib.quality import Row
    from lib.quality_contrasts import Duel

QUALITY, READINGS, ROW = (
    "fixtures.quality_readings.Quality",
    "fixtures.quality_readings",
    "fixtures.quality.QualityTable.row",
)
ANSWERED, CONTRASTS = "fixtures.quality.QualityTable.answered", "lib.quality_contrasts"
BYTES_PER_TOKEN = 4.5  # of English prose under the chapter's tokenizer, roughly


def last_token_unscored(real: property) -> property:
    """The windows of every text without their last token."""
    return property(lambda quality: {text: ids[:, :-1] for text, ids in real.__get__(quality).items()})


def prompts_counted(_real: property) -> property:
    """The prompts are counted among the tokens that the model wrote."""
    return property(lambda quality: quality.table.own_text.numel())


def unpaired(_real: Real) -> Real:
    """The difference of two mean losses, as if each model had read a text of its own."""

    def wrong(row: Row, rival: Row, text: str) -> Estimate:
        from lib.clusters import cluster_mean

        first, second = (cluster_mean(each.of(text).loss.tolist()) for each in (row, rival))
        return first - second

    return wrong


def _power_of_two(found: Estimate) -> Estimate:
    return Estimate(*(float(end) ** math.log(2) for end in (found.value, found.low, found.high)))


powers_of_two = result(_power_of_two)
"""Two, not e, to the mean loss in nats."""


def with_itself(real: Real) -> Real:
    """Every scheme is compared with itself."""
    return lambda row, _reference, text, own_tokens: real(row, row, text, own_tokens)


def per_token(real: Real) -> Real:
    """Bits are divided by tokens, not by bytes."""

    def wrong(quality: Quality, scheme: str, text: str) -> float:
        tokens = quality.texts[text][:, 1:].numel()
        return float(real(quality, scheme, text)) * quality.table.text_bytes[text] / tokens

    return wrong


per_long_token = result(lambda pairs: replace(pairs, perplexity=pairs.perplexity**BYTES_PER_TOKEN))
"""The bigram model's perplexity of as many bytes as a token of the language model has."""


def penalty_always(real: Real) -> Real:
    """The repetition penalty stays on in both runs."""
    return _one_penalty(real, on=True)


def penalty_never(real: Real) -> Real:
    """The repetition penalty is on in neither run."""
    return _one_penalty(real, on=False)


def _one_penalty(real: Real, on: bool) -> Real:
    def wrong(table: QualityTable, scheme: str) -> Row:
        row: Row = real(table, scheme)
        replies = row.replies[SHORT]
        same = replies[default_penalty(table.model) if on else NO_PENALTY]
        return replace(row, replies={**row.replies, SHORT: dict.fromkeys(replies, same)})

    return wrong


def one_question_each(real: Real) -> Real:
    """One more question to the first row with the penalty, to the second without it."""

    def wrong(quality: Quality, first: str, second: str, battery: str, penalty: float) -> Duel:
        found: Duel = real(quality, first, second, battery, penalty)
        if penalty == NO_PENALTY:
            return replace(found, second_only=found.second_only + 1)
        return replace(found, first_only=found.first_only + 1)

    return wrong


def any_lead_tells(_real: Any) -> property:
    """Rows that are one question apart are told apart."""
    return property(lambda duel: 0.0 if duel.lead else 1.0)


def destroyed_row_left_out(real: Real) -> Real:
    """The row of INT4 with one scale is never among them."""

    def wrong(quality: Quality, schemes: Iterable[str]) -> Falls:
        found: Falls = real(quality, (scheme for scheme in schemes if scheme != "int4-tensor"))
        return found

    return wrong


def one_per_continuation(_real: Real) -> Real:
    """A continuation counts as one observation."""
    return lambda clusters: Estimate(len(clusters), len(clusters), len(clusters))


def always_main(real: Real) -> Real:
    """Whatever text is asked for, the main one is read."""
    return lambda quality, scheme, _text: real(quality, scheme, MAIN)


def last_two_exchanged_elsewhere(real: Real) -> Real:
    """On every text but the main one, INT4 in groups of 128 and NF4 are taken for each other."""
    other = {"int4-g128": "nf4-b64", "nf4-b64": "int4-g128"}

    def wrong(quality: Quality, scheme: str, text: str) -> Estimate:
        found: Estimate = real(quality, scheme if text == MAIN else other.get(scheme, scheme), text)
        return found

    return wrong


def with_int4s_levels(real: Real) -> Real:
    """On the main text NF4 is INT4 in blocks of the same size (which is scored on no other)."""
    other = {"nf4-b128": "int4-g128", "nf4-b64": "int4-g64"}

    def wrong(quality: Quality, scheme: str, rival: str, text: str) -> Estimate:
        names = [other.get(name, name) if text == MAIN else name for name in (scheme, rival)]
        found: Estimate = real(quality, *names, text)
        return found

    return wrong


def exact_interval(_real: Real) -> Real:
    """The exact interval of a proportion in place of the bootstrap's."""
    from lib import proportions

    return proportions.exact_interval
