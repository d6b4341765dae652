"""Blocks found again by what is in them: a chain of hashes over whole prefixes, with every token compared.

The keys and values of a block depend on all tokens before it, so a block is known by its prefix, not by its own
tokens. A prefix of full blocks is a chain of nodes; a node's hash covers its parent's hash and its own tokens. Equal
hashes prove nothing: a node is found only if its parent is the very node before it and its tokens are equal, which,
from the root on, compares the whole prefix. The hash function therefore decides about speed and never about truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Hashed = Callable[[int, tuple[int, ...]], int]


def chained_hash(parent: int, tokens: tuple[int, ...]) -> int:
    """The hash of a block from its parent's hash and its own tokens; the same in every process."""
    return hash((parent, tokens))


class Node:
    """A prefix of full blocks. blocks: those that hold its last block's keys and values, the oldest first.

    holders: child nodes, blocks, and sequences that stand here; at zero the node goes.
    """

    __slots__ = ("blocks", "holders", "key", "parent", "tokens")

    def __init__(self, parent: Node | None, tokens: tuple[int, ...], key: int) -> None:
        self.parent, self.tokens, self.key = parent, tokens, key
        self.blocks: list[int] = []
        self.holders = 0


class PrefixIndex:
    """Which block holds which prefix. Holds no references to blocks: that a block is alive is the pool's business."""

    def __init__(self, hashed: Hashed = chained_hash) -> None:
        self.root = Node(None, (), 0)  # the empty prefix; it never goes
        self._hashed = hashed
        self._nodes: dict[int, list[Node]] = {}
        self._of_block: dict[int, Node] = {}

    def __len__(self) -> int:
        """Prefixes known, without the empty one."""
        return sum(map(len, self._nodes.values()))

    def longest(self, chunks: Iterable[tuple[int, ...]]) -> list[tuple[Node, int]]:
        """The (node, block) pairs of the longest stored prefix of these full blocks, first block first."""
        found: list[tuple[Node, int]] = []
        node: Node | None = self.root
        for chunk in chunks:
            node = self._child(node, chunk) if node else None
            if node is None or not node.blocks:  # a node whose block was evicted may still have children
                break
            found.append((node, node.blocks[0]))
        return found

    def place(self, parent: Node, tokens: tuple[int, ...], block: int) -> Node:
        """Make a block findable as the continuation of `parent` by `tokens`; returns its node.

        Raises ValueError for a block that is findable already: its contents would be two things at once.
        """
        if block in self._of_block:
            raise ValueError(f"block {block} already holds a prefix")
        node = self._child(parent, tokens) or self._add(parent, tokens)
        node.blocks.append(block)
        self._of_block[block] = node
        return self.hold(node)  # for the block; `forget` leaves

    def only_copy(self, block: int) -> bool:
        """Whether the block is findable and the only one that holds its prefix."""
        node = self._of_block.get(block)
        return node is not None and node.blocks == [block]

    def forget(self, block: int) -> None:
        """The block's contents are gone; nothing happens for a block that was not findable."""
        node = self._of_block.pop(block, None)
        if node is not None:
            node.blocks.remove(block)
            self.leave(node)

    def hold(self, node: Node) -> Node:
        """Keep a node although none of its blocks may be left, because a sequence will continue it."""
        node.holders += 1
        return node

    def leave(self, node: Node) -> None:
        """The opposite of `hold`. Nodes that nothing stands on go, up the chain."""
        node.holders -= 1
        while node.holders == 0 and node.parent is not None:
            bucket = self._nodes[node.key]
            bucket.remove(node)
            if not bucket:
                del self._nodes[node.key]
            node = node.parent
            node.holders -= 1

    def _child(self, parent: Node, tokens: tuple[int, ...]) -> Node | None:
        candidates = self._nodes.get(self._hashed(parent.key, tokens), ())
        return next((node for node in candidates if self._matches(node, parent, tokens)), None)

    def _matches(self, node: Node, parent: Node, tokens: tuple[int, ...]) -> bool:
        return node.parent is parent and node.tokens == tokens

    def _add(self, parent: Node, tokens: tuple[int, ...]) -> Node:
        node = Node(self.hold(parent), tokens, self._hashed(parent.key, tokens))
        self._nodes.setdefault(node.key, []).append(node)
        return node
