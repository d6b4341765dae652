"""Faults of a paged cache, each as someone really writes it: a class that changes one line of ours."""

from lib.paged_cache.hashing import PrefixIndex
from lib.paged_cache.pool import BlockPool, OutOfBlocks
from lib.paged_cache.tables import PagedCache

COLLIDING = staticmethod(lambda _parent, _tokens: 7)


def faulty_cache(fault):
    """A `build` for the state machine: the real cache, with the classes that `fault` names in place of its own."""

    def build(blocks, block_size, sharing, hashed):
        cache = fault.get("cache", PagedCache)(blocks, block_size, sharing, hashed=fault.get("hashed", hashed))
        cache._pool.__class__ = fault.get("pool", BlockPool)
        cache._index.__class__ = fault.get("index", PrefixIndex)
        return cache

    return build


class ReleasesTheFirstBlockTwice(PagedCache):
    def release(self, name):
        table = self.table(name)
        super().release(name)
        if table:
            self._pool.drop(table[0], keep=False)


class FreesWithoutLooking(BlockPool):
    """The double free goes through: a block without references is freed once more."""

    def drop(self, block, keep):
        self._references[block] = max(0, self._references[block] - 1)
        if self._references[block] == 0:
            self._retire(block, keep)


class ForkHoldsNothing(PagedCache):
    def fork(self, name, other):
        super().fork(name, other)
        for block in self.table(name):
            self._pool._references[block] -= 1


class NoCopyOnWrite(PagedCache):
    def _last_is_shared(self, _sequence):
        return False


class CopyOnWriteKeptToItself(PagedCache):
    """The table changes and the storage is never told to copy."""

    def reserve(self, name, count):
        super().reserve(name, count)
        return []


class EvictsWhatIsReferenced(BlockPool):
    """A block found again stays in the queue for eviction."""

    def hold(self, block):
        self._references[block] += 1


class EvictsWithoutForgetting(BlockPool):
    """The block is free and the index still says what used to be in it."""

    def evict(self, count):
        for _ in range(count):
            self._free.append(self._evictable.popitem(last=False)[0])


class ForgetsTheParent(PrefixIndex):
    """A block is known by its own tokens, whatever came before it."""

    def _child(self, _parent, tokens):
        return super()._child(self.root, tokens)

    def _matches(self, node, _parent, tokens):
        return node.tokens == tokens

    def _add(self, _parent, tokens):
        return super()._add(self.root, tokens)


class BelievesTheHash(PrefixIndex):
    def _matches(self, _node, _parent, _tokens):
        return True


class ComparesOwnTokensOnly(PrefixIndex):
    """The tokens are checked and the prefix before them is left to the hash."""

    def _matches(self, _node, _parent, tokens):
        return _node.tokens == tokens


class OffByOneAtTheEndOfABlock(PagedCache):
    """Every position takes the next one's slot, without going over to the next block."""

    def _slot(self, table, position):
        return table[position // self.block_size] * self.block_size + min(
            position % self.block_size + 1, self.block_size - 1
        )


class LastSlotIsTheNextBlocksFirst(PagedCache):
    def _slot(self, table, position):
        slot = super()._slot(table, position)
        return slot + 1 if self.block_size > 1 and position % self.block_size == self.block_size - 1 else slot


class AllocatesHalf(BlockPool):
    """Blocks are taken one by one until there are none, and those taken are not given back."""

    def take(self, count):
        taken = []
        for _ in range(count):
            if not self.available:
                raise OutOfBlocks(count, 0)
            taken.append(self._take_one())
        return taken


class ReleaseForgetsTheLastBlock(PagedCache):
    def release(self, name):
        sequence = self._of(name)
        sequence.table = sequence.table[:-1]
        super().release(name)


class PartialBlockIsFindable(PagedCache):
    """A block that is not full is filled up with zeros in the index, as padding, and found by that."""

    def commit(self, name, tokens):
        super().commit(name, tokens)
        sequence = self._of(name)
        block = sequence.table[(sequence.length - 1) // self.block_size]
        if self.sharing and sequence.tail and block not in self._index._of_block:
            padding = [0] * (self.block_size - len(sequence.tail))
            self._index.place(sequence.node, (*sequence.tail, *padding), block)

    def _close_full_blocks(self, sequence):
        if len(sequence.tail) >= self.block_size:
            self._index.forget(sequence.table[(sequence.length - len(sequence.tail)) // self.block_size])
        super()._close_full_blocks(sequence)


class FindableBeforeItIsWritten(PagedCache):
    """The prompt is known at the start, so its blocks go into the index as soon as they are reserved."""

    def start(self, name, tokens):
        cached = super().start(name, tokens)
        self._of(name).prompt = [*tokens]
        return cached

    def reserve(self, name, count):
        pairs, sequence = super().reserve(name, count), self._of(name)
        size, node = self.block_size, sequence.node
        prompt = getattr(sequence, "prompt", [])
        for number in range(sequence.length // size, min(len(prompt), sequence.reserved) // size):
            block = sequence.table[number]
            if self.sharing and block not in self._index._of_block:
                node = self._index.place(node, tuple(prompt[number * size : (number + 1) * size]), block)
        return pairs

    def _close_full_blocks(self, sequence):
        first = (sequence.length - len(sequence.tail)) // self.block_size
        for block in sequence.table[first : sequence.length // self.block_size]:
            self._index.forget(block)
        super()._close_full_blocks(sequence)


class LeavesNothingToCompute(PagedCache):
    """The last token of a prompt is taken from the cache too, and there are no logits to go on from."""

    def start(self, name, tokens):
        return super().start(name, [*tokens, 0])


FAULTS = {
    "double free, noticed": {"cache": ReleasesTheFirstBlockTwice},
    "double free": {"cache": ReleasesTheFirstBlockTwice, "pool": FreesWithoutLooking},
    "fork without a reference": {"cache": ForkHoldsNothing},
    "no copy on write": {"cache": NoCopyOnWrite},
    "copy on write not reported": {"cache": CopyOnWriteKeptToItself},
    "referenced block evicted": {"pool": EvictsWhatIsReferenced},
    "evicted block still findable": {"pool": EvictsWithoutForgetting},
    "hash without the parent": {"index": ForgetsTheParent},
    "no token check, hashes collide": {"index": BelievesTheHash, "hashed": COLLIDING},
    "only the block's own tokens checked, hashes collide": {"index": ComparesOwnTokensOnly, "hashed": COLLIDING},
    "offset one too high": {"cache": OffByOneAtTheEndOfABlock},
    "slot after a block's end": {"cache": LastSlotIsTheNextBlocksFirst},
    "half an allocation": {"pool": AllocatesHalf},
    "last block never released": {"cache": ReleaseForgetsTheLastBlock},
    "partial block findable": {"cache": PartialBlockIsFindable},
    "findable before it is written": {"cache": FindableBeforeItIsWritten},
    "whole prompt cached": {"cache": LeavesNothingToCompute},
}
