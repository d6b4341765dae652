"""Requests as a scheduler meets them: when they arrive, what they bring, and how much they will ask for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


class MalformedRequest(ValueError):
    """A request that no server could be given; the message names the field and its value."""


@dataclass(frozen=True)
class Request:
    """One request: arrival in seconds, prompt and output in tokens.

    The scheduler learns the output length only by reaching it. Zero output tokens is allowed: such a request is done
    the moment it is admitted and takes no slot. Raises MalformedRequest for anything negative, fractional or not
    finite.
    """

    arrival_s: float
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if not math.isfinite(self.arrival_s) or self.arrival_s < 0:
            raise MalformedRequest(f"arrival_s is {self.arrival_s!r}: an arrival is a finite time, zero or later")
        for name, tokens in (("prompt_tokens", self.prompt_tokens), ("output_tokens", self.output_tokens)):
            if isinstance(tokens, bool) or int(tokens) != tokens or tokens < 0:
                raise MalformedRequest(f"{name} is {tokens!r}: tokens are counted, zero or more")


def at_once(output_tokens: Sequence[int], prompt_tokens: int = 0) -> list[Request]:
    """Requests that all arrive at time zero and queue in the order given."""
    return [Request(0.0, prompt_tokens, int(tokens)) for tokens in output_tokens]


def arrival_order(requests: Sequence[Request]) -> list[int]:
    """Indices of the requests in the order in which a first-come-first-served queue meets them; ties as given."""
    return sorted(range(len(requests)), key=lambda i: requests[i].arrival_s)
