"""When a request came, was admitted, got its first and its last token, and gave its slot back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """Five moments of each request, in seconds, and its useful tokens; arrays (…, n): one workload or many.

    `released_s` is when the slot comes back: with the last token under continuous batching, with the group's longest
    under static batching. A request's answer that is "returned together" with its group is heard then.
    """

    arrival_s: Seconds
    output_tokens: Counts
    admitted_s: Seconds
    first_token_s: Seconds
    finished_s: Seconds
    released_s: Seconds

    @property
    def makespan_s(self) -> Seconds:
        """From the first arrival to the last token of all, (…)."""
        return np.asarray(self.finished_s.max(axis=-1) - self.arrival_s.min(axis=-1))

    @property
    def useful_tokens(self) -> Counts:
        """Tokens that somebody asked for, (…): padding rows give none."""
        return np.asarray(self.output_tokens.sum(axis=-1))

    @property
    def throughput(self) -> Seconds:
        """Useful tokens per second over the makespan, (…), idle time and drain tail included."""
        return np.asarray(self.useful_tokens / self.makespan_s)


def throughput_ratio(continuous: Times, static: Times) -> Seconds:
    """How many times the throughput the first has, (…); both serve the same requests, or ValueError."""
    if not np.array_equal(continuous.output_tokens, static.output_tokens):
        raise ValueError("the two runs did not serve the same requests")
    return np.asarray(static.makespan_s / continuous.makespan_s)
