"""A plain model beside the paged cache, driven by Hypothesis: token lists, and a dict that stands for the storage.

The dict maps a physical slot to (token, position, prefix): what a model would have written there, and after which
tokens. Reading a sequence through its table must give its own tokens, each with its own prefix.
"""

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from lib.paged_cache.hashing import chained_hash
from lib.paged_cache.pool import OutOfBlocks
from lib.paged_cache.tables import PagedCache


def always_seven(_parent, _tokens):
    return 7


def sum_of_tokens(_parent, tokens):
    return sum(tokens)


HASHES = [chained_hash, always_seven, sum_of_tokens]
TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=7)  # two different tokens: prefixes meet often


def build(blocks, block_size, sharing, hashed):
    return PagedCache(blocks, block_size, sharing, hashed=hashed)


class PagedCacheMachine(RuleBasedStateMachine):
    """`build` makes the cache; a planted fault replaces it."""

    build = staticmethod(build)
    names = Bundle("names")

    @initialize(
        blocks=st.sampled_from([1, 2, 3, 5, 8, 12, 20, 30]), size=st.integers(1, 4),
        sharing=st.sampled_from([True, True, True, False]),
        hashed=st.sampled_from(HASHES),
    )  # fmt: skip
    def create(self, blocks, size, sharing, hashed):
        self.total, self.size, self.sharing = blocks, size, sharing
        self.cache = self.build(blocks, size, sharing, hashed)
        self.tokens, self.reserved, self.stored, self.started = {}, {}, {}, 0

    @rule(target=names, tokens=TOKENS)
    def start(self, tokens):
        name = self.new_name()
        cached = self.cache.start(name, tokens)
        assert 0 <= cached <= len(tokens) - 1 and cached % self.size == 0
        if self.sharing:  # a live sequence's blocks are not evicted, so its full blocks are always found
            assert cached >= max((self.common_full(tokens, own) for own in self.tokens.values()), default=0)
        else:
            assert cached == 0
        self.tokens[name], self.reserved[name] = tokens[:cached], cached
        return name

    @rule(target=names, tokens=TOKENS)
    def request(self, tokens):
        """A prompt that is computed at once, as an engine does."""
        name = self.start(tokens)
        self.decode(name, tokens[len(self.tokens[name]) :])
        return name

    @rule(target=names, name=names, more=TOKENS)
    def request_with_the_same_beginning(self, name, more):
        return self.request([*self.tokens[name], *more])

    @rule(target=names, name=consumes(names))
    def preempt_and_recompute(self, name):
        tokens = self.tokens[name]
        self.release(name)
        return self.request([*tokens, 1])

    @rule(name=names, count=st.integers(1, 5))
    def reserve(self, name, count):
        before, need = self.everything(), self.blocks_needed(name, count)
        possible = need <= self.cache.free + self.cache.evictable
        if not possible:
            with pytest.raises(OutOfBlocks, match=f"^{need} blocks .*, {self.cache.free + self.cache.evictable} "):
                self.cache.reserve(name, count)
            assert self.everything() == before
            return
        pairs = self.cache.reserve(name, count)
        self.reserved[name] += count
        for source, target in pairs:
            self.copy_block(source, target)

    @precondition(lambda self: any(self.room(name) for name in self.tokens))
    @rule(name=names, data=st.data())
    def write_and_commit(self, name, data):
        if not self.room(name):
            return
        tokens = data.draw(TOKENS)[: self.room(name)]
        self.write(name, tokens)
        self.cache.commit(name, tokens)
        self.tokens[name] = self.tokens[name] + tokens

    @rule(name=names, tokens=TOKENS)
    def decode(self, name, tokens):
        """The usual step: room, keys and values, commit."""
        self.reserve(name, len(tokens))
        if self.room(name) >= len(tokens):
            self.write(name, tokens)
            self.cache.commit(name, tokens)
            self.tokens[name] = self.tokens[name] + tokens

    @rule(target=names, name=names, tokens=TOKENS, which=st.booleans())
    def branch(self, name, tokens, which):
        """Fork, and one of both goes on: the other must not notice."""
        other = self.fork(name)
        self.decode(other if which else name, tokens)
        return other

    @rule(target=names, name=names)
    def fork(self, name):
        other = self.new_name()
        if self.room(name):
            before = self.everything()
            with pytest.raises(ValueError, match="not yet committed"):
                self.cache.fork(name, other)
            assert self.everything() == before
            return self.start([1])
        self.cache.fork(name, other)
        self.tokens[other], self.reserved[other] = self.tokens[name], self.reserved[name]
        return other

    @rule(name=consumes(names))
    def release(self, name):
        self.cache.release(name)
        del self.tokens[name], self.reserved[name]

    @precondition(lambda self: self.cache.evictable)
    @rule(data=st.data())
    def evict(self, data):
        count = data.draw(st.integers(1, self.cache.evictable))
        free, evictable = self.cache.free, self.cache.evictable
        self.cache.evict(count)
        assert (self.cache.free, self.cache.evictable) == (free + count, evictable - count)

    @invariant()
    def every_block_is_counted_once(self):
        assert self.cache.free + self.cache.used + self.cache.evictable == self.total
        assert min(self.cache.free, self.cache.used, self.cache.evictable) >= 0

    @invariant()
    def references_are_the_tables_that_hold_a_block(self):
        holders = Counter(block for name in self.tokens for block in self.cache.table(name))
        assert holders == Counter({b: n for b in range(self.total) if (n := self.cache.references(b))})
        assert self.cache.used == len(holders)

    @invariant()
    def every_sequence_reads_its_own_tokens(self):
        for name, tokens in self.tokens.items():
            assert self.cache.length(name) == len(tokens)
            slots = self.cache.slots(name, 0, len(tokens))
            assert [self.stored.get(slot) for slot in slots] == contents(tokens)

    @invariant()
    def what_is_still_to_be_written_belongs_to_one_sequence(self):
        writable = Counter(slot for name in self.tokens for slot in self.writable(name))
        readable = {s for name, own in self.tokens.items() for s in self.cache.slots(name, 0, len(own))}
        assert set(writable.values()) <= {1} and not readable & writable.keys()

    @invariant()
    def tables_are_no_longer_than_needed(self):
        for name, reserved in self.reserved.items():
            assert len(self.cache.table(name)) == -(-reserved // self.size)

    def teardown(self):
        """Whatever happened: after the last release nothing is held, and after eviction nothing is known."""
        if not hasattr(self, "cache"):
            return
        for name in [*self.tokens]:
            self.cache.release(name)
        assert self.cache.used == 0 and self.cache.free + self.cache.evictable == self.total
        self.cache.evict(self.cache.evictable)
        assert self.cache.free == self.total and len(self.cache._index) == 0
        self.cache.start("last", [0])
        self.cache.reserve("last", self.total * self.size)
        assert sorted(self.cache.table("last")) == [*range(self.total)]

    def new_name(self):
        self.started += 1
        return self.started

    def room(self, name):
        return self.reserved[name] - len(self.tokens[name])

    def writable(self, name):
        return self.cache.slots(name, len(self.tokens[name]), self.room(name))

    def common_full(self, tokens, own):
        """Positions of the full blocks in which `tokens`, without its last, and `own` begin alike."""
        same = next((i for i, (a, b) in enumerate(zip(tokens[:-1], own, strict=False)) if a != b), None)
        return (min(len(tokens) - 1, len(own)) if same is None else same) // self.size * self.size

    def blocks_needed(self, name, count):
        """By definition: new blocks, and one more if the next position lies in a block that others hold."""
        table, reserved = self.cache.table(name), self.reserved[name]
        shared = reserved % self.size != 0 and any(table[-1] in self.cache.table(n) for n in self.tokens if n != name)
        return -(-(reserved + count) // self.size) - len(table) + shared

    def write(self, name, tokens):
        first = len(self.tokens[name])
        slots = self.cache.slots(name, first, len(tokens))
        assert all(self.cache.references(slot // self.size) == 1 for slot in slots)
        assert all(slot // self.size in self.cache.table(name) for slot in slots)
        self.stored.update(zip(slots, contents(self.tokens[name] + tokens)[first:], strict=True))

    def copy_block(self, source, target):
        for offset in range(self.size):
            self.stored[target * self.size + offset] = self.stored.get(source * self.size + offset)

    def everything(self):
        return (
            self.cache.free, self.cache.used, self.cache.evictable,
            [self.cache.references(block) for block in range(self.total)],
            {name: (self.cache.table(name), self.cache.length(name)) for name in self.tokens},
            {name: self.cache.slots(name, 0, n) for name, n in self.reserved.items()},
        )  # fmt: skip


def contents(tokens):
    return [(token, position, tuple(tokens[:position])) for position, token in enumerate(tokens)]
