"""Block tables: which physical slots hold a sequence's keys and values, and which blocks sequences share.

Bookkeeping only, no tensor. A sequence is started, then in turn reserves room, has keys and values written to the
slots by whoever computes them, and commits the tokens that are written. Full blocks of an equal prefix are shared
without asking; a fork shares the last, partly filled block as well, and whoever reserves first gets a copy of it
(copy-on-write), so no block is ever written while more than one table holds it. Preemption by recomputation is
`release` and later `start` with all tokens so far: what was not evicted in between is found again.

After Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention" (SOSP 2023).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import index

from lib.paged_cache.hashing import Hashed, Node, PrefixIndex, chained_hash
from lib.paged_cache.pool import BlockPool


@dataclass
class _Sequence:
    """length: committed positions. reserved: positions with a slot. tail: committed tokens after `node`'s prefix."""

    node: Node
    table: list[int] = field(default_factory=list)
    tail: list[int] = field(default_factory=list)
    length: int = 0
    reserved: int = 0


class PagedCache:
    """Tables over a pool of `blocks` blocks of `block_size` positions; free + used + evictable = blocks.

    sharing: whether `start` looks for a stored prefix. hashed: the hash of a block from its parent's hash and its
    tokens; a bad one costs time only. Raises ValueError for a block size or number of blocks below one.
    """

    def __init__(self, blocks: int, block_size: int, sharing: bool = True, *, hashed: Hashed = chained_hash) -> None:
        if block_size < 1:
            raise ValueError(f"a block needs at least one position, not {block_size}")
        self.blocks, self.block_size, self.sharing = blocks, block_size, sharing
        self._index = PrefixIndex(hashed)
        self._pool = BlockPool(blocks, self._index.forget)
        self._sequences: dict[Hashable, _Sequence] = {}

    @property
    def free(self) -> int:
        """Blocks that nobody holds and that hold nothing findable."""
        return self._pool.free

    @property
    def used(self) -> int:
        """Blocks in at least one table; a shared block counts once."""
        return self._pool.used

    @property
    def evictable(self) -> int:
        """Full blocks that no table holds and that `start` can still find."""
        return self._pool.evictable

    def start(self, name: Hashable, tokens: Sequence[int]) -> int:
        """Begin a sequence that is about to compute `tokens`; returns how many of them are cached already.

        A multiple of the block size, and at most len(tokens) - 1: the last token is computed for its logits.
        Raises ValueError for a name in use and for no tokens.
        """
        self._must_be_new(name)
        if len(tokens) == 0:
            raise ValueError(f"sequence {name!r} starts with no tokens")
        ids = _ids(tokens[: len(tokens) - 1])
        found = self._index.longest(_chunks(ids, self.block_size)) if self.sharing else []
        for _, block in found:
            self._pool.hold(block)
        node = self._index.hold(found[-1][0] if found else self._index.root)
        cached = len(found) * self.block_size
        self._sequences[name] = _Sequence(node, [block for _, block in found], [], cached, cached)
        return cached

    def reserve(self, name: Hashable, count: int) -> list[tuple[int, int]]:
        """Room for `count` positions after those already reserved; evicts where no block is free.

        Returns (source, target) blocks that the storage must copy before anything more is written. Raises OutOfBlocks
        with nothing changed, KeyError for an unknown name, ValueError for a count below one.
        """
        sequence = self._of(name)
        if count < 1:
            raise ValueError(f"cannot reserve {count} positions for {name!r}")
        copied = self._last_is_shared(sequence)
        more = self._blocks_for(sequence.reserved + count) - len(sequence.table)
        taken = self._pool.take(more + copied)
        pairs = [self._replace_last(sequence, taken.pop())] if copied else []
        sequence.table += taken
        sequence.reserved += count
        return pairs

    def slots(self, name: Hashable, first: int, count: int) -> list[int]:
        """Physical slots, block · block_size + offset, of the positions first … first + count - 1; none for count 0.

        Raises ValueError for positions that are not reserved, KeyError for an unknown name.
        """
        sequence = self._of(name)
        if first < 0 or count < 0 or first + count > sequence.reserved:
            raise ValueError(
                f"{count} positions from {first} on of {name!r}, which has {sequence.reserved} reserved positions"
            )
        return [self._slot(sequence.table, position) for position in range(first, first + count)]

    def commit(self, name: Hashable, tokens: Sequence[int]) -> None:
        """The keys and values of these next tokens are written: the sequence grows, full blocks become findable.

        Raises ValueError for no tokens and for more than there are reserved, KeyError for an unknown name.
        """
        sequence, ids = self._of(name), _ids(tokens)
        room = sequence.reserved - sequence.length
        if not 1 <= len(ids) <= room:
            raise ValueError(f"cannot commit {len(ids)} tokens of {name!r}, which has room reserved for {room}")
        sequence.tail += ids
        sequence.length += len(ids)
        self._close_full_blocks(sequence)

    def fork(self, name: Hashable, other: Hashable) -> None:
        """Begin `other` as a copy of `name`: it shares every committed position, the last block included.

        Raises ValueError for a name in use, and while `name` has reserved positions that are not committed: they
        would be written to a block that is shared by then. KeyError for an unknown name.
        """
        parent = self._of(name)
        self._must_be_new(other)
        if parent.reserved != parent.length:
            raise ValueError(f"{name!r} has {parent.reserved - parent.length} reserved positions not yet committed")
        for block in parent.table:
            self._pool.hold(block)
        node = self._index.hold(parent.node)
        self._sequences[other] = _Sequence(node, [*parent.table], [*parent.tail], parent.length, parent.reserved)

    def release(self, name: Hashable) -> None:
        """End a sequence: its references are dropped; full blocks stay findable until they are evicted.

        The last block goes first, so that eviction shortens a prefix from its end. KeyError for an unknown name.
        """
        sequence = self._of(name)
        del self._sequences[name]
        for block in reversed(sequence.table):
            self._let_go(block)
        self._index.leave(sequence.node)

    def evict(self, count: int) -> None:
        """Forget the `count` least recently used blocks that nobody holds; `evict(cache.evictable)` for a cold cache.

        Raises ValueError if there are fewer.
        """
        self._pool.evict(count)

    def length(self, name: Hashable) -> int:
        """Committed positions, those found by `start` included."""
        return self._of(name).length

    def table(self, name: Hashable) -> tuple[int, ...]:
        """The blocks of a sequence in logical order, those reserved and not yet written included."""
        return tuple(self._of(name).table)

    def references(self, block: int) -> int:
        """How many tables hold a block."""
        return self._pool.references(block)

    def fits(self, count: int) -> bool:
        """Whether a sequence of its own, with nothing to share, could reserve `count` positions now."""
        if count < 0:
            raise ValueError(f"cannot fit {count} positions")
        return self._blocks_for(count) <= self._pool.available

    def _of(self, name: Hashable) -> _Sequence:
        if name not in self._sequences:
            raise KeyError(f"no sequence {name!r}")
        return self._sequences[name]

    def _must_be_new(self, name: Hashable) -> None:
        if name in self._sequences:
            raise ValueError(f"a sequence {name!r} is there already")

    def _blocks_for(self, positions: int) -> int:
        return -(-positions // self.block_size)

    def _slot(self, table: Sequence[int], position: int) -> int:
        return table[position // self.block_size] * self.block_size + position % self.block_size

    def _last_is_shared(self, sequence: _Sequence) -> bool:
        """Whether the next position lies in a block that another table holds too."""
        return sequence.reserved % self.block_size != 0 and self.references(sequence.table[-1]) > 1

    def _replace_last(self, sequence: _Sequence, target: int) -> tuple[int, int]:
        source, sequence.table[-1] = sequence.table[-1], target
        self._let_go(source)
        return source, target

    def _let_go(self, block: int) -> None:
        """Drop a reference. Of equal blocks that nobody holds one is kept, and of a partly filled one none."""
        keep = self._index.only_copy(block)
        if not keep and self.references(block) == 1:
            self._index.forget(block)
        self._pool.drop(block, keep)

    def _close_full_blocks(self, sequence: _Sequence) -> None:
        first = (sequence.length - len(sequence.tail)) // self.block_size
        full = list(_chunks(sequence.tail, self.block_size))
        for number, chunk in enumerate(full, first):
            if self.sharing:
                before = sequence.node
                sequence.node = self._index.hold(self._index.place(before, chunk, sequence.table[number]))
                self._index.leave(before)
        del sequence.tail[: len(full) * self.block_size]


def _ids(tokens: Sequence[int]) -> list[int]:
    """Plain integers, whatever integers came: hashes and comparisons of array scalars are another matter."""
    return [index(token) for token in tokens]


def _chunks(ids: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """The full chunks, in order; what is left over at the end is no chunk."""
    return (tuple(ids[at : at + size]) for at in range(0, len(ids) - size + 1, size))
