"""Block tables by hand: sharing, copy-on-write, eviction, preemption, and what is refused."""

from collections.abc import Callable

import numpy as np
import pytest

from lib.paged_cache.pool import OutOfBlocks
from lib.paged_cache.tables import PagedCache

PROMPT = [*range(10)]  # at block size 4: two full blocks and two tokens


def cache_of(blocks: int = 8, block_size: int = 4, sharing: bool = True) -> PagedCache:
    return PagedCache(blocks, block_size, sharing)


def compute(cache: PagedCache, name: str, tokens: list[int]) -> int:
    """A prompt from start to commit; returns how many tokens were cached already."""
    cached = cache.start(name, tokens)
    cache.reserve(name, len(tokens) - cached)
    cache.commit(name, tokens[cached:])
    return cached


def counts(cache: PagedCache) -> tuple[int, int, int]:
    return cache.free, cache.used, cache.evictable


def test_slots_against_the_table_written_out() -> None:
    cache = cache_of(block_size=3)
    compute(cache, "a", [0])
    compute(cache, "b", [1])
    cache.reserve("a", 6)
    assert cache.table("a") == (0, 2, 3) and cache.table("b") == (1,)
    assert cache.slots("a", 0, 7) == [0, 1, 2, 6, 7, 8, 9]
    assert cache.slots("a", 2, 2) == [2, 6] and cache.slots("a", 7, 0) == []


def test_waste_is_less_than_one_block_per_sequence() -> None:
    for tokens in range(1, 30):
        cache = cache_of()
        compute(cache, "a", [0] * tokens)
        assert 0 <= cache.used * 4 - tokens < 4


def test_an_equal_prompt_shares_full_blocks_and_computes_at_least_one_token() -> None:
    cache = cache_of()
    assert compute(cache, "a", PROMPT) == 0
    assert compute(cache, "b", PROMPT) == 8
    assert cache.table("a")[:2] == cache.table("b")[:2] and cache.table("a")[2] != cache.table("b")[2]
    assert [cache.references(block) for block in cache.table("a")] == [2, 2, 1]
    assert cache.used == 4  # six without sharing
    assert compute(cache, "c", PROMPT[:8]) == 4  # all eight are stored, and the last is needed for its logits
    assert compute(cache, "d", PROMPT[:9]) == 8


def test_nothing_is_shared_without_sharing_nor_after_another_first_token() -> None:
    for cache, other in ((cache_of(sharing=False), PROMPT), (cache_of(), [99, *PROMPT[1:]])):
        compute(cache, "a", PROMPT)
        assert compute(cache, "b", other) == 0
        assert not set(cache.table("a")) & set(cache.table("b"))


def test_colliding_hashes_share_the_right_blocks_and_no_others() -> None:
    cache = PagedCache(16, 4, hashed=lambda _parent, _tokens: 7)
    compute(cache, "a", PROMPT)
    assert compute(cache, "b", [99, *PROMPT[1:]]) == 0
    assert compute(cache, "c", PROMPT) == 8
    assert cache.table("c")[:2] == cache.table("a")[:2]


def test_a_released_prompt_is_found_until_it_is_evicted() -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT)
    cache.release("a")
    assert counts(cache) == (6, 0, 2)  # the partly filled block is free: nobody could find it
    assert compute(cache, "b", PROMPT) == 8
    cache.release("b")
    cache.evict(cache.evictable)
    assert counts(cache) == (8, 0, 0) and compute(cache, "c", PROMPT) == 0


def test_eviction_takes_the_end_of_the_oldest_prefix_first() -> None:
    cache = cache_of(blocks=4)
    compute(cache, "old", PROMPT[:8])
    compute(cache, "new", [*range(50, 58)])
    cache.release("old")
    cache.release("new")
    cache.evict(1)
    assert cache.start("old again", PROMPT) == 4
    assert cache.start("new again", [*range(50, 60)]) == 8


def test_what_is_in_use_is_never_evicted() -> None:
    cache = cache_of(blocks=3)
    compute(cache, "a", PROMPT)
    cache.start("b", [1])
    with pytest.raises(OutOfBlocks, match="1 blocks asked for, 0 available"):
        cache.reserve("b", 1)


def test_of_equal_blocks_that_nobody_holds_one_is_kept() -> None:
    """Two sequences compute one prompt at the same time: neither could know of the other."""
    cache = cache_of()
    for name in ("a", "b"):
        cache.start(name, PROMPT)
        cache.reserve(name, 10)
    for name in ("a", "b"):
        cache.commit(name, PROMPT)
    assert counts(cache) == (2, 6, 0)
    cache.release("a")
    cache.release("b")
    assert counts(cache) == (6, 0, 2) and cache.start("c", PROMPT) == 8


def test_a_fork_shares_everything_and_the_first_to_go_on_gets_a_copy() -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT)
    cache.fork("a", "b")
    shared = cache.table("a")
    assert cache.table("b") == shared and cache.length("b") == 10 and cache.used == 3
    ((source, target),) = cache.reserve("b", 1)
    assert source == shared[2] and cache.table("b") == (*shared[:2], target) and cache.table("a") == shared
    assert cache.reserve("a", 1) == []  # alone with its last block by now
    assert cache.references(source) == cache.references(target) == 1


def test_a_fork_at_a_blocks_end_needs_no_copy() -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT[:8])
    cache.fork("a", "b")
    assert cache.reserve("a", 1) == cache.reserve("b", 1) == []
    assert [cache.references(block) for block in cache.table("a")] == [2, 2, 1]


def test_a_copy_on_write_counts_as_a_block_when_there_is_none() -> None:
    cache = cache_of(blocks=3)
    compute(cache, "a", PROMPT)
    cache.fork("a", "b")
    with pytest.raises(OutOfBlocks, match="1 blocks asked for, 0 available"):
        cache.reserve("b", 1)
    assert cache.table("b") == cache.table("a")
    cache.release("a")
    assert cache.reserve("b", 1) == []


def test_preemption_by_recomputation_finds_what_was_not_evicted() -> None:
    cache = cache_of(blocks=4)
    compute(cache, "victim", PROMPT)
    cache.release("victim")
    compute(cache, "urgent", [*range(50, 60)])  # three blocks: the victim's second is evicted, its first is not
    assert cache.start("waiting", PROMPT) == 4
    cache.release("waiting")
    cache.release("urgent")
    assert compute(cache, "victim", PROMPT) == 4 and cache.length("victim") == 10


def test_a_failed_reserve_changes_nothing() -> None:
    cache = cache_of(blocks=4)
    compute(cache, "gone", [7] * 5)
    cache.release("gone")
    compute(cache, "a", PROMPT)
    before = counts(cache), cache.table("a"), cache.length("a")
    with pytest.raises(OutOfBlocks) as refusal:
        cache.reserve("a", 7)
    assert (refusal.value.asked, refusal.value.available) == (2, 1)
    assert (counts(cache), cache.table("a"), cache.length("a")) == before
    assert cache.start("again", [7] * 5) == 4  # nothing was evicted for it either


def test_reservations_add_up_and_slots_stay_while_they_are_committed_in_pieces() -> None:
    cache = cache_of()
    cache.start("a", PROMPT)
    cache.reserve("a", 3)
    slots = cache.slots("a", 0, 3)
    cache.reserve("a", 7)
    cache.commit("a", PROMPT[:5])
    assert cache.slots("a", 0, 10)[:3] == slots and cache.length("a") == 5
    cache.commit("a", PROMPT[5:])
    assert cache.table("a") == (0, 1, 2)


def test_fits_is_what_a_reserve_of_a_new_sequence_can_do() -> None:
    for count in range(14):
        cache = cache_of(blocks=3)
        compute(cache, "gone", [7] * 4)
        cache.release("gone")
        promised = cache.fits(count)
        cache.start("a", [1])
        if count and promised:
            cache.reserve("a", count)
        elif count:
            with pytest.raises(OutOfBlocks):
                cache.reserve("a", count)


def test_array_scalars_are_the_same_tokens_as_integers() -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT)
    assert cache.start("b", np.arange(10)) == 8  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        cache.start("c", [1.5, 2.5])  # type: ignore[list-item]


REFUSED: dict[str, tuple[Callable[[PagedCache], object], type[Exception], str]] = {
    "block size 0": (lambda _: PagedCache(4, 0), ValueError, "not 0"),
    "no blocks": (lambda _: PagedCache(0, 4), ValueError, "not 0"),
    "name in use": (lambda c: c.start("a", [1]), ValueError, "'a'"),
    "no tokens": (lambda c: c.start("b", []), ValueError, "'b' starts with no tokens"),
    "reserve nothing": (lambda c: c.reserve("a", 0), ValueError, "reserve 0 positions for 'a'"),
    "reserve less than nothing": (lambda c: c.reserve("a", -3), ValueError, "reserve -3"),
    "reserve for nobody": (lambda c: c.reserve("x", 1), KeyError, "'x'"),
    "slots not reserved": (lambda c: c.slots("a", 8, 3), ValueError, "3 positions from 8 on of 'a', which has 10"),
    "slots before the first": (lambda c: c.slots("a", -1, 2), ValueError, "from -1 on"),
    "a negative number of slots": (lambda c: c.slots("a", 5, -1), ValueError, "-1 positions"),
    "slots of nobody": (lambda c: c.slots("x", 0, 1), KeyError, "'x'"),
    "commit beyond what is reserved": (lambda c: c.commit("a", [1]), ValueError, "1 tokens of 'a', .* for 0"),
    "commit nothing": (lambda c: c.commit("a", []), ValueError, "commit 0 tokens"),
    "commit for nobody": (lambda c: c.commit("x", [1]), KeyError, "'x'"),
    "fork of nobody": (lambda c: c.fork("x", "b"), KeyError, "'x'"),
    "fork onto itself": (lambda c: c.fork("a", "a"), ValueError, "'a' is there"),
    "release of nobody": (lambda c: c.release("x"), KeyError, "'x'"),
    "length of nobody": (lambda c: c.length("x"), KeyError, "'x'"),
    "table of nobody": (lambda c: c.table("x"), KeyError, "'x'"),
    "no such block": (lambda c: c.references(99), ValueError, "block 99"),
    "fit less than nothing": (lambda c: c.fits(-1), ValueError, "-1"),
    "evict too much": (lambda c: c.evict(1), ValueError, "evict 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_and_changes_nothing(case: str) -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT)
    action, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        action(cache)
    assert counts(cache) == (5, 3, 0) and cache.table("a") == (0, 1, 2) and cache.length("a") == 10


def test_a_second_release_is_refused() -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT)
    cache.release("a")
    with pytest.raises(KeyError, match="'a'"):
        cache.release("a")
    assert counts(cache) == (6, 0, 2)


def test_a_fork_is_refused_while_positions_wait_to_be_written() -> None:
    cache = cache_of()
    compute(cache, "a", PROMPT)
    cache.reserve("a", 2)
    with pytest.raises(ValueError, match="'a' has 2 reserved positions"):
        cache.fork("a", "b")
    with pytest.raises(KeyError):
        cache.table("b")
