"""The simulator for thousands of workloads at a time: the same schedules, from event to event instead of step to step.

Between two events (a request is admitted, a request is done) every step costs the same, so a run of steps is one
multiplication. Rows of the arrays are workloads. Every request wants at least one token here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lib.scheduling.cost import StepCost
from lib.scheduling.times import Counts, Seconds, Times

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Workloads:
    """Many workloads of n requests: (W, n) arrays, each row in order of arrival.

    Raises ValueError for arrivals that are negative, not finite or out of order, and for outputs below one token.
    """

    arrival_s: Seconds
    output_tokens: Counts
    prompt_tokens: Counts

    def __post_init__(self) -> None:
        shapes = {self.arrival_s.shape, self.output_tokens.shape, self.prompt_tokens.shape}
        if len(shapes) != 1 or self.arrival_s.ndim != 2 or self.arrival_s.size == 0:
            raise ValueError(f"workloads are (W, n) arrays of one shape, got {sorted(shapes)}")
        if (
            not np.isfinite(self.arrival_s).all()
            or self.arrival_s.min() < 0
            or np.diff(self.arrival_s).min(initial=0) < 0
        ):
            raise ValueError("arrivals must be finite, zero or later, and in order within each workload")
        if self.output_tokens.min() < 1 or self.prompt_tokens.min() < 0:
            raise ValueError("every request wants at least one token and brings a prompt of zero or more")


def all_at_once(output_tokens: Counts) -> Workloads:
    """Workloads (W, n) whose requests all arrive at time zero, without prompts."""
    return Workloads(np.zeros(output_tokens.shape), output_tokens, np.zeros_like(output_tokens))


def simulate_continuous(workloads: Workloads, cost: StepCost, slots: int = 8) -> Times:
    """Every free slot is filled at every step; (W, n) times as `simulate` gives them with the policy CONTINUOUS."""
    servers = _Servers(workloads, cost, slots)
    while servers.unfinished():
        servers.admit()
        servers.advance()
    return servers.times(servers.finished)


def simulate_static(
    workloads: Workloads, cost: StepCost, slots: int = 8, *, padding_computed: bool = True, full_groups: bool = False
) -> Times:
    """Groups of up to `slots`, held until the longest is done; (W, n) times as `simulate` gives them with STATIC.

    `full_groups` waits for a full group while requests are still to come (STATIC_FULL_GROUPS).
    """
    groups = _Groups(workloads, cost, slots, padding_computed, full_groups)
    while groups.unfinished():
        groups.serve_next()
    return groups.times(groups.released)


class _State:
    """What both share: clocks (W,), the next request of each workload (W,), and the moments (W, n)."""

    def __init__(self, workloads: Workloads, cost: StepCost, slots: int) -> None:
        if not 1 <= slots <= cost.most_rows:
            raise ValueError(f"{slots} slots, with costs for 1 … {cost.most_rows} rows")
        self.work, self.cost, self.slots = workloads, cost, slots
        self.step_s = cost.table()
        count, self.n = workloads.arrival_s.shape
        self.rows = np.arange(count)[:, None]
        self.now = np.zeros(count)
        self.upcoming = np.zeros(count, dtype=np.int64)
        self.admitted, self.first, self.finished, self.released = np.full((4, count, self.n), np.nan)

    def waiting(self) -> Counts:
        """Requests that have arrived and not been admitted, (W,)."""
        arrived = (self.work.arrival_s <= self.now[:, None]).sum(axis=1)
        return np.asarray(arrived - self.upcoming)

    def next_arrival(self, ahead: Counts | int = 0) -> Seconds:
        """Arrival of the request `ahead` places behind the next one, (W,); the last one's beyond the end."""
        place = np.minimum(self.upcoming + ahead, self.n - 1)
        return np.asarray(self.work.arrival_s[self.rows[:, 0], place])

    def times(self, released: Seconds) -> Times:
        return Times(self.work.arrival_s, self.work.output_tokens, self.admitted, self.first, self.finished, released)


class _Servers(_State):
    """Continuous batching: tokens left (W, slots), zero for a free slot, and who sits there (W, slots)."""

    def __init__(self, workloads: Workloads, cost: StepCost, slots: int) -> None:
        super().__init__(workloads, cost, slots)
        self.left = np.zeros((len(self.now), slots), dtype=np.int64)
        self.who = np.zeros_like(self.left)
        self.entry_s: Seconds = np.zeros(len(self.now))  # what the prompts admitted for the coming step add to it

    def unfinished(self) -> bool:
        return bool((self.upcoming < self.n).any() or self.left.any())

    def admit(self) -> None:
        """Fill free slots, lowest first, from the head of the queue; an empty server first waits for a request."""
        empty = ~self.left.any(axis=1) & (self.upcoming < self.n)
        self.now = np.where(empty, np.maximum(self.now, self.next_arrival()), self.now)
        free = self.left == 0
        rank = np.cumsum(free, axis=1) - 1  # a free slot's place among the free ones
        taken = free & (rank < self.waiting()[:, None])
        row, seat = np.nonzero(taken)
        request = self.upcoming[row] + rank[row, seat]
        self.left[row, seat] = self.work.output_tokens[row, request]
        self.who[row, seat] = request
        self.upcoming += taken.sum(axis=1)
        self.admitted[row, request] = self.now[row]
        prompts = np.bincount(row, self.work.prompt_tokens[row, request], minlength=len(self.now))
        self.entry_s = np.asarray(self.cost.prompt_token_s * prompts, dtype=float)
        self.first[row, request] = (self.now + self._seconds() + self.entry_s)[row]

    def advance(self) -> None:
        """Run to the next event: a request is done, or one arrives while a slot is free."""
        seconds = self._seconds()
        to_done = np.where(self.left > 0, self.left, NEVER).min(axis=1)
        steps = np.minimum(to_done, self._steps_to_arrival(seconds))
        steps = np.where(seconds > 0, steps, 0)
        self.now = self.now + self.entry_s + steps * seconds
        row, seat = np.nonzero((self.left == steps[:, None]) & (self.left > 0))
        self.finished[row, self.who[row, seat]] = self.now[row]
        self.left = np.maximum(self.left - steps[:, None], 0)

    def _seconds(self) -> Seconds:
        return np.asarray(self.step_s[(self.left > 0).sum(axis=1)])

    def _steps_to_arrival(self, seconds: Seconds) -> Counts:
        """Steps after which the next request will have arrived; NEVER where none comes or no slot is free for it."""
        watching = (self.left == 0).any(axis=1) & (self.upcoming < self.n) & (seconds > 0)
        begun = self.now + self.entry_s
        ahead = np.divide(self.next_arrival() - begun, seconds, out=np.ones_like(begun), where=watching)
        steps = np.maximum(np.ceil(ahead), 1).astype(np.int64)
        return np.where(watching, steps, NEVER)


class _Groups(_State):
    """Static batching, one group of every unfinished workload at a time."""

    def __init__(
        self, workloads: Workloads, cost: StepCost, slots: int, padding_computed: bool, full_groups: bool
    ) -> None:
        super().__init__(workloads, cost, slots)
        self.padding_computed, self.full_groups = padding_computed, full_groups

    def unfinished(self) -> bool:
        return bool((self.upcoming < self.n).any())

    def serve_next(self) -> None:
        """Form the next group where one is left, and serve it to its end."""
        unserved = self.upcoming < self.n
        ready = self.next_arrival(self.slots - 1 if self.full_groups else 0)
        self.now = np.where(unserved, np.maximum(self.now, ready), self.now)
        size = np.where(unserved, np.minimum(self.waiting(), self.slots), 0)
        place = np.arange(self.slots)
        member = place < size[:, None]
        request = np.minimum(self.upcoming[:, None] + place, self.n - 1)
        tokens = np.where(member, self.work.output_tokens[self.rows, request], 0)
        prompts = np.where(member, self.work.prompt_tokens[self.rows, request], 0).sum(axis=1)
        begun = self.now + self.cost.prompt_token_s * prompts
        done = begun[:, None] + self._spent(tokens, size)
        self._record(member, request, begun + self.step_s[size], done)
        self.now = np.where(unserved, done.max(axis=1), self.now)
        self.upcoming += size

    def _record(self, member: NDArray[np.bool_], request: Counts, first: Seconds, done: Seconds) -> None:
        row, seat = np.nonzero(member)
        who = request[row, seat]
        self.admitted[row, who] = self.now[row]
        self.first[row, who] = first[row]
        self.finished[row, who] = done[row, seat]
        self.released[row, who] = done.max(axis=1)[row]

    def _spent(self, tokens: Counts, size: Counts) -> Seconds:
        """Time from a group's first step to each member's last token, (W, slots)."""
        if self.padding_computed:
            return np.asarray(tokens * self.step_s[size][:, None])
        order = np.argsort(tokens, axis=1)
        ascending = np.take_along_axis(tokens, order, axis=1)
        stretch = np.diff(ascending, axis=1, prepend=0)  # steps between one member's end and the next one's
        spent = np.cumsum(stretch * self.step_s[np.arange(self.slots, 0, -1)], axis=1)
        back = np.empty_like(spent)
        np.put_along_axis(back, order, spent, axis=1)
        return back
