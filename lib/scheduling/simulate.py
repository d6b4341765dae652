"""A discrete-event simulator of one workload on a server of equal slots, exact step by step.

Between two steps the policy admits from the queue; a step gives every active request one token and takes the time its
rows cost. Requests that arrive during a step wait at least until it ends. Under static batching a finished request
keeps its slot until its group is done, and its padding row is computed like any other unless
`padding_computed` is False.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.scheduling.cost import StepCost
from lib.scheduling.policies import Moment, Policy
from lib.scheduling.requests import Request, arrival_order
from lib.scheduling.times import Times


class StuckSchedule(RuntimeError):
    """The policy leaves requests waiting although nothing runs and nothing is still to come."""


@dataclass(frozen=True)
class Step:
    """One step: start and length in seconds, rows with a useful token, slots held, requests left waiting."""

    start_s: float
    seconds: float
    active: int
    held: int
    waiting: int


@dataclass(frozen=True)
class Run:
    """What happened: moments per request in the order given, the slot each sat in (-1: none), and every step."""

    policy: str
    slots: int
    times: Times
    slot: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def computed_rows(self) -> int:
        """Rows with a useful token, over all steps: the tokens that were asked for."""
        return sum(step.active for step in self.steps)

    @property
    def padding_rows(self) -> int:
        """Held slots without a useful token, over all steps."""
        return sum(step.held - step.active for step in self.steps)


def simulate(
    requests: Sequence[Request], policy: Policy, cost: StepCost, slots: int = 8, *, padding_computed: bool = True
) -> Run:
    """Serve all requests; raises ValueError without requests, slots or a cost for all of them, or StuckSchedule."""
    if not requests or not 1 <= slots <= cost.most_rows:
        raise ValueError(f"{len(requests)} requests on {slots} slots, with costs for 1 … {cost.most_rows} rows")
    server = _Server(requests, policy, cost, slots, padding_computed)
    while server.unfinished():
        prompt_tokens = server.admit()
        if server.seats_held():
            server.step(prompt_tokens)
        elif server.unfinished():
            server.wait_for_arrival()
    return server.run()


class _Server:
    """The changing state: the clock, the queue, who sits in which slot, and how many tokens each still wants."""

    def __init__(
        self, requests: Sequence[Request], policy: Policy, cost: StepCost, slots: int, padding_computed: bool
    ) -> None:
        self.requests, self.policy, self.cost = requests, policy, cost
        self.padding_computed = padding_computed
        self.now = 0.0
        self.coming = deque(arrival_order(requests))
        self.queue: deque[int] = deque()
        self.seats: list[int | None] = [None] * slots
        self.left = [request.output_tokens for request in requests]
        self.slot = [-1] * len(requests)
        self.steps: list[Step] = []
        self.admitted, self.first, self.finished, self.released = np.full((4, len(requests)), np.nan)

    def seats_held(self) -> list[int]:
        return [i for i, who in enumerate(self.seats) if who is not None]

    def unfinished(self) -> bool:
        return bool(self.coming or self.queue or self.seats_held())

    def admit(self) -> int:
        """Ask the policy until it admits nobody; returns the prompt tokens that came in with the admitted."""
        self._collect_arrivals()
        prompt_tokens = 0
        while (count := self._ask_policy()) > 0:
            admitted = [self.queue.popleft() for _ in range(count)]
            prompt_tokens += sum(self.requests[i].prompt_tokens for i in admitted if self._seat(i))
        return prompt_tokens

    def step(self, prompt_tokens: int) -> None:
        """One token for every request that still wants one, then whatever is done leaves its slot."""
        held = self.seats_held()
        active = [who for who in map(self._occupant, held) if self.left[who] > 0]
        seconds = self.cost.of(len(held if self.padding_computed else active), prompt_tokens)
        self.steps.append(Step(self.now, seconds, len(active), len(held), len(self.queue)))
        self.now += seconds
        for who in active:
            self._token(who)
        self._release(held)

    def wait_for_arrival(self) -> None:
        if not self.coming:
            raise StuckSchedule(f"policy {self.policy.name!r} leaves {len(self.queue)} requests waiting for ever")
        self.now = max(self.now, self.requests[self.coming[0]].arrival_s)

    def run(self) -> Run:
        arrival = np.array([request.arrival_s for request in self.requests], dtype=float)
        tokens = np.array([request.output_tokens for request in self.requests], dtype=np.int64)
        times = Times(arrival, tokens, self.admitted, self.first, self.finished, self.released)
        return Run(self.policy.name, len(self.seats), times, tuple(self.slot), tuple(self.steps))

    def _collect_arrivals(self) -> None:
        while self.coming and self.requests[self.coming[0]].arrival_s <= self.now:
            self.queue.append(self.coming.popleft())

    def _ask_policy(self) -> int:
        free = self.seats.count(None)
        moment = Moment(len(self.queue), free, len(self.seats), bool(self.coming))
        count = self.policy.admit(moment)
        if not 0 <= count <= min(moment.waiting, free):
            raise ValueError(f"policy {self.policy.name!r} admits {count} at {moment}")
        return count

    def _seat(self, i: int) -> bool:
        """Give the request a slot, unless it wants no token at all and is done here and now."""
        self.admitted[i] = self.now
        if self.left[i] == 0:
            self.first[i] = self.finished[i] = self.released[i] = self.now
            return False
        self.slot[i] = self.seats.index(None)
        self.seats[self.slot[i]] = i
        return True

    def _token(self, i: int) -> None:
        if self.left[i] == self.requests[i].output_tokens:
            self.first[i] = self.now
        self.left[i] -= 1
        if self.left[i] == 0:
            self.finished[i] = self.now

    def _release(self, held: list[int]) -> None:
        done = [seat for seat in held if self.left[self._occupant(seat)] == 0]
        if self.policy.released_together and len(done) < len(held):
            return
        for seat in done:
            self.released[self._occupant(seat)] = self.now
            self.seats[seat] = None

    def _occupant(self, seat: int) -> int:
        who = self.seats[seat]
        if who is None:
            raise LookupError(f"nobody sits in slot {seat}")
        return who
