"""What one step computes: which tokens of which sequences, with room for their keys and values.

Decoding sequences come first, one token each, then prompts in chunks of what the budget leaves (Agrawal et al.,
Sarathi-Serve, 2024, arXiv:2403.02310). When blocks run out, the youngest request is preempted: it gives up its
blocks and computes its text again later (recomputation: Kwon et al., PagedAttention, 2023, arXiv:2309.06180). The
oldest is never preempted by anybody, and alone it fits, so it always gets on: two requests cannot take one another's
memory for ever. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lib.paged_cache.pool import OutOfBlocks
from lib.paged_cache.tables import PagedCache
from lib.serving.requests import Record, State
from lib.serving.scheduler import Scheduler

CopyBlocks = Callable[[list[tuple[int, int]]], None]


@dataclass(frozen=True)
class Work:
    """Positions first … first + count - 1 of a request's text. last: they end it, so the next token can be chosen."""

    record: Record
    first: int
    count: int

    @property
    def last(self) -> bool:
        """Whether the logits of the final position are needed."""
        return self.first + self.count == len(self.record.text)

    @property
    def tokens(self) -> list[int]:
        """The ids to compute."""
        return self.record.text[self.first : self.first + self.count]


class Planner:
    """Distributes a step's token budget and reserves the blocks.

    copy: performs the block copies that copy-on-write asks for, at once: a later reservation may reuse the source.
    """

    def __init__(self, cache: PagedCache, scheduler: Scheduler, budget: int, copy: CopyBlocks) -> None:
        if budget < len(scheduler.slots):
            raise ValueError(f"a budget of {budget} tokens is less than one for each of {len(scheduler.slots)} slots")
        self.cache, self.scheduler, self.budget, self.copy = cache, scheduler, budget, copy

    def has_room(self, record: Record) -> bool:
        """Whether the cache takes this request's text beside what the seated ones still have to compute."""
        pending = sum(other.remaining for other in self.scheduler.active)
        return self.cache.fits(pending + record.remaining)

    def plan(self) -> list[Work]:
        """The step's work, decoding first, each part the oldest first; empty when nobody is seated.

        Raises RuntimeError if a request does not fit even alone, which admission should have refused.
        """
        planned: dict[int, Work] = {}
        left = self.budget
        for record in sorted(self.scheduler.active, key=lambda r: (r.state is not State.DECODING, r.number)):
            if not left:
                break
            if not record.active:  # preempted while room was made for another
                continue
            self._start(record)
            count = min(record.remaining, left)
            if self._make_room(record, count, planned):
                planned[record.number] = Work(record, record.cached, count)
                left = self.budget - sum(work.count for work in planned.values())
        return list(planned.values())

    def release(self, record: Record) -> None:
        """Give up a request's blocks, if it has any."""
        if record.started:
            self.cache.release(record.request.id)
        record.started, record.cached, record.reserved = False, 0, 0

    def _start(self, record: Record) -> None:
        """Map what the cache already has of the text; late, so that it finds what a neighbour has just written."""
        if not record.started:
            record.cached = self.cache.start(record.request.id, record.text)
            record.reserved = record.cached
            record.shared += record.cached
            record.started = True

    def _make_room(self, record: Record, count: int, planned: dict[int, Work]) -> bool:
        """Reserve what a step that failed has not reserved already; False if the request itself had to go."""
        while (missing := record.cached + count - record.reserved) > 0:
            try:
                pairs = self.cache.reserve(record.request.id, missing)
            except OutOfBlocks:
                victim = self._victim(record)
                planned.pop(victim.number, None)
                if victim is record:
                    return False
            else:
                self.copy(pairs)
                record.reserved += missing
        return True

    def _victim(self, record: Record) -> Record:
        """Whoever now gives up its blocks: one that is done and only keeps its slot, else the youngest."""
        done = [held for held in self.scheduler.held if held.started]
        active = self.scheduler.active
        if not done and len(active) == 1:
            raise RuntimeError(f"request {record.request.id!r} does not fit into the cache alone")
        victim = done[0] if done else active[-1]
        self.release(victim)
        if not done:
            victim.preemptions += 1
            self.scheduler.vacate(victim)
            self.scheduler.enqueue(victim)
        return victim


def new_tokens(works: Iterable[Work]) -> int:
    """How many requests get a token from this step."""
    return sum(work.last for work in works)
