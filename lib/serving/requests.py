"""What a user asks of the engine, and what becomes of it: states, times, and the measures read off them.

TTFT is the time to the first token, from arrival. TPOT is the mean time per output token after the first. Goodput is
the rate of requests that met limits on both (Zhong et al., DistServe, 2024, arXiv:2401.09670). No torch here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum

OnToken = Callable[[Hashable, int], None]  # the request's id and the token; called once per token, in order


COLDEST = 1e-6  # below, logits over the temperature lose their digits, and soon are no numbers


class State(Enum):
    """Where a request is. The last three are final."""

    WAITING = "waiting"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


FINAL = frozenset({State.FINISHED, State.CANCELLED, State.REJECTED})


@dataclass(frozen=True)
class Sampling:
    """Draw from the distribution instead of taking its highest. seed: of a generator that is this request's alone.

    temperature divides the logits; then the top_k highest are kept, and of these the fewest whose probabilities reach
    top_p (Holtzman et al., 2020, arXiv:1904.09751). None keeps all. Raises ValueError for a value outside its range.
    """

    seed: int
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not COLDEST <= self.temperature < float("inf"):
            raise ValueError(f"a temperature is finite and at least {COLDEST}, not {self.temperature}; greedy is None")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k keeps at least one id, not {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is in (0, 1], not {self.top_p}")


@dataclass(frozen=True)
class GenerationRequest:
    """A prompt to continue. sampling: None is greedy. end_ids: a token of these is the last one, and is delivered.

    Raises ValueError for an empty prompt (nothing to take logits from), a negative limit, or ids that are no integers.
    """

    id: Hashable
    prompt: tuple[int, ...]
    max_new_tokens: int
    sampling: Sampling | None = None
    end_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        try:
            counted = [operator.index(number) for number in (self.max_new_tokens, *self.prompt, *self.end_ids)]
        except TypeError as error:
            raise ValueError(f"request {self.id!r} has ids or a limit that are no integers: {error}") from None
        object.__setattr__(self, "max_new_tokens", counted[0])
        object.__setattr__(self, "prompt", tuple(counted[1 : 1 + len(self.prompt)]))
        if not self.prompt:
            raise ValueError(f"request {self.id!r} has an empty prompt")
        if self.max_new_tokens < 0:
            raise ValueError(f"request {self.id!r} asks for {self.max_new_tokens} tokens")

    @property
    def positions(self) -> int:
        """How many positions must be cached at its longest: the last token is delivered and never fed back."""
        return len(self.prompt) + max(self.max_new_tokens - 1, 0)


@dataclass
class Times:
    """Seconds on the engine's clock; None for what has not happened.

    delivered: when a reply that is shown as a whole can be shown. Under continuous batching that is when it finished;
    a static batch hands its replies over together. tokens: when each token was there.
    """

    arrival: float
    admitted: float | None = None
    finished: float | None = None
    delivered: float | None = None
    tokens: list[float] = field(default_factory=list)

    @property
    def ttft(self) -> float | None:
        """Arrival to first token; None before it."""
        return self.tokens[0] - self.arrival if self.tokens else None

    @property
    def tpot(self) -> float | None:
        """Mean seconds per token after the first; None with fewer than two."""
        return (self.tokens[-1] - self.tokens[0]) / (len(self.tokens) - 1) if len(self.tokens) > 1 else None


@dataclass
class Record:
    """A request inside the engine. number: order of arrival, which is also its age when memory runs out.

    text: the prompt and what was generated. cached: how many of its positions are in the cache; reserved: have room.
    started: the cache has a table of it (also while a finished one keeps its slot in a static batch). shared: positions
    that were found in the cache and not computed. reason: why it ended.
    """

    request: GenerationRequest
    number: int
    times: Times
    text: list[int]
    on_token: OnToken | None = None
    state: State = State.WAITING
    reason: str = ""
    cached: int = 0
    reserved: int = 0
    shared: int = 0
    started: bool = False
    preemptions: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """What was generated so far."""
        return tuple(self.text[len(self.request.prompt) :])

    @property
    def remaining(self) -> int:
        """Positions still to be computed before the next token can be chosen: 1 while decoding."""
        return len(self.text) - self.cached

    @property
    def active(self) -> bool:
        """Whether it takes part in steps."""
        return self.state in {State.PREFILLING, State.DECODING}

    def end(self, state: State, reason: str, now: float) -> None:
        """Reach a final state."""
        self.state, self.reason = state, reason
        self.times.finished = now


def goodput(records: Iterable[Record], seconds: float, ttft: float, tpot: float) -> float:
    """Requests per second that finished within both limits (seconds); one without a second token has no TPOT to miss.

    Raises ValueError unless seconds is positive.
    """
    if not seconds > 0:
        raise ValueError(f"a rate over {seconds} seconds")
    return sum(_within(record, ttft, tpot) for record in records) / seconds


def _within(record: Record, ttft: float, tpot: float) -> bool:
    times = record.times
    if record.state is not State.FINISHED or times.ttft is None:
        return False
    return times.ttft <= ttft and (times.tpot is None or times.tpot <= tpot)
