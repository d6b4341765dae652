"""The pool of blocks and the prefix index: the three states by hand, and what each refuses."""

import pytest

from lib.paged_cache.hashing import PrefixIndex, chained_hash
from lib.paged_cache.pool import BlockPool, OutOfBlocks


def pool_of(blocks: int) -> tuple[BlockPool, list[int]]:
    forgotten: list[int] = []
    return BlockPool(blocks, forgotten.append), forgotten


def states(pool: BlockPool) -> tuple[int, int, int]:
    return pool.free, pool.used, pool.evictable


def test_the_three_states_by_hand() -> None:
    pool, forgotten = pool_of(3)
    first, second = pool.take(2)
    assert states(pool) == (1, 2, 0)
    pool.drop(first, keep=True)
    pool.drop(second, keep=False)
    assert states(pool) == (2, 0, 1) and not forgotten
    pool.take(3)
    assert states(pool) == (0, 3, 0) and forgotten == [first]


def test_free_blocks_are_taken_before_any_is_evicted() -> None:
    pool, forgotten = pool_of(3)
    pool.drop(pool.take(1)[0], keep=True)
    assert 0 not in pool.take(2) and not forgotten


def test_the_block_dropped_first_is_evicted_first_unless_it_was_held_since() -> None:
    pool, forgotten = pool_of(3)
    for block in pool.take(3):
        pool.drop(block, keep=True)
    pool.hold(0)
    pool.drop(0, keep=True)
    pool.evict(2)
    assert forgotten == [1, 2] and states(pool) == (2, 0, 1)


def test_a_block_held_again_is_not_evictable() -> None:
    pool, forgotten = pool_of(1)
    pool.drop(*pool.take(1), keep=True)
    pool.hold(0)
    with pytest.raises(OutOfBlocks):
        pool.take(1)
    assert not forgotten and states(pool) == (0, 1, 0)


def test_references_count_every_hold() -> None:
    pool, _ = pool_of(2)
    (block,) = pool.take(1)
    pool.hold(block)
    pool.drop(block, keep=False)
    assert (pool.references(block), states(pool)) == (1, (1, 1, 0))


def test_too_many_blocks_asked_for_changes_nothing_and_says_how_many() -> None:
    pool, forgotten = pool_of(3)
    pool.drop(pool.take(2)[0], keep=True)
    with pytest.raises(OutOfBlocks, match="3 blocks asked for, 2 available") as refusal:
        pool.take(3)
    assert (refusal.value.asked, refusal.value.available) == (3, 2)
    assert states(pool) == (1, 1, 1) and not forgotten


def test_a_double_free_and_a_hold_of_nothing_are_refused() -> None:
    pool, _ = pool_of(2)
    pool.drop(*pool.take(1), keep=False)
    with pytest.raises(ValueError, match="block 0 has no reference"):
        pool.drop(0, keep=False)
    with pytest.raises(ValueError, match="block 0 is free"):
        pool.hold(0)
    assert states(pool) == (2, 0, 0)


@pytest.mark.parametrize("blocks", [0, -1])
def test_a_pool_without_blocks_is_refused(blocks: int) -> None:
    with pytest.raises(ValueError, match=f"not {blocks}"):
        pool_of(blocks)


@pytest.mark.parametrize("block", [-1, 2])
def test_a_number_that_is_no_block_is_refused(block: int) -> None:
    """A negative one would otherwise count from the end of a list."""
    with pytest.raises(ValueError, match=f"block {block} of a pool of 2"):
        pool_of(2)[0].references(block)


def test_impossible_counts_are_refused() -> None:
    pool, _ = pool_of(2)
    with pytest.raises(ValueError, match="take -1"):
        pool.take(-1)
    with pytest.raises(ValueError, match="evict 1 blocks where 0"):
        pool.evict(1)
    with pytest.raises(ValueError, match="evict -1"):
        pool.evict(-1)


def blocks_found(index: PrefixIndex, *chunks: tuple[int, ...]) -> list[int]:
    return [block for _, block in index.longest(chunks)]


def chain(index: PrefixIndex, *placed: tuple[tuple[int, ...], int]) -> None:
    node = index.root
    for chunk, block in placed:
        node = index.place(node, chunk, block)


@pytest.mark.parametrize("hashed", [chained_hash, lambda _parent, _tokens: 7])
def test_equal_blocks_after_other_prefixes_are_others_whatever_the_hash(hashed) -> None:  # type: ignore[no-untyped-def]
    index = PrefixIndex(hashed)
    chain(index, ((1, 1), 0), ((5, 5), 1))
    chain(index, ((2, 2), 2), ((5, 5), 3))
    assert blocks_found(index, (1, 1), (5, 5)) == [0, 1]
    assert blocks_found(index, (2, 2), (5, 5), (6, 6)) == [2, 3]
    assert blocks_found(index, (5, 5)) == blocks_found(index, (3, 3), (5, 5)) == []


def test_equal_blocks_after_other_prefixes_are_confused_by_the_hash_of_own_tokens() -> None:
    """The wrong variant: it takes both the hash and the comparison of the parent to let the prefix be forgotten."""

    class OwnTokens(PrefixIndex):
        def _matches(self, node, _parent, tokens):  # type: ignore[no-untyped-def]
            return bool(node.tokens == tokens)

    index = OwnTokens(lambda _parent, tokens: hash(tokens))
    chain(index, ((1, 1), 0), ((5, 5), 1))
    chain(index, ((2, 2), 2))
    assert blocks_found(index, (2, 2), (5, 5)) == [2, 1]


def test_the_end_of_a_prefix_is_found_again_when_its_evicted_beginning_is_computed_again() -> None:
    index = PrefixIndex()
    chain(index, ((1,), 0), ((2,), 1))
    index.forget(0)
    assert blocks_found(index, (1,), (2,)) == []
    chain(index, ((1,), 5))
    assert blocks_found(index, (1,), (2,)) == [5, 1]


def test_nodes_go_with_the_last_that_stands_on_them() -> None:
    index = PrefixIndex()
    chain(index, ((1,), 0), ((2,), 1), ((3,), 2))
    for block, left in ((0, 3), (1, 3), (2, 0)):  # a chain goes from its end
        index.forget(block)
        assert len(index) == left
    index.forget(2)  # not findable any more: nothing happens
    assert len(index) == 0


def test_a_block_cannot_hold_two_prefixes() -> None:
    index = PrefixIndex()
    chain(index, ((1,), 0))
    with pytest.raises(ValueError, match="block 0 already"):
        index.place(index.root, (2,), 0)
