"""Who gets a slot, and when: static and continuous batching as pure functions of the queue and the free slots.

A policy is asked between two steps and answers how many requests leave the head of the queue (first come, first
served). Continuous batching is iteration-level scheduling (Yu et al., Orca, OSDI 2022): a slot is given back by
itself, so no slot is idle while a request waits. Static batching serves a group: its slots come back together, when
the longest is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Moment:
    """What a scheduler sees between two steps: counts of requests and slots."""

    waiting: int
    free: int
    slots: int
    more_to_come: bool


Admit = Callable[[Moment], int]


@dataclass(frozen=True)
class Policy:
    """How many to admit, and whether slots come back one by one or together with the whole group."""

    name: str
    admit: Admit
    released_together: bool


def fill_every_free_slot(moment: Moment) -> int:
    """As many as there are free slots, at every step."""
    return min(moment.waiting, moment.free)


def fill_when_all_are_free(moment: Moment) -> int:
    """Whoever waits, up to all slots, once no slot is held any more."""
    return min(moment.waiting, moment.slots) if moment.free == moment.slots else 0


def fill_with_a_full_group(moment: Moment) -> int:
    """As above, and only a full group, as long as there are requests to come that could fill it."""
    return 0 if moment.waiting < moment.slots and moment.more_to_come else fill_when_all_are_free(moment)


CONTINUOUS = Policy("continuous", fill_every_free_slot, released_together=False)
STATIC = Policy("static", fill_when_all_are_free, released_together=True)
STATIC_FULL_GROUPS = Policy("static, full groups only", fill_with_a_full_group, released_together=True)
