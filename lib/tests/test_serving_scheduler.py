"""Queue, slots and the planning of steps, held against hand-made cases; no model and no torch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.paged_cache.tables import PagedCache
from lib.serving.planner import Planner, Work
from lib.serving.requests import GenerationRequest, Record, State, Times
from lib.serving.scheduler import Policy, Scheduler


def record(number: int, length: int = 4) -> Record:
    text = tuple(range(100 * number, 100 * number + length))
    return Record(GenerationRequest(number, text, 50), number, Times(0.0), list(text))


def seated(lengths: list[int], slots: int, policy: Policy = Policy.CONTINUOUS) -> Scheduler:
    scheduler = Scheduler(slots, policy)
    for number, length in enumerate(lengths):
        scheduler.enqueue(record(number, length))
    scheduler.admit(lambda _: True)
    return scheduler


def planner(scheduler: Scheduler, budget: int, blocks: int = 100, size: int = 2) -> Planner:
    return Planner(PagedCache(blocks, size), scheduler, budget, lambda pairs: None)


def computed(works: list[Work]) -> dict[int, tuple[int, int]]:
    """(first, count) of each work by the number of its request."""
    return {work.record.number: (work.first, work.count) for work in works}


def commit(plan: Planner, works: list[Work]) -> None:
    """As the engine does after a pass: what was computed is cached, and whoever is done with its text gets a token."""
    for work in works:
        last = work.last
        plan.cache.commit(work.record.request.id, work.tokens)
        work.record.cached += work.count
        if last:
            work.record.text.append(7)
            work.record.state = State.DECODING


def numbers(scheduler: Scheduler) -> list[int | None]:
    return [None if r is None else r.number for r in scheduler.slots]


@given(st.lists(st.integers(0, 3), max_size=40), st.integers(1, 4))
def test_no_slot_is_empty_while_somebody_waits(finishing: list[int], slots: int) -> None:
    """Whoever leaves, after the next admission there is either nobody waiting or no free slot; and in order."""
    scheduler, order = Scheduler(slots, Policy.CONTINUOUS), []
    for number in range(20):
        scheduler.enqueue(record(number))
    for which in finishing:
        order += [r.number for r in scheduler.admit(lambda _: True)]
        assert not scheduler.waiting or None not in numbers(scheduler)
        if scheduler.slots[which % slots] is not None:
            scheduler.vacate(scheduler.slots[which % slots])
    assert order == sorted(order)


def test_static_admits_only_into_empty_slots() -> None:
    scheduler = seated([4, 4, 4], 2, Policy.STATIC)
    first, second = scheduler.seated
    first.end(State.FINISHED, "", 1.0)
    assert scheduler.admit(lambda _: True) == [] and scheduler.held == [first] and scheduler.active == [second]
    scheduler.vacate(first)
    assert scheduler.admit(lambda _: True) == []
    scheduler.vacate(second)
    assert [r.number for r in scheduler.admit(lambda _: True)] == [2]


def test_nobody_overtakes_one_that_waits_for_memory() -> None:
    """The wrong variant looks further down the queue for a smaller one, and the large one starves."""
    scheduler = Scheduler(3, Policy.CONTINUOUS)
    for number, length in enumerate((4, 90, 1)):
        scheduler.enqueue(record(number, length))
    scheduler.admit(lambda r: len(r.text) < 50)
    assert numbers(scheduler) == [0, None, None]


def test_the_first_is_admitted_whatever_memory_says() -> None:
    scheduler = Scheduler(2, Policy.CONTINUOUS)
    scheduler.enqueue(record(0))
    assert len(scheduler.admit(lambda _: False)) == 1


def test_decoding_first_then_prompts_in_chunks() -> None:
    scheduler = seated([3, 9, 9], 3)
    plan = planner(scheduler, 8)
    works = plan.plan()
    assert computed(works) == {0: (0, 3), 1: (0, 5)}
    commit(plan, works)
    works = plan.plan()
    assert computed(works) == {0: (3, 1), 1: (5, 4), 2: (0, 3)}
    commit(plan, works)
    assert computed(plan.plan()) == {0: (4, 1), 1: (9, 1), 2: (3, 6)}


def test_the_youngest_is_preempted_and_goes_back_to_the_front() -> None:
    scheduler = seated([4, 4, 4, 4], 3)
    plan = planner(scheduler, 20, blocks=7)  # 4 positions are two blocks of 2: the third token needs a third block
    commit(plan, plan.plan())
    works = plan.plan()
    assert computed(works) == {0: (4, 1), 1: (4, 1)}
    youngest = scheduler.waiting[0]
    assert (youngest.number, youngest.cached, youngest.preemptions, len(youngest.text)) == (2, 0, 1, 5)
    assert [r.number for r in scheduler.waiting] == [2, 3]
    assert not plan.has_room(youngest)


def test_one_that_was_planned_already_is_taken_out_again() -> None:
    """A young one decodes, so it is planned before the old one's prompt, which then needs its blocks."""
    scheduler = seated([8, 2], 2)
    plan = planner(scheduler, 4, blocks=4)
    young = scheduler.active[1]
    young.state = State.DECODING
    plan.cache.start(1, young.text)
    plan.cache.reserve(1, 2)
    plan.cache.commit(1, young.text)
    young.started, young.cached, young.reserved = True, 2, 2
    young.text.append(7)
    for first in (0, 3):
        works = plan.plan()
        assert computed(works)[0][0] == first
        if 1 not in computed(works):
            break
        commit(plan, works)
    assert computed(works) == {0: (3, 3)} and young.state is State.WAITING and plan.cache.used == 3


def test_the_oldest_always_gets_on() -> None:
    """Two that cannot both be held: each step the oldest computes something, so they cannot preempt one another."""
    scheduler = seated([5, 5], 2)
    plan = planner(scheduler, 6, blocks=6, size=1)
    oldest = scheduler.active[0]
    for _ in range(2):
        before = len(oldest.text) - oldest.remaining
        commit(plan, plan.plan())
        assert len(oldest.text) - oldest.remaining > before and oldest.preemptions == 0
    with pytest.raises(RuntimeError, match="does not fit into the cache alone"):
        plan.plan()  # 7 positions on 6 blocks: admission refuses such a request


def test_blocks_of_one_that_only_keeps_its_slot_go_first() -> None:
    scheduler = seated([4, 4], 2, Policy.STATIC)
    plan = planner(scheduler, 8, blocks=4)
    commit(plan, plan.plan())
    done, other = scheduler.active
    done.end(State.FINISHED, "", 1.0)
    assert computed(plan.plan()) == {1: (4, 1)}
    assert not done.started and scheduler.held == [done] and other.preemptions == 0
