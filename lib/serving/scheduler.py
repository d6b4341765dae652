"""Who sits in which slot: a queue, a fixed number of slots, and the two policies. No torch, no memory.

Continuous batching fills a freed slot in the very next step (iteration-level scheduling: Yu et al., Orca, OSDI 2022).
Static batching fills the slots only when all are empty, and a request that is done keeps its slot to the batch's end.
The queue is first come, first served, strictly: nobody overtakes a request that waits for memory, so none starves.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from enum import Enum

from lib.serving.requests import Record, State


class Policy(Enum):
    """When a slot is refilled."""

    CONTINUOUS = "continuous"
    STATIC = "static"


class Scheduler:
    """The queue and the slots; slots[i] is None where nobody sits."""

    def __init__(self, slots: int, policy: Policy) -> None:
        if slots < 1:
            raise ValueError(f"an engine with {slots} slots")
        self.policy = policy
        self.slots: list[Record | None] = [None] * slots
        self.waiting: list[Record] = []

    @property
    def seated(self) -> list[Record]:
        """Everybody who holds a slot, in slot order."""
        return [record for record in self.slots if record is not None]

    @property
    def active(self) -> list[Record]:
        """Those who take part in steps, the oldest first."""
        return sorted((record for record in self.seated if record.active), key=_age)

    @property
    def held(self) -> list[Record]:
        """Finished requests of a static batch that still keep their slots, in slot order."""
        return [record for record in self.seated if not record.active]

    @property
    def idle(self) -> bool:
        """Nothing to do, now or later."""
        return not self.waiting and not self.active

    def enqueue(self, record: Record) -> None:
        """Line up by order of arrival; somebody preempted thereby goes back to the front."""
        record.state = State.WAITING
        insort(self.waiting, record, key=_age)

    def admit(self, has_room: Callable[[Record], bool]) -> list[Record]:
        """Seat waiting requests in free slots, as the policy allows; returns the new ones.

        has_room: whether memory takes this one beside all that is seated. The first request is never asked: alone, any
        request fits that was not rejected.
        """
        if self.policy is Policy.STATIC and self.seated:
            return []
        admitted = []
        for i, occupant in enumerate(self.slots):
            if occupant is not None:
                continue
            if not self.waiting or (self.active and not has_room(self.waiting[0])):
                break
            record = self.waiting.pop(0)
            record.state = State.PREFILLING
            self.slots[i] = record
            admitted.append(record)
        return admitted

    def vacate(self, record: Record) -> None:
        """Free the slot of this request."""
        self.slots[self.slots.index(record)] = None

    def withdraw(self, record: Record) -> None:
        """Take a waiting request out of the queue."""
        self.waiting.remove(record)


def _age(record: Record) -> int:
    return record.number
