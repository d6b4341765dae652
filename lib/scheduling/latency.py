"""What "latency" can mean: named definitions, each from one moment of a request to another.

Two choices change a comparison of policies more than any other: whether the clock starts when a request arrives or when
it is admitted, and when somebody served by static batching hears of an answer (as it streams, when it is complete, or
when its whole group is). Under continuous batching there is no group, so its answers always stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

import numpy as np

from lib.scheduling.times import Counts, Seconds, Times


class Heard(Enum):
    """When a token of a request served by static batching reaches whoever asked."""

    STREAMED = "every token at the end of its step"
    WHOLE = "all tokens with the request's own last one"
    TOGETHER = "all tokens when the whole group is done"


class Moment(Enum):
    """A moment in a request's life."""

    ARRIVAL = "arrival"
    ADMISSION = "admission"
    FIRST = "first token heard"
    LAST = "last token heard"


class Per(Enum):
    """What a latency is divided by."""

    REQUEST = "request"
    OUTPUT = "output token"
    FURTHER = "output token after the first"


@dataclass(frozen=True)
class Latency:
    """From one moment to another, as heard in one way, per request or per token."""

    start: Moment
    end: Moment
    heard: Heard = Heard.TOGETHER
    per: Per = Per.REQUEST

    def of(self, times: Times) -> Seconds:
        """Latency of each request, (…, n), in seconds (per token); NaN for a request without such tokens."""
        spent = _moment(times, self.end, self.heard) - _moment(times, self.start, self.heard)
        return spent if self.per is Per.REQUEST else _divided(spent, _units(times, self.per))

    def mean(self, times: Times) -> Seconds:
        """Mean over requests, (…), of what is defined: for "per token" the mean of ratios (Kwon et al., SOSP 2023)."""
        return np.asarray(np.nanmean(self.of(times), axis=-1))

    def pooled(self, times: Times) -> Seconds:
        """All the time over all the units, (…): for "per token" the ratio of means instead."""
        spent = _moment(times, self.end, self.heard) - _moment(times, self.start, self.heard)
        return np.asarray(spent.sum(axis=-1) / _units(times, self.per).sum(axis=-1))


DEFINITIONS: Mapping[str, Latency] = MappingProxyType({
    "arrival to answer, returned together": Latency(Moment.ARRIVAL, Moment.LAST),
    "arrival to answer, each when done": Latency(Moment.ARRIVAL, Moment.LAST, Heard.WHOLE),
    "admission to answer, returned together": Latency(Moment.ADMISSION, Moment.LAST),
    "admission to answer, each when done": Latency(Moment.ADMISSION, Moment.LAST, Heard.WHOLE),
    "time to first token, returned together": Latency(Moment.ARRIVAL, Moment.FIRST),
    "time to first token, streamed": Latency(Moment.ARRIVAL, Moment.FIRST, Heard.STREAMED),
    "time in the queue": Latency(Moment.ARRIVAL, Moment.ADMISSION),
    "arrival to answer per token, returned together": Latency(Moment.ARRIVAL, Moment.LAST, per=Per.OUTPUT),
    "admission to answer per token, returned together": Latency(Moment.ADMISSION, Moment.LAST, per=Per.OUTPUT),
    "time per further token, streamed": Latency(
        Moment.FIRST, Moment.LAST, Heard.STREAMED, Per.FURTHER
    ),
})  # fmt: skip


def mean_ratio(definition: Latency, static: Times, continuous: Times) -> Seconds:
    """Mean latency under static batching over mean latency under continuous batching, (…).

    Static batching is heard as the definition says, continuous batching always streams. Infinite where nobody waits at
    all under continuous batching, 1 where nobody waits under either.
    """
    return _ratio(definition.mean(static), _streaming(definition).mean(continuous))


def mean_of_ratios(definition: Latency, static: Times, continuous: Times) -> Seconds:
    """Mean over requests of each request's own ratio, (…): a few short requests carry it."""
    return np.asarray(np.nanmean(_ratio(definition.of(static), _streaming(definition).of(continuous)), axis=-1))


def _streaming(definition: Latency) -> Latency:
    return Latency(definition.start, definition.end, Heard.STREAMED, definition.per)


def _moment(times: Times, moment: Moment, heard: Heard) -> Seconds:
    if moment is Moment.ARRIVAL:
        return times.arrival_s
    if moment is Moment.ADMISSION:
        return times.admitted_s
    if heard is Heard.TOGETHER:
        return times.released_s
    return times.first_token_s if (moment, heard) == (Moment.FIRST, Heard.STREAMED) else times.finished_s


def _units(times: Times, per: Per) -> Counts:
    if per is Per.REQUEST:
        return np.ones_like(times.output_tokens)
    return times.output_tokens if per is Per.OUTPUT else np.asarray(np.maximum(times.output_tokens - 1, 0))


def _divided(spent: Seconds, units: Counts) -> Seconds:
    """Per unit; NaN where a request has none, which is no latency of zero."""
    return np.asarray(np.divide(spent, units, out=np.full(spent.shape, np.nan), where=units > 0))


def _ratio(above: Seconds, below: Seconds) -> Seconds:
    """Element by element; 0/0 is 1 (equal), x/0 infinite."""
    infinite = np.where(above > 0, np.inf, np.where(np.isnan(above), np.nan, 1.0))
    return np.asarray(np.divide(above, below, out=infinite, where=below != 0))
