"""A fixed number of blocks with reference counts.

Every block is in exactly one of three states, so that free + used + evictable = blocks at all times:

- used: at least one reference, whether by one block table or by many;
- evictable: no reference, but its contents may be asked for again; the least recently dropped goes first;
- free: no reference, and nothing in it that anyone could ask for.

Block tables and reference counts as in Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention" (SOSP 2023), section 4.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class OutOfBlocks(RuntimeError):
    """More blocks were asked for than are free or evictable; nothing has changed."""

    def __init__(self, asked: int, available: int) -> None:
        super().__init__(f"{asked} blocks asked for, {available} available")
        self.asked, self.available = asked, available


class BlockPool:
    """`blocks` blocks, numbered from 0. forget: called with every block that is evicted, before it is free.

    Raises ValueError for fewer than one block.
    """

    def __init__(self, blocks: int, forget: Callable[[int], None]) -> None:
        if blocks < 1:
            raise ValueError(f"a pool needs at least one block, not {blocks}")
        self._references = [0] * blocks
        self._free = list(range(blocks - 1, -1, -1))  # a stack: block 0 goes first
        self._evictable: OrderedDict[int, None] = OrderedDict()  # least recently dropped first
        self._forget = forget

    @property
    def free(self) -> int:
        """Blocks without reference and without contents that could be asked for."""
        return len(self._free)

    @property
    def evictable(self) -> int:
        """Blocks without reference whose contents are kept."""
        return len(self._evictable)

    @property
    def used(self) -> int:
        """Blocks with a reference; one that many tables hold counts once."""
        return len(self._references) - self.free - self.evictable

    @property
    def available(self) -> int:
        """Blocks that `take` could hand out: free ones, then evictable ones."""
        return self.free + self.evictable

    def references(self, block: int) -> int:
        """How many references a block has. Raises ValueError for a number that is no block."""
        if not 0 <= block < len(self._references):
            raise ValueError(f"block {block} of a pool of {len(self._references)}")
        return self._references[block]

    def take(self, count: int) -> list[int]:
        """`count` blocks with one reference each, evicting where none is free; all of them or OutOfBlocks."""
        if count < 0:
            raise ValueError(f"cannot take {count} blocks")
        if count > self.available:
            raise OutOfBlocks(count, self.available)
        return [self._take_one() for _ in range(count)]

    def hold(self, block: int) -> None:
        """One reference more to a used or an evictable block. Raises ValueError for a free one."""
        if self.references(block) == 0 and block not in self._evictable:
            raise ValueError(f"block {block} is free: there is nothing in it to hold")
        self._evictable.pop(block, None)
        self._references[block] += 1

    def drop(self, block: int, keep: bool) -> None:
        """One reference less; without any left the block is evictable if `keep`, else free.

        Raises ValueError for a block without reference (a double free).
        """
        if self.references(block) == 0:
            raise ValueError(f"block {block} has no reference to drop")
        self._references[block] -= 1
        if self._references[block] == 0:
            self._retire(block, keep)

    def evict(self, count: int) -> None:
        """Free the `count` evictable blocks that were dropped first. Raises ValueError if there are fewer."""
        if not 0 <= count <= self.evictable:
            raise ValueError(f"cannot evict {count} blocks where {self.evictable} are evictable")
        for _ in range(count):
            block, _ = self._evictable.popitem(last=False)
            self._forget(block)
            self._free.append(block)

    def _take_one(self) -> int:
        if not self._free:
            self.evict(1)
        block = self._free.pop()
        self._references[block] = 1
        return block

    def _retire(self, block: int, keep: bool) -> None:
        if keep:
            self._evictable[block] = None
        else:
            self._free.append(block)
